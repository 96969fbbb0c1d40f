"""Erases S3 objects permanently, with all their versions and delete markers."""

from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from typing import Any

from counterfoil import aws
from counterfoil.errors import ServiceUnavailableError
from counterfoil.http import run_with_deadline

MIN_SECONDS_LEFT = 3.0
"""Minimum remaining seconds to start a call to S3."""
CALL_TIMEOUT_SECONDS = 15.0
POSTPONE_SQL = "failures = failures + 1, due_at = %(now)s + interval '1 minute' * 2 ^ least(failures, 6)"
"""SQL assignments that postpone a row of object_erasure or tenant_erasure after a failure."""

Page = dict[str, Any]


class UnfinishedError(ServiceUnavailableError):
    """Time ran out before every version was erased.

    `erased` is the number of versions erased so far.
    """

    def __init__(self, erased: int) -> None:
        super().__init__("There was not enough time to erase every object. The next run continues.")
        self.erased = erased


def erase(
    bucket: str,
    key: str,
    time_left: Callable[[], float],
    *,
    version: str | None = None,
    before: datetime | None = None,
    retained: Collection[str] = (),
) -> int:
    """Erase every version of an object, or of all objects below a prefix.

    `key` is a prefix if it ends with a slash. If `version` is given, only this version is erased. If `before` is given,
    only versions last modified at or before this time are erased. Versions in `retained` are not erased. Incomplete
    multipart uploads are aborted. Returns the number of versions and delete markers erased.

    Raises:
        UnfinishedError: too little time was left. Call the function again.
        ServiceUnavailableError, RejectedRequestError: S3 did not erase everything.
    """
    s3 = aws.client("s3")
    erased = 0

    def call(operation: Callable[..., Any], **arguments: Any) -> Page:
        remaining = time_left()
        if remaining < MIN_SECONDS_LEFT:
            raise UnfinishedError(erased)
        with aws.translate_errors():
            response: Page = run_with_deadline(
                min(CALL_TIMEOUT_SECONDS, remaining), partial(operation, Bucket=bucket, **arguments)
            )
        return response

    def is_selected(entry: Page) -> bool:
        return (
            (key.endswith("/") or entry["Key"] == key)
            and (version is None or entry["VersionId"] == version)
            and entry["VersionId"] not in retained
            and (before is None or entry["LastModified"] <= before)
        )

    while uploads := [
        upload
        for upload in call(s3.list_multipart_uploads, Prefix=key).get("Uploads", ())
        if key.endswith("/") or upload["Key"] == key
    ]:
        for upload in uploads:
            call(s3.abort_multipart_upload, Key=upload["Key"], UploadId=upload["UploadId"])
    after: dict[str, str] = {}
    while True:
        page = call(s3.list_object_versions, Prefix=key, **after)
        versions = [
            entry for name in ("Versions", "DeleteMarkers") for entry in page.get(name, ()) if is_selected(entry)
        ]
        if not versions and not page.get("IsTruncated"):
            return erased
        if not versions:
            after = _next_markers(page, "KeyMarker", "VersionIdMarker")
            continue
        identifiers = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in versions]
        failures = call(s3.delete_objects, Delete={"Objects": identifiers, "Quiet": True}).get("Errors", ())
        if failures:
            codes = ", ".join(sorted({failure.get("Code", "unknown") for failure in failures}))
            raise ServiceUnavailableError(f"S3 did not erase {len(failures)} of {len(versions)} versions: {codes}")
        erased += len(versions)  # List the same page again, because a marker must not name an erased version.


def _next_markers(page: Page, *markers: str) -> dict[str, str]:
    """Return the markers of the next page."""
    return {name: page[f"Next{name}"] for name in markers if page.get(f"Next{name}")}
