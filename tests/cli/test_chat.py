"""A conversation on the command line: messages in, answers and failures in words, and the way back to it."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import typer
from psycopg.types.json import Jsonb
from typer.testing import CliRunner, Result

from cli import chat as command
from cli import ids, scripted_model
from cli.chat import Conversation, hold, waits_for
from cli.cloud.cloud import Cloud
from cli.cloud.state import Tuning
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from counterfoil.settings import Settings
from counterfoil.tasks.store import Task
from counterfoil.work import Send
from tests.factories import NOW


class Worker:
    """Ends each job that is sent as it is told to."""

    def __init__(self, admin: Connection) -> None:
        self.admin = admin
        self.fate: Callable[[UUID], None] = self.answer

    def __call__(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self.fate(send.message.work_id)

    def answer(self, job: UUID) -> None:
        self.admin.execute(
            "UPDATE task SET status = 'succeeded', result = %s, ended_at = now() WHERE id = %s",
            [Jsonb({"message": "Good day."}), job],
        )

    def fail(self, job: UUID) -> None:
        self.admin.execute(
            "UPDATE task SET status = 'failed', error = 'The model is away.', attempts = 6, failed_at = now() "
            "WHERE id = %s",
            [job],
        )

    def interrupt(self, _job: UUID) -> None:
        """As Ctrl-C does while nothing has come yet."""


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def worker(admin: Connection) -> Worker:
    return Worker(admin)


@pytest.fixture
def conversation(database: Database, tenant: UUID, worker: Worker) -> Conversation:
    return Conversation(database, tenant, worker, Settings(llm_provider="openai"))


def test_messages_are_answered_one_after_the_other_and_can_be_gone_on_with(
    conversation: Conversation, capsys: pytest.CaptureFixture[str]
) -> None:
    hold(conversation, iter(["Hello", "", "/history", "Still there?", "/quit", "never said"]))

    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["it   Good day.", "you  Hello", "it   Good day."]
    assert conversation.session_id is not None
    assert f"counterfoil chat {ids.short(conversation.session_id)}" in shown.err
    assert [one.content for one in conversation.entries()] == ["Hello", "Still there?"]
    assert conversation.find(ids.short(conversation.session_id)) == conversation.session_id


def test_a_failure_is_told_in_words_and_the_conversation_goes_on(
    conversation: Conversation, worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    worker.fate = worker.fail
    hold(conversation, iter(["Hello", "/history"]))

    shown = capsys.readouterr()
    assert "It has no answer, and will get none: The model is away." in " ".join(shown.err.split())
    assert shown.out.splitlines() == ["you  Hello  (failed)"]


def test_an_interrupted_message_is_taken_back(
    conversation: Conversation,
    worker: Worker,
    admin: Connection,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    worker.fate = worker.interrupt
    monkeypatch.setattr(time, "sleep", interrupted)
    hold(conversation, iter(["Hello", "/history"]))

    shown = capsys.readouterr()
    assert "Taken back" in shown.err
    assert shown.out.splitlines() == ["you  Hello  (cancelled)"]
    assert admin.execute("SELECT status, reason FROM task").fetchall() == [(None, "Cancelled by the command line.")]


def test_a_message_that_is_not_taken_says_why(conversation: Conversation, capsys: pytest.CaptureFixture[str]) -> None:
    hold(conversation, iter(["x" * 100_001, "/nonsense"]))

    shown = capsys.readouterr().err
    assert "That is not taken: The task is wrong at payload.message" in " ".join(shown.split())
    assert "There is no /nonsense" in shown


def test_control_characters_of_an_answer_stay_off_the_terminal(
    conversation: Conversation, admin: Connection, worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(job: UUID) -> None:
        worker.answer(job)
        admin.execute("UPDATE task SET result = %s WHERE id = %s", [Jsonb({"message": "\x1b[2Jgone"}), job])

    worker.fate = answer
    hold(conversation, iter(["Hello"]))

    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "due", "says"),
    [
        ("in-progress", None, "the model is asked"),
        ("pending", None, "waiting for a worker"),
        ("pending", NOW + timedelta(seconds=4), "put off; tried again in 4 s, or sooner"),
        ("pending", NOW - timedelta(seconds=4), "waiting for a worker"),
    ],
)
def test_what_a_message_waits_for_is_told(status: Any, due: datetime | None, says: str) -> None:
    task = Task(UUID(int=1), "chat_completion", status, 5, None, None, NOW, 1, None, due, None, None)
    assert waits_for(task, NOW) == says


def test_only_the_command_line_s_own_conversations_are_found(conversation: Conversation, admin: Connection) -> None:
    conversation.say("Hello")
    assert conversation.session_id is not None
    admin.execute("UPDATE chat_session SET user_id = 'ada'")

    with pytest.raises(UsageError, match="There is no conversation"):
        conversation.find(str(conversation.session_id))


@pytest.fixture
def run(database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`run(*words)`: the command."""
    monkeypatch.setattr(Cloud, "at", lambda _place: SimpleNamespace(database=database))
    app = typer.Typer()
    app.command()(command.talk)
    return lambda *words: CliRunner().invoke(app, words)


def test_conversations_are_listed_for_people_and_programs(
    conversation: Conversation, run: Callable[..., Result]
) -> None:
    assert "There is no conversation yet." in run("--list").output
    conversation.say("Hello")
    assert ids.short(conversation.session_id) in run("--list").output
    (one,) = json.loads(run("--list", "--json").output)
    assert (one["session_id"], one["tenant"], one["begins"]) == (str(conversation.session_id), "acme", "Hello")
    assert isinstance(run("--json").exception, UsageError)


def test_a_conversation_is_deleted_by_its_id(conversation: Conversation, run: Callable[..., Result]) -> None:
    conversation.say("Hello")
    session = str(conversation.session_id)
    for wrong in (ids.short(uuid4()), "", session[-1:]):
        assert "'counterfoil chat --list' shows them" in str(run(wrong, "--delete").exception)
    for words in ([], [session, "--list"], [session, "--scripted"]):
        assert "counterfoil chat SESSION --delete" in str(run(*words, "--delete").exception)
    assert [one.content for one in conversation.entries()] == ["Hello"]

    done = run(ids.short(UUID(session)), "--delete")

    assert (done.exit_code, done.stdout) == (0, "")
    assert "It is gone, with all that was said in it." in done.stderr
    assert json.loads(run("--list", "--json").output) == []


# The script


@pytest.fixture
def port() -> Iterator[int]:
    with scripted_model.running() as port:
        yield port


def test_the_script_speaks_as_functions_ask(port: int) -> None:
    told = scripted_model.settings(port)
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]

    answer = httpx.post(f"{told['LLM_URL']}/chat/completions", json={"messages": said}).json()

    assert answer["choices"][0]["message"]["content"] == "I am a script, and heard: Hello"
    assert answer["choices"][0]["finish_reason"] == "stop"
    with scripted_model.running(port) as again:  # of another command
        assert again == port


def test_a_cloud_knows_its_script_by_its_settings() -> None:
    assert scripted_model.port_of(Tuning(scripted_model.settings(4711))) == 4711
    assert scripted_model.port_of(Tuning({"LLM_PROVIDER": "anthropic", "LLM_MODEL": "claude"})) is None
    assert scripted_model.port_of(Tuning()) is None
