"""The benchmark of polled questions asks what pages ask, is answered, and tells which one is dear."""

from datetime import UTC, datetime

import pytest

from cli.local.postgres import Server
from counterfoil.settings import settings
from functions.admin_api import endpoint
from tests.benchmarks import dead_letters, polled
from tests.benchmarks.polled import Cost, report
from tests.benchmarks.scale import database


def test_each_cost_is_told_beside_authentication_and_what_is_dear_is_marked() -> None:
    costs = [
        Cost("alone", [2.0] * 20, []),
        Cost("cheap", [4.0] * 20, [3.0] * 20),
        Cost("dear", [30.0] * 20, [2.0] * 20),
    ]

    head, alone, cheap, dear = report(costs)

    assert head.split() == ["p50", "ms", "p95", "ms", "304", "p50", "304", "p95", "x", "alone"]
    assert alone.split() == ["alone", "2.0", "2.0", "1.0"]
    assert cheap.split() == ["cheap", "4.0", "4.0", "3.0", "3.0", "2.0"]
    assert dear.split() == ["dear", "30.0", "30.0", "2.0", "2.0", "15.0", "dear"]


def test_every_question_is_answered_and_the_second_time_with_304(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database.prepare(postgres, "polled", dead_letters.TENANTS)
    dead_letters.load(url, 500, datetime.now(UTC))
    for name in ("DATABASE_URL", "SIGN_IN", "QUEUES", "READS_AT_ONCE"):
        monkeypatch.setenv(name, "")  # to be as it was behind the test
    endpoint.database.cache_clear()
    try:
        polled.deploy(postgres.url("polled", "counterfoil_worker"))
        costs = polled.measure(polled.questions(url), 2)
    finally:
        endpoint.database().close()
        endpoint.database.cache_clear()
        settings.cache_clear()

    assert {len(cost.new) for cost in costs} == {2}
    assert [cost.route for cost in costs if not cost.known] == ["authentication alone"]
