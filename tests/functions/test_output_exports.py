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
from counterfoil.webhooks.payload import export_files
from functions.document_output.work import OutputDependencies
from tests.delivery.harness import Clock, FakeSqs, rows
from tests.functions.output_harness import BUCKET, OutputHarness


def refusal(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "S3")  # type: ignore[typeddict-item]


class S3:
    """moto's S3, with failures and concurrent writes on demand."""

    def __init__(self, original: Any) -> None:
        self.real = original
        self.refuse: dict[str, ClientError] = {}
        self.before_put: Any = None

    def head_object(self, **options: Any) -> Any:
        if "head" in self.refuse:
            raise self.refuse["head"]
        return self.real.head_object(**options)

    def put_object(self, **options: Any) -> Any:
        if "put" in self.refuse:
            raise self.refuse["put"]
        if self.before_put is not None:
            concurrent_write, self.before_put = self.before_put, None
            concurrent_write()
        return self.real.put_object(**options)

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
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        fake = S3(client)
        monkeypatch.setattr(aws, "client", lambda service: {"s3": fake, "sqs": sqs}[service])
        yield fake


@pytest.fixture
def output(s3: S3, database: Database, admin: Connection, clock: Clock, tenant: UUID) -> OutputHarness:
    output = OutputHarness(database, admin, clock, tenant)
    output.export("erp/in")
    return output


def test_result_is_exported_as_two_files_per_cluster(output: OutputHarness, s3: S3):
    cluster = output.result()
    output.run()
    assert (output.job()["status"], output.job()["response_status"]) == ("succeeded", None)
    prefix = f"exports/acme/erp/in/clusters/{cluster}"
    assert s3.keys() == [f"{prefix}.csv", f"{prefix}.json"]
    exported = json.loads(s3.text(f"{prefix}.json"))
    assert (exported["id"], exported["data"]["outcome"]) == (f"{output.job()['id']}:1", "matched")
    (line,) = csv.DictReader(io.StringIO(s3.text(f"{prefix}.csv")))
    assert (line["number"], line["outcome"], line["subject_id"]) == ("R-1", "matched", str(cluster))


def test_offers_are_exported_to_subscribed_destinations(output: OutputHarness, s3: S3):
    output.result()
    output.offers()
    assert s3.keys() == []
    output.admin.execute("UPDATE destination SET events = '{offers}'")
    output.admin.execute("DELETE FROM output_job")
    shard = output.offers()
    output.run()
    (key,) = s3.keys()
    assert key == f"exports/acme/erp/in/offers/{shard}.json"
    exported = json.loads(s3.text(key))
    assert (exported["event"], exported["subject_id"], exported["data"]) == ("offers", str(shard), {"completed": 3})


def test_newer_revision_overwrites_the_same_keys(output: OutputHarness, s3: S3):
    cluster = output.result("incomplete")
    output.run()
    output.result("matched", cluster)
    output.run()
    assert len(s3.keys()) == 2
    exported = json.loads(s3.text(f"exports/acme/erp/in/clusters/{cluster}.json"))
    assert (exported["revision"], exported["data"]["outcome"]) == (2, "matched")


def test_removed_cluster_is_exported_as_removed(output: OutputHarness, s3: S3):
    cluster = output.result()
    output.run()
    output.admin.execute("UPDATE document SET cluster_id = NULL")
    output.result("matched", cluster)
    output.run()
    assert json.loads(s3.text(f"exports/acme/erp/in/clusters/{cluster}.json"))["data"] is None
    assert len(s3.text(f"exports/acme/erp/in/clusters/{cluster}.csv").splitlines()) == 1


def test_slow_attempt_for_older_revision_overwrites_nothing(output: OutputHarness, s3: S3):
    cluster = output.result("incomplete")

    def supersede(attempt: TenantAttempt) -> Outcome:

        with attempt.database.tenant(output.tenant_id) as connection:
            loaded = destinations.load_job(connection, attempt.work_id, attempt.revision)
        assert loaded is not None
        output.result("matched", cluster)
        output.run()  # the newer revision is stored first
        export_files(BUCKET, "acme", "erp/in", loaded[0])
        return output.deliver(attempt)

    output.run(work=supersede)
    exported = json.loads(s3.text(f"exports/acme/erp/in/clusters/{cluster}.json"))
    assert (exported["revision"], exported["data"]["outcome"]) == (2, "matched")
    assert output.job()["status"] == "succeeded"


