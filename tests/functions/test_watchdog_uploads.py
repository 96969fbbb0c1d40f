"""The watchdog lists uploads and mail, and enqueues new acquisition jobs.

Objects that have a job already are skipped.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import boto3
import pytest
from moto import mock_aws

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.documents import files
from counterfoil.errors import RejectedRequestError
from functions.watchdog import uploads as watchdog_uploads
from functions.watchdog.recovery import QUEUE_RETENTION
from functions.watchdog.steps import StepsFailedError
from functions.watchdog.uploads import LISTING_INTERVAL, MAX_CALLS, MIN_AGE_WITHOUT_EVENT, reconcile_uploads
from tests.delivery.harness import Clock, rows
from tests.delivery.message_bodies import object_created, s3_event

BUCKET = "uploads"
HOUR = timedelta(hours=1)
Put = Callable[..., str]
Run = Callable[..., int]
Measured = Callable[[str], list[float]]


@pytest.fixture(autouse=True)
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """S3 client with a versioned bucket."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        monkeypatch.setattr(aws, "client", lambda service: {"s3": client}[service])
        yield client


@pytest.fixture
def clock() -> Clock:
    """Clock 61 minutes ahead of S3's clock, which dates objects."""
    clock = Clock()
    clock.now = datetime.now(UTC) + HOUR + timedelta(minutes=1)
    return clock


@pytest.fixture
def put_object(s3: Any) -> Put:
    """`put_object(key)` stores an object and returns its version."""
    return lambda key, body=b"<x/>": str(s3.put_object(Bucket=BUCKET, Key=key, Body=body)["VersionId"])


@pytest.fixture
def run(maintenance_database: Database, clock: Clock, s3: Any) -> Run:
    """`run()` runs the upload step once and returns the number of created jobs."""

    def run(*, is_queue_empty: bool = True) -> int:
        return reconcile_uploads(
            maintenance_database, BUCKET, clock, lambda: 30.0, lost_after=HOUR, is_queue_empty=lambda: is_queue_empty
        )

    return run


@pytest.fixture
def read_metrics(capsys: pytest.CaptureFixture[str]) -> Measured:
    """`read_metrics(metric)` returns a metric's values emitted since the last call."""

    def values(metric: str) -> list[float]:
        lines = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "_aws" in line]
        return [value for line in lines for value in line[metric]]

    return values


def register_event(database: Database, clock: Clock, key: str, version: str, sequencer: str = "0A") -> None:
    """Register the acquisition job of an S3 event, as a claim does."""
    parsed = files.read_event(s3_event(object_created(key, bucket=BUCKET, versionId=version, sequencer=sequencer)))
    assert parsed.register is not None
    with database.delivery() as connection:
        parsed.register(connection, clock())


def jobs(admin: Connection) -> list[tuple[str, str | None]]:
    return admin.execute("SELECT key, version FROM acquisition_job ORDER BY key, version").fetchall()


def messages(admin: Connection) -> Sequence[tuple[str, UUID]]:
    return admin.execute("SELECT worker, work_id FROM outbox ORDER BY id").fetchall()


def test_upload_and_mail_without_event_are_enqueued(run: Run, put_object: Put, admin: Connection, tenant: UUID) -> None:
    upload = put_object("uploads/acme/1/Rechnung Müller + €.xml")
    mail = put_object("inbox/8hks")
    put_object("attachments/acme/1")

    assert run() == 2

    assert jobs(admin) == [("inbox/8hks", mail), ("uploads/acme/1/Rechnung Müller + €.xml", upload)]
    job_rows = {job["key"]: job for job in rows(admin, "acquisition_job")}
    assert [job_rows[key]["tenant_id"] for key, _ in jobs(admin)] == [None, str(tenant)]
    assert {job["status"] for job in job_rows.values()} == {"pending"}
    assert set(messages(admin)) == {("acquisition", UUID(job["id"])) for job in job_rows.values()}


