"""`counterfoil offers`: queue the daily offers of a date, in the local cloud or on AWS."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from cli.client import By
from cli.failures import CommandError, UsageError
from cli.output import page, print_json

SUMMARY = "Queue the daily offers of a date and time zone if they are not queued."
FUNCTION = "counterfoil-offers_scheduler"
PATIENCE = 910
"""Read timeout in seconds: longer than the function's timeout."""

app = typer.Typer(
    help=f"""{SUMMARY}

    The scheduler does this every hour for zones where it is past 9:00. It catches up on dates that it missed by at most
    a day.
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
    timezone: Annotated[str, typer.Option(help="IANA name, such as Europe/Berlin.", show_default=False)],
    tenant: Annotated[str | None, typer.Option(help="Only for this tenant, by slug.", show_default=False)] = None,
    by: By,
    on_aws: Annotated[
        bool, typer.Option("--aws", help="On AWS, with the credentials and the region of the environment.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Queue the offers of a date that are not queued yet. Running it again adds nothing.

    The audit trail records who queued them.
    """
    asked = {"date": None if day is None else f"{day:%Y-%m-%d}", "timezone": timezone, "by": by, "tenant": tenant}
    given = {name: value for name, value in asked.items() if value is not None}
    done = call(context, given, on_aws=on_aws)
    if as_json:
        print_json(given | done)
    elif done["pools"]:
        page().print(
            f"{done['people']:,} people of {timezone} will have their offers of {done['date']}, "
            f"in {done['shards']:,} shards."
        )
    else:
        page().print(f"Nothing to add: the offers of {done['date']} in {timezone} are queued or computed.")


def call(context: typer.Context, request: Mapping[str, str], *, on_aws: bool) -> dict[str, Any]:
    """Call the scheduler through Lambda's API and return its answer.

    Raises:
        UsageError: it refuses the request.
        CommandError: it failed, or Lambda did not run it.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = _lambda(context, on_aws=on_aws).invoke(FunctionName=FUNCTION, Payload=json.dumps(request).encode())
        found: dict[str, Any] = json.loads(answer["Payload"].read())
    except (BotoCoreError, ClientError) as error:
        hint = ". It may be running: retry later" if "TooManyRequestsException" in str(error) else ""
        raise CommandError(f"Lambda did not run the scheduler: {error}{hint}") from error
    if "FunctionError" in answer:
        raise CommandError(f"The scheduler failed, see its log: {found.get('errorMessage', 'no message')}")
    if "refused" in found:
        raise UsageError(found["refused"])
    return found


def _lambda(context: typer.Context, *, on_aws: bool) -> Any:
    if not on_aws:
        from cli.local.cloud import Cloud  # slow to import
        from cli.local.place import place_of

        return Cloud.at(place_of(context.obj)).client("lambda", patience=PATIENCE)
    import boto3
    from botocore.config import Config

    config = Config(read_timeout=PATIENCE, retries={"mode": "standard", "total_max_attempts": 3})
    return boto3.client("lambda", config=config)
