"""One attempt at acquiring a file: its source, its documents unless the tenant has them already, and their ingestion.

A mail or an archive is taken apart: each file in it that could be a document is stored on its own before anything is
written to the database, under a key that its content gives it, so that a repeated try stores the same again.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from counterfoil.db import Connection
from counterfoil.delivery import Attempt, Outcome, Skip, Success
from counterfoil.documents import files, replacement, uploads
from counterfoil.documents.extraction import check_size
from counterfoil.documents.files import Fetched, File
from counterfoil.documents.mail import attachments, holds, message
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.uploads import INBOX
from counterfoil.errors import InvalidDocumentError
from counterfoil.work import Send, begin
from functions.acquisition import parts, routing, store
from functions.acquisition.parts import Parts, Stored
from functions.acquisition.store import Arrival


def acquire(attempt: Attempt) -> Outcome:
    """Acquire the file of one S3 event, or find out whom a mail is for.

    Raises:
        UnknownTenantError: the key or the mail names no tenant that exists.
        InvalidDocumentError: the file is empty or too large, or cannot be taken apart, or it is a mail that the tenant
            has with other files.
        ServiceUnavailableError, RejectedRequestError: S3 did not give the file, or did not take an attachment.
    """
    if attempt.tenant_id is None:
        return routing.route(attempt)
    with attempt.database.tenant(attempt.tenant_id) as connection:
        bucket, key, version, size, received_at = connection.execute(
            "SELECT bucket, key, version, size, created_at FROM acquisition_job WHERE id = %s", [attempt.work_id]
        ).fetchall()[0]
    if key.endswith("/"):
        return Skip("A folder, not a file")
    check_size(size)
    file, by_mail = File(bucket, key, version), key.startswith(INBOX)
    fetched = files.fetch(file, keep=lambda head: by_mail or attachments.is_container(head))
    attempt.check()
    if fetched.content is not None:
        if by_mail or message.is_mail(fetched.content):
            return _mail(attempt, file, fetched.content, received_at)
        packed = parsers.take_archive_apart(fetched.content, attempt.check)
        if packed is not None:
            arrival = Arrival.of(attempt, file, received_at)
            return _taken_apart(attempt, arrival, parts.store(attempt, bucket, packed))
    return _whole(attempt, file, fetched, received_at)


def _whole(attempt: Attempt, file: File, fetched: Fetched, received_at: datetime) -> Success:
    """A file that is one document, and stays where it was uploaded to."""
    document = Stored(uploads.file_name(file.key), file, fetched.size, fetched.sha256)
    return _success(attempt, Arrival.of(attempt, file, received_at, documents=(document,)))


def _mail(attempt: Attempt, file: File, content: bytes, received_at: datetime) -> Outcome:
    envelope, authentication, attached = parsers.take_mail_apart(content, attempt.check)
    arrival = Arrival.of(attempt, file, received_at, envelope=envelope)
    if file.key.startswith(INBOX):  # a file that a user uploads proves nothing about its sender
        arrival = replace(arrival, authentication=authentication)
    if envelope.refusal is not None:
        return _refused(arrival, envelope.refusal)
    if arrival.authentication.is_failed:
        with attempt.database.tenant(arrival.tenant_id) as connection:
            hold, reason = holds.decide(connection, arrival.tenant_id, arrival.job_id)
        arrival = replace(arrival, hold=hold)
        if reason is not None:
            return _refused(arrival, reason)
    return _taken_apart(attempt, arrival, parts.store(attempt, file.bucket, attached))


def _taken_apart(attempt: Attempt, arrival: Arrival, found: Parts) -> Outcome:
    arrival = replace(arrival, documents=found.documents, skipped=found.skipped)
    if found.documents:
        with attempt.database.tenant(arrival.tenant_id) as connection:
            is_refused = store.refuse_other_files(connection, arrival)
        if is_refused:
            raise InvalidDocumentError(store.OTHER_FILES)
        return _success(attempt, arrival)
    what = "archive" if arrival.envelope is None else "mail"
    if not found.skipped:
        return _refused(arrival, f"The {what} holds no file.")
    return _refused(arrival, f"The {what} holds no file that could be a document. {found.not_taken}")


def _refused(arrival: Arrival, reason: str) -> Skip:
    """Nothing is taken from it: that it came, from whom, and why is recorded."""

    def effects(connection: Connection) -> Sequence[Send]:
        store.write(connection, arrival, refusal=reason)
        return ()

    return Skip(reason, effects)


def _success(attempt: Attempt, arrival: Arrival) -> Success:
    remarks: list[str | None] = []

    def effects(connection: Connection) -> Sequence[Send]:
        now = attempt.now()
        intended = replacement.intended(connection, arrival.tenant_id, arrival.file)
        written = store.write(connection, arrival)
        sends = begin(connection, "ingestion", written.documents, now)
        remarks[:] = [written.remark]
        if intended is not None:
            is_new = written.only in written.documents
            more, told = replacement.appoint(connection, intended, written.only, now, is_new=is_new)
            sends += more
            remarks[:] = [f"{written.remark.rstrip('.')}. {told}" if written.remark else told]
        return sends

    return Success(effects, reason=lambda: remarks[0])
