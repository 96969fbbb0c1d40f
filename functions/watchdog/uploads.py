"""Reconciles uploads and mail in S3 with acquisition jobs.

A job is created when its S3 event is first claimed. An object has no job if its event is lost before that: because the
queue was purged or was paused for longer than its retention, or because S3 did not send the event. Job ids are derived
from bucket, key and version, so that a late event finds the same job and adds its sequencer.

Jobs are created even if events may still be queued, because SQS does not show which events a queue holds.
`UploadsWithoutEvent` counts a job only when its event can no longer arrive.

Each run lists a bounded number of versions and stores its position, so listing a large bucket takes many runs. A
deployment with S3 Inventory reads the inventories instead, and lists only the keys of versions without a job.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from aws_lambda_powertools import Logger
from psycopg.sql import SQL, Identifier

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.work import enqueue
from counterfoil.documents import files
from counterfoil.documents.files import INBOX, PREFIX, UNVERSIONED, Upload
from counterfoil.documents.kinds import ACQUISITION
from counterfoil.http import run_with_deadline
from counterfoil.metrics import Metric, emit
from counterfoil.queues import queue_depths
from functions.watchdog.inventory import MIN_SECONDS_LEFT, Inventories, Inventory, InventoryError
from functions.watchdog.recovery import QUEUE_RETENTION
from functions.watchdog.steps import run_all

VERSIONS_PER_CALL = 1000
"""Number of object versions per call: the maximum that S3 returns."""
MAX_CALLS = 10
"""Maximum calls per run and prefix, which cover 14.4 million versions a day."""
LISTING_INTERVAL = timedelta(minutes=5)
"""Minimum interval between the starts of two listings."""
MIN_AGE_WITHOUT_EVENT = timedelta(minutes=15)
"""Minimum age of a job that counts as having no event. By then, the archiver has registered events in the DLQ."""
PREFIX_SECONDS = 5.0
"""Time limit per run and prefix."""

_LISTING = """
SELECT key_marker, version_marker, started_at, is_complete, complete_since FROM upload_listing
WHERE bucket = %s AND prefix = %s
"""
_INVENTORY = """
SELECT manifest, checksum, files_read, rows_read, started_at, is_complete FROM upload_inventory
WHERE bucket = %s AND prefix = %s
"""
_ADVANCE_INVENTORY = """
INSERT INTO upload_inventory AS i
    (bucket, prefix, manifest, checksum, files_read, rows_read, started_at, is_complete, complete_since)
VALUES (%(bucket)s, %(prefix)s, %(manifest)s, %(checksum)s, %(files_read)s, %(rows_read)s, %(started_at)s,
        %(is_complete)s, %(started_at)s)
ON CONFLICT (bucket, prefix) DO UPDATE
SET manifest = excluded.manifest, checksum = excluded.checksum, files_read = excluded.files_read,
    rows_read = excluded.rows_read, started_at = excluded.started_at, is_complete = excluded.is_complete,
    complete_since = CASE WHEN excluded.is_complete THEN excluded.started_at ELSE i.complete_since END
"""
_COMPLETE_SINCE = "SELECT min(coalesce(complete_since, started_at)) FROM {} WHERE bucket = %s"
_ADVANCE = """
INSERT INTO upload_listing AS l (bucket, prefix, key_marker, version_marker, started_at, is_complete, complete_since)
VALUES (%(bucket)s, %(prefix)s, %(key)s, %(version)s, %(started_at)s, %(is_complete)s,
        CASE WHEN %(is_complete)s THEN %(started_at)s::timestamptz END)
ON CONFLICT (bucket, prefix) DO UPDATE
SET key_marker = excluded.key_marker, version_marker = excluded.version_marker, started_at = excluded.started_at,
    is_complete = excluded.is_complete, complete_since = coalesce(excluded.complete_since, l.complete_since)
"""
_EXISTING_JOBS = "SELECT id FROM acquisition_job WHERE id = ANY(%s)"
_UNSENT = """
SELECT id, tenant_id, revision, send_number FROM acquisition_job
WHERE id = ANY(%s) AND status = 'pending' AND attempts = 0 ORDER BY id
"""
_COUNTED_UNTIL = "SELECT counted_until FROM upload_event_check WHERE bucket = %s"
# Excludes the tenants' jobs for an email, because they are created from the email's own job.
_WITHOUT_EVENT = """
SELECT count(*) FROM acquisition_job
WHERE bucket = %(bucket)s AND sequencer IS NULL AND (tenant_id IS NULL OR key LIKE %(uploads)s)
  AND created_at > coalesce(%(after)s::timestamptz, '-infinity') AND created_at <= %(until)s
