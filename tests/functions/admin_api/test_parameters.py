"""What a request asks for besides its path: whoever misspells a parameter is told, and gets nothing else."""

from collections.abc import Mapping
from typing import Any

import pytest

from counterfoil.db import Connection, Database
from functions.admin_api.handler import document
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import Ask
from tests.functions.admin_api.rights import RIGHTS, World, described, parts, surround

OPERATIONS = described(document())
MISSPELT = {"tenent": "acme"}


@pytest.fixture
def world(ask: Ask, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> World:
    """A tenant with something of everything."""
    surround(monkeypatch)
    return World(database, admin, "acme")


def test_a_parameter_that_no_route_knows_is_named_by_each_and_nothing_is_done(ask: Ask, world: World) -> None:
    wrong = []
    for operation in OPERATIONS:
        (method, _), right = parts(operation), RIGHTS[operation]
        asked = right.ask(world.things())
        misspelt, sound = (
            ask(
                asked.body,
                method=method,
                path=asked.path,
                query={**asked.query, **more},
                groups="[admin tenant:*]",
                headers={"if-match": f'"{asked.seen}"'},
            )
            for more in (MISSPELT, {})
        )
        named = (misspelt.status, "'tenent'" in misspelt.text) == (422, True)
        if not named or sound.status not in right.answers:  # of the same thing, still in its first version
            wrong.append((operation, misspelt.status, sound.status))

    assert wrong == []


def test_a_dry_run_that_is_asked_for_in_the_wrong_place_begins_nothing(
    ask: Ask, world: World, admin: Connection
) -> None:
    letter = world.things().letter
    before = rows(admin, "operation")

    answer = ask(
        {"job_ids": [letter]}, path="/api/admin/dlq/bulk-retry", query={"dry_run": "true"}, groups="[admin tenant:*]"
    )

    assert (answer.status, answer.body["detail"]) == (422, "There is no parameter 'dry_run'.")
    assert rows(admin, "operation") == before


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_that_it_may_be_refused_is_described(operation: Mapping[str, Any]) -> None:
    assert "422" in operation["responses"]


def test_no_parameter_is_described_as_null() -> None:
    schemas = [parameter["schema"] for one in OPERATIONS.values() for parameter in one.get("parameters", ())]

    assert {"type": "string", "format": "date"} in [form for schema in schemas for form in schema.get("anyOf", ())]
    assert not [schema for schema in schemas if {"type": "null"} in schema.get("anyOf", ())]
