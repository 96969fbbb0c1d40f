"""The watchdog reads S3 Inventory and enqueues objects without acquisition jobs."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC
from hashlib import md5
from typing import Any
from urllib.parse import quote_plus

import pytest

from counterfoil.db import Connection, Database
from functions.watchdog import inventory as reading
from functions.watchdog.inventory import Inventories
from functions.watchdog.steps import StepsFailedError
from functions.watchdog.uploads import reconcile_uploads
from tests.delivery.harness import Clock
from tests.functions.test_watchdog_uploads import (
    BUCKET,
    HOUR,
    Measured,
    Put,
    clock,
    count_listings,
    jobs,
    messages,
    put_object,
    read_metrics,
    register_event,
    s3,
    tenant,
)

__all__ = ["clock", "put_object", "read_metrics", "s3", "tenant"]

INVENTORIES = "inventories"
FOLDER = "2026-11-24T01-00Z"
NEXT = "2026-11-25T01-00Z"
COLUMNS = ("Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker", "Size", "LastModifiedDate")
Publish = Callable[..., list[str]]
Run = Callable[..., int]


@pytest.fixture
def publish(s3: Any, clock: Clock) -> Publish:
    """`publish()` stores an inventory and returns the keys of its data files.

    The inventory lists the uploads bucket.
    """
    s3.create_bucket(Bucket=INVENTORIES)

    def publish(folder: str = FOLDER, *, prefix: str = "uploads/", rows: int = 100) -> list[str]:
        listing = s3.list_object_versions(Bucket=BUCKET, Prefix=prefix)
        versions = [*listing.get("Versions", ()), *listing.get("DeleteMarkers", ())]
        location = f"{BUCKET}/{prefix}"
        files = []
        for start in range(0, len(versions), rows):
            content = compress_rows([_row(version) for version in versions[start : start + rows]])
            key = f"{location}data/{folder}-{start}.csv.gz"
            s3.put_object(Bucket=INVENTORIES, Key=key, Body=content)
            files.append({"key": key, "size": len(content), "MD5checksum": md5_of(content)})
        manifest = {
            "sourceBucket": BUCKET,
            "destinationBucket": f"arn:aws:s3:::{INVENTORIES}",
            "version": "2016-11-30",
            "creationTimestamp": str(int(clock().timestamp() * 1000)),
            "fileFormat": "CSV",
            "fileSchema": ", ".join(COLUMNS),
            "files": files,
        }
        put_manifest(s3, f"{location}{folder}/", manifest)
        return [str(file["key"]) for file in files]

    return publish


def _row(version: dict[str, Any]) -> Sequence[str]:
    return [
        BUCKET,
        quote_plus(version["Key"], safe="/"),
        version["VersionId"],
        str(version["IsLatest"]).lower(),
        str("Size" not in version).lower(),
        str(version.get("Size", "")),
        version["LastModified"].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    ]


def compress_rows(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return gzip.compress(text.getvalue().encode())


def md5_of(content: bytes) -> str:
    return md5(content, usedforsecurity=False).hexdigest()


def put_manifest(s3: Any, folder: str, manifest: dict[str, Any]) -> None:
    content = json.dumps(manifest).encode()
    s3.put_object(Bucket=INVENTORIES, Key=f"{folder}manifest.json", Body=content)
    s3.put_object(Bucket=INVENTORIES, Key=f"{folder}manifest.checksum", Body=md5_of(content).encode())


@pytest.fixture
def process() -> Callable[[], Sequence[Inventories]]:
    """`process()` returns new inventory readers, as in a new watchdog process."""
    return lambda: [Inventories(INVENTORIES, BUCKET, prefix) for prefix in ("uploads/", "inbox/")]


@pytest.fixture
def run(maintenance_database: Database, clock: Clock, process: Callable[[], Sequence[Inventories]]) -> Run:
    """`run()` runs the upload step once and returns the number of enqueued objects.

    Each check of the remaining time costs one second.
    """
    process_ = process()

    def run(*, seconds: float = 10_000, inventories: Sequence[Inventories] = process_) -> int:
        seconds_left = iter(range(int(seconds), 0, -1))
        return reconcile_uploads(
            maintenance_database,
            BUCKET,
            clock,
            lambda: next(seconds_left, 0),
            lost_after=HOUR,
            is_queue_empty=lambda: True,
            inventories=inventories,
        )

    return run


@pytest.fixture(autouse=True)
def disable_time_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the time limit per prefix, so that only the run's limit applies."""
    monkeypatch.setattr("functions.watchdog.uploads.PREFIX_SECONDS", 10_000.0)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.error for record in caplog.records if hasattr(record, "error")]


