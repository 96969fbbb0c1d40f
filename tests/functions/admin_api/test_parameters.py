"""What a request asks for besides its path: whoever misspells a parameter is told, and gets nothing else."""

from collections.abc import Mapping
from typing import Any

import pytest

from counterfoil.db import Connection, Database
from functions.admin_api.handler import document
from tests.functions.admin_api.conftest import Ask
from tests.functions.admin_api.rights import RIGHTS, World, surround

LOOKING = {f"GET {path}": operations["get"] for path, operations in document()["paths"].items() if "get" in operations}
MISSPELT = {"tenent": "acme"}


@pytest.fixture
def world(ask: Ask, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> World:
    """A tenant with something of everything."""
    surround(monkeypatch)
    return World(database, admin, "acme")


def test_a_parameter_that_no_route_knows_is_named_by_each(ask: Ask, world: World) -> None:
    things = world.things()
    wrong = []
    for operation in LOOKING:
        asked = RIGHTS[operation].ask(things)
        sound, misspelt = (
            ask("", method="GET", path=asked.path, query={**asked.query, **more}, groups="[admin tenant:*]")
            for more in ({}, MISSPELT)
        )
        if sound.status != 200 or (misspelt.status, "'tenent'" in misspelt.text) != (422, True):
            wrong.append((operation, sound.status, misspelt.status))

    assert LOOKING
    assert wrong == []


@pytest.mark.parametrize("operation", LOOKING.values(), ids=LOOKING)
def test_that_it_may_be_refused_is_described(operation: Mapping[str, Any]) -> None:
    assert "422" in operation["responses"]
