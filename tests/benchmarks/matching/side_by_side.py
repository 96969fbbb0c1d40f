"""Ours and its peers on the same candidate pairs: what each finds, in which time, with how much memory.

Each learns from one set, where it learns, and is asked about the other; the threshold is the one with the best F1 on
the set that it learned from.
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
    """One peer's. Agreement is over the candidate pairs."""

    peer: str
    agreement: Agreement
    threshold: float
    seconds_to_learn: float
    seconds_to_score: float
    peak_megabytes: float


@dataclass(frozen=True)
class Absent:
    """A peer that could not be asked."""

    peer: str
    reason: str


@dataclass(frozen=True)
class Reach:
    """What the candidate pairs of a set can show at most."""

    pairs: int
    true_pairs: int
    true_links: int
    """Of documents that are no copies."""


def reach(folder: Path) -> Reach:
    """Count a set's candidates. A link that follows from others' needs no pair of its own."""
    half = read_half(folder)
    types = {document.id: document.type for document in half.labelled.documents}
    links = sum(len({types[end] for end in edge}) > 1 for edge in half.labelled.edges or ())
    return Reach(len(half.pairs), sum(half.truth), links)


def compare(taught: Path, asked: Path) -> Iterator[Result | Absent]:
    """Ask every peer about the second set."""
    for peer in PEERS:
        process = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.matching.peers", peer, str(taught), str(asked)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        if process.returncode == MISSING:
            missing = process.stderr.strip().splitlines()[-1]
            yield Absent(peer, f"{missing} is not installed: {INSTALL}")
        elif process.returncode != 0:
            yield Absent(peer, f"it failed: {process.stderr.strip().splitlines()[-1]}")
        else:
            yield _result(peer, json.loads(process.stdout))


def _result(peer: str, said: Mapping[str, Any]) -> Result:
    threshold = best_threshold(**said["taught"])
    truth = said["asked"]["truth"]
    found = [score >= threshold for score in said["asked"]["scores"]]
    return Result(
        peer,
        Agreement.of(sum(found), sum(truth), sum(map(and_, found, truth))),
        threshold,
        said["seconds_to_learn"],
        said["seconds_to_score"],
        said["peak_megabytes"],
    )


def best_threshold(scores: Sequence[float], truth: Sequence[bool]) -> float:
    """The score from which to say yes for the best F1; of several, the highest."""
    ranked = sorted(zip(scores, truth, strict=True), key=itemgetter(0), reverse=True)
    best, threshold, both, true = 0.0, inf, 0, sum(truth)
    for found, (score, is_true) in enumerate(ranked, start=1):
        both += is_true
        ends_here = found == len(ranked) or ranked[found][0] < score
        if ends_here and (f1 := 2 * both / (found + true)) > best:
            best, threshold = f1, score
    return threshold
