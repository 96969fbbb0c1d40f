"""`counterfoil replay`: replay an incident with many invoices in one file."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Column, Table
from rich.text import Text

from cli.failures import CommandError, ExitCode
from cli.local.cloud import Cloud, running_cloud
from cli.local.paths import ROOT, cloud_paths
from cli.local.tenants import Tenant, add_tenant
from cli.local.uploads import POLL_SECONDS, upload
from cli.output import DONE, FAILED, Counters, print_json, stdout, write_json
from counterfoil.aws import translate_errors
from tools.replay import log_records
from tools.replay.checks import Check, Document, ExpectedDocuments, ReplayData, run_checks
from tools.replay.log_records import Record
from tools.replay.setup import ReplayMode, lower_visibility, replay_environment, replay_modes
from tools.replay.slow_s3 import slow_s3
from tools.sample_generator.bulk import orders_with_invoices
from tools.sample_generator.bundle import Bundle, bundle

OUTPUT = ROOT / "build" / "replay"
SEED = 1
_WORKERS = ("acquisition", "ingestion", "matching")
_LOG_SECONDS = 15
"""Maximum seconds to wait for log records, which arrive only when their invocation ends."""


@dataclass(frozen=True)
class ReplayOptions:
    """Input and load of a replay. Durations are in seconds."""

    bundle: Bundle
    concurrency_limit: int
    work_seconds: float
    visibility: int
    seconds: float
    """Maximum duration of a run."""


@dataclass(frozen=True)
class ReplayResult:
    """Result of one mode."""

    mode: ReplayMode
    seconds: float
    max_permit_wait: float
    """Longest time that a message waited for its permit, in seconds."""
    checks: Sequence[Check]

    @property
    def passed(self) -> bool:
        """Return whether all checks passed."""
        return all(check.passed for check in self.checks)

    @property
    def record(self) -> dict[str, Any]:
        """Result as a JSON object."""
        return {
            "mode": self.mode.name,
            "batch_size": self.mode.batch_size,
            "maximum_concurrency": self.mode.maximum_concurrency,
            "invocations": self.mode.invocations,
            "permits": self.mode.permits,
            "seconds": round(self.seconds, 3),
            "max_permit_wait_seconds": round(self.max_permit_wait, 3),
            "passed": self.passed,
            "checks": [check.record for check in self.checks],
        }


def replay(
    context: typer.Context,
    *,
    invoices: Annotated[int, typer.Option(min=2, max=500, help="Number of invoices in the file.")] = 23,
    concurrency: Annotated[int, typer.Option(min=2, max=10, help="Maximum number of concurrent ingestions.")] = 3,
    work_seconds: Annotated[
        float, typer.Option(min=0.1, max=60, help="Minimum duration of each ingestion in seconds.")
    ] = 2,
    visibility: Annotated[int, typer.Option(min=2, help="Visibility timeout of the queue in seconds.")] = 3,
    keep: Annotated[bool, typer.Option("--keep-running", help="Keep the cloud running after the replay.")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Maximum seconds for each of the two runs.")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="Print build/replay.json instead of tables.")] = False,
) -> None:
    """Replay an incident with many invoices in one file.

    The file has a cover page that lists the invoices. Some invoices have several pages, and some consecutive invoices
    have the same supplier. The file is ingested twice. The first run has one message per invocation, and as many
    invocations as the concurrency limit. The second run has ten messages in one invocation, and as many permits as the
    concurrency limit. Downloads are slowed down, and the queue's visibility timeout is far shorter than the messages'
    waiting time.

    Checks that every invoice has its own pages, no message is lost or processed twice, and the concurrency limit is
    never exceeded.

    Starts the local cloud if necessary, and always restores its settings. Exits with 1 if a check fails.
    """
    options = ReplayOptions(_bundle(SEED, invoices), concurrency, work_seconds, visibility, timeout)
    with running_cloud(cloud_paths(context.obj), OUTPUT / "logs", keep=keep) as cloud:
        results = [_replay(cloud, mode, options) for mode in replay_modes(concurrency)]
    passed = all(result.passed for result in results)
    report = {
        "invoices": invoices,
        "concurrency": concurrency,
        "work_seconds": work_seconds,
        "visibility": visibility,
        "passed": passed,
        "runs": [result.record for result in results],
    }
    write_json(OUTPUT.with_suffix(".json"), report)
    if as_json:
        print_json(report)
    else:
        _show(results)
    if not passed:
        raise typer.Exit(ExitCode.FAILED_CHECK)


def _replay(cloud: Cloud, mode: ReplayMode, options: ReplayOptions) -> ReplayResult:
    with (
        slow_s3(cloud.state.emulator.endpoint, options.work_seconds) as s3,
        replay_environment(cloud, mode, s3.endpoint),
    ):
        # Warm up the processes, because messages are unprotected during a cold start, which takes longer than the
        # replay's visibility timeout.
        warm_up = replace(options, bundle=_bundle(SEED + 1, max(2, mode.invocations)))
        _ingest(cloud, mode, warm_up)
        with lower_visibility(cloud, options.visibility):
            started = time.monotonic()
            tenant = _ingest(cloud, mode, options)
            seconds = time.monotonic() - started
            data = _collect(cloud, tenant, 2 * len(options.bundle.documents) + 1, s3.downloads.max_concurrent)
    max_permit_wait = max((record.permit_wait for record in data.records), default=0.0)
    return ReplayResult(
        mode, seconds, max_permit_wait, run_checks(data, _expected(options.bundle), options.concurrency_limit)
    )


def _bundle(seed: int, count: int) -> Bundle:
    generated = list(orders_with_invoices(seed, count, varied=True))
    return bundle([invoice for _, invoice in generated], sender=generated[0][0].issuer)


def _expected(bundle: Bundle) -> ExpectedDocuments:
    invoices = zip(bundle.documents, bundle.ranges, strict=True)
    return ExpectedDocuments({invoice.number: pages for invoice, pages in invoices}, len(bundle.covers))


def _ingest(cloud: Cloud, mode: ReplayMode, options: ReplayOptions) -> Tenant:
    """Upload the invoices in one file for a new tenant, and wait for all documents."""
    tenant, _ = add_tenant(cloud, f"replay-{token_hex(4)}", "Replay")
    path = OUTPUT / "invoices.pdf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(options.bundle.content)
    list(upload(cloud, tenant, [path]))
    _wait(cloud, tenant, mode, options)
    return tenant


def _wait(cloud: Cloud, tenant: Tenant, mode: ReplayMode, options: ReplayOptions) -> None:
    """Wait until all of the tenant's documents are finished, whatever their outcome."""
    count, deadline = len(options.bundle.ranges) + len(options.bundle.covers), time.monotonic() + options.seconds
    with Counters(["split off", "ingested", "matched"], count) as counters:
        while True:
            documents = list(_documents(cloud, tenant))
            children = [document for document in documents if document.is_child]
            ingested = [document for document in children if document.ingestion in {None, "failed", "succeeded"}]
            matched = [
                document
                for document in ingested
                if document.ingestion != "succeeded" or document.matching not in _IN_PROGRESS
            ]
            counters.show([len(children), len(ingested), len(matched)])
            parent = next((document for document in documents if not document.is_child), None)
            if parent is not None and parent.ingestion not in _IN_PROGRESS and len(matched) == len(children):
                return
            if time.monotonic() > deadline:
                raise CommandError(
                    f"After {options.seconds:.0f} s, with {mode.name}, {len(children)} of {count} parts are split off, "
                    f"{len(ingested)} ingested and {len(matched)} matched. Try a longer --timeout."
                )
            time.sleep(POLL_SECONDS)


