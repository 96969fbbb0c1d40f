"""A killed process's work items are completed exactly once.

SQS redelivers a killed process's message after the visibility timeout of at least five minutes. Instead of waiting, the
tests purge the queue, so the message is lost and the watchdog must resend it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from cli.local import processes, uploads
from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from cli.local.uploads import upload
from counterfoil.db import Connection
from counterfoil.documents.upload_list import Stage, State, Upload
from tests.e2e.chaos import watchdog_running
from tests.e2e.polling import wait_until
from tools.demo.sample_run import Run

pytestmark = pytest.mark.e2e

WAITING_WORKERS = """
SELECT pid FROM pg_stat_activity WHERE usename = 'counterfoil_worker' AND wait_event_type = 'Lock'
"""


@contextmanager
def function_settings(cloud: Cloud, worker: str, **settings: str) -> Iterator[None]:
    """Change a worker's settings during the block."""
    functions = cloud.client("lambda")
    name = cloud.outputs[f"{worker.capitalize()}FunctionName"]
    variables_before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    functions.update_function_configuration(
        FunctionName=name, Environment={"Variables": {**variables_before, **settings}}
    )
    try:
        yield
    finally:
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables_before})


def kill(cloud: Cloud, worker: str) -> int:
    """Kill all of a worker's processes, as the OOM killer does. Return their number."""
    count = 0
    for process in processes.find_processes(cloud.paths.folder):
        with suppress(psutil.NoSuchProcess):  # the process ended after it was listed
            if any(f"-counterfoil-{worker}-" in part for part in process.cmdline()[1:]):
                process.kill()
                psutil.wait_procs([process], timeout=5)
                count += 1
    return count


@contextmanager
def paused_mapping(cloud: Cloud, worker: str) -> Iterator[None]:
    """Stop polling a worker's queue during the block."""
    functions, mapping = cloud.client("lambda"), cloud.outputs[f"{worker.capitalize()}MappingId"]
    functions.update_event_source_mapping(UUID=mapping, Enabled=False)
    try:
        yield
    finally:
        functions.update_event_source_mapping(UUID=mapping, Enabled=True)


def test_uploads_without_events_are_acquired(cloud: Cloud, run: Run, tenant: Tenant, admin: Connection, tmp_path: Path):
    files = [file for file in run.sample.files if file.truth.type == "invoice" and file.truth.state == "succeeded"][:3]
    paths = [tmp_path / file.name for file in files]
    for path, file in zip(paths, files, strict=True):
        path.write_bytes(file.content)
    with paused_mapping(cloud, "acquisition"):
        list(upload(cloud, tenant, paths))
        sqs, queue = cloud.client("sqs"), cloud.outputs["AcquisitionQueueUrl"]
        wait_until(lambda: queue_depth(cloud, queue) >= len(paths))
        sqs.purge_queue(QueueUrl=queue)
    assert list(uploads.list_uploads(cloud, tenant)) == []

    with function_settings(cloud, "watchdog", WATCHDOG_UPLOAD_AFTER_SECONDS="1", OUTBOX_OVERDUE_SECONDS="1"):

        def acquired() -> list[Upload]:
            admin.execute("DELETE FROM upload_listing")  # a scheduled run may have written it with the default settings
            cloud.client("lambda").invoke(FunctionName=cloud.outputs["WatchdogFunctionName"], Payload="{}")
            return [item for item in uploads.list_uploads(cloud, tenant) if item.state.is_final]

        outcomes = wait_until(lambda: done if len(done := acquired()) == len(paths) else [])
    assert {outcome.state for outcome in outcomes} == {State.SUCCEEDED}


def queue_depth(cloud: Cloud, queue: str) -> int:
    """Return the number of visible messages in a queue."""
    names = ["ApproximateNumberOfMessages"]
    response = cloud.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=names)
    return int(response["Attributes"][names[0]])


def test_killed_workers_item_with_lost_message_is_completed(
    cloud: Cloud, run: Run, tenant: Tenant, admin: Connection, tmp_path: Path
):
    file = next(file for file in run.sample.files if file.truth.type == "invoice" and file.truth.state == "succeeded")
    path = tmp_path / file.name
    path.write_bytes(file.content)
    with (
        function_settings(cloud, "ingestion", LEASE_SECONDS="2", HEARTBEAT_INTERVAL_SECONDS="0.5"),
        function_settings(cloud, "watchdog", RESEND_AFTER_SECONDS="1", OUTBOX_OVERDUE_SECONDS="1"),
    ):
        with psycopg.connect(cloud.database_url("postgres")) as blocker:
            with paused_mapping(cloud, "ingestion"):
                list(upload(cloud, tenant, [path]))
                wait_until(
                    lambda: [item for item in uploads.list_uploads(cloud, tenant) if item.stage is Stage.INGESTION]
                )
                blocker.execute("LOCK TABLE document IN SHARE ROW EXCLUSIVE MODE")
            # The attempt has read the file, and the lock blocks its write.
            wait_until(lambda: admin.execute(WAITING_WORKERS).fetchall())
            with paused_mapping(cloud, "ingestion"):
                assert kill(cloud, "ingestion")
                cloud.client("sqs").purge_queue(QueueUrl=cloud.outputs["IngestionQueueUrl"])

        with watchdog_running(cloud):
            (outcome,) = wait_until(
                lambda: [item for item in uploads.list_uploads(cloud, tenant) if item.state.is_final]
            )
    assert outcome.state is State.SUCCEEDED
    attempts = admin.execute("SELECT attempts FROM ingestion_job WHERE tenant_id = %s", [tenant.id]).fetchall()
    assert attempts == [(2,)]
    assert admin.execute("SELECT count(*) FROM dead_letter WHERE tenant_id = %s", [tenant.id]).fetchone() == (0,)
