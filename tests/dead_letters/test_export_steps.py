"""Large exports: multipart uploads to S3, crash recovery, and download links."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.dead_letters import export
from counterfoil.dead_letters.export import ExportFile, ExportSteps, Format, TooManyExportsError
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.delivery.outbox import Outbox
from counterfoil.errors import ConflictError, InvalidSettingsError, RejectedRequestError
from counterfoil.operations import engine, store
from counterfoil.operations.engine import Engine, StepResult
from counterfoil.operations.store import Operation, OperationCommand
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter
from tests.delivery.harness import rows

BUCKET = "counterfoil-uploads"
NOW = NOON + timedelta(days=1)
PART_BYTES, LARGE_BYTES = 50_000, 20_000
"""Bytes per part, and characters per payload. Three dead letters fill a part."""


class KilledError(BaseException):
    """Simulated end of a process."""


def no_such_upload() -> ClientError:
    error: Any = {"Error": {"Code": "NoSuchUpload"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
    return ClientError(error, "UploadPart")


class RecordingS3:
    """Moto's S3, which records calls and runs hooks before and after them."""

    def __init__(self, client: Any) -> None:
        self.real = client
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}
        self.calls: list[str] = []

    def __getattr__(self, operation: str) -> Any:
        def call(*positional: Any, **arguments: Any) -> Any:
            self.calls.append(operation)
            self.before.pop(operation, lambda: None)()
            try:
                result = getattr(self.real, operation)(*positional, **arguments)
            except KeyError:  # moto's upload_part does not raise S3's error
                raise no_such_upload() from None
            self.after.pop(operation, lambda: None)()
            return result

        return call

    def keys(self) -> list[str]:
        return [entry["Key"] for entry in self.real.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def uploads(self) -> int:
        return len(self.real.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []))

    def job_ids(self, operation: Operation) -> list[str]:
        content = self.real.get_object(Bucket=BUCKET, Key=export.object_key(operation))["Body"].read()
        return [json.loads(line)["job_id"] for line in content.decode().split("\n")[:-1]]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingS3]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        recording_s3 = RecordingS3(client)
        monkeypatch.setattr(aws, "client", lambda _: recording_s3)
        yield recording_s3


