"""Ways to tell which candidate pairs belong together: ours, and others'. Each runs in a process of its own.

`python -m tests.benchmarks.matching.peers NAME FOLDER FOLDER` learns from the first set what it learns, scores the
pairs of both, and prints scores beside the truth, seconds and peak memory as JSON. Splink, dedupe and scikit-learn are
wanted by this benchmark alone.
"""

# What only this benchmark wants may be missing.
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
from tests.documents.matching.whole import Whole
from tools.training.candidates import id_of
from tools.training.learning import learn

Scores = list[float]
Peer = Callable[[Half], Callable[[Half], Scores]]
"""Learns from a set, labels and all, and then scores the pairs of any: the higher, the likelier."""
MISSING = 3
"""The exit code where a library is not installed."""


def ours(taught: Half) -> Callable[[Half], Scores]:
    """Match weights, each pair for itself."""
    weights = parse(learn(taught.tenants))

    def scores(half: Half) -> Scores:
        with using(weights):
            return [probability(score(pair.child, pair.parent).total) for pair in half.pairs]

    return scores


def ours_decided(taught: Half) -> Callable[[Half], Scores]:
    """Match weights, and the rules that decide among all candidates of a document: 1 where a link is made."""
    weights = parse(learn(taught.tenants))

    def scores(half: Half) -> Scores:
        found = []
        with using(weights):
            for pairs in half.by_tenant:
                documents = {one.id: one for pair in pairs for one in (pair.child, pair.parent)}
                linked = {frozenset((link.child, link.parent)) for link in Whole(list(documents.values())).links()}
                found += [float(frozenset((pair.child.id, pair.parent.id)) in linked) for pair in pairs]
        return found

    return scores


def number_only(_: Half) -> Callable[[Half], Scores]:
    """The number that the child names is the parent's, but for prefixes, separators and leading zeros."""

    def scores(half: Half) -> Scores:
        return [
            float(
                pair.parent.number is not None
                and any(named.exact & pair.parent.number.exact for named in pair.child.named.get(pair.parent.kind, ()))
            )
            for pair in half.pairs
        ]

    return scores


def tf_idf(_: Half) -> Callable[[Half], Scores]:
    """Cosine of all words of both documents, by TF-IDF of the archive that they are in."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    def scores(half: Half) -> Scores:
        told = {id_of(found.id): whole_text(found.data) for found in half.labelled.documents}
        rows = {id_: row for row, id_ in enumerate(told)}
        vectors = TfidfVectorizer(token_pattern=r"\S+").fit_transform(told.values())
        children = vectors[[rows[pair.child.id] for pair in half.pairs]]
        parents = vectors[[rows[pair.parent.id] for pair in half.pairs]]
        return [float(cosine) for cosine in np.asarray(children.multiply(parents).sum(axis=1)).ravel()]

    return scores


def splink(_: Half) -> Callable[[Half], Scores]:
    """Fellegi and Sunter's model, estimated on the scored pairs by expectation maximisation, without labels."""
    from tests.benchmarks.matching import with_splink

    return with_splink.estimated


def splink_labelled(taught: Half) -> Callable[[Half], Scores]:
    """The same model with m and u counted in labels."""
    from tests.benchmarks.matching import with_splink

    estimates = with_splink.counted(taught)
    return lambda half: with_splink.scores(half, estimates)


def dedupe(taught: Half) -> Callable[[Half], Scores]:
    """The distances and the classifier of dedupe, trained with labels."""
    from tests.benchmarks.matching import with_dedupe

    return with_dedupe.trained(taught)


PEERS: dict[str, Peer] = {
    "ours, as decided": ours_decided,
    "ours, pair by pair": ours,
    "Splink 5, labelled": splink_labelled,
    "Splink 5, EM": splink,
    "dedupe 3": dedupe,
    "TF-IDF": tf_idf,
    "number only": number_only,
}


def main(arguments: Sequence[str]) -> int:
    """Print what one peer makes of two sets; returns MISSING where its library is not installed."""
    name, *folders = arguments
    taught, asked = (read_half(Path(folder)) for folder in folders)
    began = time.perf_counter()
    try:
        scores = PEERS[name](taught)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error.name}\n")
        return MISSING
    learned = time.perf_counter()
    own = scores(taught)
    half_way = time.perf_counter()
    result = {
        "taught": {"scores": own, "truth": taught.truth},
        "asked": {"scores": scores(asked), "truth": asked.truth},
        "seconds_to_learn": learned - began,
        "seconds_to_score": time.perf_counter() - half_way,
        "peak_megabytes": peak_megabytes(),
    }
    sys.stdout.write(json.dumps(result))
    return 0


def peak_megabytes() -> float:
    """Most memory that this process has held at once."""
    status = Path("/proc/self/status")
    if status.is_file() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="ascii"))):
        return int(found[1]) / 1024  # ru_maxrss would begin with what the parent process held
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
