"""`/api/admin/documents`: documents are listed, searched and looked at, their history and their pages among it.

Looking takes the role viewer for the tenant.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field, JsonValue, StringConstraints

from counterfoil.db import Database
from counterfoil.documents import browsing, files, page_images, particulars, review_queue, timeline
from counterfoil.documents.browsing import STAGES, STATES, Place, StageName, StageState, Summary, Wanted
from counterfoil.documents.files import File
from counterfoil.documents.matching.evidence import Step
from counterfoil.documents.page_images import Picture
from counterfoil.documents.particulars import Details
from counterfoil.documents.three_way_match import ClusterStatus
from counterfoil.documents.timeline import Kind
from counterfoil.errors import InvalidDocumentError, RejectedRequestError
from functions.admin_api import http
from functions.admin_api.auth import Caller, owned, viewed
from functions.admin_api.http import NotFoundError

LONGEST_TEXT = 200
HIGHEST_PAGE = 10_000
NO_DOCUMENT = "There is no such document."

AtStage = Annotated[str, StringConstraints(pattern=f"^({'|'.join(STAGES)}):({'|'.join(STATES)})$")]
"""A stage and its state: `matching:failed`."""


class Stage(BaseModel):
    """How far the work of a stage has come."""

    stage: StageName
    state: StageState = Field(
        description="none: there was never anything to do; skipped: it was found that there is nothing to do."
    )
    reason: str | None = Field(description="Why, in a sentence; of a failure, the error.")


class Total(BaseModel):
    """What a document comes to: gross where it is stated, else net."""

    amount: str = Field(description="As it is stated, a decimal number.")
    minor: int | None = Field(
        description="In the currency's smallest unit (ISO 4217); null where no currency is stated, or more digits."
    )
    currency: str | None


class DocumentSummary(BaseModel):
    """A document as lists have it."""

    id: UUID
    tenant: str
    type: str | None = Field(description="null until it was read.")
    number: str | None
    date: str | None
    seller: str | None
    buyer: str | None
    total: Total | None
    file_name: str
    received_at: datetime
    cluster_id: UUID | None
    cluster_status: ClusterStatus | None = Field(
        description="null until its cluster was compared; needs-review if it names no party and was not matched."
    )
    missing: list[str] = Field(description="Expected facts that were not read: number, date, supplier, buyer, total.")
    stages: list[Stage]
    dead_letter: UUID | None = Field(
        description="Dead letter of a file that failed before it became a document. `id` then names no document."
    )


class DocumentPage(BaseModel):
    """Documents, the newest first, and the cursor of the page after them.

    A page that is narrowed may be short, or empty, and another one follow.
    """

    documents: list[DocumentSummary]
    next: str | None


class DocumentField(BaseModel):
    """A field that a document states."""

    path: str
    value: JsonValue
    source: str | None = Field(description="The way it was found; null where that was not kept.")
    confidence: float | None = Field(description="0 to 1.")
    page: int | None


class Progress(Stage):
    """How far the work of a stage has come, with its tries."""

    attempts: int
    revision: int
    failed_at: datetime | None
    next_attempt_at: datetime | None


class DocumentEdge(BaseModel):
    """A document that it belongs together with, and why."""

    document: DocumentSummary
    score: float = Field(description="In bits: log2 of the odds for it.")
    confidence: str
    decided_by: str
    reasoning: str
    decided_at: datetime
    evidence: list[Step]


class DocumentPart(BaseModel):
    """A document that was cut out of this one's file."""

    id: UUID
    first_page: int
    last_page: int


class DocumentLetter(BaseModel):
    """A dead letter of its work."""

    job_id: UUID
    worker: str
    status: str


class DocumentSource(BaseModel):
    """What it came with."""

    kind: str
    received_at: datetime
    sender: str | None
    subject: str | None
    spf: str | None = Field(description="Result of Amazon SES, such as pass or fail; null if the mail has none.")
    dkim: str | None
    dmarc: str | None


class Document(DocumentSummary):
    """A document whole."""

    size: int = Field(description="Of its file, in bytes.")
    method: str | None = Field(description="By which it was read.")
    seen_again: int
    last_seen_at: datetime
    source: DocumentSource
    parent_id: UUID | None = Field(description="The document out of whose file it was cut.")
    first_page: int | None
    last_page: int | None
    parts: list[DocumentPart] = Field(description=f"The first {particulars.MOST_PARTS} at most.")
    fields: list[DocumentField] = Field(description="But for those of its lines.")
    lines: list[list[DocumentField]] = Field(description=f"The first {particulars.MOST_LINES} at most.")
    lines_total: int
    progress: list[Progress]
    edges: list[DocumentEdge] = Field(description=f"The strongest {particulars.MOST_EDGES} at most.")
    edges_total: int
    dead_letters: list[DocumentLetter]
    review: str | None = Field(description="The state of its review; null where it was never in doubt.")


class DocumentEvent(BaseModel):
    """Something that happened to a document, or to work about it."""

    at: datetime = Field(
        description="When it was over; of what runs, when it began; of what is due, when it may begin."
    )
    kind: Kind
    what: str
    who: str = Field(description="The worker, the person, or the model.")
    began_at: datetime | None
    revision: int | None
    number: int | None = Field(description="Of the try.")
    error_type: str | None
    error: str | None
    next_attempt_at: datetime | None
    other: UUID | None = Field(description="The other document of a link or a decision.")
    job_id: UUID | None = Field(description="Of the dead letter.")
    detail: dict[str, JsonValue]