"""
_COUNT_UNTIL = """
INSERT INTO upload_event_check (bucket, counted_until) VALUES (%(bucket)s, %(until)s)
ON CONFLICT (bucket) DO UPDATE SET counted_until = excluded.counted_until
"""

logger = Logger()


@dataclass(frozen=True)
class _Listing:
    """Progress of listing a prefix."""

    key_marker: str | None
    version_marker: str | None
    started_at: datetime
    is_complete: bool
    complete_since: datetime | None


@dataclass(frozen=True)
class _Progress:
    """Progress of reading a prefix's inventories."""

    manifest: str | None
    """None before the first inventory."""
    checksum: str | None
    files_read: int
    rows_read: int
    """Number of rows read from the next file."""
    started_at: datetime
    """Time at which S3 started the inventory."""
    is_complete: bool


def reconcile_uploads(
    database: Database,
    bucket: str | None,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
    *,
    lost_after: timedelta,
    is_queue_empty: Callable[[], bool],
    inventories: Sequence[Inventories] = (),
) -> int:
    """Create missing jobs for objects older than `lost_after`.

    Return the number of created jobs.

    Reads `inventories`, one for each prefix. If it is empty, lists the bucket instead. `is_queue_empty` returns whether
    the queue of S3 events is empty; False if unknown. `database` must connect as counterfoil_maintenance.

    Raises:
        StepsFailedError: S3 did not return a page, or an inventory is damaged. The next run retries.
        DatabaseUnavailableError: the database is unavailable. The next run reads the page again.
    """
    if bucket is None:  # without a bucket, nothing can be uploaded
        return 0
    run = _Run(database, bucket, clock, time_left, lost_after)
    listings = {prefix: partial(run.list_pages, prefix) for prefix in (PREFIX, INBOX)}
    readers = {source.prefix: partial(run.read_inventory, source) for source in inventories}
    try:
        return sum(run_all(readers or listings).values())
    finally:
        age = run.age("upload_inventory" if inventories else "upload_listing")
        without_event = run.count_without_event(is_queue_empty())
        emit({Metric.UPLOADS_WITHOUT_EVENT: without_event, Metric.UPLOAD_LISTING_SECONDS: age})


def inventory_readers(bucket: str | None, source: str | None) -> Sequence[Inventories]:
    """Return the inventories of `source` that S3 writes to `bucket`, one per prefix.

    The result is empty if the deployment has no S3 Inventory.
    """
    if bucket is None or source is None:
        return []
    return [Inventories(bucket, source, prefix) for prefix in (PREFIX, INBOX)]


def is_empty(queue_url: str | None) -> bool:
    """Return whether a queue is empty, with no messages in flight or delayed.

    False if SQS does not respond or the queue is unknown.
    """
    if queue_url is None:
        return False
    depth = queue_depths({"queue": [queue_url]}).get("queue")
    return depth is not None and depth.total == 0


