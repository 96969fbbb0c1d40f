"""A tenant's documents in a real database, matched as the worker does it, in any order and by many hands at once."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from uuid import UUID

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.documents import matching
from counterfoil.documents.matching import people, sql
from counterfoil.documents.matching.sql import Pair
from counterfoil.errors import DeferredError
from tests import factories
from tests.documents.matching.papers import Paper

NOW = datetime(2026, 6, 1, tzinfo=UTC)
_tenants = count(1)


class Office:
    """One tenant. Its documents are known by their position among the papers that it was given."""

    def __init__(
        self,
        database: Database,
        admin: Connection,
        papers: Sequence[Paper] = (),
        judge: Callable[[], matching.Judge] | None = None,
        embedder: matching.Embedder | None = None,
    ) -> None:
        """Ids of documents follow the order of the papers, in every office alike: they settle ties."""
        number = next(_tenants)
        self.database = database
        self.admin = admin
        self.tenant_id = factories.make_tenant(admin, f"office-{number}")
        self._number = number
        self.judge = judge
        self.embedder = embedder
        self.ids: list[UUID] = []
        for paper in papers:
            self.file(paper)

    def file(self, paper: Paper) -> int:
        """Put a document in, not matched yet. Returns its position."""
        position = len(self.ids)
        id_ = UUID(int=((position + 1) << 64) + self._number)
        factories.make_document(
            self.admin,
            self.tenant_id,
            paper.data,
            id=id_,
            type=paper.kind,
            received_at=paper.received_at,
            matching_revision=1,
        )
        self.ids.append(id_)
        return position

    def match(self, position: int) -> matching.Written | matching.Skip:
        """Match one document and settle it."""
        while True:
            try:
                found = self._search(position, self.judge)
                return found if isinstance(found, matching.Skip) else self.write(found)
            except DeferredError:  # as delivery does: another try, which costs no attempt
                continue

    def search(self, position: int, judge: Callable[[], matching.Judge] | None = None) -> matching.Decided:
        """The first step alone, of a document that is matched."""
        found = self._search(position, judge)
        assert isinstance(found, matching.Decided)
        return found

    def _search(self, position: int, judge: Callable[[], matching.Judge] | None) -> matching.Decided | matching.Skip:
        return matching.search_and_decide(self.database, self.tenant_id, self.ids[position], judge, self.embedder)

    def decide(self, one: int, other: int, verdict: sql.Verdict, by: str = "clerk") -> people.Settled:
        """Let a person decide about two documents."""
        pair = Pair.of(self.ids[one], self.ids[other])

        def settle() -> people.Settled:
            with self.database.tenant(self.tenant_id) as connection:
                return people.settle(connection, self.tenant_id, [pair], verdict, NOW, by=by)

        return retry_conflicts(settle)

    def write(self, decided: matching.Decided) -> matching.Written:
        """The last step alone."""

        def settle() -> matching.Written:
            with self.database.tenant(self.tenant_id) as connection:
                written = matching.write(connection, decided, NOW)
                connection.execute(
                    "UPDATE document SET matching_status = 'succeeded', matching_reason = %s WHERE id = %s",
                    [written.reason, decided.document.id],
                )
                return written

        return retry_conflicts(settle)

    def match_together(self, positions: Iterable[int], between: Callable[[], object] = lambda: None) -> set[int]:
        """Match documents together, in one transaction. Returns those that were: the others are left.

        Something may happen `between` search and write.
        """
        ids = [self.ids[position] for position in positions]

        def settle() -> set[int]:
            with self.database.tenant(self.tenant_id, by_index=True) as connection:
                found = matching.search(connection, self.tenant_id, ids)
                between()
                decided = [one for one in found.values() if isinstance(one, matching.Decided)]
                written = matching.write_together(connection, decided, NOW)
                for id_, reason in written.reasons.items():
                    connection.execute(
                        "UPDATE document SET matching_status = 'succeeded', matching_reason = %s WHERE id = %s",
                        [reason, id_],
                    )
                return {self.ids.index(id_) for id_ in written.reasons}

        return retry_conflicts(settle)

    def match_in_groups(self, positions: Sequence[int], size: int, hands: int = 1) -> None:
        """Match documents in groups, and by itself what each group leaves; `hands` groups at the same time."""

        def match(group: Sequence[int]) -> None:
            for position in set(group) - self.match_together(group):
                self.match(position)

        with ThreadPoolExecutor(hands) as pool:
            list(pool.map(match, [positions[first : first + size] for first in range(0, len(positions), size)]))

    def match_all(self, order: Iterable[int] | None = None, hands: int = 1) -> None:
        """Match documents in this order, `hands` at the same time."""
        with ThreadPoolExecutor(hands) as pool:
            list(pool.map(self.match, range(len(self.ids)) if order is None else order))

    def edges(self) -> dict[tuple[int, int], tuple[str | None, float]]:
        """The edges: who decided by what rule, and the score."""
        names = {id_: position for position, id_ in enumerate(self.ids)}
        rows = self.admin.execute(
            "SELECT document_a_id, document_b_id, evidence ->> 'by', score FROM document_match WHERE tenant_id = %s",
            [self.tenant_id],
        ).fetchall()
        return {(names[a], names[b]): (by, round(score, 6)) for a, b, by, score in rows}

    def links(self) -> set[tuple[int, int]]:
        """The edges as pairs of positions."""
        return set(self.edges())

    def clusters(self) -> list[int]:
        """By position, the position of the document that the cluster is named by."""
        names = {id_: position for position, id_ in enumerate(self.ids)}
        rows = self.admin.execute(
            "SELECT id, cluster_id FROM document WHERE tenant_id = %s", [self.tenant_id]
        ).fetchall()
        found = {names[id_]: names[cluster_id] for id_, cluster_id in rows}
        return [found[position] for position in range(len(self.ids))]

    def reviews(self) -> dict[int, list[list[int]]]:
        """By document in doubt, the candidates of each doubt."""
        names = {id_: position for position, id_ in enumerate(self.ids)}
        rows = self.admin.execute(
            "SELECT document_id, doubts FROM document_review WHERE tenant_id = %s AND state = 'open'", [self.tenant_id]
        ).fetchall()
        return {
            names[id_]: [[names[UUID(one["document"])] for one in doubt["candidates"]] for doubt in doubts]
            for id_, doubts in rows
        }

    def reason(self, position: int) -> str | None:
        """What the document says about why it is alone."""
        row = self.admin.execute("SELECT matching_reason FROM document WHERE id = %s", [self.ids[position]]).fetchone()
        assert row is not None
        return None if row[0] is None else str(row[0])
