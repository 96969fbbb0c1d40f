"""Lifecycle rules of the uploads bucket.

| prefix | current objects | noncurrent versions |
|---|---|---|
| `uploads/`, `inbox/`, `attachments/`, `children/` | unbounded, or as the deployment says | 30 days, or as it says |
| `tasks/` | with their task: the watchdog deletes them | 1 day |
| `dead-letters/` | 8 days: the watchdog deletes an export after 7 | 1 day |
| `exports/` | until the tenant deletes them | 1 day |
"""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3

from infra.context import NONCURRENT
from infra.workers import UNBOUNDED

NONCURRENT_DAYS = 30
ONE_DAY = Duration.days(1)


def lifecycle_rules(days: Mapping[str, int]) -> list[s3.LifecycleRule]:
    """Rules for a retention of `days` by prefix, and for NONCURRENT."""
    noncurrent = Duration.days(days.get(NONCURRENT, NONCURRENT_DAYS))
    return [
        s3.LifecycleRule(
            id="payloads-of-tasks",
            prefix="tasks/",
            noncurrent_version_expiration=ONE_DAY,
            expired_object_delete_marker=True,
        ),
        s3.LifecycleRule(
            id="exports-of-dead-letters",
            prefix="dead-letters/",
            expiration=Duration.days(8),
            noncurrent_version_expiration=ONE_DAY,
            abort_incomplete_multipart_upload_after=Duration.days(2),
        ),
        s3.LifecycleRule(
            id="exports-of-results",
            prefix="exports/",
            noncurrent_version_expiration=ONE_DAY,
            expired_object_delete_marker=True,
        ),
        *(
            s3.LifecycleRule(
                id=f"files-in-{prefix.rstrip('/')}",
                prefix=prefix,
                expiration=Duration.days(days[prefix]) if prefix in days else None,
                noncurrent_version_expiration=noncurrent,
                # S3 deletes markers itself where a rule expires current objects, and takes only one of the two.
                expired_object_delete_marker=None if prefix in days else True,
                abort_incomplete_multipart_upload_after=Duration.days(2),
            )
            for prefix in UNBOUNDED
        ),
    ]
