"""How statements about thousands of people are planned: by hashing, since no statistics know of today's rows.

Statistics are always older than today's jobs, and say that there are none. By loops in loops, which are then planned,
twenty thousand people took more than a minute, in the place of a second.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from counterfoil.db import Connection

_MANY = "SELECT set_config('enable_nestloop', 'off', true), set_config('work_mem', '64MB', true)"
_AS_ALWAYS = "SET LOCAL enable_nestloop TO DEFAULT"


@contextmanager
def of_many(connection: Connection) -> Iterator[None]:
    """No loops in loops, and memory for what ten thousand users are offered.

    What comes behind in the same transaction is about few rows again: without loops it would read whole tables.
    """
    connection.execute(_MANY)
    yield
    connection.execute(_AS_ALWAYS)
