"""`counterfoil chat`: talk to the language model of the local cloud, message by message."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids, scripted_model
from cli.failures import CloudError, UsageError
from cli.local import cloud as local
from cli.local import processes
from cli.local.cloud import Cloud, State
from cli.local.deployment import Tuning
from cli.local.place import Place, place_of
from cli.output import Checklist, aside, page, print_json
from cli.tenants import Tenant, chosen
from cli.trail import user
from counterfoil.db import Database, retry_conflicts
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Send
from counterfoil.errors import RejectedRequestError
from counterfoil.settings import Settings
from counterfoil.tasks import chat, store
from counterfoil.tasks.chat import CHAT_COMPLETION
from counterfoil.tasks.store import EndedError, Task
from counterfoil.tasks.task_type import InvalidPayloadError
from counterfoil.tasks.types import enabled_type

LOOK_SECONDS = 0.25
LISTED = 20
"""Conversations in a list."""
_SAID = {"user": "you", "assistant": "it"}
_HELP = "Write a message and press Enter. /history shows what was said, /quit leaves; Ctrl-C takes a message back."


def talk(  # one for each option
    context: typer.Context,
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION", help="A conversation to go on with: its id, or the end of it.", show_default=False
        ),
    ] = None,
    *,
    tenant: Annotated[
        str | None, typer.Option(help="The tenant, by its slug, where there are several.", show_default=False)
    ] = None,
    scripted: Annotated[
        bool,
        typer.Option(
            "--scripted",
            help="Have a script answer, which needs no key: the app is deployed to ask it, until you leave.",
        ),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Only list the conversations that there are.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: print them as JSON.")] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete SESSION, with all that was said in it; nothing else is done.")
    ] = False,
) -> None:
    """Talk to the language model of the local cloud, message by message.

    Each message is a task, answered in its turn by the deployed worker: with its retries where the model fails, and
    once. Messages are read line by line from standard input. What is said stays in the cloud until nobody has used a
    conversation for 90 days: --list shows them, SESSION goes on with one, and --delete takes one away. Those of the
    API's users are theirs, and are not shown.
    """
    cloud = Cloud.at(place_of(context.obj))
    if as_json and not list_:
        raise UsageError("--json is for --list: a conversation is for people.")
    if delete and (list_ or scripted or session is None):
        raise UsageError("To delete a conversation: counterfoil chat SESSION --delete")
    whose = one_tenant(cloud, tenant)
    if list_:
        _list(cloud.database, whose, as_json=as_json)
        return
    if delete:
        _delete(cloud.database, whose, session)
        return
    with _model(cloud, wanted=scripted) as cloud, closing(cloud.database):
        conversation = Conversation(
            cloud.database,
            whose.id,
            outbox_of(cloud).send,
            Settings.from_environment(cloud.state.tuning.settings),
            bucket=cloud.outputs["UploadsBucketName"],
        )
        if session is not None:
            conversation.session_id = conversation.find(session)
        hold(conversation, _lines(), again=" --scripted" if scripted_model.port_of(cloud.state.tuning) else "")


def one_tenant(cloud: Cloud, slug: str | None) -> Tenant:
    """Return the tenant with this slug, or the only one.

    Raises:
        UsageError: no tenant exists, or several do and `slug` is None.
    """
    found = chosen(cloud, slug)
    if not found:
        raise UsageError("Add a tenant first: counterfoil tenants add acme")
    if len(found) > 1:
        shown = ", ".join(tenant.slug for tenant in found[:10]) + (", ..." if len(found) > 10 else "")
        raise UsageError(f"Name the tenant with --tenant: {shown}")
    return found[0]


def outbox_of(cloud: Cloud) -> Outbox:
    """Return an outbox for the tasks queue of the local cloud.

    Raises:
        CloudError: the deployment has no such queue.
    """
    os.environ.update(cloud.state.emulator.environment)  # the app's own code finds AWS by it
    queue, retries = cloud.outputs.get("TasksQueueUrl"), cloud.outputs.get("TasksRetryQueueUrl")
    if queue is None or retries is None:
        raise CloudError("This deployment is older than this command: 'counterfoil up' deploys it again.")
    return Outbox(cloud.database, {store.WORKER: queue}, {store.WORKER: retries})


@contextmanager
def _model(cloud: Cloud, *, wanted: bool) -> Iterator[Cloud]:
    """The cloud with a model to ask. Where that is a script, the app is told of it, and at the end of it no more."""
    told = cloud.state.tuning
    port = scripted_model.port_of(told)
    if not wanted and not told.settings.get("LLM_PROVIDER"):
        raise UsageError(
            "The local cloud has no language model. 'counterfoil chat --scripted' has a script answer; for a real one: "
            "counterfoil up --setting LLM_PROVIDER=anthropic --setting LLM_MODEL=... --setting LLM_API_KEY=..."
        )
    if not wanted and port is None:
        yield cloud
        return
    if wanted and port is None and told.settings.get("LLM_PROVIDER"):
        raise UsageError("The local cloud has a language model already: without --scripted it answers.")
    with processes.interruptible(), scripted_model.running(port or _free_port()) as script:
        if not script.is_ours:  # whoever began it ends it
            yield cloud
            return
        try:
            settings = dict(told.settings) | scripted_model.settings(script.port)
            if settings != dict(told.settings):
                cloud = _tell(cloud.place, Tuning(settings, told.timeout))
            yield cloud
        finally:
            _put_back(cloud.place, told, script.port)


def _tell(place: Place, tuning: Tuning) -> Cloud:
    """Deploy the app so that it is told this."""
    steps = Checklist()
    with steps.shown():
        return local.up(place, steps, tuning=tuning).cloud


def _put_back(place: Place, before: Tuning, port: int) -> None:
    """Have the app ask the script of this port no more, which is about to go, unless it was told of another model."""
    found = State.load(place)
    if found is None or scripted_model.port_of(found.tuning) != port:
        return
    had = {} if scripted_model.port_of(before) else dict(before.settings)
    aside().print("The script ends, and the app is told so:")
    try:
        _tell(
            Cloud.at(place).place, Tuning(had | scripted_model.taken_out(found.tuning.settings), found.tuning.timeout)
        )
    except BaseException:
        aside().print(
            "The script is gone, and the app would still ask it, about documents in doubt as well. 'counterfoil chat' "
            "brings it back, and puts this right at its end; 'counterfoil up --setting ...' names another model.",
            style="yellow",
        )
        raise
    aside().print(
        "It has no language model now: a chat needs --scripted again, or 'counterfoil up --setting LLM_PROVIDER=...'. "
        "Messages that have no answer yet get none."
    )


def _free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind((scripted_model.HOST, 0))
        return int(one.getsockname()[1])


def _lines() -> Iterator[str]:
    """What is typed, line by line, until its end."""
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
    """One conversation of the command line's, and the way to its worker."""

    database: Database
    tenant_id: UUID
    send: Callable[[Sequence[Send]], object]
    settings: Settings
    bucket: str | None = None
    session_id: UUID | None = None
    """None: the first message begins it."""

    def find(self, text: str) -> UUID:
        """The conversation whose id this is, or ends with.

        Raises:
            UsageError: there is none, or more than one.
        """
        return _named(self.database, self.tenant_id, text)

    def say(self, text: str) -> UUID:
        """Hand a message in. Returns its job.

        Raises:
            InvalidPayloadError, RejectedRequestError: it is not taken.
        """
        payload: dict[str, object] = {"message": text}
        if self.session_id is not None:
            payload["session_id"] = str(self.session_id)
        type_ = enabled_type(CHAT_COMPLETION.name, self.settings)
        order = store.order(type_, payload, settings=self.settings)  # type: ignore[arg-type]  # JSON
        done = store.submit(self.database, self.tenant_id, order, self.database.now(), bucket=self.bucket)
        self.send(done.sends)
        self.session_id = self.session_id or done.task.job_id
        return done.task.job_id

    def look(self, job_id: UUID) -> Task:
        """The job as it is now."""
        with self.database.tenant(self.tenant_id) as connection:
            found = store.show(connection, job_id)
        assert found is not None  # nothing purges what was handed in just now
        return found

    def take_back(self, job_id: UUID) -> None:
        """Cancel a message that is not answered yet."""

        def once() -> Sequence[Send]:
            with self.database.tenant(self.tenant_id) as connection:
                found = store.cancel(connection, job_id, self.database.now(), "the command line")
            return () if found is None else found[1]

        with suppress(EndedError):
            self.send(retry_conflicts(once))

    def entries(self) -> Sequence[chat.Entry]:
        """What was said."""
        if self.session_id is None:
            return ()
        found: list[chat.Entry] = []
        with self.database.tenant(self.tenant_id) as connection:
            while True:
                after = found[-1].number if found else 0
                said = chat.transcript(connection, self.session_id, None, after=after)
                found += said.entries
                if not said.is_cut:
                    return found