@pytest.fixture
def dead_letters(make_dead_letter: MakeDeadLetter, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Job ids of eight dead letters, newest first. Their export has three parts."""
    monkeypatch.setattr(export, "MAX_BATCH_BYTES", LARGE_BYTES)
    monkeypatch.setattr(export, "PART_BYTES", PART_BYTES)
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", PART_BYTES)
    job_ids = [str(make_dead_letter(minute=-minute)) for minute in range(8)]
    admin.execute("UPDATE dead_letter SET payload = jsonb_build_object('text', repeat('x', %s))", [LARGE_BYTES])
    return job_ids


Request = Callable[..., Operation]


@pytest.fixture
def request_(database: Database, tenant_id: UUID) -> Request:
    def make_request(
        text: str | None = None,
        *,
        by: str = "ann",
        format_: Format = "json",
        redacts: bool = False,
        now: datetime = NOW,
    ) -> Operation:
        file, filter_ = ExportFile(format_, redacted=redacts), DeadLetterFilter(search=text)
        with database.tenant(tenant_id) as connection:
            return export.request(connection, tenant_id, filter_, file, by=by, now=now)

    return make_request


def step(
    database: Database, requested: Operation, *, now: datetime = NOW, seconds_left: float = 40.0
) -> StepResult | None:
    definition = ExportSteps(BUCKET)
    return engine.run_step(database, definition, requested.id, requested.tenant_id, now, time_left=lambda: seconds_left)


def run(database: Database, requested: Operation, *, now: datetime = NOW) -> int:
    """Run all due steps, and return their number."""
    number = 0
    while (result := step(database, requested, now=now)) is not None and (result.is_busy or result.processed):
        number += 1
    return number


def load(database: Database, requested: Operation) -> Operation:
    with database.tenant(requested.tenant_id) as connection:
        return store.show(connection, requested.id)


def test_each_step_uploads_one_part(
    database: Database, s3: RecordingS3, dead_letters: list[str], request_: Request
) -> None:
    requested = request_()

    part_sizes = []
    while load(database, requested).state == "running":
        step(database, requested)
        part_sizes.append(load(database, requested).succeeded)

    finished = load(database, requested)
    assert part_sizes == [3, 6, 8]
    assert (finished.state, finished.succeeded, s3.calls.count("upload_part")) == ("done", 8, 3)
    assert s3.job_ids(finished) == dead_letters
    head = s3.real.head_object(Bucket=BUCKET, Key=export.object_key(finished))
    assert (head["ContentType"], head["ContentLength"]) == (
        "application/x-ndjson",
        ExportFile.from_operation(finished).bytes,
    )
    assert s3.uploads() == 0


def test_export_without_dead_letters_is_empty(
    database: Database, s3: RecordingS3, tenant_id: UUID, request_: Request
) -> None:
    requested = request_()
    run(database, requested)
    assert s3.job_ids(requested) == []
    assert load(database, requested).state == "done"


def test_parts_meet_s3_minimum_size(
    database: Database, s3: RecordingS3, make_dead_letter: MakeDeadLetter, admin: Connection, request_: Request
) -> None:
    job_ids = [str(make_dead_letter(minute=-minute)) for minute in range(4)]
    admin.execute("UPDATE dead_letter SET payload = jsonb_build_object('text', repeat('x', 2000000))")
    requested = request_()

    run(database, requested)

    assert (s3.calls.count("upload_part"), s3.job_ids(requested)) == (2, job_ids)


def test_last_part_is_not_empty(
    database: Database, s3: RecordingS3, dead_letters: list[str], request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE_SIZE", 8)
    monkeypatch.setattr(export, "PART_BYTES", 8 * LARGE_BYTES)
    requested = request_()

    step(database, requested)
    step(database, requested)

    assert load(database, requested).state == "done"
    assert (s3.calls.count("upload_part"), s3.job_ids(requested)) == (1, dead_letters)


@pytest.mark.parametrize("operation", ["create_multipart_upload", "upload_part", "complete_multipart_upload"])
@pytest.mark.parametrize("killed_call", ["before", "after"])
def test_killed_export_continues_after_lease_expiry(
    operation: str, killed_call: str, database: Database, s3: RecordingS3, dead_letters: list[str], request_: Request
) -> None:
    requested = request_()

    def kill() -> None:
        raise KilledError

    getattr(s3, killed_call)[operation] = kill
    with pytest.raises(KilledError):
        run(database, requested)
    assert run(database, requested) == 0  # the lease has not expired

    now = NOW + export.LEASE
    for _ in range(2):  # the first run fails if the upload was already complete, and the export restarts
        try:
            run(database, requested, now=now)
            break
        except RejectedRequestError:
            now += export.LEASE

    finished = load(database, requested)
    assert (finished.state, finished.succeeded) == ("done", 8)
    assert s3.job_ids(finished) == dead_letters


def test_part_uploaded_before_crash_is_not_duplicated(
    database: Database, s3: RecordingS3, dead_letters: list[str], request_: Request
) -> None:
    """The process is killed between the upload of the second part and the commit."""
    requested = request_()
    step(database, requested)

    def kill() -> None:
        raise KilledError

    s3.after["upload_part"] = kill
    with pytest.raises(KilledError):
        step(database, requested)
    assert load(database, requested).succeeded == 3
    run(database, requested, now=NOW + export.LEASE)

    assert s3.calls.count("upload_part") == 4
    assert s3.job_ids(requested) == dead_letters


def test_export_restarts_if_its_upload_is_missing(
    database: Database, s3: RecordingS3, dead_letters: list[str], request_: Request
) -> None:
    requested = request_()
    step(database, requested)

    def fail_upload() -> None:
        raise no_such_upload()

    s3.before["upload_part"] = fail_upload
    with pytest.raises(RejectedRequestError, match="NoSuchUpload"):
        step(database, requested)
    assert load(database, requested).succeeded == 0
    run(database, requested, now=NOW + export.LEASE)

    assert s3.job_ids(requested) == dead_letters


def test_process_with_expired_lease_stores_nothing(
    database: Database, s3: RecordingS3, dead_letters: list[str], request_: Request
) -> None:
    requested = request_()
    lease_end = NOW + export.LEASE + timedelta(seconds=1)

    def step_later() -> None:
        step(database, requested, now=lease_end)

    s3.after["upload_part"] = step_later
    with pytest.raises(ConflictError):
        step(database, requested)
    assert load(database, requested).succeeded == 3
    run(database, requested, now=lease_end)

    assert s3.job_ids(requested) == dead_letters


def test_file_excludes_later_dead_letters(
    database: Database, s3: RecordingS3, make_dead_letter: MakeDeadLetter, request_: Request
) -> None:
    exported = make_dead_letter(minute=0)
    requested = request_(now=NOON + timedelta(minutes=1))
    make_dead_letter(minute=1)
    run(database, requested, now=NOON + timedelta(minutes=2))
    assert s3.job_ids(requested) == [str(exported)]


def test_step_without_time_left_uploads_nothing(
    database: Database, s3: RecordingS3, dead_letters: list[str], request_: Request
) -> None:
    requested = request_()
    result = step(database, requested, seconds_left=export.MIN_SECONDS_LEFT - 1)
    assert result is not None
    assert (result.processed, load(database, requested).succeeded) == (0, 0)
    assert run(database, requested) == 3


def test_export_halts_after_a_day(
    database: Database, s3: RecordingS3, dead_letters: list[str], request_: Request, admin: Connection
) -> None:
    requested = request_()
    step(database, requested)

    step(database, requested, now=NOW + timedelta(days=1, seconds=1))

    failed_export = load(database, requested)
    assert (failed_export.state, failed_export.reason) == ("halted", "It was not complete within a day.")
    assert s3.keys() == []
    assert str(requested.id) in [str(row["job_id"]) for row in rows(admin, "failure_event")]


def test_export_is_paused_resumed_and_canceled(
    database: Database, s3: RecordingS3, dead_letters: list[str], request_: Request
) -> None:
    requested = request_()
    step(database, requested)

    def control(command: OperationCommand) -> None:
        version = load(database, requested).version
        with database.tenant(requested.tenant_id) as connection:
            store.change_state(connection, requested.id, command, version=version, actor="ann", now=NOW)

    control("pause")
    assert step(database, requested) is None
    control("resume")
    step(database, requested)
    assert load(database, requested).succeeded == 6
    s3.after["upload_part"] = lambda: control("cancel")
    assert step(database, requested) is None
    canceled = load(database, requested)
    assert (canceled.state, canceled.succeeded) == ("canceled", 6)


# -- requests --------------------------------------------------------------------------------------------------------


def test_repeated_request_returns_export_in_progress(request_: Request) -> None:
    first = request_()
    assert request_(now=NOW + timedelta(minutes=1)).id == first.id
    other_exports = {request_(by="bob").id, request_("text").id}
    assert len(other_exports - {first.id}) == 2


def test_exports_in_progress_are_limited_per_tenant(
    request_: Request, database: Database, s3: RecordingS3, tenant_id: UUID
) -> None:
    started = [request_(str(number)) for number in range(export.MAX_ACTIVE)]
    with pytest.raises(TooManyExportsError, match="3 exports"):
        request_("one more")
    run(database, started[0])
    request_("one more")


def test_download_link_names_file_and_expires(s3: RecordingS3, request_: Request) -> None:
    requested = request_(format_="csv")
    address = urlsplit(export.presigned_url(BUCKET, requested, "acme"))
    arguments = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert address.path.endswith(export.object_key(requested))
    assert arguments["response-content-disposition"] == 'attachment; filename="dead-letters-acme-20260303T120000Z.csv"'
    assert arguments["response-content-type"].startswith("text/csv")
    assert "Expires" in arguments or arguments["X-Amz-Expires"] == str(export.URL_EXPIRY_SECONDS)


# -- runs ------------------------------------------------------------------------------------------------------------


def test_rejected_export_does_not_delay_other_exports(
    database: Database, s3: RecordingS3, dead_letters: list[str], request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejected, other = request_(), request_(by="bob")
    parts = []

    def upload_part(**arguments: Any) -> Any:
        if arguments["Key"] == export.object_key(rejected):
            parts.append(arguments["PartNumber"])
            error: Any = {"Error": {"Code": "InvalidRequest"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(error, "UploadPart")
        return s3.real.upload_part(**arguments)

    monkeypatch.setattr(s3, "upload_part", upload_part, raising=False)
    runner = Engine(database, Outbox(database, {}, {}), [ExportSteps(BUCKET)], lambda: NOW)
    with pytest.raises(RuntimeError, match="1 operations failed"):
        runner.run(lambda: 40.0)
    assert parts == [1]
    assert (load(database, rejected).state, load(database, other).state) == ("running", "done")


def test_export_requires_bucket(database: Database, request_: Request) -> None:
    requested = request_()
    with pytest.raises(InvalidSettingsError, match="UPLOADS_BUCKET"):
        engine.run_step(database, ExportSteps(None), requested.id, requested.tenant_id, NOW)
