"""The samples in the README work as shown."""

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyValidationError
from psycopg.errors import CheckViolation, InsufficientPrivilege

from harness import (
    ORDER,
    PLACED,
    SCHEMA,
    Connection,
    Context,
    Flaky,
    Orders,
    break_connection,
    kill_during_run,
    open_pool,
    rows,
)
from powertools_postgres_idempotency import PostgresPersistence
from powertools_postgres_idempotency.config import GRACE_SECONDS
from powertools_postgres_idempotency.transactions import MAX_ATTEMPTS

README = (Path(__file__).parent.parent / "README.md").read_text()
FIRST, ERRORS, TENANTS = re.findall(r"^```python\n(.+?)^```", README, re.MULTILINE | re.DOTALL)
SECURITY, CLEANUP = re.findall(r"^```sql\n(.+?)^```", README, re.MULTILINE | re.DOTALL)


def run(sample: str) -> dict[str, Any]:
    """Run a sample, and return the names that it defines."""
    names: dict[str, Any] = {"__name__": "sample"}
    exec(compile(sample, "README.md", "exec"), names)
    return names


def test_first_sample_runs_function_once(url: str, monkeypatch: pytest.MonkeyPatch, admin: Connection) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    names = run(FIRST)
    with names["pool"]:
        for _ in range(2):
            assert names["handler"](ORDER, Context()) == {"status": 201, "order_id": ORDER["order_id"]}

    assert [(row["status"], row["claims"]) for row in rows(admin)] == [("COMPLETED", 1)]


def test_error_sample_retries_transient_errors(flaky: Flaky, admin: Connection) -> None:
    names = run(ERRORS)
    retries, retry_later = names["retries"], names["RetryLater"]
    orders = Orders(PostgresPersistence(flaky), event_key_jmespath="order_id", payload_validation_jmespath="total")

    kill_during_run(orders)
    with pytest.raises(retry_later, match="in progress"), retries():
        orders.place(order=ORDER)
    admin.execute("TRUNCATE idempotency")
    flaky.failures = [break_connection] * MAX_ATTEMPTS
    with pytest.raises(retry_later, match="unavailable"), retries():
        orders.place(order=ORDER)
    flaky.failures = [lambda _: CheckViolation()]
    with pytest.raises(Exception, match="Failed to save") as raised, retries():
        orders.place(order=ORDER)
    assert isinstance(raised.value.__cause__, CheckViolation)
    with retries():
        assert orders.place(order=ORDER) == PLACED
    with pytest.raises(IdempotencyValidationError), retries():
        orders.place(order=ORDER | {"total": "1.00"})


def test_tenant_sample_separates_tenants(url: str, admin: Connection) -> None:
    admin.execute("CREATE SCHEMA shop; SET search_path = shop")
    admin.execute(SCHEMA)
    admin.execute(SECURITY.replace("TO shop;", "TO app;"))
    store_of = run(TENANTS)["store_of"]
    try:
        with open_pool(url) as pool:
            ours, theirs = (Orders(store_of(pool, tenant)) for tenant in ("acme", "globex"))
            for _ in range(2):
                assert ours.place(order=ORDER) == theirs.place(order=ORDER) == PLACED
            with pool.connection() as connection:
                visible_rows = connection.execute("SELECT * FROM shop.idempotency").fetchall()
            unset = PostgresPersistence(pool.connection, tenant="acme", table="shop.idempotency")
            with pytest.raises(Exception, match="InsufficientPrivilege") as raised:
                Orders(unset).place(order=ORDER)
        assert (ours.runs, theirs.runs, visible_rows) == (1, 1, [])
        assert isinstance(raised.value.__cause__, InsufficientPrivilege)
        assert {row["tenant"] for row in rows(admin)} == {"acme", "globex"}
    finally:
        admin.execute("DROP SCHEMA shop CASCADE")


def test_cleanup_deletes_only_expired_rows(store: PostgresPersistence, admin: Connection) -> None:
    for number in range(3):
        Orders(store).place(order={"order_id": number})
    (expired, *remaining) = (row["key"] for row in rows(admin))
    admin.execute("UPDATE idempotency SET expires_at = now() - interval '1 second' WHERE key = %s", [expired])
    admin.execute(CLEANUP)

    assert {row["key"] for row in rows(admin)} == set(remaining)


def test_cleanup_skips_keys_being_claimed(store: PostgresPersistence, admin_url: str, admin: Connection) -> None:
    orders = Orders(store)
    orders.place(order=ORDER)
    admin.execute("UPDATE idempotency SET expires_at = now() - interval '1 second'")
    with psycopg.connect(admin_url) as claiming:
        claiming.execute("UPDATE idempotency SET expires_at = now() + interval '1 day'")  # not committed yet
        admin.execute(CLEANUP)

    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 1


def test_cleanup_uses_expiry_index(admin: Connection) -> None:
    admin.execute("SET enable_seqscan = off")

    assert "idempotency_by_expiry" in str(admin.execute("EXPLAIN " + CLEANUP).fetchall())


def test_table_section_lists_all_columns(admin: Connection) -> None:
    table = README.split("## The table")[1].split("\n## ")[0]
    documented = [
        name for cell in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    ]
    columns = admin.execute("SELECT column_name FROM information_schema.columns WHERE table_name = 'idempotency'")

    assert sorted(documented) == sorted(name for (name,) in columns)


def test_readme_numbers_match_code() -> None:
    assert f"lost {GRACE_SECONDS:g} seconds after" in README
    assert MAX_ATTEMPTS == 3
    assert "runs up to three times" in README
    assert IdempotencyConfig().hash_function == "md5"
    assert IdempotencyConfig().expires_after_seconds == 3600
