"""Shared fixtures of schema tests: two tenants, and a connection per role."""

import psycopg
import pytest

from counterfoil.db import Connection
from tests.migrations.tenants import Tenant


@pytest.fixture
def own_tenant(admin: Connection) -> Tenant:
    return Tenant(admin, "ours")


@pytest.fixture
def other_tenant(admin: Connection) -> Tenant:
    return Tenant(admin, "theirs")


@pytest.fixture
def worker(database_url: str):
    """An autocommit connection as counterfoil_worker."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def api(api_database_url: str):
    """An autocommit connection as counterfoil_api."""
    with psycopg.connect(api_database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def maintenance(maintenance_database_url: str):
    """An autocommit connection as counterfoil_maintenance."""
    with psycopg.connect(maintenance_database_url, autocommit=True) as connection:
        yield connection
