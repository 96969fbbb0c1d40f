"""Adaptation of lists to PostgreSQL, and transaction options."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil.db import Database
from counterfoil.errors import RejectedStatementError

TENANT = UUID(int=1)
TYPED_LISTS = st.one_of(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))),
    st.lists(st.sampled_from(["", "NULL", "null", '"', "\\", "{}", "a,b", " ", "\u2003", '\\"', "'"])),
    st.lists(st.uuids()),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.none() | st.text(st.sampled_from('a"\\,')), min_size=1),
    st.lists(st.booleans()),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(TYPED_LISTS)
def test_list_round_trips(database: Database, values: list[Any]) -> None:
    kinds = {bool: "bool", int: "int8", UUID: "uuid"}
    kind = kinds.get(type(values[0]), "text") if values else "text"
    with database.tenant(TENANT) as connection:
        row = connection.execute(f"SELECT %s::{kind}[]", [values]).fetchone()
    assert row == (values,)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([UUID(int=1)], "uuid[]"),
        ([True, False], "boolean[]"),
        ([0, 2**31 - 1], "integer[]"),
        ([-(2**31)], "integer[]"),
        ([2**31], "bigint[]"),
        ([-(2**31) - 1, 0], "bigint[]"),
        ([2**63], "numeric[]"),
    ],
)
def test_list_has_type_of_its_elements(database: Database, values: list[Any], kind: str) -> None:
    with database.tenant(TENANT) as connection:
        assert connection.execute("SELECT pg_typeof(%s)::text", [values]).fetchone() == (kind,)


def test_lists_of_different_types_can_be_combined(database: Database) -> None:
    lists: list[list[Any]] = [
        ["a"],
        [None, "a"],
        [UUID(int=1)],
        [],
        [1],
        [2**40],
        [None, 1],
        [True],
        [["a"], ["b"]],
        ["c"],
    ]
    kinds = ["text", "text", "uuid", "text", "int8", "int8", "int8", "bool", "text", "text"]
    columns = ", ".join(f"%s::{kind}[]" for kind in kinds)
    with database.tenant(TENANT) as connection:
        row = connection.execute(f"SELECT {columns}", lists).fetchone()
    assert row == tuple(lists)


@pytest.mark.parametrize("text", ["a\0b", "\0"])
def test_array_text_with_nul_is_rejected(database: Database, text: str) -> None:
    with pytest.raises(RejectedStatementError), database.tenant(TENANT) as connection:
        connection.execute("SELECT %s::text[]", [[text, "b"]])


def test_array_text_with_lone_surrogate_is_rejected(database: Database) -> None:
    with pytest.raises(RejectedStatementError), database.tenant(TENANT) as connection:
        connection.execute("SELECT %s::text[]", [["\ud800"]])


def test_by_index_disables_sequential_scans(database: Database) -> None:
    query = "SELECT current_setting('enable_seqscan'), current_setting('plan_cache_mode')"
    with database.tenant(TENANT, by_index=True) as connection:
        assert connection.execute(query).fetchone() == ("off", "force_generic_plan")
    with database.delivery(by_index=True, durable=False) as connection:
        assert connection.execute(query).fetchone() == ("off", "force_generic_plan")
    with database.tenant(TENANT) as connection:
        assert connection.execute(query).fetchone() == ("on", "auto")
