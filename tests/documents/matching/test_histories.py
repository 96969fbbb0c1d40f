"""Any history of documents leads to the result of matching all of them together."""

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
from tests.documents.matching.reference_matching import ReferenceMatching
from tests.documents.matching.samples import SampleDocument, random_samples, read
from tests.documents.matching.tenant_harness import NOW, TenantHarness

PILE = 60
"""Number of documents from which a history draws. Most of them share numbers, parties and articles."""


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=3)
    yield database
    database.close()


class History(RuleBasedStateMachine):
    """Store, replace, match and remove documents, and decide about pairs.

    The steps run in any order.
    """

    database: Database
    admin: Connection

    @initialize(seed=st.integers(0, 10_000))
    def open(self, seed: int) -> None:
        self.harness = TenantHarness(self.database, self.admin)
        self.pile = random_samples(seed, PILE)
        self.samples: dict[int, SampleDocument] = {}
        self.pending: set[int] = set()
        """Positions of documents whose match is pending."""
        self.decisions: dict[frozenset[int], Verdict] = {}

    @rule(index=st.integers(0, PILE - 1))
    def file_document(self, index: int) -> None:
        position = self.harness.file(self.pile[index])
        self.samples[position] = self.pile[index]
        self.pending.add(position)

    @precondition(lambda self: self.pending)
    @rule(random=st.randoms(use_true_random=False))
    def match_pending(self, random: Random) -> None:
        self._match(random.choice(sorted(self.pending)))

    @precondition(lambda self: self.samples)
    @rule(random=st.randoms(use_true_random=False))
    def rematch(self, random: Random) -> None:
        self._match(random.choice(sorted(self.samples)))

    @precondition(lambda self: self.samples)
    @rule(random=st.randoms(use_true_random=False), index=st.integers(0, PILE - 1))
    def replace_contents(self, random: Random, index: int) -> None:
        position = random.choice(sorted(self.samples))
        self.samples[position] = self.pile[index]._replace(received_at=self.samples[position].received_at)
        self.admin.execute(
            "UPDATE document SET structured_data = %s, type = %s WHERE id = %s",
            [Jsonb(self.pile[index].data), self.pile[index].kind, self.harness.ids[position]],
        )
        self.pending.add(position)

    @precondition(lambda self: len(self.samples) > 1)
    @rule(random=st.randoms(use_true_random=False), decision=st.sampled_from(("confirmed", "rejected")))
    def decide_pair(self, random: Random, decision: Verdict) -> None:
        pair = random.sample(sorted(self.samples), 2)
        ambiguous_matches = {(a, b) for a, groups in self.harness.reviews().items() for b in groups[0]}
        # A review still contains a removed candidate until the document is matched again.
        linked = sorted(pair for pair in self.harness.links() | ambiguous_matches if self.samples.keys() >= set(pair))
        if linked and random.random() < 0.7:
            pair = list(random.choice(linked))
        self.harness.decide(pair[0], pair[1], decision)
        self.decisions[frozenset(pair)] = decision

    @precondition(lambda self: self.samples)
    @rule(random=st.randoms(use_true_random=False))
    def remove_document(self, random: Random) -> None:
        position = random.choice(sorted(self.samples))
        with self.database.tenant(self.harness.tenant_id) as connection:
            assert removal.delete_document(
                connection, self.harness.tenant_id, self.harness.ids[position], NOW, by="clerk"
            )
        del self.samples[position]
        self.pending.discard(position)
        self.decisions = {pair: decision for pair, decision in self.decisions.items() if position not in pair}
        rows = self.admin.execute(
            "SELECT id FROM document WHERE tenant_id = %s AND matching_status = 'pending'", [self.harness.tenant_id]
        )
        self.pending |= {self.harness.ids.index(id_) for (id_,) in rows}

    def _match(self, position: int) -> None:
        self.harness.match(position)
        self.pending.discard(position)

    def teardown(self) -> None:
        """Match pending documents, and compare the result with the reference."""
        if not hasattr(self, "samples"):
            return
        while self.pending:
            self._match(min(self.pending))

        def pairs(decision: Verdict) -> list[frozenset[UUID]]:
            pairs_ = [pair for pair, value in self.decisions.items() if value == decision]
            return [frozenset(UUID(int=position + 1) for position in pair) for pair in pairs_]

        documents = [read(sample, position + 1) for position, sample in self.samples.items()]
        reference = ReferenceMatching(documents, pairs("confirmed"), pairs("rejected"))
        assert self.harness.links() == {
            (min(link.child.int, link.parent.int) - 1, max(link.child.int, link.parent.int) - 1)
            for link in reference.links()
        }
        assert self.harness.reviews() == {
            id_.int - 1: [[candidate.int - 1 for candidate in pairs_] for pairs_ in ambiguous_matches]
            for id_, ambiguous_matches in reference.reviews().items()
        }


def test_any_history_equals_reference_matching(database: Database, admin: Connection) -> None:
    machine = type("Histories", (History,), {"database": database, "admin": admin})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=12, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
