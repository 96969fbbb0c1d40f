"""A function's process is killed in the middle of its work; nothing is lost, and nothing is done twice.

The message of killed work comes back when its visibility ends, after five minutes at the least. The tests do not wait
for that: they purge the queue, which loses the message as well, and the watchdog has to notice.
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
from tests.e2e.chaos import watched
from tests.e2e.waiting import until
from tools.demo.sample_run import Run

pytestmark = pytest.mark.e2e

WAITING_WORKERS = """
SELECT pid FROM pg_stat_activity WHERE usename = 'counterfoil_worker' AND wait_event_type = 'Lock'
"""


@contextmanager
def told(cloud: Cloud, worker: str, **settings: str) -> Iterator[None]:
    """A worker with other settings, for as long as the block takes."""
    functions = cloud.client("lambda")
    name = cloud.outputs[f"{worker.capitalize()}FunctionName"]
    before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": {**before, **settings}})
    try:
        yield
    finally:
        functions.update_function_configuration(FunctionName=name, Environment={"Variables": before})


def kill(cloud: Cloud, worker: str) -> int:
    """End every process of a worker at once, as the system does when memory runs out. Returns how many there were."""
    killed = 0
    for process in processes.belonging_to(cloud.place.folder):
        with suppress(psutil.NoSuchProcess):  # it ended after it was listed
            if any(f"-counterfoil-{worker}-" in part for part in process.cmdline()[1:]):
                process.kill()
                psutil.wait_procs([process], timeout=5)
                killed += 1
    return killed


@contextmanager
def paused(cloud: Cloud, worker: str) -> Iterator[None]:
    """A worker whose queue is not polled during the block."""
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
    with paused(cloud, "acquisition"):
        list(upload(cloud, tenant, paths))
        sqs, queue = cloud.client("sqs"), cloud.outputs["AcquisitionQueueUrl"]
        until(lambda: depth(cloud, queue) >= len(paths))
        sqs.purge_queue(QueueUrl=queue)
    assert list(uploads.of_tenant(cloud, tenant)) == []

    with told(cloud, "watchdog", WATCHDOG_UPLOAD_AFTER_SECONDS="1", WATCHDOG_UNSENT_AFTER_SECONDS="1"):

        def acquired() -> list[Upload]:
            admin.execute("DELETE FROM upload_listing")  # a scheduled run may have listed with the default settings
            cloud.client("lambda").invoke(FunctionName=cloud.outputs["WatchdogFunctionName"], Payload="{}")
            return [one for one in uploads.of_tenant(cloud, tenant) if one.state.is_final]

        found = until(lambda: done if len(done := acquired()) == len(paths) else [])
    assert {outcome.state for outcome in found} == {State.SUCCEEDED}


def depth(cloud: Cloud, queue: str) -> int:
    """Messages in a queue."""
    names = ["ApproximateNumberOfMessages"]
    answer = cloud.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=names)
    return int(answer["Attributes"][names[0]])


def test_work_whose_process_is_killed_and_whose_message_is_lost_is_done_by_another(
    cloud: Cloud, run: Run, tenant: Tenant, admin: Connection, tmp_path: Path
):
    file = next(file for file in run.sample.files if file.truth.type == "invoice" and file.truth.state == "succeeded")
    path = tmp_path / file.name
    path.write_bytes(file.content)
    with (
        told(cloud, "ingestion", LEASE_SECONDS="2", HEARTBEAT_SECONDS="0.5"),
        told(cloud, "watchdog", WATCHDOG_RESEND_AFTER_SECONDS="1", WATCHDOG_UNSENT_AFTER_SECONDS="1"),
    ):
        with psycopg.connect(cloud.database_url("postgres")) as blocker:
            with paused(cloud, "ingestion"):
                list(upload(cloud, tenant, [path]))
                until(lambda: [one for one in uploads.of_tenant(cloud, tenant) if one.stage is Stage.INGESTION])
                blocker.execute("LOCK TABLE document IN SHARE ROW EXCLUSIVE MODE")
            # The attempt has begun and has read the file; what it read it cannot write.
            until(lambda: admin.execute(WAITING_WORKERS).fetchall())
            with paused(cloud, "ingestion"):
                assert kill(cloud, "ingestion")
                cloud.client("sqs").purge_queue(QueueUrl=cloud.outputs["IngestionQueueUrl"])

        with watched(cloud):
            (outcome,) = until(lambda: [one for one in uploads.of_tenant(cloud, tenant) if one.state.is_final])
    assert outcome.state is State.SUCCEEDED
    attempts = admin.execute("SELECT attempts FROM ingestion_job WHERE tenant_id = %s", [tenant.id]).fetchall()
    assert attempts == [(2,)]
    assert admin.execute("SELECT count(*) FROM dead_letter WHERE tenant_id = %s", [tenant.id]).fetchone() == (0,)
