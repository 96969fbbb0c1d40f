"""Compare all methods on the same candidate pairs: quality, time and memory.

Each trainable method trains on one set and scores the other. The score threshold is the one with the best F1 on the
training set.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import and_, itemgetter
from pathlib import Path
from typing import Any

from tests.benchmarks.matching.pairs import read_half
from tests.benchmarks.matching.peers import MISSING, PEERS
from tools.evaluation.agreement import Agreement

ROOT = Path(__file__).resolve().parents[3]
INSTALL = ".venv/bin/uv sync --frozen --group benchmark"


@dataclass(frozen=True)
class Result:
    """Result of one method. `agreement` covers the candidate pairs only."""

    peer: str
    agreement: Agreement
    threshold: float
    seconds_to_learn: float
    seconds_to_score: float
    peak_megabytes: float


@dataclass(frozen=True)
class Absent:
    """A method that could not run."""

    peer: str
    reason: str


@dataclass(frozen=True)
class Reach:
    """Counts of a set's candidate pairs and true links."""

    pairs: int
    true_pairs: int
    true_links: int
    """Number of true links, except between duplicates."""


def reach(folder: Path) -> Reach:
    """Count a set's candidate pairs and true links.

    True links without a candidate pair follow from other links, or their documents share no blocking key.
    """
    half = read_half(folder)
    types = {document.id: document.type for document in half.labeled.documents}
    links = sum(len({types[end] for end in edge}) > 1 for edge in half.labeled.edges or ())
    return Reach(len(half.pairs), sum(half.truth), links)


def compare(training: Path, test: Path) -> Iterator[Result | Absent]:
    """Train every method on `training` and test it on `test`."""
    for peer in PEERS:
        process = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.matching.peers", peer, str(training), str(test)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        if process.returncode == MISSING:
            missing = process.stderr.strip().splitlines()[-1]
            yield Absent(peer, f"{missing} is not installed: {INSTALL}")
        elif process.returncode != 0:
            yield Absent(peer, f"failed: {process.stderr.strip().splitlines()[-1]}")
        else:
            yield _result(peer, json.loads(process.stdout))


def _result(peer: str, output: Mapping[str, Any]) -> Result:
    threshold = best_threshold(**output["training"])
    truth = output["test"]["truth"]
    found = [score >= threshold for score in output["test"]["scores"]]
    return Result(
        peer,
        Agreement.from_counts(sum(found), sum(truth), sum(map(and_, found, truth))),
        threshold,
        output["seconds_to_learn"],
        output["seconds_to_score"],
        output["peak_megabytes"],
    )


def best_threshold(scores: Sequence[float], truth: Sequence[bool]) -> float:
    """Return the score threshold with the best F1.

    If several are equally good, return the highest.
    """
    ranked = sorted(zip(scores, truth, strict=True), key=itemgetter(0), reverse=True)
    best, threshold, both, true = 0.0, inf, 0, sum(truth)
    for found, (score, is_true) in enumerate(ranked, start=1):
        both += is_true
        ends_here = found == len(ranked) or ranked[found][0] < score
        if ends_here and (f1 := 2 * both / (found + true)) > best:
            best, threshold = f1, score
    return threshold
