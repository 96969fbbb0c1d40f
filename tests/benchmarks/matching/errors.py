"""List false and missed links with their evidence."""

from collections.abc import Iterable, Iterator, Mapping
from csv import writer
from dataclasses import dataclass
from pathlib import Path

from counterfoil.documents.matching.evidence import evidence_steps
from counterfoil.documents.matching.keys import PARENT_KINDS
from counterfoil.documents.matching.normalize import KINDS, Document, document
from counterfoil.documents.matching.rules import arrival_order_key
from counterfoil.documents.matching.score import match_probabilities, score
from tools.evaluation.agreement import Edge
from tools.evaluation.command import MatchingResult, document_ids
from tools.evaluation.labeled_set import LabeledDocument, LabeledSet

HEADER = (
    "set", "learned_from", "error", "child", "child_type", "parent", "parent_type", "rule", "probability", "bits",
    "waterfall", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    """A false or missed link."""

    error: str
    """`false` or `missed`."""
    child: str
    child_type: str
    parent: str
    parent_type: str
    rule: str
    """Rule that made a false link. Empty for a missed link."""
    probability: float | None
    """Match probability. Stored for a false link; for a missed link, computed as if there were one candidate."""
    bits: float | None
    waterfall: str
    """Features with levels and bits. Empty for a missed link between document types that cannot match."""
    reason: str
    """Reason why the child has no match or needs review."""


def mistakes(labeled: LabeledSet, matched: MatchingResult) -> Iterator[Mistake]:
    """Yield every false link, then every missed link.

    Missed links are scored with the current weights.
    """
    assert labeled.edges is not None
    known = {found.id: found for found in labeled.documents}
    ids = document_ids(labeled.documents)
    names = {str(id_): name for name, id_ in ids.items()}
    read = {
        name: document(ids[name], found.received_at, found.type, found.data)
        for name, found in known.items()
        if found.type in KINDS
    }
    for edge in sorted(matched.edges.keys() - labeled.edges, key=sorted):
        yield _false_link(edge, known, names, matched)
    for edge in sorted(labeled.edges - matched.edges.keys(), key=sorted):
        yield _missed_link(edge, known, read, names, matched)


def _false_link(
    edge: Edge, known: Mapping[str, LabeledDocument], names: Mapping[str, str], matched: MatchingResult
) -> Mistake:
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


def _missed_link(
    edge: Edge,
    known: Mapping[str, LabeledDocument],
    read: Mapping[str, Document],
    names: Mapping[str, str],
    matched: MatchingResult,
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
        match_probabilities([found])[0] if found else None,
        found.total if found else None,
        _waterfall(found.evidence) if found else "",
        matched.reasons.get(one, ""),
    )


def child_first(a: Document, b: Document) -> tuple[Document, Document]:
    """Return child and parent.

    If both documents are of the same kind, the later one is the child.
    """
    if a.kind == b.kind:
        first, second = sorted((a, b), key=arrival_order_key)
        return second, first
    return (a, b) if b.kind in PARENT_KINDS[a.kind] else (b, a)


def _waterfall(features: Iterable[tuple[str, str, float]]) -> str:
    return "; ".join(f"{step.label}: {step.text} {step.bits:+.2f}" for step in evidence_steps(features))


def write_mistakes(path: Path, found: Iterable[tuple[str, str, Mistake]]) -> int:
    """Write a CSV row per mistake, with its set and the origin of the weights.

    Return the row count.
    """
    count = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = writer(file, lineterminator="\n")
        rows.writerow(HEADER)
        for name, learned_from, m in found:
            probability, bits = (None if number is None else round(number, 4) for number in (m.probability, m.bits))
            documents = (m.child, m.child_type, m.parent, m.parent_type)
            rows.writerow((name, learned_from, m.error, *documents, m.rule, probability, bits, m.waterfall, m.reason))
            count += 1
    return count
