"""Uploaded documents are processed correctly and once despite killed processes.

Worker processes and PostgreSQL are killed while documents arrive, and one in five calls to the language model fails.
COUNTERFOIL_CHAOS_SEED repeats the order of kills and pauses. Other timing depends on the machine. `make soak` uses more
documents and more kills.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from random import Random
from threading import Event
from uuid import uuid4

import psycopg
import pytest

from cli.local.cloud import Cloud
from cli.local.postgres import temporary_server
from cli.local.tenants import Tenant, add_tenant
from counterfoil.db import Database
from counterfoil.deadline import Deadline
from counterfoil.documents.extraction import extract
from counterfoil.documents.matching import Judge
from functions.migrate.runner import apply
from tests.documents.matching.samples import SampleDocument as Paper
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.e2e.chaos import Chaos, separate_cloud, watchdog_running
from tests.e2e.database_snapshot import Snapshot, queued_messages, read_snapshot
from tests.e2e.fault_checks import find_faults
from tests.e2e.load import (
    AMBIGUOUS_DEALS,
    DOCUMENTS,
    LOAD_SECONDS,
    GroundTruth,
    LoadFile,
    Model,
    choose_candidates,
    generate_load,
)
from tests.e2e.polling import wait_until
from tests.llm.server import Request, Server
from tools.evaluation.command import MIGRATIONS

pytestmark = [
    pytest.mark.e2e,
    # A connection whose peer was killed during a response is closed only by the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SEED = int(os.environ.get("COUNTERFOIL_CHAOS_SEED") or time.time_ns() % 1_000_000)
LOAD_SEED = 1
"""Seed of the documents. It is fixed, because the test without kills verifies the ground truth of this seed only."""
WORKER_KILLS = max(9, LOAD_SECONDS // 5)
DATABASE_KILLS = WORKER_KILLS // 4
BACKLOG = DOCUMENTS // 5
"""Number of documents uploaded before the first kill, so that kills always interrupt work."""
FAILURE_SHARE = 0.2
MAX_FAILED = DOCUMENTS // 20
"""Maximum number of documents that may fail, each after three consecutive failures. Usually none fail."""
ANSWER_SECONDS = 0.3
SETTINGS = {
    "REDELIVERY_DELAYS_SECONDS": "[2, 4]",
    "LEASE_SECONDS": "15",
    "HEARTBEAT_INTERVAL_SECONDS": "3",
    "MIN_VISIBILITY_SECONDS": "20",
    "OUTBOX_OVERDUE_SECONDS": "3",
    "RESEND_AFTER_SECONDS": "30",
    "LLM_PROVIDER": "openai",
    "LLM_MODEL": "scripted",
    "LLM_API_KEY": "none",
    "LLM_RETRY_BASE_SECONDS": "0.1",
    "BREAKER_OPEN_SECONDS": "2",
}
SECONDS = 300
"""Timeout in seconds for all documents to reach a final state, and again for all queues to become empty."""


@pytest.fixture(scope="module")
def model() -> Iterator[Server]:
    """A slow language model that sometimes fails and otherwise answers as expected."""

    def answer_slowly(request: Request) -> str:
        Event().wait(ANSWER_SECONDS)
        return choose_candidates(request.user)

    with Server(respond=answer_slowly, failure_rate=FAILURE_SHARE, seed=SEED) as server:
        yield server


@pytest.fixture(scope="module")
def cloud(model: Server) -> Iterator[Cloud]:
    """A separate cloud with delays of seconds instead of minutes."""
    with separate_cloud("chaos", SETTINGS, model) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def load_files() -> tuple[Sequence[LoadFile], GroundTruth]:
    """The load's files and their ground truth."""
    return generate_load(LOAD_SEED)


