"""S3 Inventory of the uploads bucket, which a deployment of a large bucket turns on."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.workers import ANNOUNCED

INVENTORY_DAYS = 7
"""Retention of inventories. Reading a large one can take more than a day."""
INVENTORY_THRESHOLDS = {"upload-listing": 3 * 86_400}
"""S3 delivers the first inventory within 48 hours, and the next ones daily."""


def inventory_of(scope: Construct, uploads: s3.Bucket) -> s3.Bucket:
    """Create the bucket of inventories, and a daily inventory of each announced prefix of `uploads`."""
    bucket = s3.Bucket(
        scope,
        "Inventory",
        encryption=s3.BucketEncryption.S3_MANAGED,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        enforce_ssl=True,
        removal_policy=RemovalPolicy.RETAIN,
        lifecycle_rules=[
            s3.LifecycleRule(
                id="inventories",
                expiration=Duration.days(INVENTORY_DAYS),
                abort_incomplete_multipart_upload_after=Duration.days(2),
            )
        ],
    )
    for prefix in ANNOUNCED:
        uploads.add_inventory(
            destination=s3.InventoryDestination(bucket=bucket),
            inventory_id=prefix.rstrip("/"),
            objects_prefix=prefix,
            frequency=s3.InventoryFrequency.DAILY,
            format=s3.InventoryFormat.CSV,
            include_object_versions=s3.InventoryObjectVersion.ALL,
            optional_fields=["Size", "LastModifiedDate"],
        )
    return bucket