_IN_PROGRESS = {"pending", "in-progress"}
_DOCUMENTS = """
SELECT d.id, d.parent_id IS NOT NULL, d.first_page, d.last_page, d.structured_data ->> 'invoice_number', i.status,
       d.matching_status, i.attempts + d.matching_attempts
FROM document d JOIN ingestion_job i ON i.id = d.id ORDER BY d.parent_id NULLS FIRST, d.first_page
"""
_FAILURES = "SELECT (SELECT count(*) FROM dead_letter), (SELECT count(*) FROM failure_event)"


def _documents(cloud: Cloud, tenant: Tenant) -> Iterator[Document]:
    with cloud.database.tenant(tenant.id) as connection:
        rows = connection.execute(_DOCUMENTS).fetchall()
    for row in rows:
        yield Document(*row)


def _collect(cloud: Cloud, tenant: Tenant, messages: int, max_concurrent_downloads: int) -> ReplayData:
    documents = list(_documents(cloud, tenant))
    records = _records(cloud, {document.id for document in documents}, messages)
    with cloud.database.tenant(tenant.id) as connection:
        ((dead_letters, notifications),) = connection.execute(_FAILURES).fetchall()
    return ReplayData(documents, records, dead_letters, notifications, _queue_depths(cloud), max_concurrent_downloads)


def _records(cloud: Cloud, ids: set[UUID], messages: int) -> list[Record]:
    """Return the log records of these documents.

    Waits up to _LOG_SECONDS for the expected number of records.
    """
    deadline = time.monotonic() + _LOG_SECONDS
    while True:
        lines = [line for worker in ("ingestion", "matching") for line in _log_lines(cloud, worker)]
        records = [record for record in log_records.records(lines) if record.work_id in ids]
        if len(records) >= messages or time.monotonic() > deadline:
            return records
        time.sleep(POLL_SECONDS)


def _log_lines(cloud: Cloud, worker: str) -> Iterator[str]:
    pages = cloud.client("logs").get_paginator("filter_log_events")
    with translate_errors():
        for log_page in pages.paginate(
            logGroupName=f"/aws/lambda/{cloud.outputs[f'{worker.capitalize()}FunctionName']}"
        ):
            yield from (event["message"] for event in log_page["events"])


def _queue_depths(cloud: Cloud) -> dict[str, int]:
    """Return the number of visible, in-flight and delayed messages by queue and DLQ."""
    sqs, depths = cloud.client("sqs"), {}
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    with translate_errors():
        for worker in _WORKERS:
            for kind in ("Queue", "DeadLetterQueue"):
                url = cloud.outputs[f"{worker.capitalize()}{kind}Url"]
                attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
                depths[url.rsplit("/", 1)[-1]] = sum(int(number) for number in attributes.values())
    return depths


def _show(results: Sequence[ReplayResult]) -> None:
    screen = stdout()
    for result in results:
        screen.rule(result.mode.name.capitalize(), align="left")
        table = Table(Column("", no_wrap=True), "check", "expected", "found", box=None, pad_edge=False)
        for check in result.checks:
            actual = Text(check.found, "" if check.passed else "red")
            table.add_row(DONE if check.passed else FAILED, check.name, check.expected, actual)
        screen.print(table)
        screen.print(f"{result.seconds:.1f} s; the longest wait for a permit was {result.max_permit_wait:.1f} s.")
    failed = sum(not check.passed for result in results for check in result.checks)
    screen.print(FAILED if failed else DONE, f"{failed} checks failed." if failed else "All checks passed.")
