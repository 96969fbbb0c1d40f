"""A sample of documents with its ground truth, and its files on disk.

A file's ground truth is the expected result of its upload:

| state | expected result |
|---|---|
| `succeeded` | extracted and matched, or without a match |
| `skipped` | stored without structured data: an unsupported type, or a scan without text |
| `failed` | a permanent failure with a dead letter |
| `duplicate` | a duplicate of one of the tenant's files: no second document |

`cluster` is the label of a `succeeded` document's cluster. A document without a match has its own label. Files in other
states have no label. `type` is the document type, or None if the file is unreadable. A `duplicate` file has the
same bytes as `same_as`, which precedes it. If both are uploaded at the same time, either may become the document, so
compare files by `sha256` where that matters.

A link connects two files directly, under the rules of structured data. `stated` is True if one of them contains the
other's number. Otherwise the link follows from supplier, buyer, articles and quantities. A duplicate invoice is linked
only to its original, which was received first (`received_at`) and precedes it in the list.
"""

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class FileTruth:
    """Expected result of one file and its reason.

    `structured_data` is the expected extraction.
    """

    state: str
    type: str | None
    situation: str
    reason: str
    received_at: datetime
    number: str | None = None
    cluster: str | None = None
    same_as: str | None = None
    structured_data: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class SampleFile:
    """A file to upload for a tenant."""

    tenant: str
    name: str
    content: bytes
    truth: FileTruth

    @property
    def sha256(self) -> str:
        """Content hash in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def id(self) -> str:
        """Opaque id of the file, unique in the sample."""
        return "s" + hashlib.sha256(f"{self.tenant}/{self.name}".encode()).hexdigest()[:14]


@dataclass(frozen=True)
class TrueLink:
    """A direct link between two files of a tenant, by name."""

    tenant: str
    a: str
    b: str
    kind: str
    stated: bool


@dataclass(frozen=True)
class Sample:
    """Files of a sample in upload order, and the links between them."""

    seed: int
    files: Sequence[SampleFile]
    links: Sequence[TrueLink]

    @property
    def tenants(self) -> list[str]:
        """Tenant slugs, sorted."""
        return sorted({file.tenant for file in self.files})

    @property
    def truth(self) -> dict[str, Any]:
        """The ground truth as a JSON object.

        `{"seed", "counts": {state: n}, "clusters": {tenant: [[name, ...], ...]}, "links": {tenant: [{"a", "b", "kind",
        "stated"}, ...]}, "files": [{"tenant", "file", "sha256", "state", "type", "number", "cluster", "situation",
        "reason", "received_at", "same_as", "structured_data"}, ...]}`; everything but `files` is sorted.
        """
        return {
            "seed": self.seed,
            "counts": dict(sorted(Counter(file.truth.state for file in self.files).items())),
            "clusters": {tenant: self.clusters(tenant) for tenant in self.tenants},
            "links": {
                tenant: [
                    {"a": link.a, "b": link.b, "kind": link.kind, "stated": link.stated}
                    for link in self.links
                    if link.tenant == tenant
                ]
                for tenant in self.tenants
            },
            "files": [_file_record(file) for file in self.files],
        }

    def clusters(self, tenant: str) -> list[list[str]]:
        """Return the tenant's clusters as sorted lists of file names."""
        members: dict[str, list[str]] = {}
        for file in self.files:
            if file.tenant == tenant and file.truth.cluster is not None:
                members.setdefault(file.truth.cluster, []).append(file.name)
        return sorted(sorted(names) for names in members.values())

    def write(self, folder: Path) -> None:
        """Write each file as `folder/TENANT/NAME`.

        The ground truth is written to `folder/truth.json`.
        """
        for file in self.files:
            path = folder / file.tenant / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
        _write_text(folder / "truth.json", json.dumps(self.truth, ensure_ascii=False, indent=1) + "\n")

    def write_labeled_set(self, folder: Path) -> None:
        """Write the documents as a labeled set.

        The set's files are documents.jsonl, edges.csv, clusters.csv and README.md. Failed and duplicate files are
        omitted. Skipped files are included, with type `other` and their own clusters.
        """
        folder.mkdir(parents=True, exist_ok=True)
        documents = [file for file in self.files if file.truth.state in {"succeeded", "skipped"}]
        documents.sort(key=lambda file: (file.truth.received_at, file.id))
        ids = {(file.tenant, file.name): file.id for file in documents}
        lines = [json.dumps(_document_record(file), ensure_ascii=False) for file in documents]
        _write_text(folder / "documents.jsonl", "".join(f"{line}\n" for line in lines))
        edges = [sorted((ids[link.tenant, link.a], ids[link.tenant, link.b])) for link in self.links]
        _write_csv(folder / "edges.csv", ("a", "b"), sorted(edges))
        clusters = [(file.id, file.truth.cluster or file.id) for file in documents]
        _write_csv(folder / "clusters.csv", ("document", "cluster"), clusters)
        readme = f"Generated from seed {self.seed}. Every company, number and amount is invented.\n"
        _write_text(folder / "README.md", readme)


def _file_record(file: SampleFile) -> dict[str, Any]:
    truth = file.truth
    return {
        "tenant": file.tenant,
        "file": file.name,
        "sha256": file.sha256,
        "state": truth.state,
        "type": truth.type,
        "number": truth.number,
        "cluster": truth.cluster,
        "situation": truth.situation,
        "reason": truth.reason,
        "received_at": _format_time(truth.received_at),
        "same_as": truth.same_as,
        "structured_data": truth.structured_data,
    }


def _document_record(file: SampleFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "tenant": file.tenant,
        "type": file.truth.type or "other",
        "received_at": _format_time(file.truth.received_at),
        "structured_data": file.truth.structured_data or {},
    }


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