class _Run:
    """One run of the reconciliation."""

    def __init__(
        self,
        database: Database,
        bucket: str,
        clock: Callable[[], datetime],
        time_left: Callable[[], float],
        lost_after: timedelta,
    ) -> None:
        self._database = database
        self._bucket = bucket
        self._clock = clock
        self._run_time_left = time_left
        self._time_left = time_left
        self._lost_after = lost_after

    def age(self, table: str) -> float:
        """Return the seconds since the start of the last complete listing or inventory.

        If the prefixes differ, the oldest one counts. Until the first one is complete, its own start counts. Returns 0
        if none has started.
        """
        with self._database.delivery() as connection:
            ((since,),) = connection.execute(SQL(_COMPLETE_SINCE).format(Identifier(table)), [self._bucket]).fetchall()
        return 0 if since is None else (self._clock() - since).total_seconds()

    def count_without_event(self, is_queue_empty: bool) -> int:
        """Return the number of jobs whose event can no longer arrive.

        Each job is counted once.

        An event that is neither registered nor queued is lost. While the queue is not empty, a job is counted only
        after the queue's retention.
        """
        now = self._clock()
        until = now - (MIN_AGE_WITHOUT_EVENT if is_queue_empty else QUEUE_RETENTION)
        with self._database.delivery() as connection:
            row = connection.execute(_COUNTED_UNTIL, [self._bucket]).fetchone()
            after = None if row is None else row[0]
            if after is not None and after >= until:
                return 0
            values = {"bucket": self._bucket, "uploads": f"{PREFIX}%", "after": after, "until": until}
            ((count,),) = connection.execute(_WITHOUT_EVENT, values).fetchall()
            connection.execute(_COUNT_UNTIL, values)
        if count:
            logger.warning("Uploads without an S3 event", uploads=count)
        return int(count)

    def list_pages(self, prefix: str) -> int:
        """List the next pages of `prefix` until time runs out.

        Return the number of created jobs.
        """
        self._start_time_limit()
        created = 0
        for _ in range(MAX_CALLS):
            if self._time_left() < MIN_SECONDS_LEFT:
                break
            jobs, is_last = self._list_page(prefix)
            created += jobs
            if is_last:
                break
        return created

    def read_inventory(self, inventories: Inventories) -> int:
        """Read the next rows of an inventory until time runs out.

        Return the number of created jobs.

        An inventory is read to the end even if a newer one exists, unless one of its files is damaged.
        """
        self._start_time_limit()
        prefix = inventories.prefix
        with self._database.delivery() as connection:
            row = connection.execute(_INVENTORY, [self._bucket, prefix]).fetchone()
        last = _Progress(None, None, 0, 0, self._clock(), is_complete=True) if row is None else _Progress(*row)
        if row is None:
            self._save_progress(prefix, last)
        try:
            return self._read_rows(inventories, last)
        except InventoryError:
            if (newer := inventories.newest(self._time_left, after=last.manifest)) is not None:
                self._save_progress(prefix, self._start_inventory(newer))
            raise

    def _read_rows(self, inventories: Inventories, last: _Progress) -> int:
        if last.is_complete or last.manifest is None:
            newer = inventories.newest(self._time_left, after=last.manifest)
            if newer is None:
                return 0
            inventory, progress = newer, self._start_inventory(newer)
        else:
            inventory = inventories.get(last.manifest, self._time_left)
            progress = last if inventory.checksum == last.checksum else self._start_inventory(inventory)
        created = 0
        while not progress.is_complete and self._time_left() >= MIN_SECONDS_LEFT:
            if progress.files_read == len(inventory.files):
                progress = replace(progress, is_complete=True)
                self._save_progress(inventories.prefix, progress)
                break
            rows = inventories.rows(inventory, progress.files_read, progress.rows_read, self._time_left)
            if rows is None:
                break
            if rows:
                lost, checked = self._find_lost(rows)
                progress = replace(progress, rows_read=progress.rows_read + checked)
            else:
                lost = []
                progress = replace(progress, files_read=progress.files_read + 1, rows_read=0)
            created += self._save_progress(inventories.prefix, progress, lost)
        return created

    @staticmethod
    def _start_inventory(inventory: Inventory) -> _Progress:
        return _Progress(inventory.manifest, inventory.checksum, 0, 0, inventory.started_at, is_complete=False)

    def _save_progress(self, prefix: str, progress: _Progress, lost: Sequence[Upload] = ()) -> int:
        """Create jobs for `lost` and store the progress.

        Return the number of created jobs.
        """
        with self._database.delivery() as connection:
            created = self._create_jobs(connection, lost, self._clock())
            connection.execute(_ADVANCE_INVENTORY, {"bucket": self._bucket, "prefix": prefix, **asdict(progress)})
        return created

    def _find_lost(self, rows: Sequence[dict[str, Any]]) -> tuple[list[Upload], int]:
        """Return the uploads in `rows` that need a job, and the number of checked rows.

        An inventory may contain objects that were deleted later. So the versions of each key without a job are listed
        in the bucket.
        """
        before = self._clock() - self._lost_after
        old = [row for row in rows if row["LastModified"] <= before and not row["IsDeleteMarker"]]
        missing = {(upload.key, upload.version): upload for upload in self._find_without_job(old, set())} if old else {}
        versions_by_key: dict[str, set[str]] = {}
        lost: list[Upload] = []
        for number, row in enumerate(rows):
            upload = missing.get((row["Key"], row["VersionId"]))
            if upload is None:
                continue
            if upload.key not in versions_by_key:
                if self._time_left() < MIN_SECONDS_LEFT:
                    return lost, number
                versions_by_key[upload.key] = self._list_versions(upload.key)
            if upload.version in versions_by_key[upload.key]:
                lost.append(upload)
        return lost, len(rows)

    def _list_versions(self, key: str) -> set[str]:
        """Return the version ids of `key`.

        The set is empty if the newest version is a delete marker.
        """
        version_ids: set[str] = set()
        marker: dict[str, str] = {}
        while True:
            page = self._request_versions(key, MaxKeys=VERSIONS_PER_CALL, **marker)
            if key in self._deleted_keys(page, None):
                return set()
            version_ids |= {version["VersionId"] for version in page.get("Versions", ()) if version["Key"] == key}
            if not page["IsTruncated"] or page["NextKeyMarker"] != key:
                return version_ids
            marker = {"KeyMarker": key, "VersionIdMarker": page["NextVersionIdMarker"]}

    def _start_time_limit(self) -> None:
        """Start the time limit of the next prefix."""
        end = self._run_time_left() - PREFIX_SECONDS
        self._time_left = lambda: min(self._run_time_left(), self._run_time_left() - end)

    def _list_page(self, prefix: str) -> tuple[int, bool]:
        """List one page.

        Return the number of created jobs, and whether it is the last page.
        """
        now = self._clock()
        with self._database.delivery() as connection:
            last = self._load_listing(connection, prefix)
        if last is not None and last.is_complete and now - last.started_at < LISTING_INTERVAL:
            return 0, True
        listing = _Listing(None, None, now, is_complete=False, complete_since=None) if last is None else last
        if listing.is_complete:
            listing = replace(listing, key_marker=None, version_marker=None, started_at=now)
        marker = {} if listing.key_marker is None else {"KeyMarker": listing.key_marker}
        if listing.version_marker is not None:
            marker["VersionIdMarker"] = listing.version_marker
        page = self._request_versions(prefix, MaxKeys=VERSIONS_PER_CALL, **marker)
        old = [version for version in page.get("Versions", ()) if version["LastModified"] <= now - self._lost_after]
        lost = self._find_without_job(old, self._deleted_keys(page, listing.key_marker)) if old else []
        is_truncated = bool(page["IsTruncated"])
        progress = {
            "bucket": self._bucket,
            "prefix": prefix,
            "key": page["NextKeyMarker"] if is_truncated else None,
            "version": page.get("NextVersionIdMarker") if is_truncated else None,
            "started_at": listing.started_at,
            "is_complete": not is_truncated,
        }
        with self._database.delivery() as connection:
            created = self._create_jobs(connection, lost, now)
            connection.execute(_ADVANCE, progress)
        return created, not is_truncated

    def _load_listing(self, connection: Connection, prefix: str) -> _Listing | None:
        row = connection.execute(_LISTING, [self._bucket, prefix]).fetchone()
        return None if row is None else _Listing(*row)

    def _request_versions(self, prefix: str, **parameters: Any) -> dict[str, Any]:
        call = partial(aws.client("s3").list_object_versions, Bucket=self._bucket, Prefix=prefix, **parameters)
        with aws.translate_errors():
            response: dict[str, Any] = run_with_deadline(max(MIN_SECONDS_LEFT, self._time_left()), call)
        return response

    def _find_without_job(self, versions: Sequence[dict[str, Any]], deleted: set[str]) -> list[Upload]:
        """Return the uploads without a job, except for keys in `deleted`."""
        uploads = {
            upload.job_id: upload
            for version in versions
            if version["VersionId"] != UNVERSIONED and version["Key"] not in deleted
            for upload in [Upload(self._bucket, version["Key"], None, version["Size"], version["VersionId"])]
        }
        with self._database.delivery() as connection:
            existing: set[UUID] = {id_ for (id_,) in connection.execute(_EXISTING_JOBS, [list(uploads)])}
        return [upload for id_, upload in uploads.items() if id_ not in existing]

    def _deleted_keys(self, page: Mapping[str, Any], before: str | None) -> set[str]:
        """Return the keys on a page whose newest versions are delete markers.

        S3 returns the versions of a key newest first. The previous page ended with the key `before`, whose versions may
        continue on this page. So its newest version is looked up.
        """
        pages = [page] if before is None else [page, self._request_versions(before, MaxKeys=1)]
        return {marker["Key"] for result in pages for marker in result.get("DeleteMarkers", ()) if marker["IsLatest"]}

    @staticmethod
    def _create_jobs(connection: Connection, lost: Sequence[Upload], now: datetime) -> int:
        """Register lost uploads and enqueue their messages, which the next run sends.

        Return their number.
        """
        if not lost:
            return 0
        files.register_uploads(connection, lost, now)
        rows = connection.execute(_UNSENT, [[upload.job_id for upload in lost]]).fetchall()
        enqueue(connection, ACQUISITION, rows, now, now)
        logger.info("Created jobs for uploads without a claimed S3 event", jobs=len(rows))
        return len(rows)
