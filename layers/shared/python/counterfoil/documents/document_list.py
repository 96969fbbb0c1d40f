"""Pages of a tenant's documents, filtered by stage, type, time and words.

The newest documents come first. Each page scans an index from its cursor and reads a limited number of documents. Its
cost does not depend on the number of documents, nor on how many of them match. Each function runs in a transaction of
one tenant (`Database.tenant`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, get_args
from uuid import UUID

from pydantic import Field

from counterfoil.db import Connection, PageCursor
from counterfoil.documents import files
from counterfoil.documents.matching.normalize import KINDS, reference
from counterfoil.documents.structured import ROLES, DocumentType, is_identified
from counterfoil.documents.three_way_match import ClusterStatus

StageName = Literal["source", "ingestion", "matching", "output"]
StageState = Literal["none", "pending", "in-progress", "succeeded", "failed", "skipped"]
STAGES: tuple[StageName, ...] = get_args(StageName)
STATES: tuple[StageState, ...] = get_args(StageState)

SCAN_LIMIT = (200, 2_000, 10_000)
"""Limits on the documents scanned for a filtered page. The next limit applies if the page is not full."""
MAX_WORD_FREQUENCY = 1_000
"""Maximum number of documents counted per word to find the rarest word of a search."""
MAX_WORDS = 8
"""Maximum number of words in a search. Further words are ignored."""
MAX_ID_MATCHES = 500
"""Maximum number of documents that a search by number finds, per type and spelling."""

_DECIMAL_PLACES = {
    **dict.fromkeys(["BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND"], 0),
    **dict.fromkeys(["VUV", "XAF", "XOF", "XPF"], 0),
    **dict.fromkeys(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"], 3),
    **dict.fromkeys(["CLF", "UYW"], 4),
}
"""Decimal places of currencies that do not have two (ISO 4217, list one)."""


@dataclass(frozen=True)
class DocumentStage:
    """Progress of a stage."""

    stage: StageName
    state: Annotated[StageState, Field(description="none: this stage does not apply; skipped: it found nothing to do.")]
    reason: Annotated[str | None, Field(description="Reason for the state, in a sentence; for a failure, the error.")]


@dataclass(frozen=True)
class Total:
    """Total of a document: the gross total if stated, otherwise the net total."""

    amount: Annotated[str, Field(description="Decimal number, as stated.")]
    minor: Annotated[
        int | None,
        Field(
            description="Amount in the currency's smallest unit (ISO 4217); null if the currency is unknown or the "
            "amount has fractions of that unit."
        ),
    ]
    currency: str | None
    is_net: Annotated[bool, Field(description="Whether it is the net total, because no gross total is stated.")]


@dataclass(frozen=True, kw_only=True)
class DocumentSummary:
    """A document in a list."""

    id: UUID
    tenant: str
    type: Annotated[str | None, Field(description="null until extracted.")]
    number: str | None
    date: str | None
    seller: str | None
    buyer: str | None
    total: Total | None
    file_name: str
    received_at: datetime
    cluster_id: UUID | None
    cluster_status: Annotated[
        ClusterStatus | None,
        Field(
            description="null until the cluster is compared; needs-review if the document has no supplier and was not "
            "matched."
        ),
    ]
    cluster_order_numbers: Annotated[
        tuple[str, ...],
        Field(description="Numbers of the cluster's purchase orders, or those that its documents cite; empty if none."),
    ]
    missing: Annotated[
        tuple[str, ...],
        Field(description="Expected fields that were not found: number, date, supplier, buyer, total."),
    ]
    stages: tuple[DocumentStage, ...]
    dead_letter: Annotated[
        UUID | None,
        Field(description="Dead letter of a file that failed in acquisition. In this case, `id` is not a document id."),
    ]


@dataclass(frozen=True)
class DocumentFilter:
    """Filters for a document list."""

    type: str | None = None
    stage: StageName | None = None
    state: StageState | None = None
    """State of `stage`."""
    received_from: datetime | None = None
    received_before: datetime | None = None
    """Exclusive upper bound."""

    @property
    def is_selective(self) -> bool:
        """True if the filters may exclude documents within the time range."""
        return self.type is not None or self.stage is not None


class DocumentListPage(NamedTuple):
    """A page of documents."""

    documents: Sequence[DocumentSummary]
    """Newest first."""
    next_cursor: PageCursor | None
    """Cursor of the next page; None on the last page. A page may be short and still have a next page."""


def total(data: Mapping[str, Any]) -> Total | None:
    """Return the total in structured data. Pure."""
    amount = data.get("total_gross") or data.get("total_net")
    if amount is None:
        return None
    currency = data.get("currency")
    minor = Decimal(amount).scaleb(_DECIMAL_PLACES.get(currency or "", 2))
    is_exact = currency is not None and minor == minor.to_integral_value()
    return Total(amount, int(minor) if is_exact else None, currency, is_net=not data.get("total_gross"))


def header_fields(kind: str | None, data: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a document's number, date, supplier, buyer and total. Pure."""
    roles, data = ROLES.get(DocumentType(kind)) if kind is not None else None, data or {}
    if roles is None:
        return {
            "number": None,
            "date": data.get("date"),
            "seller": (data.get("issuer") or {}).get("name"),
            "buyer": (data.get("recipient") or {}).get("name"),
            "total": None,
        }
    return {
        "number": data.get(roles.number),
        "date": data.get(roles.date),
        "seller": (data.get(roles.seller) or {}).get("name"),
        "buyer": (data.get(roles.buyer) or {}).get("name"),
        "total": total(data),
    }


