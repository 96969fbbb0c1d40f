"""Shared PostgreSQL for the histories of the simulation tests."""

from collections.abc import Iterator

import pytest

from tools.simulation import run
from tools.simulation.database import Store


@pytest.fixture(scope="package")
def store() -> Iterator[Store]:
    """A database for histories."""
    with run.open_store() as opened:
        yield opened
