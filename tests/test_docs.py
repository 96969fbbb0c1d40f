"""What exists is documented, and what is documented exists."""

import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

import infra.context
from counterfoil.documents import filetype, lexicon
from counterfoil.documents.einvoice import extract
from counterfoil.documents.structured import DocumentType
from counterfoil.metrics import Metric
from counterfoil.tasks.task_type import Services, TaskType
from infra.alarm_table import WATCHES, Scope, Watch
from infra.worker_table import WORKERS, Row

LOCAL_CONTEXT = {"stage", "databaseUrl", "endpoint", "timeout"}
"""What the local cloud is told by `counterfoil up`."""
ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PACKAGE = ROOT / "layers" / "shared" / "python" / "counterfoil"
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


def test_what_the_functions_take_of_the_account_and_of_the_database_is_told_in_its_numbers() -> None:
    assert f"reserve {sum(row.reserved_concurrency for row in WORKERS)} concurrent executions" in OPERATIONS
    assert f"{sum(row.connections for row in WORKERS)} with the table as it is" in OPERATIONS


@pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.name)
def test_every_alarm_has_a_page_in_the_runbook(row: Row) -> None:
    assert {f"{row.name}-{alarm}" for alarm in row.alarms} <= anchors(OPERATIONS)


@pytest.mark.parametrize("watch", WATCHES, ids=lambda watch: watch.name)
def test_every_alarm_of_the_table_has_a_section_and_a_line_that_says_when_it_goes_off(watch: Watch) -> None:
    subjects = {Scope.WORKER: "each worker", Scope.RETRIES: "each worker with a queue for retries"}
    subject = subjects.get(watch.scope, "all")
    requeued = "" if watch.requeued is None else f" (with a queue for retries: {watch.requeued:g})"
    lasts = watch.minutes * watch.periods
    how = "" if lasts == 1 else f" over {lasts} minutes" if watch.periods == 1 else f" for {lasts} minutes"

    line = (
        f"| [{watch.name}](#{watch.name}) | {subject} | value > {watch.threshold:g}{requeued}{how} | {watch.severity} |"
    )
    assert line in OPERATIONS.splitlines()
    assert f"\n### {watch.name}\n" in OPERATIONS


def test_the_runbook_has_no_section_about_an_alarm_that_does_not_exist() -> None:
    sections = re.findall(r"^### (.+)$", OPERATIONS.split("## Alarms")[1], re.MULTILINE)

    assert set(sections) == {watch.name for watch in WATCHES} | {
        f"{row.name}-{alarm}" for row in WORKERS for alarm in row.alarms
    }
    assert len(sections) == len(set(sections))


def test_the_list_of_metrics_is_what_the_code_can_emit() -> None:
    table = OPERATIONS.split("## Metrics")[1].split("\n## ")[0]

    listed = [
        name for cell in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    ]
    assert sorted(listed) == sorted(Metric)


STATEMENTS = re.findall(r"^```sql\n(.+?)^```", OPERATIONS, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("statement", STATEMENTS, ids=range(len(STATEMENTS)))
def test_every_statement_of_the_runbook_runs_as_the_user_that_it_names(
    statement: str, keeper_database_url: str
) -> None:
    with psycopg.connect(keeper_database_url) as connection:
        connection.execute(statement.encode())


def test_every_context_of_a_deployment_is_in_the_runbook_and_is_one() -> None:
    section = OPERATIONS.split("### What a deployment may be told")[1].split("\n## ")[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))

    assert listed == set(re.findall(r"^\| `(\w+)` \|", infra.context.__doc__ or "", re.MULTILINE)) - LOCAL_CONTEXT


def test_readme_names_every_domain() -> None:
    (row,) = re.findall(r"^\| `layers/shared/python/counterfoil/` \| (.+) \|$", README, re.MULTILINE)
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert set(re.findall(r"`(\w+)/`", row)) == packages
    assert all((PACKAGE / name).is_file() for name in re.findall(r"`(\w+\.py)`", row))


def example_of(recipe: str, language: str) -> str:
    """Return the code block of a recipe in CONTRIBUTING.md."""
    section = (ROOT / "CONTRIBUTING.md").read_text().split(f"\n## {recipe}\n")[1].split("\n## ")[0]
    (example,) = re.findall(rf"^```{language}\n(.+?)^```", section, re.MULTILINE | re.DOTALL)
    return str(example)


def test_example_of_a_task_type_works() -> None:
    example = example_of("Add a task type", "python")
    names: dict[str, Any] = {"__name__": "example"}

    exec(example, names)

    type_ = names["REPEAT"]
    assert isinstance(type_, TaskType)
    assert type_.run(Mock(), type_.read({"text": "ab", "times": 2}), Services()) == {"text": "abab"}


def test_example_of_a_lexicon_entry_works(monkeypatch: pytest.MonkeyPatch) -> None:
    example = example_of("Add a lexicon entry", "toml")
    ((concept, (added,)),) = lexicon.parse(example).items()
    ((term,),) = added.terms.values()
    assert term not in lexicon.READER.terms(f"titles.{concept}", added.means)

    extended = lexicon.parse((lexicon.FOLDER / "titles.toml").read_text() + example)
    monkeypatch.setattr(lexicon, "groups", {"titles": extended}.__getitem__)

    for user in added.used_by:
        assert term in lexicon.Vocabulary(user).terms(f"titles.{concept}", added.means)


def test_example_of_an_einvoice_format_works(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(example_of("Add an e-invoice format", "python"), names)
    monkeypatch.setattr(filetype, "ROOTS", ((r"\{urn:example\}Bill", "example"),))
    monkeypatch.setattr(extract, "READERS", {"example": names["read"]})

    found = extract.extract_xml(b'<Bill xmlns="urn:example"><Number>17</Number><Date>2026-01-02</Date></Bill>')

    assert found.type == DocumentType.INVOICE
    assert found.structured_data is not None
    assert found.structured_data["invoice_number"] == "17"
    assert found.structured_data["invoice_date"] == "2026-01-02"


def test_every_einvoice_format_has_a_root_and_a_reader() -> None:
    formats = set(filetype.Dialect) - {filetype.Dialect.OTHER}
    assert formats == {dialect for _, dialect in filetype.ROOTS} == extract.READERS.keys()


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_or_heading_of_the_project_leads_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / name) if name else path
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked.read_text()), target