def hold(conversation: Conversation, lines: Iterator[str], *, again: str = "") -> None:
    """Take messages from `lines` and show their answers, until one says /quit. `again`: options to go on with."""
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
        aside().print(f"To go on with it: counterfoil chat {ids.short(conversation.session_id)}{again}", style="dim")


def _answer(conversation: Conversation, text: str) -> None:
    try:
        job_id = conversation.say(text)
    except (InvalidPayloadError, RejectedRequestError) as error:
        aside().print(f"That is not taken: {error}", style="red")
        return
    try:
        task = wait_for(conversation, job_id)
    except KeyboardInterrupt:
        conversation.take_back(job_id)
        task = conversation.look(job_id)
    if task.status == "succeeded" and isinstance(task.result, dict):
        page().print(Text("it   ", "bold").append(str(task.result["message"]), "none"))
    elif task.status == "failed":
        aside().print(f"It has no answer, and will get none: {task.error}", style="red")
    else:
        aside().print("Taken back: it will get no answer.", style="yellow")


def wait_for(conversation: Conversation, job_id: UUID) -> Task:
    """The job once it is over; meanwhile, what it waits for is told."""
    console = aside()
    told = ""
    with console.status("waiting for a worker") as shown:
        while (task := conversation.look(job_id)).ended_at is None:
            if task.error is not None and task.error != told:
                told = task.error
                console.print(f"Try {task.attempts} of {task.max_retry + 1} failed: {told}", style="yellow")
            shown.update(waits_for(task, conversation.database.now()))
            time.sleep(LOOK_SECONDS)
    return task


