"""Dead letters of a tenant, written as workers write them."""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from tests.dead_letters.bulking import Yard
from tests.dead_letters.letters import NOON, Die, dying

__all__ = ["NOON", "Die"]


@pytest.fixture
def tenant_id(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def die(database: Database, tenant_id: UUID) -> Die:
    """Let work die, so many minutes after noon; returns its job_id."""
    return dying(database, tenant_id)


@pytest.fixture
def yard(database: Database, admin: Connection, tenant_id: UUID, die: Die) -> Yard:
    return Yard(database, admin, tenant_id, die)


@pytest.fixture
def settle(admin: Connection) -> Callable[[UUID, str], None]:
    """Give a letter another state."""

    def change(job_id: UUID, status: str) -> None:
        admin.execute("UPDATE dead_letter SET status = %s, version = version + 1 WHERE job_id = %s", [status, job_id])

    return change
