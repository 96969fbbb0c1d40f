"""Huge pages of the kernel for the server's memory, as RDS gives them to every class but the smallest ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RESERVED = Path("/proc/sys/vm/nr_hugepages")


@contextmanager
def reserved(number: int) -> Iterator[bool]:
    """Reserve so many more for a while. Yields whether the kernel has them: it is asked by root alone."""
    try:
        before = int(RESERVED.read_text())
        RESERVED.write_text(str(before + number))
    except OSError:  # no Linux, or no right to
        yield False
        return
    try:
        yield int(RESERVED.read_text()) >= before + number
    finally:
        RESERVED.write_text(str(before))
