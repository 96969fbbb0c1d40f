"""A tenant's documents in a real database, matched as the worker matches them."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from uuid import UUID

from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.documents import matching
from counterfoil.documents.matching import manual_decisions, sql
from counterfoil.documents.matching.sql import Pair
from counterfoil.errors import DeferredError
from tests import factories
from tests.documents.matching.samples import SampleDocument

NOW = datetime(2026, 6, 1, tzinfo=UTC)
_tenants = count(1)


class TenantHarness:
    """A tenant whose documents are identified by their position in stored order."""

    def __init__(
        self,
        database: Database,
        admin: Connection,
        samples: Sequence[SampleDocument] = (),
        judge: Callable[[], matching.Judge] | None = None,
        embedder: matching.Embedder | None = None,
    ) -> None:
        """Create the tenant and store the samples.

        In every tenant, document ids ascend in the order of the samples, because ids break ties.
        """
        number = next(_tenants)
        self.database = database
        self.admin = admin
        self.tenant_id = factories.make_tenant(admin, f"office-{number}")
        self._number = number
        self.judge = judge
        self.embedder = embedder
        self.ids: list[UUID] = []
        for sample in samples:
            self.file(sample)

    def file(self, sample: SampleDocument) -> int:
        """Store a document without matching it. Return its position."""
        position = len(self.ids)
        id_ = UUID(int=((position + 1) << 64) + self._number)
        factories.make_document(
            self.admin,
            self.tenant_id,
            sample.data,
            id=id_,
            type=sample.kind,
            received_at=sample.received_at,
            matching_revision=1,
        )
        self.ids.append(id_)
        return position

    def match(self, position: int) -> matching.MatchResult | matching.SkipMatching:
        """Match one document and return the result. Repeat a deferred match immediately."""
        while True:
            try:
                outcome = self._search(position, self.judge)
                return outcome if isinstance(outcome, matching.SkipMatching) else self.write(outcome)
            except DeferredError:  # the delivery engine also repeats a deferred attempt without counting it
                continue

    def search(self, position: int, judge: Callable[[], matching.Judge] | None = None) -> matching.PendingMatch:
        """Search for candidates and return the decision, without writing it."""
        decision = self._search(position, judge)
        assert isinstance(decision, matching.PendingMatch)
        return decision

    def _search(
        self, position: int, judge: Callable[[], matching.Judge] | None
    ) -> matching.PendingMatch | matching.SkipMatching:
        return matching.search_and_decide(self.database, self.tenant_id, self.ids[position], judge, self.embedder)

    def decide(
        self, first: int, second: int, decision: sql.Verdict, by: str = "clerk"
    ) -> manual_decisions.ManualDecisionResult:
        """Record a reviewer's decision about the pair of documents at these positions."""
        pair = Pair.of(self.ids[first], self.ids[second])

        def settle() -> manual_decisions.ManualDecisionResult:
            with self.database.tenant(self.tenant_id) as connection:
                return manual_decisions.decide_pairs(connection, self.tenant_id, [pair], decision, NOW, by=by)

        return retry_on_conflict(settle)

    def write(self, pending_match: matching.PendingMatch) -> matching.MatchResult:
        """Write the result of a search and set the document's matching status."""

        def settle() -> matching.MatchResult:
            with self.database.tenant(self.tenant_id) as connection:
                write_result = matching.write(connection, pending_match, NOW)
                connection.execute(
                    "UPDATE document SET matching_status = 'succeeded', matching_skip_reason = %s WHERE id = %s",
                    [write_result.reason, pending_match.document.id],
                )
                return write_result

        return retry_on_conflict(settle)

    def match_together(self, positions: Iterable[int], between: Callable[[], object] = lambda: None) -> set[int]:
        """Match documents in one transaction.

        Return the positions of the written documents.

        Omitted documents must be matched alone. `between` runs between search and write.
        """
        ids = [self.ids[position] for position in positions]

        def settle() -> set[int]:
            with self.database.tenant(self.tenant_id, by_index=True) as connection:
                outcomes = matching.search(connection, self.tenant_id, ids)
                between()
                pending_matches = [
                    outcome for outcome in outcomes.values() if isinstance(outcome, matching.PendingMatch)
                ]
                write_result = matching.write_batch(connection, pending_matches, NOW)
                for id_, reason in write_result.reasons.items():
                    connection.execute(
                        "UPDATE document SET matching_status = 'succeeded', matching_skip_reason = %s WHERE id = %s",
                        [reason, id_],
                    )
                return {self.ids.index(id_) for id_ in write_result.reasons}

        return retry_on_conflict(settle)

    def match_in_groups(self, positions: Sequence[int], size: int, concurrency: int = 1) -> None:
        """Match documents in groups of `size`, and omitted documents alone.

        At most `concurrency` groups are matched at a time.
        """

        def match(group: Sequence[int]) -> None:
            for position in set(group) - self.match_together(group):
                self.match(position)

        with ThreadPoolExecutor(concurrency) as pool:
            list(pool.map(match, [positions[first : first + size] for first in range(0, len(positions), size)]))

    def match_all(self, order: Iterable[int] | None = None, concurrency: int = 1) -> None:
        """Match documents in this order, `concurrency` at a time.

        By default, match all in stored order.
        """
        with ThreadPoolExecutor(concurrency) as pool:
            list(pool.map(self.match, range(len(self.ids)) if order is None else order))

    def edges(self) -> dict[tuple[int, int], tuple[str | None, float]]:
        """Return the rule and score of each edge, by pair of positions."""
        names = {id_: position for position, id_ in enumerate(self.ids)}
        rows = self.admin.execute(
            "SELECT document_a_id, document_b_id, evidence ->> 'by', score FROM document_match WHERE tenant_id = %s",
            [self.tenant_id],
        ).fetchall()
        return {(names[a], names[b]): (by, round(score, 6)) for a, b, by, score in rows}

    def links(self) -> set[tuple[int, int]]:
        """Return the pair of positions of each edge."""
        return set(self.edges())

    def clusters(self) -> list[int]:
        """Return each document's cluster id, converted to a position.

        A cluster's id is the id of a document.
        """
        names = {id_: position for position, id_ in enumerate(self.ids)}
        rows = self.admin.execute(
            "SELECT id, cluster_id FROM document WHERE tenant_id = %s", [self.tenant_id]
        ).fetchall()
        positions = {names[id_]: names[cluster_id] for id_, cluster_id in rows}
        return [positions[position] for position in range(len(self.ids))]

    def reviews(self) -> dict[int, list[list[int]]]:
        """Return the candidates of each ambiguous match, by document."""
        names = {id_: position for position, id_ in enumerate(self.ids)}
        rows = self.admin.execute(
            "SELECT document_id, ambiguous_matches FROM document_review WHERE tenant_id = %s AND state = 'open'",
            [self.tenant_id],
        ).fetchall()
        return {
            names[id_]: [
                [names[UUID(candidate["document"])] for candidate in ambiguous_match["candidates"]]
                for ambiguous_match in ambiguous_matches
            ]
            for id_, ambiguous_matches in rows
        }

    def reason(self, position: int) -> str | None:
        """Return the reason why a document has no match or is ambiguous, or None."""
        row = self.admin.execute(
            "SELECT matching_skip_reason FROM document WHERE id = %s", [self.ids[position]]
        ).fetchone()
        assert row is not None
        return None if row[0] is None else str(row[0])
