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
    SampleTenant,
    method_and_path,
    operations_by_route,
    set_up_environment,
)

OPERATIONS = operations_by_route(document())
MISSPELLED = {"tenent": "acme"}


@pytest.fixture
def sample_tenant(
    call_api: CallApi, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> SampleTenant:
    """A tenant with a resource of each kind."""
    set_up_environment(monkeypatch)
    return SampleTenant(database, admin, "acme")


def test_unknown_parameter_is_rejected_by_every_route(call_api: CallApi, sample_tenant: SampleTenant) -> None:
    mismatches = []
    for operation in OPERATIONS:
        (method, _), permission = method_and_path(operation), PERMISSIONS[operation]
        request = permission.request(sample_tenant.resources())
        misspelled, valid = (
            call_api(
                request.body,
                method=method,
                path=request.path,
                query={**request.query, **parameters},
                groups="[admin tenant:*]",
                headers={"if-match": f'"{request.version}"'},
            )
            for parameters in (MISSPELLED, {})
        )
        is_reported = (misspelled.status, "'tenent'" in misspelled.text) == (422, True)
        if (
            not is_reported or valid.status not in permission.statuses
        ):  # the rejected request left the resource at version 1
            mismatches.append((operation, misspelled.status, valid.status))

    assert mismatches == []


def test_dry_run_in_query_starts_no_operation(
    call_api: CallApi, sample_tenant: SampleTenant, admin: Connection
) -> None:
    dead_letter = sample_tenant.resources().dead_letter
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
