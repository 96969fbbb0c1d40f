"""`counterfoil dlq retry|resolve|ignore|edit|audit`: dead letters are tried again, settled, edited; who did what."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import typer
from rich.table import Column
from rich.text import Text

from cli import ids
from cli.cloud.cloud import Cloud
from cli.cloud.place import place_of
from cli.dlq import letter_named
from cli.dlq_options import AnyTenant, AsJson, Limit
from cli.failures import UsageError
from cli.tables import of_tenants
from cli.tasks import outbox_of, read_payload
from cli.tenants import Tenant, newest_of_each
from cli.terminal import aside, page, print_json
from cli.trail import By, Reason
from counterfoil.dead_letters import actions, audit, edits
from counterfoil.dead_letters.actions import Done, Wish
from counterfoil.dead_letters.audit import AuditEntry
from counterfoil.errors import RejectedRequestError
from counterfoil.settings import Settings
from counterfoil.tasks.registry import InvalidPayloadError

Which = Annotated[
    str,
    typer.Argument(metavar="ID", help="The letter's id, or the end of it as the list shows it.", show_default=False),
]
Seen = Annotated[
    int | None,
    typer.Option(
        "--seen", metavar="VERSION", help="Only if the letter is still at this version.", min=1, show_default=False
    ),
]


def retry(
    context: typer.Context, letter: Which, *, reason: Reason = None, by: By, seen: Seen = None, as_json: AsJson = False
) -> None:
    """Try a letter's work again: it begins anew, with all of its tries, if it is failed still."""
    cloud = Cloud.at(place_of(context.obj))
    outbox = outbox_of(cloud)
    bucket = cloud.outputs["UploadsBucketName"]

    def act(whose: Tenant, wish: Wish) -> Done:
        done = actions.retry(cloud.database, whose.id, wish, bucket=bucket)
        if not outbox.send(done.sends):
            aside().print("Its message is sent within a minute or two.")
        return done

    _change(cloud, letter, (by, reason, seen), act, "retried", as_json=as_json)


def resolve(
    context: typer.Context, letter: Which, *, reason: Reason = None, by: By, seen: Seen = None, as_json: AsJson = False
) -> None:
    """Settle a letter whose failure was dealt with in another way. --reason says how."""
    cloud = Cloud.at(place_of(context.obj))

    def act(whose: Tenant, wish: Wish) -> Done:
        return actions.resolve(cloud.database, whose.id, wish)

    _change(cloud, letter, (by, _needed(reason), seen), act, "resolved", as_json=as_json)


def ignore(
    context: typer.Context, letter: Which, *, reason: Reason = None, by: By, seen: Seen = None, as_json: AsJson = False
) -> None:
    """Settle a letter that nothing is done about. --reason says why."""
    cloud = Cloud.at(place_of(context.obj))

    def act(whose: Tenant, wish: Wish) -> Done:
        return actions.ignore(cloud.database, whose.id, wish)

    _change(cloud, letter, (by, _needed(reason), seen), act, "ignored", as_json=as_json)


def edit(  # one for each option
    context: typer.Context,
    letter: Which,
    payload: Annotated[
        str | None,
        typer.Argument(
            metavar="PAYLOAD",
            help="A JSON object, all of the new payload; @FILE to read it, - for standard input.",
            show_default=False,
        ),
    ] = None,
    *,
    reason: Reason = None,
    by: By,
    seen: Seen = None,
    as_json: AsJson = False,
) -> None:
    """Give a task that has failed another payload, for when it is tried again. Without PAYLOAD, print what it has.

    The payload that the task was tried with takes an edit back.
    """
    cloud = Cloud.at(place_of(context.obj))
    bucket = cloud.outputs["UploadsBucketName"]
    if payload is None:
        whose, job_id = letter_named(cloud, letter)
        with _told():
            shown = edits.shown(cloud.database, whose.id, job_id, bucket=bucket)
        print_json(shown.original if shown.edited is None else shown.edited)
        return
    wanted = read_payload(payload)
    chosen_here = Settings.from_environment(cloud.state.tuning.settings)

    def act(whose: Tenant, wish: Wish) -> Done:
        return edits.edit(cloud.database, whose.id, wish, wanted, bucket=bucket, settings=chosen_here)

    _change(cloud, letter, (by, reason, seen), act, "edited", as_json=as_json)


def audit_(
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List who changed which letters, the newest first. Whether it is whole: counterfoil audit verify."""
    cloud = Cloud.at(place_of(context.obj))
    listed = newest_of_each(cloud, tenant, partial(audit.page, limit=limit), lambda entry: entry.recorded_at)
    if as_json:
        print_json([_record(whose, entry) for whose, entry in listed])
    else:
        _show(listed)


@contextmanager
def _told() -> Iterator[None]:
    """Say what is refused as a mistake of the call."""
    try:
        yield
    except (RejectedRequestError, InvalidPayloadError) as error:
        raise UsageError(str(error)) from None


def _change(  # what, by whom, how, and how it is told
    cloud: Cloud,
    letter: str,
    told: tuple[str, str | None, int | None],
    act: Callable[[Tenant, Wish], Done],
    what: str,
    *,
    as_json: bool,
) -> None:
    by, reason, seen = told
    whose, job_id = letter_named(cloud, letter)
    with _told():
        if seen is None:
            with cloud.database.tenant(whose.id) as connection:
                seen = actions.find(connection, whose.id, job_id).version
        done = act(whose, Wish(job_id, seen, by, datetime.now(UTC), reason))
    if as_json:
        print_json({"tenant": whose.slug, "job_id": job_id, "action": what, "version": done.version})
    else:
        page().print(f"The dead letter {ids.short(job_id)} is {what}.")


def _needed(reason: str | None) -> str:
    if reason is None:
        raise UsageError("Say why, with --reason: it is kept with the letter.")
    return reason


def _record(whose: Tenant, entry: AuditEntry) -> dict[str, Any]:
    hashes = {name: value and value.hex() for name, value in vars(entry).items() if isinstance(value, bytes)}
    return {"tenant": whose.slug, **vars(entry), **hashes, "recorded_at": entry.recorded_at.isoformat()}


def _show(listed: list[tuple[Tenant, AuditEntry]]) -> None:
    if not listed:
        page().print("Nobody has changed a dead letter yet.")
        return
    table, add = of_tenants(
        [whose for whose, _ in listed],
        Column("number", no_wrap=True, justify="right"),
        *(Column(name, no_wrap=True) for name in ("when", "what")),
        Column("letters"),
        Column("who", overflow="fold"),
    )
    for whose, entry in listed:
        cells = [Text(str(entry.number)), Text(f"{entry.recorded_at:%Y-%m-%d %H:%M:%S}"), Text(entry.action)]
        named = [target[-8:] for target in entry.targets[:3]]
        more = ["..."] if len(entry.targets) > len(named) else []
        add(whose, *cells, Text(", ".join(named + more)), Text(entry.actor))
    page().print(table)
