"""`counterfoil offers`: has the scheduler queue the daily offers of a date, in the local cloud or on AWS."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cli.client import By
from cli.failures import CommandError, UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.output import page, print_json
from counterfoil import aws
from counterfoil.errors import ServiceUnavailableError
from counterfoil.offers.schedule import current

SUMMARY = "Queue the daily offers of a date in a time zone, where they are not."
FUNCTION = "counterfoil-offers_scheduler"
PATIENCE = 910
"""Seconds that an answer is waited for: longer than the function may take."""

app = typer.Typer(
    help=f"""{SUMMARY}

    The scheduler does that by itself, every hour, for zones where it has become 9:00, and catches up on what it missed
    within a day.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@app.callback()
def offers() -> None:
    """Commands about daily offers."""


@app.command("run")
def run(  # one for each option
    context: typer.Context,
    *,
    day: Annotated[
        datetime | None,
        typer.Option(
            "--date",
            formats=["%Y-%m-%d"],
            help="Local date, at most 7 days ago. Default: the last date that was due.",
            show_default=False,
        ),
    ] = None,
    timezone: Annotated[str, typer.Option(help="As IANA names it: Europe/Berlin.", show_default=False)],
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by its slug.", show_default=False)] = None,
    by: By,
    on_aws: Annotated[
        bool, typer.Option("--aws", help="On AWS, with the credentials and the region of the environment.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Queue the offers of a date that are not queued yet. Running it again adds nothing.

    The audit trail records who queued them.
    """
    date = current(timezone, datetime.now(UTC)).date if day is None else day.date()
    asked = {"date": f"{date}", "timezone": timezone, "by": by} | ({"tenant": tenant} if tenant is not None else {})
    done = ask(_lambda(context, on_aws=on_aws), asked)
    if as_json:
        print_json(asked | done)
    elif done["pools"]:
        page().print(
            f"{done['people']:,} people of {timezone} will have their offers of {date}, in {done['shards']:,} shards."
        )
    else:
        page().print(f"Nothing to add: the offers of {date} in {timezone} are queued or computed.")


def ask(client: Any, asked: dict[str, str]) -> dict[str, int]:
    """What the scheduler did, asked by way of Lambda's API.

    Raises:
        UsageError: it refuses; the sentence says why.
        CommandError: it failed, or is busy.
        RejectedRequestError: AWS refuses the call.
    """
    try:
        with aws.errors_mapped():
            answer = client.invoke(FunctionName=FUNCTION, Payload=json.dumps(asked).encode())
            told = json.loads(answer["Payload"].read())
    except ServiceUnavailableError as error:
        raise CommandError(f"The scheduler cannot be asked just now, perhaps since it is at work: {error}") from error
    if "FunctionError" in answer:
        raise CommandError(f"The scheduler failed, its log says why: {told.get('errorMessage', 'it gives no reason')}")
    if "refused" in told:
        raise UsageError(told["refused"])
    done: dict[str, int] = told
    return done


def _lambda(context: typer.Context, *, on_aws: bool) -> Any:
    if not on_aws:
        return Cloud.at(place_of(context.obj)).client("lambda", patience=PATIENCE)
    import boto3
    from botocore.config import Config

    config = Config(read_timeout=PATIENCE, retries={"mode": "standard", "total_max_attempts": 3})
    with aws.errors_mapped():
        return boto3.client("lambda", config=config)
