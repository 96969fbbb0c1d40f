"""What is delivered: the body of a revision, which is the same bytes for every try, and its rows as CSV.

The body is a JSON object: `schema_version`, `id` (also the Idempotency-Key), `event` ("cluster", "document" or
"offers"), `subject_id`, `revision`, `created_at` (when this revision began, ISO 8601 in UTC) and `data`, which is null
where the subject exists no more.
"""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

SCHEMA_VERSION = 1
"""Of bodies that are requested now. A revision is delivered in the version that it was requested in, to its end."""

COLUMNS = (
    "subject_id",
    "revision",
    "outcome",
    "document_id",
    "type",
    "file_name",
    "number",
    "date",
    "seller",
    "seller_vat_id",
    "buyer",
    "buyer_vat_id",
    "currency",
    "total_net",
    "total_tax",
    "total_gross",
)
"""Of the CSV, which has one line for each document."""

_NUMBERS = ("invoice", "credit_note", "po", "confirmation", "delivery_note", "receipt", "contract")
_DATES = ("invoice", "credit_note", "order", "confirmation", "delivery", "receipt", "contract")
_SAFE = r"\w'(\[{<#/§€$£"
"""First characters that begin no formula in any spreadsheet. An apostrophe marks a text."""
_UNSAFE = re.compile(rf"\A(?![ \u00a0]*(?:[{_SAFE}]|\Z))|(?<=[;|\t\r\n])(?![ \u00a0]*(?:[{_SAFE};\t\r\n]|\Z))")
"""Any other beginning of a cell, or of a part that another spreadsheet makes a cell."""


@dataclass(frozen=True)
class Job:
    """One revision of what one destination is owed about one subject."""

    id: UUID
    revision: int
    """Of what is told. It grows where that changes, and not where the same is sent again after a failure."""
    subject: str
    subject_id: UUID
    schema_version: int
    requested_at: datetime
    payload: str
    """JSON, as PostgreSQL writes it: numbers are not read on the way, and so not rounded."""

    @property
    def key(self) -> str:
        """The Idempotency-Key: the same for every try of this revision, another one for each revision."""
        return f"{self.id}:{self.revision}"

    @property
    def created_at(self) -> str:
        """When this revision began: ISO 8601 in UTC, of one length, so that the text of a later one is greater."""
        return self.requested_at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def body(job: Job) -> bytes:
    """The bytes to deliver: the same for the same revision, whenever and wherever they are made."""
    about = {
        "schema_version": job.schema_version,
        "id": job.key,
        "event": job.subject,
        "subject_id": str(job.subject_id),
        "revision": job.revision,
        "created_at": job.created_at,
    }
    return f'{json.dumps(about)[:-1]}, "data": {job.payload}}}'.encode()


def table(job: Job) -> bytes:
    """The documents of a subject as CSV (RFC 4180, UTF-8): a line of COLUMNS, and one for each document.

    What a document states and a spreadsheet would take for a formula gets an apostrophe in front.
    """
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for document in _documents(job):
        writer.writerow([cell(document.get(column)) for column in COLUMNS])
    return lines.getvalue().encode()


def _documents(job: Job) -> list[dict[str, Any]]:
    data: Mapping[str, Any] | None = json.loads(job.payload, parse_float=str, parse_int=str)
    if data is None:
        return []
    documents: Sequence[Mapping[str, Any]] = data.get("documents", []) if job.subject == "cluster" else [data]
    shared = {"subject_id": job.subject_id, "revision": job.revision, "outcome": data.get("outcome")}
    return [shared | _stated(document) for document in documents]


def _stated(document: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of one document."""
    data: Mapping[str, Any] = document.get("structured_data") or {}
    seller: Mapping[str, Any] = data.get("issuer") or data.get("supplier") or {}
    buyer: Mapping[str, Any] = data.get("recipient") or data.get("buyer") or {}
    return {
        "document_id": document.get("id"),
        "type": document.get("type"),
        "file_name": document.get("file_name"),
        "number": _first(data, [f"{name}_number" for name in _NUMBERS]),
        "date": _first(data, [f"{name}_date" for name in _DATES]),
        "seller": seller.get("name"),
        "seller_vat_id": seller.get("vat_id"),
        "buyer": buyer.get("name"),
        "buyer_vat_id": buyer.get("vat_id"),
        **{name: data.get(name) for name in ("currency", "total_net", "total_tax", "total_gross")},
    }


def _first(data: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((data[name] for name in names if data.get(name) is not None), None)


def cell(value: Any) -> str:
    """A value as the text of a cell. An apostrophe goes before any beginning that is not known to be safe.

    An allow-list, because spreadsheets treat more than OWASP's list (= + - @, tab, carriage return) as the beginning of
    a formula or a command. A number stays a number.
    """
    if value is None:
        return ""
    text = str(value)
    return text if _is_number(text) else _UNSAFE.sub("'", text)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()
