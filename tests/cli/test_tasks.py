"""Tasks are handed in, listed, shown and cancelled on the command line."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli import tasks
from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.postgres import Server
from cli.tasks import app
from counterfoil.db import Connection, Database
from counterfoil.delivery.work import Send
from tests.cli.clouds import CloudOf
from tests.factories import NOW
from tests.tasks.conftest import rows


@pytest.fixture
def sent(
    make_tenant: Callable[..., UUID],
    postgres: Server,
    migrated_database: str,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Send]:
    """The messages that were sent. The cloud has one tenant."""
    make_tenant("acme")
    cloud: Any = CloudOf(postgres, migrated_database, database)
    cloud.outputs = {"UploadsBucketName": "uploads"}
    cloud.state = SimpleNamespace(tuning=SimpleNamespace(settings={}))
    monkeypatch.setattr(Cloud, "at", lambda _: cloud)
    found: list[Send] = []

    def send(sends: Sequence[Send]) -> None:
        found.extend(sends)

    monkeypatch.setattr(tasks, "outbox_of", lambda _: SimpleNamespace(send=send))
    return found


def run(*words: object, given: str | None = None) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], input=given, env={"COLUMNS": "160"})
    if result.exception is not None:
        raise result.exception
    return result.output


def call(*words: object) -> Any:
    """What a call with --json prints."""
    return json.loads(run(*words, "--json"))


def test_a_task_is_handed_in_and_its_message_sent(sent: list[Send], admin: Connection) -> None:
    told = run("submit", "echo", '{"text": "hello"}', "--max-retry", 2)

    (row,) = rows(admin, "task")
    assert (row["payload"], row["max_retry"], row["user_id"]) == ({"text": "hello"}, 2, None)
    assert [send.message.work_id for send in sent] == [row["id"]]
    assert str(row["id"]) in told
    assert "pending" in told


def test_under_the_same_key_it_is_handed_in_once(sent: list[Send]) -> None:
    first = call("submit", "echo", "{}", "--key", "k")

    assert call("submit", "echo", "--key", "k")["job_id"] == first["job_id"]
    assert "handed in before" in run("submit", "echo", "--key", "k")
    assert len(sent) == 1
    with pytest.raises(UsageError, match="belongs to another request"):
        run("submit", "echo", '{"a": 1}', "--key", "k")


def test_a_payload_comes_from_a_file_or_from_standard_input_too(
    sent: list[Send], admin: Connection, tmp_path: Path
) -> None:
    (tmp_path / "payload.json").write_text('{"from": "file"}', encoding="utf-8")
    run("submit", "echo", f"@{tmp_path / 'payload.json'}")
    run("submit", "echo", "-", given='{"from": "standard input"}')

    assert sorted(row["payload"]["from"] for row in rows(admin, "task")) == ["file", "standard input"]
    assert len(sent) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing"], "no such task_type; known are"),
        (["http_request", '{"url": "https://example.com"}'], "HTTP_REQUESTS is not set"),
        (["echo", "[]"], "must be a JSON object"),
        (["echo", "{"], "must be a JSON object"),
        (["echo", "@/nowhere.json"], "cannot be read from '/nowhere.json': No such file"),
        (["echo", '{"a": "\\u0000"}'], "U\\+0000"),
        (["echo", "--tenant", "nobody"], "no tenant 'nobody'"),
    ],
)
def test_what_cannot_be_handed_in_is_told(sent: list[Send], admin: Connection, words: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run("submit", *words)
    assert (rows(admin, "task"), sent) == ([], [])


def test_among_several_tenants_one_is_named(sent: list[Send], make_tenant: Callable[..., UUID]) -> None:
    make_tenant("zenith")

    with pytest.raises(UsageError, match="Say for whom, with --tenant: acme, zenith"):
        run("submit", "echo")
    assert call("submit", "echo", "--tenant", "zenith")["tenant"] == "zenith"
    call("submit", "echo", "--tenant", "acme")
    assert [one["tenant"] for one in call("list")] == ["acme", "zenith"]
    assert [one["tenant"] for one in call("list", "--tenant", "zenith")] == ["zenith"]
    assert len(sent) == 2


def test_a_task_that_is_waited_for_is_shown_with_its_result(
    sent: list[Send], admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(seconds: float) -> None:
        assert seconds < 1
        admin.execute("UPDATE task SET status = 'succeeded', result = '{\"said\": \"hé\"}', ended_at = %s", [NOW])

    monkeypatch.setattr("time.sleep", work)

    told = run("submit", "echo", "--wait")

    assert sent
    assert "succeeded" in told
    assert '"said": "hé"' in told


def test_one_that_fails_while_it_is_waited_for_ends_the_command_with_1(
    sent: list[Send], admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = "UPDATE task SET status = 'failed', error = 'It was away.', failed_at = now()"
    monkeypatch.setattr("time.sleep", lambda _: admin.execute(failed))

    result = CliRunner().invoke(app, ["submit", "echo", "--wait"])

    assert sent
    assert (result.exit_code, "It was away." in result.output) == (1, True)


def test_a_task_is_shown_by_the_end_of_its_id_with_its_tries(sent: list[Send], admin: Connection) -> None:
    job_id = call("submit", "echo")["job_id"]
    admin.execute("UPDATE task SET status = 'succeeded', result = '[1]', attempts = 2")
    for number, outcome in ((1, "retry"), (2, "succeeded")):
        admin.execute(
            """INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, began_at, ended_at, outcome,
                                         error)
               SELECT tenant_id, 'tasks', id, 1, %s, %s, %s, %s, 'It was away.' FROM task WHERE id = %s""",
            [number, NOW, NOW, outcome, job_id],
        )

    told = run("show", job_id[-8:])

    assert sent
    assert [line.split()[:1] for line in told.splitlines() if "It was away." in line] == [["1"], ["2"]]
    assert [one["outcome"] for one in call("show", job_id)["timeline"]] == ["retry", "succeeded"]
    for text in ("ffff", "f", "'; --"):
        with pytest.raises(UsageError, match="no task whose id ends with"):
            run("show", text)


def test_of_a_long_result_the_beginning_is_shown(sent: list[Send], admin: Connection) -> None:
    job_id = call("submit", "echo")["job_id"]
    admin.execute("UPDATE task SET status = 'succeeded', result = to_jsonb(repeat('x', 100000)), ended_at = now()")

    told = run("show", job_id)

    assert sent
    assert len(told) < 6000
    assert "100002 characters: --json" in told
    assert len(call("show", job_id)["result"]) == 100_000
    assert "result" not in call("list")[0]


def test_the_list_is_of_the_newest_first_and_can_be_narrowed(sent: list[Send], admin: Connection) -> None:
    first, second = call("submit", "echo"), call("submit", "echo")
    admin.execute("UPDATE task SET status = 'failed', error = 'no', failed_at = now() WHERE id = %s", [first["job_id"]])

    assert [one["job_id"] for one in call("list")] == [second["job_id"], first["job_id"]]
    assert [one["job_id"] for one in call("list", "--status", "failed", "--type", "echo")] == [first["job_id"]]
    assert "There are no such tasks." in run("list", "--type", "chat_completion")
    (row,) = [line for line in run("list").splitlines() if first["job_id"][-8:] in line]
    assert row.split()[1:4] == ["echo", "failed", "0"]
    with pytest.raises(UsageError, match="is no state"):
        run("list", "--status", "running")
    assert len(sent) == 2


def test_a_task_is_cancelled_unless_it_is_over(sent: list[Send], admin: Connection) -> None:
    first, second = call("submit", "echo")["job_id"], call("submit", "echo")["job_id"]
    admin.execute("UPDATE task SET status = 'succeeded', ended_at = now() WHERE id = %s", [second])

    assert "cancelled" in run("cancel", first, "--by", "ann")
    assert {row["id"]: row["reason"] for row in rows(admin, "task")}[UUID(first)] == "Cancelled by ann."
    with pytest.raises(UsageError, match="has succeeded already"):
        run("cancel", second, "--by", "ann")
    assert len(sent) == 2
