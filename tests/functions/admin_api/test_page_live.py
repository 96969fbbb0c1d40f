"""Polling of the console."""

import re
from pathlib import Path

from tests.functions.admin_api.in_node import PAGES, passed

PACES = ("LIVE_SECONDS", "LEADING_SECONDS", "STEADY_SECONDS")


def test_active_page_polls_every_second(tmp_path: Path) -> None:
    assert passed("live", tmp_path, API_MODULE="api") == 4


def test_every_poll_has_a_known_interval() -> None:
    """Slower polls depend on another response, except for the banner of paused queues."""
    polls = [
        (path.relative_to(PAGES).as_posix(), " ".join(pace.split()), "version" in more)
        for path in PAGES.rglob("*.js")
        if path.name != "api.js"
        for pace, more in re.findall(r"],?\s+\{\s+every: ([^,}]+)([^}]*)\}", path.read_text())
    ]
    assert len(polls) > 15
    assert {pace for _, pace, _ in polls} <= {
        *("LIVE_SECONDS", "0 : LIVE_SECONDS", "LEADING_SECONDS", "STEADY_SECONDS"),
        *(f"{when} ? 0 : {pace}" for when in ("cursor", "wanted.cursor") for pace in PACES),
        *(f"{when} ? {pace} : 0" for when in ("alive",) for pace in PACES),
        "isTried ? LIVE_SECONDS : STEADY_SECONDS",
    }
    independent = {module for module, pace, is_dependent in polls if "STEADY_SECONDS" in pace and not is_dependent}
    assert independent == {"overview/overview.js"}
