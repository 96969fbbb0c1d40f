"""Reads and validates labeled sets of documents."""

import json
from collections.abc import Mapping
from csv import DictReader
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from counterfoil.documents.structured import DocumentType
from counterfoil.documents.three_way_match import VarianceCode
from counterfoil.errors import PermanentError

DOCUMENTS = "documents.jsonl"
EDGES = "edges.csv"
CLUSTERS = "clusters.csv"
VARIANCES = "variances.csv"


class InvalidSetError(PermanentError):
    """The folder is not a valid labeled set.

    The message names the folder, or the file and line.
    """


@dataclass(frozen=True)
class LabeledDocument:
    """One line of documents.jsonl."""

    id: str
    tenant: str
    type: str
    received_at: datetime
    data: Mapping[str, Any]


@dataclass(frozen=True)
class LabeledSet:
    """Documents, and the labels in the folder. Missing labels are None."""

    name: str
    documents: tuple[LabeledDocument, ...]
    edges: frozenset[frozenset[str]] | None
    clusters: Mapping[str, str] | None
    """Cluster name by document."""
    variances: frozenset[tuple[str, str]] | None
    """Variances as pairs of document and code."""


def read_set(folder: Path) -> LabeledSet:
    """Read a labeled set.

    Raises:
        InvalidSetError: a file is missing or invalid.
    """
    if not folder.is_dir():
        raise InvalidSetError(f"{folder} is not a folder.")
    if not (folder / DOCUMENTS).is_file():
        raise InvalidSetError(f"{folder} is not a labeled set, because it has no {DOCUMENTS}.")
    documents = _documents(folder / DOCUMENTS)
    ids = {document.id for document in documents}
    edges = _edges(folder / EDGES, ids) if (folder / EDGES).exists() else None
    clusters = _clusters(folder / CLUSTERS, ids) if (folder / CLUSTERS).exists() else None
    variances = _variances(folder / VARIANCES, ids) if (folder / VARIANCES).exists() else None
    return LabeledSet(folder.resolve().name, documents, edges, clusters, variances)


def _documents(path: Path) -> tuple[LabeledDocument, ...]:
    documents: dict[str, LabeledDocument] = {}
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            document = _document(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidSetError(f"{path}, line {number}: {_reason(error)}.") from None
        if document.id in documents:
            raise InvalidSetError(f"{path}, line {number}: duplicate id {document.id}.")
        documents[document.id] = document
    if not documents:
        raise InvalidSetError(f"{path} has no documents.")
    return tuple(documents.values())


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON ({error.msg} at character {error.pos})"
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    return str(error)


def _document(row: Any) -> LabeledDocument:
    if not isinstance(row, dict):
        raise TypeError("not a JSON object")
    for field in ("id", "tenant", "type", "received_at"):
        if not isinstance(row[field], str) or not row[field]:
            raise TypeError(f"{field} is not a non-empty string")
    if row["type"] not in set(DocumentType):
        raise ValueError(f"{row['type']} is not a document type")
    try:
        received_at = datetime.fromisoformat(row["received_at"])
    except ValueError:
        raise ValueError("received_at is not an ISO 8601 time") from None
    if not isinstance(row["structured_data"], dict):
        raise TypeError("structured_data is not a JSON object")
    if received_at.tzinfo is None:
        received_at = received_at.replace(tzinfo=UTC)
    return LabeledDocument(row["id"], row["tenant"], row["type"], received_at, row["structured_data"])


def _edges(path: Path, ids: set[str]) -> frozenset[frozenset[str]]:
    edges = set()
    for number, (a, b) in _rows(path, "a", "b"):
        for id_ in (a, b):
            if id_ not in ids:
                raise InvalidSetError(f"{path}, line {number}: unknown document {id_}.")
        if a == b:
            raise InvalidSetError(f"{path}, line {number}: links a document to itself.")
        edges.add(frozenset((a, b)))
    return frozenset(edges)


def _clusters(path: Path, ids: set[str]) -> dict[str, str]:
    clusters: dict[str, str] = {}
    for number, (document, cluster) in _rows(path, "document", "cluster"):
        if document not in ids:
            raise InvalidSetError(f"{path}, line {number}: unknown document {document}.")
        if document in clusters:
            raise InvalidSetError(f"{path}, line {number}: duplicate document {document}.")
        clusters[document] = cluster
    if missing := ids - clusters.keys():
        raise InvalidSetError(f"{path} lacks {len(missing)} documents, including {min(missing)}.")
    return clusters


def _variances(path: Path, ids: set[str]) -> frozenset[tuple[str, str]]:
    variances = set()
    for number, (document, code) in _rows(path, "document", "code"):
        if document not in ids:
            raise InvalidSetError(f"{path}, line {number}: unknown document {document}.")
        if code not in set(VarianceCode):
            raise InvalidSetError(f"{path}, line {number}: {code} is not a variance code.")
        variances.add((document, code))
    return frozenset(variances)


def _rows(path: Path, first: str, second: str) -> list[tuple[int, tuple[str, str]]]:
    reader = DictReader(_lines(path))
    if not {first, second} <= set(reader.fieldnames or ()):
        raise InvalidSetError(f"{path}, line 1: the header must be {first},{second}.")
    rows = []
    for row in reader:
        if not row[first] or not row[second]:
            raise InvalidSetError(f"{path}, line {reader.line_num}: {first} or {second} is missing.")
        rows.append((reader.line_num, (row[first], row[second])))
    return rows


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise InvalidSetError(f"{path} is not UTF-8 (byte {error.start}).") from None
