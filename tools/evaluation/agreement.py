"""Agreement of predicted links and clusters with the labels."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil.documents.structured import DocumentType
from tools.evaluation.labeled_set import LabeledDocument

Edge = frozenset[str]


@dataclass(frozen=True)
class Agreement:
    """Precision, recall and F1, with their counts.

    Precision is 1 if nothing is predicted, and recall is 1 if nothing is expected.
    """

    precision: float
    recall: float
    f1: float
    predicted: int
    expected: int
    correct: int

    @classmethod
    def from_counts(cls, predicted: int, expected: int, correct: int) -> "Agreement":
        """Compute the agreement from counts of predicted, expected and correct items."""
        precision = correct / predicted if predicted else 1.0
        recall = correct / expected if expected else 1.0
        f1 = 2 * precision * recall / (precision + recall) if correct else float(predicted == expected == 0)
        return cls(round(precision, 4), round(recall, 4), round(f1, 4), predicted, expected, correct)


def edges_agreement(predicted: Collection[Edge], expected: Collection[Edge]) -> Agreement:
    """Compare links individually."""
    return Agreement.from_counts(len(predicted), len(expected), len(frozenset(predicted) & frozenset(expected)))


def invoice_groups(documents: Iterable[LabeledDocument], edges: Iterable[Edge]) -> dict[str, str]:
    """Map each invoice with true duplicates to the representative of its group.

    Invoices that a true edge links are one invoice that was sent twice. Which of them counts as the original is a
    convention: their fields do not show it, and the first to arrive may not be the first that was sent.
    """
    invoices = {document.id for document in documents if document.type == DocumentType.INVOICE}
    return _parts(edge for edge in edges if edge <= invoices)


def invoice_level_agreement(
    predicted: Collection[Edge], expected: Collection[Edge], group_of: Mapping[str, str]
) -> Agreement:
    """Compare links, with the duplicates of an invoice as one document.

    `group_of` is the result of `invoice_groups`. A link to any duplicate counts as a link to its group. A group of n
    documents requires n - 1 links. Predicted links within a group are correct as long as they connect more of its
    documents; redundant links are incorrect.
    """

    def split_links(edges: Iterable[Edge]) -> tuple[set[Edge], set[Edge]]:
        outside: set[Edge] = set()
        inside: set[Edge] = set()
        for edge in edges:
            ends = frozenset(group_of.get(end, end) for end in edge)
            (outside if len(ends) == 2 else inside).add(ends if len(ends) == 2 else edge)
        return outside, inside

    (found_outside, found_inside), (true_outside, true_inside) = split_links(predicted), split_links(expected)
    needed_links = _needed_links(true_inside)
    return Agreement.from_counts(
        len(found_outside) + len(found_inside),
        len(true_outside) + needed_links,
        len(found_outside & true_outside) + _needed_links(found_inside),
    )


def pairs_agreement(predicted: Mapping[str, str], expected: Mapping[str, str]) -> Agreement:
    """Compare two clusterings by the pairs of documents that share a cluster.

    Both must contain the same documents.
    """
    sizes_found, sizes_true = Counter(predicted.values()), Counter(expected.values())
    sizes_both = Counter((predicted[document], expected[document]) for document in expected)
    return Agreement.from_counts(_pairs(sizes_found), _pairs(sizes_true), _pairs(sizes_both))


def _pairs(sizes: Mapping[Any, int]) -> int:
    return sum(size * (size - 1) // 2 for size in sizes.values())


def _needed_links(edges: Collection[Edge]) -> int:
    """Return the minimum number of links that connect the same documents as `edges`."""
    parts = _parts(edges)
    return len(parts) - len(set(parts.values()))


def _parts(edges: Iterable[Edge]) -> dict[str, str]:
    """Map each document to the smallest document of its connected component."""
    parent: dict[str, str] = {}

    def representative(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    for edge in edges:
        low, high = sorted(map(representative, edge))
        parent[high] = low
    return {name: representative(name) for name in list(parent)}
