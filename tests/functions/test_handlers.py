"""Each worker's handler processes a sample event if called as Lambda calls it."""

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from botocore.exceptions import ClientError

from counterfoil import aws
from counterfoil.db import Connection
from counterfoil.settings import settings
from infra.worker_table import WORKERS, WorkerSpec, mappings, targets
from tests.delivery.harness import Context, FakeSqs, rows

EVENTS = Path(__file__).parent.parent / "events"
ROOT = EVENTS.parent.parent
CACHED = ("consumer", "database", "function", "watchdog")


def read_event(name: str) -> Any:
    return json.loads((EVENTS / f"{name}.json").read_text())


@pytest.fixture
def s3() -> Mock:
    """Fake S3 without objects."""
    missing = {"Error": {"Code": "NoSuchKey"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
    return Mock(
        get_object=Mock(side_effect=ClientError(missing, "GetObject")),  # type: ignore[arg-type]
        list_object_versions=Mock(return_value={"IsTruncated": False}),
    )


@pytest.fixture
def handler(
    monkeypatch: pytest.MonkeyPatch, postgres: Any, migrated_database: str, sqs: FakeSqs, s3: Mock
) -> Iterator[Callable[[WorkerSpec], ModuleType]]:
    """`handler(row)` imports a worker's handler with its environment.

    The environment comes from the worker table.
    """
    modules: list[ModuleType] = []

    def make(row: WorkerSpec) -> ModuleType:
        user = "postgres" if row.database_user == "master" else row.database_user
        worker = {"name": row.name, "timeout": row.timeout, "permits": row.permits, "start_margin": row.start_margin}
        sources = {
            f"arn:aws:sqs:eu-central-1:000000000000:{source_worker.resource_name}-dlq": source_worker.name
            for source_worker in mappings(WORKERS, row)
        }
        monkeypatch.setenv("WORKER", json.dumps(worker))
        monkeypatch.setenv(
            "QUEUE_URLS",
            json.dumps({target_worker.name: target_worker.resource_name for target_worker in targets(WORKERS, row)}),
        )
        monkeypatch.setenv("DEAD_LETTER_SOURCES", json.dumps(sources))
        if row.uses_bucket:
            monkeypatch.setenv("UPLOADS_BUCKET", "counterfoil-uploads")
        monkeypatch.setenv("DATABASE_URL", postgres.url(migrated_database, user))
        monkeypatch.setattr(aws, "client", lambda service: {"sqs": sqs, "s3": s3}[service])
        settings.cache_clear()
        module = importlib.import_module(f"functions.{row.name}.handler")
        modules.append(module)
        return module

    yield make
    for module in modules:
        for name in CACHED:
            if hasattr(module, name):
                getattr(module, name).cache_clear()
    settings.cache_clear()


@pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.name)
def test_handler_processes_a_sample_event(
    row: WorkerSpec, handler: Callable[[WorkerSpec], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    batch_response = handler(row).handle(read_event(row.name), Context())

    if row.has_event_source_mapping:
        assert batch_response == {"batchItemFailures": []}
    else:
        assert isinstance(batch_response, dict)


def test_missing_upload_becomes_tenants_dead_letter(
    handler: Callable[[WorkerSpec], ModuleType], admin: Connection, make_tenant: Callable[..., UUID], s3: Mock
) -> None:
    tenant_id = make_tenant("acme")
    acquisition = next(row for row in WORKERS if row.name == "acquisition")

    handler(acquisition).handle(read_event("acquisition"), Context())

    (job,) = rows(admin, "acquisition_job")
    assert (job["tenant_id"], job["status"]) == (str(tenant_id), "failed")
    assert job["key"].endswith("/Rechnung Müller €.xml")
    assert s3.get_object.call_args.kwargs["VersionId"] == job["version"]
    assert len(rows(admin, "dead_letter")) == 1


def test_s3_test_event_creates_no_rows(handler: Callable[[WorkerSpec], ModuleType], admin: Connection) -> None:
    acquisition = next(row for row in WORKERS if row.name == "acquisition")

    batch_response = handler(acquisition).handle(read_event("s3_test_event"), Context())

    assert batch_response == {"batchItemFailures": []}
    assert rows(admin, "acquisition_job") == []
    assert rows(admin, "dead_letter") == []


@pytest.mark.parametrize("row", [row for row in WORKERS if row.has_queue], ids=lambda row: row.name)
def test_unavailable_database_retains_every_message(
    row: WorkerSpec, handler: Callable[[WorkerSpec], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = handler(row)
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nowhere")
    monkeypatch.setattr("counterfoil.db.CONNECT_SECONDS", 0.2)
    settings.cache_clear()

    batch_response = module.handle(read_event(row.name), Context())

    retained_id = [failure["itemIdentifier"] for failure in batch_response["batchItemFailures"]]
    assert retained_id == [record["messageId"] for record in read_event(row.name)["Records"]]
