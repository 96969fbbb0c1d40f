"""Requests with unknown query parameters are rejected."""

from collections.abc import Mapping
from typing import Any

import pytest

from counterfoil.db import Connection, Database
from functions.admin_api.handler import document
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import CallApi
from tests.functions.admin_api.permissions import (
    PERMISSIONS,
    World,
    method_and_path,
    operations_by_route,
    set_up_environment,
)

OPERATIONS = operations_by_route(document())
MISSPELLED = {"tenent": "acme"}


@pytest.fixture
def world(call_api: CallApi, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> World:
    """A tenant with a resource of each kind."""
    set_up_environment(monkeypatch)
    return World(database, admin, "acme")


def test_unknown_parameter_is_rejected_by_every_route(call_api: CallApi, world: World) -> None:
    wrong = []
    for operation in OPERATIONS:
        (method, _), right = method_and_path(operation), PERMISSIONS[operation]
        request = right.request(world.resources())
        misspelled, valid = (
            call_api(
                request.body,
                method=method,
                path=request.path,
                query={**request.query, **more},
                groups="[admin tenant:*]",
                headers={"if-match": f'"{request.version}"'},
            )
            for more in (MISSPELLED, {})
        )
        named = (misspelled.status, "'tenent'" in misspelled.text) == (422, True)
        if not named or valid.status not in right.statuses:  # the rejected request left the resource at version 1
            wrong.append((operation, misspelled.status, valid.status))

    assert wrong == []


def test_dry_run_in_query_starts_no_operation(call_api: CallApi, world: World, admin: Connection) -> None:
    dead_letter = world.resources().dead_letter
    before = rows(admin, "operation")

    response = call_api(
        {"job_ids": [dead_letter]},
        path="/api/admin/dlq/bulk-retry",
        query={"dry_run": "true"},
        groups="[admin tenant:*]",
    )

    assert (response.status, response.body["detail"]) == (422, "Unknown query parameter: 'dry_run'.")
    assert rows(admin, "operation") == before


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_every_operation_describes_422(operation: Mapping[str, Any]) -> None:
    assert "422" in operation["responses"]


def test_no_parameter_is_described_as_null() -> None:
    schemas = [parameter["schema"] for spec in OPERATIONS.values() for parameter in spec.get("parameters", ())]

    assert {"type": "string", "format": "date"} in [form for schema in schemas for form in schema.get("anyOf", ())]
    assert not [schema for schema in schemas if {"type": "null"} in schema.get("anyOf", ())]