def waits_for(task: Task, now: datetime) -> str:
    """What a job that is not over waits for, in words."""
    if task.status == "in-progress":
        return "the model is asked"
    if task.next_attempt_at is not None and task.next_attempt_at > now:
        seconds = (task.next_attempt_at - now).total_seconds()
        return f"put off; tried again in {seconds:.0f} s, or sooner"
    return "waiting for a worker"


def _show(entries: Sequence[chat.Entry]) -> None:
    for one in entries:
        note = f"  ({one.status})" if one.role == "user" and one.status in {"failed", "cancelled"} else ""
        style = "bold" if one.role == "assistant" else "dim"
        page().print(Text(f"{_SAID[one.role]:<5}", style).append(one.content, "none").append(note, "red"))


def _named(database: Database, tenant_id: UUID, text: str) -> UUID:
    with database.tenant(tenant_id) as connection:
        known = [one.id for one in chat.list_sessions(connection, None, limit=1000)]
    end = text.strip().lower()
    found = [id_ for id_ in known if str(id_).endswith(end)] if len(end) >= ids.LEAST else []
    if len(found) != 1:
        what = "There is no conversation whose" if not found else "More than one conversation's"
        raise UsageError(f"{what} id ends with '{text}': 'counterfoil chat --list' shows them.")
    return found[0]


def _delete(database: Database, tenant: Tenant, text: str | None) -> None:
    assert text is not None  # it was asked for
    session_id = _named(database, tenant.id, text)

    def once() -> None:
        with database.tenant(tenant.id) as connection:
            chat.delete_session(connection, session_id, None, database.now(), by=user())

    retry_conflicts(once)
    aside().print("It is gone, with all that was said in it.")


def _list(database: Database, tenant: Tenant, *, as_json: bool) -> None:
    with database.tenant(tenant.id) as connection:
        found = chat.list_sessions(connection, None, limit=LISTED)
    if as_json:
        print_json(
            [
                {
                    "session_id": one.id,
                    "tenant": tenant.slug,
                    "created_at": one.created_at,
                    "messages": one.messages,
                    "begins": one.begins,
                }
                for one in found
            ]
        )
        return
    if not found:
        page().print("There is no conversation yet.")
        return
    columns = [Column("id", no_wrap=True), Column("begun", no_wrap=True), Column("messages", justify="right")]
    table = Table(*columns, Column("begins with", overflow="fold"), box=None, pad_edge=False)
    for one in found:
        table.add_row(ids.short(one.id), f"{one.created_at:%Y-%m-%d %H:%M}", str(one.messages), Text(one.begins))
    page().print(table)
    page().print("To go on with one: counterfoil chat ID")
