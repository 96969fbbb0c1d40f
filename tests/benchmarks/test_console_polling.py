"""The polling benchmark sends the console's requests and marks expensive routes."""

from datetime import UTC, datetime

import pytest

from cli.local.postgres import Server
from counterfoil.settings import settings
from functions.admin_api import endpoint
from tests.benchmarks import console_polling, dead_letters
from tests.benchmarks.console_polling import Cost, report
from tests.benchmarks.scale import database


def test_report_marks_expensive_routes() -> None:
    costs = [
        Cost("alone", [2.0] * 20, []),
        Cost("cheap", [4.0] * 20, [3.0] * 20),
        Cost("expensive", [30.0] * 20, [2.0] * 20),
    ]

    head, alone, cheap, expensive = report(costs)

    assert head.split() == ["p50", "ms", "p95", "ms", "304", "p50", "304", "p95", "x", "alone"]
    assert alone.split() == ["alone", "2.0", "2.0", "1.0"]
    assert cheap.split() == ["cheap", "4.0", "4.0", "3.0", "3.0", "2.0"]
    assert expensive.split() == ["expensive", "30.0", "30.0", "2.0", "2.0", "15.0", "expensive"]


def test_repeated_requests_return_304(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = database.prepare(postgres, "polled", dead_letters.TENANTS)
    dead_letters.load(url, 500, datetime.now(UTC))
    for name in ("DATABASE_URL", "OIDC", "QUEUES", "READS_AT_ONCE"):
        monkeypatch.setenv(name, "")  # restored after the test
    endpoint.database.cache_clear()
    try:
        console_polling.deploy(postgres.url("polled", "counterfoil_worker"))
        costs = console_polling.measure(console_polling.polled_routes(url), 2)
    finally:
        endpoint.database().close()
        endpoint.database.cache_clear()
        settings.cache_clear()

    assert {len(cost.new) for cost in costs} == {2}
    assert [cost.route for cost in costs if not cost.known] == ["authentication alone"]
