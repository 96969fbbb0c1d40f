"""How much memory this process had at most."""

import resource
import sys
from pathlib import Path


def peak_megabytes() -> float:
    """The most memory that this process had, in MiB.

    What getrusage says on Linux begins with the memory of whoever started the process; VmHWM is its own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return _megabytes(resource.RUSAGE_SELF)


def peak_megabytes_of_children() -> float:
    """The most memory that any ended child of this process had, in MiB."""
    return _megabytes(resource.RUSAGE_CHILDREN)


def _megabytes(who: int) -> float:
    return resource.getrusage(who).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)
