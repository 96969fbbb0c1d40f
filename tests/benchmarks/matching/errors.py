"""What matching got wrong, link by link, with what was said for and against each."""

from collections.abc import Iterable, Iterator, Mapping
from csv import writer
from dataclasses import dataclass
from pathlib import Path

from counterfoil.documents.matching.evidence import waterfall
from counterfoil.documents.matching.keys import PARENTS
from counterfoil.documents.matching.normalise import KINDS, Document, document
from counterfoil.documents.matching.rules import arrival
from counterfoil.documents.matching.score import chances, score
from tools.evaluation.agreement import Edge
from tools.evaluation.command import Matched, ids_of
from tools.evaluation.labeled_set import LabelledDocument, LabelledSet

HEADER = (
    "set", "learned_from", "error", "child", "child_type", "parent", "parent_type", "rule", "probability", "bits",
    "waterfall", "what_the_child_says",
)  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    """A link that is false, or one that was missed."""

    error: str
    """`false` or `missed`."""
    child: str
    child_type: str
    parent: str
    parent_type: str
    rule: str
    """Which rule made a false link; empty for one that was missed."""
    probability: float | None
    """As stored with a false link; of a missed one as if there were no other candidate."""
    bits: float | None
    waterfall: str
    """Each feature with its level and bits. Empty for documents that are not matched at all."""
    reason: str
    """Why the child found no partner, or is in doubt."""


def mistakes(labelled: LabelledSet, matched: Matched) -> Iterator[Mistake]:
    """Every false and every missed link, under the current weights."""
    assert labelled.edges is not None
    known = {found.id: found for found in labelled.documents}
    ids = ids_of(labelled.documents)
    names = {str(id_): name for name, id_ in ids.items()}
    read = {
        name: document(ids[name], found.received_at, found.type, found.data)
        for name, found in known.items()
        if found.type in KINDS
    }
    for edge in sorted(matched.edges.keys() - labelled.edges, key=sorted):
        yield _false(edge, known, names, matched)
    for edge in sorted(labelled.edges - matched.edges.keys(), key=sorted):
        yield _missed(edge, known, read, names, matched)


def _false(edge: Edge, known: Mapping[str, LabelledDocument], names: Mapping[str, str], matched: Matched) -> Mistake:
    evidence = matched.edges[edge]
    child = known[names[evidence["child"]]]
    (parent,) = (known[name] for name in edge if name != child.id)
    features = [(name, level, float(bits)) for name, level, bits in evidence["features"]]
    return Mistake(
        "false",
        child.id,
        child.type,
        parent.id,
        parent.type,
        str(evidence["by"]),
        float(evidence["probability"]),
        sum(bits for *_, bits in features),
        _waterfall(features),
        matched.reasons.get(child.id, ""),
    )


def _missed(
    edge: Edge,
    known: Mapping[str, LabelledDocument],
    read: Mapping[str, Document],
    names: Mapping[str, str],
    matched: Matched,
) -> Mistake:
    one, other = sorted(edge)
    found = None
    if edge <= read.keys():
        child, parent = child_first(read[one], read[other])
        one, other = names[str(child.id)], names[str(parent.id)]
        found = score(child, parent)
    return Mistake(
        "missed",
        one,
        known[one].type,
        other,
        known[other].type,
        "",
        chances([found])[0] if found else None,
        found.total if found else None,
        _waterfall(found.evidence) if found else "",
        matched.reasons.get(one, ""),
    )


def child_first(a: Document, b: Document) -> tuple[Document, Document]:
    """The one whose decision a link between the two would be, and the other; of two of a kind, the later."""
    if a.kind == b.kind:
        first, second = sorted((a, b), key=arrival)
        return second, first
    return (a, b) if b.kind in PARENTS[a.kind] else (b, a)


def _waterfall(features: Iterable[tuple[str, str, float]]) -> str:
    return "; ".join(f"{step.label}: {step.text} {step.bits:+.2f}" for step in waterfall(features))


def write_mistakes(path: Path, found: Iterable[tuple[str, str, Mistake]]) -> int:
    """Write a line for each, with its set and where its weights were learned. Returns how many there are."""
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = writer(file, lineterminator="\n")
        rows.writerow(HEADER)
        for name, learned_from, one in found:
            chance, bits = (None if number is None else round(number, 4) for number in (one.probability, one.bits))
            parties = (one.child, one.child_type, one.parent, one.parent_type)
            rows.writerow((name, learned_from, one.error, *parties, one.rule, chance, bits, one.waterfall, one.reason))
            count += 1
    return count
