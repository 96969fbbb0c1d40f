"""What became of every upload and mail: one word for people, derived from the life cycles of the work it set off.

| state | meaning |
|---|---|
| waiting | for its turn, or for the next attempt after a failure that may pass |
| working | an attempt is under way |
| succeeded | read, and matched as far as there is something to match it with |
| kept | stored as it is: nothing that could be matched is in it; the note says why |
| seen-again | the tenant has a file of the same content already; no second document |
| removed | deleted or replaced since; the note says by whom |
| failed | for good; the note says why, and a dead letter holds its place |
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.failures import UsageError
from cli.ids import short
from cli.local.cloud import Cloud
from cli.output import label, page
from cli.tenants import Tenant
from counterfoil.documents import document_list
from counterfoil.documents.removal import STAYS
from counterfoil.documents.structured import ROLES


class State(StrEnum):
    """See the table above."""

    WAITING = "waiting"
    WORKING = "working"
    SUCCEEDED = "succeeded"
    KEPT = "kept"
    SEEN_AGAIN = "seen-again"
    REMOVED = "removed"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Whether nothing will happen any more by itself."""
        return self not in {State.WAITING, State.WORKING}


class Stage(StrEnum):
    """The worker whose work an upload has come to, or ended at."""

    ACQUISITION = "acquisition"
    INGESTION = "ingestion"
    MATCHING = "matching"


STAGES = tuple(Stage)


@dataclass(frozen=True)
class Outcome:
    """One upload or mail, and the document that it became, if it did.

    Each document of a mail, an archive or a bundle has an outcome of its own.
    """

    tenant: str
    """Empty when neither the key nor the mail names a tenant that exists."""
    file: str
    key: str
    job_id: UUID
    received_at: datetime
    stage: Stage
    state: State
    note: str
    """Why: a reason, an error; empty where there is nothing to say."""
    document_id: UUID | None = None
    type: str | None = None
    number: str | None = None
    content_hash: str | None = None
    """SHA-256, hexadecimal, of a document's file."""
    cluster_id: UUID | None = None

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "tenant": self.tenant,
            "file": self.file,
            "state": self.state,
            "stage": self.stage,
            "note": self.note or None,
            "type": self.type,
            "number": self.number,
            "cluster": self.cluster_id,
            "document": self.document_id,
            "key": self.key,
            "sha256": self.content_hash,
            "received_at": self.received_at.isoformat(),
        }


_NUMBERS = ", ".join(f"d.structured_data ->> '{roles.number}'" for roles in ROLES.values())
_OF_TENANT = f"""
WITH d AS (
    SELECT id, source_id, file_name, type, coalesce({_NUMBERS}) AS number, content_hash, cluster_id, matching_status,
           coalesce(matching_error, matching_reason) AS note, false AS is_removed, structured_data
    FROM document d
    UNION ALL
    SELECT document_id, source_id, file_name, type, NULL, content_hash, NULL, NULL,
           CASE WHEN replaced_by IS NULL THEN 'Deleted by ' ELSE 'Replaced by ' END || removed_by
               || coalesce(': ' || reason, ''), true, NULL
    FROM document_removal
)
SELECT a.id, a.key, a.created_at, a.status, coalesce(a.error, a.reason),
       i.id IS NOT NULL, i.status, coalesce(i.error, i.reason), EXISTS (
           SELECT FROM document_replacement r JOIN document replaced ON replaced.id = r.document_id
           WHERE r.successor = d.id AND r.settled_at IS NULL
       ),
       d.matching_status, d.note, coalesce(d.is_removed, false),
       d.id, d.file_name, d.type, d.number, encode(d.content_hash, 'hex'), d.cluster_id, d.structured_data
FROM acquisition_job a
LEFT JOIN source s ON s.job_id = a.id
LEFT JOIN d ON d.source_id = s.id
LEFT JOIN ingestion_job i ON i.id = d.id
WHERE a.tenant_id = %s AND a.reason IS DISTINCT FROM 'The file was erased.'
ORDER BY a.created_at, a.key, d.id
"""
_OF_NOBODY = """
SELECT id, key, created_at, status, coalesce(error, reason) FROM acquisition_job
WHERE tenant_id IS NULL AND status IS DISTINCT FROM 'succeeded' AND reason IS DISTINCT FROM 'The file was erased.'
ORDER BY created_at, key
"""
_TENANTS_OF = """
SELECT DISTINCT t.id, t.slug FROM acquisition_job a JOIN tenant t ON t.id = a.tenant_id WHERE a.key = ANY(%s)
ORDER BY t.slug
"""


def of_tenant(cloud: Cloud, tenant: Tenant) -> Iterator[Outcome]:
    """What became of a tenant's uploads, in the order of their arrival."""
    with cloud.database.tenant(tenant.id) as connection:
        rows = connection.execute(_OF_TENANT.encode(), [tenant.id]).fetchall()
    for row in rows:
        yield _outcome(tenant.slug, row)


def of_nobody(cloud: Cloud) -> Iterator[Outcome]:
    """Uploads and mails for no tenant that exists, or not known yet for whom. Only delivery sees them.

    A mail that was passed on is its tenants' alone.
    """
    with cloud.database.delivery() as connection:
        rows = connection.execute(_OF_NOBODY).fetchall()
    for row in rows:
        yield _outcome("", (*row, *[None] * 14))