def test_late_event_finds_the_reconciled_job(
    run: Run, put_object: Put, admin: Connection, database: Database, clock: Clock
) -> None:
    version = put_object("uploads/acme/a.xml")
    assert run() == 1

    register_event(database, clock, "uploads/acme/a.xml", version)

    assert jobs(admin) == [("uploads/acme/a.xml", version)]
    body = s3_event(object_created("uploads/acme/a.xml", bucket=BUCKET, versionId=version, sequencer="0A"))
    (message,) = files.read_event(body).messages
    assert messages(admin) == [("acquisition", message.work_id)]


def test_acquired_objects_are_not_enqueued_again(
    run: Run, put_object: Put, admin: Connection, database: Database, clock: Clock
) -> None:
    for key in ("uploads/acme/a.xml", "inbox/b"):
        register_event(database, clock, key, put_object(key))
    admin.execute("UPDATE acquisition_job SET status = 'succeeded'")

    assert run() == 0

    assert len(jobs(admin)) == 2
    assert messages(admin) == []


def test_repeated_listings_enqueue_once(run: Run, put_object: Put, admin: Connection, clock: Clock) -> None:
    put_object("uploads/acme/a.xml")

    counts = []
    for _ in range(3):
        counts.append(run())
        clock.advance(seconds=LISTING_INTERVAL.total_seconds())

    assert counts == [1, 0, 0]
    assert len(messages(admin)) == 1


def test_recent_uploads_wait_for_their_event(run: Run, put_object: Put, clock: Clock) -> None:
    put_object("uploads/acme/a.xml")
    clock.now -= timedelta(minutes=5)
    assert run() == 0

    clock.advance(seconds=LISTING_INTERVAL.total_seconds())

    assert run() == 1


def test_every_version_of_a_key_is_an_upload(run: Run, put_object: Put, admin: Connection) -> None:
    versions = {put_object("uploads/acme/a.xml"), put_object("uploads/acme/a.xml", b"<y/>")}

    assert run() == 2
    assert {version for _, version in jobs(admin)} == versions


@pytest.mark.parametrize("page", [1, 1000])
def test_deleted_objects_are_not_enqueued(
    run: Run, put_object: Put, s3: Any, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog_uploads, "VERSIONS_PER_CALL", page)
    put_object("uploads/acme/a.xml")
    put_object("uploads/acme/a.xml")
    s3.delete_object(Bucket=BUCKET, Key="uploads/acme/a.xml")
    put_object("uploads/acme/a.xml.sig")

    assert run() == 1


def test_object_uploaded_again_after_deletion_is_enqueued(
    run: Run, put_object: Put, s3: Any, admin: Connection
) -> None:
    put_object("uploads/acme/a.xml")
    s3.delete_object(Bucket=BUCKET, Key="uploads/acme/a.xml")
    version = put_object("uploads/acme/a.xml")

    run()

    assert version in {job_rows for _, job_rows in jobs(admin)}


def test_large_bucket_is_listed_over_many_runs(
    run: Run, put_object: Put, admin: Connection, s3: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog_uploads, "VERSIONS_PER_CALL", 2)
    keys = [f"uploads/acme/{number:03}.xml" for number in range(50)]
    for key in keys:
        put_object(key)
    calls = count_listings(s3, monkeypatch)

    counts = []
    for _ in range(3):
        counts.append(run())
        clock.advance(seconds=60)

    assert counts == [2 * MAX_CALLS, 2 * MAX_CALLS, 50 - 4 * MAX_CALLS]
    assert [key for key, _ in jobs(admin)] == keys
    assert calls["uploads/"] == 25
    assert calls["inbox/"] == 1