def test_uploads_and_mail_of_an_inventory_are_enqueued(
    run: Run, put_object: Put, publish: Publish, admin: Connection
) -> None:
    keys = ["uploads/acme/1/Rechnung Müller + €.xml", "uploads/acme/100%.xml", 'uploads/acme/a,"b".xml']
    versions = [(key, put_object(key)) for key in keys]
    mail = put_object("inbox/8hks")
    assert len(publish(rows=2)) == 2
    publish(prefix="inbox/")

    assert run() == 4

    assert sorted(jobs(admin)) == sorted([("inbox/8hks", mail), *versions])
    assert len(messages(admin)) == 4
    assert run() == 0


def test_inventory_replaces_the_listing(
    run: Run, put_object: Put, publish: Publish, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_object("uploads/acme/a.xml")
    calls = count_listings(s3, monkeypatch)

    assert run() == 0  # no inventory exists yet
    assert calls == {}
    publish()
    assert run() == 1
    assert calls == {"uploads/acme/a.xml": 1}


def test_acquired_deleted_and_recent_objects_are_skipped(
    run: Run, put_object: Put, publish: Publish, s3: Any, database: Database, clock: Clock
) -> None:
    register_event(database, clock, "uploads/acme/known.xml", put_object("uploads/acme/known.xml"))
    put_object("uploads/acme/marked.xml")
    s3.delete_object(Bucket=BUCKET, Key="uploads/acme/marked.xml")
    put_object("uploads/acme/marked-later.xml")
    erased_later = put_object("uploads/acme/erased-later.xml")
    put_object("uploads/acme/erased-later.xml.sig")
    publish()
    s3.delete_object(Bucket=BUCKET, Key="uploads/acme/marked-later.xml")
    s3.delete_object(Bucket=BUCKET, Key="uploads/acme/erased-later.xml", VersionId=erased_later)

    assert run() == 1  # only erased-later.xml.sig

    clock.now -= HOUR
    put_object("uploads/acme/recent.xml")
    publish(NEXT)
    assert run() == 0


def test_every_version_of_a_key_is_enqueued(
    run: Run, put_object: Put, publish: Publish, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functions.watchdog.uploads.VERSIONS_PER_CALL", 2)
    versions = {put_object("uploads/acme/a.xml") for _ in range(5)}
    put_object("uploads/acme/a.xml.sig")
    publish()

    assert run() == 6
    assert {version for key, version in jobs(admin) if key == "uploads/acme/a.xml"} == versions


@pytest.mark.parametrize("is_new", [False, True], ids=["same process", "new processes"])
@pytest.mark.parametrize("rows", [3, 100], ids=["many files", "one file"])
def test_large_inventory_is_read_over_many_runs(
    run: Run,
    put_object: Put,
    publish: Publish,
    process: Callable[[], Sequence[Inventories]],
    admin: Connection,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_new: bool,
    rows: int,
) -> None:
    monkeypatch.setattr(reading, "BATCH_ROWS", 4)
    keys = [f"uploads/acme/{number:03}.xml" for number in range(30)]
    for key in keys:
        put_object(key)
    publish(rows=rows)
    process_ = process()

    counts = [run(seconds=30, inventories=process() if is_new else process_) for _ in range(60)]

    assert sum(counts) == 30
    assert sum(map(bool, counts)) > 2
    assert [key for key, _ in jobs(admin)] == keys
    assert len(messages(admin)) == 30


def test_started_inventory_finishes_before_newer_inventory(
    run: Run, put_object: Put, publish: Publish, admin: Connection, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BATCH_ROWS", 1)
    for number in range(10):
        put_object(f"uploads/acme/{number}.xml")
    publish()
    first = run(seconds=30)
    put_object("uploads/acme/later.xml")
    publish(NEXT)

    assert 0 < first < 10
    assert first + run() == 10
    assert position(admin) == (FOLDER, True)
    assert run() == 1
    assert position(admin) == (NEXT, True)


def position(admin: Connection) -> tuple[str, bool]:
    """Return the current inventory's folder, and True if it was read completely.

    The inventory is that of the uploads.
    """
    ((manifest, is_complete),) = admin.execute(
        "SELECT manifest, is_complete FROM upload_inventory WHERE prefix = 'uploads/'"
    ).fetchall()
    return manifest.split("/")[-2], is_complete


def test_manifest_changed_between_runs_is_read_again(
    run: Run, put_object: Put, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BATCH_ROWS", 1)
    for number in range(10):
        put_object(f"uploads/acme/{number}.xml")
    publish(rows=2)
    first = run(seconds=25)
    put_object("uploads/acme/+.xml")  # the first key of the new file
    publish(rows=100)

    assert 0 < first < 10
    assert first + run() == 11


def damage(s3: Any, key: str, damage_kind: str) -> None:
    content = s3.get_object(Bucket=INVENTORIES, Key=key)["Body"].read()
    if damage_kind == "missing":
        s3.delete_object(Bucket=INVENTORIES, Key=key)
        return
    replacement = {
        "cut": content[: len(content) // 2],
        "not gzip": b"x" * len(content),
        "other rows": compress_rows([["a", "b"]]).ljust(len(content), b"\0"),
        "other MD5": gzip.compress(gzip.decompress(content), compresslevel=1, mtime=1),
    }[damage_kind]
    s3.put_object(Bucket=INVENTORIES, Key=key, Body=replacement)


@pytest.mark.parametrize("damage_kind", ["missing", "cut", "not gzip", "other rows", "other MD5"])
def test_damaged_data_file_is_reported_without_loss(
    run: Run,
    put_object: Put,
    publish: Publish,
    s3: Any,
    admin: Connection,
    caplog: pytest.LogCaptureFixture,
    clock: Clock,
    read_metrics: Measured,
    damage_kind: str,
) -> None:
    for number in range(4):
        put_object(f"uploads/acme/{number}.xml")
    mail = put_object("inbox/8hks")
    _, second = publish(rows=2)
    publish(prefix="inbox/")
    damage(s3, second, damage_kind)

    for _ in range(2):
        with pytest.raises(StepsFailedError):
            run()
        clock.advance(seconds=60)
    assert any("S3 Inventory file" in error and second in error for error in errors(caplog))
    assert ("inbox/8hks", mail) in jobs(admin)
    assert position(admin) == (FOLDER, False)

    publish(NEXT)
    with pytest.raises(StepsFailedError):  # the damaged inventory fails one last time
        run()
    run()

    assert len(jobs(admin)) == 5
    assert position(admin) == (NEXT, True)
    assert read_metrics("UploadListingSeconds") == pytest.approx([0, 60, 120, 120], abs=0.01)


def test_damaged_manifest_is_reported(
    run: Run, put_object: Put, publish: Publish, s3: Any, admin: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    put_object("uploads/acme/a.xml")
    publish()
    s3.put_object(Bucket=INVENTORIES, Key=f"{BUCKET}/uploads/{FOLDER}/manifest.json", Body=b"{}")

    with pytest.raises(StepsFailedError):
        run()
    assert any("manifest.json is damaged: its checksum differs" in error for error in errors(caplog))

    publish(NEXT)
    assert run() == 1


def test_inventory_without_required_columns_is_rejected(
    run: Run, publish: Publish, s3: Any, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = {"creationTimestamp": "1700000000000", "fileFormat": "CSV", "fileSchema": "Bucket, Key", "files": []}
    put_manifest(s3, f"{BUCKET}/uploads/{FOLDER}/", manifest)

    with pytest.raises(StepsFailedError):
        run()

    (error,) = errors(caplog)
    assert "lacks IsDeleteMarker, LastModifiedDate, Size, VersionId. Deploy the stack again" in error


def test_unfinished_inventory_waits_for_its_checksum(run: Run, put_object: Put, publish: Publish, s3: Any) -> None:
    put_object("uploads/acme/a.xml")
    publish()
    key = f"{BUCKET}/uploads/{FOLDER}/manifest.checksum"
    checksum = s3.get_object(Bucket=INVENTORIES, Key=key)["Body"].read()
    s3.delete_object(Bucket=INVENTORIES, Key=key)

    assert run() == 0

    s3.put_object(Bucket=INVENTORIES, Key=key, Body=checksum)
    assert run() == 1


def test_listing_age_starts_at_last_complete_inventory(
    run: Run, publish: Publish, clock: Clock, read_metrics: Measured
) -> None:
    run()
    clock.advance(seconds=3600)
    run()  # no inventory for an hour
    for prefix in ("uploads/", "inbox/"):
        publish(prefix=prefix)
    clock.advance(seconds=60)
    run()

    assert read_metrics("UploadListingSeconds") == pytest.approx([0, 3600, 60], abs=0.01)
