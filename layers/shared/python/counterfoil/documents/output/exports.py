"""Exports to S3: each subject as JSON and its documents as CSV, under keys that stay, as its newest revision says."""

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from counterfoil import aws
from counterfoil.documents.output.payload import Job, body, table
from counterfoil.errors import RejectedRequestError, ServiceUnavailableError

PREFIX = "exports/"
"""Keys are exports/{tenant}/{prefix of the destination}/{clusters, documents or offers}/{id}.json and .csv."""
_JOB, _REVISION, _CREATED_AT = "job", "revision", "created-at"
"""In the metadata of an object: what it was written from."""


def key(tenant_slug: str, prefix: str, job: Job, ending: str) -> str:
    """Where a subject is exported to, the same for every revision."""
    return f"{PREFIX}{tenant_slug}/{prefix}/{job.subject.removesuffix('s')}s/{job.subject_id}.{ending}"


def export(bucket: str, tenant_slug: str, prefix: str, job: Job) -> None:
    """Write the files, unless newer ones are there. Offers are of no documents, and have no CSV.

    Raises:
        ServiceUnavailableError, RejectedRequestError: S3 did not take a file.
    """
    files = [("json", "application/json", body(job))]
    if job.subject != "offers":
        files.append(("csv", "text/csv; charset=utf-8", table(job)))
    for ending, content_type, content in files:
        _put(bucket, key(tenant_slug, prefix, job, ending), job, content, content_type)


def _put(bucket: str, key_: str, job: Job, content: bytes, content_type: str) -> None:
    """Write one file under the condition that nobody writes it in between: a slow try undoes nothing that is newer."""
    found = _found(bucket, key_)
    if found is not None and _is_newer(found, job):
        return
    condition: dict[str, Any] = {"IfNoneMatch": "*"} if found is None else {"IfMatch": found["ETag"]}
    try:
        with aws.errors_mapped():
            aws.client("s3").put_object(
                Bucket=bucket,
                Key=key_,
                Body=content,
                ContentType=content_type,
                Metadata={_JOB: str(job.id), _REVISION: str(job.revision), _CREATED_AT: job.created_at},
                **condition,
            )
    except RejectedRequestError as error:
        if _status(error) not in {404, 409, 412}:
            raise
        raise ServiceUnavailableError("An export was changed by somebody else while it was written") from None


def _found(bucket: str, key_: str) -> Mapping[str, Any] | None:
    """What S3 says about an object; None where there is none, which without the right to list is a 403."""
    try:
        with aws.errors_mapped():
            answer: Mapping[str, Any] = aws.client("s3").head_object(Bucket=bucket, Key=key_)
            return answer
    except RejectedRequestError as error:
        if _status(error) in {403, 404}:
            return None
        raise


def _is_newer(found: Mapping[str, Any], job: Job) -> bool:
    """Whether a file tells of a later state than `job`.

    Revisions count within a job. That of a destination which was there under the same prefix before is another one,
    with which only the times of their states can be compared.
    """
    stated: Mapping[str, str] = found.get("Metadata", {})
    if stated.get(_JOB) != str(job.id):
        return stated.get(_CREATED_AT, "") > job.created_at
    return int(stated[_REVISION]) > job.revision


def _status(error: RejectedRequestError) -> int:
    cause = error.__cause__
    return cause.response["ResponseMetadata"]["HTTPStatusCode"] if isinstance(cause, ClientError) else 0
