"""`counterfoil replay`: one file of many invoices, few at once, both ways, and what must hold afterwards."""

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
from cli.local.cloud import Cloud, visited
from cli.local.place import ROOT, place_of
from cli.local.tenants import Tenant, add_tenant
from cli.local.uploads import POLL_SECONDS, upload
from cli.output import DONE, FAILED, Counters, page, print_json, write_json
from counterfoil.aws import errors_mapped
from tools.replay import evidence, findings
from tools.replay.evidence import Record
from tools.replay.findings import Check, Document, Found, Truth
from tools.replay.slow_s3 import slow_s3
from tools.replay.stage import Way, lowered, staged, ways
from tools.sample_generator.bulk import deals
from tools.sample_generator.bundle import Bundle, bundle

OUTPUT = ROOT / "build" / "replay"
SEED = 1
_WORKERS = ("acquisition", "ingestion", "matching")
_LOG_SECONDS = 15
"""Lines reach a log when their invocation ends, which is after the last document is done."""


@dataclass(frozen=True)
class Load:
    """What goes through ingestion, and how hard that is made. Durations are seconds."""

    bundle: Bundle
    gate: int
    work_seconds: float
    visibility: int
    seconds: float
    """Within which all must be done."""


@dataclass(frozen=True)
class Replayed:
    """One way, gone through."""

    way: Way
    seconds: float
    waited: float
    """Longest wait of a message for its permit, in seconds."""
    checks: Sequence[Check]

    @property
    def holds(self) -> bool:
        """Whether everything does that must."""
        return all(check.holds for check in self.checks)

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "way": self.way.name,
            "batch_size": self.way.batch_size,
            "maximum_concurrency": self.way.maximum_concurrency,
            "invocations": self.way.invocations,
            "permits": self.way.permits,
            "seconds": round(self.seconds, 3),
            "longest_wait_for_a_permit": round(self.waited, 3),
            "all_hold": self.holds,
            "checks": [check.record for check in self.checks],
        }


def replay(
    context: typer.Context,
    *,
    invoices: Annotated[int, typer.Option(min=2, max=500, help="Invoices in the file.")] = 23,
    gate: Annotated[int, typer.Option(min=2, max=10, help="Ingestions at once, at most.")] = 3,
    work_seconds: Annotated[float, typer.Option(min=0.1, max=60, help="Seconds that each takes at least.")] = 2,
    visibility: Annotated[int, typer.Option(min=2, help="Seconds for which the queue hides a message.")] = 3,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the cloud up, even if the replay has started it.")
    ] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds until each of the two runs must be done.")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="Print what build/replay.json says, and no tables.")] = False,
) -> None:
    """Replay many invoices in one file, few at once.

    The file has a cover page that lists them; some go on over several pages, and now and then two of one supplier
    follow one another. It is ingested twice: with one message for each of as many invocations as the gate allows, and
    with ten messages for one invocation that has as many permits. Downloads are slowed, and the queue's visibility is
    lowered far below the time that messages wait. Then every invoice must have its own pages, nothing may be lost or
    done twice, and the gate must have held.

    Brings the local cloud up if it is not; its settings are put back in any case. Exits with 1 when anything does not
    hold.
    """
    load = Load(_bundle(SEED, invoices), gate, work_seconds, visibility, timeout)
    with visited(place_of(context.obj), OUTPUT / "logs", keep=keep) as cloud:
        replayed = [_replay(cloud, way, load) for way in ways(gate)]
    all_hold = all(one.holds for one in replayed)
    report = {
        "invoices": invoices,
        "gate": gate,
        "work_seconds": work_seconds,
        "visibility": visibility,
        "all_hold": all_hold,
        "runs": [one.record for one in replayed],
    }
    write_json(OUTPUT.with_suffix(".json"), report)
    if as_json:
        print_json(report)
    else:
        _show(replayed)
    if not all_hold:
        raise typer.Exit(ExitCode.UNWANTED)


def _replay(cloud: Cloud, way: Way, load: Load) -> Replayed:
    with (
        slow_s3(cloud.state.emulator.endpoint, load.work_seconds) as s3,
        staged(cloud, way, s3.endpoint),
    ):
        # A message is received before the process that will protect it has started, if none is there yet. A start
        # takes longer than the visibility of the replay: so the processes are started by work of the same kind.
        warming = replace(load, bundle=_bundle(SEED + 1, max(2, way.invocations)))
        _run(cloud, way, warming)
        with lowered(cloud, load.visibility):
            began = time.monotonic()
            tenant = _run(cloud, way, load)
            seconds = time.monotonic() - began
            found = _found(cloud, tenant, 2 * len(load.bundle.documents) + 1, s3.downloads.most)
    waited = max((record.waited for record in found.records), default=0.0)
    return Replayed(way, seconds, waited, findings.checks(found, _truth(load.bundle), load.gate))


def _bundle(seed: int, count: int) -> Bundle:
    made = list(deals(seed, count, varied=True))
    return bundle([invoice for _, invoice in made], sent_by=made[0][0].written_by)


