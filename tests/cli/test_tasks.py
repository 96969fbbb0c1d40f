"""Tasks are submitted, listed, shown and canceled on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.commands.tasks import STYLES, app
from cli.failures import UsageError
from counterfoil.db import Connection
from counterfoil.tasks.store import Status
from tests.delivery.harness import FakeSqs
from tests.factories import NOW
from tests.tasks.conftest import rows

QUEUE = "counterfoil-tasks"


@pytest.fixture(autouse=True)
def acme(make_tenant: Callable[..., UUID], api: None) -> UUID:
    """The API's only tenant."""
    return make_tenant("acme")


def run(*words: object, stdin: str | bytes | None = None) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin, env={"COLUMNS": "160"})
    if result.exception is not None:
        raise result.exception
    return result.output


def call(*words: object) -> Any:
    """Run a command with --json, and return its output."""
    return json.loads(run(*words, "--json"))


def test_submit_stores_a_task_and_sends_its_message(queue: FakeSqs, admin: Connection) -> None:
    output = run("submit", "echo", '{"text": "hello"}', "--max-retry", 2)

    (row,) = rows(admin, "task")
    assert (row["payload"], row["max_retry"], row["user_id"]) == ({"text": "hello"}, 2, "lee")
    assert [json.loads(sent["MessageBody"])["job_id"] for sent in queue.sent[QUEUE]] == [str(row["id"])]
    assert str(row["id"]) in output
    assert "pending" in output


def test_the_same_key_submits_one_task(queue: FakeSqs) -> None:
    first = call("submit", "echo", "{}", "--key", "k")

    assert call("submit", "echo", "--key", "k")["job_id"] == first["job_id"]
    assert "submitted before" in run("submit", "echo", "--key", "k")
    assert len(queue.sent[QUEUE]) == 1
    with pytest.raises(UsageError, match="belongs to another request"):
        run("submit", "echo", '{"a": 1}', "--key", "k")


