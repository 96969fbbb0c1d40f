"""Variances: what differs between the documents of a case, and what the case comes to.

`examine` is the whole of it, and pure: the same documents, links and tolerances give the same result, whatever their
order. `model` is what it reads and finds, `case` says which documents count and what each is held against, `alignment`
which lines are about the same (by `assignment`), `ledger` what each item comes to; `quantities`, `prices` and `totals`
are the checks, `credits` what settles them, `tolerances` the limits, `verdicts` what people said of differences and
`proposals` which limits follow from it, `charges` which lines nobody orders, `units` what can be converted for certain,
`summary` what lists show of a cluster,
`wording` how sentences name things.
"""

from counterfoil.documents.three_way_match.checks import examine
from counterfoil.documents.three_way_match.decisions import Verdict
from counterfoil.documents.three_way_match.model import (
    ClusterStatus,
    Code,
    Document,
    Outcome,
    Result,
    Summary,
    Variance,
    read_document,
)
from counterfoil.documents.three_way_match.tolerances import Key, Limits, Tolerance, Tolerances

__all__ = [
    "ClusterStatus",
    "Code",
    "Document",
    "Key",
    "Limits",
    "Outcome",
    "Result",
    "Summary",
    "Tolerance",
    "Tolerances",
    "Variance",
    "Verdict",
    "examine",
    "read_document",
]
