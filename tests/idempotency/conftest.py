"""Persistence layers held against the same promises: ours, and Powertools' own for DynamoDB; and time that is told."""

import datetime as dt
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import boto3
import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer, DynamoDBPersistenceLayer
from aws_lambda_powertools.utilities.idempotency import base as powertools_handler
from aws_lambda_powertools.utilities.idempotency.persistence import base, datarecord, dynamodb
from moto import mock_aws

from counterfoil import idempotency
from counterfoil.db import Database
from counterfoil.idempotency import PostgresPersistence

TABLE = "idempotency"


class Time:
    """The time that Powertools, its layer for DynamoDB and ours go by. It begins now, and passes when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = 0.0
        self.began = time.time()
        told = self

        class Told(dt.datetime):
            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> Any:
                return dt.datetime.fromtimestamp(told.seconds(), tz)

        module = SimpleNamespace(**vars(dt) | {"datetime": Told})
        for place in (powertools_handler, base, datarecord, dynamodb):
            monkeypatch.setattr(place, "dt", module)
        monkeypatch.setattr(idempotency, "time", SimpleNamespace(time=self.seconds))

    def seconds(self) -> float:
        return self.began + self.passed

    def __call__(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.seconds(), dt.UTC)

    def pass_(self, **units: float) -> None:
        self.passed += dt.timedelta(**units).total_seconds()


@pytest.fixture
def time_told(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def persistence(database: Database, tenant: UUID) -> PostgresPersistence:
    """Ours, by the database's clock."""
    return PostgresPersistence(database, tenant)


NewLayer = Callable[[], BasePersistenceLayer]
"""Makes another layer over the same records, as another process has one."""


@pytest.fixture(params=["postgres", "dynamodb"])
def new_layer(request: pytest.FixtureRequest, time_told: Time) -> Iterator[NewLayer]:
    if request.param == "postgres":
        database, tenant = (request.getfixturevalue(name) for name in ("database", "tenant"))
        yield lambda: PostgresPersistence(database, tenant, clock=time_told)
        return
    with mock_aws():
        client = boto3.client("dynamodb", region_name="eu-central-1")
        client.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield lambda: DynamoDBPersistenceLayer(TABLE, boto3_client=client)


@pytest.fixture
def layer(new_layer: NewLayer) -> BasePersistenceLayer:
    return new_layer()
