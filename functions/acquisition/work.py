"""One attempt at acquiring a file: its source, its documents unless the tenant has them already, and their ingestion.

A mail or an archive is taken apart: each file in it that could be a document is stored on its own before anything is
written to the database, under a key that its content gives it, so that a repeated try stores the same again.
"""

from dataclasses import replace
from datetime import datetime

from counterfoil.db import Connection
from counterfoil.delivery.attempt import Effects, Outcome, RoutingWorker, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.work import begin
from counterfoil.documents import files, removal
from counterfoil.documents.files import INBOX, Fetched, File
from counterfoil.documents.filetype import check_size
from counterfoil.documents.mail import attachments, holds, message
from counterfoil.documents.mail.message import REFUSALS, Refusal
from counterfoil.documents.sandbox import parsers
from functions.acquisition import parts, store
from functions.acquisition.parts import Parts, Stored
from functions.acquisition.routing import route
from functions.acquisition.store import Arrival


def acquire(attempt: TenantAttempt) -> Outcome:
    """Acquire the file of one S3 event.

    Raises:
        InvalidDocumentError: the file is empty or too large, or cannot be taken apart, or it is a mail that the tenant
            has with other files.
        ServiceUnavailableError, RejectedRequestError: S3 did not give the file, or did not take an attachment.
    """
    with attempt.database.tenant(attempt.tenant_id) as connection:
        bucket, key, version, size, received_at = connection.execute(
            "SELECT bucket, key, version, size, created_at FROM acquisition_job WHERE id = %s", [attempt.work_id]
        ).fetchall()[0]
    if key.endswith("/"):
        return Skipped("A folder, not a file")
    check_size(size)
    file, by_mail = File(bucket, key, version), key.startswith(INBOX)
    fetched = files.fetch(file, keep=lambda head: by_mail or attachments.is_container(head))
    attempt.deadline.check()
    if fetched.content is not None:
        if by_mail or message.is_mail(fetched.content):
            return _mail(attempt, file, fetched.content, received_at)
        packed = parsers.take_archive_apart(fetched.content, attempt.deadline.check)
        if packed is not None:
            arrival = Arrival.of(attempt, file, received_at)
            return _taken_apart(attempt, arrival, parts.store(attempt, bucket, packed))
    return _whole(attempt, file, fetched, received_at)


def _whole(attempt: TenantAttempt, file: File, fetched: Fetched, received_at: datetime) -> Succeeded:
    """A file that is one document, and stays where it was uploaded to."""
    document = Stored(files.file_name(file.key), file, fetched.size, fetched.sha256)
    return _success(attempt, Arrival.of(attempt, file, received_at, documents=(document,)))


def _mail(attempt: TenantAttempt, file: File, content: bytes, received_at: datetime) -> Outcome:
    envelope, authentication, attached = parsers.take_mail_apart(content, attempt.deadline.check)
    arrival = Arrival.of(attempt, file, received_at, envelope=envelope)
    if file.key.startswith(INBOX):  # a file that a user uploads proves nothing about its sender
        arrival = replace(arrival, authentication=authentication)
    if envelope.refusal is not None:
        return _refused(arrival, envelope.refusal)
    if arrival.authentication.is_failed:
        with attempt.database.tenant(arrival.tenant_id) as connection:
            hold, refusal = holds.decide(connection, arrival.tenant_id, arrival.job_id)
        arrival = replace(arrival, hold=hold)
        if refusal is not None:
            return _refused(arrival, refusal)
    return _taken_apart(attempt, arrival, parts.store(attempt, file.bucket, attached))


def _taken_apart(attempt: TenantAttempt, arrival: Arrival, found: Parts) -> Outcome:
    arrival = replace(arrival, documents=found.documents, skipped=found.skipped)
    if found.documents:
        with attempt.database.tenant(arrival.tenant_id) as connection:
            is_refused = store.refuse_other_files(connection, arrival)
        if is_refused:
            raise store.OtherFilesError
        return _success(attempt, arrival)
    return _refused(arrival, Refusal.NO_DOCUMENTS if found.skipped else Refusal.NO_FILES, found.not_taken)


def _refused(arrival: Arrival, refusal: Refusal, detail: str | None = None) -> Skipped:
    """Store only the source of a mail or an archive, with the reason."""

    def effects(connection: Connection) -> Effects:
        store.write(connection, arrival, refusal=refusal)
        return Effects()

    return Skipped(" ".join(filter(None, (REFUSALS[refusal], detail))), effects)


def _success(attempt: TenantAttempt, arrival: Arrival) -> Succeeded:

    def effects(connection: Connection) -> Effects:
        now = attempt.now()
        intended = removal.intended(connection, arrival.tenant_id, arrival.file)
        written = store.write(connection, arrival)
        messages = begin(connection, "ingestion", written.documents, now)
        if intended is None:
            return Effects(messages, written.remark)
        is_new = written.only in written.documents
        more, told = removal.appoint(connection, intended, written.only, now, is_new=is_new)
        return Effects(messages + more, f"{written.remark.rstrip('.')}. {told}" if written.remark else told)

    return Succeeded(effects)


WORKER = RoutingWorker(acquire, route)
