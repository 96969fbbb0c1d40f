"""Subqueries that lock a limited number of rows run once in every query plan."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = [*(ROOT / "layers" / "shared").rglob("*.py"), *(ROOT / "functions").rglob("*.py")]
SOURCES += [path for path in (ROOT / "migrations").glob("*.sql") if not path.name.endswith(".rollback.sql")]
LIMITED = re.compile(r"\bLIMIT\s+\S+\s+FOR\s+(?:NO\s+KEY\s+)?UPDATE")
RUN_ONCE = re.compile(r"(?:ARRAY|AS MATERIALIZED|=) ?\($")
"""Text before a subquery that runs only once: an array, a materialized CTE or a single value."""


def test_limited_locks_are_in_subqueries_that_run_once() -> None:
    """Other subqueries may run once per outer row, and lock more rows each time."""
    found, violations = 0, []
    for path in SOURCES:
        text = path.read_text()
        for match in LIMITED.finditer(text):
            found += 1
            preceding = text[: match.start()]
            start = _opening(preceding)
            if start is not None and not RUN_ONCE.search(preceding[: start + 1]):
                violations.append(f"{path.relative_to(ROOT)}:{preceding.count(chr(10)) + 1}")
    assert found >= 5
    assert violations == []


def _opening(text: str) -> int | None:
    """Return the position of the innermost unclosed parenthesis, or None."""
    depth = 0
    for position in range(len(text) - 1, text.rfind('"""'), -1):
        depth += {")": 1, "(": -1}.get(text[position], 0)
        if depth < 0:
            return position
    return None
