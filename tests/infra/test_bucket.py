"""The uploads bucket: notifications, protection, lifecycle rules and retention."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from counterfoil import tenant_erasure
from counterfoil.dead_letters import export
from infra.packaging import Package
from infra.worker_table import ALL_PREFIXES, SOURCE_PREFIXES, WORKERS, Trigger
from tests.infra.pipeline import BUCKET
from tests.infra.synthesis import Template, synthesize


def rules(template: Template) -> dict[str, dict[str, Any]]:
    """Return lifecycle rules by id."""
    return {rule["Id"]: rule for rule in template.only_resource("AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"]}


def test_new_object_sends_message_to_worker_queue(pipeline: Template):
    (row,) = [row for row in WORKERS if row.trigger is Trigger.S3_EVENTS]
    bucket = pipeline.only_resource("AWS::S3::Bucket")
    notifications = bucket["NotificationConfiguration"]["QueueConfigurations"]

    for notification, prefix in zip(notifications, ("uploads/", "inbox/"), strict=True):
        assert notification["Event"] == "s3:ObjectCreated:*"
        assert pipeline.resolve(notification["Queue"]) == row.resource_name
        assert notification["Filter"] == {"S3Key": {"Rules": [{"Name": "prefix", "Value": prefix}]}}
    policies = {
        id_: policy
        for id_, policy in pipeline.resources("AWS::SQS::QueuePolicy").items()
        if pipeline.resolve(policy["Queues"]) == [pipeline.id_of("AWS::SQS::Queue", row.resource_name)]
        or pipeline.resolve(policy["Queues"]) == [row.resource_name]
    }
    ((id_, policy),) = policies.items()
    (bucket_id,) = pipeline.resources("AWS::S3::Bucket")
    assert id_ in pipeline.document["Resources"][bucket_id]["DependsOn"]
    (allowed,) = [s for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Allow"]
    assert allowed["Principal"] == {"Service": "s3.amazonaws.com"}
    assert allowed["Action"] == "sqs:SendMessage"
    assert pipeline.resolve(allowed["Condition"]) == {
        "ArnEquals": {"aws:SourceArn": f"arn:AWS::Partition:s3:::{BUCKET}"},
        "StringEquals": {"aws:SourceAccount": "AWS::AccountId"},
    }


def test_bucket_is_versioned_encrypted_private_and_retained(pipeline: Template):
    (resource,) = [r for r in pipeline.document["Resources"].values() if r["Type"] == "AWS::S3::Bucket"]
    bucket = resource["Properties"]

    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["BucketEncryption"]
    assert all(bucket["PublicAccessBlockConfiguration"].values())
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert resource["DeletionPolicy"] == "Retain"


def test_task_payloads_expire_only_after_deletion(pipeline: Template):
    rule = rules(pipeline)["payloads-of-tasks"]

    assert rule == {
        "Id": "payloads-of-tasks",
        "Prefix": "tasks/",
        "Status": "Enabled",
        "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
        "ExpiredObjectDeleteMarker": True,
    }
    assert [row.name for row in WORKERS if "tasks/" in row.removes] == ["watchdog"]


def test_dead_letter_exports_expire_after_a_week(pipeline: Template):
    rule = rules(pipeline)["exports-of-dead-letters"]

    assert rule == {
        "Id": "exports-of-dead-letters",
        "Prefix": export.PREFIX,
        "Status": "Enabled",
        "ExpirationInDays": export.RETENTION.days,
        "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2},
    }
    assert timedelta(days=2) > export.WRITE_TIMEOUT
    (bulk,) = [row for row in WORKERS if export.PREFIX in row.writes]
    assert bulk.name == "bulk"
    assert bulk.timeout < export.LEASE.total_seconds()
    assert [row.name for row in WORKERS if export.PREFIX in row.reads] == ["admin_api"]


def test_every_prefix_expires_noncurrent_versions(pipeline: Template):
    by_prefix = {rule["Prefix"]: rule for rule in rules(pipeline).values()}

    assert by_prefix.keys() == set(ALL_PREFIXES)
    for prefix, rule in by_prefix.items():
        days = 30 if prefix in SOURCE_PREFIXES else 1
        assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": days}
        assert rule.get("ExpiredObjectDeleteMarker", False) != ("ExpirationInDays" in rule)
        assert ("ExpirationInDays" in rule) == (prefix == export.PREFIX)


def test_deployment_overrides_the_retention(dependencies: Package, tmp_path: Path):
    context = {"retention": '{"uploads/": 3650, "noncurrent": 7}'}
    found = rules(synthesize(tmp_path, context, dependencies).app)

    assert found["files-in-uploads"]["ExpirationInDays"] == 3650
    assert "ExpiredObjectDeleteMarker" not in found["files-in-uploads"]
    assert found["files-in-inbox"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 7}
    assert "ExpirationInDays" not in found["files-in-inbox"]


def test_tenant_erasure_covers_every_prefix():
    of_tenants = {f"{prefix.partition('/')[0]}/" for prefix in tenant_erasure.PREFIXES}

    assert of_tenants | {"inbox/"} == set(ALL_PREFIXES)
    assert [row.name for row in WORKERS if row.erases] == ["watchdog"]
