"""Polling of the console."""

import re
from pathlib import Path

from tests.functions.admin_api.node_tests import PAGES, passed

PACES = ("POLL_FAST_SECONDS", "POLL_LEADER_SECONDS", "POLL_SLOW_SECONDS")


def test_active_page_polls_every_second(tmp_path: Path) -> None:
    assert passed("live", tmp_path, API_MODULE="api") == 4


def test_every_poll_has_a_known_interval() -> None:
    """Slow polls depend on another response, except for the banner of paused queues."""
    polls = [
        (path.relative_to(PAGES).as_posix(), " ".join(pace.split()), "version" in more)
        for path in PAGES.rglob("*.ts*")
        if path.name not in {"api.ts", "api_types.ts"}
        for pace, more in re.findall(r"],?\s+\{\s+every: ([^,}]+)([^}]*)\}", path.read_text())
    ]
    assert len(polls) > 15
    assert {pace for _, pace, _ in polls} <= {
        *("POLL_FAST_SECONDS", "0 : POLL_FAST_SECONDS", "POLL_LEADER_SECONDS", "POLL_SLOW_SECONDS"),
        *(f"{when} ? 0 : {pace}" for when in ("cursor", "filter.cursor") for pace in PACES),
        *(f"{when} ? {pace} : 0" for when in ("isActive",) for pace in PACES),
        *(f"{when} ? POLL_FAST_SECONDS : POLL_SLOW_SECONDS" for when in ("isRetried", "isInProgress")),
    }
    independent = {module for module, pace, is_dependent in polls if "POLL_SLOW_SECONDS" in pace and not is_dependent}
    assert independent == {"overview/overview.tsx"}
