"""`counterfoil chat`: talk to the language model of a deployment, message by message, through the API."""

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
from cli.client import URL, Api, connect, poll
from cli.commands import tasks
from cli.failures import UsageError
from cli.local import scripted_model
from cli.local.cloud import Cloud
from cli.local.place import cloud_folder
from cli.output import aside, page, print_json

PATH = "/api/chat/sessions"
LOOK_SECONDS = 0.25
LISTED = 20
"""Conversations in a list."""
_SAID = {"user": "you", "assistant": "it"}
_HELP = "Write a message and press Enter. /history shows all messages, /quit leaves; Ctrl-C takes a message back."


def talk(  # one for each option
    context: typer.Context,
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION", help="Conversation to continue: its id, or the end of it.", show_default=False
        ),
    ] = None,
    *,
    tenant: Annotated[
        str | None, typer.Option(help="The tenant's slug, if there are several tenants.", show_default=False)
    ] = None,
    scripted: Annotated[
        bool,
        typer.Option(
            "--scripted",
            help="Let a script answer, without a key. The app is deployed with it until you leave.",
        ),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Only list your conversations.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: print them as JSON.")] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete SESSION with all of its messages, and do nothing else.")
    ] = False,
) -> None:
    """Chat with the language model.

    Each message is a task. The deployed worker answers it once and in its turn, with retries if the model fails.
    Messages are read line by line from standard input. --list shows your conversations, SESSION continues one, and
    --delete deletes one. A conversation without use for 90 days is deleted.
    """
    if as_json and not list_:
        raise UsageError("--json is for --list: a conversation is for people.")
    if delete and (list_ or scripted or session is None):
        raise UsageError("To delete a conversation: counterfoil chat SESSION --delete")
    if list_:
        api = connect(context)
        _list(api, api.single_tenant(tenant), as_json=as_json)
        return
    if delete:
        api = connect(context)
        found = Conversation(api, api.single_tenant(tenant)).find(session or "")
        api.send("DELETE", f"{PATH}/{found}")
        aside().print("The conversation is deleted, with all of its messages.")
        return
    with _model(context, scripted=scripted) as again:
        api = connect(context)
        conversation = Conversation(api, api.single_tenant(tenant))
        if session is not None:
            conversation.session_id = conversation.find(session)
        run_conversation(conversation, _lines(), again=again)


@contextmanager
def _model(context: typer.Context, *, scripted: bool) -> Iterator[str]:
    """Provide a model in the local cloud. Return the options that continue the conversation with it."""
    if URL not in os.environ:
        with scripted_model.available(Cloud.at(cloud_folder(context.obj)), wanted=scripted) as cloud:
            yield " --scripted" if scripted_model.port_of(cloud.state.tuning) else ""
        return
    if scripted:
        raise UsageError(f"--scripted is for the local cloud: unset {URL}, or leave --scripted out.")
    yield ""


def _lines() -> Iterator[str]:
    """Read lines from standard input until its end."""
    while True:
        if sys.stdin.isatty():
            aside().print("you> ", end="", style="bold")
        line = sys.stdin.readline()
        if not line:
            return
        yield line.strip()


# -- a conversation -------------------------------------------------------------------------------------------------


@dataclass
class Conversation:
    """A conversation of the caller's, through the API."""

    api: Api
    tenant: str
    session_id: str | None = None
    """None: the first message begins it."""

    def find(self, text: str) -> str:
        """Return the id of the conversation that has this id, or whose id ends with it.

        Raises:
            UsageError: no conversation or several conversations have it.
        """
        known = [one["session_id"] for one in self.api.items(PATH, "sessions", limit=1000, tenant=self.tenant)]
        end = text.strip().lower()
        found: list[str] = [id_ for id_ in known if id_.endswith(end)] if len(end) >= ids.LEAST else []
        if len(found) != 1:
            what = "There is no conversation whose" if not found else "More than one conversation's"
            raise UsageError(f"{what} id ends with '{text}': 'counterfoil chat --list' shows them.")
        return found[0]

    def say(self, text: str) -> str:
        """Submit a message and return the id of its task.

        Raises:
            UsageError: the API refuses it.
        """
        payload = {"message": text} | ({} if self.session_id is None else {"session_id": self.session_id})
        order = {"task_type": "chat_completion", "payload": payload, "tenant": self.tenant}
        job_id: str = self.api.send("POST", tasks.PATH, body=order).json()["job_id"]
        self.session_id = self.session_id or job_id
        return job_id

    def look(self, job_id: str) -> dict[str, Any]:
        """Return the current state of a task."""
        task: dict[str, Any] = self.api.send("GET", f"{tasks.PATH}/{job_id}").json()
        return task

    def take_back(self, job_id: str) -> None:
        """Cancel a message that has no reply yet."""
        with suppress(UsageError):  # it has just ended
            self.api.send("POST", f"{tasks.PATH}/{job_id}/cancel", body={})

    def entries(self) -> Sequence[dict[str, Any]]:
        """Return all messages."""
        found: list[dict[str, Any]] = []
        following = None if self.session_id is None else 0
        while following is not None:
            said = self.api.send("GET", f"{PATH}/{self.session_id}", query={"after": following}).json()
            found += said["messages"]
            following = said["next_cursor"]
        return found


