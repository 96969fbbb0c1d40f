"""How long an invocation takes whose documents all wait for a language model, scripted to answer after some seconds."""

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
from tests.documents.matching.office import Office
from tests.documents.matching.papers import SELLER, Paper, invoice, line, order
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
class Waited:
    """What came of one invocation."""

    permits: int
    """Documents that it works on at the same time."""
    seconds: float
    matched: int
    """Documents that ended with a link by the model's word."""
    asked: int
    """Questions to the model."""
    at_once: int
    """Most of them under way at the same time."""


_ROW = next(row for row in WORKERS if row.name == "matching")


def measure() -> Waited:
    """Hand ten doubtful documents to one invocation, which works on as many at once as the table of workers says."""
    with temporary_server() as server, Server(otherwise=_answer) as model:
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
            messages = [record(Message(work_id=id_, revision=1, send_number=0)) for id_ in _doubtful(database, admin)]
            began = time.perf_counter()
            consumer.handle(event(*messages), Context())
            seconds = time.perf_counter() - began
            row = admin.execute("SELECT count(*) FROM document_match WHERE decided_by = 'llm'").fetchone()
        assert row is not None
        return Waited(_ROW.permits, seconds, row[0], len(model.requests), model.at_once)


def _doubtful(database: Database, admin: Connection) -> list[UUID]:
    """Invoices without lines, each for a number that its seller's customer used for two orders; those are matched."""
    papers: list[Paper] = []
    for number, firm in enumerate(_FIRMS):
        seller = SELLER | {"name": f"{firm} GmbH", "vat_id": None}
        papers += [
            order(f"47{number}11", when, supplier=seller, lines=[line(str(when) * 6, description=goods)])
            for when, goods in ((1, "Shovel"), (2, "Violin"))
        ]
    office = Office(database, admin, papers)
    office.match_all()
    waiting = [
        office.file(invoice(f"R-{firm}", 10, issuer=paper.data["supplier"], po_reference=f"47{number}11", lines=[]))
        for number, (firm, paper) in enumerate(zip(_FIRMS, papers[::2], strict=True))
    ]
    ids = [office.ids[position] for position in waiting]
    admin.execute("UPDATE document SET matching_status = 'pending' WHERE id = ANY(%s)", [ids])
    return ids


def _answer(_: Request) -> str:
    time.sleep(ANSWER_SECONDS)  # this is what is measured
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
