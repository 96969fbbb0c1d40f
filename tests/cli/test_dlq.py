"""Dead letters are listed, grouped, counted and shown on the command line."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from cli.commands.dead_letters import _age
from cli.commands.dlq import app
from cli.failures import UsageError
from cli.output import bars
from counterfoil.db import Connection, Database
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter, dead_letter_factory


@pytest.fixture
def make_dead_letter(
    make_tenant: Callable[..., UUID],
    api: None,
    database: Database,
) -> MakeDeadLetter:
    """`make_dead_letter(...)` creates a dead letter for the only tenant."""
    return dead_letter_factory(database, make_tenant("acme"))


def run(*words: object, columns: int = 120) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": str(columns)})
    if result.exception is not None:
        raise result.exception
    return result.output


def call(*words: object) -> Any:
    """Run a command with --json, and return its output."""
    return json.loads(run(*words, "--json"))


def listed_ids(*words: object) -> list[str]:
    return [dead_letter["job_id"] for dead_letter in call("list", *words)]


def test_dead_letters_are_listed_newest_first(make_dead_letter: MakeDeadLetter) -> None:
    first, second = (
        make_dead_letter("The disk is full"),
        make_dead_letter("Reading timed out", minute=1, task_type="echo"),
    )

    output = run("list").splitlines()

    assert output[0].split() == ["id", "type", "status", "time", "file", "and", "error"]
    assert [line.split()[:3] for line in output[1:]] == [
        [str(second)[-8:], "echo", "pending"],
        [str(first)[-8:], "ingestion", "pending"],
    ]
    assert "2026-03-02 12:01  invoice.pdf TimeoutError: Reading timed out" in output[1]
    assert (
        call("list")[1]
        | {
            "tenant": "acme",
            "job_id": str(first),
            "dlq_timestamp": "2026-03-02T12:00:00Z",
            "version": 1,
        }
        == call("list")[1]
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--status", "pending"], [2, 1]),
        (["--status", "resolved", "--status", "pending"], [2, 1, 0]),
        (["--status", "ignored"], []),
        (["--type", "echo"], [1]),
        (["--since", "2026-03-02T12:01"], [2, 1]),
        (["--until", "2026-03-02T13:01+01:00"], [0]),
        (["--since", "2026-03-03"], []),
        (["--search", "page timed"], [1, 0]),
        (["--search", "order"], [2]),
        (["--limit", "1"], [2]),
        (["--search", "page", "--limit", "1"], [1]),
        (["--tenant", "acme"], [2, 1, 0]),
    ],
)
def test_list_is_filtered(
    words: list[str], expected: list[int], make_dead_letter: MakeDeadLetter, admin: Connection
) -> None:
    job_ids = [make_dead_letter("Page 1 timed out"), make_dead_letter("Page 2 timed out", minute=1, task_type="echo")]
    job_ids.append(make_dead_letter("The disk is full", minute=2, file_name="order.pdf"))
    admin.execute("UPDATE dead_letter SET status = 'resolved' WHERE job_id = %s", [job_ids[0]])

    assert listed_ids(*words) == [str(job_ids[number]) for number in expected]


def test_unassigned_dead_letters_are_listed_and_counted(
    make_dead_letter: MakeDeadLetter, database: Database, admin: Connection
) -> None:
    theirs, unassigned = make_dead_letter("The disk is full"), make_dead_letter("The disk is full", minute=1)
    admin.execute("UPDATE dead_letter SET tenant_id = NULL WHERE job_id = %s", [unassigned])

    assert listed_ids() == [str(unassigned), str(theirs)]
    assert listed_ids("--tenant", "acme") == [str(theirs)]
    assert sorted(entry["tenant"] for entry in call("stats")) == ["-", "acme"]


def test_limit_applies_across_tenants(
    make_dead_letter: MakeDeadLetter, make_tenant: Callable[..., UUID], database: Database
) -> None:
    others = dead_letter_factory(database, make_tenant("globex"))
    for minute in range(4):
        make_dead_letter("The disk is full", minute=minute)
        newest = others("Reading timed out", minute=minute + 0.5)

    assert len(listed_ids("--limit", 3)) == 3
    assert listed_ids("--limit", 1) == [str(newest)]
    assert len(call("groups", "--limit", 1)) == 1


def test_search_reads_pages_until_the_limit(make_dead_letter: MakeDeadLetter, monkeypatch: pytest.MonkeyPatch) -> None:
    job_ids = [
        make_dead_letter(f"File '{'even' if number % 2 else 'odd'}' is missing", minute=number) for number in range(12)
    ]
    monkeypatch.setattr("counterfoil.dead_letters.search.RARE_WORD_LIMIT", 1)
    monkeypatch.setattr("counterfoil.dead_letters.search.SCAN_LIMIT", (2,))

    assert listed_ids("--search", "even", "--limit", 5) == [str(job_id) for job_id in job_ids[::-2][:5]]


def test_group_is_found_by_fingerprint_prefix(make_dead_letter: MakeDeadLetter) -> None:
    job_id = make_dead_letter("Page 1 timed out")
    make_dead_letter("The disk is full")
    fingerprint = call("show", job_id)["fingerprint"]

    assert listed_ids("--group", fingerprint[:4]) == listed_ids("--group", fingerprint) == [str(job_id)]
    for text in ("", fingerprint[:3], "zzzz", "%%%%"):
        with pytest.raises(UsageError, match="No group fingerprint begins with"):
            run("list", "--group", text)


def test_show_finds_a_dead_letter_by_id_suffix(make_dead_letter: MakeDeadLetter, admin: Connection) -> None:
    work_id = uuid4()
    make_dead_letter("The disk is full", work_id=work_id)
    job_id = make_dead_letter("Reading timed out", work_id=work_id, revision=2, minute=5)
    admin.execute(
        """UPDATE dead_letter SET status = 'resolved', resolved_by = 'ann', resolved_at = dlq_timestamp,
                                  resolution = '{"action": "resolved", "notes": "The disk is larger now."}'"""
    )

    output = run("show", str(job_id)[-8:])

    assert f"ingestion  acme  {job_id}  resolved" in output
    assert "2026-03-02 12:05:00 UTC by ann: The disk is larger now." in output
    assert f"{work_id}, revision 2" in output
    assert '"file_name": "invoice.pdf"' in output
    deaths = [line for line in output.splitlines() if "  failed  " in line and ":00  failed" in line]
    assert [line.split(maxsplit=4)[4].strip() for line in deaths] == [
        "TimeoutError: The disk is full",
        "TimeoutError: Reading timed out",
    ]
    whole = call("show", job_id)
    assert ["version", str(whole["version"])] in [line.split() for line in output.splitlines()]
    assert ([entry["kind"] for entry in whole["timeline"]], len(whole["previous_failures"])) == (
        ["dead_lettered", "dead_lettered"],
        1,
    )


def test_show_prints_log_commands_for_attempts(make_dead_letter: MakeDeadLetter, admin: Connection) -> None:
    work_id = uuid4()
    job_id = make_dead_letter(work_id=work_id, revision=2)
    for revision, minute in ((1, 0), (2, 10), (2, 20)):
        admin.execute(
            "INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome)"
            " SELECT tenant_id, 'ingestion', work_id, %s, %s, %s, %s, 'retry' FROM dead_letter",
            [revision, minute + 1, NOON + timedelta(minutes=minute), NOON + timedelta(minutes=minute + 1)],
        )

    output = run("show", job_id, columns=60).splitlines()

    noon = int(NOON.timestamp()) * 1000
    assert output[-2:] == [
        "aws logs filter-log-events --log-group-name /aws/lambda/counterfoil-ingestion"
        f" --start-time {noon + since * 60_000} --end-time {noon + until * 60_000}"
        f""" --filter-pattern '{{ $.work_id = "{work_id}" && $.revision = {revision} }}'"""
        for revision, since, until in ((1, -1, 2), (2, 9, 22))
    ]


def test_show_prints_trace_commands_in_batches_of_five(make_dead_letter: MakeDeadLetter, admin: Connection) -> None:
    job_id = make_dead_letter(work_id=uuid4())
    admin.execute(
        "INSERT INTO work_attempt "
        "(tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome, trace_id)"
        " SELECT tenant_id, 'ingestion', work_id, 1, n, %s, %s + n * interval '1 s', 'retry',"
        " '1-67891233-' || lpad(n::text, 24, '0') FROM dead_letter, generate_series(1, 6) AS n",
        [NOON, NOON],
    )

    output = run("show", job_id, columns=60).splitlines()

    first, last = (" ".join(f"1-67891233-{n:024}" for n in some) for some in (range(1, 6), [6]))
    assert output[-2:] == [f"aws xray batch-get-traces --trace-ids {ids}" for ids in (first, last)]


def test_unknown_id_status_tenant_and_time_are_refused(make_dead_letter: MakeDeadLetter) -> None:
    make_dead_letter()
    for text in ("ffff", "f", "'; --"):
        with pytest.raises(UsageError, match="No dead letter id ends with"):
            run("show", text)
    for words in (["list", "--status", "dead"], ["groups", "--status", "dead"]):
        with pytest.raises(UsageError, match="The state 'dead' is unknown: use one of pending"):
            run(*words)
    with pytest.raises(UsageError, match="no such tenant"):
        run("stats", "--tenant", "missing")
    with pytest.raises(UsageError, match="'soon' is not a time"):
        run("list", "--since", "soon")


def test_long_payload_is_truncated(make_dead_letter: MakeDeadLetter, admin: Connection) -> None:
    job_id = make_dead_letter()
    admin.execute("UPDATE dead_letter SET payload = jsonb_build_object('body', repeat('x', 100000))")

    output = run("show", job_id)

    assert len(output) < 6000
    assert "characters. To see all of it, use --json." in output
    assert len(call("show", job_id)["payload"]["body"]) == 100_000


def test_groups_show_counts_and_last_times(make_dead_letter: MakeDeadLetter) -> None:
    minutes = (datetime.now(UTC) - NOON) / timedelta(minutes=1)
    for hour in (5, 3, 3):
        make_dead_letter(f"Page {hour} timed out", minute=minutes - 60 * hour - 1)
    make_dead_letter("The disk is full", minute=minutes - 3 * 24 * 60 - 1)

    header, timed_out, disk_full = run("groups").splitlines()

    assert header.split() == ["group", "count", "pending", "last", "24", "hours", "error"]
    assert timed_out.split()[1:5] == ["3", "3", "3", "h"]
    assert "ingestion TimeoutError: Page 3 timed out" in timed_out
    assert disk_full.split()[1:5] == ["1", "1", "3", "d"]
    assert [(entry["count"], sum(entry["trend"])) for entry in call("groups")] == [(3, 3), (1, 0)]


def test_dead_letters_are_counted(make_dead_letter: MakeDeadLetter, admin: Connection) -> None:
    job_id = make_dead_letter(task_type="echo")
    make_dead_letter(task_type="echo")
    make_dead_letter()
    admin.execute("UPDATE dead_letter SET status = 'ignored' WHERE job_id = %s", [job_id])

    rows = [line.split() for line in run("stats").splitlines() if line.strip()]

    assert rows == [
        ["type", "pending", "retried", "resolved", "ignored", "all"],
        ["echo", "1", "0", "0", "1", "2"],
        ["ingestion", "1", "0", "0", "0", "1"],
        ["all", "2", "0", "0", "1", "3"],
    ]
    assert call("stats")[0] == {
        "tenant": "acme",
        "task_type": "echo",
        "count": 2,
        "pending": 1,
        "retried": 0,
        "resolved": 0,
        "ignored": 1,
    }


def test_tables_show_the_tenant_column_for_several_tenants(
    make_dead_letter: MakeDeadLetter, make_tenant: Callable[..., UUID], database: Database
) -> None:
    ours, theirs = make_dead_letter(), dead_letter_factory(database, make_tenant("zenith"))(minute=1)

    assert [(entry["tenant"], entry["job_id"]) for entry in call("list")] == [
        ("zenith", str(theirs)),
        ("acme", str(ours)),
    ]
    assert listed_ids("--tenant", "acme") == [str(ours)]
    for command in ("list", "groups", "stats"):
        output = run(command)
        assert (output.split()[0], "zenith" in output, "acme" in output) == ("tenant", True, True)
        assert "zenith" not in run(command, "--tenant", "acme")


def test_unassigned_dead_letter_is_found_by_id_suffix(make_dead_letter: MakeDeadLetter, admin: Connection) -> None:
    job_id = str(make_dead_letter())
    admin.execute("UPDATE dead_letter SET tenant_id = NULL, work_id = NULL, revision = NULL")

    assert listed_ids("--tenant", "-") == [job_id]
    assert call("show", job_id[-8:])["tenant"] == "-"


@pytest.mark.usefixtures("make_dead_letter")
def test_empty_tables_print_a_sentence() -> None:
    assert run("list") == run("groups") == "No dead letters found.\n"
    assert run("stats") == "There are no dead letters.\n"
    assert [call(command) for command in ("list", "groups", "stats")] == [[], [], []]


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit_the_terminal_despite_long_errors(
    columns: int, make_dead_letter: MakeDeadLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = make_dead_letter(
        "\x1b[31mred\n" + "Ünï 文文 " * 300, worker="document_output", task_type="chat_completion"
    )
    monkeypatch.setattr("cli.output.MIN_WIDTH", columns)

    for words in (["list"], ["groups"], ["stats"], ["show", job_id]):
        output = run(*words, columns=columns)
        assert max(cell_len(line) for line in output.splitlines()) <= columns
        assert "\x1b" not in output
        assert len(output) < (4000 if words[0] == "show" else 1500)


@pytest.mark.parametrize(
    ("minutes", "text"), [(0, "0 min"), (119.9, "119 min"), (120, "2 h"), (47 * 60, "47 h"), (48 * 60, "2 d")]
)
def test_age_is_shown_in_one_unit(minutes: float, text: str) -> None:
    assert _age(timedelta(minutes=minutes)) == text


def test_trend_is_scaled_to_its_maximum() -> None:
    assert bars([0] * 24, 12) == " " * 12
    assert bars([0] * 22 + [1, 0], 12) == " " * 11 + "█"
    assert bars([1, 0] + [0] * 20 + [8, 8], 12) == "▁" + " " * 10 + "█"
