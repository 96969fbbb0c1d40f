"""Measure untrained text similarity on two public entity resolution benchmarks.

Two tables describe the same items, each at most once. Each row becomes one text, normalized by `normalize.words`. The
similarity of two texts is the cosine of their letter sequences, weighted by rarity in both tables. Rows are assigned
one to one, with the greatest possible total similarity. A pair counts if at least one of its rows has no better
partner. This removes leftover pairs without a threshold.
"""

import csv
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from counterfoil.documents.matching.normalize import words
from tools.evaluation.agreement import Agreement

LENGTHS = (3, 4, 5)
"""Letters per sequence: long enough to capture word stems, short enough to capture parts of model numbers."""
_EQUAL = 1e-9
_Rows = list[dict[str, str]]
_Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]


@dataclass(frozen=True)
class Task:
    """A benchmark of two tables with their true pairs."""

    name: str
    goal: float
    """Target F1."""
    files: tuple[str, str]
    fields: tuple[str, ...]
    delimiter: str


TASKS = (
    Task("abt-buy", 0.93, ("abt.csv", "buy.csv"), ("name", "description"), "|"),
    Task("dblp-acm", 0.98, ("dblp.csv", "acm.csv"), ("title", "authors", "venue", "year"), "%"),
)


@dataclass(frozen=True)
class Similarity:
    """Results for one task."""

    task: str
    goal: float
    agreement: Agreement
    forced: Agreement
    """Agreement if every row of the shorter table is paired."""
    seconds: float


def measure(folder: Path, task: Task) -> Similarity:
    """Pair the rows of a task's tables, and compare the pairs with the true pairs."""
    left, right = (_read(folder / task.name / file, task.delimiter) for file in task.files)
    true = {(row["D1"], row["D2"]) for row in _read(folder / task.name / "gt.csv", task.delimiter)}
    began = time.perf_counter()
    alike = similarities([_text(row, task.fields) for row in left], [_text(row, task.fields) for row in right])
    pairs = list(assign_pairs(alike))
    seconds = time.perf_counter() - began

    def agreement(*, forced: bool) -> Agreement:
        found = {(left[i]["id"], right[j]["id"]) for i, j, is_best in pairs if is_best or forced}
        return Agreement.from_counts(len(found), len(true), len(found & true))

    return Similarity(task.name, task.goal, agreement(forced=False), agreement(forced=True), seconds)


def similarities(left: Sequence[str], right: Sequence[str]) -> _Table:
    """Return the cosine similarity, 0 to 1, of each left text with each right text."""
    grams = [Counter(_grams(text)) for text in (*left, *right)]
    seen = Counter(gram for found in grams for gram in found)
    columns = {gram: column for column, gram in enumerate(seen)}
    entries = [
        (row, columns[gram], log(1 + len(grams) / seen[gram])) for row, found in enumerate(grams) for gram in found
    ]
    rows, positions, weights = zip(*entries, strict=True)
    vectors = csr_array((weights, (rows, positions)), shape=(len(grams), len(columns)))
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)))
    vectors = csr_array(vectors.multiply(1 / np.maximum(lengths, 1e-12)[:, None]))
    return np.asarray((vectors[: len(left)] @ vectors[len(left) :].T).toarray(), dtype=np.float64)


def assign_pairs(alike: _Table) -> Iterator[tuple[int, int, bool]]:
    """Yield each assigned row and column, and whether either has no better partner."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(alike, maximize=True)
    least = np.minimum(alike.max(axis=1)[rows], alike.max(axis=0)[columns]) - _EQUAL
    for row, column, bound in zip(rows, columns, least, strict=True):
        if alike[row, column] > 0:
            yield int(row), int(column), bool(alike[row, column] >= bound)


def _grams(text: str) -> Iterator[str]:
    padded = f" {text} "
    for length in LENGTHS:
        yield from (padded[start : start + length] for start in range(len(padded) - length + 1))


def _text(row: Mapping[str, str], fields: Iterable[str]) -> str:
    return words(" ".join(row[field] or "" for field in fields))


def _read(path: Path, delimiter: str) -> _Rows:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))
