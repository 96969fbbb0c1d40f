"""Sets the stage for a replay on the local cloud, and puts everything back, however the replay ends.

Nothing of it could touch a real account: settings are those of the local cloud's own emulator, and a queue anywhere
else is refused.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cli.failures import CommandError
from cli.local import processes
from cli.local.cloud import Cloud
from counterfoil.aws import errors_mapped

WORKER = "ingestion"
_DEPLOYED_TIMES = 6
"""A deployed queue hides a message for at least this many time-outs of its function."""


@dataclass(frozen=True)
class Way:
    """One of the two ways to bound how much is worked on at once."""

    name: str
    batch_size: int
    maximum_concurrency: int
    """Of the mapping: batches at once."""
    invocations: int
    """Of the function at once, as its reserved concurrency bounds them."""
    permits: int
    """Records at once inside an invocation."""


def ways(gate: int) -> tuple[Way, Way]:
    """One record for each of `gate` invocations; and ten records for one invocation with `gate` permits.

    No mapping takes a MaximumConcurrency of 1. The emulator's poller, unlike AWS's, asks no queue for more than the
    function has room for, so here its reserved concurrency can hold it to one invocation.
    """
    return (
        Way("one message for each invocation", 1, gate, gate, 1),
        Way("ten messages for one invocation", 10, 2, 1, gate),
    )


@contextmanager
def staged(cloud: Cloud, way: Way, s3_endpoint: str) -> Iterator[None]:
    """Ingestion in this way, with another endpoint for S3, during the block.

    Raises:
        CommandError: its queue is not empty, or not the local cloud's.
    """
    _check_idle(cloud)
    with _mapped(cloud, way), _configured(cloud, way, s3_endpoint):
        yield


def queue_url(cloud: Cloud) -> str:
    """The URL of ingestion's queue.

    Raises:
        CommandError: it is not the local cloud's: its visibility must stay as it was deployed.
    """
    url = cloud.outputs["IngestionQueueUrl"]
    if not url.startswith(f"{cloud.state.emulator.endpoint}/"):
        raise CommandError("The queue is not one of the local cloud; a replay changes no other's visibility.")
    return url


def _check_idle(cloud: Cloud) -> None:
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    with errors_mapped():
        found = cloud.client("sqs").get_queue_attributes(QueueUrl=queue_url(cloud), AttributeNames=names)["Attributes"]
    if any(int(number) for number in found.values()):
        raise CommandError("There is work in the ingestion queue: wait until 'counterfoil status' shows none.")


@contextmanager
def _mapped(cloud: Cloud, way: Way) -> Iterator[None]:
    functions, mapping = cloud.client("lambda"), cloud.outputs["IngestionMappingId"]
    with errors_mapped():
        before = functions.get_event_source_mapping(UUID=mapping)

    def change(batch_size: int, scaling: dict[str, int]) -> None:
        with errors_mapped():
            functions.update_event_source_mapping(UUID=mapping, BatchSize=batch_size, ScalingConfig=scaling)

    try:
        change(way.batch_size, {"MaximumConcurrency": way.maximum_concurrency})
        yield
    finally:
        with processes.uninterrupted():
            change(before["BatchSize"], before["ScalingConfig"])


@contextmanager
def _configured(cloud: Cloud, way: Way, s3_endpoint: str) -> Iterator[None]:
    functions, name = cloud.client("lambda"), cloud.outputs["IngestionFunctionName"]
    with errors_mapped():
        before: dict[str, str] = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        reserved = functions.get_function_concurrency(FunctionName=name).get("ReservedConcurrentExecutions")
    worker = json.dumps({**json.loads(before["WORKER"]), "permits": way.permits})
    staged_ = {**before, "WORKER": worker, "AWS_ENDPOINT_URL_S3": s3_endpoint}

    def change(environment: dict[str, str], concurrency: int | None) -> None:
        with errors_mapped():
            functions.update_function_configuration(FunctionName=name, Environment={"Variables": environment})
            if concurrency is None:  # as the emulator has it after a deployment
                functions.delete_function_concurrency(FunctionName=name)
            else:
                functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=concurrency)

    try:
        change(staged_, way.invocations)
        yield
    finally:
        with processes.uninterrupted():
            change(before, reserved)


@contextmanager
def lowered(cloud: Cloud, visibility: int) -> Iterator[None]:
    """Ingestion's queue with this visibility, in seconds, during the block.

    Raises:
        CommandError: it is not the local cloud's, or was not deployed with a visibility that loses nothing.
    """
    sqs, url = cloud.client("sqs"), queue_url(cloud)
    name = cloud.outputs["IngestionFunctionName"]
    with errors_mapped():
        deployed = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
        timeout = cloud.client("lambda").get_function_configuration(FunctionName=name)["Timeout"]
    if int(deployed["VisibilityTimeout"]) < _DEPLOYED_TIMES * timeout:
        raise CommandError("The queue's visibility is not as it is deployed: run 'counterfoil down', then 'up'.")
    try:
        with errors_mapped():
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": str(visibility)})
        yield
    finally:
        with processes.uninterrupted(), errors_mapped():
            sqs.set_queue_attributes(QueueUrl=url, Attributes=deployed)
