"""`counterfoil chat`: chat with a deployment's language model through the API."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.client import URL_VARIABLE, Api, connect, poll
from cli.commands import tasks
from cli.failures import UsageError
from cli.local import fake_llm
from cli.local.cloud import Cloud
from cli.local.paths import cloud_paths
from cli.output import print_json, stderr, stdout

PATH = "/api/chat/sessions"
POLL_SECONDS = 0.25
MAX_LISTED = 20
"""Maximum number of conversations in the list."""
_SPEAKERS = {"user": "you", "assistant": "bot"}
_HELP = "Type a message and press Enter. /history shows all messages, /quit exits, Ctrl-C cancels a message."


def chat(
    context: typer.Context,
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION", help="Conversation to continue: its id or the id's last characters.", show_default=False
        ),
    ] = None,
    *,
    tenant: Annotated[
        str | None, typer.Option(help="Tenant slug. Required if there are several tenants.", show_default=False)
    ] = None,
    is_fake: Annotated[
        bool,
        typer.Option(
            "--fake-llm",
            help="Use a fake model that needs no API key. The app uses the fake model until you exit.",
        ),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Only list your conversations.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list, print the conversations as JSON.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete SESSION and all its messages.")] = False,
) -> None:
    """Chat with the language model.

    Each message is a task. The deployed worker answers messages in order, once each, and retries if the model fails.
    Messages are read line by line from standard input. --list shows your conversations, SESSION continues one, and
    --delete deletes one. A conversation is deleted after 90 days of inactivity.
    """
    if as_json and not list_:
        raise UsageError("--json requires --list.")
    if delete and (list_ or is_fake or session is None):
        raise UsageError("To delete a conversation: counterfoil chat SESSION --delete")
    if list_:
        api = connect(context)
        _list(api, api.single_tenant(tenant), as_json=as_json)
        return
    if delete:
        api = connect(context)
        session_id = Conversation(api, api.single_tenant(tenant)).find(session or "")
        api.send("DELETE", f"{PATH}/{session_id}")
        stderr().print("The conversation and all its messages were deleted.")
        return
    with _model(context, is_fake=is_fake) as options:
        api = connect(context)
        conversation = Conversation(api, api.single_tenant(tenant))
        if session is not None:
            conversation.session_id = conversation.find(session)
        run_conversation(conversation, _lines(), options=options)


@contextmanager
def _model(context: typer.Context, *, is_fake: bool) -> Iterator[str]:
    """Provide a model in the local cloud, and yield its command-line options.

    The next command requires these options to continue the conversation.
    """
    if URL_VARIABLE not in os.environ:
        with fake_llm.available(Cloud.at(cloud_paths(context.obj)), requested=is_fake) as cloud:
            yield " --fake-llm" if fake_llm.port_of(cloud.state.tuning) else ""
        return
    if is_fake:
        raise UsageError(f"--fake-llm requires the local cloud: unset {URL_VARIABLE}, or remove --fake-llm.")
    yield ""


def _lines() -> Iterator[str]:
    """Read lines from standard input until its end."""
    while True:
        if sys.stdin.isatty():
            stderr().print("you> ", end="", style="bold")
        line = sys.stdin.readline()
        if not line:
            return
        yield line.strip()


# -- a conversation -------------------------------------------------------------------------------------------------


@dataclass
class Conversation:
    """A conversation that belongs to the caller."""

    api: Api
    tenant: str
    session_id: str | None = None
    """None until the first message starts the conversation."""

    def find(self, text: str) -> str:
        """Return a conversation's full id, given the id or its last characters.

        Raises:
            UsageError: no conversation matches, or several do.
        """
        session_ids = [
            session["session_id"] for session in self.api.items(PATH, "sessions", limit=1000, tenant=self.tenant)
        ]
        suffix = text.strip().lower()
        matches: list[str] = (
            [id_ for id_ in session_ids if id_.endswith(suffix)] if len(suffix) >= ids.MIN_LENGTH else []
        )
        if len(matches) != 1:
            count = "No" if not matches else "More than one"
            raise UsageError(f"{count} conversation id ends with '{text}'. Run 'counterfoil chat --list' for a list.")
        return matches[0]

    def send(self, text: str) -> str:
        """Submit a message and return the id of its task.

        Raises:
            UsageError: the API rejects it.
        """
        payload = {"message": text} | ({} if self.session_id is None else {"session_id": self.session_id})
        request = {"task_type": "chat_completion", "payload": payload, "tenant": self.tenant}
        job_id: str = self.api.send("POST", tasks.PATH, body=request).json()["job_id"]
        self.session_id = self.session_id or job_id
        return job_id

    def fetch_task(self, job_id: str) -> dict[str, Any]:
        """Return the current state of a task."""
        task: dict[str, Any] = self.api.send("GET", f"{tasks.PATH}/{job_id}").json()
        return task

    def cancel(self, job_id: str) -> None:
        """Cancel a message that has no reply yet."""
        with suppress(UsageError):  # the task has just ended
            self.api.send("POST", f"{tasks.PATH}/{job_id}/cancel", body={})

    def entries(self) -> Sequence[dict[str, Any]]:
        """Return all messages."""
        messages: list[dict[str, Any]] = []
        cursor = None if self.session_id is None else 0
        while cursor is not None:
            response = self.api.send("GET", f"{PATH}/{self.session_id}", query={"after": cursor}).json()
            messages += response["messages"]
            cursor = response["next_cursor"]
        return messages


def run_conversation(conversation: Conversation, lines: Iterator[str], *, options: str = "") -> None:
    """Send messages from `lines` and show the replies, until a line is /quit.

    `options` are added to the printed command that continues the conversation.
    """
    stderr().print(_HELP, style="dim")
    if conversation.session_id is not None:
        _show(conversation.entries())
    with suppress(KeyboardInterrupt):  # Ctrl-C at the prompt exits
        for line in lines:
            if line == "/quit":
                break
            if line == "/history":
                _show(conversation.entries())
            elif line.startswith("/"):
                stderr().print(f"Unknown command {line.split()[0]}. {_HELP}", style="yellow")
            elif line:
                _send_message(conversation, line)
    if conversation.session_id is not None:
        stderr().print(
            f"To continue: counterfoil chat {conversation.session_id[-ids.SHORT_ID_LENGTH :]}{options}", style="dim"
        )


def _send_message(conversation: Conversation, text: str) -> None:
    try:
        job_id = conversation.send(text)
    except UsageError as error:
        stderr().print(f"The message was rejected: {error}", style="red")
        return
    try:
        task = wait_for(conversation, job_id)
    except KeyboardInterrupt:
        conversation.cancel(job_id)
        task = conversation.fetch_task(job_id)
    if task["status"] == "succeeded" and isinstance(task["result"], dict):
        stdout().print(Text("bot  ", "bold").append(str(task["result"]["message"]), "none"))
    elif task["status"] == "failed":
        stderr().print(f"The message failed: {task['error']}", style="red")
    else:
        stderr().print("Canceled: the message will not be answered.", style="yellow")


def wait_for(conversation: Conversation, job_id: str) -> dict[str, Any]:
    """Poll a task until it ends, and show its progress."""
    console = stderr()
    last_error = ""
    task = conversation.fetch_task(job_id)
    with console.status("waiting for a worker") as status:
        while task["status"] in {"pending", "in-progress"}:
            if task["error"] is not None and task["error"] != last_error:
                last_error = task["error"]
                console.print(
                    f"Attempt {task['attempts']} of {task['max_retry'] + 1} failed: {last_error}", style="yellow"
                )
            status.update(wait_reason(task, datetime.now(UTC)))
            task = poll(POLL_SECONDS, lambda: conversation.fetch_task(job_id), time.sleep)
    return task


def wait_reason(task: Mapping[str, Any], now: datetime) -> str:
    """Describe why a task has not ended."""
    if task["status"] == "in-progress":
        return "the model is working on it"
    due = None if task["next_attempt_at"] is None else datetime.fromisoformat(task["next_attempt_at"])
    if due is not None and due > now:
        return f"next attempt within {(due - now).total_seconds():.0f} s"
    return "waiting for a worker"


def _show(entries: Sequence[Mapping[str, Any]]) -> None:
    for entry in entries:
        note = f"  ({entry['status']})" if entry["role"] == "user" and entry["status"] in {"failed", "canceled"} else ""
        style = "bold" if entry["role"] == "assistant" else "dim"
        stdout().print(
            Text(f"{_SPEAKERS[entry['role']]:<5}", style).append(entry["content"], "none").append(note, "red")
        )


def _list(api: Api, tenant: str, *, as_json: bool) -> None:
    sessions = list(api.items(PATH, "sessions", limit=MAX_LISTED, tenant=tenant))
    if as_json:
        print_json(sessions)
        return
    if not sessions:
        stdout().print("There are no conversations yet.")
        return
    columns = [Column("id", no_wrap=True), Column("started", no_wrap=True), Column("messages", justify="right")]
    table = Table(*columns, Column("first message", overflow="fold"), box=None, pad_edge=False)
    for session in sessions:
        started = f"{datetime.fromisoformat(session['created_at']):%Y-%m-%d %H:%M}"
        table.add_row(
            session["session_id"][-ids.SHORT_ID_LENGTH :], started, str(session["messages"]), Text(session["preview"])
        )
    stdout().print(table)
    stdout().print("To continue one: counterfoil chat ID")
