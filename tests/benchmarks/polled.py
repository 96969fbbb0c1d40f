"""`python -m tests.benchmarks.polled`: what the questions cost that open pages of the console ask again and again."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any
from urllib.parse import urlencode

import psycopg
import typer

from cli.local.postgres import PostgresServer
from counterfoil.settings import settings
from functions.admin_api import handler
from tests.benchmarks import dead_letters
from tests.benchmarks.console import share_95
from tests.benchmarks.scale import database
from tests.delivery.harness import Context
from tests.functions.admin_api.conftest import SIGN_IN, event

TENANT = "tenant-0"
"""The one that has most of the letters."""
WORKERS = ("acquisition", "ingestion", "matching", "diagnostics", "document_output", "tasks", "offers")
ALONE = "/api/nothing-here"
"""It is found out who asks, and that there is no such route."""
DEAR = 5.0
"""As many times the cheapest route that asks the database."""


@dataclass(frozen=True)
class Cost:
    """What a question took in milliseconds, each time it was asked."""

    route: str
    new: Sequence[float]
    """Answered as a whole."""
    known: Sequence[float]
    """Answered with 304: it is as the caller has it already."""


def run(
    letters: Annotated[int, typer.Option(help="Dead letters in all.")] = 200_000,
    rounds: Annotated[int, typer.Option(min=2, help="How often each is asked.")] = 200,
) -> None:
    """Ask in one process, without a gateway, and print a table; work but dead letters there is none."""
    with TemporaryDirectory(prefix="counterfoil-polled-") as place:
        Path(place).chmod(0o711)
        embedded = PostgresServer(Path(place) / "postgres")
        try:
            server = embedded.start(durable=False)
            url = database.prepare(server, "letters", dead_letters.TENANTS)
            dead_letters.load(url, letters, datetime.now(UTC))
            deploy(server.url("letters", "counterfoil_worker"))
            costs = measure(questions(url), rounds)
        finally:
            embedded.remove()
    for line in report(costs):
        print(line)  # noqa: T201


def deploy(url: str) -> None:
    """Set the environment of the function."""
    queues = {worker: {"urls": [], "mappings": [], "gate": 24} for worker in WORKERS}
    # One process sends far more requests than the rate limit of a tenant allows.
    told = {"DATABASE_URL": url, "SIGN_IN": SIGN_IN, "QUEUES": queues, "READS_AT_ONCE": "1000000"}
    os.environ |= {name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}
    settings.cache_clear()


def questions(url: str) -> dict[str, tuple[str, Mapping[str, str]]]:
    """Path and query of what is polled, by the view's name and what it asks for."""
    with psycopg.connect(url) as connection:
        ((letter,),) = connection.execute(
            "SELECT job_id FROM dead_letter WHERE tenant_id = %s AND status = 'pending' LIMIT 1",
            [database.tenant_id(0)],
        ).fetchall()
    dlq, whose = "/api/admin/dlq", {"tenant": TENANT}
    pending = {**whose, "status": "pending"}
    return {
        "authentication alone": (ALONE, {}),
        "every page: paused queues": ("/api/admin/queues/paused", {}),
        "overview": ("/api/admin/queues", whose),
        "dead letters: counts": (f"{dlq}/stats", whose),
        "dead letters: list": (dlq, pending),
        "dead letters: groups": (f"{dlq}/groups", {**pending, "limit": "10"}),
        "dead letters: search": (dlq, {**pending, "text": "timed out"}),
        "dead letter": (f"{dlq}/{letter}", {}),
        "dead letter: timeline": (f"{dlq}/{letter}/timeline", {}),
        "operations": ("/api/admin/operations", whose),
        "audit": (f"{dlq}/audit", whose),
        "documents": ("/api/admin/documents", whose),
        "review": ("/api/admin/reviews", whose),
        "tasks": ("/api/tasks", whose),
        "offers": ("/api/admin/offers", whose),
    }


def measure(asked: Mapping[str, tuple[str, Mapping[str, str]]], rounds: int) -> list[Cost]:
    """Ask everything in turn, in another order each time: what disturbs the machine disturbs all alike."""
    random, took = Random(1), {name: ([], []) for name in asked}  # type: ignore[var-annotated]
    for _ in range(rounds):
        for name in random.sample(list(asked), len(asked)):
            new, tag, status = timed(*asked[name], None)
            took[name][0].append(new)
            if status == 200:  # OK
                known, _, again = timed(*asked[name], tag)
                assert again == 304, f"{name}: {again}, though nothing has changed"  # NOT MODIFIED
                took[name][1].append(known)
            else:
                assert asked[name][0] == ALONE, f"{name}: {status}"
    return [Cost(name, *both) for name, both in took.items()]


def timed(path: str, query: Mapping[str, str], tag: str | None) -> tuple[float, str | None, int]:
    """Milliseconds, the ETag and the status of an answer."""
    asked = request(path, query, tag)
    began = perf_counter()
    answer = handler.handle(asked, Context())
    return (perf_counter() - began) * 1000, answer["headers"].get("ETag"), answer["statusCode"]


def request(
    path: str, query: Mapping[str, str], tag: str | None, *, tenant: str = TENANT, user: str = "viewer"
) -> dict[str, Any]:
    """Return the event of a read by a viewer of a tenant."""
    asked = event() | {"rawPath": path, "body": None}
    asked["requestContext"]["http"] |= {"path": path, "method": "GET"}
    asked["requestContext"]["authorizer"]["jwt"]["claims"] |= {
        "sub": user,
        "cognito:groups": f"[viewer tenant:{tenant}]",
    }
    if query:
        asked |= {"rawQueryString": urlencode(query), "queryStringParameters": dict(query)}
    if tag is not None:
        asked["headers"] |= {"if-none-match": tag}
    return asked


def report(costs: Sequence[Cost]) -> list[str]:
    """A table: p50 and p95 of each, and as many times the authentication; what is dear is marked."""
    unit = median(costs[0].new)
    cheapest = min(median(cost.new) for cost in costs[1:])
    lines = [f"{'':28}{'p50 ms':>9}{'p95 ms':>9}{'304 p50':>9}{'304 p95':>9}{'x alone':>9}"]
    for cost in costs:
        known = [f"{of(cost.known):9.1f}" if cost.known else f"{'':9}" for of in _SHARES]
        dear = "  dear" if median(cost.new) > DEAR * cheapest else ""
        new = median(cost.new)
        lines.append(f"{cost.route:28}{new:9.1f}{share_95(cost.new):9.1f}{''.join(known)}{new / unit:9.1f}{dear}")
    return lines


_SHARES: tuple[Callable[[Sequence[float]], float], ...] = (median, share_95)

if __name__ == "__main__":
    typer.run(run)
