"""Input for a history: documents, tasks, S3 objects, and scripts for attempts."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from io import BytesIO
from random import Random
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.delivery.work import Message
from counterfoil.documents.einvoice.extract import extract_xml
from counterfoil.documents.sandbox.parsers import FileText
from counterfoil.documents.structured import DocumentType, ExtractionResult
from counterfoil.errors import (
    BreakerOpenError,
    ConflictError,
    ContextWindowError,
    DatabaseUnavailableError,
    InvalidDocumentError,
    InvalidLlmResponseError,
    RejectedRequestError,
    RejectedStatementError,
    ServiceUnavailableError,
)
from tools.sample_generator.model import Company, Document, Kind, Line, Tax
from tools.sample_generator.ubl import write_ubl
from tools.simulation.database import Store
from tools.simulation.faults import Fault, Faults
from tools.simulation.scheduler import START, Scheduler
from tools.simulation.sqs import service_error

BUCKET = "uploads"
VERSION = "v1"
"""Version id of every object."""
TENANT = UUID("00000000-0000-7000-9000-000000000001")
SLUG = "acme"


def _company(name: str, vat_id: str, city: str) -> Company:
    address = {"street": "Am Markt 1", "postal_code": "89073", "city": city, "country": "DE", "language": "de"}
    numbers = {"tax_number": None, "registration_id": "HRB 1", "register": "Ulm", "phone": "+49 731 1"}
    bank = {"bank": "Bank", "iban": "DE89370400440532013000"}
    details: dict[str, Any] = {**address, **numbers, **bank, "email": "a@firm.example", "color": (0, 0, 0)}
    return Company(name=name, short_name=name.split(maxsplit=1)[0], vat_id=vat_id, **details)


_SELLER = _company("Tarnow Schrauben AG", "DE136695976", "Kassel")
_BUYER = _company("Brede Werke GmbH", "DE811907980", "Ulm")
_START = date(2026, 2, 2)


def _document(kind: Kind, number: str, day: int, article: str, price: str, **references: str) -> Document:
    has_prices = kind is not Kind.DELIVERY_NOTE
    line = Line(
        position="1",
        article_number=article,
        buyer_article_number=None,
        description=f"Bolt {article}",
        quantity=Decimal(10),
        unit="C62",
        unit_price=Decimal(price) if has_prices else None,
        tax=Tax("S", Decimal(19)) if has_prices else None,
    )
    return Document(
        kind=kind,
        number=number,
        issue_date=_START + timedelta(days=day),
        issuer=_BUYER if kind is Kind.PURCHASE_ORDER else _SELLER,
        seller=_SELLER.party("vat_id"),
        buyer=_BUYER.party("vat_id"),
        lines=(line,),
        currency="EUR" if has_prices else None,
        references=references,
        note=references.get("note"),
    )


@cache
def document_files() -> dict[str, bytes]:
    """Return sample files by name.

    They are orders and their documents, a copy of an invoice, and unreadable files.
    """
    order, confirmation, delivery, invoice = (
        Kind.PURCHASE_ORDER, Kind.ORDER_CONFIRMATION, Kind.DELIVERY_NOTE, Kind.INVOICE,
    )  # fmt: skip
    documents = {
        "order": _document(order, "4711", 0, "A-100", "4.20"),
        "confirmation": _document(confirmation, "AB-9", 1, "A-100", "4.20", po_reference="4711"),
        "delivery": _document(delivery, "LS-55", 5, "A-100", "4.20", po_reference="4711"),
        "invoice": _document(invoice, "R-81", 9, "A-100", "4.20", po_reference="4711"),
        "second invoice": _document(invoice, "R-82", 12, "B-200", "9.90", po_reference="4712"),
        "second order": _document(order, "4712", 2, "B-200", "9.90"),
        "order again": _document(order, "4799", 1, "A-100", "4.20"),
        "unnumbered invoice": _document(invoice, "R-83", 9, "A-100", "4.20"),
        "lone invoice": _document(invoice, "R-99", 20, "Z-1", "1.10"),
    }
    files = {name: write_ubl(document) for name, document in documents.items()}
    files["copy of the invoice"] = files["invoice"].replace(b"\n", b"\n ", 1)
    files["no document"] = b"plain text that is no document"
    files["damaged"] = files["order"][:300]
    return files


@cache
def read(content: bytes) -> ExtractionResult | Exception:
    """Extract a document, or return the error.

    The result is cached, because it depends only on the bytes.
    """
    try:
        return extract_xml(content)
    except Exception as error:  # noqa: BLE001  # raised again for each attempt
        return error


def extracted(content: bytes) -> ExtractionResult:
    """Return the cached result of `extract_xml`. Raises the same errors."""
    result = read(content)
    if isinstance(result, Exception):
        raise result.with_traceback(None)
    return result


def file_text(content: bytes, _check: object = None, **_: bool) -> FileText:
    """Return the cached result in place of `parsers.read`.

    Raises the same errors as `extract_xml`.
    """
    return FileText(extracted(content))


TRANSIENT: tuple[Callable[[], BaseException], ...] = (
    lambda: ServiceUnavailableError("the model returned 429", retry_after=7),
    lambda: ServiceUnavailableError("the model returned 503"),
    lambda: ServiceUnavailableError("a call timed out"),
    lambda: InvalidLlmResponseError("the response is not valid JSON"),
    lambda: DatabaseUnavailableError("PostgreSQL is not available"),
    lambda: ConflictError("PostgreSQL ended the transaction"),
    lambda: ValueError("an unmapped error"),
    MemoryError,
    lambda: SystemExit(1),
)
PERMANENT: tuple[Callable[[], BaseException], ...] = (
    lambda: ContextWindowError("the prompt is too long"),
    lambda: RejectedRequestError("the model returned 401"),
    lambda: RejectedRequestError("the model returned 422"),
    lambda: InvalidDocumentError("the document contradicts itself", code="damaged_pdf"),
    lambda: RejectedStatementError("PostgreSQL rejected a statement"),
)


@dataclass(frozen=True)
class AttemptScript:
    """Scripted behavior of one attempt, in addition to its work."""

    seconds: float = 0
    ignores_cancel: bool = False
    """Whether the attempt continues after its cancellation."""
    waits_after_work: bool = False
    """Whether the attempt waits between its work and its effects instead of before its work."""
    error: Callable[[], BaseException] | None = None
    after_work: bool = False
    """Whether the error is raised after the work and before its effects."""
    deferred_for: float | None = None


def _draw_script(random: Random, failure_rate: float) -> AttemptScript:
    seconds = random.choice((0, 0, 0, 0.5, 20, 45, 100, 160)) if random.random() < 0.2 + failure_rate else 0
    ignores_cancel, waits_after_work, after_work = random.random() < 0.3, random.random() < 0.5, random.random() < 0.5
    if random.random() >= failure_rate:
        return AttemptScript(seconds, ignores_cancel, waits_after_work)
    kind = random.random()
    if kind < 0.6:
        return AttemptScript(seconds, ignores_cancel, waits_after_work, random.choice(TRANSIENT), after_work)
    if kind < 0.75:
        return AttemptScript(seconds, ignores_cancel, waits_after_work, random.choice(PERMANENT), after_work)
    return AttemptScript(seconds, ignores_cancel, deferred_for=random.choice((1, 30, 300, 1200)))


@dataclass
class AttemptScripts:
    """Scripts for all attempts.

    After `max_failing` attempts, a work item has no more failures.
    """

    random: Random
    scheduler: Scheduler
    failure_rate: float
    max_failing: int = 4
    attempts: Counter[tuple[str, UUID]] = field(default_factory=Counter)

    def next(self, worker: str, work_id: UUID) -> AttemptScript:
        """Return the script for a work item's next attempt."""
        self.attempts[worker, work_id] += 1
        if self.attempts[worker, work_id] > self.max_failing:
            return AttemptScript()
        return _draw_script(self.random, self.failure_rate)

    def deferral(self, seconds: float) -> BreakerOpenError:
        """Return the error for a circuit breaker that stays open for `seconds`."""
        return BreakerOpenError("the breaker is open", until=self.scheduler.clock() + timedelta(seconds=seconds))


