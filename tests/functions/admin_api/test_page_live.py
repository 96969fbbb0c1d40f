"""What is seen in the console is live."""

import re
from pathlib import Path

from tests.functions.admin_api.in_node import PAGES, passed


def test_questions_are_asked_each_second_while_something_moves(tmp_path: Path) -> None:
    assert passed("live", tmp_path, API_MODULE="api") == 4


def test_whatever_is_asked_again_is_asked_as_often_as_live_means() -> None:
    texts = [path.read_text() for path in PAGES.rglob("*.js") if path.name != "api.js"]
    views = [text for text in texts if "useAnswer(" in text]
    paces = [pace.strip() for view in views for pace in re.findall(r"\bevery(?::| =) ([^,;}\n]+)", view)]
    assert len(paces) > 15
    assert {re.sub(r"^[\w.]+ \? ", "", pace) for pace in paces} == {
        "LIVE_SECONDS",
        "0 : LIVE_SECONDS",
        "LIVE_SECONDS : 0",
    }
