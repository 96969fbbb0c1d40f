"""Acquire one file: create its source and new documents, and start ingestion.

Files in an email or archive that could be documents are stored in S3 before the database is written. Their keys are
derived from their content, so that a repeated attempt stores the same objects.

The job of an email in the inbox has no tenant and reads only the recipients. Each recipient tenant has its own job,
which reads the email under that tenant's row-level security.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from counterfoil.db import Connection
from counterfoil.delivery.attempt import Attempt, Effects, Outcome, RoutingWorker, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.work import start_revision
from counterfoil.documents import files, removal
from counterfoil.documents.files import INBOX, PREFIX, FetchedFile, File
from counterfoil.documents.filetype import FileKind, check_size
from counterfoil.documents.mail import attachments, holds, message
from counterfoil.documents.mail.attachments import MailPart
from counterfoil.documents.mail.attachments import SkippedAttachment as SkippedFile
from counterfoil.documents.mail.message import REFUSALS, Refusal, recipients
from counterfoil.documents.sandbox import parsers
from counterfoil.errors import UnknownTenantError
from functions.acquisition import store
from functions.acquisition.store import IncomingFile, StoredFile, describe_skipped

ATTACHMENTS = "attachments/"
"""Prefix of attachments, in the bucket of their email or archive: `attachments/{tenant}/{SHA-256 of the content}`."""
SES_TEST_OBJECT = "AMAZON_SES_SETUP_NOTIFICATION"
"""Object that SES writes once to test its write permission."""
MAX_NAMED_ADDRESSES = 3
"""Maximum number of addresses in an error message. Envelope recipients come first."""
_TYPES = {FileKind.PDF: "application/pdf", FileKind.XML: "application/xml", FileKind.ZIP: "application/zip"}


def acquire(attempt: TenantAttempt) -> Outcome:
    """Acquire the file of one S3 event.

    Raises:
        InvalidDocumentError: the file is empty, too large or impossible to unpack, or the tenant has the same email
            with different files.
        ServiceUnavailableError, RejectedRequestError: S3 did not return the file, or rejected an attachment.
    """
    with attempt.database.tenant(attempt.tenant_id) as connection:
        bucket, key, version, size, received_at = connection.execute(
            "SELECT bucket, key, version, size, created_at FROM acquisition_job WHERE id = %s", [attempt.work_id]
        ).fetchall()[0]
    if key.endswith("/"):
        return Skipped("A folder, not a file")
    check_size(size)
    file, is_inbox_mail = File(bucket, key, version), key.startswith(INBOX)
    fetched = files.fetch(file, needs_content=lambda head: is_inbox_mail or attachments.is_container(head))
    attempt.deadline.check()
    if fetched.content is not None:
        if is_inbox_mail or message.is_mail(fetched.content):
            return _acquire_mail(attempt, file, fetched.content, received_at)
        parts = parsers.unpack_archive(fetched.content, attempt.deadline.check)
        if parts is not None:
            arrival = IncomingFile.of(attempt, file, received_at)
            return _acquire_parts(attempt, arrival, parts)
    return _acquire_document(attempt, file, fetched, received_at)


def _acquire_document(attempt: TenantAttempt, file: File, fetched: FetchedFile, received_at: datetime) -> Succeeded:
    """Acquire a file that is one document. It remains where it was uploaded."""
    document = StoredFile(files.file_name(file.key), file, fetched.size, fetched.sha256)
    return _success(attempt, IncomingFile.of(attempt, file, received_at, documents=(document,)))


def _acquire_mail(attempt: TenantAttempt, file: File, content: bytes, received_at: datetime) -> Outcome:
    envelope, authentication, parts = parsers.unpack_mail(content, attempt.deadline.check)
    arrival = IncomingFile.of(attempt, file, received_at, envelope=envelope)
    if file.key.startswith(INBOX):  # the headers of an uploaded email do not authenticate its sender
        arrival = replace(arrival, authentication=authentication)
    if envelope.refusal is not None:
        return _refuse(arrival, envelope.refusal)
    if arrival.authentication.is_failed:
        with attempt.database.tenant(arrival.tenant_id) as connection:
            hold, refusal = holds.decide(connection, arrival.tenant_id, arrival.job_id)
        arrival = replace(arrival, hold=hold)
        if refusal is not None:
            return _refuse(arrival, refusal)
    return _acquire_parts(attempt, arrival, parts)


def _acquire_parts(attempt: TenantAttempt, arrival: IncomingFile, parts: Iterable[MailPart]) -> Outcome:
    arrival = _store_files(attempt, arrival, parts)
    if arrival.documents:
        with attempt.database.tenant(arrival.tenant_id) as connection:
            is_refused = store.reject_conflicting_mail(connection, arrival)
        if is_refused:
            raise store.OtherFilesError
        return _success(attempt, arrival)
    refusal = Refusal.NO_DOCUMENTS if arrival.skipped else Refusal.NO_FILES
    return _refuse(arrival, refusal, describe_skipped(arrival.skipped))


def _store_files(attempt: TenantAttempt, arrival: IncomingFile, parts: Iterable[MailPart]) -> IncomingFile:
    """Store the files of an email or archive, and return `arrival` with these files.

    Only one file is in memory at a time. All versions of an object have the same content, so documents do not reference
    a version.

    Raises:
        InvalidDocumentError: the email or archive contains too many files.
        StaleClaimError, CancelledError: the attempt lost its claim or ran out of time.
        ServiceUnavailableError, RejectedRequestError: S3 rejected a file.
    """
    documents: dict[bytes, StoredFile] = {}
    skipped: list[SkippedFile] = []
    for part in parts:
        if isinstance(part, SkippedFile):
            skipped.append(part)
            continue
        digest = hashlib.sha256(part.content)
        if digest.digest() in documents:
            skipped.append(
                SkippedFile(part.name, len(part.content), "It is the same as an earlier file in the email or archive.")
            )
            continue
        attempt.deadline.check()
        file = File(arrival.file.bucket, f"{ATTACHMENTS}{attempt.tenant_id}/{digest.hexdigest()}", None)
        files.write(file.bucket, file.key, part.content, _TYPES.get(part.kind, "application/octet-stream"))
        documents[digest.digest()] = StoredFile(part.name, file, len(part.content), digest.digest())
    return replace(arrival, documents=tuple(documents.values()), skipped=tuple(skipped))


def _refuse(arrival: IncomingFile, refusal: Refusal, detail: str | None = None) -> Skipped:
    """Skip an email or archive.

    Store only its source, with the reason for the refusal.
    """

    def effects(connection: Connection) -> Effects:
        store.write(connection, arrival, refusal=refusal)
        return Effects()

    return Skipped(" ".join(filter(None, (REFUSALS[refusal], detail))), effects)


def _success(attempt: TenantAttempt, arrival: IncomingFile) -> Succeeded:

    def effects(connection: Connection) -> Effects:
        now = attempt.now()
        replacement = removal.find_replacement(connection, arrival.tenant_id, arrival.file)
        written = store.write(connection, arrival)
        messages = start_revision(connection, "ingestion", written.documents, now)
        if replacement is None:
            return Effects(messages, written.remark)
        is_new = written.document in written.documents
        more_messages, remark = removal.link_successor(connection, replacement, written.document, now, is_new=is_new)
        return Effects(
            messages + more_messages, f"{written.remark.rstrip('.')}. {remark}" if written.remark else remark
        )

    return Succeeded(effects)


def route_mail(attempt: Attempt) -> Outcome:
    """Create a job for each tenant to which an email's recipients belong.

    Raises:
        UnknownTenantError: no recipient belongs to a tenant, or the key is outside the inbox and names no tenant.
        InvalidDocumentError: the email is empty, too large, or has an unreadable header.
        ServiceUnavailableError, RejectedRequestError: S3 did not return the email.
    """
    with attempt.database.delivery() as connection:
        bucket, key, version, size = connection.execute(
            "SELECT bucket, key, version, size FROM acquisition_job WHERE id = %s", [attempt.work_id]
        ).fetchall()[0]
    if not key.startswith(INBOX):
        detail = f"The key contains no existing tenant. Upload to {PREFIX}{{tenant}}/{{file name}}"
        raise UnknownTenantError(detail, code="key_without_tenant")
    if key == INBOX + SES_TEST_OBJECT:
        return Skipped("Not an email: Amazon SES tested its permission to store mail")
    check_size(size)
    addresses = recipients(files.read_header(File(bucket, key, version)))
    attempt.deadline.check()
    with attempt.database.delivery() as connection:
        tenants = files.find_tenants_by_address(connection, addresses)
    if not tenants:
        code = "unknown_recipient" if addresses else "no_recipient"
        raise UnknownTenantError(_no_tenant(addresses), code=code, addresses=addresses[:MAX_NAMED_ADDRESSES])
    remark = f"Forwarded to {len(tenants)} tenant{'s' if len(tenants) > 1 else ''}"
    return Succeeded(
        lambda connection: Effects(
            files.create_tenant_jobs(connection, attempt.work_id, tenants, attempt.now()), remark
        )
    )


def _no_tenant(addresses: tuple[str, ...]) -> str:
    if not addresses:
        return "The file is not an email with a recipient. Upload it for its tenant instead"
    text = "No recipient address belongs to a tenant. Add the address to its tenant, then retry the dead letter"
    return f"{text} (counterfoil tenants addresses TENANT --add ADDRESS)"


WORKER = RoutingWorker(acquire, route_mail)
