"""Read a labeled set's candidate pairs, with documents as normalized records."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rapidfuzz.distance import OSA

from counterfoil.documents.matching.keys import PARENT_KINDS
from counterfoil.documents.matching.normalize import Document, Line, Party, Reference, words
from tools.evaluation.labeled_set import LabeledSet, read_set
from tools.training.candidate_pairs import Pair, Tenant, tenants

Record = dict[str, Any]


@dataclass(frozen=True)
class Half:
    """A labeled set for training or scoring."""

    labeled: LabeledSet
    tenants: tuple[Tenant, ...]
    by_tenant: tuple[tuple[Pair, ...], ...]
    """All candidate pairs, true and false. Duplicate documents are excluded because they have no links."""

    @property
    def pairs(self) -> list[Pair]:
        """Candidate pairs of all tenants."""
        return [pair for pairs in self.by_tenant for pair in pairs]

    @property
    def truth(self) -> list[bool]:
        """Labels in the order of `pairs`: True for each true match."""
        return [pair.is_match for pair in self.pairs]


def read_half(folder: Path) -> Half:
    """Read a labeled set and its candidate pairs, in deterministic order."""
    labeled = read_set(folder)
    known = tenants(labeled)
    return Half(labeled, tuple(known), tuple(tuple(tenant.pairs()) for tenant in known))


def records(pair: Pair) -> tuple[Record, Record]:
    """Return both documents of a pair as records with the same fields.

    `number` is the reference for the child and the document number for the parent. If the child has several references,
    the most similar one is used. Missing values are None.
    """
    child, parent = pair.child, pair.parent
    own = _canonical(parent.number)
    named = [number for ref in child.references.get(parent.kind, ()) if (number := _canonical(ref))]
    nearest = min(named, key=lambda number: OSA.distance(number, own or ""), default=None)
    third = [kind for kind in PARENT_KINDS[child.kind] if kind != parent.kind]
    return _record(child, nearest, third), _record(parent, own, third)


def _record(doc: Document, number: str | None, third: list[str]) -> Record:
    return {
        "kind": doc.kind,
        "number": number,
        "tail": None if number is None else "".join(filter(str.isdigit, number))[-4:] or None,
        "others": _unique_values(
            found for kind in third for ref in doc.references.get(kind, ()) if (found := _canonical(ref))
        ),
        **_party("seller", doc.seller),
        **_party("buyer", doc.buyer),
        "day": doc.day,
        "currency": doc.currency,
        "net": doc.net,
        "articles": _unique_values(code for line in doc.lines for code in (line.article, line.buyer_article) if code),
        "words": _unique_values(word for line in doc.lines for word in line.text.split()),
        "prices": _unique_values(f"{line.price:.4f}" for line in doc.lines if line.price is not None),
        "quantities": _unique_values(f"{line.quantity:g}" for line in doc.lines if line.quantity is not None),
        "lines": _unique_values(_goods(line) for line in doc.lines),
    }


def _party(side: str, party: Party) -> Record:
    return {
        f"{side}_name": party.name.core if party.name else None,
        f"{side}_vat": party.vat,
        f"{side}_ids": _unique_values(f"{field} {value}" for field, value in party.identifiers.items()),
    }


def _goods(line: Line) -> str:
    return f"{line.buyer_article or line.article or line.text} {line.quantity or 0:g} {line.unit}"


def _unique_values(values: Iterator[str]) -> list[str] | None:
    return sorted(set(values)) or None


def _canonical(reference: Reference | None) -> str | None:
    return None if reference is None else min(reference.folded, key=lambda form: (len(form), form))


def whole_text(data: Any) -> str:
    """Return all text in a document's data as normalized words."""
    if isinstance(data, dict):
        return " ".join(map(whole_text, data.values()))
    if isinstance(data, list):
        return " ".join(map(whole_text, data))
    return words(data) if isinstance(data, str) else ""
