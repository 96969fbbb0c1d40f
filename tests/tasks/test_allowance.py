"""A tenant hands in so many tasks at once and so many a second, counted for all processes together."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from counterfoil.db import Database
from counterfoil.tasks.allowance import Allowance, TooManyError
from tests.factories import NOW

THREE = Allowance(per_second=0.5, at_once=3)


def taken(database: Database, tenant: UUID, at: datetime) -> bool:
    try:
        THREE.take(database, tenant, at)
    except TooManyError:
        return False
    return True


def test_a_burst_is_taken_and_what_is_beyond_comes_back_later(database: Database, tenant: UUID) -> None:
    assert [taken(database, tenant, NOW) for _ in range(4)] == [True, True, True, False]
    with pytest.raises(TooManyError) as refused:
        THREE.take(database, tenant, NOW + timedelta(seconds=0.5))
    assert refused.value.retry_after == 2
    assert taken(database, tenant, NOW + timedelta(seconds=2))
    assert not taken(database, tenant, NOW + timedelta(seconds=2))


def test_a_pause_saves_up_no_more_than_a_burst(database: Database, tenant: UUID) -> None:
    taken(database, tenant, NOW)

    later = NOW + timedelta(days=1)
    assert [taken(database, tenant, later) for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_stands_behind_adds_nothing(database: Database, tenant: UUID) -> None:
    assert [taken(database, tenant, NOW - timedelta(hours=number)) for number in range(4)] == [True, True, True, False]
    assert not taken(database, tenant, NOW + timedelta(seconds=1))


def test_each_token_is_taken_once_however_many_ask_at_the_same_time(database: Database, tenant: UUID) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: taken(database, tenant, NOW), range(24))) == 3


def test_a_tenant_s_requests_are_its_own(database: Database, tenant: UUID, make_tenant: Callable[..., UUID]) -> None:
    for _ in range(4):
        taken(database, tenant, NOW)

    assert taken(database, make_tenant("other"), NOW)
