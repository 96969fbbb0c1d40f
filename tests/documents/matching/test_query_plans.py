"""Searches use indexes even if they are planned while the tables are empty."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents.matching import reading, sql
from counterfoil.documents.matching.keys import PARENT_KINDS, SEARCH_PREFIX, Key
from counterfoil.documents.matching.normalize import ORDER

IDS = [uuid4(), uuid4()]
LOOKUP = sql.KeyLookup(uuid4(), {Key("own:purchase_order", "4711"): 10}, ORDER)
STATEMENTS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "start of a search": (sql._BEGIN, {"ids": IDS, "seeks": SEARCH_PREFIX}),
    "edges": (sql._EDGES, {"ids": IDS}),
    "documents": (reading._CONTENTS, {"ids": IDS, "versions": [None, 1], "kinds": list(PARENT_KINDS)}),
    "documents by key": (
        reading._HOLDERS,
        {"kinds": list(PARENT_KINDS), "most": 50, "longest": 4_000, **LOOKUP.parameters},
    ),
}


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


@pytest.mark.parametrize("name", STATEMENTS)
def test_search_uses_index_conditions_only(database: Database, admin: Connection, name: str) -> None:
    statement, parameters = STATEMENTS[name]
    admin.execute("VACUUM ANALYZE")  # without statistics, PostgreSQL assumes that a table has a few pages
    with database.tenant(uuid4(), by_index=True) as connection:
        rows = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}".encode(), parameters).fetchall()
    scans = [node for node in nodes(rows[0][0][0]["Plan"]) if "Relation Name" in node]
    walked = [node["Relation Name"] for node in scans if not {"Index Cond", "Recheck Cond"} & node.keys()]

    assert len(scans) > 0
    assert walked == []