_PRICED = frozenset(
    {DocumentType.INVOICE, DocumentType.CREDIT_NOTE, DocumentType.PURCHASE_ORDER, DocumentType.ORDER_CONFIRMATION}
)


def missing(kind: str | None, data: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the expected fields that were not found. Pure."""
    type_ = None if kind is None else DocumentType(kind)
    if type_ is None or type_ not in ROLES or not data:
        return ()
    roles = ROLES[type_]
    facts = {
        "number": data.get(roles.number),
        "date": data.get(roles.date),
        "supplier": is_identified(data.get(roles.seller)),
        "buyer": is_identified(data.get(roles.buyer)),
        "total": type_ not in _PRICED or total(data),
    }
    return tuple(name for name, value in facts.items() if not value)


# -- summaries --------------------------------------------------------------------------------------------------------

STAGE_SQL = {
    "source": "CASE WHEN a.id IS NULL THEN 'none' ELSE coalesce(a.status, 'skipped') END",
    "ingestion": "CASE WHEN i.id IS NULL THEN 'none' ELSE coalesce(i.status, 'skipped') END",
    "matching": """CASE WHEN d.matching_revision = 0 AND d.matching_status IS NULL THEN 'none'
                        ELSE coalesce(d.matching_status, 'skipped') END""",
    "output": "output.state",
}
"""SQL expressions for the state of each stage, on the tables of SUMMARY_TABLES."""
SUMMARY_TABLES = """
document d
LEFT JOIN source s ON s.id = d.source_id LEFT JOIN acquisition_job a ON a.id = s.job_id
LEFT JOIN ingestion_job i ON i.id = d.id
CROSS JOIN LATERAL (
    SELECT CASE WHEN count(*) = 0 THEN 'none' WHEN bool_or(o.status = 'failed') THEN 'failed'
                WHEN bool_or(o.status = 'in-progress') THEN 'in-progress'
                WHEN bool_or(o.status = 'pending') THEN 'pending'
                WHEN bool_or(o.status = 'succeeded') THEN 'succeeded' ELSE 'skipped' END AS state,
           min(coalesce(o.error, o.skip_reason)) AS reason
    FROM output_job o
    WHERE o.tenant_id = d.tenant_id AND o.subject_id IN (d.id, d.cluster_id)
      AND (o.subject, o.subject_id) IN (('document', d.id), ('cluster', d.cluster_id))
) AS output
"""
"""Tables of a summary: a document and the work items of all its stages. `output` includes the cluster's outputs."""
_SUMMARIES = f"""
SELECT d.id, (SELECT slug FROM tenant WHERE id = d.tenant_id), d.type, d.structured_data, d.file_name,
       d.received_at, d.cluster_id,
       (SELECT c.cluster_status FROM cluster_diagnostics c WHERE c.tenant_id = d.tenant_id AND c.id = d.cluster_id),
       (SELECT c.order_numbers FROM cluster_diagnostics c WHERE c.tenant_id = d.tenant_id AND c.id = d.cluster_id),
       ARRAY[{", ".join(STAGE_SQL[stage] for stage in STAGES)}],
       ARRAY[coalesce(a.error, a.skip_reason), coalesce(i.error, i.skip_reason),
             coalesce(d.matching_error, d.matching_skip_reason), output.reason]
FROM {SUMMARY_TABLES}
WHERE d.tenant_id = %(tenant)s AND d.id = ANY(%(ids)s) {{conditions}}
ORDER BY d.received_at DESC, d.id DESC LIMIT %(limit)s
"""  # noqa: S608  # built from the constants above
_CONDITIONS = {
    "type": "AND d.type = %(type)s",
    "stage": "AND {stage} = %(state)s",
    "received_from": "AND d.received_at >= %(received_from)s",
    "received_before": "AND d.received_at < %(received_before)s",
    "after_at": "AND (d.received_at, d.id) < (%(after_at)s, %(after_id)s)",
}


def page_of_ids(
    connection: Connection,
    tenant_id: UUID,
    ids: Sequence[UUID],
    filters: DocumentFilter = DocumentFilter(),  # frozen, so it can be shared
    *,
    limit: int | None = None,
    after: PageCursor | None = None,
) -> list[DocumentSummary]:
    """Return the documents with these ids that match the filters, newest first."""
    if not ids:
        return []
    values = _values(tenant_id, filters, after) | {"ids": list(ids), "limit": limit}
    stage = STAGE_SQL[filters.stage] if filters.stage is not None else ""
    conditions = " ".join(text for name, text in _CONDITIONS.items() if values[name] is not None)
    statement = _SUMMARIES.format(conditions=conditions.format(stage=stage))
    return [_summary(row) for row in connection.execute(statement.encode(), values)]


def _values(tenant_id: UUID, filters: DocumentFilter, after: PageCursor | None) -> dict[str, Any]:
    return {
        "tenant": tenant_id,
        **vars(filters),
        "after_at": after and after.at,
        "after_id": after and after.id,
    }


def _summary(row: Sequence[Any]) -> DocumentSummary:
    """Convert a row of _SUMMARIES."""
    id_, tenant, kind, data, file_name, received_at, cluster_id, cluster_status, orders, states, reasons = row
    stages = tuple(DocumentStage(*columns) for columns in zip(STAGES, states, reasons, strict=True))
    missing_facts = missing(kind, data)
    if cluster_status is None and "supplier" in missing_facts and states[STAGES.index("matching")] == "skipped":
        cluster_status = ClusterStatus.NEEDS_REVIEW
    return DocumentSummary(
        id=id_,
        tenant=tenant,
        type=kind,
        file_name=file_name,
        received_at=received_at,
        cluster_id=cluster_id,
        cluster_status=None if cluster_status is None else ClusterStatus(cluster_status),
        cluster_order_numbers=tuple(orders or ()),
        missing=missing_facts,
        stages=stages,
        dead_letter=None,
        **header_fields(kind, data),
    )


# -- pages -----------------------------------------------------------------------------------------------------------

_WALK = """
SELECT d.received_at, d.id FROM document d WHERE d.tenant_id = %(tenant)s {conditions}
ORDER BY d.received_at DESC, d.id DESC LIMIT %(most)s
"""
# Documents with the rarest word, each with a flag that shows whether it contains all other words.
_WALK_WORD = """
SELECT page.received_at, page.document_id, NOT EXISTS (
    SELECT FROM unnest(%(others)s::text[]) AS other (word)
    WHERE NOT EXISTS (SELECT FROM document_word w WHERE w.document_id = page.document_id AND w.word = other.word)
) FROM (
    SELECT w.received_at, w.document_id FROM document_word w
    WHERE w.tenant_id = %(tenant)s AND w.word = %(word)s {conditions}
    ORDER BY w.received_at DESC, w.document_id DESC LIMIT %(most)s
) AS page ORDER BY page.received_at DESC, page.document_id DESC
"""
_TIMES = ("received_from", "received_before", "after_at")


def page(
    connection: Connection,
    tenant_id: UUID,
    filters: DocumentFilter,
    *,
    search: str | None = None,
    limit: int,
    after: PageCursor | None = None,
) -> DocumentListPage:
    """Return at most `limit` documents and failed files after the cursor `after`.

    `search` finds documents by id, by number in any spelling, or by words in their file name and party names. It finds
    failed files by id or by words in their name. All words of the search must occur.
    """
    documents, next_cursor = _documents(connection, tenant_id, filters, search, limit, after)
    files = _failed_files(connection, tenant_id, filters, search, limit, after)
    merged = sorted([*documents, *files], key=_cursor_of, reverse=True)
    if next_cursor is not None:  # documents after the cursor may be newer than some of these files
        merged = [document for document in merged if _cursor_of(document) >= next_cursor]
    return _truncate(merged, limit) if len(merged) > limit else DocumentListPage(merged, next_cursor)


_FAILED_FILES = """
SELECT a.id, (SELECT slug FROM tenant WHERE id = a.tenant_id), a.key, a.created_at, a.error, d.job_id
FROM acquisition_job a
JOIN dead_letter d ON d.work_id = a.id AND d.worker = 'acquisition' AND d.purged_at IS NULL
WHERE a.tenant_id = %(tenant)s AND a.status = 'failed'
  AND (%(received_from)s::timestamptz IS NULL OR a.created_at >= %(received_from)s)
  AND (%(received_before)s::timestamptz IS NULL OR a.created_at < %(received_before)s)
  AND (%(after_at)s::timestamptz IS NULL OR (a.created_at, a.id) < (%(after_at)s, %(after_id)s))
  AND (%(text)s::text IS NULL OR a.id::text = lower(%(text)s) OR NOT EXISTS (
      SELECT FROM tokenize(%(text)s) AS search (word)
      WHERE search.word NOT IN (SELECT * FROM tokenize(regexp_replace(a.key, '^.*/', '')))
  ) AND EXISTS (SELECT FROM tokenize(%(text)s)))
ORDER BY a.created_at DESC, a.id DESC LIMIT %(limit)s
"""
_FILE_STATES: Mapping[StageName, StageState] = {"source": "failed"}


def _failed_files(
    connection: Connection,
    tenant_id: UUID,
    filters: DocumentFilter,
    text: str | None,
    limit: int,
    after: PageCursor | None,
) -> list[DocumentSummary]:
    """Return at most `limit` + 1 failed files after the cursor `after`.

    Files whose dead letter was purged are excluded. Failed files have no type, and only their stage `source` has
    started.
    """
    if filters.type is not None or (filters.stage and _FILE_STATES.get(filters.stage, "none") != filters.state):
        return []
    values = _values(tenant_id, filters, after) | {"text": text, "limit": limit + 1}
    return [
        DocumentSummary(
            id=id_,
            tenant=tenant,
            file_name=files.file_name(key),
            received_at=received_at,
            cluster_id=None,
            cluster_status=None,
            cluster_order_numbers=(),
            stages=tuple(
                DocumentStage(stage, _FILE_STATES.get(stage, "none"), error if stage in _FILE_STATES else None)
                for stage in STAGES
            ),
            missing=(),
            dead_letter=dead_letter,
            **header_fields(None, None),
            type=None,
        )
        for id_, tenant, key, received_at, error, dead_letter in connection.execute(_FAILED_FILES, values)
    ]


def _documents(
    connection: Connection,
    tenant_id: UUID,
    filters: DocumentFilter,
    text: str | None,
    limit: int,
    after: PageCursor | None,
) -> DocumentListPage:
    if text is not None and (id_ := _parse_id(text)) is not None:
        return _truncate(page_of_ids(connection, tenant_id, [id_], filters, limit=limit + 1, after=after), limit)
    words = None if text is None else _words(connection, text)
    numbered_ids = [] if text is None else find_by_number(connection, tenant_id, text)
    by_number = page_of_ids(connection, tenant_id, numbered_ids, filters, limit=limit + 1, after=after)
    rarest_word = None if words is None else _rarest_word(connection, tenant_id, words)
    if words is not None and rarest_word is None:  # at least one word occurs in no document
        return _truncate(by_number, limit)
    next_cursor: PageCursor | None = None
    for scan_limit in SCAN_LIMIT if filters.is_selective or rarest_word is not None else (limit + 1,):
        ids, next_cursor = _scan(connection, tenant_id, filters, after, scan_limit, rarest_word, words or [])
        by_words = page_of_ids(connection, tenant_id, ids, filters, limit=limit + 1)
        if next_cursor is None or len(by_words) > limit:
            break
    merged = sorted(
        {document.id: document for document in (*by_number, *by_words)}.values(), key=_cursor_of, reverse=True
    )
    if next_cursor is not None:  # documents after the cursor may be newer than some of these results
        merged = [document for document in merged if _cursor_of(document) >= next_cursor]
    return _truncate(merged, limit) if len(merged) > limit else DocumentListPage(merged, next_cursor)


def _scan(
    connection: Connection,
    tenant_id: UUID,
    filters: DocumentFilter,
    after: PageCursor | None,
    scan_limit: int,
    rarest_word: str | None,
    words: Sequence[str],
) -> tuple[list[UUID], PageCursor | None]:
    """Return the next document ids that may match, and the scan's last cursor.

    The cursor is None if no more documents follow.
    """
    values = _values(tenant_id, filters, after) | {"most": scan_limit, "word": rarest_word}
    conditions = " ".join(_CONDITIONS[name] for name in _TIMES if values[name] is not None)
    if rarest_word is None:
        rows = connection.execute(_WALK.format(conditions=conditions).encode(), values).fetchall()
        ids = [id_ for _, id_ in rows]
    else:
        word_conditions = conditions.replace("d.received_at", "w.received_at").replace("d.id", "w.document_id")
        values["others"] = [word for word in words if word != rarest_word]
        rows = connection.execute(_WALK_WORD.format(conditions=word_conditions).encode(), values).fetchall()
        ids = [id_ for _, id_, has_all in rows if has_all]
    return ids, PageCursor(*rows[-1][:2]) if len(rows) == scan_limit else None


def _truncate(documents: Sequence[DocumentSummary], limit: int) -> DocumentListPage:
    visible = documents[:limit]
    return DocumentListPage(visible, _cursor_of(visible[-1]) if len(documents) > limit else None)


def _cursor_of(document: DocumentSummary) -> PageCursor:
    return PageCursor(document.received_at, document.id)


# -- words and numbers -----------------------------------------------------------------------------------------------


def _parse_id(text: str) -> UUID | None:
    try:
        return UUID(text.strip())
    except ValueError:
        return None


def _words(connection: Connection, text: str) -> list[str]:
    """Return the words of a search, tokenized like the words of documents.

    A trigger tokenizes the documents.
    """
    return [word for (word,) in connection.execute("SELECT tokenize(%s)", [text])][:MAX_WORDS]


_FREQUENCY = """
SELECT word, (SELECT count(*) FROM (
    SELECT FROM document_word w WHERE w.tenant_id = %(tenant)s AND w.word = search.word LIMIT %(most)s
) AS page) FROM unnest(%(words)s::text[]) AS search (word)
"""


def _rarest_word(connection: Connection, tenant_id: UUID, words: Sequence[str]) -> str | None:
    """Return the rarest word; None if no document can contain all words."""
    rows = connection.execute(
        _FREQUENCY, {"tenant": tenant_id, "words": list(words), "most": MAX_WORD_FREQUENCY + 1}
    ).fetchall()
    frequency: dict[str, int] = dict(rows)
    return min(words, key=lambda word: frequency[word]) if frequency and all(frequency.values()) else None


_NUMBERED = """
SELECT page.document_id
    FROM unnest(%(types)s::text[]) AS key_type (type) CROSS JOIN unnest(%(keys)s::text[]) AS form (value)
CROSS JOIN LATERAL (
    SELECT k.document_id FROM document_key k
    WHERE k.tenant_id = %(tenant)s AND k.type = key_type.type AND k.value = form.value LIMIT %(most)s
) AS page
"""


def find_by_number(connection: Connection, tenant_id: UUID, text: str) -> list[UUID]:
    """Return the ids of documents with this number.

    If it has only digits, documents whose numbers end with these digits are included.
    """
    number = reference(text)
    if number is None:
        return []
    forms = sorted(number.folded)
    if number.tail in number.folded:  # digits only, so they may be the end of a longer number
        forms.append(f"~{number.tail}")
    values = {
        "tenant": tenant_id,
        "types": [f"own:{kind}" for kind in KINDS],
        "keys": forms,
        "most": MAX_ID_MATCHES,
    }
    return list(dict.fromkeys(id_ for (id_,) in connection.execute(_NUMBERED, values)))
