"""`counterfoil chat`: messages, replies, failures and earlier conversations."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import typer
from psycopg.types.json import Jsonb
from typer.testing import CliRunner, Result

from cli.commands import chat as command
from cli.commands.chat import Conversation, run_conversation, wait_reason
from cli.failures import CloudError, UsageError
from cli.local import cloud as local
from cli.local import fake_llm
from cli.local.cloud import Cloud, State
from cli.local.deployment import DeployOptions
from cli.local.fake_llm import FakeLlm
from counterfoil.db import Connection
from tests.cli.api_connection import connect
from tests.delivery.harness import FakeSqs
from tests.factories import NOW


class Worker:
    """Ends each unfinished task while a command waits for the task."""

    def __init__(self, admin: Connection) -> None:
        self.admin = admin
        self.finish: Callable[[UUID], None] = self.answer

    def __call__(self, seconds: float) -> None:
        assert seconds < 1
        for (job,) in self.admin.execute("SELECT id FROM task WHERE ended_at IS NULL AND failed_at IS NULL").fetchall():
            self.finish(job)

    def answer(self, job: UUID) -> None:
        self.admin.execute(
            "UPDATE task SET status = 'succeeded', result = %s, ended_at = now() WHERE id = %s",
            [Jsonb({"message": "Good day."}), job],
        )

    def fail(self, job: UUID) -> None:
        self.admin.execute(
            "UPDATE task SET status = 'failed', error = 'The model is unavailable.', attempts = 6, failed_at = now() "
            "WHERE id = %s",
            [job],
        )

    def interrupt(self, _job: UUID) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def worker(admin: Connection, monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker(admin)
    monkeypatch.setattr(time, "sleep", made)
    return made


@pytest.fixture
def conversation(
    make_tenant: Callable[..., UUID], api: None, queue: FakeSqs, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Conversation]:
    make_tenant("acme")
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    with typer.Context(typer.main.get_command(application())) as context:
        yield Conversation(connect(context), "acme")  # type: ignore[arg-type]  # typer has its own class


def test_conversation_is_ordered_and_resumable(conversation: Conversation, capsys: pytest.CaptureFixture[str]) -> None:
    run_conversation(
        conversation, iter(["Hello", "", "/history", "Still there?", "/quit", "never said"]), options=" --fake-llm"
    )

    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["bot  Good day.", "you  Hello", "bot  Good day."]
    assert conversation.session_id is not None
    assert f"counterfoil chat {conversation.session_id[-8:]} --fake-llm" in shown.err
    assert [entry["content"] for entry in conversation.entries()] == ["Hello", "Still there?"]
    assert conversation.find(conversation.session_id[-8:]) == conversation.session_id


def test_failed_message_does_not_end_the_conversation(
    conversation: Conversation, worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    worker.finish = worker.fail
    run_conversation(conversation, iter(["Hello", "/history"]))

    shown = capsys.readouterr()
    assert "The message failed: The model is unavailable." in " ".join(shown.err.split())
    assert shown.out.splitlines() == ["you  Hello  (failed)"]


def test_interrupt_cancels_the_message(
    conversation: Conversation, worker: Worker, admin: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    worker.finish = worker.interrupt
    run_conversation(conversation, iter(["Hello", "/history"]))

    shown = capsys.readouterr()
    assert "Canceled: the message will not be answered." in shown.err
    assert shown.out.splitlines() == ["you  Hello  (canceled)"]
    assert admin.execute("SELECT status, skip_reason FROM task").fetchall() == [(None, "Canceled by lee.")]


def test_refused_message_shows_the_reason(conversation: Conversation, capsys: pytest.CaptureFixture[str]) -> None:
    run_conversation(conversation, iter(["x" * 100_001, "/nonsense"]))

    shown = capsys.readouterr().err
    assert "The message was rejected: The task is invalid at payload.message" in " ".join(shown.split())
    assert "Unknown command /nonsense" in shown


def test_control_characters_in_replies_are_replaced(
    conversation: Conversation, admin: Connection, worker: Worker, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(job: UUID) -> None:
        worker.answer(job)
        admin.execute("UPDATE task SET result = %s WHERE id = %s", [Jsonb({"message": "\x1b[2Jgone"}), job])

    worker.finish = answer
    run_conversation(conversation, iter(["Hello"]))

    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "due", "text"),
    [
        ("in-progress", None, "the model is working on it"),
        ("pending", None, "waiting for a worker"),
        ("pending", NOW + timedelta(seconds=4), "next attempt within 4 s"),
        ("pending", NOW - timedelta(seconds=4), "waiting for a worker"),
    ],
)
def test_message_wait_reason_is_shown(status: Any, due: datetime | None, text: str) -> None:
    assert wait_reason({"status": status, "next_attempt_at": due and due.isoformat()}, NOW) == text


def test_other_users_conversations_are_not_found(conversation: Conversation, admin: Connection) -> None:
    conversation.send("Hello")
    assert conversation.session_id is not None
    admin.execute("UPDATE chat_session SET user_id = 'ada'")

    with pytest.raises(UsageError, match="No conversation id ends with"):
        conversation.find(conversation.session_id)


def application() -> typer.Typer:
    app = typer.Typer()
    app.command()(command.chat)
    return app


@pytest.fixture
def run() -> Callable[..., Result]:
    """`run(*words)` runs the command."""
    return lambda *words: CliRunner().invoke(application(), words)


def test_conversations_are_listed_as_table_and_json(conversation: Conversation, run: Callable[..., Result]) -> None:
    assert "There are no conversations yet." in run("--list").output
    conversation.send("Hello")
    assert conversation.session_id is not None
    assert conversation.session_id[-8:] in run("--list").output
    (entry,) = json.loads(run("--list", "--json").output)
    assert (entry["session_id"], entry["tenant"], entry["preview"]) == (conversation.session_id, "acme", "Hello")
    assert isinstance(run("--json").exception, UsageError)


def test_a_conversation_is_deleted_by_its_id(conversation: Conversation, run: Callable[..., Result]) -> None:
    conversation.send("Hello")
    session = str(conversation.session_id)
    for wrong in (str(uuid4())[-8:], "", session[-1:]):
        assert "Run 'counterfoil chat --list'" in str(run(wrong, "--delete").exception)
    for words in ([], [session, "--list"], [session, "--fake-llm"]):
        assert "counterfoil chat SESSION --delete" in str(run(*words, "--delete").exception)
    assert [entry["content"] for entry in conversation.entries()] == ["Hello"]

    done = run(session[-8:], "--delete")

    assert (done.exit_code, done.stdout) == (0, "")
    assert "The conversation and all its messages were deleted." in done.stderr
    assert json.loads(run("--list", "--json").output) == []


# Fake language model


@pytest.fixture
def port() -> Iterator[int]:
    with fake_llm.running() as script:
        assert script.is_ours
        yield script.port


def test_fake_model_answers_chat_completion_requests(port: int) -> None:
    settings = fake_llm.settings(port)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]

    answer = httpx.post(f"{settings['LLM_URL']}/chat/completions", json={"messages": messages}).json()

    assert answer["choices"][0]["message"]["content"] == "I am a fake model. You said: Hello"
    assert answer["choices"][0]["finish_reason"] == "stop"
    with fake_llm.running(port) as again:  # started by another command
        assert again == FakeLlm(port, is_ours=False)


def test_fake_model_port_is_read_from_settings() -> None:
    assert fake_llm.port_of(DeployOptions(fake_llm.settings(4711))) == 4711
    assert fake_llm.port_of(DeployOptions({"LLM_PROVIDER": "anthropic", "LLM_MODEL": "claude"})) is None
    assert fake_llm.port_of(DeployOptions()) is None


@dataclass
class App:
    """A fake cloud with its language model settings."""

    tuning: DeployOptions = field(default_factory=DeployOptions)
    deployed: list[DeployOptions] = field(default_factory=list)
    error: Exception | None = None
    paths: Any = None

    @property
    def state(self) -> "App":
        return self

    def up(self, _place: object, _steps: object, *, tuning: DeployOptions) -> Any:
        if self.error is not None:
            raise self.error
        self.deployed.append(tuning)
        self.tuning = tuning
        return SimpleNamespace(cloud=self)

    def answers(self) -> bool:
        """Return True if the configured model is reachable."""
        try:
            httpx.post(f"{self.tuning.settings['LLM_URL']}/chat/completions", json={"messages": []}, timeout=1)
        except httpx.ConnectError:
            return False
        except httpx.HTTPError:
            pass
        return True


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    made = App()
    monkeypatch.setattr(local, "up", made.up)
    monkeypatch.setattr(Cloud, "at", lambda _paths: made)
    monkeypatch.setattr(State, "load", lambda _paths: made)
    return made


def available_model(app: App, *, requested: bool = True) -> AbstractContextManager[Any]:
    return fake_llm.available(app, requested=requested)  # type: ignore[arg-type]  # a partial cloud


@pytest.mark.parametrize("end", [None, KeyboardInterrupt(), RuntimeError("lost")])
def test_app_uses_the_fake_model_during_chat(
    end: BaseException | None, app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    before = app.tuning = DeployOptions({"LLM_MODEL": "to come", "CHAT_HISTORY_TOKENS": "9"}, 7)

    with suppress(KeyboardInterrupt, RuntimeError), available_model(app):
        assert fake_llm.port_of(app.tuning)
        assert (app.tuning.settings["CHAT_HISTORY_TOKENS"], app.tuning.timeout) == ("9", 7)
        assert app.answers()
        if end is not None:
            raise end

    assert (len(app.deployed), app.tuning) == (2, before)
    assert "The local cloud has no language model now." in " ".join(capsys.readouterr().err.split())


def test_leftover_fake_model_settings_are_replaced_and_removed(app: App) -> None:
    with fake_llm.running() as free:
        left_behind = fake_llm.settings(free.port)
    app.tuning = DeployOptions(left_behind | {"OCR_PROVIDER": "textract"})

    with available_model(app, requested=False):
        assert app.answers()

    assert app.deployed == [DeployOptions({"OCR_PROVIDER": "textract"})]


def test_another_commands_fake_model_keeps_running(app: App) -> None:
    with fake_llm.running() as script:
        app.tuning = DeployOptions(fake_llm.settings(script.port))
        with available_model(app):
            pass

        assert (app.deployed, app.answers()) == ([], True)


def test_settings_changed_during_a_chat_are_preserved(app: App) -> None:
    changed = DeployOptions({"LLM_PROVIDER": "anthropic", "LLM_MODEL": "claude"})
    with available_model(app):
        app.tuning = changed

    assert (len(app.deployed), app.tuning) == (1, changed)


def test_cloud_removed_during_a_chat_stays_down(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    with available_model(app):
        monkeypatch.setattr(State, "load", lambda _paths: None)

    assert len(app.deployed) == 1


def test_failed_restore_warns_about_the_fake_model(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CloudError, match="no deployment"), available_model(app):
        app.error = CloudError("no deployment")

    assert "the app is still configured to use it" in " ".join(capsys.readouterr().err.split())


def test_existing_model_is_not_replaced(app: App) -> None:
    app.tuning = DeployOptions({"LLM_PROVIDER": "anthropic", "LLM_MODEL": "claude"})
    with pytest.raises(UsageError, match="already has a language model"), available_model(app):
        pass
    with available_model(app, requested=False):
        pass
    assert app.deployed == []
    app.tuning = DeployOptions()
    with pytest.raises(UsageError, match="has no language model"), available_model(app, requested=False):
        pass