class Storage:
    """The part of S3 that the product uses."""

    def __init__(self, scheduler: Scheduler, faults: Faults) -> None:
        self._scheduler = scheduler
        self._faults = faults
        self.objects: dict[str, bytes] = {}

    def get_object(self, *, Bucket: str, Key: str, **_version: str) -> dict[str, Any]:  # noqa: ARG002, N803
        """Return an object, as GetObject does."""
        self._scheduler.point(f"GetObject {Key}")
        if self._faults.inject(Fault.STORAGE):
            raise service_error("GetObject", "SlowDown")
        content = self.objects[Key]
        return {"ContentLength": len(content), "Body": _Body(content)}

    def list_object_versions(
        self,
        *,
        Bucket: str,  # noqa: ARG002, N803
        Prefix: str,  # noqa: N803
        MaxKeys: int,  # noqa: N803
        KeyMarker: str = "",  # noqa: N803
        VersionIdMarker: str = "",  # noqa: ARG002, N803
    ) -> dict[str, Any]:
        """List the objects, as ListObjectVersions does. Each object has one version."""
        self._scheduler.point(f"ListObjectVersions {Prefix} after {KeyMarker or 'nothing'}")
        if self._faults.inject(Fault.STORAGE):
            raise service_error("ListObjectVersions", "SlowDown")
        keys = sorted(key for key in self.objects if key.startswith(Prefix) and key > KeyMarker)
        page = keys[:MaxKeys]
        stored = {"VersionId": VERSION, "LastModified": START, "IsLatest": True}
        versions = [{"Key": key, "Size": len(self.objects[key]), **stored} for key in page]
        next_page = {"NextKeyMarker": page[-1], "NextVersionIdMarker": VERSION} if keys[MaxKeys:] else {}
        return {"Versions": versions, "IsTruncated": bool(next_page), **next_page}


