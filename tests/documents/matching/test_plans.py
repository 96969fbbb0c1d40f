"""A search asks by index for what it wants, though it be planned while the tables are empty."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents.matching import reading, sql
from counterfoil.documents.matching.keys import PARENTS, SEEKS, Key
from counterfoil.documents.matching.normalise import ORDER

IDS = [uuid4(), uuid4()]
LOOKUP = sql.Lookup(uuid4(), {Key("own:purchase_order", "4711"): 10}, ORDER)
ASKED: dict[str, tuple[str, Mapping[str, Any]]] = {
    "what it begins with": (sql._BEGIN, {"ids": IDS, "seeks": SEEKS}),
    "edges": (sql._EDGES, {"ids": IDS}),
    "documents": (reading._CONTENTS, {"ids": IDS, "versions": [None, 1], "kinds": list(PARENTS)}),
    "holders of keys": (
        reading._HOLDERS,
        {"kinds": list(PARENTS), "most": 50, "longest": 4_000, **LOOKUP.parameters},
    ),
}


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


@pytest.mark.parametrize("asked", ASKED)
def test_no_table_and_no_index_is_walked_through(database: Database, admin: Connection, asked: str) -> None:
    statement, parameters = ASKED[asked]
    admin.execute("VACUUM ANALYZE")  # PostgreSQL takes a table of which it knows nothing for one of some pages
    with database.tenant(uuid4(), by_index=True) as connection:
        rows = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}".encode(), parameters).fetchall()
    scans = [node for node in nodes(rows[0][0][0]["Plan"]) if "Relation Name" in node]
    walked = [node["Relation Name"] for node in scans if not {"Index Cond", "Recheck Cond"} & node.keys()]

    assert len(scans) > 0
    assert walked == []
