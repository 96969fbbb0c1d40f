"""Polling by the console."""

import re
from pathlib import Path

from tests.functions.admin_api.node_tests import PAGES, run_tests

PACES = ("POLL_FAST_SECONDS", "POLL_LEADER_SECONDS", "POLL_SLOW_SECONDS")


def test_poll_interval_depends_on_activity_and_failures(tmp_path: Path) -> None:
    assert run_tests("live", tmp_path, API_MODULE="api") == 4


def test_every_poll_has_a_known_interval() -> None:
    """Slow polls depend on another response, except the banner of paused queues."""
    polls = [
        (path.relative_to(PAGES).as_posix(), " ".join(interval.split()), "version" in options)
        for path in PAGES.rglob("*.ts*")
        if path.name not in {"api.ts", "api_types.ts"}
        for interval, options in re.findall(r"],?\s+\{\s+every: ([^,}]+)([^}]*)\}", path.read_text())
    ]
    assert len(polls) > 15
    assert {interval for _, interval, _ in polls} <= {
        *("POLL_FAST_SECONDS", "0 : POLL_FAST_SECONDS", "POLL_LEADER_SECONDS", "POLL_SLOW_SECONDS"),
        *(f"{condition} ? 0 : {interval}" for condition in ("cursor", "filter.cursor") for interval in PACES),
        *(f"{condition} ? {interval} : 0" for condition in ("isActive",) for interval in PACES),
        *(f"{condition} ? POLL_FAST_SECONDS : POLL_SLOW_SECONDS" for condition in ("isRetried", "isInProgress")),
    }
    independent = {
        module for module, interval, is_dependent in polls if "POLL_SLOW_SECONDS" in interval and not is_dependent
    }
    assert independent == {"overview/overview.tsx"}
