"""Huge pages of the kernel for the server's memory, as RDS gives them to every class but the smallest ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RESERVED = Path("/proc/sys/vm/nr_hugepages")


@contextmanager
def reserved(number: int) -> Iterator[None]:
    """Reserve so many more for a while, as far as the kernel has them; of nobody but root it takes the request."""
    try:
        before = int(RESERVED.read_text())
        RESERVED.write_text(str(before + number))
    except OSError:  # no Linux, or no right to
        yield
        return
    try:
        yield
    finally:
        RESERVED.write_text(str(before))
