"""Peak memory of this process and its children."""

import resource
import sys
from pathlib import Path


def peak_megabytes() -> float:
    """Return the peak memory of this process in MiB.

    On Linux, getrusage includes the memory of the parent process. VmHWM does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return _megabytes(resource.RUSAGE_SELF)


def peak_megabytes_of_children() -> float:
    """Return the highest peak memory of any child process that has ended, in MiB."""
    return _megabytes(resource.RUSAGE_CHILDREN)


def _megabytes(usage_of: int) -> float:
    return resource.getrusage(usage_of).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)
