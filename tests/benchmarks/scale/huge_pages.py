"""Huge pages for the server's memory, as on all but the smallest RDS classes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RESERVED = Path("/proc/sys/vm/nr_hugepages")


@contextmanager
def reserve(number: int) -> Iterator[None]:
    """Reserve additional huge pages temporarily, if the kernel has any. Requires root."""
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
