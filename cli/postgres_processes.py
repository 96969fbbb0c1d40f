"""The processes of an embedded PostgreSQL: which are its own, and their end."""

import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import psutil

END_SECONDS = 60


def live_server(pid: int, data: Path) -> psutil.Process | None:
    """The process, if it is the live server of this cluster."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE and str(data) in process.cmdline():
            return process
    return None


def gone(processes: list[psutil.Process], seconds: float) -> bool:
    """Whether all of them ended in time. A zombie has ended: its parent may never look, as in some containers."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        processes = [process for process in processes if _alive(process)]
        if not processes:
            return True
        time.sleep(0.01)
    return False


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_family(pid: int) -> None:
    """End a process and its children, the server that pg_ctl has just started among them."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        parent.suspend()  # no further children
        family = [*parent.children(recursive=True), parent]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        gone(family, END_SECONDS)


def cluster_name(data: Path) -> str:
    """How the titles of the cluster's processes begin: `postgres: counterfoil-0123456789ab: checkpointer`."""
    return f"counterfoil-{sha256(bytes(data)).hexdigest()[:12]}"


def end_sessions(data: Path) -> None:
    """End what a killed server left: its sessions would go on, and the next start would have to wait for them."""
    title = f"postgres: {cluster_name(data)}: "
    left = [
        process
        for process in psutil.process_iter(["cmdline"])
        if " ".join(process.info["cmdline"] or []).startswith(title)
    ]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    gone(left, END_SECONDS)