def of_keys(cloud: Cloud, keys: Collection[str]) -> Iterator[Outcome]:
    """What became of the files under these keys, whoever they are for."""
    with cloud.database.delivery() as connection:
        tenants = [Tenant(*row) for row in connection.execute(_TENANTS_OF, [list(keys)]).fetchall()]
    for tenant in tenants:
        yield from (outcome for outcome in of_tenant(cloud, tenant) if outcome.key in keys)
    yield from (outcome for outcome in of_nobody(cloud) if outcome.key in keys)


def _outcome(tenant: str, row: tuple[Any, ...]) -> Outcome:
    (
        job,
        key,
        received_at,
        acquired,
        note,
        is_read,
        ingested,
        ingestion_note,
        is_awaited,
        matched,
        matching_note,
        is_removed,
        document,
        *rest,
    ) = row
    file, type_, number, content_hash, cluster, data = rest
    stage, status = Stage.ACQUISITION, acquired
    if is_read:
        stage, status, note = Stage.INGESTION, ingested, ingestion_note
        if ingested == "succeeded":
            stage, status, note = Stage.MATCHING, matched, matching_note
    states = {None: State.KEPT, "pending": State.WAITING, "in-progress": State.WORKING}
    state = states.get(status) or State(status)
    if is_removed:
        stage, state, note = Stage.MATCHING, State.REMOVED, matching_note
    elif stage is Stage.ACQUISITION and state is State.SUCCEEDED:
        state = State.SEEN_AGAIN
    elif is_awaited:
        note = f"{note.rstrip('.')}. {STAYS}" if note else STAYS
    if unread := document_list.missing(type_, data):
        note = " ".join(filter(None, (note, f"Not read: {', '.join(unread)}.")))
    return Outcome(
        tenant,
        file or key.rsplit("/", 1)[-1],
        key,
        job,
        received_at,
        stage,
        state,
        note or "",
        document,
        type_,
        number,
        content_hash,
        cluster,
    )


STYLES = {
    State.WAITING: "cyan",
    State.WORKING: "cyan",
    State.SUCCEEDED: "green",
    State.KEPT: "yellow",
    State.SEEN_AGAIN: "dim",
    State.REMOVED: "dim",
    State.FAILED: "red",
}


def show_outcomes(found: Sequence[Outcome], *, with_ids: bool = False) -> None:
    """Print a row for each upload and the number in each state; an id is the end of the document's id."""
    if not found:
        page().print("There are no documents.")
        return
    several = len({outcome.tenant for outcome in found}) > 1
    columns = [Column("tenant", no_wrap=True)] if several else []
    columns += [Column("id", no_wrap=True)] if with_ids else []
    columns += [
        Column("file", overflow="fold"),
        Column("state", no_wrap=True),
        Column("type"),
        Column("number", overflow="fold"),
    ]
    table = Table(*columns, Column("note", overflow="fold"), box=None, pad_edge=False)
    for outcome in found:
        cells = [Text(outcome.tenant or "(none)")] if several else []
        cells += [Text("" if outcome.state is State.REMOVED else short(outcome.document_id))] if with_ids else []
        cells += [Text(outcome.file), Text(outcome.state, STYLES[outcome.state])]
        cells += [Text(label(outcome.type)), Text(outcome.number or ""), Text(outcome.note)]
        table.add_row(*cells)
    page().print(table)
    page().print(summary(found))


def summary(found: Sequence[Outcome]) -> Text:
    """Return the number of uploads in each state that has any."""
    counts = Counter(outcome.state for outcome in found)
    parts = [Text(f"{counts[state]} {state}", STYLES[state]) for state in State if counts[state]]
    return Text(", ").join(parts)


_DOCUMENTS = """
SELECT d.id, t.id, t.slug FROM (
    SELECT id, tenant_id FROM document
    UNION ALL SELECT document_id, tenant_id FROM document_removal WHERE %(removed)s
) AS d JOIN tenant t ON t.id = d.tenant_id
WHERE right(d.id::text, length(%(end)s)) = %(end)s ORDER BY d.id LIMIT 2
"""


def document_named(cloud: Cloud, text: str, *, removed: bool = False) -> tuple[Tenant, UUID]:
    """Return the document with this id or end of an id, and its tenant.

    With `removed`, documents that were replaced or deleted are found, too.

    Raises:
        UsageError: no document or several documents have it.
    """
    end = text.strip().lower()
    if not ids.PART.fullmatch(end):
        raise UsageError(f"'{text}' is not the id of a document: take one from 'counterfoil documents'.")
    with cloud.database.delivery() as connection:
        found = connection.execute(_DOCUMENTS, {"end": end, "removed": removed}).fetchall()
    if not found:
        raise UsageError(f"No document has the id '{text}': 'counterfoil documents' lists them.")
    if len(found) > 1:
        raise UsageError(f"More than one document's id ends with '{text}': write more of it.")
    ((id_, tenant_id, slug),) = found
    return Tenant(tenant_id, slug), id_