def test_matching_without_kills_equals_ground_truth(load_files: tuple[Sequence[LoadFile], GroundTruth]):
    files, truth = load_files
    with temporary_server() as server:
        url = server.create_database("calm")
        apply(url, MIGRATIONS)
        worker = server.url("calm", "counterfoil_worker")
        with psycopg.connect(url, autocommit=True) as admin, closing(Database(worker)) as database:
            judge = Judge(Model(), "scripted", lambda: NOW, Deadline(lambda: 60))
            office = TenantHarness(
                database, admin, [_to_paper(*numbered_file) for numbered_file in enumerate(files)], lambda: judge
            )
            office.match_all()
            names = {position: file.name for position, file in enumerate(files)}
            links = {tuple(sorted((names[a], names[b]))) for a, b in office.links()}
            clusters = office.clusters()
    assert links == {(first, second) for first, second, _ in truth.edges}
    assert truth.clusters == {
        frozenset(
            names[position] for position, cluster_of_document in enumerate(clusters) if cluster_of_document == cluster
        )
        for cluster in set(clusters)
    }


def _to_paper(seconds: int, file: LoadFile) -> Paper:
    data = extract(file.content).structured_data
    assert data is not None
    return Paper(file.kind, data, NOW + timedelta(seconds=seconds))


def upload(cloud: Cloud, tenant: Tenant, files: Sequence[LoadFile]) -> None:
    with closing(cloud.client("s3")) as s3:
        for file in files:
            key = f"uploads/{tenant.slug}/{uuid4()}/{file.name}"
            s3.put_object(Bucket=cloud.outputs["UploadsBucketName"], Key=key, Body=file.content)


def test_documents_are_processed_once_despite_kills(
    cloud: Cloud, model: Server, load_files: tuple[Sequence[LoadFile], GroundTruth], capsys: pytest.CaptureFixture[str]
):
    files, truth = load_files
    tenant, _ = add_tenant(cloud, f"chaos-{uuid4().hex[:8]}")
    chaos = Chaos(cloud, Random(SEED))
    remaining_files = files[BACKLOG:]
    share = -(-len(remaining_files) // WORKER_KILLS)
    start = time.monotonic()
    upload(cloud, tenant, files[:BACKLOG])
    with watchdog_running(cloud, interval=3):
        for kill_number in range(WORKER_KILLS):
            upload(cloud, tenant, remaining_files[kill_number * share : (kill_number + 1) * share])
            chaos.pause()
            chaos.kill_worker()
            if kill_number % 4 == 0:
                chaos.kill_database()
        kill_seconds = time.monotonic() - start
        with suppress(AssertionError):  # `find_faults` reports unfinished documents
            wait_until(lambda: read_snapshot(cloud, tenant).ended_count == DOCUMENTS, SECONDS)
            wait_until(lambda: not queued_messages(cloud) and not read_snapshot(cloud, tenant).unsent, SECONDS)
    snapshot, queued_after = read_snapshot(cloud, tenant), queued_messages(cloud)
    with capsys.disabled():
        print(json.dumps(_figures(snapshot, chaos, model, kill_seconds, time.monotonic() - start)))  # noqa: T201
    assert find_faults(snapshot, [file.name for file in files], truth, max_failed=MAX_FAILED) == []
    assert queued_after == {}
    assert chaos.workers.total() == WORKER_KILLS >= 9
    assert chaos.databases >= DATABASE_KILLS >= 2
    assert chaos.during_claims >= WORKER_KILLS // 6 >= 1
    assert snapshot.retried_items >= 1
    assert len(model.requests) >= AMBIGUOUS_DEALS


def _figures(snapshot: Snapshot, chaos: Chaos, model: Server, kill_seconds: float, seconds: float) -> dict[str, object]:
    return {
        "seed": SEED,
        "storm_seconds": round(kill_seconds, 1),
        "seconds": round(seconds, 1),
        "worker_kills": dict(chaos.workers),
        "kills_amid_claims": chaos.during_claims,
        "database_kills": chaos.databases,
        "llm_calls": len(model.requests),
        "states": {" ".join(map(str, states)): count for states, count in snapshot.states.items()},
        "attempts_at_most": snapshot.attempts,
        "retried_items": snapshot.retried_items,
        "dead_letters": snapshot.dead_letters.total(),
    }
