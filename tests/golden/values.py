"""Compute the golden values, which must not change by accident.

They cover stored ids and hashes, the API description, and extraction and matching results. `python -m tests.golden`
writes the golden files. A commit that changes a golden value must explain why.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from cli.output import Checklist
from counterfoil.delivery.dead_letter import DeadLetter, FailureDetails
from counterfoil.delivery.work import JOB_NAMESPACE
from counterfoil.documents.extraction import extract
from counterfoil.documents.files import Upload, tenant_job_id
from counterfoil.documents.matching import judge
from counterfoil.documents.reading import ocr
from counterfoil.kinds import WORK_KINDS
from counterfoil.offers import pinning, profiles
from counterfoil.offers.schedule import Due
from counterfoil.webhooks.destinations import job_id
from functions.admin_api.handler import document
from tools.evaluation.command import match
from tools.evaluation.labeled_set import read_set

FOLDER = Path(__file__).parent
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SETS = ("ubl-oasis-chain", "linked-office", "linked-hostile")
FILES = sorted(
    file
    for folder in ("xrechnung", "zugferd")
    for suffix in ("xml", "pdf")
    for file in (DATA / folder).rglob(f"*.{suffix}")
)
_ID = UUID(int=1)
_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

Values = Mapping[str, Any]


def digest(value: object) -> str:
    """Return the first 12 hex digits of the SHA-256 of canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def identities() -> Values:
    """Return derived ids and hashes that are stored in the database."""
    failure = FailureDetails("unknown_tenant", "UnknownTenantError", "No tenant 'acme' for 3 files", 3, "acquisition")
    dead_letter = DeadLetter(_ID, None, "acquisition", None, {}, 3, failure, _AT)
    return {
        "job_namespace": str(JOB_NAMESPACE),
        **{f"dead_letter_job_id.{worker}": str(kind.job_id(_ID)) for worker, kind in WORK_KINDS.items()},
        "dead_letter_fingerprint": dead_letter.fingerprint,
        "dead_letter_fingerprint_of_code": replace(
            dead_letter, failure=replace(failure, code="unknown_tenant")
        ).fingerprint,
        "upload_job_id": str(Upload("bucket", "uploads/acme/a.pdf", "1", 1).job_id),
        "mail_job_id": str(tenant_job_id(_ID, _ID)),
        "output_job_id": str(job_id(_ID, "document", _ID)),
        "offer_pool_id": str(pinning.pool_id(_ID, Due("Europe/Berlin", date(2026, 1, 2), _AT, _AT))),
        "user_id": str(profiles.internal_id(_ID, _ID)),
        "judge_question": judge.question_hash("version", "{}").hex(),
        "ocr_question": ocr.question("textract", b"content", 1).hex(),
    }


def openapi() -> Values:
    """Return a digest of each operation and schema in the API description."""
    description = document()
    operations = {
        f"{method.upper()} {path}": digest(operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    }
    schemas = description["components"]["schemas"].items()
    return operations | {f"schema {name}": digest(schema) for name, schema in schemas}


def extraction() -> Iterator[tuple[str, Values]]:
    """Yield the path of each corpus file and digests of its fields.

    A PDF file is extracted twice: with its XML, and from its pages only.
    """
    for file in FILES:
        content = file.read_bytes()
        digests: dict[str, str] = {}
        for name, text_only in (("exact", False), ("pages", True)) if file.suffix == ".pdf" else (("exact", False),):
            result = asdict(extract(content, text_only=text_only))
            del result["unread"], result["split"]  # empty, because the files require neither OCR nor splitting
            fields = {**(result.pop("structured_data") or {}), **result}
            digests |= {f"{name}.{field}": digest(value) for field, value in fields.items()}
        yield str(file.relative_to(DATA)), digests


def matching(name: str) -> Values:
    """Match a labeled set.

    Return counts and digests of edges, clusters, evidence and reasons.
    """
    labeled = read_set(DATA / name)
    order = sorted(labeled.documents, key=lambda document: (document.received_at, document.id))
    matched = match(order, Checklist())
    return {
        "edges": len(matched.edges),
        "edges_digest": digest(sorted(sorted(edge) for edge in matched.edges)),
        "clusters": len(set(matched.clusters.values())),
        "clusters_digest": digest(matched.clusters),
        "evidence_digest": digest(sorted((sorted(edge), evidence) for edge, evidence in matched.edges.items())),
        "reasons_digest": digest(matched.reasons),
    }


def read(name: str) -> Values:
    """Return the contents of the golden file with this name."""
    values: Values = json.loads((FOLDER / f"{name}.json").read_text())
    return values
