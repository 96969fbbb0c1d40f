"""Local cloud uploads and their states, for tools and tests without the API."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from cli.failures import CommandError, UsageError
from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from counterfoil.aws import translate_errors
from counterfoil.documents import upload_list
from counterfoil.documents.files import INBOX, PREFIX
from counterfoil.documents.upload_list import Upload

POLL_SECONDS = 0.25
_PAGE = 1000


@dataclass(frozen=True)
class UploadedFile:
    """A file and the key of its upload."""

    path: Path
    key: str


def upload(cloud: Cloud, tenant: Tenant | None, files: Sequence[Path]) -> Iterator[UploadedFile]:
    """Upload each file for the tenant, or as mail if `tenant` is None.

    The key is `uploads/{tenant}/{unique}/{name}`, or `inbox/{unique}/{name}` for mail.

    Raises:
        UsageError: a file cannot be read.
        ServiceUnavailableError, RejectedRequestError: S3 is unavailable, or rejected a file.
    """
    s3, bucket = cloud.client("s3"), cloud.outputs["UploadsBucketName"]
    for path in files:
        key = f"{INBOX if tenant is None else f'{PREFIX}{tenant.slug}/'}{uuid4()}/{path.name}"
        try:
            with path.open("rb") as content, translate_errors():
                s3.put_object(Bucket=bucket, Key=key, Body=content)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
        yield UploadedFile(path, key)


def list_uploads(cloud: Cloud, tenant: Tenant) -> list[Upload]:
    """Return a tenant's uploads in order of arrival."""
    uploads: list[Upload] = []
    cursor = None
    with cloud.database.tenant(tenant.id) as connection:
        while True:
            page = upload_list.page(connection, tenant.id, tenant.slug, limit=_PAGE, after=cursor)
            uploads += page.uploads
            cursor = page.next_cursor
            if cursor is None:
                return uploads


def list_unassigned_uploads(cloud: Cloud) -> list[Upload]:
    """Return up to `_PAGE` uploads and emails without a tenant."""
    with cloud.database.delivery() as connection:
        return list(upload_list.list_unassigned(connection, limit=_PAGE).uploads)


def find_uploads(cloud: Cloud, keys: Collection[str]) -> list[Upload]:
    """Return the uploads with these keys, including those without a tenant."""
    with cloud.database.delivery() as connection:
        owners = upload_list.find_owners(connection, cloud.outputs["UploadsBucketName"], keys)
    uploads = [item for item in list_unassigned_uploads(cloud) if item.key in keys]
    for owner in owners:
        with cloud.database.tenant(owner.tenant_id) as connection:
            uploads += upload_list.list_by_jobs(connection, owner.tenant, owner.jobs)
    return uploads


def wait_for(cloud: Cloud, uploaded: Sequence[UploadedFile], seconds: float) -> list[Upload]:
    """Wait until all documents from these uploads have a final state.

    Raises:
        CommandError: some uploads have no final state after `seconds`.
    """
    keys = {item.key for item in uploaded}
    deadline = time.monotonic() + seconds
    while True:
        uploads = find_uploads(cloud, keys)
        final = {item.key for item in uploads} - {item.key for item in uploads if not item.state.is_final}
        if final == keys:
            return uploads
        if time.monotonic() > deadline:
            raise CommandError(
                f"After {seconds:.0f} s, {len(keys - final)} of {len(keys)} uploads have no final state."
            )
        time.sleep(POLL_SECONDS)
