"""What is seen in the console is live."""

import re
from pathlib import Path

from tests.functions.admin_api.in_node import PAGES, passed

PACES = ("LIVE_SECONDS", "LEADING_SECONDS", "STEADY_SECONDS")


def test_questions_are_asked_each_second_while_something_moves(tmp_path: Path) -> None:
    assert passed("live", tmp_path, API_MODULE="api") == 4


def test_whatever_is_asked_again_is_asked_as_often_as_live_means() -> None:
    """What is asked for less often hangs on another answer, or is the banner of queues that are paused."""
    asked = [
        (path.relative_to(PAGES).as_posix(), " ".join(pace.split()), "version" in more)
        for path in PAGES.rglob("*.js")
        if path.name != "api.js"
        for pace, more in re.findall(r"],?\s+\{\s+every: ([^,}]+)([^}]*)\}", path.read_text())
    ]
    assert len(asked) > 15
    assert {pace for _, pace, _ in asked} <= {
        *("LIVE_SECONDS", "0 : LIVE_SECONDS", "LEADING_SECONDS", "STEADY_SECONDS"),
        *(f"{when} ? 0 : {pace}" for when in ("cursor", "wanted.cursor") for pace in PACES),
        *(f"{when} ? {pace} : 0" for when in ("alive",) for pace in PACES),
        "isTried ? LIVE_SECONDS : STEADY_SECONDS",
    }
    alone = {where for where, pace, hangs in asked if "STEADY_SECONDS" in pace and not hangs}
    assert alone == {"overview/overview.js"}
