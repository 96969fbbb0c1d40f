"""Fixtures that create a tenant's dead letters in the same way as workers."""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from tests.dead_letters.bulk_harness import BulkHarness
from tests.dead_letters.dead_letter_factory import MakeDeadLetter, dead_letter_factory


@pytest.fixture
def tenant_id(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def make_dead_letter(database: Database, tenant_id: UUID) -> MakeDeadLetter:
    """`make_dead_letter(...)` creates a dead letter and returns its job id."""
    return dead_letter_factory(database, tenant_id)


@pytest.fixture
def harness(database: Database, admin: Connection, tenant_id: UUID, make_dead_letter: MakeDeadLetter) -> BulkHarness:
    return BulkHarness(database, admin, tenant_id, make_dead_letter)


@pytest.fixture
def set_status(admin: Connection) -> Callable[[UUID, str], None]:
    """`set_status(job_id, status)` sets the status of a dead letter."""

    def change(job_id: UUID, status: str) -> None:
        admin.execute("UPDATE dead_letter SET status = %s, version = version + 1 WHERE job_id = %s", [status, job_id])

    return change
