"""Dead letters are tried again, settled and edited on the command line, and the trail of it is checked."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.commands import audit as trail
from cli.commands.dlq import app
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from tests.cli.reaching import let_them_ask
from tests.dead_letters.letters import NOON, dying
from tests.delivery.harness import FakeSqs, rows
from tests.factories import make_task

REASON = ("--reason", "It is mended", "--by", "kim")


@pytest.fixture
def letter(
    make_tenant: Callable[..., UUID],
    api: None,  # what commands ask
    database: Database,
    admin: Connection,
) -> UUID:
    """The letter of a task that has failed, of the only tenant."""
    acme = make_tenant("acme")
    task = make_task(admin, acme, status="failed", attempts=6, failed_at=NOON, error="It failed")
    return dying(database, acme)(worker="tasks", task_type="echo", work_id=task)


def run(*words: object, of: Any = app, given: str | None = None, code: int = 0) -> str:
    result = CliRunner().invoke(of, [str(word) for word in words], input=given, env={"COLUMNS": "120"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code
    return result.output


def test_a_letter_is_tried_again_and_its_message_sent(letter: UUID, queue: FakeSqs, admin: Connection) -> None:
    told = run("retry", str(letter)[-8:], *REASON)

    assert told == f"The dead letter {str(letter)[-8:]} is retried.\n"
    assert [json.loads(sent["MessageBody"])["revision"] for sent in queue.sent["counterfoil-tasks"]] == [2]
    assert [(one["status"], one["resolved_by"]) for one in rows(admin, "dead_letter")] == [("retried", "kim")]


def test_work_that_is_gone_is_not_tried_again(letter: UUID, queue: FakeSqs, admin: Connection) -> None:
    admin.execute("DELETE FROM task")
    with pytest.raises(UsageError, match="gone"):
        run("retry", letter, *REASON)
    assert not queue.sent


@pytest.mark.parametrize(("what", "status"), [("resolve", "resolved"), ("ignore", "ignored")])
def test_a_letter_is_settled_with_a_reason(what: str, status: str, letter: UUID, admin: Connection) -> None:
    with pytest.raises(UsageError, match="--reason"):
        run(what, letter, "--by", "kim")
    told = json.loads(run(what, letter, *REASON, "--json"))
    assert told == {"tenant": "acme", "job_id": str(letter), "status": status, "version": 2}
    assert [one["status"] for one in rows(admin, "dead_letter")] == [status]
    with pytest.raises(UsageError, match=f"{status} already"):
        run(what, letter, *REASON)


def test_a_letter_that_was_changed_since_it_was_seen_is_left_alone(letter: UUID) -> None:
    with pytest.raises(UsageError, match="version 1"):
        run("resolve", letter, *REASON, "--seen", 2)
    run("resolve", letter, *REASON, "--seen", 1)


def test_a_payload_is_printed_edited_and_tried(letter: UUID, admin: Connection) -> None:
    assert json.loads(run("edit", letter)) == {"say": "hello"}
    assert "is edited" in run("edit", letter, "-", *REASON, given='{"say": "bye"}')
    assert json.loads(run("edit", letter)) == {"say": "bye"}
    run("retry", letter, *REASON)
    assert [task["payload"] for task in rows(admin, "task")] == [{"say": "bye"}]
    with pytest.raises(UsageError, match="JSON object"):
        run("edit", letter, "[]", *REASON)


def test_who_did_what_is_listed_and_found_whole(letter: UUID) -> None:
    assert run("audit") == "There are no changes of a dead letter.\n"
    run("edit", letter, '{"say": "bye"}', *REASON)
    run("ignore", letter, *REASON)

    lines = [line.split() for line in run("audit").splitlines()]
    assert lines[0] == ["number", "when", "what", "letters", "who"]
    assert [(line[0], line[3], line[4], line[5]) for line in lines[1:]] == [
        ("2", "ignored", str(letter)[-8:], "kim"),
        ("1", "edited", str(letter)[-8:], "kim"),
    ]
    told = json.loads(run("audit", "--json"))
    assert [entry["number"] for entry in told] == [2, 1]
    assert [entry["actor"] for entry in told] == ["kim", "kim"]
    assert run("verify", of=trail.app) == "acme: unbroken, 2 entries\n-: unbroken, 0 entries\n"
    assert run("verify", "--tenant", "-", of=trail.app) == "-: unbroken, 0 entries\n"


def test_who_changed_one_letter_is_listed(letter: UUID, database: Database, admin: Connection) -> None:
    (acme,) = (one["tenant_id"] for one in rows(admin, "dead_letter"))
    other = dying(database, acme)()
    run("ignore", letter, *REASON)
    assert run("audit", other) == "There are no changes of this dead letter.\n"
    run("resolve", other, *REASON)

    for words in ((str(letter)[-8:],), (letter,), (letter, "--tenant", "acme")):
        assert [entry["action"] for entry in json.loads(run("audit", *words, "--json"))] == ["ignored"]
    admin.execute("DELETE FROM dead_letter")
    with pytest.raises(UsageError, match="no such dead letter"):
        run("audit", letter)
    assert "ignored" in run("audit", letter, "--tenant", "acme")


def test_a_trail_that_somebody_changed_is_found(letter: UUID, admin: Connection) -> None:
    run("ignore", letter, *REASON)
    with admin.transaction():
        admin.execute("SET LOCAL session_replication_role = replica")
        admin.execute("UPDATE audit_entry SET actor = 'somebody else'")
    assert "acme: broken at 1. The entry was changed." in run("verify", of=trail.app, code=1)
    told = json.loads(run("verify", "--json", "--tenant", "acme", of=trail.app, code=1))
    assert told == [{"tenant": "acme", "entries": 1, "broken": {"number": 1, "why": "The entry was changed."}}]


def test_a_trail_of_several_pages_is_verified_whole(letter: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        run("edit", letter, json.dumps({"say": str(number)}), *REASON)
    monkeypatch.setattr("cli.client.PAGE", 2)
    assert run("verify", "--tenant", "acme", of=trail.app) == "acme: unbroken, 5 entries\n"


def test_a_trail_whose_newest_entry_is_gone_is_found(letter: UUID, admin: Connection) -> None:
    run("edit", letter, '{"say": "bye"}', *REASON)
    run("ignore", letter, *REASON)
    with admin.transaction():
        admin.execute("SET LOCAL session_replication_role = replica")
        admin.execute("DELETE FROM audit_entry WHERE number = 2")
    told = run("verify", "--tenant", "acme", of=trail.app, code=1)
    assert told == "acme: broken at 2. The latest entries are missing.\n"


def test_who_may_look_at_one_tenant_verifies_its_trail_alone(letter: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    run("ignore", letter, *REASON)
    let_them_ask(monkeypatch, "[viewer tenant:acme]")
    assert run("verify", of=trail.app) == "acme: unbroken, 1 entry\n"
    with pytest.raises(UsageError, match="viewer"):
        run("verify", "--tenant", "-", of=trail.app)
    let_them_ask(monkeypatch, "[viewer tenant:gone]")
    with pytest.raises(UsageError, match="no trail to verify"):
        run("verify", of=trail.app)
