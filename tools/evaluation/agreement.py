"""How far links and clusters that were found agree with the true ones."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil.documents.structured import DocumentType
from tools.evaluation.labeled_set import LabelledDocument

Edge = frozenset[str]


@dataclass(frozen=True)
class Agreement:
    """How far what was found agrees with the truth; nothing found is precise, and without any truth recall is 1."""

    precision: float
    recall: float
    f1: float
    found: int
    true: int
    both: int

    @classmethod
    def of(cls, found: int, true: int, both: int) -> "Agreement":
        """From counts: found, true, and found and true."""
        precision = both / found if found else 1.0
        recall = both / true if true else 1.0
        f1 = 2 * precision * recall / (precision + recall) if both else float(found == true == 0)
        return cls(round(precision, 4), round(recall, 4), round(f1, 4), found, true, both)


def edges_agreement(found: Collection[Edge], true: Collection[Edge]) -> Agreement:
    """Compare links one by one."""
    return Agreement.of(len(found), len(true), len(frozenset(found) & frozenset(true)))


def bills(documents: Iterable[LabelledDocument], edges: Iterable[Edge]) -> dict[str, str]:
    """By invoice that has true copies, the one that stands for all of them.

    Invoices that a true edge links are one bill, sent twice. Which of them is called the original is a convention:
    nothing that they state tells it, and the first to arrive need not be the first that was sent.
    """
    invoices = {document.id for document in documents if document.type == DocumentType.INVOICE}
    return _parts(edge for edge in edges if edge <= invoices)


def edges_agreement_of_bills(found: Collection[Edge], true: Collection[Edge], bill: Mapping[str, str]) -> Agreement:
    """Compare links with the copies of one bill (`bills`) taken as one document.

    A link of any of the copies is one of the bill's, counted once. Among themselves n copies take n - 1 links to hold
    together, and as many of those found count as right as hold some of them together; what is found beyond is wrong.
    """

    def of_bills(edges: Iterable[Edge]) -> tuple[set[Edge], set[Edge]]:
        outside: set[Edge] = set()
        inside: set[Edge] = set()
        for edge in edges:
            ends = frozenset(bill.get(end, end) for end in edge)
            (outside if len(ends) == 2 else inside).add(ends if len(ends) == 2 else edge)
        return outside, inside

    (found_outside, found_inside), (true_outside, true_inside) = of_bills(found), of_bills(true)
    copies = _holding(true_inside)
    return Agreement.of(
        len(found_outside) + len(found_inside),
        len(true_outside) + copies,
        len(found_outside & true_outside) + _holding(found_inside),
    )


def pairs_agreement(found: Mapping[str, str], true: Mapping[str, str]) -> Agreement:
    """Compare two ways of putting the same documents into clusters by the pairs of documents that are together."""
    sizes_found, sizes_true = Counter(found.values()), Counter(true.values())
    sizes_both = Counter((found[document], true[document]) for document in true)
    return Agreement.of(_pairs(sizes_found), _pairs(sizes_true), _pairs(sizes_both))


def _pairs(sizes: Mapping[Any, int]) -> int:
    return sum(size * (size - 1) // 2 for size in sizes.values())


def _holding(edges: Collection[Edge]) -> int:
    """How many of the links are needed to hold together what all of them hold together."""
    parts = _parts(edges)
    return len(parts) - len(set(parts.values()))


def _parts(edges: Iterable[Edge]) -> dict[str, str]:
    """By end of a link, the smallest document of its connected component."""
    leader: dict[str, str] = {}

    def first(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for edge in edges:
        low, high = sorted(map(first, edge))
        leader[high] = low
    return {name: first(name) for name in list(leader)}
