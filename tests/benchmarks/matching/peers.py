"""Score candidate pairs with our methods and other libraries.

Each of them runs in a separate process. `python -m tests.benchmarks.matching.peers NAME FOLDER FOLDER` trains on the
first set and scores the pairs in both. It prints scores, ground truth, seconds and peak memory as JSON. Only this
benchmark requires Splink, dedupe and scikit-learn.
"""

# The libraries that this benchmark imports are optional.
# mypy: disable-error-code="import-not-found, import-untyped"
import json
import re
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from counterfoil.documents.matching.score import parse, probability, score, using
from tests.benchmarks.matching.pairs import Half, read_half, whole_text
from tests.documents.matching.reference_matching import ReferenceMatching
from tools.training.candidate_pairs import id_of
from tools.training.learning import fit_weights

Scores = list[float]
Peer = Callable[[Half], Callable[[Half], Scores]]
"""Trains on a labeled set. Returns a function that scores pairs. A higher score means a more likely match."""
MISSING = 3
"""Exit code if a required library is not installed."""


def ours(taught: Half) -> Callable[[Half], Scores]:
    """Score with our match weights, each pair independently of other candidates."""
    weights = parse(fit_weights(taught.tenants))

    def scores(half: Half) -> Scores:
        with using(weights):
            return [probability(score(pair.child, pair.parent).total) for pair in half.pairs]

    return scores


def ours_decided(taught: Half) -> Callable[[Half], Scores]:
    """Score 1 for pairs that our match weights and matching rules link, else 0."""
    weights = parse(fit_weights(taught.tenants))

    def scores(half: Half) -> Scores:
        found = []
        with using(weights):
            for pairs in half.by_tenant:
                documents = {one.id: one for pair in pairs for one in (pair.child, pair.parent)}
                linked = {
                    frozenset((link.child, link.parent)) for link in ReferenceMatching(list(documents.values())).links()
                }
                found += [float(frozenset((pair.child.id, pair.parent.id)) in linked) for pair in pairs]
        return found

    return scores


def number_only(_: Half) -> Callable[[Half], Scores]:
    """Score equal numbers, ignoring prefixes, separators and leading zeros."""

    def scores(half: Half) -> Scores:
        return [
            float(
                pair.parent.number is not None
                and any(
                    named.exact & pair.parent.number.exact for named in pair.child.references.get(pair.parent.kind, ())
                )
            )
            for pair in half.pairs
        ]

    return scores


def tf_idf(_: Half) -> Callable[[Half], Scores]:
    """Score by the TF-IDF cosine of all words in both documents."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    def scores(half: Half) -> Scores:
        texts = {id_of(found.id): whole_text(found.data) for found in half.labeled.documents}
        rows = {id_: row for row, id_ in enumerate(texts)}
        vectors = TfidfVectorizer(token_pattern=r"\S+").fit_transform(texts.values())
        children = vectors[[rows[pair.child.id] for pair in half.pairs]]
        parents = vectors[[rows[pair.parent.id] for pair in half.pairs]]
        return [float(cosine) for cosine in np.asarray(children.multiply(parents).sum(axis=1)).ravel()]

    return scores


def splink(_: Half) -> Callable[[Half], Scores]:
    """Score with a Fellegi-Sunter model that is estimated on the scored pairs.

    The estimates come from expectation maximization.
    """
    from tests.benchmarks.matching import splink_baseline

    return splink_baseline.train_unlabeled


def splink_labeled(training: Half) -> Callable[[Half], Scores]:
    """Score with a Fellegi-Sunter model whose m and u are estimated from labels."""
    from tests.benchmarks.matching import splink_baseline

    estimates = splink_baseline.estimate_from_labels(training)
    return lambda half: splink_baseline.scores(half, estimates)


def dedupe(training: Half) -> Callable[[Half], Scores]:
    """Score with dedupe's distances and classifier, trained on labeled pairs."""
    from tests.benchmarks.matching import dedupe_baseline

    return dedupe_baseline.train(training)


PEERS: dict[str, Peer] = {
    "ours, as decided": ours_decided,
    "ours, pair by pair": ours,
    "Splink 5, labeled": splink_labeled,
    "Splink 5, EM": splink,
    "dedupe 3": dedupe,
    "TF-IDF": tf_idf,
    "number only": number_only,
}


def main(arguments: Sequence[str]) -> int:
    """Print one method's results on two sets.

    Return `MISSING` if its library is not installed.
    """
    name, *folders = arguments
    training, test = (read_half(Path(folder)) for folder in folders)
    began = time.perf_counter()
    try:
        scores = PEERS[name](training)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error.name}\n")
        return MISSING
    learned = time.perf_counter()
    own = scores(training)
    half_way = time.perf_counter()
    result = {
        "training": {"scores": own, "truth": training.truth},
        "test": {"scores": scores(test), "truth": test.truth},
        "seconds_to_learn": learned - began,
        "seconds_to_score": time.perf_counter() - half_way,
        "peak_megabytes": peak_megabytes(),
    }
    sys.stdout.write(json.dumps(result))
    return 0


def peak_megabytes() -> float:
    """Return the peak memory of this process, in MiB."""
    status = Path("/proc/self/status")
    if status.is_file() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="ascii"))):
        return int(found[1]) / 1024  # ru_maxrss can include the parent process
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
