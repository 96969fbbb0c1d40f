"""Measure an invocation in which every document waits for a slow language model."""

import json
import logging
import time
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from unittest.mock import patch
from uuid import UUID

import psycopg

from cli.local.postgres import temporary_server
from counterfoil import aws
from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection, Database
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message
from counterfoil.llm import Llm
from counterfoil.settings import Settings
from functions.matching.work import match
from functions.migrate.runner import apply
from infra.worker_table import WORKERS
from tests.delivery.harness import QUEUE_URL, Context, FakeSqs, event, record
from tests.documents.matching.samples import SELLER, invoice, line, order
from tests.documents.matching.samples import SampleDocument as Paper
from tests.documents.matching.tenant_harness import TenantHarness
from tests.llm.server import Request, Server
from tools.evaluation.command import MIGRATIONS

_FIRMS = (
    "Tarnow", "Vossberg", "Quendel", "Lindholt", "Morsum", "Achterkamp", "Brunsholm", "Dreyfeld", "Esmark", "Fahrenau",
)  # fmt: skip
DOCUMENTS = len(_FIRMS)
ANSWER_SECONDS = 3.0
GOAL_SECONDS = 5.0
_DATABASE = "waiting"


@dataclass(frozen=True)
class LatencyResult:
    """Results of one invocation."""

    permits: int
    """Maximum number of documents matched concurrently."""
    seconds: float
    matched: int
    """Number of matches that the model decided."""
    questions: int
    concurrent: int
    """Maximum number of concurrent model calls."""


_ROW = next(row for row in WORKERS if row.name == "matching")


def measure() -> LatencyResult:
    """Run one invocation with ten ambiguous documents and the deployed permits."""
    with temporary_server() as server, Server(respond=_answer) as model:
        url = server.create_database(_DATABASE)
        apply(url, MIGRATIONS)
        settings = _settings(model)
        worker = server.url(_DATABASE, "counterfoil_worker")
        with (
            psycopg.connect(url, autocommit=True) as admin,
            closing(Database(worker, max_connections=_ROW.permits + 2)) as database,
            patch.object(aws, "client", lambda _: FakeSqs()),
            redirect_stdout(StringIO()),  # metrics
        ):
            logging.disable(logging.INFO)
            consumer = _consumer(settings, database)
            messages = [record(Message(work_id=id_, revision=1, send_number=0)) for id_ in _ambiguous(database, admin)]
            began = time.perf_counter()
            consumer.handle(event(*messages), Context())
            seconds = time.perf_counter() - began
            row = admin.execute("SELECT count(*) FROM document_match WHERE decided_by = 'llm'").fetchone()
        assert row is not None
        return LatencyResult(_ROW.permits, seconds, row[0], len(model.requests), model.max_concurrent_requests)


def _ambiguous(database: Database, admin: Connection) -> list[UUID]:
    """Create pending invoices without line items, and return their ids.

    Each invoice's order number matches two purchase orders.
    """
    documents: list[Paper] = []
    for number, firm in enumerate(_FIRMS):
        seller = SELLER | {"name": f"{firm} GmbH", "vat_id": None}
        documents += [
            order(f"47{number}11", when, supplier=seller, lines=[line(str(when) * 6, description=goods)])
            for when, goods in ((1, "Shovel"), (2, "Violin"))
        ]
    harness = TenantHarness(database, admin, documents)
    harness.match_all()
    invoices = [
        harness.file(invoice(f"R-{firm}", 10, issuer=document.data["supplier"], po_reference=f"47{number}11", lines=[]))
        for number, (firm, document) in enumerate(zip(_FIRMS, documents[::2], strict=True))
    ]
    ids = [harness.ids[position] for position in invoices]
    admin.execute("UPDATE document SET matching_status = 'pending' WHERE id = ANY(%s)", [ids])
    return ids


def _answer(_: Request) -> str:
    time.sleep(ANSWER_SECONDS)  # the model's simulated latency
    choice = {"candidate": "A1", "confidence": "high", "reasoning": "The dates are the nearest."}
    return json.dumps({"matches": [choice]})


def _settings(model: Server) -> Settings:
    return Settings.model_validate(
        {
            "worker": {name: getattr(_ROW, name) for name in ("name", "timeout", "permits", "start_margin")},
            "queue_urls": dict.fromkeys(("matching", "diagnostics"), QUEUE_URL),
            "llm_provider": "openai",
            "llm_model": "scripted",
            "llm_url": model.url_for("openai"),
            "llm_api_key": "none",
        }
    )


def _consumer(settings: Settings, database: Database) -> Consumer:
    def language_model(asking: Database) -> Llm:
        found = Llm.from_settings(settings, asking, Breakers.from_settings(settings, asking))
        assert found is not None
        return found

    return Consumer(
        settings,
        partial(match, language_model=language_model),
        database=database,
        outbox=Outbox(database, settings.queue_urls),
        visibility=Visibility(QUEUE_URL),
    )
