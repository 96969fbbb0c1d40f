"""Variances in a labeled set, in a form that is comparable with the labels.

The product's code finds them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from uuid import UUID

from counterfoil.documents.structured import DocumentType
from counterfoil.documents.three_way_match import find_variances, read_document
from tools.evaluation.agreement import Edge, invoice_groups
from tools.evaluation.labeled_set import LabeledDocument

Finding = tuple[str, str]
"""A document's name, and the code of one of its variances."""

_UNCOMPARED_TYPES = {DocumentType.OTHER, DocumentType.CONTRACT}


def find(
    documents: Iterable[LabeledDocument],
    ids: Mapping[str, UUID],
    clusters: Mapping[str, str],
    edges: Iterable[Edge],
) -> dict[Finding, str]:
    """Return a message for each variance that exceeds the default tolerances.

    Messages are keyed by document and code. If a document has several such variances with the same code, the first
    message is returned.
    """
    documents_by_name = {
        document.id: read_document(ids[document.id], document.type, document.received_at, document.data)
        for document in documents
        if document.type != DocumentType.OTHER
    }
    names = {id_: name for name, id_ in ids.items()}
    edges_of: dict[str, set[Edge]] = defaultdict(set)
    for edge in edges:
        for end in edge:
            edges_of[clusters[end]].add(edge)
    members: dict[str, set[str]] = defaultdict(set)
    for name, cluster in clusters.items():
        members[cluster].add(name)
    messages: dict[Finding, str] = {}
    for cluster, names_in_cluster in members.items():
        if all(
            name not in documents_by_name or documents_by_name[name].type in _UNCOMPARED_TYPES
            for name in names_in_cluster
        ):
            continue
        names_in_reach = names_in_cluster.union(*edges_of[cluster])
        pairs = [(ids[a], ids[b]) for a, b in map(sorted, edges_of[cluster])]
        result = find_variances(
            [documents_by_name[name] for name in names_in_reach if name in documents_by_name], pairs
        )
        for variance in result.variances:
            if not variance.is_tolerated:
                messages.setdefault((names[variance.document.id], variance.code.value), variance.message)
    return messages


def countable(
    findings: Iterable[Finding], documents: Iterable[LabeledDocument], edges: Iterable[Edge]
) -> set[tuple[str, str, int]]:
    """Return comparable findings, in which duplicates of an invoice are equivalent.

    Which of the invoices counts as the duplicate is a convention (`agreement.invoice_groups`).
    """
    group_of = invoice_groups(documents, edges)
    counts = Counter((group_of.get(name, name), code) for name, code in findings)
    return {(*finding, number) for finding, count in counts.items() for number in range(count)}
