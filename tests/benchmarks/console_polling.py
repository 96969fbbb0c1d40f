"""Measure the console's polling requests.

Run `python -m tests.benchmarks.console_polling`.
"""

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
from tests.benchmarks.console import p95
from tests.benchmarks.scale import database
from tests.delivery.harness import Context
from tests.functions.admin_api.conftest import SIGN_IN, event

TENANT = "tenant-0"
"""Slug of the tenant with the most dead letters."""
WORKERS = ("acquisition", "ingestion", "matching", "diagnostics", "document_output", "tasks", "offers")
ALONE = "/api/nothing-here"
"""An unknown route, for which the API only authenticates and routes."""
EXPENSIVE = 5.0
"""A route is marked as expensive if its p50 exceeds this multiple of the cheapest database route's p50."""


@dataclass(frozen=True)
class Cost:
    """Durations of all requests to one route, in milliseconds."""

    route: str
    new: Sequence[float]
    """Durations of the requests answered with 200."""
    known: Sequence[float]
    """Durations of the repeated requests answered with 304."""


def run(
    total: Annotated[int, typer.Option("--dead-letters", help="Number of dead letters.")] = 200_000,
    rounds: Annotated[int, typer.Option(min=2, help="Number of measurements per route.")] = 200,
) -> None:
    """Measure the API handler in one process, without a gateway, and print a table.

    The database contains dead letters and no other work items.
    """
    with TemporaryDirectory(prefix="counterfoil-polled-") as directory:
        Path(directory).chmod(0o711)
        embedded = PostgresServer(Path(directory) / "postgres")
        try:
            server = embedded.start(durable=False)
            url = database.prepare(server, "dead_letters", dead_letters.TENANTS)
            dead_letters.load(url, total, datetime.now(UTC))
            deploy(server.url("dead_letters", "counterfoil_worker"))
            costs = measure(polled_routes(url), rounds)
        finally:
            embedded.remove()
    for line in report(costs):
        print(line)  # noqa: T201


def deploy(url: str) -> None:
    """Set the environment variables of the API function in this process."""
    queues = {worker: {"urls": [], "mappings": [], "limit": 24} for worker in WORKERS}
    # One process sends far more requests than a tenant's rate limit allows.
    variables = {"DATABASE_URL": url, "OIDC": SIGN_IN, "QUEUES": queues, "READS_AT_ONCE": "1000000"}
    os.environ |= {name: value if isinstance(value, str) else json.dumps(value) for name, value in variables.items()}
    settings.cache_clear()


def polled_routes(url: str) -> dict[str, tuple[str, Mapping[str, str]]]:
    """Return each polled route's path and query, by the name printed in the table."""
    with psycopg.connect(url) as connection:
        ((job_id,),) = connection.execute(
            "SELECT job_id FROM dead_letter WHERE tenant_id = %s AND status = 'pending' LIMIT 1",
            [database.tenant_id(0)],
        ).fetchall()
    dlq, tenant = "/api/admin/dlq", {"tenant": TENANT}
    pending = {**tenant, "status": "pending"}
    return {
        "authentication alone": (ALONE, {}),
        "every page: paused queues": ("/api/admin/queues/paused", {}),
        "overview": ("/api/admin/queues", tenant),
        "dead letters: counts": (f"{dlq}/stats", tenant),
        "dead letters: list": (dlq, pending),
        "dead letters: groups": (f"{dlq}/groups", {**pending, "limit": "10"}),
        "dead letters: search": (dlq, {**pending, "search": "timed out"}),
        "dead letter": (f"{dlq}/{job_id}", {}),
        "dead letter: timeline": (f"{dlq}/{job_id}/timeline", {}),
        "operations": ("/api/admin/operations", tenant),
        "audit": (f"{dlq}/audit", tenant),
        "documents": ("/api/admin/documents", tenant),
        "review": ("/api/admin/reviews", tenant),
        "tasks": ("/api/tasks", tenant),
        "offers": ("/api/admin/offers", tenant),
    }


def measure(routes: Mapping[str, tuple[str, Mapping[str, str]]], rounds: int) -> list[Cost]:
    """Request all routes in random order, so that other load affects them equally."""
    random, took = Random(1), {name: ([], []) for name in routes}  # type: ignore[var-annotated]
    for _ in range(rounds):
        for name in random.sample(list(routes), len(routes)):
            new, tag, status = time_request(*routes[name], None)
            took[name][0].append(new)
            if status == 200:  # OK
                known, _, again = time_request(*routes[name], tag)
                assert again == 304, f"{name}: expected 304 for unchanged data, got {again}"  # NOT MODIFIED
                took[name][1].append(known)
            else:
                assert routes[name][0] == ALONE, f"{name}: {status}"
    return [Cost(name, *both) for name, both in took.items()]


def time_request(path: str, query: Mapping[str, str], tag: str | None) -> tuple[float, str | None, int]:
    """Handle a request. Return its duration in milliseconds, ETag and status code."""
    api_event = request(path, query, tag)
    began = perf_counter()
    answer = handler.handle(api_event, Context())
    return (perf_counter() - began) * 1000, answer["headers"].get("ETag"), answer["statusCode"]


def request(
    path: str, query: Mapping[str, str], tag: str | None, *, tenant: str = TENANT, user: str = "viewer"
) -> dict[str, Any]:
    """Return the event of a GET request by a tenant's viewer."""
    api_event = event() | {"rawPath": path, "body": None}
    api_event["requestContext"]["http"] |= {"path": path, "method": "GET"}
    api_event["requestContext"]["authorizer"]["jwt"]["claims"] |= {
        "sub": user,
        "cognito:groups": f"[viewer tenant:{tenant}]",
    }
    if query:
        api_event |= {"rawQueryString": urlencode(query), "queryStringParameters": dict(query)}
    if tag is not None:
        api_event["headers"] |= {"if-none-match": tag}
    return api_event


def report(costs: Sequence[Cost]) -> list[str]:
    """Return a table of p50, p95 and the ratio to the p50 of authentication alone.

    Mark expensive routes.
    """
    unit = median(costs[0].new)
    cheapest = min(median(cost.new) for cost in costs[1:])
    lines = [f"{'':28}{'p50 ms':>9}{'p95 ms':>9}{'304 p50':>9}{'304 p95':>9}{'x alone':>9}"]
    for cost in costs:
        known = [f"{of(cost.known):9.1f}" if cost.known else f"{'':9}" for of in _STATISTICS]
        mark = "  expensive" if median(cost.new) > EXPENSIVE * cheapest else ""
        new = median(cost.new)
        lines.append(f"{cost.route:28}{new:9.1f}{p95(cost.new):9.1f}{''.join(known)}{new / unit:9.1f}{mark}")
    return lines


_STATISTICS: tuple[Callable[[Sequence[float]], float], ...] = (median, p95)

if __name__ == "__main__":
    typer.run(run)
