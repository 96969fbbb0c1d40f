"""Whatever happens to a tenant's documents, in whatever order: in the end it is as if all had been decided at once."""

from collections.abc import Iterator
from random import Random
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.documents import removal
from counterfoil.documents.matching.sql import Verdict
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import Paper, pile, read
from tests.documents.matching.whole import Whole

PILE = 60
"""Papers that a history draws from: few enough numbers, parties and articles that all have to do with one another."""


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=3)
    yield database
    database.close()


class History(RuleBasedStateMachine):
    """Documents come, are read anew, matched, decided by people, and go."""

    database: Database
    admin: Connection

    @initialize(seed=st.integers(0, 10_000))
    def open(self, seed: int) -> None:
        self.office = Office(self.database, self.admin)
        self.pile = pile(seed, PILE)
        self.papers: dict[int, Paper] = {}
        self.owed: set[int] = set()
        """Documents whose match is still to come."""
        self.said: dict[frozenset[int], Verdict] = {}

    @rule(which=st.integers(0, PILE - 1))
    def one_comes(self, which: int) -> None:
        position = self.office.file(self.pile[which])
        self.papers[position] = self.pile[which]
        self.owed.add(position)

    @precondition(lambda self: self.owed)
    @rule(random=st.randoms(use_true_random=False))
    def one_is_matched(self, random: Random) -> None:
        self._match(random.choice(sorted(self.owed)))

    @precondition(lambda self: self.papers)
    @rule(random=st.randoms(use_true_random=False))
    def one_is_matched_again(self, random: Random) -> None:
        self._match(random.choice(sorted(self.papers)))

    @precondition(lambda self: self.papers)
    @rule(random=st.randoms(use_true_random=False), which=st.integers(0, PILE - 1))
    def one_is_read_anew(self, random: Random, which: int) -> None:
        position = random.choice(sorted(self.papers))
        self.papers[position] = self.pile[which]._replace(received_at=self.papers[position].received_at)
        self.admin.execute(
            "UPDATE document SET structured_data = %s, type = %s WHERE id = %s",
            [Jsonb(self.pile[which].data), self.pile[which].kind, self.office.ids[position]],
        )
        self.owed.add(position)

    @precondition(lambda self: len(self.papers) > 1)
    @rule(random=st.randoms(use_true_random=False), verdict=st.sampled_from(("confirmed", "rejected")))
    def two_are_decided(self, random: Random, verdict: Verdict) -> None:
        pair = random.sample(sorted(self.papers), 2)
        doubts = {(a, b) for a, found in self.office.reviews().items() for b in found[0]}
        # The review of a removed candidate stays until the document is matched again.
        linked = sorted(pair for pair in self.office.links() | doubts if self.papers.keys() >= set(pair))
        if linked and random.random() < 0.7:
            pair = list(random.choice(linked))
        self.office.decide(pair[0], pair[1], verdict)
        self.said[frozenset(pair)] = verdict

    @precondition(lambda self: self.papers)
    @rule(random=st.randoms(use_true_random=False))
    def one_is_removed(self, random: Random) -> None:
        position = random.choice(sorted(self.papers))
        with self.database.tenant(self.office.tenant_id) as connection:
            assert removal.remove(connection, self.office.tenant_id, self.office.ids[position], NOW, by="clerk")
        del self.papers[position]
        self.owed.discard(position)
        self.said = {pair: verdict for pair, verdict in self.said.items() if position not in pair}
        rows = self.admin.execute(
            "SELECT id FROM document WHERE tenant_id = %s AND matching_status = 'pending'", [self.office.tenant_id]
        )
        self.owed |= {self.office.ids.index(id_) for (id_,) in rows}

    def _match(self, position: int) -> None:
        self.office.match(position)
        self.owed.discard(position)

    def teardown(self) -> None:
        """When all that is owed is done, it is what it has to be."""
        if not hasattr(self, "papers"):
            return
        while self.owed:
            self._match(min(self.owed))

        def pairs(wanted: Verdict) -> list[frozenset[UUID]]:
            found = [pair for pair, verdict in self.said.items() if verdict == wanted]
            return [frozenset(UUID(int=position + 1) for position in pair) for pair in found]

        documents = [read(paper, position + 1) for position, paper in self.papers.items()]
        whole = Whole(documents, pairs("confirmed"), pairs("rejected"))
        assert self.office.links() == {
            (min(link.child.int, link.parent.int) - 1, max(link.child.int, link.parent.int) - 1)
            for link in whole.links()
        }
        assert self.office.reviews() == {
            id_.int - 1: [[other.int - 1 for other in found] for found in doubts]
            for id_, doubts in whole.reviews().items()
        }


def test_any_history_ends_as_if_all_had_been_decided_at_once(database: Database, admin: Connection) -> None:
    machine = type("Histories", (History,), {"database": database, "admin": admin})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=12, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
