"""Reserve huge pages for PostgreSQL, as RDS does.

RDS uses huge pages on all but the smallest instance classes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RESERVED = Path("/proc/sys/vm/nr_hugepages")


@contextmanager
def reserve(number: int) -> Iterator[None]:
    """Reserve `number` additional huge pages until the context exits.

    Does nothing on systems other than Linux, or if the process is not root.
    """
    try:
        before = int(RESERVED.read_text())
        RESERVED.write_text(str(before + number))
    except OSError:  # not Linux, or no permission
        yield
        return
    try:
        yield
    finally:
        RESERVED.write_text(str(before))
