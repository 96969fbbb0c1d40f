"""`counterfoil dlq bulk-retry|bulk-resolve|bulk-ignore`: many dead letters are tried again or settled together."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer

from cli import ids
from cli.client import Api, By, Reason, after, reach
from cli.dlq import plain, show_list
from cli.dlq_options import OfGroup, OfType, OneTenant, Since, Until, WithText, fingerprint_of
from cli.failures import UsageError
from cli.operations import handled, look, sentence_of
from cli.options import AsJson
from cli.output import Counters, aside, page, print_json
from counterfoil.dead_letters.bulk import MAX_RATE, Action
from functions.admin_api.api.operations import RETRY_RATE, BulkPreview, OperationProgress

LOOK_SECONDS = 1.0
VERBS: dict[str, str] = {"retry": "tried again", "resolve": "resolved", "ignore": "ignored"}

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
        help="Try so many first. The others follow when these have succeeded.",
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

    def told(self, api: Api) -> dict[str, Any]:
        """The same in the words of the API.

        Raises:
            UsageError: letters are named and selected, or are not to be found, or it has to be said of which tenant.
        """
        options = (self.task_type, self.group, self.since, self.until, self.text)
        if self.letters:
            if any(option is not None for option in options):
                raise UsageError("Name letters, or say with options which ones: both at once are not understood.")
            return {"job_ids": [api.named("letter", letter, "dlq list") for letter in self.letters]}
        wanted = {
            "tenant": api.one_tenant(self.tenant),
            "task_type": self.task_type,
            "fingerprint": fingerprint_of(api, self.group),
            "from_date": self.since and self.since.isoformat(),
            "to_date": self.until and self.until.isoformat(),
            "text": self.text,
        }
        return {"filter": {name: value for name, value in wanted.items() if value is not None}}


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
    if how.yes and how.reason is None and action != "retry":
        raise UsageError("A note is needed: say why. That is --reason.")
    api = reach(context, how.by)
    path, body = f"/api/admin/dlq/bulk-{action}", meant.told(api) | {"rate": how.rate}
    if not how.yes:
        _tell(action, api.ask("POST", path, BulkPreview, body=body | {"dry_run": True}), as_json=how.as_json)
        return
    said = {"reason" if action == "ignore" else "notes": how.reason, "canary": how.canary}
    body |= {name: value for name, value in said.items() if value is not None}
    operation = api.ask("POST", path, OperationProgress, body=body)
    if how.wait:
        operation = _wait(api, operation)
    if how.as_json:
        print_json(plain(operation))
    else:
        page().print(sentence_of(operation))
        if operation.ended_at is None:
            aside().print(f"Its progress: counterfoil operations show {ids.short(operation.operation_id)}")
    if operation.reason or operation.failed:
        raise typer.Exit(1)


def _tell(action: Action, preview: BulkPreview, *, as_json: bool) -> None:
    """What would be done."""
    if as_json:
        print_json(plain(preview))
        return
    number = "1 dead letter" if preview.count == 1 else f"{preview.count:,} dead letters"
    least = "" if preview.is_exact else "At least "
    page().print(f"{least}{number} of {preview.tenant} would be {VERBS[action]}.")
    if preview.sample:
        if preview.count > len(preview.sample):
            page().print("The newest of them:")
        show_list(preview.sample)
        aside().print("To do it, add --yes.")


def _wait(api: Api, operation: OperationProgress) -> OperationProgress:
    """Show how far it is until it is over or paused."""
    short = ids.short(operation.operation_id)
    aside().print(f"Operation {short} begins within a minute; it goes on without this command, too.")
    while operation.total is None and operation.ended_at is None:
        operation = after(LOOK_SECONDS, partial(look, api, operation), time.sleep)
    with Counters([VERBS[operation.action]], operation.total or 0) as shown:
        while operation.ended_at is None and operation.state != "paused":
            shown.show([handled(operation)])
            operation = after(LOOK_SECONDS, partial(look, api, operation), time.sleep)
        shown.show([handled(operation)])
    return operation