class DocumentTimeline(BaseModel):
    """What is known to have happened to a document, the first of it first.

    Of tries that succeeded no time is kept, and tries are kept for 90 days.
    """

    id: UUID
    tenant: str
    events: list[DocumentEvent] = Field(description=f"Of each kind the last {timeline.LAST} at most.")


@dataclass(frozen=True)
class Filter:
    """What a list is asked for."""

    tenant: str | None
    type: str | None
    state: str | None
    since: datetime | None
    until: datetime | None
    text: str | None
    limit: int
    cursor: str | None

    @property
    def wanted(self) -> Wanted:
        """The same for `browsing`."""
        stage, _, state = (self.state or "").partition(":")
        named = {"stage": stage, "state": state} if self.state is not None else {}
        return Wanted(type=self.type, since=self.since, until=self.until, **named)  # type: ignore[arg-type]


def listed(asked: Filter, caller: Caller, database: Database) -> DocumentPage:
    """A page of a tenant's documents.

    Raises:
        RejectedRequestError: no tenant is named and the token is not for just one; or the cursor is none of ours.
        ForbiddenError: the caller is no viewer of the tenant.
        NotFoundError: there is no such tenant.
        DatabaseUnavailableError: this cannot be known just now.
    """
    after = None if asked.cursor is None else Place(*http.after(asked.cursor))
    tenant_id, slug = viewed(database, asked.tenant, caller)
    with database.tenant(tenant_id) as connection:
        found = browsing.page(connection, tenant_id, asked.wanted, text=asked.text, limit=asked.limit, after=after)
    return DocumentPage(
        documents=[summary(one, slug) for one in found.documents],
        next=None if found.next is None else http.cursor(found.next.received_at, found.next.id),
    )


def summary(found: Summary, tenant: str) -> DocumentSummary:
    """A document as the API tells of it."""
    return DocumentSummary.model_validate({**asdict(found), "tenant": tenant})


def shown(document_id: str, caller: Caller, database: Database) -> Document:
    """One document.

    Raises:
        NotFoundError: there is none, or none that the caller may see.
        DatabaseUnavailableError: this cannot be known just now.
    """
    tenant_id, slug, id_ = owner(document_id, caller, database)
    with database.tenant(tenant_id) as connection:
        found = particulars.show(connection, tenant_id, id_)
    if found is None:  # it was there, and has just been removed
        raise NotFoundError(NO_DOCUMENT)
    return Document.model_validate(_record(found, slug))


def _record(found: Details, slug: str) -> dict[str, Any]:
    whole = {name: value for name, value in vars(found).items() if name not in {"summary", "edges"}}
    return {
        **asdict(found.summary),
        "tenant": slug,
        **{name: _plain(value) for name, value in whole.items()},
        "edges": [
            {**{name: _plain(value) for name, value in vars(edge).items()}, "document": summary(edge.other, slug)}
            for edge in found.edges
        ],
    }


def _plain(value: Any) -> Any:
    """Dataclasses and named tuples, in lists too, as dictionaries."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    if hasattr(value, "__dataclass_fields__"):
        return asdict(value)
    return [_plain(one) for one in value] if isinstance(value, list) else value


def told(document_id: str, caller: Caller, database: Database) -> DocumentTimeline:
    """What happened to one document. Raises as `shown`."""
    tenant_id, slug, id_ = owner(document_id, caller, database)
    with database.tenant(tenant_id) as connection:
        events = timeline.of(connection, tenant_id, id_)
    return DocumentTimeline.model_validate({"id": id_, "tenant": slug, "events": [asdict(event) for event in events]})


@dataclass(frozen=True)
class PageOfFile:
    """A page that may be asked for."""

    file: File
    number: int
    tag: str
    """Another one where the page's image may be another one."""

    def picture(self) -> Picture:
        """Fetch the file, and draw the page.

        Raises:
            NotFoundError: the file has fewer pages, or is not kept any more.
            UnshowableError: it has no pages to be shown, or this one cannot be.
            ServiceUnavailableError: S3 does not give the file just now.
        """
        try:
            content = files.read(self.file)
        except (InvalidDocumentError, RejectedRequestError):
            raise NotFoundError("The document's file is not there any more.") from None
        try:
            return page_images.picture(content, self.number)
        except page_images.NoPageError as error:
            raise NotFoundError(str(error)) from None


_FILE = "SELECT bucket, key, version, encode(content_hash, 'hex') FROM document WHERE id = %s"


def page(document_id: str, number: int, caller: Caller, database: Database) -> PageOfFile:
    """A page of a document's file, by its number from 1. Raises as `shown`."""
    tenant_id, _, id_ = owner(document_id, caller, database)
    with database.tenant(tenant_id) as connection:
        row = connection.execute(_FILE, [id_]).fetchone()
    if row is None:  # as above
        raise NotFoundError(NO_DOCUMENT)
    *file, content_hash = row
    return PageOfFile(File(*file), number, f"{content_hash}-{number}-{page_images.VERSION}")


def owner(document_id: str, caller: Caller, database: Database) -> tuple[UUID, str, UUID]:
    """The tenant of a document that the caller may see, by id and slug, and the document's id.

    Raises:
        NotFoundError: there is none, or none that the caller may see.
        DatabaseUnavailableError: this cannot be known just now.
    """
    return owned(document_id, review_queue.owner, caller, database, NO_DOCUMENT)
