"""What exists is documented, and what is documented exists."""

import re
from pathlib import Path

import pytest

from infra.workers import WORKERS, Row

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def anchors(text: str) -> set[str]:
    """The anchors that a Markdown viewer makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.name)
def test_every_worker_is_in_the_readme_with_what_feeds_it_and_its_gate(row: Row) -> None:
    assert f"| `{row.name}` | {row.fed_by} | {row.does} | {row.gate or '-'} |\n" in README


def test_the_readme_names_no_worker_that_does_not_exist() -> None:
    table = README.split("## Workers")[1].split("##")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {row.name for row in WORKERS}


@pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.name)
def test_every_alarm_has_a_page_in_the_runbook(row: Row) -> None:
    assert {f"{row.name}-{alarm}" for alarm in row.alarms} <= anchors(OPERATIONS)


@pytest.mark.parametrize("page", ["README.md", "docs/why.md", "docs/operations.md"])
def test_every_link_to_a_file_or_heading_of_the_project_leads_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / name) if name else path
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked.read_text()), target
