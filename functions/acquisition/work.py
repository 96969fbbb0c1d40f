"""One attempt at acquiring a file: its source, its documents unless the tenant has them already, and their ingestion.

A mail or an archive is taken apart: each file in it that could be a document is stored on its own before anything is
written to the database, under a key that its content gives it, so that a repeated try stores the same again.
"""

from collections.abc import Sequence
from datetime import datetime

from counterfoil.db import Connection
from counterfoil.delivery import Attempt, Outcome, Skip, Success
from counterfoil.documents import files, replacement
from counterfoil.documents.extraction import check_size
from counterfoil.documents.files import Fetched, File
from counterfoil.documents.mail import attachments, message
from counterfoil.documents.mail.archive import Archive
from counterfoil.documents.mail.message import Envelope
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
        archive = Archive(fetched.content)
        if not archive.is_office_document:
            found = parts.store(attempt, bucket, attachments.of_archive(archive, attempt.check))
            return _taken_apart(attempt, file, received_at, None, found)
    return _whole(attempt, file, fetched, received_at)


def _whole(attempt: Attempt, file: File, fetched: Fetched, received_at: datetime) -> Success:
    """A file that is one document, and stays where it was uploaded to."""
    document = Stored(file.key.rsplit("/", 1)[-1], file, fetched.size, fetched.sha256)
    return _success(attempt, Arrival.of(attempt, file, received_at, documents=(document,)))


def _mail(attempt: Attempt, file: File, content: bytes, received_at: datetime) -> Outcome:
    mail = message.parse(content, attempt.check)
    envelope = message.envelope(mail)
    if envelope.refusal is not None:
        return _refused(Arrival.of(attempt, file, received_at, envelope=envelope), envelope.refusal)
    found = parts.store(attempt, file.bucket, attachments.of_mail(mail, attempt.check))
    return _taken_apart(attempt, file, received_at, envelope, found)


def _taken_apart(
    attempt: Attempt, file: File, received_at: datetime, envelope: Envelope | None, found: Parts
) -> Outcome:
    arrival = Arrival.of(
        attempt, file, received_at, envelope=envelope, documents=found.documents, skipped=found.skipped
    )
    if found.documents:
        with attempt.database.tenant(arrival.tenant_id) as connection:
            is_refused = store.refuse_other_files(connection, arrival)
        if is_refused:
            raise InvalidDocumentError(store.OTHER_FILES)
        return _success(attempt, arrival)
    what = "archive" if envelope is None else "mail"
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
