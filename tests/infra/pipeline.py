"""Find resources of the worker table's rows in the pipeline's template."""

from collections.abc import Sequence
from typing import Any

import pytest

from infra.worker_table import WORKERS, Trigger, WorkerSpec, mappings
from tests.infra.synthesis import Template

rows = pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.name)
BUCKET = "counterfoil-uploads-AWS::AccountId-AWS::Region"


def function_of(template: Template, row: WorkerSpec) -> dict[str, Any]:
    return template.named_resource("AWS::Lambda::Function", row.resource_name)


def environment_of(template: Template, row: WorkerSpec) -> dict[str, str]:
    resolved: dict[str, str] = template.resolve(function_of(template, row)["Environment"]["Variables"])
    return resolved


def queues_feeding(row: WorkerSpec) -> set[str]:
    if row.trigger is Trigger.DEAD_LETTER_QUEUES:
        return {f"{source.resource_name}-dlq" for source in mappings(WORKERS, row)}
    return set(queues_of(mappings(WORKERS, row)))


def queues_of(workers: Sequence[WorkerSpec]) -> list[str]:
    """Return the queues of these workers, each followed by its retry queue."""
    suffixes = {row.name: ("", "-retry") if row.has_retry_queue else ("",) for row in workers}
    return [f"{row.resource_name}{suffix}" for row in workers for suffix in suffixes[row.name]]


def mappings_of_queues(template: Template) -> dict[str, str]:
    """Return each mapping's logical id by queue name, without dead-letter queues."""
    ids = {
        template.resolve(mapping["EventSourceArn"]): id_
        for id_, mapping in template.resources("AWS::Lambda::EventSourceMapping").items()
    }
    return {name: id_ for name, id_ in ids.items() if not name.endswith("-dlq")}
