"""Three-way match of a cluster: its variances and its status.

`find_variances` is pure: the same documents, links and tolerances give the same result, in any order. `cluster` selects
the documents that count, `alignment` pairs line items for the same item, and `ledger` collects the quantities of each
item. `checks` finds variances within or beyond `tolerances`, and the documents that resolve them. `decisions` applies
reviewers' decisions and suggests tolerances from them. `summary` describes a cluster for lists, and `model` defines the
types.
"""

from counterfoil.documents.three_way_match.checks import find_variances
from counterfoil.documents.three_way_match.decisions import VarianceDecision
from counterfoil.documents.three_way_match.model import (
    ClusterStatus,
    Document,
    Result,
    Summary,
    ThreeWayMatchStatus,
    Variance,
    VarianceCode,
    read_document,
)
from counterfoil.documents.three_way_match.tolerances import Key, Limits, Tolerance, Tolerances

__all__ = [
    "ClusterStatus",
    "Document",
    "Key",
    "Limits",
    "Result",
    "Summary",
    "ThreeWayMatchStatus",
    "Tolerance",
    "Tolerances",
    "Variance",
    "VarianceCode",
    "VarianceDecision",
    "find_variances",
    "read_document",
]