def count_listings(s3: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return a dict that counts later listing calls by prefix."""
    calls: dict[str, int] = {}
    original = s3.list_object_versions

    def list_object_versions(**options: Any) -> Any:
        if options.get("MaxKeys") == watchdog_uploads.VERSIONS_PER_CALL:
            calls[options["Prefix"]] = calls.get(options["Prefix"], 0) + 1
        return original(**options)

    monkeypatch.setattr(s3, "list_object_versions", list_object_versions)
    return calls


def test_failed_page_is_listed_again(
    run: Run, put_object: Put, s3: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog_uploads, "VERSIONS_PER_CALL", 1)
    for number in range(3):
        put_object(f"uploads/acme/{number}.xml")
    original, calls = s3.list_object_versions, iter(range(100))

    def fails_once(**options: Any) -> Any:
        if next(calls) == 1:
            raise RejectedRequestError("ListObjectVersions failed with AccessDenied (HTTP 403)")
        return original(**options)

    monkeypatch.setattr(s3, "list_object_versions", fails_once)
    with pytest.raises(StepsFailedError):
        run()
    clock.advance(seconds=60)

    assert run() == 2


def test_queued_events_do_not_count_as_lost(
    run: Run, put_object: Put, database: Database, clock: Clock, read_metrics: Measured, admin: Connection
) -> None:
    """A paused or busy queue may still contain events for uploads over an hour old."""
    version = put_object("uploads/acme/a.xml")
    assert run(is_queue_empty=False) == 1
    clock.advance(seconds=MIN_AGE_WITHOUT_EVENT.total_seconds())
    run(is_queue_empty=False)

    register_event(database, clock, "uploads/acme/a.xml", version)
    run(is_queue_empty=True)

    assert read_metrics("UploadsWithoutEvent") == [0, 0, 0]
    assert admin.execute("SELECT sequencer FROM acquisition_job").fetchall() == [("0A",)]


def test_lost_event_counts_once_when_queue_is_empty(
    run: Run, put_object: Put, clock: Clock, read_metrics: Measured
) -> None:
    put_object("uploads/acme/a.xml")
    run(is_queue_empty=False)
    clock.advance(seconds=MIN_AGE_WITHOUT_EVENT.total_seconds())

    for is_queue_empty in (False, True, True):
        run(is_queue_empty=is_queue_empty)
        clock.advance(seconds=60)

    assert read_metrics("UploadsWithoutEvent") == [0, 0, 1, 0]


def test_lost_event_on_busy_queue_counts_after_retention(
    run: Run, put_object: Put, clock: Clock, read_metrics: Measured
) -> None:
    put_object("uploads/acme/a.xml")
    run(is_queue_empty=False)
    clock.advance(seconds=QUEUE_RETENTION.total_seconds() - 1)
    run(is_queue_empty=False)
    clock.advance(seconds=1)

    run(is_queue_empty=False)

    assert read_metrics("UploadsWithoutEvent") == [0, 0, 1]


def test_lost_mail_with_tenant_jobs_counts_once(
    run: Run, put_object: Put, clock: Clock, read_metrics: Measured, admin: Connection, database: Database, tenant: UUID
) -> None:
    put_object("inbox/8hks")
    run()
    ((mail,),) = admin.execute("SELECT id FROM acquisition_job").fetchall()
    with database.delivery() as connection:
        files.create_tenant_jobs(connection, mail, [tenant], clock())
    clock.advance(seconds=MIN_AGE_WITHOUT_EVENT.total_seconds())

    run()

    assert read_metrics("UploadsWithoutEvent") == [0, 1]


def test_objects_without_a_version_are_not_enqueued(run: Run, put_object: Put, s3: Any) -> None:
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Suspended"})
    s3.put_object(Bucket=BUCKET, Key="uploads/acme/a.xml", Body=b"<x/>")

    assert run() == 0


def test_listing_age_starts_at_last_complete_listing(
    run: Run, put_object: Put, clock: Clock, monkeypatch: pytest.MonkeyPatch, read_metrics: Measured
) -> None:
    monkeypatch.setattr(watchdog_uploads, "VERSIONS_PER_CALL", 1)
    for number in range(MAX_CALLS + 1):
        put_object(f"uploads/acme/{number:03}.xml")
    for _ in range(3):
        run()
        clock.advance(seconds=60)

    assert read_metrics("UploadListingSeconds") == [0, 60, 120]