def test_concurrent_write_is_detected(output: OutputHarness, s3: S3):
    cluster = output.result()
    key = f"exports/acme/erp/in/clusters/{cluster}.json"
    newer = {"job": output.job()["id"], "revision": "9", "created-at": "2026-01-02T03:04:05.000000Z"}
    s3.before_put = lambda: s3.real.put_object(Bucket=BUCKET, Key=key, Body=b"newer", Metadata=newer)
    output.run()
    assert (output.job()["status"], s3.text(key)) == ("pending", "newer")
    assert "changed while it was written" in output.job()["error"]
    output.clock.advance(minutes=5)
    output.run(receives=2)
    assert (output.job()["status"], s3.text(key)) == ("succeeded", "newer")


def test_recreated_destination_gets_the_latest_state(output: OutputHarness, s3: S3):
    cluster = output.result("incomplete")
    output.run()
    output.clock.advance(seconds=1)
    output.result("exception", cluster)
    output.run()
    assert destinations.remove(output.admin, output.change(), "erp")
    output.export("erp/in")
    output.clock.advance(seconds=1)
    output.result("matched", cluster)
    output.run()
    exported = json.loads(s3.text(f"exports/acme/erp/in/clusters/{cluster}.json"))
    assert (exported["revision"], exported["data"]["outcome"]) == (1, "matched")


def test_slow_attempt_for_recreated_destination_overwrites_nothing(output: OutputHarness, s3: S3):
    cluster = output.result("incomplete")

    def supersede(attempt: TenantAttempt) -> Outcome:
        with attempt.database.tenant(output.tenant_id) as connection:
            loaded = destinations.load_job(connection, attempt.work_id, attempt.revision)
        assert loaded is not None
        assert destinations.remove(output.admin, output.change(), "erp")
        output.export("erp/in")
        output.clock.advance(seconds=1)
        output.result("matched", cluster)
        output.run()  # the new destination's files are written first
        export_files(BUCKET, "acme", "erp/in", loaded[0])
        return output.deliver(attempt)

    output.run(work=supersede)
    exported = json.loads(s3.text(f"exports/acme/erp/in/clusters/{cluster}.json"))
    assert exported["data"]["outcome"] == "matched"


def test_repeated_delivery_writes_the_same_files(output: OutputHarness, s3: S3):
    cluster = output.result()
    output.run()
    output.admin.execute("UPDATE output_job SET status = 'pending'")
    before = s3.text(f"exports/acme/erp/in/clusters/{cluster}.json")
    output.run()
    assert output.job()["status"] == "succeeded"
    assert s3.text(f"exports/acme/erp/in/clusters/{cluster}.json") == before


def test_missing_file_without_list_permission_is_written(output: OutputHarness, s3: S3):
    s3.refuse["head"] = refusal("403", 403)
    output.result()
    output.run()
    assert (output.job()["status"], len(s3.keys())) == ("succeeded", 2)


@pytest.mark.parametrize("call", ["head", "put"])
def test_export_is_retried_after_an_s3_outage(call: str, output: OutputHarness, s3: S3):
    s3.refuse[call] = refusal("SlowDown", 503)
    output.result()
    output.run()
    assert (output.job()["status"], output.job()["attempts"]) == ("pending", 1)
    s3.refuse.clear()
    output.clock.advance(minutes=5)
    output.run(receives=2)
    assert output.job()["status"] == "succeeded"


def test_denied_export_is_dead_lettered(output: OutputHarness, s3: S3):
    s3.refuse["put"] = refusal("AccessDenied", 403)
    output.result()
    output.run()
    assert output.job()["status"] == "failed"
    assert [dead_letter["dlq_reason"] for dead_letter in rows(output.admin, "dead_letter")] == ["non_retriable_error"]


def test_error_names_missing_bucket_setting(output: OutputHarness):
    output.dependencies = OutputDependencies(output.dependencies.breakers, None, None)
    output.result()
    output.run()
    assert output.job()["error"].startswith("UPLOADS_BUCKET is not set")
