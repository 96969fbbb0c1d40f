"""Score candidate pairs with dedupe 3's distances and classifier.

The blocking of dedupe is not used.
"""

# The libraries that this benchmark imports are optional.
# mypy: disable-error-code="import-not-found, import-untyped"
from collections.abc import Callable
from typing import Any

import dedupe
from dedupe import variables

from counterfoil.documents.matching.keys import PARENT_KINDS
from tests.benchmarks.matching.pairs import Half, records

_SETS = ("others", "seller_ids", "buyer_ids", "articles", "words", "prices", "quantities", "lines")


def train(training: Half) -> Callable[[Half], list[float]]:
    """Train a classifier on labeled pairs. Return a function that scores pairs."""
    linker = dedupe.RecordLink(_variables(), num_cores=1)
    linker.classifier.n_jobs = 1  # a single process, because its memory is measured
    linker.classifier.fit(linker.data_model.distances(_pairs(training)), training.truth)

    def scores(half: Half) -> list[float]:
        return [
            float(probability)
            for _, probability in linker.classifier.predict_proba(linker.data_model.distances(_pairs(half)))
        ]

    return scores


def _pairs(half: Half) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    found = []
    for pair in half.pairs:
        child, parent = (
            {name: tuple(value) if isinstance(value, list) else value for name, value in one.items()}
            for one in records(pair)
        )
        child["kinds"] = parent["kinds"] = f"{child['kind']}>{parent['kind']}"
        found.append((child, parent))
    return found


def _variables() -> list[Any]:
    names = [variables.String(name, has_missing=True) for name in ("number", "seller_name", "buyer_name")]
    exact = [variables.Exact(name, has_missing=True) for name in ("tail", "seller_vat", "buyer_vat", "currency")]
    sets = [variables.Set(name, has_missing=True) for name in _SETS]
    days = [
        variables.Custom("day", comparator=comparator, name=name, has_missing=True)
        for name, comparator in (("days after", _after), ("days before", _before))
    ]
    kinds = [f"{child}>{parent}" for child, parents in PARENT_KINDS.items() for parent in parents]
    return [
        *names,
        *exact,
        *sets,
        *days,
        variables.Price("net", has_missing=True),
        variables.Categorical("kinds", categories=kinds),
    ]


def _after(child: int, parent: int) -> float:
    return max(child - parent, 0) / 100


def _before(child: int, parent: int) -> float:
    return max(parent - child, 0) / 10
