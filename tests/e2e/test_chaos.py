"""Whatever is killed, and whenever: every accepted document ends once, and right.

Functions' processes and PostgreSQL end by SIGKILL while documents come in, and one in five calls of the language model
fails. COUNTERFOIL_CHAOS_SEED repeats the order of kills and pauses; the rest depends on the machine. `make soak` does
the same with more documents and more kills.
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
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import Paper
from tests.e2e.chaos import Chaos, own_cloud, watched
from tests.e2e.found import Found, look, queued
from tests.e2e.load import DOCUMENTS, DOUBTFUL, LOAD_SECONDS, File, Model, Truth, answer, load
from tests.e2e.verdict import faults
from tests.e2e.waiting import until
from tests.llm.server import Request, Server
from tools.evaluation.command import MIGRATIONS

pytestmark = [
    pytest.mark.e2e,
    # A connection whose other end was killed in the middle of an answer is closed by nobody but the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SEED = int(os.environ.get("COUNTERFOIL_CHAOS_SEED") or time.time_ns() % 1_000_000)
LOAD = 1
"""Which documents. Their truth is checked against a calm, and need not be checked for every seed of kills."""
WORKER_KILLS = max(9, LOAD_SECONDS // 5)
DATABASE_KILLS = WORKER_KILLS // 4
BACKLOG = DOCUMENTS // 5
"""Documents that are there before the first kill, so that there is always work to be hit."""
FAILING = 0.2
SPOILT_AT_MOST = DOCUMENTS // 20
"""Documents that three real failures in a row may end, with what hangs on them. Usually there are none."""
ANSWER_SECONDS = 0.3
SETTINGS = {
    "RETRY_REDELIVER_DELAYS_SECONDS": "[2, 4]",
    "LEASE_SECONDS": "15",
    "HEARTBEAT_SECONDS": "3",
    "PROTECTION_SECONDS": "20",
    "WATCHDOG_UNSENT_AFTER_SECONDS": "3",
    "WATCHDOG_RESEND_AFTER_SECONDS": "30",
    "LLM_PROVIDER": "openai",
    "LLM_MODEL": "scripted",
    "LLM_API_KEY": "none",
    "LLM_RETRY_BASE_SECONDS": "0.1",
    "BREAKER_OPEN_SECONDS": "2",
}
SECONDS = 300
"""Timeout for everything to end after the last kill."""


@pytest.fixture(scope="module")
def model() -> Iterator[Server]:
    """The language model: it judges as the truth has it, where it answers at all, and takes its time."""

    def answered(request: Request) -> str:
        Event().wait(ANSWER_SECONDS)
        return answer(request.user)

    with Server(otherwise=answered, failing=FAILING, seed=SEED) as server:
        yield server


@pytest.fixture(scope="module")
def cloud(model: Server) -> Iterator[Cloud]:
    """A cloud of its own, whose app waits for seconds where it waits for minutes elsewhere."""
    with own_cloud("chaos", SETTINGS, model) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def loaded() -> tuple[Sequence[File], Truth]:
    """The documents, and what must come of them."""
    return load(LOAD)


def test_the_truth_is_what_matching_comes_to_in_a_calm(loaded: tuple[Sequence[File], Truth]):
    files, truth = loaded
    with temporary_server() as server:
        url = server.create_database("calm")
        apply(url, MIGRATIONS)
        worker = server.url("calm", "counterfoil_worker")
        with psycopg.connect(url, autocommit=True) as admin, closing(Database(worker)) as database:
            judge = Judge(Model(), "scripted", lambda: NOW, Deadline(lambda: 60))
            office = Office(database, admin, [_paper(*numbered) for numbered in enumerate(files)], lambda: judge)
            office.match_all()
            names = {position: file.name for position, file in enumerate(files)}
            links = {tuple(sorted((names[a], names[b]))) for a, b in office.links()}
            clusters = office.clusters()
    assert links == {(first, second) for first, second, _ in truth.edges}
    assert truth.clusters == {
        frozenset(names[position] for position, of in enumerate(clusters) if of == cluster) for cluster in set(clusters)
    }


def _paper(place: int, file: File) -> Paper:
    data = extract(file.content).structured_data
    assert data is not None
    return Paper(file.kind, data, NOW + timedelta(seconds=place))


def upload(cloud: Cloud, tenant: Tenant, files: Sequence[File]) -> None:
    with closing(cloud.client("s3")) as s3:
        for file in files:
            key = f"uploads/{tenant.slug}/{uuid4()}/{file.name}"
            s3.put_object(Bucket=cloud.outputs["UploadsBucketName"], Key=key, Body=file.content)


def test_in_chaos_every_document_ends_once_and_right(
    cloud: Cloud, model: Server, loaded: tuple[Sequence[File], Truth], capsys: pytest.CaptureFixture[str]
):
    files, truth = loaded
    tenant, _ = add_tenant(cloud, f"chaos-{uuid4().hex[:8]}")
    chaos = Chaos(cloud, Random(SEED))
    rest = files[BACKLOG:]
    share = -(-len(rest) // WORKER_KILLS)
    began = time.monotonic()
    upload(cloud, tenant, files[:BACKLOG])
    with watched(cloud, every=3):
        for kill in range(WORKER_KILLS):
            upload(cloud, tenant, rest[kill * share : (kill + 1) * share])
            chaos.pause()
            chaos.kill_worker()
            if kill % 4 == 0:
                chaos.kill_database()
        storm = time.monotonic() - began
        with suppress(AssertionError):  # the verdict tells what has not ended by then
            until(lambda: look(cloud, tenant).ended == DOCUMENTS, SECONDS)
            until(lambda: not queued(cloud) and not look(cloud, tenant).unsent, SECONDS)
    found, left = look(cloud, tenant), queued(cloud)
    with capsys.disabled():
        print(json.dumps(_figures(found, chaos, model, storm, time.monotonic() - began)))  # noqa: T201
    assert faults(found, [file.name for file in files], truth, spoilt_at_most=SPOILT_AT_MOST) == []
    assert left == {}
    assert chaos.workers.total() == WORKER_KILLS >= 9
    assert chaos.databases >= DATABASE_KILLS >= 2
    assert chaos.amid >= WORKER_KILLS // 6 >= 1
    assert found.begun_again >= 1
    assert len(model.requests) >= DOUBTFUL


def _figures(found: Found, chaos: Chaos, model: Server, storm: float, seconds: float) -> dict[str, object]:
    return {
        "seed": SEED,
        "storm_seconds": round(storm, 1),
        "seconds": round(seconds, 1),
        "worker_kills": dict(chaos.workers),
        "kills_amid_claims": chaos.amid,
        "database_kills": chaos.databases,
        "llm_calls": len(model.requests),
        "states": {" ".join(map(str, states)): count for states, count in found.states.items()},
        "attempts_at_most": found.attempts,
        "begun_again": found.begun_again,
        "dead_letters": found.letters.total(),
    }
