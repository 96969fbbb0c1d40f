"""`counterfoil offers` lists pools and queues missing offers."""

import json
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.commands.offers import app
from cli.failures import UsageError
from counterfoil import aws
from counterfoil.db import Connection
from counterfoil.settings import settings
from tests.factories import make_jobs, make_pool, make_profile, make_shard, make_tenant
from tests.functions.fake_lambda import FakeLambda

DAY = timedelta(days=1)


@pytest.fixture
def lambda_(api: None, monkeypatch: pytest.MonkeyPatch) -> FakeLambda:
    """The fake Lambda client of a deployment whose scheduler can be invoked."""
    lambda_ = FakeLambda()
    monkeypatch.setattr(aws, "client", lambda _: lambda_)
    monkeypatch.setenv("INVOKED_FUNCTIONS", json.dumps({"offers_scheduler": "scheduler"}))
    settings.cache_clear()
    return lambda_


@pytest.fixture
def acme(admin: Connection) -> UUID:
    return make_tenant(admin, "acme")


def call(*words: str) -> str:
    result = CliRunner().invoke(app, words, env={"COLUMNS": "140"})
    if result.exception is not None:
        raise result.exception
    return " ".join(result.output.split())


def test_run_invokes_the_scheduler_for_a_date(lambda_: FakeLambda, acme: UUID) -> None:
    output = call("run", "--timezone", "UTC", "--tenant", "acme", "--by", "ada")

    ((name, event),) = lambda_.invoked
    assert name == "scheduler"
    assert event == {"date": event["date"], "timezone": "UTC", "tenant": "acme", "by": "ada"}
    assert output.startswith(f"The scheduler is queuing the missing offers for {event['date']} in UTC.")


def test_run_prints_json(lambda_: FakeLambda) -> None:
    queued = json.loads(call("run", "--timezone", "UTC", "--json"))
    assert queued == {"date": queued["date"], "timezone": "UTC", "tenant": None}


def test_run_reports_a_refusal(lambda_: FakeLambda) -> None:
    with pytest.raises(UsageError, match=r"2016-01-05 is more than 7 days ago in UTC"):
        call("run", "--date", "2016-01-05", "--timezone", "UTC")
    assert lambda_.invoked == []


def test_list_shows_progress_of_each_pool(lambda_: FakeLambda, admin: Connection, acme: UUID) -> None:
    nine = datetime(2026, 3, 1, 9, tzinfo=UTC)
    pool = make_pool(
        admin, acme, date=date(2026, 3, 1), timezone="UTC", offered_at=nine, expires_at=nine + DAY, user_count=2
    )
    users = [make_profile(admin, acme) for _ in range(2)]
    make_jobs(admin, make_shard(admin, acme, users, pool_id=pool))

    assert call().endswith("2026-03-01 UTC acme running 2 0 0 2")
    (listed,) = json.loads(call("list", "--tenant", "acme", "--json"))["pools"]
    assert (listed["id"], listed["tenant"], listed["user_count"]) == (str(pool), "acme", 2)


def test_list_without_offers_prints_a_sentence(lambda_: FakeLambda, acme: UUID) -> None:
    assert call() == "There are no offers yet."
