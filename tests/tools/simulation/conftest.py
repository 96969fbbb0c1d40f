"""What the tests of the simulation share: one PostgreSQL for all the histories that they run themselves."""

from collections.abc import Iterator

import pytest

from tools.simulation import run
from tools.simulation.database import Store


@pytest.fixture(scope="package")
def store() -> Iterator[Store]:
    """A database for histories."""
    with run.store() as made:
        yield made
