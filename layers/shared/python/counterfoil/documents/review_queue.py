"""The queue of documents in doubt, as people see it: in order, with what each one says and its candidates' evidence.

The evidence of a candidate is a waterfall: what each feature says in bits, and what it comes to so far.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from counterfoil.db import Connection, Database
from counterfoil.documents.document_list import missing
from counterfoil.documents.matching import Decision
from counterfoil.documents.matching.evidence import waterfall
from counterfoil.documents.matching.sql import Review, State, decisions, reviews
from counterfoil.documents.structured import ROLES, DocumentType


@dataclass(frozen=True)
class Place:
    """Where a document stands in the queue."""

    document_id: UUID
    tenant_id: UUID
    tenant: str
    opened_at: datetime


@dataclass(frozen=True)
class Wanted:
    """Which of the queue is wanted. None: whatever it is."""

    state: State = "open"
    tenants: Collection[str] | None = None
    """Slugs."""
    kind: str | None = None
    """Of the document in doubt."""
    min_chance: float | None = None
    max_chance: float | None = None
    """Of the likeliest candidate."""
    after: tuple[datetime, UUID] | None = None
    """The place of the last one seen: the time at which it opened, and its id."""


_PLACES = """
SELECT r.document_id, r.tenant_id, t.slug, r.opened_at
FROM document_review r JOIN tenant t ON t.id = r.tenant_id
WHERE r.state = %(state)s
  AND (%(tenants)s::text[] IS NULL OR t.slug = ANY(%(tenants)s))
  AND (%(kind)s::text IS NULL OR r.type = %(kind)s)
  AND r.chance >= coalesce(%(min)s::float8, 0) AND r.chance <= coalesce(%(max)s::float8, 1)
  AND (%(after_at)s::timestamptz IS NULL OR (r.opened_at, r.document_id) > (%(after_at)s, %(after_id)s::uuid))
ORDER BY r.opened_at, r.document_id LIMIT %(limit)s
"""
_OWNER = "SELECT d.tenant_id, t.slug FROM document d JOIN tenant t ON t.id = d.tenant_id WHERE d.id = %s"


def places(connection: Connection, wanted: Wanted, limit: int) -> list[Place]:
    """The next of the queue, those that opened first, first; as the delivery role."""
    at, id_ = wanted.after or (None, None)
    values = {
        "state": wanted.state,
        "tenants": None if wanted.tenants is None else list(wanted.tenants),
        "kind": wanted.kind,
        "min": wanted.min_chance,
        "max": wanted.max_chance,
        "after_at": at,
        "after_id": id_,
        "limit": limit,
    }
    return [Place(*row) for row in connection.execute(_PLACES, values)]


def owner(connection: Connection, document_id: UUID) -> tuple[UUID, str] | None:
    """The tenant of a document, by id and slug; as the delivery role. None where there is no such document."""
    row = connection.execute(_OWNER, [document_id]).fetchone()
    return None if row is None else (row[0], row[1])


@dataclass(frozen=True)
class Paper:
    """What people know a document by."""

    id: UUID
    type: str
    file: str
    number: str | None
    date: str | None
    seller: str | None
    buyer: str | None
    total: str | None
    """Gross where it is stated, else net, with the currency."""
    missing: tuple[str, ...]
    """Expected facts that were not read."""


@dataclass(frozen=True)
class Item:
    """A review with all that it takes to decide it."""

    tenant: str
    review: Review
    papers: Mapping[UUID, Paper]
    """The document and its candidates."""
    decisions: Sequence[Decision]
    """All that people decided about the document."""

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        review = self.review
        return {
            "id": review.document_id,
            "tenant": self.tenant,
            "state": review.state,
            "type": review.type,
            "chance": review.chance,
            "weights": review.weights,
            "opened_at": review.opened_at.isoformat(),
            "changed_at": review.changed_at.isoformat(),
            "closed_at": review.closed_at and review.closed_at.isoformat(),
            "document": self._paper(review.document_id),
            "doubts": [
                {**doubt, "candidates": [self._candidate(one) for one in doubt["candidates"]]}
                for doubt in review.doubts
            ],
            "decisions": [
                {
                    "id": one.id,
                    "documents": list(one.pair),
                    "verdict": one.verdict,
                    "by": one.by,
                    "reason": one.reason,
                    "at": one.at.isoformat(),
                }
                for one in self.decisions
            ],
        }

    def _candidate(self, candidate: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "document": self._paper(UUID(candidate["document"])),
            "chance": candidate["chance"],
            "bits": candidate["bits"],
            "evidence": [asdict(step) for step in waterfall(candidate["evidence"])],
        }

    def _paper(self, id_: UUID) -> dict[str, Any]:
        found = self.papers.get(id_)
        return {"id": id_} if found is None else asdict(found)


def items(database: Database, found: Iterable[Place]) -> list[Item]:
    """The reviews at these places, in the same order, without those just gone; each read as its tenant."""
    of: dict[tuple[UUID, str], list[UUID]] = defaultdict(list)
    for place in found:
        of[place.tenant_id, place.tenant].append(place.document_id)
    read: dict[UUID, Item] = {}
    for (tenant_id, slug), ids in of.items():
        with database.tenant(tenant_id) as connection:
            read |= _read(connection, slug, ids)
    return sorted(read.values(), key=lambda item: (item.review.opened_at, item.review.document_id))


def item(database: Database, tenant_id: UUID, slug: str, document_id: UUID) -> Item | None:
    """The review of a document, whatever its state; None where it was never in doubt."""
    with database.tenant(tenant_id) as connection:
        return _read(connection, slug, [document_id]).get(document_id)


def _read(connection: Connection, slug: str, ids: Collection[UUID]) -> dict[UUID, Item]:
    found = reviews(connection, ids)
    decided = decisions(connection, found)
    shown = {id_ for review in found.values() for id_ in (review.document_id, *review.candidates)}
    known = papers(connection, shown)
    return {
        id_: Item(slug, review, known, [one for one in decided if id_ in one.pair]) for id_, review in found.items()
    }


_PAPERS = "SELECT id, coalesce(type, 'other'), file_name, structured_data FROM document WHERE id = ANY(%(ids)s)"


def papers(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Paper]:
    """What people know documents by."""
    rows = connection.execute(_PAPERS, {"ids": list(ids)})
    return {id_: _paper(id_, kind, file, data or {}) for id_, kind, file, data in rows}


def _paper(id_: UUID, kind: str, file: str, data: Mapping[str, Any]) -> Paper:
    roles = ROLES.get(DocumentType(kind))
    total = data.get("total_gross") or data.get("total_net")
    return Paper(
        id_,
        kind,
        file,
        data.get(roles.number) if roles else None,
        data.get(roles.date) if roles else None,
        (data.get(roles.seller) or {}).get("name") if roles else None,
        (data.get(roles.buyer) or {}).get("name") if roles else None,
        " ".join(filter(None, (total, data.get("currency")))) if total else None,
        missing(kind, data),
    )
