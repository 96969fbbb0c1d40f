"""Large exports are written to S3 part by part, whatever dies in between, given out for a week, and then removed."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.dead_letters import export, export_steps, exports
from counterfoil.dead_letters.export import Format
from counterfoil.dead_letters.export_steps import Bench
from counterfoil.dead_letters.exports import Export, TooManyExportsError, Wish
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.errors import ConflictError, RejectedRequestError, ServiceUnavailableError
from functions.watchdog.exports import write_exports
from functions.watchdog.parts import PartsError
from tests.dead_letters.conftest import NOON, Die
from tests.delivery.harness import rows

BUCKET = "counterfoil-uploads"
NOW = NOON + timedelta(days=1)
PART, LARGE = 50_000, 20_000
"""Bytes of a part and characters of a payload: three letters make a part."""


class Killed(BaseException):
    """The process is ended."""


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
            answer = getattr(self.real, operation)(*about, **asked)
            self.after.pop(operation, lambda: None)()
            return answer

        return call

    def keys(self) -> list[str]:
        return [entry["Key"] for entry in self.real.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def uploads(self) -> int:
        return len(self.real.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []))

    def letters(self, of: Export) -> list[str]:
        content = self.real.get_object(Bucket=BUCKET, Key=of.key)["Body"].read()
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
    monkeypatch.setattr(export_steps, "PART_BYTES", PART)
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", PART)
    died = [str(die(minute=-minute)) for minute in range(8)]
    admin.execute("UPDATE dead_letter SET payload = jsonb_build_object('text', repeat('x', %s))", [LARGE])
    return died


Request = Callable[..., Export]


@pytest.fixture
def request_(database: Database, tenant_id: UUID) -> Request:
    def ask(
        text: str | None = None, *, by: str = "ann", format_: Format = "json", hides: bool = False, now: datetime = NOW
    ) -> Export:
        wish = Wish(tenant_id, DeadLetterFilter(text=text), format_, hides, by, now)
        with database.tenant(tenant_id) as connection:
            return exports.request(connection, wish)

    return ask


def bench(database: Database, *, at: datetime = NOW, left: float = 40.0) -> Bench:
    return Bench(database, BUCKET, lambda: at, lambda: left)


def found(database: Database, wanted: Export) -> Export:
    with database.delivery() as connection:
        one = exports.find(connection, wanted.id)
    assert one is not None
    return one


def steps(database: Database, *, at: datetime = NOW) -> int:
    taken = 0
    while bench(database, at=at).step():
        taken += 1
    return taken


def test_an_export_is_written_part_by_part_to_its_end(
    keeper_database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    wanted = request_()

    letters = []
    while bench(keeper_database).step():
        letters.append(found(keeper_database, wanted).letters)

    ready = found(keeper_database, wanted)
    assert letters == [3, 6, 8]
    assert (ready.state, len(ready.parts), ready.letters) == ("ready", 3, 8)
    assert s3.letters(ready) == many
    head = s3.real.head_object(Bucket=BUCKET, Key=ready.key)
    assert (head["ContentType"], head["ContentLength"]) == ("application/x-ndjson", ready.bytes)
    assert s3.uploads() == 0


def test_an_export_of_nothing_is_an_empty_file(
    keeper_database: Database, s3: S3, tenant_id: UUID, request_: Request
) -> None:
    wanted = request_()
    steps(keeper_database)
    assert s3.letters(found(keeper_database, wanted)) == []


def test_no_part_but_the_last_is_smaller_than_s3_takes(
    keeper_database: Database, s3: S3, die: Die, admin: Connection, request_: Request
) -> None:
    died = [str(die(minute=-minute)) for minute in range(4)]
    admin.execute("UPDATE dead_letter SET payload = jsonb_build_object('text', repeat('x', 2000000))")
    wanted = request_()

    steps(keeper_database)

    ready = found(keeper_database, wanted)
    assert (len(ready.parts), s3.letters(ready)) == (2, died)


def test_a_file_that_ends_with_a_part_has_no_empty_one_behind_it(
    keeper_database: Database, s3: S3, many: list[str], request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PAGE", 8)
    monkeypatch.setattr(export_steps, "PART_BYTES", 8 * LARGE)
    wanted = request_()

    assert steps(keeper_database) == 2

    ready = found(keeper_database, wanted)
    assert (len(ready.parts), s3.letters(ready)) == (1, many)


@pytest.mark.parametrize(
    ("operation", "when"),
    [
        ("create_multipart_upload", "before"),
        ("create_multipart_upload", "after"),
        ("upload_part", "before"),
        ("upload_part", "after"),
        ("complete_multipart_upload", "before"),
        ("complete_multipart_upload", "after"),
    ],
)
def test_whoever_is_killed_the_next_one_goes_on_when_the_lease_is_over(
    operation: str, when: str, keeper_database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    wanted = request_()

    def kill() -> None:
        raise Killed

    getattr(s3, when)[operation] = kill
    with pytest.raises(Killed):
        steps(keeper_database)
    assert steps(keeper_database) == 0  # somebody may be at it still

    later = NOW + export_steps.LEASE
    for _ in range(2):  # if the file was put together already, S3 does not know the upload any more
        try:
            steps(keeper_database, at=later)
            break
        except RejectedRequestError:
            later += export_steps.LEASE

    ready = found(keeper_database, wanted)
    assert (ready.state, ready.letters, len(ready.parts)) == ("ready", 8, 3)
    assert s3.letters(ready) == many


def test_a_part_that_was_written_twice_is_in_the_file_once(
    keeper_database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    """Killed behind the upload of the second part, before anybody knew of it."""
    wanted = request_()
    bench(keeper_database).step()

    def kill() -> None:
        raise Killed

    s3.after["upload_part"] = kill
    with pytest.raises(Killed):
        bench(keeper_database).step()
    assert found(keeper_database, wanted).letters == 3
    steps(keeper_database, at=NOW + export_steps.LEASE)

    assert s3.calls.count("upload_part") == 4
    assert s3.letters(found(keeper_database, wanted)) == many


def test_an_upload_that_is_gone_is_begun_anew(
    keeper_database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    wanted = request_()
    bench(keeper_database).step()

    def gone() -> None:
        error: Any = {"Error": {"Code": "NoSuchUpload"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
        raise ClientError(error, "UploadPart")

    s3.before["upload_part"] = gone
    with pytest.raises(RejectedRequestError, match="NoSuchUpload"):
        bench(keeper_database).step()
    assert found(keeper_database, wanted).letters == 0
    steps(keeper_database, at=NOW + export_steps.LEASE)

    assert s3.letters(found(keeper_database, wanted)) == many


def test_whoever_lost_his_lease_writes_nothing_down(
    keeper_database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    wanted = request_()
    later = NOW + export_steps.LEASE + timedelta(seconds=1)

    def intrude() -> None:
        bench(keeper_database, at=later).step()

    s3.after["upload_part"] = intrude
    with pytest.raises(ConflictError):
        bench(keeper_database).step()
    assert found(keeper_database, wanted).letters == 3
    steps(keeper_database, at=later)

    assert s3.letters(found(keeper_database, wanted)) == many


def test_exports_are_written_in_turn(keeper_database: Database, s3: S3, many: list[str], request_: Request) -> None:
    first, second = request_(), request_(many[0])
    bench(keeper_database).step()
    bench(keeper_database, at=NOW + timedelta(seconds=1)).step()
    assert (found(keeper_database, first).state, found(keeper_database, second).state) == ("writing", "ready")


def test_what_dies_after_the_request_is_not_in_the_file(
    keeper_database: Database, s3: S3, die: Die, request_: Request
) -> None:
    before = die(minute=0)
    wanted = request_(now=NOON + timedelta(minutes=1))
    die(minute=1)
    steps(keeper_database, at=NOON + timedelta(minutes=2))
    assert s3.letters(found(keeper_database, wanted)) == [str(before)]


def test_without_time_for_a_part_the_next_round_writes_it(
    keeper_database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    wanted = request_()
    assert not bench(keeper_database, left=export_steps.LEAST_SECONDS - 1).step()
    assert found(keeper_database, wanted).letters == 0
    assert steps(keeper_database) == 3


def test_an_export_that_takes_longer_than_a_day_has_failed(
    keeper_database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    wanted = request_()
    bench(keeper_database).step()

    assert steps(keeper_database, at=NOW + timedelta(days=1, seconds=1)) == 1

    assert found(keeper_database, wanted).state == "failed"
    assert s3.uploads() == 0
    assert s3.keys() == []


# -- requests --------------------------------------------------------------------------------------------------------


def test_the_same_request_of_the_same_person_is_one_export(request_: Request) -> None:
    first = request_()
    assert request_(now=NOW + timedelta(minutes=1)).id == first.id
    others = {request_(by="bob").id, request_("text").id}
    assert len(others - {first.id}) == 2


def test_a_tenant_has_few_exports_that_are_being_written(
    request_: Request, keeper_database: Database, s3: S3, tenant_id: UUID
) -> None:
    for number in range(exports.MOST_WRITING):
        request_(str(number))
    with pytest.raises(TooManyExportsError, match="3 exports"):
        request_("one more")
    steps(keeper_database)
    request_("one more")


def test_a_link_is_for_minutes_and_names_the_file(s3: S3, request_: Request) -> None:
    wanted = request_(format_="csv")
    address = urlsplit(exports.link(BUCKET, wanted, "acme"))
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert address.path.endswith(f"{wanted.key}")
    assert asked["response-content-disposition"] == 'attachment; filename="dead-letters-acme-20260303T120000Z.csv"'
    assert asked["response-content-type"].startswith("text/csv")
    assert "Expires" in asked or asked["X-Amz-Expires"] == str(exports.LINK_SECONDS)


# -- the watchdog ----------------------------------------------------------------------------------------------------


def past_keeping(admin: Connection) -> None:
    admin.execute("UPDATE dead_letter_export SET expires_at = now() - interval '1 second'")


def test_a_round_writes_what_is_wanted_and_removes_what_is_past_keeping(
    keeper_database: Database, s3: S3, many: list[str], request_: Request, admin: Connection
) -> None:
    request_(now=datetime.now(NOW.tzinfo))

    def now() -> datetime:
        return datetime.now(NOW.tzinfo)

    done = write_exports(keeper_database, BUCKET, now, lambda: 40.0)
    assert done == {"dead_letter_export_part": 3, "dead_letter_export": 0}
    assert len(s3.keys()) == 1
    past_keeping(admin)
    done = write_exports(keeper_database, BUCKET, now, lambda: 40.0)
    assert done == {"dead_letter_export_part": 0, "dead_letter_export": 1}
    assert s3.keys() == []
    assert rows(admin, "dead_letter_export") == []


def test_an_export_that_was_half_written_is_removed_with_its_upload(
    keeper_database: Database, s3: S3, many: list[str], request_: Request, admin: Connection
) -> None:
    request_()
    bench(keeper_database).step()
    past_keeping(admin)
    assert bench(keeper_database).remove() == 1
    assert s3.uploads() == 0


def test_an_upload_that_is_gone_keeps_no_export_from_being_removed(
    keeper_database: Database, s3: S3, request_: Request, admin: Connection
) -> None:
    request_()
    admin.execute("UPDATE dead_letter_export SET upload_id = 'gone'")
    past_keeping(admin)
    assert bench(keeper_database).remove() == 1


def test_what_s3_does_not_delete_is_kept_and_tried_again(
    keeper_database: Database, s3: S3, request_: Request, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = request_()
    past_keeping(admin)
    refusal = {"Errors": [{"Key": wanted.key, "Code": "InternalError"}]}
    with monkeypatch.context() as patched:
        patched.setattr(s3, "delete_objects", lambda **_: refusal, raising=False)
        with pytest.raises(ServiceUnavailableError, match="1 of 1 exports: InternalError"):
            bench(keeper_database).remove()
    assert bench(keeper_database).remove() == 1


def test_the_database_forgets_no_export_before_its_time(
    keeper_database: Database, request_: Request, admin: Connection
) -> None:
    request_(now=datetime.now(NOW.tzinfo))
    with keeper_database.delivery() as connection:
        connection.execute("SET LOCAL ROLE counterfoil_keeper")
        assert connection.execute("DELETE FROM dead_letter_export").rowcount == 0


def test_an_export_that_s3_refuses_keeps_no_other_from_being_written(
    keeper_database: Database, s3: S3, many: list[str], request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(NOW.tzinfo)
    refused, other = request_(now=now), request_(by="bob", now=now)

    def upload_part(**asked: Any) -> Any:
        if asked["Key"] == refused.key:
            error: Any = {"Error": {"Code": "InvalidRequest"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(error, "UploadPart")
        return s3.real.upload_part(**asked)

    monkeypatch.setattr(s3, "upload_part", upload_part, raising=False)
    with pytest.raises(PartsError, match="dead_letter_export_part"):
        write_exports(keeper_database, BUCKET, lambda: now, lambda: 40.0)
    assert (found(keeper_database, refused).state, found(keeper_database, other).state) == ("writing", "ready")


def test_while_s3_refuses_everything_a_round_does_not_go_through_all_exports(
    keeper_database: Database, s3: S3, request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(exports.MOST_WRITING):
        request_(str(number))
    monkeypatch.setattr("functions.watchdog.exports.MOST_FAILED", 2)
    error: Any = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    refuse = Mock(side_effect=ClientError(error, "CreateMultipartUpload"))
    monkeypatch.setattr(s3, "create_multipart_upload", refuse, raising=False)
    with pytest.raises(PartsError, match="dead_letter_export_part"):
        write_exports(keeper_database, BUCKET, lambda: NOW, lambda: 40.0)
    assert refuse.call_count == 2


def test_a_round_with_little_time_writes_nothing(
    keeper_database: Database, s3: S3, many: list[str], request_: Request
) -> None:
    request_(now=datetime.now(NOW.tzinfo))
    done = write_exports(keeper_database, BUCKET, lambda: NOW, lambda: 10.0)
    assert done == {"dead_letter_export_part": 0, "dead_letter_export": 0}


def test_where_there_is_no_bucket_there_are_no_exports(keeper_database: Database) -> None:
    assert write_exports(keeper_database, None, lambda: NOW, lambda: 40.0) == {}
