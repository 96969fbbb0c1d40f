"""S3 Inventory of the uploads bucket is opt-in and readable only by the watchdog."""

from pathlib import Path
from typing import Any

import pytest

from functions.watchdog.inventory import COLUMNS
from infra.packaging import Package
from infra.worker_table import NOTIFIED_PREFIXES
from tests.infra.synthesis import Synthesis, Template, synthesize


@pytest.fixture(scope="module")
def template(dependencies: Package, tmp_path_factory: pytest.TempPathFactory) -> Template:
    folder: Path = tmp_path_factory.mktemp("inventory")
    return synthesize(folder, {"inventory": "true"}, dependencies).app


def buckets(template: Template) -> tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]:
    """Return the uploads bucket and the inventory bucket, with their logical ids."""
    found = template.resources("AWS::S3::Bucket")
    (uploads,) = [item for item in found.items() if "InventoryConfigurations" in item[1]]
    (inventory,) = [item for item in found.items() if item != uploads]
    return uploads, inventory


def test_notified_prefixes_have_daily_inventories_of_all_versions(template: Template):
    (_, uploads), (inventory_id, _) = buckets(template)
    found = uploads["InventoryConfigurations"]

    assert [one["Prefix"] for one in found] == list(NOTIFIED_PREFIXES)
    for one in found:
        assert one["Id"] == one["Prefix"].rstrip("/")
        assert one["Enabled"] is True
        assert one["IncludedObjectVersions"] == "All"
        assert one["ScheduleFrequency"] == "Daily"
        assert one["Destination"]["Format"] == "CSV"
        assert "Prefix" not in one["Destination"]
        assert inventory_id in str(one["Destination"]["BucketArn"])
        # S3 always writes Key. When it lists all versions, it also writes VersionId and IsDeleteMarker.
        assert set(one["OptionalFields"]) == COLUMNS - {"Key", "VersionId", "IsDeleteMarker"}


def test_inventory_bucket_is_private_and_expires_objects(template: Template):
    _, (_, bucket) = buckets(template)

    assert bucket["BucketEncryption"]
    assert all(bucket["PublicAccessBlockConfiguration"].values())
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert rule["ExpirationInDays"] == 7
    assert rule["Status"] == "Enabled"
    assert "Prefix" not in rule


def test_only_s3_may_write_upload_inventories(template: Template):
    (uploads_id, _), (inventory_id, _) = buckets(template)
    (policy,) = [
        policy
        for policy in template.resources("AWS::S3::BucketPolicy").values()
        if policy["Bucket"] == {"Ref": inventory_id}
    ]
    allowed = [s for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Allow"]

    assert allowed
    for statement in allowed:
        assert statement["Principal"] == {"Service": "s3.amazonaws.com"}
        assert statement["Action"] == "s3:PutObject"
        assert statement["Condition"]["ArnLike"]["aws:SourceArn"] == {"Fn::GetAtt": [uploads_id, "Arn"]}


def test_only_the_watchdog_reads_inventories(template: Template):
    _, (inventory_id, _) = buckets(template)
    reading = {
        name: [s for s in policy["PolicyDocument"]["Statement"] if inventory_id in str(s["Resource"])]
        for role in template.resources("AWS::IAM::Role").values()
        for policy in role.get("Policies", ())
        for name in [role.get("Description", "")]
    }
    granted = {name: found for name, found in reading.items() if found}
    functions = template.resources("AWS::Lambda::Function").values()

    assert list(granted) == ["Worker watchdog"]
    assert [s["Action"] for s in granted["Worker watchdog"]] == ["s3:ListBucket", "s3:GetObject"]
    configured = [f["FunctionName"] for f in functions if "INVENTORY_BUCKET" in str(f.get("Environment"))]
    assert configured == ["counterfoil-watchdog"]


def test_upload_listing_threshold_allows_for_daily_inventories(template: Template, aws: Synthesis):
    def threshold(of: Template) -> float:
        (alarm,) = [
            alarm
            for alarm in of.resources("AWS::CloudWatch::Alarm").values()
            if alarm["AlarmName"] == "counterfoil-upload-listing"
        ]
        return float(alarm["Threshold"])

    assert threshold(template) == 3 * 86_400
    assert threshold(aws.app) == 86_400


def test_inventory_is_off_by_default(aws: Synthesis):
    assert "InventoryConfigurations" not in aws.app.only_resource("AWS::S3::Bucket")
