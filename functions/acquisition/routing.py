"""A mail that belongs to nobody yet: whom it is for, and a job for each tenant of them.

The job of a mail in the inbox has no tenant. It reads the mail's recipients and nothing else of it; each tenant's own
job reads the mail under that tenant's row-level security.
"""

from counterfoil.delivery.attempt import Attempt, Effects, Outcome, Skipped, Succeeded
from counterfoil.documents import files
from counterfoil.documents.files import INBOX, PREFIX, File
from counterfoil.documents.filetype import check_size
from counterfoil.documents.mail.message import recipients
from counterfoil.errors import UnknownTenantError

SETUP = "AMAZON_SES_SETUP_NOTIFICATION"
"""What SES writes once, to see that it may."""
MAX_NAMED = 3
"""Addresses that an error names: the first ones, to which servers delivered."""


def route(attempt: Attempt) -> Outcome:
    """Pass a mail on to the tenants that it is for.

    Raises:
        UnknownTenantError: it is for none that is known, or the file is no mail and its key names no tenant.
        InvalidDocumentError: it is empty or too large, or its header cannot be read.
        ServiceUnavailableError, RejectedRequestError: S3 did not give it.
    """
    with attempt.database.delivery() as connection:
        bucket, key, version, size = connection.execute(
            "SELECT bucket, key, version, size FROM acquisition_job WHERE id = %s", [attempt.work_id]
        ).fetchall()[0]
    if not key.startswith(INBOX):
        message = f"The key names no tenant that exists; upload to {PREFIX}{{tenant}}/{{file name}}"
        raise UnknownTenantError(message, code="key_without_tenant")
    if key == INBOX + SETUP:
        return Skipped("Not a mail: Amazon SES tried whether it may store mail here")
    check_size(size)
    addresses = recipients(files.head(File(bucket, key, version)))
    attempt.deadline.check()
    with attempt.database.delivery() as connection:
        tenants = files.tenants_of(connection, addresses)
    if not tenants:
        code = "unknown_recipient" if addresses else "no_recipient"
        raise UnknownTenantError(_nobody(addresses), code=code, addresses=addresses[:MAX_NAMED])
    told = f"Passed on to {len(tenants)} tenant{'s' if len(tenants) > 1 else ''}"
    return Succeeded(
        lambda connection: Effects(files.pass_on(connection, attempt.work_id, tenants, attempt.now()), told)
    )


def _nobody(addresses: tuple[str, ...]) -> str:
    if not addresses:
        return "The file names no recipient, as a mail does; upload it for its tenant instead"
    first = "The mail is for no address of a tenant. Add the address to its tenant, then send the dead letter again"
    return f"{first} (counterfoil tenants addresses TENANT --add ADDRESS)"
