"""PostgreSQL receives numpy arrays with the correct element type."""

from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from counterfoil.db import Connection
from counterfoil.offers import store

IDS = [uuid4() for _ in range(3)]


@pytest.mark.parametrize(
    ("array", "type_", "expected"),
    [
        (store.uuids(np.array([id_.bytes for id_ in IDS], "S16")), "uuid", IDS),
        (store.smallints(np.array([1, -2, 32_767])), "smallint", [1, -2, 32_767]),
        (store.integers(np.array([1, -2, 2_147_483_647])), "integer", [1, -2, 2_147_483_647]),
        (store.byteas([b"", b"\x00\xff"]), "bytea", [b"", b"\x00\xff"]),
        (store.jsonbs(['{"a": "é"}'.encode(), b"[]"]), "jsonb", [{"a": "é"}, []]),
    ],
    ids=["uuid", "smallint", "integer", "bytea", "jsonb"],
)
def test_numpy_array_arrives_with_its_type(array: Any, type_: str, expected: list[Any], admin: Connection):
    records = admin.execute("SELECT pg_typeof(%s)::text, v FROM unnest(%s) AS v", [array, array]).fetchall()
    assert records == [(f"{type_}[]", value) for value in expected]


def test_ids_ending_in_zeros_are_preserved(admin: Connection):
    id_ = bytes([7]) + bytes(15)
    ((record,),) = admin.execute("SELECT unnest(%s)", [store.uuids(np.array([id_], "S16"))]).fetchall()
    assert record.bytes == id_


def test_empty_array_yields_no_rows(admin: Connection):
    assert admin.execute("SELECT unnest(%s)", [store.uuids(np.array([], "S16"))]).fetchall() == []