def run_conversation(conversation: Conversation, lines: Iterator[str], *, again: str = "") -> None:
    """Send messages from `lines` and show their answers, until a line is /quit.

    `again` is the options that continue the conversation.
    """
    aside().print(_HELP, style="dim")
    if conversation.session_id is not None:
        _show(conversation.entries())
    with suppress(KeyboardInterrupt):  # where nothing waits: to leave
        for line in lines:
            if line == "/quit":
                break
            if line == "/history":
                _show(conversation.entries())
            elif line.startswith("/"):
                aside().print(f"There is no {line.split()[0]}. {_HELP}", style="yellow")
            elif line:
                _answer(conversation, line)
    if conversation.session_id is not None:
        aside().print(
            f"To go on with it: counterfoil chat {conversation.session_id[-ids.SHORT_ID_LENGTH :]}{again}", style="dim"
        )


def _answer(conversation: Conversation, text: str) -> None:
    try:
        job_id = conversation.say(text)
    except UsageError as error:
        aside().print(f"That is not taken: {error}", style="red")
        return
    try:
        task = wait_for(conversation, job_id)
    except KeyboardInterrupt:
        conversation.take_back(job_id)
        task = conversation.look(job_id)
    if task["status"] == "succeeded" and isinstance(task["result"], dict):
        page().print(Text("it   ", "bold").append(str(task["result"]["message"]), "none"))
    elif task["status"] == "failed":
        aside().print(f"It has no answer, and will get none: {task['error']}", style="red")
    else:
        aside().print("Taken back: it will get no answer.", style="yellow")


def wait_for(conversation: Conversation, job_id: str) -> dict[str, Any]:
    """Ask for a task until it has ended, and show the reason for the wait."""
    console = aside()
    told = ""
    task = conversation.look(job_id)
    with console.status("waiting for a worker") as shown:
        while task["status"] in {"pending", "in-progress"}:
            if task["error"] is not None and task["error"] != told:
                told = task["error"]
                console.print(f"Try {task['attempts']} of {task['max_retry'] + 1} failed: {told}", style="yellow")
            shown.update(wait_reason(task, datetime.now(UTC)))
            task = poll(LOOK_SECONDS, lambda: conversation.look(job_id), time.sleep)
    return task


def wait_reason(task: Mapping[str, Any], now: datetime) -> str:
    """Return the reason why a task has not ended, in words."""
    if task["status"] == "in-progress":
        return "the model is working on it"
    due = None if task["next_attempt_at"] is None else datetime.fromisoformat(task["next_attempt_at"])
    if due is not None and due > now:
        return f"put off; tried again in {(due - now).total_seconds():.0f} s, or sooner"
    return "waiting for a worker"


def _show(entries: Sequence[Mapping[str, Any]]) -> None:
    for one in entries:
        note = f"  ({one['status']})" if one["role"] == "user" and one["status"] in {"failed", "canceled"} else ""
        style = "bold" if one["role"] == "assistant" else "dim"
        page().print(Text(f"{_SAID[one['role']]:<5}", style).append(one["content"], "none").append(note, "red"))


def _list(api: Api, tenant: str, *, as_json: bool) -> None:
    found = list(api.items(PATH, "sessions", limit=LISTED, tenant=tenant))
    if as_json:
        print_json(found)
        return
    if not found:
        page().print("There is no conversation yet.")
        return
    columns = [Column("id", no_wrap=True), Column("begun", no_wrap=True), Column("messages", justify="right")]
    table = Table(*columns, Column("begins with", overflow="fold"), box=None, pad_edge=False)
    for one in found:
        begun = f"{datetime.fromisoformat(one['created_at']):%Y-%m-%d %H:%M}"
        table.add_row(one["session_id"][-ids.SHORT_ID_LENGTH :], begun, str(one["messages"]), Text(one["begins"]))
    page().print(table)
    page().print("To go on with one: counterfoil chat ID")