class _Body(BytesIO):
    def iter_chunks(self, size: int) -> Any:
        while chunk := self.read(size):
            yield chunk


def event(keys: list[tuple[str, int]], sequencer: str) -> str:
    """Return the body of an S3 event for these objects.

    Each object is a pair of key and size.
    """
    records = [
        {
            "eventName": "ObjectCreated:Put",
            "s3": {
                "bucket": {"name": BUCKET},
                "object": {"key": key, "size": size, "versionId": VERSION, "sequencer": sequencer},
            },
        }
        for key, size in keys
    ]
    return json.dumps({"Records": records})


def make_tenant(store: Store) -> None:
    """Insert the world's only tenant."""
    store.admin.execute(
        """
        WITH made AS (INSERT INTO organization (name) VALUES (%(slug)s) RETURNING id)
        INSERT INTO tenant (id, organization_id, slug, name) SELECT %(id)s, id, %(slug)s, %(slug)s FROM made
        """,
        {"id": TENANT, "slug": SLUG},
    )


_DOCUMENT = """
WITH job AS (
    INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status)
    VALUES (simulation_uuid(), %(tenant)s, %(bucket)s, %(key)s, '00', 1, %(at)s, 'succeeded') RETURNING id
), origin AS (
    INSERT INTO source (tenant_id, job_id, kind, bucket, key, received_at)
    SELECT %(tenant)s, id, 'upload', %(bucket)s, %(key)s, %(at)s FROM job RETURNING id
), document AS (
    INSERT INTO document (id, tenant_id, source_id, bucket, key, file_name, size, content_hash, received_at,
                          last_duplicate_at, type, structured_data, matching_status, matching_revision)
    SELECT %(id)s, %(tenant)s, id, %(bucket)s, %(key)s, %(key)s, 1, %(hash)s, %(at)s, %(at)s, %(type)s, %(data)s,
           'pending', 1
    FROM origin
)
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at)
VALUES (%(tenant)s, 'matching', %(id)s, 1, 0, %(at)s, %(at)s)
"""


def make_task(store: Store, random: Random, max_retry: int, submitted_at: float) -> UUID:
    """Insert a submitted task, and the outbox row for its message."""
    task_id = UUID(int=random.getrandbits(128), version=4)
    store.admin.execute(
        _TASK,
        {"id": task_id, "tenant": TENANT, "max_retry": max_retry, "at": START + timedelta(seconds=submitted_at)},
    )
    return task_id


_TASK = """
WITH task AS (
    INSERT INTO task (id, tenant_id, task_type, payload, payload_hash, max_retry, idempotency_key, created_at, revision)
    VALUES (%(id)s, %(tenant)s, 'echo', '{"say": "hello"}', sha256(''), %(max_retry)s, %(id)s::text, %(at)s, 1)
)
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at)
VALUES (%(tenant)s, 'tasks', %(id)s, 1, 0, %(at)s, %(at)s)
"""


def task_body(message: Message) -> str:
    """Return a task's message body, as the outbox writes it."""
    metadata = {"created_at": START.isoformat(), "retry_count": 0, "max_retry": 5}
    envelope = {"schema_version": 1, "task_type": "echo", "payload": {}, "metadata": metadata}
    identity = {"job_id": str(message.work_id), "revision": message.revision, "send_number": message.send_number}
    return json.dumps(envelope | identity)


def make_document(store: Store, random: Random, name: str, received_at: float) -> UUID:
    """Insert an ingested document with pending matching, and its outbox row."""
    result = extracted(document_files()[name])
    document_id = UUID(int=random.getrandbits(128), version=4)
    kind: DocumentType | str | None = result.type
    store.admin.execute(
        _DOCUMENT,
        {
            "id": document_id,
            "tenant": TENANT,
            "bucket": BUCKET,
            "key": f"uploads/{SLUG}/{name}.xml",
            "hash": hashlib.sha256(document_files()[name]).digest(),
            "at": START + timedelta(seconds=received_at),
            "type": kind,
            "data": Jsonb(result.structured_data),
        },
    )
    return document_id