def test_payload_is_read_from_file_or_stdin(queue: FakeSqs, admin: Connection, tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('{"from": "file"}', encoding="utf-8")
    run("submit", "echo", f"@{tmp_path / 'payload.json'}")
    run("submit", "echo", "-", stdin='{"from": "standard input"}')

    assert sorted(row["payload"]["from"] for row in rows(admin, "task")) == ["file", "standard input"]
    assert len(queue.sent[QUEUE]) == 2


def test_invalid_utf8_on_stdin_is_refused(queue: FakeSqs, admin: Connection) -> None:
    with pytest.raises(UsageError, match=r"cannot be read from standard input: .*can't decode byte 0xff"):
        run("submit", "echo", "-", stdin=b'{"a": "\xff"}')
    assert (rows(admin, "task"), queue.sent[QUEUE]) == ([], [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "no such task_type. Valid types:"),
        (["http_request", '{"url": "https://example.com"}'], "HTTP_REQUEST_TASKS_ENABLED is not set"),
        (["echo", "[]"], "must be a JSON object"),
        (["echo", "{"], "must be a JSON object"),
        (["echo", "@/nowhere.json"], "cannot be read from '/nowhere.json': No such file"),
        (["echo", '{"a": "\\u0000"}'], "U\\+0000"),
        (["echo", "--tenant", "missing"], "no such tenant"),
    ],
)
def test_an_invalid_task_is_refused(queue: FakeSqs, admin: Connection, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run("submit", *words)
    assert (rows(admin, "task"), queue.sent[QUEUE]) == ([], [])


def test_several_tenants_require_the_tenant_option(queue: FakeSqs, make_tenant: Callable[..., UUID]) -> None:
    make_tenant("zenith")

    with pytest.raises(UsageError, match="Choose a tenant with --tenant: acme, zenith"):
        run("submit", "echo")
    assert call("submit", "echo", "--tenant", "zenith")["tenant"] == "zenith"
    call("submit", "echo", "--tenant", "acme")
    assert [task["tenant"] for task in call("list")] == ["acme", "zenith"]
    assert [task["tenant"] for task in call("list", "--tenant", "zenith")] == ["zenith"]
    assert len(queue.sent[QUEUE]) == 2


def test_wait_shows_the_result(queue: FakeSqs, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(seconds: float) -> None:
        assert seconds < 1
        admin.execute("UPDATE task SET status = 'succeeded', result = '{\"said\": \"hé\"}', ended_at = %s", [NOW])

    monkeypatch.setattr("time.sleep", work)

    output = run("submit", "echo", "--wait")

    assert queue.sent[QUEUE]
    assert "succeeded" in output
    assert '"said": "hé"' in output


def test_wait_exits_with_1_on_failure(queue: FakeSqs, admin: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = "UPDATE task SET status = 'failed', error = 'It was away.', failed_at = now()"
    monkeypatch.setattr("time.sleep", lambda _: admin.execute(failed))

    result = CliRunner().invoke(app, ["submit", "echo", "--wait"])

    assert queue.sent[QUEUE]
    assert (result.exit_code, "It was away." in result.output) == (1, True)


def test_show_finds_a_task_by_id_suffix(queue: FakeSqs, admin: Connection) -> None:
    job_id = call("submit", "echo")["job_id"]
    admin.execute("UPDATE task SET status = 'succeeded', result = '[1]', attempts = 2")
    for number, outcome in ((1, "retry"), (2, "succeeded")):
        admin.execute(
            """INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome,
                                         error)
               SELECT tenant_id, 'tasks', id, 1, %s, %s, %s, %s, 'It was away.' FROM task WHERE id = %s""",
            [number, NOW, NOW, outcome, job_id],
        )

    output = run("show", job_id[-8:])

    assert queue.sent[QUEUE]
    assert [line.split()[:1] for line in output.splitlines() if "It was away." in line] == [["1"], ["2"]]
    assert [attempt["outcome"] for attempt in call("show", job_id)["timeline"]] == ["retry", "succeeded"]
    for text in ("ffff", "f", "'; --"):
        with pytest.raises(UsageError, match="No task id ends with"):
            run("show", text)


def test_long_result_is_truncated(queue: FakeSqs, admin: Connection) -> None:
    job_id = call("submit", "echo")["job_id"]
    admin.execute("UPDATE task SET status = 'succeeded', result = to_jsonb(repeat('x', 100000)), ended_at = now()")

    output = run("show", job_id)

    assert queue.sent[QUEUE]
    assert len(output) < 6000
    assert "100002 characters. To see all of it, use --json." in output
    assert len(call("show", job_id)["result"]) == 100_000
    assert "result" not in call("list")[0]


def test_list_is_filtered_and_newest_first(queue: FakeSqs, admin: Connection) -> None:
    first, second = call("submit", "echo"), call("submit", "echo")
    admin.execute("UPDATE task SET status = 'failed', error = 'no', failed_at = now() WHERE id = %s", [first["job_id"]])

    assert [task["job_id"] for task in call("list")] == [second["job_id"], first["job_id"]]
    assert [task["job_id"] for task in call("list", "--status", "failed", "--type", "echo")] == [first["job_id"]]
    assert "No tasks found." in run("list", "--type", "chat_completion")
    (row,) = [line for line in run("list").splitlines() if first["job_id"][-8:] in line]
    assert row.split()[1:4] == ["echo", "failed", "0"]
    with pytest.raises(UsageError, match="no status 'running'"):
        run("list", "--status", "running")
    assert len(queue.sent[QUEUE]) == 2


def test_every_status_has_a_style() -> None:
    assert set(STYLES) == set(get_args(Status))


def test_only_unfinished_tasks_are_canceled(queue: FakeSqs, admin: Connection) -> None:
    first, second = call("submit", "echo")["job_id"], call("submit", "echo")["job_id"]
    admin.execute("UPDATE task SET status = 'succeeded', ended_at = now() WHERE id = %s", [second])

    assert "canceled" in run("cancel", first, "--by", "ann")
    assert {row["id"]: row["skip_reason"] for row in rows(admin, "task")}[UUID(first)] == "Canceled by ann."
    with pytest.raises(UsageError, match="has already succeeded"):
        run("cancel", second, "--by", "ann")
    assert len(queue.sent[QUEUE]) == 2
