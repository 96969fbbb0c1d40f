"""Compare text extraction with the XML field by field, and count the results.

An extracted value is correct if it equals the value in the XML. Numbers are compared by value, and text ignoring case
and whitespace. Ids are compared by their letters and digits only. Descriptions must be 90% similar. The unit codes C62
(one) and H87 (piece) count as equal. A missing price basis counts as 1. An incorrect value counts as both a miss and a
false positive.

Fields that are in the XML but on no page are excluded. Fields that are not in the XML are also excluded, because
nothing can confirm them. The strict counts include both as errors. Line items are paired to maximize the number of
equal fields. All fields of an unpaired line item are misses or false positives.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from rapidfuzz import fuzz

from counterfoil.documents.three_way_match.alignment import assign
from tests.benchmarks.extraction.page_text import letters

_SAME_UNITS = frozenset({"C62", "H87"})
_SAME_DESCRIPTION = 90.0
_IDS = frozenset({"vat_id", "iban", "tax_number"})

Fields = list[tuple[str, str]]


@dataclass
class Counts:
    """Counts of correct values, false positives, misses and excluded fields."""

    right: int = 0
    false: int = 0
    missed: int = 0
    not_on_page: int = 0
    not_on_page_but_read: int = 0
    beyond: int = 0
    misses: list[tuple[str, str, str]] = field(default_factory=list)
    unjudged: list[tuple[str, str]] = field(default_factory=list)

    def add(self, other: "Counts") -> None:
        """Add another comparison's counts to these."""
        self.right += other.right
        self.false += other.false
        self.missed += other.missed
        self.not_on_page += other.not_on_page
        self.not_on_page_but_read += other.not_on_page_but_read
        self.beyond += other.beyond
        self.misses += other.misses
        self.unjudged += other.unjudged

    def strict(self) -> "Counts":
        """Return the counts with excluded fields counted as errors."""
        return Counts(self.right, self.false + self.beyond + self.not_on_page_but_read, self.missed + self.not_on_page)

    @property
    def precision(self) -> float:
        """Share of extracted values that are correct."""
        return self.right / max(self.right + self.false, 1)

    @property
    def recall(self) -> float:
        """Share of the values in the XML and on a page that were extracted correctly."""
        return self.right / max(self.right + self.missed, 1)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.right / max(2 * self.right + self.false + self.missed, 1)


def header(data: Mapping[str, Any]) -> Fields:
    """Return a document's fields except line items, flattened.

    Each value of a list is a field.
    """
    flat: Fields = []
    for name, value in data.items():
        if isinstance(value, Mapping):
            flat += [(f"{name}.{own}", own_value) for own, own_value in value.items()]
        elif isinstance(value, str):
            flat.append((name, value))
        elif name != "line_items":
            flat += [(name, each) for each in value]
    return flat


def is_same(name: str, a: str, b: str) -> bool:
    """Return whether two values of the field `name` mean the same to a human reader."""
    own = name.rpartition(".")[2]
    if own in _IDS:
        return letters(a) == letters(b)
    if own == "unit":
        return a == b or {a, b} <= _SAME_UNITS
    if own == "description":
        return letters(a) == letters(b) or fuzz.ratio(letters(a), letters(b)) >= _SAME_DESCRIPTION
    if "date" not in own and not own.endswith(("number", "reference")) and own != "postal_code":
        try:
            return Decimal(a) == Decimal(b)
        except InvalidOperation:
            pass
    return re.sub(r"\s+", "", a).casefold() == re.sub(r"\s+", "", b).casefold()


def compare(truth: Fields, read: Fields, on_page: Any) -> Counts:
    """Compare the fields of a header or of paired line items, and count the results.

    `on_page(name, value)` returns whether a page shows the value.
    """
    counts = Counts()
    left = list(read)
    for name, value in truth:
        candidates = [item for item in left if item[0] == name]
        same = next((item for item in candidates if is_same(name, value, item[1])), None)
        if same is not None:
            left.remove(same)
            counts.right += 1
    stated = {name for name, _ in truth}
    for name, value in truth:
        if any(is_same(name, value, other) for own, other in read if own == name):
            continue
        wrong = next((item for item in left if item[0] == name), None)
        if wrong is not None:
            left.remove(wrong)
        if not on_page(name, value):
            counts.not_on_page += 1
            counts.not_on_page_but_read += wrong is not None
            continue
        counts.missed += 1
        counts.false += wrong is not None
        counts.misses.append((name, value, "" if wrong is None else wrong[1]))
    for name, value in left:
        if name in stated:
            counts.false += 1
            counts.misses.append((name, "", value))
        else:
            counts.beyond += 1
            counts.unjudged.append((name, value))
    return counts


def compare_lines(truth: Sequence[Mapping[str, str]], read: Sequence[Mapping[str, str]], on_page: Any) -> Counts:
    """Pair line items by equal fields, compare each pair, and count the results."""
    truth, read = [list(map(_without_basis_of_one, lines)) for lines in (truth, read)]
    counts = Counts()
    pairs = dict(_pairs(truth, read))
    for index, line in enumerate(truth):
        partner = read[pairs[index]] if index in pairs else {}
        name = f"line_items.{index}"
        counts.add(
            compare(
                [(f"{name}.{own}", value) for own, value in line.items()],
                [(f"{name}.{own}", value) for own, value in partner.items()],
                on_page,
            )
        )
    for index in set(range(len(read))) - set(pairs.values()):
        counts.false += len(read[index])
        counts.misses += [(f"extra line {index}: {own}", "", value) for own, value in read[index].items()]
    return counts


def _without_basis_of_one(line: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in line.items() if name != "price_basis_quantity" or Decimal(value) != 1}


def _pairs(truth: Sequence[Mapping[str, str]], read: Sequence[Mapping[str, str]]) -> Iterator[tuple[int, int]]:
    """Yield the pairing with the most equal fields.

    Line items without equal fields stay unpaired.
    """
    weights = {
        (row, column): weight
        for row, line in enumerate(truth)
        for column, other in enumerate(read)
        if (weight := _agreement(line, other)) > 0
    }
    yield from assign(weights).items()


def _agreement(line: Mapping[str, str], other: Mapping[str, str]) -> float:
    same = sum(name in other and is_same(name, value, other[name]) for name, value in line.items())
    return same + fuzz.ratio(line.get("description", ""), other.get("description", "")) / 1000
