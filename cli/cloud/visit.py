"""A cloud for as long as a command needs it: brought up where it is not, and left as it was found."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from cli.cloud import cloud as local
from cli.cloud import processes
from cli.cloud.cloud import Cloud
from cli.cloud.place import Place
from cli.failures import CloudError
from cli.terminal import Checklist, aside


@contextmanager
def visited(place: Place, logs: Path, *, keep: bool) -> Iterator[Cloud]:
    """A cloud that is up, and afterwards as it was before, unless `keep` leaves it up. Logs of a failure go to `logs`.

    Raises:
        CloudError, PostgresError: it cannot be brought up.
    """
    try:
        Cloud.at(place)
        was_up = True
    except CloudError:
        was_up = False
    shutil.rmtree(logs, ignore_errors=True)
    steps = Checklist()
    try:
        with processes.interruptible():
            with steps.shown():
                cloud = local.up(place, steps).cloud
            with closing(cloud.database):  # before its server ends, or it would look for it
                yield cloud
    except Exception:
        if place.logs.is_dir() and not was_up and not keep:
            shutil.copytree(place.logs, logs)
            aside().print(f"The logs are kept in {logs}.")
        raise
    finally:
        if not was_up and not keep:
            with processes.uninterrupted(), steps.shown():
                local.down(place, steps)
