"""Changes the local cloud's settings for a replay, and always restores them.

A replay changes only the local cloud's emulator, never an AWS account. It rejects queues outside the local cloud.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cli.failures import CommandError
from cli.local import processes
from cli.local.cloud import Cloud
from counterfoil.aws import translate_errors

WORKER = "ingestion"
_MIN_TIMEOUT_RATIO = 6
"""Minimum ratio of a deployed queue's visibility timeout to its function's timeout."""


@dataclass(frozen=True)
class ReplayMode:
    """A way to limit concurrent work."""

    name: str
    batch_size: int
    maximum_concurrency: int
    """Maximum number of concurrent batches of the event source mapping."""
    invocations: int
    """Maximum number of concurrent invocations: the function's reserved concurrency."""
    permits: int
    """Maximum number of concurrent records in one invocation."""


def replay_modes(concurrency_limit: int) -> tuple[ReplayMode, ReplayMode]:
    """Return both modes: one record per invocation, and ten in one invocation.

    An event source mapping's MaximumConcurrency is at least 2. The reserved concurrency therefore limits the second
    mode to one invocation, because the emulator's poller, unlike AWS, receives no more messages than the function has
    capacity for.
    """
    return (
        ReplayMode("one message for each invocation", 1, concurrency_limit, concurrency_limit, 1),
        ReplayMode("ten messages for one invocation", 10, 2, 1, concurrency_limit),
    )


@contextmanager
def replay_environment(cloud: Cloud, mode: ReplayMode, s3_endpoint: str) -> Iterator[None]:
    """Configure ingestion for this mode and another S3 endpoint.

    Raises:
        CommandError: the ingestion queue is not empty, or not in the local cloud.
    """
    _check_idle(cloud)
    with _change_mapping(cloud, mode), _change_function(cloud, mode, s3_endpoint):
        yield


def queue_url(cloud: Cloud) -> str:
    """Return the URL of the ingestion queue.

    Raises:
        CommandError: the queue is not in the local cloud, so its visibility timeout must not change.
    """
    url = cloud.outputs["IngestionQueueUrl"]
    if not url.startswith(f"{cloud.state.emulator.endpoint}/"):
        raise CommandError("The queue is not in the local cloud. A replay cannot change other queues.")
    return url


def _check_idle(cloud: Cloud) -> None:
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    with translate_errors():
        attributes = cloud.client("sqs").get_queue_attributes(QueueUrl=queue_url(cloud), AttributeNames=names)[
            "Attributes"
        ]
    if any(int(number) for number in attributes.values()):
        raise CommandError("The ingestion queue is not empty. Wait until 'counterfoil status' shows no pending work.")


@contextmanager
def _change_mapping(cloud: Cloud, mode: ReplayMode) -> Iterator[None]:
    functions, mapping = cloud.client("lambda"), cloud.outputs["IngestionMappingId"]
    with translate_errors():
        original = functions.get_event_source_mapping(UUID=mapping)

    def change(batch_size: int, scaling: dict[str, int]) -> None:
        with translate_errors():
            functions.update_event_source_mapping(UUID=mapping, BatchSize=batch_size, ScalingConfig=scaling)

    try:
        change(mode.batch_size, {"MaximumConcurrency": mode.maximum_concurrency})
        yield
    finally:
        with processes.ignore_interrupts():
            change(original["BatchSize"], original["ScalingConfig"])


@contextmanager
def _change_function(cloud: Cloud, mode: ReplayMode, s3_endpoint: str) -> Iterator[None]:
    functions, name = cloud.client("lambda"), cloud.outputs["IngestionFunctionName"]
    with translate_errors():
        original: dict[str, str] = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        reserved = functions.get_function_concurrency(FunctionName=name).get("ReservedConcurrentExecutions")
    worker = json.dumps({**json.loads(original["WORKER"]), "permits": mode.permits})
    modified = {**original, "WORKER": worker, "AWS_ENDPOINT_URL_S3": s3_endpoint}

    def change(environment: dict[str, str], concurrency: int | None) -> None:
        with translate_errors():
            functions.update_function_configuration(FunctionName=name, Environment={"Variables": environment})
            if concurrency is None:  # as after a deployment to the emulator
                functions.delete_function_concurrency(FunctionName=name)
            else:
                functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=concurrency)

    try:
        change(modified, mode.invocations)
        yield
    finally:
        with processes.ignore_interrupts():
            change(original, reserved)


@contextmanager
def lower_visibility(cloud: Cloud, visibility: int) -> Iterator[None]:
    """Lower the ingestion queue's visibility timeout to `visibility` seconds.

    Raises:
        CommandError: the queue is not in the local cloud, or its current visibility timeout is too short.
    """
    sqs, url = cloud.client("sqs"), queue_url(cloud)
    name = cloud.outputs["IngestionFunctionName"]
    with translate_errors():
        original = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
        timeout = cloud.client("lambda").get_function_configuration(FunctionName=name)["Timeout"]
    if int(original["VisibilityTimeout"]) < _MIN_TIMEOUT_RATIO * timeout:
        raise CommandError("The queue's visibility timeout is too short. Run 'counterfoil down', then 'up'.")
    try:
        with translate_errors():
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": str(visibility)})
        yield
    finally:
        with processes.ignore_interrupts(), translate_errors():
            sqs.set_queue_attributes(QueueUrl=url, Attributes=original)
