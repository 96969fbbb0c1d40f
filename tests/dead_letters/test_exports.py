"""Large exports are written to S3 part by part, survive crashes, and are downloaded with a link."""

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
from counterfoil.operations.engine import Engine, Step
from counterfoil.operations.store import Operation, Steer
from tests.dead_letters.conftest import NOON, Die
from tests.delivery.harness import rows

BUCKET = "counterfoil-uploads"
NOW = NOON + timedelta(days=1)
PART, LARGE = 50_000, 20_000
"""Bytes of a part and characters of a payload: three dead letters fill a part."""


class Killed(BaseException):
    """The process is ended."""


def no_such_upload() -> ClientError:
    error: Any = {"Error": {"Code": "NoSuchUpload"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
    return ClientError(error, "UploadPart")


class S3:
    """S3 as moto has it, with something that comes in before or after a call."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}
        self.calls: list[str] = []

    def __getattr__(self, operation: str) -> Any:
        def call(*about: Any, **asked: Any) -> Any:
            self.calls.append(operation)
            self.before.pop(operation, lambda: None)()
            try:
                answer = getattr(self.real, operation)(*about, **asked)
            except KeyError:  # moto's upload_part does not raise S3's error
                raise no_such_upload() from None
            self.after.pop(operation, lambda: None)()
            return answer

        return call

    def keys(self) -> list[str]:
        return [entry["Key"] for entry in self.real.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def uploads(self) -> int:
        return len(self.real.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []))

    def letters(self, of: Operation) -> list[str]:
        content = self.real.get_object(Bucket=BUCKET, Key=export.key(of))["Body"].read()
        return [json.loads(line)["job_id"] for line in content.decode().split("\n")[:-1]]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        real = boto3.client("s3", region_name="us-east-1")
        real.create_bucket(Bucket=BUCKET)
        real.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        found = S3(real)
        monkeypatch.setattr(aws, "client", lambda _: found)
        yield found


@pytest.fixture
def many(die: Die, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Eight letters, the newest first, that are large for S3 as it is here: a file of three parts."""
    monkeypatch.setattr(export, "MOST_BYTES", LARGE)
    monkeypatch.setattr(export, "PART_BYTES", PART)
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", PART)
    died = [str(die(minute=-minute)) for minute in range(8)]
    admin.execute("UPDATE dead_letter SET payload = jsonb_build_object('text', repeat('x', %s))", [LARGE])
    return died


Request = Callable[..., Operation]


@pytest.fixture
def request_(database: Database, tenant_id: UUID) -> Request:
    def ask(
        text: str | None = None, *, by: str = "ann", format_: Format = "json", hides: bool = False, now: datetime = NOW
    ) -> Operation:
        file, wanted = ExportFile(format_, redacted=hides), DeadLetterFilter(text=text)
        with database.tenant(tenant_id) as connection:
            return export.request(connection, tenant_id, wanted, file, by=by, now=now)

    return ask


def step(database: Database, wanted: Operation, *, at: datetime = NOW, left: float = 40.0) -> Step | None:
    definition = ExportSteps(BUCKET)
    return engine.step(database, definition, wanted.id, wanted.tenant_id, at, time_left=lambda: left)


def run(database: Database, wanted: Operation, *, at: datetime = NOW) -> int:
    """Run all steps that are due. Returns their number."""
    number = 0
    while (taken := step(database, wanted, at=at)) is not None and (taken.is_busy or taken.handled):
        number += 1
    return number


def shown(database: Database, wanted: Operation) -> Operation:
    with database.tenant(wanted.tenant_id) as connection:
        return store.show(connection, wanted.id)


def test_each_step_uploads_a_part(database: Database, s3: S3, many: list[str], request_: Request) -> None:
    wanted = request_()

    written = []
    while shown(database, wanted).state == "running":
        step(database, wanted)
        written.append(shown(database, wanted).done)

    done = shown(database, wanted)
    assert written == [3, 6, 8]
    assert (done.state, done.done, s3.calls.count("upload_part")) == ("done", 8, 3)
    assert s3.letters(done) == many
    head = s3.real.head_object(Bucket=BUCKET, Key=export.key(done))
    assert (head["ContentType"], head["ContentLength"]) == ("application/x-ndjson", ExportFile.of(done).bytes)
    assert s3.uploads() == 0


def test_export_without_dead_letters_is_empty(database: Database, s3: S3, tenant_id: UUID, request_: Request) -> None:
    wanted = request_()
    run(database, wanted)
    assert s3.letters(wanted) == []
    assert shown(database, wanted).state == "done"


def test_parts_have_the_size_that_s3_requires(
    database: Database, s3: S3, die: Die, admin: Connection, request_: Request
) -> None:
    died = [str(die(minute=-minute)) for minute in range(4)]
    admin.execute("UPDATE dead_letter SET payload = jsonb_build_object('text', repeat('x', 2000000))")
    wanted = request_()

    run(database, wanted)

    assert (s3.calls.count("upload_part"), s3.letters(wanted)) == (2, died)


def test_last_part_is_not_empty(
    database: Database, s3: S3, many: list[str], request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE", 8)
    monkeypatch.setattr(export, "PART_BYTES", 8 * LARGE)
    wanted = request_()

    step(database, wanted)
    step(database, wanted)

    assert shown(database, wanted).state == "done"
    assert (s3.calls.count("upload_part"), s3.letters(wanted)) == (1, many)


@pytest.mark.parametrize("operation", ["create_multipart_upload", "upload_part", "complete_multipart_upload"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_export_continues_after_its_lease(
    operation: str, when: str, database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    wanted = request_()

    def kill() -> None:
        raise Killed

    getattr(s3, when)[operation] = kill
    with pytest.raises(Killed):
        run(database, wanted)
    assert run(database, wanted) == 0  # the lease has not expired

    later = NOW + export.LEASE
    for _ in range(2):  # S3 no longer knows the upload if the file is complete
        try:
            run(database, wanted, at=later)
            break
        except RejectedRequestError:
            later += export.LEASE

    done = shown(database, wanted)
    assert (done.state, done.done) == ("done", 8)
    assert s3.letters(done) == many


def test_repeated_part_is_in_the_file_once(database: Database, s3: S3, many: list[str], request_: Request) -> None:
    """The process is killed between the upload of the second part and the commit."""
    wanted = request_()
    step(database, wanted)

    def kill() -> None:
        raise Killed

    s3.after["upload_part"] = kill
    with pytest.raises(Killed):
        step(database, wanted)
    assert shown(database, wanted).done == 3
    run(database, wanted, at=NOW + export.LEASE)

    assert s3.calls.count("upload_part") == 4
    assert s3.letters(wanted) == many


def test_export_restarts_if_its_upload_is_missing(
    database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    wanted = request_()
    step(database, wanted)

    def gone() -> None:
        raise no_such_upload()

    s3.before["upload_part"] = gone
    with pytest.raises(RejectedRequestError, match="NoSuchUpload"):
        step(database, wanted)
    assert shown(database, wanted).done == 0
    run(database, wanted, at=NOW + export.LEASE)

    assert s3.letters(wanted) == many


def test_process_without_its_lease_stores_nothing(
    database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    wanted = request_()
    later = NOW + export.LEASE + timedelta(seconds=1)

    def intrude() -> None:
        step(database, wanted, at=later)

    s3.after["upload_part"] = intrude
    with pytest.raises(ConflictError):
        step(database, wanted)
    assert shown(database, wanted).done == 3
    run(database, wanted, at=later)

    assert s3.letters(wanted) == many


def test_file_excludes_dead_letters_after_the_request(database: Database, s3: S3, die: Die, request_: Request) -> None:
    before = die(minute=0)
    wanted = request_(now=NOON + timedelta(minutes=1))
    die(minute=1)
    run(database, wanted, at=NOON + timedelta(minutes=2))
    assert s3.letters(wanted) == [str(before)]


def test_step_without_time_leaves_the_part_to_the_next(
    database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    wanted = request_()
    taken = step(database, wanted, left=export.LEAST_SECONDS - 1)
    assert taken is not None
    assert (taken.handled, shown(database, wanted).done) == (0, 0)
    assert run(database, wanted) == 3


def test_export_stops_after_a_day(
    database: Database, s3: S3, many: list[str], request_: Request, admin: Connection
) -> None:
    wanted = request_()
    step(database, wanted)

    step(database, wanted, at=NOW + timedelta(days=1, seconds=1))

    stopped = shown(database, wanted)
    assert (stopped.state, stopped.reason) == ("stopped", "It was not complete within a day.")
    assert s3.keys() == []
    assert str(wanted.id) in [str(row["job_id"]) for row in rows(admin, "notification")]


def test_export_is_paused_resumed_and_cancelled(database: Database, s3: S3, many: list[str], request_: Request) -> None:
    wanted = request_()
    step(database, wanted)

    def steer(how: Steer) -> None:
        version = shown(database, wanted).version
        with database.tenant(wanted.tenant_id) as connection:
            store.steer(connection, wanted.id, how, version=version, actor="ann", now=NOW)

    steer("pause")
    assert step(database, wanted) is None
    steer("resume")
    step(database, wanted)
    assert shown(database, wanted).done == 6
    s3.after["upload_part"] = lambda: steer("cancel")
    assert step(database, wanted) is None
    cancelled = shown(database, wanted)
    assert (cancelled.state, cancelled.done) == ("cancelled", 6)


# -- requests --------------------------------------------------------------------------------------------------------


def test_repeated_request_returns_the_export_in_progress(request_: Request) -> None:
    first = request_()
    assert request_(now=NOW + timedelta(minutes=1)).id == first.id
    others = {request_(by="bob").id, request_("text").id}
    assert len(others - {first.id}) == 2


def test_exports_in_progress_are_limited_per_tenant(
    request_: Request, database: Database, s3: S3, tenant_id: UUID
) -> None:
    started = [request_(str(number)) for number in range(export.MOST_ACTIVE)]
    with pytest.raises(TooManyExportsError, match="3 exports"):
        request_("one more")
    run(database, started[0])
    request_("one more")


def test_link_expires_and_names_the_file(s3: S3, request_: Request) -> None:
    wanted = request_(format_="csv")
    address = urlsplit(export.link(BUCKET, wanted, "acme"))
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert address.path.endswith(export.key(wanted))
    assert asked["response-content-disposition"] == 'attachment; filename="dead-letters-acme-20260303T120000Z.csv"'
    assert asked["response-content-type"].startswith("text/csv")
    assert "Expires" in asked or asked["X-Amz-Expires"] == str(export.LINK_SECONDS)


# -- rounds ----------------------------------------------------------------------------------------------------------


def test_refused_export_does_not_delay_others(
    database: Database, s3: S3, many: list[str], request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, other = request_(), request_(by="bob")
    tried = []

    def upload_part(**asked: Any) -> Any:
        if asked["Key"] == export.key(refused):
            tried.append(asked["PartNumber"])
            error: Any = {"Error": {"Code": "InvalidRequest"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(error, "UploadPart")
        return s3.real.upload_part(**asked)

    monkeypatch.setattr(s3, "upload_part", upload_part, raising=False)
    rounds = Engine(database, Outbox(database, {}, {}), [ExportSteps(BUCKET)], lambda: NOW)
    with pytest.raises(RuntimeError, match="1 operations failed"):
        rounds.run(lambda: 40.0)
    assert tried == [1]
    assert (shown(database, refused).state, shown(database, other).state) == ("running", "done")


def test_export_requires_a_bucket(database: Database, request_: Request) -> None:
    wanted = request_()
    with pytest.raises(InvalidSettingsError, match="UPLOADS_BUCKET"):
        engine.step(database, ExportSteps(None), wanted.id, wanted.tenant_id, NOW)
