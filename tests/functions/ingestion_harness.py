"""Ingestion with a scripted language model and scripted OCR."""

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from counterfoil import aws
from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection, Database
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message, read_message, start_revision
from counterfoil.documents.reading.ocr import Textract
from counterfoil.llm import Llm
from counterfoil.settings import Settings
from functions.ingestion.work import ingest
from tests.delivery.harness import Clock, Context, FakeSqs, event, record, rows, settings
from tests.factories import make_document
from tests.llm.conftest import Time
from tests.llm.server import Server

BUCKET = "uploads"
QUEUES = {"ingestion": "ingestion", "matching": "matching"}
DONE: dict[str, list[Any]] = {"batchItemFailures": []}


class Ingestion:
    """Harness that ingests files. `model` and `textract` are scripted services."""

    def __init__(self, database: Database, url: str, admin: Connection, tenant_id: UUID, clock: Clock) -> None:
        self.model, self.textract = Server(), Server()
        self.model_name = "m"
        self.questions_per_day = 100
        self.sqs = FakeSqs()
        self.url = url
        self.admin, self.tenant_id, self.clock, self.database = admin, tenant_id, clock, database
        self.breakers = Breakers(database, clock, failures=3, open_seconds=30)
        self.waits = Time()
        self._s3 = boto3.client("s3", region_name="us-east-1")
        self._s3.create_bucket(Bucket=BUCKET)
        self._textract: Any = None

    def client(self, service: str) -> Any:
        """Return a client for an AWS service. This method replaces `aws.client`."""
        if service == "textract" and self._textract is None:
            make_client: Any = boto3.client
            single_attempt = Config(retries={"total_max_attempts": 1})  # botocore retries would wait in real time
            self._textract = make_client(
                "textract", region_name="us-east-1", endpoint_url=self.textract.url, config=single_attempt
            )
        return {"s3": self._s3, "sqs": self.sqs, "textract": self._textract}[service]

    def file(self, content: bytes, name: str = "a.pdf") -> UUID:
        """Store a file and its document with a pending ingestion. Return the document id."""
        key = f"uploads/{name}"
        self._s3.put_object(Bucket=BUCKET, Key=key, Body=content)
        document_id = make_document(
            self.admin,
            self.tenant_id,
            key=key,
            file_name=name,
            size=len(content),
            content_hash=hashlib.sha256(content).digest(),
        )
        self.admin.execute(
            "INSERT INTO ingestion_job (id, tenant_id, created_at) VALUES (%s, %s, %s)",
            [document_id, self.tenant_id, self.clock()],
        )
        (outbox_message,) = start_revision(self.admin, "ingestion", [document_id], self.clock())
        self.sqs.sent["ingestion"].append({"MessageBody": outbox_message.message.model_dump_json()})
        return document_id

    def ingest(self, *, model: bool = True, ocr: bool = True, context: Context | None = None, permits: int = 1) -> Any:
        """Process every pending message."""
        worker_settings = settings(
            worker={"name": "ingestion", "timeout": 300, "permits": permits, "start_margin": 30}, queue_urls=QUEUES
        )
        consumer = Consumer(
            worker_settings,
            partial(ingest, language_model=self._llm if model else None, ocr=self._ocr if ocr else None),
            database=self.database,
            outbox=Outbox(self.database, QUEUES, clock=self.clock),
            visibility=Visibility(QUEUES["ingestion"]),
            read=read_message,
            clock=self.clock,
        )
        messages = [Message.model_validate_json(entry["MessageBody"]) for entry in self.sqs.sent.pop("ingestion", [])]
        return consumer.handle(event(*map(record, messages)), context or Context(300))

    def document(self, id_: UUID) -> dict[str, Any]:
        """Return a document's row."""
        (document_row,) = [row for row in rows(self.admin, "document") if row["id"] == str(id_)]
        return document_row

    def job(self, id_: UUID) -> dict[str, Any]:
        """Return a document's ingestion job."""
        (job_row,) = [row for row in rows(self.admin, "ingestion_job") if row["id"] == str(id_)]
        return job_row

    def redeliver(self, id_: UUID) -> None:
        """Make a pending ingestion due and queue its message again."""
        self.admin.execute("UPDATE ingestion_job SET next_attempt_at = NULL WHERE id = %s", [id_])
        job = self.job(id_)
        message = Message(work_id=id_, revision=job["revision"], send_number=job["send_number"])
        self.sqs.sent["ingestion"] = [{"MessageBody": message.model_dump_json()}]

    def _llm(self, database: Database) -> Llm:
        llm_settings = Settings.from_environment(
            {
                "LLM_PROVIDER": "openai",
                "LLM_MODEL": self.model_name,
                "LLM_URL": f"{self.model.url}/v1",
                "LLM_API_KEY": "k",
                "LLM_CALLS_PER_DAY": str(self.questions_per_day),
            }
        )
        llm = Llm.from_settings(llm_settings, database, self.breakers)
        assert llm is not None
        llm._wait = self.waits.wait
        return llm

    def _ocr(self, _: Database) -> Textract:
        return Textract(self.breakers)


@pytest.fixture
def ingestion(
    database: Database,
    database_url: str,
    admin: Connection,
    clock: Clock,
    make_tenant: Callable[..., UUID],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ingestion]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        ingestion = Ingestion(database, database_url, admin, make_tenant("acme"), clock)
        monkeypatch.setattr(aws, "client", ingestion.client)
        with ingestion.model, ingestion.textract:
            yield ingestion


def requested_document(request: Any) -> dict[str, Any]:
    """Return the document in a request to the model."""
    document: dict[str, Any] = json.loads(request.user.removeprefix("<document>\n").removesuffix("\n</document>"))
    return document
