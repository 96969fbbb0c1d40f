"""`/api/admin/dlq/export`: dead letters as a file, CSV or JSON lines.

Looking at letters is enough to export them; what is hidden from the caller is hidden in the file. What is small is
answered at once. What is not is stored as an export, which the watchdog writes to S3; whoever asked for it, and every
admin of the tenant, finds it in a list, and gets a link that can be used for minutes.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from counterfoil import audit
from counterfoil.db import retry_conflicts
from counterfoil.dead_letters import export, exports
from counterfoil.dead_letters.export import MEDIA_TYPES, Format
from counterfoil.dead_letters.exports import LINK_SECONDS, Export, State, Wish
from counterfoil.dead_letters.search import DeadLetterFilter
from functions.admin_api import http
from functions.admin_api.auth import Request, Role, item_id, owner_of
from functions.admin_api.http import ForbiddenError, NotFoundError

AT_ONCE_BYTES = 4 * 1024 * 1024
"""Of a file that is answered at once: in base64 it is 5.6 MB, and Lambda's answers have room for 6."""
AT_ONCE_SECONDS = 5.0
"""For what is answered at once to be read."""
NO_EXPORT = "There is no such export."


class ListedExport(BaseModel):
    """An export that is written to S3 by and by, as lists tell of it."""

    export_id: UUID
    tenant: str
    format: Format
    state: State
    letters: int = Field(description="How many are written by now.")
    bytes: int
    redacted: bool = Field(description="Whether secrets are left out.")
    requested_by: str
    requested_at: datetime
    expires_at: datetime = Field(description="When the file is removed.")


class LetterExport(ListedExport):
    """An export, and where its file is."""

    url: str | None = Field(description="Where the file is, once the state is ready; each answer has a new one.")
    url_expires_at: datetime | None


class LetterExportPage(BaseModel):
    """Exports, the newest first, and the cursor of the page after them."""

    exports: list[ListedExport]
    next: str | None


@dataclass(frozen=True)
class File:
    """An export that is small."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True)
class Asked:
    """What is to be exported."""

    tenant: str | None
    selection: DeadLetterFilter
    format: Format


@dataclass(frozen=True)
class Bench:
    """Where exports are made."""

    request: Request
    bucket: str

    def export(self, asked: Asked) -> File | LetterExport:
        """The file, or, where it is too large for an answer, an export that is stored.

        Raises:
            RejectedRequestError: it is not said of which tenant.
            ForbiddenError, NotFoundError: the caller is no viewer of the tenant, or has no name; or there is none.
            TooManyExportsError: the tenant has too many that are being written.
            DatabaseUnavailableError: this cannot be done just now.
        """
        tenant_id, slug = self.request.tenant(asked.tenant)
        if not self.request.caller.subject:
            raise ForbiddenError("The token names nobody, and it is told who takes what out: it has no sub.")
        hides = self.request.caller.role < Role.ADMIN
        wish = Wish(tenant_id, asked.selection, asked.format, hides, self.request.caller.subject, self.request.now)
        return self._at_once(wish, slug) or self._stored(wish, slug)

    def _at_once(self, wish: Wish, slug: str) -> File | None:
        """The file, if it is soon read, and small."""
        until = self.request.time_left() - AT_ONCE_SECONDS
        content, letters = bytearray(export.head(wish.format)), 0
        selection = wish.selection.before(wish.now)
        for batch in export.batches(lambda: self.request.database.tenant(wish.tenant_id), wish.tenant_id, selection):
            content += export.encoded(batch.letters, slug, wish.format, hides=wish.hides)
            letters += len(batch.letters)
            if len(content) > AT_ONCE_BYTES or self.request.time_left() < until:
                return None

        def tell() -> None:
            with self.request.database.tenant(wish.tenant_id) as connection:
                audit.record(connection, wish.tenant_id, wish.taken(connection, letters, len(content)))

        retry_conflicts(tell)
        name = exports.file_name(slug, wish.format, wish.now)
        return File(name, MEDIA_TYPES[wish.format], bytes(content))

    def _stored(self, wish: Wish, slug: str) -> LetterExport:
        with self.request.database.tenant(wish.tenant_id) as connection:
            stored = exports.request(connection, wish)
        return self._told(stored, slug)

    def listed(self, tenant: str | None, cursor: str | None, limit: int) -> LetterExportPage:
        """A page of the tenant's exports that the caller may have. Nobody takes a file by looking at it.

        Raises:
            RejectedRequestError: the cursor cannot be read, or it is not said of which tenant.
            ForbiddenError, NotFoundError: the caller is no viewer of the tenant, or there is none.
            DatabaseUnavailableError: this cannot be known just now.
        """
        after = None if cursor is None else http.after(cursor)
        tenant_id, slug = self.request.tenant(tenant)
        by = None if self._may_have_all(slug) else self.request.caller.subject
        with self.request.database.tenant(tenant_id) as connection:
            found = exports.of_tenant(connection, tenant_id, by=by, now=self.request.now, limit=limit + 1, after=after)
        shown, following = http.cut(found, limit, lambda one: (one.requested_at, one.id))
        told = [ListedExport.model_validate(_facts(one, slug)) for one in shown]
        return LetterExportPage(exports=told, next=following)

    def show(self, export_id: str) -> LetterExport:
        """An export that was stored; with a link to its file, once that is written.

        Raises:
            NotFoundError: there is none, it is past keeping, or it is another one's.
            DatabaseUnavailableError, ServiceUnavailableError: this cannot be done just now.
        """
        found, slug = self._owned(export_id)
        if found.state == "ready":

            def take() -> None:
                with self.request.database.tenant(found.tenant_id) as connection:
                    exports.take(connection, found, by=self.request.caller.subject, now=self.request.now)

            retry_conflicts(take)
        return self._told(found, slug)

    def _owned(self, export_id: str) -> tuple[Export, str]:
        """An export that is the caller's, or of a tenant that he is an admin of, and the tenant's slug."""
        id_ = item_id(export_id, NO_EXPORT)
        with self.request.database.delivery() as connection:
            found = exports.find(connection, id_)
            owner = owner_of(connection, "dead_letter_export", id_)
        if (
            found is None
            or owner is None
            or found.expires_at <= self.request.now
            or not self._may_have(found, owner[1])
        ):
            raise NotFoundError(NO_EXPORT)
        return found, owner[1]

    def _may_have(self, found: Export, slug: str) -> bool:
        """Whoever was an admin when he asked, and is none any more, may not see what is in it."""
        if self._may_have_all(slug):
            return True
        return (
            self.request.caller.may(Role.VIEWER, slug)
            and found.hides
            and found.requested_by == self.request.caller.subject
        )

    def _may_have_all(self, slug: str) -> bool:
        return self.request.caller.may(Role.ADMIN, slug) and bool(self.request.caller.subject)

    def _told(self, found: Export, slug: str) -> LetterExport:
        ready = found.state == "ready"
        where = {
            "url": exports.link(self.bucket, found, slug) if ready else None,
            "url_expires_at": self.request.now + timedelta(seconds=LINK_SECONDS) if ready else None,
        }
        return LetterExport.model_validate({**_facts(found, slug), **where})


def _facts(found: Export, slug: str) -> dict[str, Any]:
    return {**vars(found), "export_id": found.id, "tenant": slug, "redacted": found.hides}
