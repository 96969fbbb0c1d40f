"""The latest results are exported to S3 as JSON and CSV under stable keys."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.webhooks import destinations
from counterfoil.webhooks.payload import export
from functions.document_output.work import OutputDependencies
from tests.delivery.harness import Clock, FakeSqs, rows
from tests.functions.output_harness import BUCKET, World


def refusal(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "S3")  # type: ignore[typeddict-item]


class S3:
    """moto's S3, with failures and concurrent writes on demand."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.refuse: dict[str, ClientError] = {}
        self.before_put: Any = None

    def head_object(self, **about: Any) -> Any:
        if "head" in self.refuse:
            raise self.refuse["head"]
        return self.real.head_object(**about)

    def put_object(self, **about: Any) -> Any:
        if "put" in self.refuse:
            raise self.refuse["put"]
        if self.before_put is not None:
            concurrent_write, self.before_put = self.before_put, None
            concurrent_write()
        return self.real.put_object(**about)

    def text(self, key: str) -> str:
        content: bytes = self.real.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return content.decode()

    def keys(self) -> list[str]:
        return [entry["Key"] for entry in self.real.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


@pytest.fixture
def s3(sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        real = boto3.client("s3", region_name="us-east-1")
        real.create_bucket(Bucket=BUCKET)
        fake = S3(real)
        monkeypatch.setattr(aws, "client", lambda service: {"s3": fake, "sqs": sqs}[service])
        yield fake


@pytest.fixture
def world(s3: S3, database: Database, admin: Connection, clock: Clock, tenant: UUID) -> World:
    world = World(database, admin, clock, tenant)
    world.export("erp/in")
    return world


def test_result_is_two_files_per_tenant_and_cluster(world: World, s3: S3):
    cluster = world.result()
    world.run()
    assert (world.job()["status"], world.job()["response_status"]) == ("succeeded", None)
    at = f"exports/acme/erp/in/clusters/{cluster}"
    assert s3.keys() == [f"{at}.csv", f"{at}.json"]
    exported = json.loads(s3.text(f"{at}.json"))
    assert (exported["id"], exported["data"]["outcome"]) == (f"{world.job()['id']}:1", "matched")
    (line,) = csv.DictReader(io.StringIO(s3.text(f"{at}.csv")))
    assert (line["number"], line["outcome"], line["subject_id"]) == ("R-1", "matched", str(cluster))


def test_offers_are_exported_to_subscribed_destinations(world: World, s3: S3):
    world.result()
    world.offers()
    assert s3.keys() == []
    world.admin.execute("UPDATE destination SET events = '{offers}'")
    world.admin.execute("DELETE FROM output_job")
    shard = world.offers()
    world.run()
    (key,) = s3.keys()
    assert key == f"exports/acme/erp/in/offers/{shard}.json"
    exported = json.loads(s3.text(key))
    assert (exported["event"], exported["subject_id"], exported["data"]) == ("offers", str(shard), {"completed": 3})


def test_newer_revision_overwrites_the_same_keys(world: World, s3: S3):
    cluster = world.result("incomplete")
    world.run()
    world.result("matched", cluster)
    world.run()
    assert len(s3.keys()) == 2
    exported = json.loads(s3.text(f"exports/acme/erp/in/clusters/{cluster}.json"))
    assert (exported["revision"], exported["data"]["outcome"]) == (2, "matched")


def test_removed_cluster_is_exported_as_removed(world: World, s3: S3):
    cluster = world.result()
    world.run()
    world.admin.execute("UPDATE document SET cluster_id = NULL")
    world.result("matched", cluster)
    world.run()
    assert json.loads(s3.text(f"exports/acme/erp/in/clusters/{cluster}.json"))["data"] is None
    assert len(s3.text(f"exports/acme/erp/in/clusters/{cluster}.csv").splitlines()) == 1


def test_slow_older_revision_overwrites_nothing(world: World, s3: S3):
    cluster = world.result("incomplete")

    def supersede(attempt: TenantAttempt) -> Outcome:

        with attempt.database.tenant(world.tenant_id) as connection:
            loaded = destinations.load(connection, attempt.work_id, attempt.revision)
        assert loaded is not None
        world.result("matched", cluster)
        world.run()  # the newer revision is stored first
        export(BUCKET, "acme", "erp/in", loaded[0])
        return world.deliver(attempt)

    world.run(work=supersede)
    exported = json.loads(s3.text(f"exports/acme/erp/in/clusters/{cluster}.json"))
    assert (exported["revision"], exported["data"]["outcome"]) == (2, "matched")
    assert world.job()["status"] == "succeeded"


def test_concurrent_write_is_detected(world: World, s3: S3):
    cluster = world.result()
    key = f"exports/acme/erp/in/clusters/{cluster}.json"
    newer = {"job": world.job()["id"], "revision": "9", "created-at": "2026-01-02T03:04:05.000000Z"}
    s3.before_put = lambda: s3.real.put_object(Bucket=BUCKET, Key=key, Body=b"newer", Metadata=newer)
    world.run()
    assert (world.job()["status"], s3.text(key)) == ("pending", "newer")
    assert "changed while it was written" in world.job()["error"]
    world.clock.pass_(minutes=5)
    world.run(receives=2)
    assert (world.job()["status"], s3.text(key)) == ("succeeded", "newer")


def test_recreated_destination_gets_the_latest_state(world: World, s3: S3):
    cluster = world.result("incomplete")
    world.run()
    world.clock.pass_(seconds=1)
    world.result("exception", cluster)
    world.run()
    assert destinations.remove(world.admin, world.change(), "erp")
    world.export("erp/in")
    world.clock.pass_(seconds=1)
    world.result("matched", cluster)
    world.run()
    exported = json.loads(s3.text(f"exports/acme/erp/in/clusters/{cluster}.json"))
    assert (exported["revision"], exported["data"]["outcome"]) == (1, "matched")


def test_slow_attempt_for_recreated_destination_overwrites_nothing(world: World, s3: S3):
    cluster = world.result("incomplete")

    def supersede(attempt: TenantAttempt) -> Outcome:
        with attempt.database.tenant(world.tenant_id) as connection:
            loaded = destinations.load(connection, attempt.work_id, attempt.revision)
        assert loaded is not None
        assert destinations.remove(world.admin, world.change(), "erp")
        world.export("erp/in")
        world.clock.pass_(seconds=1)
        world.result("matched", cluster)
        world.run()  # the new destination is written first
        export(BUCKET, "acme", "erp/in", loaded[0])
        return world.deliver(attempt)

    world.run(work=supersede)
    exported = json.loads(s3.text(f"exports/acme/erp/in/clusters/{cluster}.json"))
    assert exported["data"]["outcome"] == "matched"


def test_repeated_delivery_writes_the_same_files(world: World, s3: S3):
    cluster = world.result()
    world.run()
    world.admin.execute("UPDATE output_job SET status = 'pending'")
    before = s3.text(f"exports/acme/erp/in/clusters/{cluster}.json")
    world.run()
    assert world.job()["status"] == "succeeded"
    assert s3.text(f"exports/acme/erp/in/clusters/{cluster}.json") == before


def test_missing_file_without_list_permission_is_written(world: World, s3: S3):
    s3.refuse["head"] = refusal("403", 403)
    world.result()
    world.run()
    assert (world.job()["status"], len(s3.keys())) == ("succeeded", 2)


@pytest.mark.parametrize("call", ["head", "put"])
def test_export_is_retried_after_an_s3_outage(call: str, world: World, s3: S3):
    s3.refuse[call] = refusal("SlowDown", 503)
    world.result()
    world.run()
    assert (world.job()["status"], world.job()["attempts"]) == ("pending", 1)
    s3.refuse.clear()
    world.clock.pass_(minutes=5)
    world.run(receives=2)
    assert world.job()["status"] == "succeeded"


def test_denied_export_is_a_dead_letter(world: World, s3: S3):
    s3.refuse["put"] = refusal("AccessDenied", 403)
    world.result()
    world.run()
    assert world.job()["status"] == "failed"
    assert [letter["dlq_reason"] for letter in rows(world.admin, "dead_letter")] == ["non_retriable_error"]


def test_missing_bucket_is_named(world: World):
    world.dependencies = OutputDependencies(world.dependencies.breakers, None, None)
    world.result()
    world.run()
    assert world.job()["error"].startswith("UPLOADS_BUCKET is not set")
