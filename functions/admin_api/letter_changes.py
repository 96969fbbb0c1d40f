"""`/api/admin/dlq/{job_id}/...`: a dead letter is tried again, settled, or its payload edited; who did what.

A change needs the role operator for the tenant. If-Match may name the version of the letter that the caller saw: the
change is refused if the letter changed since then. An edit of a payload needs it, because it replaces the text of an
earlier edit. It also needs the group `edit-payloads` or the role admin, as does seeing the whole payload.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from counterfoil import audit
from counterfoil.db import Database
from counterfoil.dead_letters import actions, edits
from counterfoil.dead_letters.actions import LONGEST_NOTE, Done, Wish
from counterfoil.dead_letters.entries import Status, transaction
from counterfoil.delivery.outbox import Outbox
from counterfoil.errors import RejectedRequestError
from counterfoil.settings import Settings
from functions.admin_api.auth import Caller, Request, Scope, scoped
from functions.admin_api.dead_letters import owner
from functions.admin_api.http import ForbiddenError, required_version, sent_version

Note = Annotated[
    str,
    StringConstraints(min_length=1, max_length=LONGEST_NOTE, strip_whitespace=True, pattern=r"^[^\x00-\x1f\x7f]*$"),
]


class LetterRetry(BaseModel):
    """Why it is tried again, if anybody is to know."""

    model_config = ConfigDict(extra="forbid")

    notes: Note | None = None


class LetterResolution(BaseModel):
    """How its failure was dealt with."""

    model_config = ConfigDict(extra="forbid")

    notes: Note


class LetterIgnoring(BaseModel):
    """Why nothing is done about it; unless the address says so."""

    model_config = ConfigDict(extra="forbid")

    reason: Note | None = None


class LetterEdit(BaseModel):
    """Another payload for the task, all of it. What it was takes an edit back."""

    model_config = ConfigDict(extra="forbid")

    payload: dict[str, JsonValue]
    notes: Note | None = None


class LetterChanged(BaseModel):
    """The letter as it is now."""

    job_id: UUID
    tenant: str
    status: Status
    version: int


class PayloadEdit(BaseModel):
    """One edit of a payload."""

    model_config = ConfigDict(from_attributes=True)

    by: str
    at: datetime
    note: str | None
    before: dict[str, JsonValue] = Field(description="Of the fields that differ from what had failed, those it had.")
    after: dict[str, JsonValue] = Field(
        description="Of the same fields, those that the edit left. Nothing in both: it took the edits before back."
    )


class LetterPayload(BaseModel):
    """The payload of a task that has failed."""

    job_id: UUID
    tenant: str
    task_type: str
    original: dict[str, JsonValue] = Field(description="As it was tried.")
    edited: dict[str, JsonValue] | None = Field(description="As it will be tried, where somebody has edited it.")
    edits: list[PayloadEdit] = Field(
        description="Who edited it and how, the latest first; they stay when the letter is settled."
    )
    version: int


class AuditRecord(BaseModel):
    """An entry of the audit trail."""

    number: int
    recorded_at: datetime
    actor: str
    action: str
    targets: list[str] = Field(description="Ids of what it was done to.")
    version_before: int | None
    version_after: int | None
    note_hash: str | None = Field(
        description="Of the note, which is with the letter: an HMAC-SHA-256 by a secret of the tenant."
    )
    detail: dict[str, JsonValue]
    previous_hash: str | None = Field(description="Of the entry before it; null: it is the first one.")
    hash: str = Field(description="SHA-256 of the hash of the entry before it and of this one.")


class AuditHead(BaseModel):
    """The entry that was written last, whether it is there or not."""

    number: int
    hash: str


class AuditPage(BaseModel):
    """Entries, the newest first, and the cursor of the page after them; and what else their hashes are computed of."""

    tenant_id: UUID | None = Field(description="Whose they are; null: nobody's.")
    head: AuditHead | None = Field(description="Of the whole trail; null: nothing was ever written.")
    entries: list[AuditRecord]
    next: int | None


@dataclass(frozen=True)
class Bench:
    """Where letters are changed."""

    database: Database
    outbox: Outbox
    settings: Settings
    time_left: Callable[[], float]
    """Seconds until the request has to be answered."""

    def retry(self, job_id: str, asked: LetterRetry | None, condition: str | None, request: Request) -> LetterChanged:
        """Begin the letter's work anew.

        Raises:
            NotFoundError: there is no such letter, or none that the caller may see.
            ForbiddenError, TooManyError: see `Request.admit`.
            VersionError: If-Match names another version.
            NotPendingError, NotRetriableError: the letter is settled, or its work is not failed any more.
            InvalidPayloadError: the edited payload is not in the form of its type any more.
            DatabaseUnavailableError, ServiceUnavailableError: this cannot be done just now.
        """
        tenant_id, slug, wish = self._wish(job_id, asked.notes if asked else None, condition, request, "Trying again")
        done = actions.retry(self.database, tenant_id, wish, bucket=self.settings.uploads_bucket)
        self.outbox.send(done.sends, time_left=self.time_left)
        return _changed(wish, slug, "retried", done)

    def resolve(self, job_id: str, asked: LetterResolution, condition: str | None, request: Request) -> LetterChanged:
        """Settle the letter as resolved. Raises as `retry`."""
        tenant_id, slug, wish = self._wish(job_id, asked.notes, condition, request, "Resolving")
        return _changed(wish, slug, "resolved", actions.resolve(self.database, tenant_id, wish))

    def ignore(self, job_id: str, reason: str | None, condition: str | None, request: Request) -> LetterChanged:
        """Settle the letter as ignored. Raises as `retry`, and RejectedRequestError: it is not said why."""
        tenant_id, slug, wish = self._wish(job_id, reason, condition, request, "Ignoring")
        return _changed(wish, slug, "ignored", actions.ignore(self.database, tenant_id, wish))

    def edit(self, job_id: str, asked: LetterEdit, condition: str | None, request: Request) -> LetterChanged:
        """Have the letter's task be tried with another payload.

        Raises:
            NotEditableError: it has none that can be edited.
            InvalidPayloadError, TooLargeError: its type does not take the payload.
            NoConditionError: If-Match is missing.
            and as `retry`.
        """
        tenant_id, slug, wish = self._wish(job_id, asked.notes, condition, request, "Editing", _may_edit)
        wish = replace(wish, version=required_version(condition))
        bucket = self.settings.uploads_bucket
        done = edits.edit(
            self.database, _somebodys(tenant_id), wish, asked.payload, bucket=bucket, settings=self.settings
        )
        return _changed(wish, slug, "pending", done)

    def payload(self, job_id: str, caller: Caller) -> LetterPayload:
        """The payload that may be edited, as it is. Raises as `edit`."""
        tenant_id, slug, id_ = owner(job_id, caller, self.database)
        _may_edit(caller, slug)
        found = edits.shown(self.database, _somebodys(tenant_id), id_, bucket=self.settings.uploads_bucket)
        return LetterPayload(
            job_id=id_,
            tenant=slug,
            task_type=found.type.name,
            original=found.original,
            edited=found.edited,
            edits=[PayloadEdit.model_validate(one) for one in found.edits],
            version=found.version,
        )

    def _wish(  # what is wished, by whom, and of what
        self,
        job_id: str,
        note: str | None,
        condition: str | None,
        request: Request,
        doing: str,
        check: Callable[[Caller, str], None] = lambda _caller, _slug: None,
    ) -> tuple[UUID | None, str, Wish]:
        tenant_id, slug, id_ = owner(job_id, request.caller, self.database)
        check(request.caller, slug)
        request.admit_in(doing, Scope(tenant_id, slug))
        by = request.caller.named()
        return tenant_id, slug, Wish(id_, sent_version(condition), by, request.now, note)


def reason_of(asked: LetterIgnoring | None, named: str | None) -> str | None:
    """Why a letter is ignored, as the body or the address says; None: neither does.

    Raises:
        RejectedRequestError: they say two things.
    """
    given = asked.reason if asked else None
    if given is not None and named is not None and given != named:
        raise RejectedRequestError("The body and the address give two reasons: leave one of them out.")
    return named if given is None else given


def _may_edit(caller: Caller, slug: str) -> None:
    if not caller.may_edit_payloads(slug):
        raise ForbiddenError("Editing takes the role admin for this tenant, or operator and the group edit-payloads.")


def _somebodys(tenant_id: UUID | None) -> UUID:
    if tenant_id is None:
        raise edits.NotEditableError("Only the payloads of tasks can be edited: nobody knows what this message is.")
    return tenant_id


def _changed(wish: Wish, slug: str, status: Status, done: Done) -> LetterChanged:
    return LetterChanged(job_id=wish.job_id, tenant=slug, status=status, version=done.version)


@dataclass(frozen=True)
class TrailFilter:
    """What the trail is asked for."""

    tenant: str | None
    target: UUID | None
    """Entries about this alone."""
    before: int | None
    """Entries with smaller numbers alone."""
    limit: int


def trail(asked: TrailFilter, caller: Caller, database: Database) -> AuditPage:
    """A page of a tenant's audit trail, or of that about what is nobody's and what concerns all tenants.

    Raises:
        RejectedRequestError: it is not said of which tenant.
        ForbiddenError, NotFoundError: the caller is no viewer of the tenant, or there is none.
        DatabaseUnavailableError: this cannot be known just now.
    """
    tenant_id, _ = scoped(database, asked.tenant, caller)
    target = None if asked.target is None else str(asked.target)
    with transaction(database, tenant_id) as connection:
        head = audit.head(connection, tenant_id)
        found = audit.page(connection, tenant_id, limit=asked.limit + 1, before=asked.before, target=target)
    shown = found[: asked.limit]
    return AuditPage(
        tenant_id=tenant_id,
        head=None if head is None else AuditHead(number=head[0], hash=head[1].hex()),
        entries=[AuditRecord.model_validate(vars(one) | _hex(one)) for one in shown],
        next=shown[-1].number if len(found) > asked.limit else None,
    )


def _hex(entry: audit.AuditEntry) -> dict[str, str | None]:
    hashes = {"note_hash": entry.note_hash, "previous_hash": entry.previous_hash, "hash": entry.hash}
    return {name: None if value is None else value.hex() for name, value in hashes.items()}