def _truth(bundle: Bundle) -> Truth:
    invoices = zip(bundle.documents, bundle.ranges, strict=True)
    return Truth({invoice.number: pages for invoice, pages in invoices}, len(bundle.covers))


def _run(cloud: Cloud, way: Way, load: Load) -> Tenant:
    """Upload the invoices in one file, for a tenant of its own, and wait until nothing of it is under way."""
    tenant, _ = add_tenant(cloud, f"replay-{token_hex(4)}", "Replay")
    path = OUTPUT / "invoices.pdf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(load.bundle.content)
    list(upload(cloud, tenant, [path]))
    _watch(cloud, tenant, way, load)
    return tenant


def _watch(cloud: Cloud, tenant: Tenant, way: Way, load: Load) -> None:
    """Wait until nothing of the tenant's is under way. What became of it is looked at later."""
    count, deadline = len(load.bundle.ranges) + len(load.bundle.covers), time.monotonic() + load.seconds
    with Counters(["split off", "ingested", "matched"], count) as shown:
        while True:
            documents = list(_documents(cloud, tenant))
            children = [document for document in documents if document.is_child]
            ended = [one for one in children if one.ingestion in {None, "failed", "succeeded"}]
            matched = [one for one in ended if one.ingestion != "succeeded" or one.matching not in _UNDER_WAY]
            shown.show([len(children), len(ended), len(matched)])
            parent = next((one for one in documents if not one.is_child), None)
            if parent is not None and parent.ingestion not in _UNDER_WAY and len(matched) == len(children):
                return
            if time.monotonic() > deadline:
                raise CommandError(
                    f"After {load.seconds:.0f} s, with {way.name}, {len(children)} of {count} parts are split off, "
                    f"{len(ended)} ingested and {len(matched)} matched; --timeout gives them longer."
                )
            time.sleep(POLL_SECONDS)


_UNDER_WAY = {"pending", "in-progress"}
_DOCUMENTS = """
SELECT d.id, d.parent_id IS NOT NULL, d.first_page, d.last_page, d.structured_data ->> 'invoice_number', i.status,
       d.matching_status, i.attempts + d.matching_attempts
FROM document d JOIN ingestion_job i ON i.id = d.id ORDER BY d.parent_id NULLS FIRST, d.first_page
"""
_FAILURES = "SELECT (SELECT count(*) FROM dead_letter), (SELECT count(*) FROM notification)"


def _documents(cloud: Cloud, tenant: Tenant) -> Iterator[Document]:
    with cloud.database.tenant(tenant.id) as connection:
        rows = connection.execute(_DOCUMENTS).fetchall()
    for row in rows:
        yield Document(*row)


def _found(cloud: Cloud, tenant: Tenant, messages: int, downloads_at_once: int) -> Found:
    documents = list(_documents(cloud, tenant))
    records = _records(cloud, {document.id for document in documents}, messages)
    with cloud.database.tenant(tenant.id) as connection:
        ((dead_letters, notifications),) = connection.execute(_FAILURES).fetchall()
    return Found(documents, records, dead_letters, notifications, _queued(cloud), downloads_at_once)


def _records(cloud: Cloud, ids: set[UUID], messages: int) -> list[Record]:
    """What the logs of ingestion and matching say of these documents, once they say as much as there is to come."""
    deadline = time.monotonic() + _LOG_SECONDS
    while True:
        lines = [line for worker in ("ingestion", "matching") for line in _log(cloud, worker)]
        found = [record for record in evidence.records(lines) if record.work_id in ids]
        if len(found) >= messages or time.monotonic() > deadline:
            return found
        time.sleep(POLL_SECONDS)


def _log(cloud: Cloud, worker: str) -> Iterator[str]:
    pages = cloud.client("logs").get_paginator("filter_log_events")
    with errors_mapped():
        for found in pages.paginate(logGroupName=f"/aws/lambda/{cloud.outputs[f'{worker.capitalize()}FunctionName']}"):
            yield from (event["message"] for event in found["events"])


def _queued(cloud: Cloud) -> dict[str, int]:
    """Messages in the queue and the dead-letter queue of every worker, hidden and delayed ones too."""
    sqs, queued = cloud.client("sqs"), {}
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    with errors_mapped():
        for worker in _WORKERS:
            for kind in ("Queue", "DeadLetterQueue"):
                url = cloud.outputs[f"{worker.capitalize()}{kind}Url"]
                attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
                queued[url.rsplit("/", 1)[-1]] = sum(int(number) for number in attributes.values())
    return queued


def _show(replayed: Sequence[Replayed]) -> None:
    screen = page()
    for one in replayed:
        screen.rule(one.way.name.capitalize(), align="left")
        table = Table(Column("", no_wrap=True), "what must hold", "expected", "found", box=None, pad_edge=False)
        for check in one.checks:
            found = Text(check.found, "" if check.holds else "red")
            table.add_row(DONE if check.holds else FAILED, check.name, check.expected, found)
        screen.print(table)
        screen.print(f"{one.seconds:.1f} s; a message waited up to {one.waited:.1f} s for its permit.")
    failed = sum(not check.holds for one in replayed for check in one.checks)
    screen.print(FAILED if failed else DONE, f"{failed} things do not hold." if failed else "Everything holds.")
