"""`counterfoil up`, `down` and `status`."""

import shlex
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from cli.failures import CloudError, ExitCode, UsageError
from cli.local import cloud, deployment, emulator
from cli.local.cloud import Cloud
from cli.local.deployment import DeployOptions
from cli.local.paths import cloud_paths
from cli.output import Checklist, print_json, stdout


def up(
    context: typer.Context,
    *,
    port: Annotated[
        int | None, typer.Option(min=1024, max=65535, help="Port of the AWS emulator. Default: any free port.")
    ] = None,
    database_port: Annotated[
        int | None,
        typer.Option(min=1024, max=65535, help="Port of PostgreSQL. Default: the last port, or any free port."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Setting for every function, such as LEASE_SECONDS=60. Can be repeated."
        ),
    ] = None,
    timeout: Annotated[
        int | None, typer.Option(min=1, help="Maximum timeout of every function with a queue, in seconds.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print URLs and folders as JSON.")] = False,
) -> None:
    """Start the local cloud and deploy the app into it.

    A running cloud keeps running. The app is deployed again only if its sources or settings have changed. --setting
    and --timeout replace all settings of the last deployment. If both are omitted, those settings remain. After a
    failure or interruption, the command ends everything that it started.
    """
    tuning = DeployOptions(_parse_settings(setting or []), timeout) if setting or timeout else None
    steps = Checklist()
    with steps.live():
        result = cloud.up(cloud_paths(context.obj), steps, port=port, database_port=database_port, tuning=tuning)
    report = {
        **_locations(result.cloud),
        "started": result.started,
        "deployed": result.deployed,
        "seconds": round(result.seconds, 3),
    }
    if as_json:
        print_json(report)
        return
    states = {(True, True): "is running", (False, True): "was already running; the app was deployed again"}
    state = states.get((result.started, result.deployed), "was already running, and nothing has changed")
    stdout().print(f"The local cloud {state} ({result.seconds:.1f} s).")
    _show(_locations(result.cloud))


def _parse_settings(settings: list[str]) -> dict[str, str]:
    """Return settings by name.

    Raises:
        UsageError: a setting is not NAME=VALUE.
    """
    values = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not name or not sign:
            raise UsageError("A setting must have the form NAME=VALUE, such as --setting LEASE_SECONDS=60")
        values[name] = value
    return values


def down(context: typer.Context) -> None:
    """Stop the local cloud and delete all its data.

    Uploaded files, documents and logs are deleted. Built packages remain, which speeds up the next start.
    """
    steps = Checklist()
    with steps.live():
        was_there = cloud.down(cloud_paths(context.obj), steps)
    stdout().print("The local cloud was stopped and deleted." if was_there else "There was no local cloud.")


def status(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_environment: Annotated[
        bool, typer.Option("--env", help="Print shell commands that point AWS tools at the local cloud.")
    ] = False,
) -> None:
    """Show whether the local cloud is running, and its pending messages.

    Exits with 3 if the local cloud is not running.
    """
    paths = cloud_paths(context.obj)
    try:
        running = Cloud.at(paths)
        queues = _queue_counts(running)
    except CloudError as error:
        if not as_json:
            raise
        print_json({"up": False, "reason": str(error), "folder": paths.folder})
        raise typer.Exit(ExitCode.NO_CLOUD) from None
    if as_environment:
        for name, value in running.state.emulator.environment.items():
            typer.echo(f"export {name}={shlex.quote(value)}")
        return
    current = deployment.fingerprint(running.state.database_url, running.state.tuning)
    changed = running.state.deployment is not None and running.state.deployment.fingerprint != current
    if as_json:
        print_json({"up": True, **_locations(running), "changed_since_deployment": changed, "queues": queues})
        return
    stdout().print("The local cloud is running.")
    _show(_locations(running))
    columns = [Column(name, justify="right") for name in ("waiting", "in flight", "delayed", "in DLQ", "dead letters")]
    table = Table("queue", *columns, box=None, header_style="dim")
    for name, depths in queues.items():
        table.add_row(name, *("" if depth is None else str(depth) for depth in depths.values()))
    stdout().print(table)
    if changed:
        stdout().print("The app has changed since it was deployed. To redeploy: counterfoil up", style="yellow")


def _locations(running: Cloud) -> dict[str, Any]:
    last_deployment = running.state.deployment
    return {
        "endpoint": running.state.emulator.endpoint,
        "account": emulator.ACCOUNT,
        "region": emulator.REGION,
        "uploads_bucket": running.outputs.get("UploadsBucketName"),
        "database": running.database_url("counterfoil_worker"),
        "folder": str(running.paths.folder),
        "logs": str(running.paths.logs),
        "emulator_pid": running.state.emulator.pid,
        "database_pid": running.state.database_pid,
        "since": _iso_time(running.state.emulator.started),
        "deployed_at": _iso_time(last_deployment.at) if last_deployment else None,
    }


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _show(locations: dict[str, Any]) -> None:
    table = Table.grid(padding=(0, 2))
    for name, value in (
        (
            "AWS",
            f"{locations['endpoint']} (account {locations['account']}, {locations['region']})",
        ),
        ("AWS tools", 'eval "$(counterfoil status --env)"'),
        ("uploads", f"s3://{locations['uploads_bucket']}/uploads/TENANT/"),
        ("database", locations["database"]),
        ("logs", locations["logs"]),
    ):
        table.add_row(Text(f"  {name}", "dim"), Text(value, overflow="fold"))
    stdout().print(table)


_PENDING = "SELECT worker, count(*) FROM dead_letter WHERE status = 'pending' AND purged_at IS NULL GROUP BY worker"


def _queue_counts(running: Cloud) -> dict[str, dict[str, int | None]]:
    """Return counts of messages, DLQ messages and pending dead letters by queue."""
    from counterfoil.aws import translate_errors

    sqs = running.client("sqs")

    def queue_depths(url: str) -> dict[str, str]:
        names = [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ]
        attributes: dict[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return attributes

    with running.database.delivery() as connection:
        pending: dict[str, int] = dict(connection.execute(_PENDING).fetchall())
    queues: dict[str, dict[str, int | None]] = {}
    with translate_errors():
        for name, url in sorted(running.outputs.items()):
            if name.endswith("DeadLetterQueueUrl") or not name.endswith("QueueUrl"):
                continue
            queue = url.rsplit("/", 1)[-1]
            depths = queue_depths(url)
            queues[queue] = {
                "waiting": int(depths["ApproximateNumberOfMessages"]),
                "in_work": int(depths["ApproximateNumberOfMessagesNotVisible"]),
                "delayed": int(depths["ApproximateNumberOfMessagesDelayed"]),
                "in_dlq": None,
                "dead_letters": None,
            }
            dlq = running.outputs.get(f"{name.removesuffix('QueueUrl')}DeadLetterQueueUrl")  # retry queues have no DLQ
            if dlq is not None:
                queues[queue] |= {
                    "in_dlq": int(queue_depths(dlq)["ApproximateNumberOfMessages"]),
                    "dead_letters": pending.get(queue.removeprefix("counterfoil-"), 0),
                }
    return queues
