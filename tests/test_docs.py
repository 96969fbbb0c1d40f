"""The documentation is consistent with the code."""

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
from infra.alarm_table import ALARMS, AlarmSpec, Scope
from infra.worker_table import WORKERS, WorkerSpec
from tools import api_reference

LOCAL_CONTEXT = {"stage", "databaseUrl", "endpoint", "timeout"}
"""Context values that `counterfoil up` sets for the local cloud."""
ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PACKAGE = ROOT / "layers" / "shared" / "python" / "counterfoil"
DOCS = ROOT / "docs"
OPERATIONS, DEPLOY = ((DOCS / name).read_text() for name in ("operations.md", "deploy.md"))
RUNBOOK = {page.stem: page.read_text() for page in (DOCS / "runbook").glob("*.md") if page.stem != "README"}
ALARM_TABLE = (DOCS / "runbook" / "README.md").read_text()


def anchors(text: str) -> set[str]:
    """Return the anchors that Markdown viewers create for the headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.name)
def test_readme_lists_every_worker_with_its_concurrency_limit(row: WorkerSpec) -> None:
    assert f"| `{row.name}` | {row.trigger} | {row.description} | {row.concurrency_limit or '-'} |\n" in README


def test_readme_names_only_existing_workers() -> None:
    table = README.split("## Architecture")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {row.name for row in WORKERS}


def test_deploy_page_states_concurrency_and_connection_totals() -> None:
    assert f"reserve {sum(row.reserved_concurrency for row in WORKERS)} concurrent executions" in DEPLOY
    assert f"{sum(row.connections for row in WORKERS)} with the table as it is" in DEPLOY


@pytest.mark.parametrize("row", WORKERS, ids=lambda row: row.name)
def test_runbook_has_page_for_every_worker_alarm(row: WorkerSpec) -> None:
    assert {row.runbook_page(alarm) for alarm in row.alarms} <= RUNBOOK.keys()


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
def test_runbook_describes_every_alarm_condition(alarm: AlarmSpec) -> None:
    subjects = {Scope.WORKER: "each worker", Scope.RETRIES: "each worker with a retry queue"}
    subject = subjects.get(alarm.scope, "all")
    requeue_threshold = "" if alarm.requeued is None else f" (with a retry queue: {alarm.requeued:g})"
    minutes = alarm.minutes * alarm.periods
    duration = "" if minutes == 1 else f" over {minutes} minutes" if alarm.periods == 1 else f" for {minutes} minutes"

    line = (
        f"| [{alarm.name}]({alarm.name}.md) | {subject} | value > {alarm.threshold:g}{requeue_threshold}{duration} |"
        f" {alarm.severity} |"
    )
    assert line in ALARM_TABLE.splitlines()
    assert alarm.name in RUNBOOK


def test_runbook_describes_only_existing_alarms() -> None:
    pages = {spec.name for spec in ALARMS} | {row.runbook_page(alarm) for row in WORKERS for alarm in row.alarms}

    assert RUNBOOK.keys() == pages


@pytest.mark.parametrize("page", RUNBOOK)
def test_runbook_pages_have_the_same_sections(page: str) -> None:
    assert RUNBOOK[page].startswith(f"# {page}\n")
    assert re.findall(r"^## (.+)$", RUNBOOK[page], re.MULTILINE) == ["Meaning", "First look", "Fix", "Verify"]


def test_api_reference_is_current() -> None:
    assert api_reference.PAGE.read_text() == api_reference.reference()


def test_decision_index_lists_every_decision() -> None:
    index = (DOCS / "adr" / "README.md").read_text()
    pages = sorted(page.name for page in (DOCS / "adr").glob("0*.md"))

    assert re.findall(r"\]\(([^)]+)\)", index) == pages


def test_operations_page_lists_exactly_the_emitted_metrics() -> None:
    table = OPERATIONS.split("## Metrics")[1].split("\n## ")[0]

    documented = [
        name for cell in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    ]
    assert sorted(documented) == sorted(Metric)


STATEMENTS = [
    statement
    for page in RUNBOOK.values()
    for statement in re.findall(r"^```sql\n(.+?)^```", page, re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize("statement", STATEMENTS, ids=range(len(STATEMENTS)))
def test_every_runbook_statement_runs_as_maintenance(statement: str, maintenance_database_url: str) -> None:
    with psycopg.connect(maintenance_database_url) as connection:
        connection.execute(statement.encode())


def test_deploy_page_lists_every_context_value() -> None:
    section = DEPLOY.split("## Settings")[1].split("\n### ")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))

    assert documented == set(re.findall(r"^\| `(\w+)` \|", infra.context.__doc__ or "", re.MULTILINE)) - LOCAL_CONTEXT


def test_readme_names_every_domain() -> None:
    (row,) = re.findall(r"^\| `layers/shared/python/counterfoil/` \| (.+) \|$", README, re.MULTILINE)
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert set(re.findall(r"`(\w+)/`", row)) == packages
    assert all((PACKAGE / name).is_file() for name in re.findall(r"`(\w+\.py)`", row))


def example_of(recipe: str, language: str) -> str:
    """Return the code block of a section in CONTRIBUTING.md."""
    section = (ROOT / "CONTRIBUTING.md").read_text().split(f"\n## {recipe}\n")[1].split("\n## ")[0]
    (example,) = re.findall(rf"^```{language}\n(.+?)^```", section, re.MULTILINE | re.DOTALL)
    return str(example)


def test_task_type_example_works() -> None:
    example = example_of("Add a task type", "python")
    names: dict[str, Any] = {"__name__": "example"}

    exec(example, names)

    type_ = names["REPEAT"]
    assert isinstance(type_, TaskType)
    assert type_.run(Mock(), type_.read({"text": "ab", "times": 2}), Services()) == {"text": "abab"}


def test_lexicon_entry_example_works(monkeypatch: pytest.MonkeyPatch) -> None:
    example = example_of("Add a lexicon entry", "toml")
    ((concept, (added_words,)),) = lexicon.parse(example).items()
    ((term,),) = added_words.terms.values()
    assert term not in lexicon.READER.terms(f"titles.{concept}", added_words.means)

    extended_titles = lexicon.parse((lexicon.FOLDER / "titles.toml").read_text() + example)
    monkeypatch.setattr(lexicon, "groups", {"titles": extended_titles}.__getitem__)

    for user in added_words.used_by:
        assert term in lexicon.Vocabulary(user).terms(f"titles.{concept}", added_words.means)


def test_einvoice_format_example_works(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(example_of("Add an e-invoice format", "python"), names)
    monkeypatch.setattr(filetype, "ROOTS", ((r"\{urn:example\}Bill", "example"),))
    monkeypatch.setattr(extract, "READERS", {"example": names["read"]})

    result = extract.extract_xml(b'<Bill xmlns="urn:example"><Number>17</Number><Date>2026-01-02</Date></Bill>')

    assert result.type == DocumentType.INVOICE
    assert result.structured_data is not None
    assert result.structured_data["invoice_number"] == "17"
    assert result.structured_data["invoice_date"] == "2026-01-02"


def test_every_einvoice_format_has_root_and_reader() -> None:
    formats = set(filetype.Dialect) - {filetype.Dialect.OTHER}
    assert formats == {dialect for _, dialect in filetype.ROOTS} == extract.READERS.keys()


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(page.relative_to(ROOT)) for page in DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES)
def test_every_internal_link_has_target(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        target_path = (path.parent / name) if name else path
        assert target_path.exists(), target
        assert not anchor or anchor in anchors(target_path.read_text()), target
