"""`counterfoil dlq bulk-retry|bulk-resolve|bulk-ignore`: many dead letters are tried again or settled together."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer

from cli import ids
from cli.cloud.cloud import Cloud
from cli.cloud.place import place_of
from cli.dlq import letter_named, record, show_list
from cli.dlq_operations import look, record_of, sentence_of
from cli.dlq_options import AsJson, OfGroup, OfType, OneTenant, Since, Until, WithText, fingerprint_of
from cli.failures import UsageError
from cli.tasks import one_tenant
from cli.tenants import Tenant
from cli.terminal import Counters, aside, page, print_json
from cli.trail import By, Reason
from counterfoil.dead_letters import bulk
from counterfoil.dead_letters.bulk import MAX_RATE, Action, Asked, BulkOperation, Preview
from counterfoil.dead_letters.bulk_selection import Selection
from counterfoil.errors import RejectedRequestError

LOOK_SECONDS = 1.0
RETRY_RATE = 50
VERBS: dict[Action, str] = {"retry": "tried again", "resolve": "resolved", "ignore": "ignored"}

Letters = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID",
        help="Letters by their ids, or the ends of these. Else the options say which.",
        show_default=False,
    ),
]
Rate = Annotated[int, typer.Option(min=1, max=MAX_RATE, help="Letters a second.")]
Canary = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Try so many first. If one of them dies again, the others are left.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it. Without this, only say how many letters are meant.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="With --yes: show how far it is until it is over.")]


@dataclass(frozen=True)
class Meant:
    """Which letters a command means, as they are written."""

    letters: Sequence[str]
    tenant: str | None
    task_type: str | None
    group: str | None
    since: datetime | None
    until: datetime | None
    text: str | None

    def found(self, cloud: Cloud) -> tuple[Tenant, Selection | None, Sequence[UUID]]:
        """The tenant, and what is selected or the letters that are named.

        Raises:
            UsageError: letters are named and selected, are of several tenants, or are not to be found.
        """
        options = (self.task_type, self.group, self.since, self.until, self.text)
        if not self.letters:
            group = None if self.group is None else fingerprint_of(cloud, self.group)
            chosen = Selection(self.task_type, group, self.since, self.until, self.text)
            return one_tenant(cloud, self.tenant), chosen, ()
        if any(option is not None for option in options):
            raise UsageError("Name letters, or say with options which ones: both at once are not understood.")
        named = [letter_named(cloud, letter) for letter in self.letters]
        if len({whose for whose, _ in named}) > 1:
            raise UsageError("These letters are of several tenants: take one tenant's at a time.")
        return named[0][0], None, [job_id for _, job_id in named]


@dataclass(frozen=True)
class How:
    """How it is done."""

    reason: str | None
    by: str
    rate: int
    canary: int | None
    yes: bool
    wait: bool
    as_json: bool


def bulk_retry(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    letters: Letters = None,
    *,
    tenant: OneTenant = None,
    task_type: OfType = None,
    group: OfGroup = None,
    since: Since = None,
    until: Until = None,
    text: WithText = None,
    rate: Rate = RETRY_RATE,
    canary: Canary = None,
    reason: Reason = None,
    by: By,
    yes: Yes = False,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Try many pending letters again, so many a second. Without --yes, only say how many.

    What dies after the request is not meant. Whatever is killed meanwhile, each letter is tried again once.
    """
    meant = Meant(letters or (), tenant, task_type, group, since, until, text)
    _run(context, "retry", meant, How(reason, by, rate, canary, yes, wait, as_json))


def _settling(action: Action, told: str) -> Callable[..., None]:
    def settle(  # noqa: PLR0913  # one for each option
        context: typer.Context,
        letters: Letters = None,
        *,
        tenant: OneTenant = None,
        task_type: OfType = None,
        group: OfGroup = None,
        since: Since = None,
        until: Until = None,
        text: WithText = None,
        rate: Rate = MAX_RATE,
        reason: Reason = None,
        by: By,
        yes: Yes = False,
        wait: Wait = True,
        as_json: AsJson = False,
    ) -> None:
        meant = Meant(letters or (), tenant, task_type, group, since, until, text)
        _run(context, action, meant, How(reason, by, rate, None, yes, wait, as_json))

    settle.__doc__ = told
    return settle


bulk_resolve = _settling(
    "resolve",
    """Resolve many pending letters: their failure was dealt with in another way. --reason says how.

    Where --group alone says which, the whole group is resolved, until a letter of it dies again.
    """,
)
bulk_ignore = _settling(
    "ignore",
    """Ignore many pending letters: nothing is done about them. --reason says why.

    Where --group alone says which, the whole group is ignored, until a letter of it dies again.
    """,
)


def _run(context: typer.Context, action: Action, meant: Meant, how: How) -> None:
    cloud, now = Cloud.at(place_of(context.obj)), datetime.now(UTC)
    whose, selection, job_ids = meant.found(cloud)
    with cloud.database.tenant(whose.id) as connection:
        preview = bulk.preview(connection, whose.id, selection, job_ids, now)
    if not how.yes:
        _tell(whose, action, preview, as_json=how.as_json)
        return
    asked = Asked(action, selection, job_ids, how.reason, how.rate, how.canary, how.by, now)
    try:
        with cloud.database.tenant(whose.id) as connection:
            operation = bulk.request(connection, whose.id, asked)
    except RejectedRequestError as error:
        hint = " That is --reason." if how.reason is None and action != "retry" else ""
        raise UsageError(f"{error}{hint}") from None
    if how.wait:
        operation = _wait(cloud, whose, operation)
    if how.as_json:
        print_json(record_of(whose, operation))
    else:
        page().print(sentence_of(operation))
        if operation.ended_at is None:
            aside().print(f"How far it is: counterfoil dlq operations show {ids.short(operation.id)}")
    if operation.state == "stopped" or operation.failed:
        raise typer.Exit(1)


def _tell(whose: Tenant, action: Action, preview: Preview, *, as_json: bool) -> None:
    """What would be done."""
    if as_json:
        sample = [record(whose, letter) for letter in preview.sample]
        print_json({"tenant": whose.slug, "count": preview.count, "is_exact": preview.is_exact, "sample": sample})
        return
    number = "1 dead letter" if preview.count == 1 else f"{preview.count:,} dead letters"
    least = "" if preview.is_exact else "At least "
    page().print(f"{least}{number} of {whose.slug} would be {VERBS[action]}.")
    if preview.sample:
        if preview.count > len(preview.sample):
            page().print("The newest of them:")
        show_list([(whose, letter) for letter in preview.sample])
        aside().print("To do it, add --yes.")


def _wait(cloud: Cloud, whose: Tenant, operation: BulkOperation) -> BulkOperation:
    """Show how far it is until it is over, or somebody has paused it."""
    aside().print(f"Operation {ids.short(operation.id)} begins within a minute; it goes on without this command, too.")
    while not operation.is_selected and operation.ended_at is None:
        time.sleep(LOOK_SECONDS)
        operation = look(cloud, whose, operation.id)
    with Counters([VERBS[operation.action]], operation.selected) as shown:
        while operation.ended_at is None and operation.state != "paused":
            shown.show([operation.handled])
            time.sleep(LOOK_SECONDS)
            operation = look(cloud, whose, operation.id)
        shown.show([operation.handled])
    return operation
