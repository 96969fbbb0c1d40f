"""Three-way match: the variances between the documents of a cluster, and its status.

`examine` is pure: the same documents, links and tolerances give the same result, whatever their order. `case` says
which documents count, `alignment` which lines are about the same item, and `ledger` the quantities and amounts of each
item. `checks` finds variances and what settles them, within `tolerances`. `decisions` applies reviewers' decisions and
suggests tolerances from them. `summary` is the cluster in lists, and `model` has the types.
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
