"""Finds a tenant's matching documents.

docs/matching.md explains the design and proves its properties. `search_and_decide` reads a document, finds its
candidates by blocking keys, scores each pair and decides, without a lock. `write` stores keys, edges and clusters in
the caller's transaction, under the tenant's matching lock. `search` and `write_batch` do the same in one transaction
without a judge, for one document or for several at once.

The edges are a function of the tenant's documents, reviewers' decisions and stored model answers. They do not depend on
the order of arrival.
"""

from counterfoil.documents.matching.judge import Embedder, Judge
from counterfoil.documents.matching.manual_decisions import (
    DepartingDocument,
    ManualDecisionResult,
    are_matchable,
    best_pair,
    cluster_ids_by_document,
    cluster_members,
    decide_pairs,
    finish_departure,
    list_pairs,
    load_departing,
    withdraw,
)
from counterfoil.documents.matching.matcher import (
    BatchMatchResult,
    MatchResult,
    PendingMatch,
    SkipMatching,
    search,
    search_and_decide,
    write,
    write_batch,
)
from counterfoil.documents.matching.sql import Decision, Pair, Verdict, lock_tenant_blocking, record_key_deletion

__all__ = [
    "BatchMatchResult",
    "Decision",
    "DepartingDocument",
    "Embedder",
    "Judge",
    "ManualDecisionResult",
    "MatchResult",
    "Pair",
    "PendingMatch",
    "SkipMatching",
    "Verdict",
    "are_matchable",
    "best_pair",
    "cluster_ids_by_document",
    "cluster_members",
    "decide_pairs",
    "finish_departure",
    "list_pairs",
    "load_departing",
    "lock_tenant_blocking",
    "record_key_deletion",
    "search",
    "search_and_decide",
    "withdraw",
    "write",
    "write_batch",
]
