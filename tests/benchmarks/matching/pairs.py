"""The candidate pairs of a labelled set, and what both documents of each say, in the forms that matching compares."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rapidfuzz.distance import OSA

from counterfoil.documents.matching.keys import PARENTS
from counterfoil.documents.matching.normalise import Document, Line, Party, Reference, words
from tools.evaluation.labeled_set import LabelledSet, read_set
from tools.training.candidates import Pair, Tenant, tenants

Record = dict[str, Any]


@dataclass(frozen=True)
class Half:
    """One labelled set: what is learned from, or what is scored."""

    labelled: LabelledSet
    tenants: tuple[Tenant, ...]
    by_tenant: tuple[tuple[Pair, ...], ...]
    """Every pair that a key leads to, true or not; copies, which have no links of their own, are in none."""

    @property
    def pairs(self) -> list[Pair]:
        """Those of all tenants."""
        return [pair for pairs in self.by_tenant for pair in pairs]

    @property
    def truth(self) -> list[bool]:
        """Which of the pairs belong together."""
        return [pair.true for pair in self.pairs]


def read_half(folder: Path) -> Half:
    """Read a set and collect its pairs: always the same ones in the same order."""
    labelled = read_set(folder)
    known = tenants(labelled)
    return Half(labelled, tuple(known), tuple(tuple(tenant.pairs()) for tenant in known))


def records(pair: Pair) -> tuple[Record, Record]:
    """What the two documents of a pair say, under the same names, as a library that links records wants it.

    `number` is the number that the child names and that the parent bears; where the child names several, the nearest.
    What a document does not state is None.
    """
    child, parent = pair.child, pair.parent
    own = _canonical(parent.number)
    named = [found for one in child.named.get(parent.kind, ()) if (found := _canonical(one))]
    nearest = min(named, key=lambda number: OSA.distance(number, own or ""), default=None)
    third = [kind for kind in PARENTS[child.kind] if kind != parent.kind]
    return _record(child, nearest, third), _record(parent, own, third)


def _record(one: Document, number: str | None, third: list[str]) -> Record:
    return {
        "kind": one.kind,
        "number": number,
        "tail": None if number is None else "".join(filter(str.isdigit, number))[-4:] or None,
        "others": _stated(found for kind in third for ref in one.named.get(kind, ()) if (found := _canonical(ref))),
        **_party("seller", one.seller),
        **_party("buyer", one.buyer),
        "day": one.day,
        "currency": one.currency,
        "net": one.net,
        "articles": _stated(code for line in one.lines for code in (line.article, line.buyer_article) if code),
        "words": _stated(word for line in one.lines for word in line.text.split()),
        "prices": _stated(f"{line.price:.4f}" for line in one.lines if line.price is not None),
        "quantities": _stated(f"{line.quantity:g}" for line in one.lines if line.quantity is not None),
        "lines": _stated(_goods(line) for line in one.lines),
    }


def _party(side: str, party: Party) -> Record:
    return {
        f"{side}_name": party.name.core if party.name else None,
        f"{side}_vat": party.vat,
        f"{side}_ids": _stated(f"{field} {value}" for field, value in party.identifiers.items()),
    }


def _goods(line: Line) -> str:
    return f"{line.buyer_article or line.article or line.text} {line.quantity or 0:g} {line.unit}"


def _stated(values: Iterator[str]) -> list[str] | None:
    return sorted(set(values)) or None


def _canonical(reference: Reference | None) -> str | None:
    return None if reference is None else min(reference.folded, key=lambda form: (len(form), form))


def whole_text(data: Any) -> str:
    """All that a document says, as words."""
    if isinstance(data, dict):
        return " ".join(map(whole_text, data.values()))
    if isinstance(data, list):
        return " ".join(map(whole_text, data))
    return words(data) if isinstance(data, str) else ""
