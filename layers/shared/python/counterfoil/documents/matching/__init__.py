"""Finds which documents of a tenant belong together.

docs/matching.md has the design and its proof. `search_and_decide` reads a document, finds its candidates by blocking
keys, scores each pair and decides, without a lock. `write` stores keys, edges and clusters in the caller's transaction,
under the tenant's matching lock. `search` and `write_together` do the same in one transaction without a judge, for one
document or for several at once.

The edges are a function of the tenant's documents, of reviewers' decisions, and of the stored answers of models. They
do not depend on the order of arrival.
"""

from counterfoil.documents.matching.judge import Embedder, Judge
from counterfoil.documents.matching.matcher import (
    Decided,
    Skip,
    Written,
    WrittenTogether,
    search,
    search_and_decide,
    write,
    write_together,
)
from counterfoil.documents.matching.people import (
    Leaving,
    Settled,
    best_pair,
    clusters,
    leaving,
    left,
    matchable,
    members,
    pairs_of,
    settle,
    withdraw,
)
from counterfoil.documents.matching.sql import Decision, Pair, Verdict, note_loss, wait_for_lock

__all__ = [
    "Decided",
    "Decision",
    "Embedder",
    "Judge",
    "Leaving",
    "Pair",
    "Settled",
    "Skip",
    "Verdict",
    "Written",
    "WrittenTogether",
    "best_pair",
    "clusters",
    "leaving",
    "left",
    "matchable",
    "members",
    "note_loss",
    "pairs_of",
    "search",
    "search_and_decide",
    "settle",
    "wait_for_lock",
    "withdraw",
    "write",
    "write_together",
]
