"""A PostgreSQL database that all simulation tests share."""

from collections.abc import Iterator

import pytest

from tools.simulation import run
from tools.simulation.database import Store


@pytest.fixture(scope="package")
def store() -> Iterator[Store]:
    """The database in which histories run."""
    with run.open_store() as opened:
        yield opened
