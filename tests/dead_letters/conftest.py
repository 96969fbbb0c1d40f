"""Fixtures that create a tenant's dead letters as workers do."""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from tests.dead_letters.bulk_harness import Yard
from tests.dead_letters.dead_letter_factory import NOON, Die, dying

__all__ = ["NOON", "Die"]


@pytest.fixture
def tenant_id(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def die(database: Database, tenant_id: UUID) -> Die:
    """`die(...)` creates a dead letter and returns its job id."""
    return dying(database, tenant_id)


@pytest.fixture
def yard(database: Database, admin: Connection, tenant_id: UUID, die: Die) -> Yard:
    return Yard(database, admin, tenant_id, die)


@pytest.fixture
def set_status(admin: Connection) -> Callable[[UUID, str], None]:
    """`set_status(job_id, status)` sets the status of a dead letter."""

    def change(job_id: UUID, status: str) -> None:
        admin.execute("UPDATE dead_letter SET status = %s, version = version + 1 WHERE job_id = %s", [status, job_id])

    return change
