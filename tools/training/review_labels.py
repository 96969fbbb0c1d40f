"""Reviewers' decisions as labels.

All other pairs of the reviewed documents are unlabeled, so nothing is learned from them. Reviewers decide ambiguous
matches. Their decisions show which ambiguous matches are correct, but not how often candidates match in general.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from cli.local.cloud import Cloud
from cli.local.tenants import list_tenants
from counterfoil.db import Connection
from counterfoil.documents.matching import keys as blocking_keys
from counterfoil.documents.matching import sql
from counterfoil.documents.matching.normalize import KINDS, Document
from counterfoil.documents.matching.normalize import document as normalize_document
from counterfoil.documents.matching.rules import is_parent, order_pair
from counterfoil.documents.matching.score import parse
from counterfoil.documents.matching.sql import KeyLookup
from counterfoil.errors import PermanentError
from tools.training.candidate_pairs import Group, Pair, Tenant
from tools.training.learning import MIN_CASES, MIN_CASES_PER_ANSWER, calibration_cases, count_answers, sufficient_cases


class TooFewDecisionsError(PermanentError):
    """There are too few reviewed documents to learn from."""


class ReviewedTenant(Tenant):
    """The reviewed pairs of one tenant."""

    def __init__(
        self,
        name: str,
        documents: Collection[Document],
        decided: Mapping[frozenset[UUID], bool],
        claims: Mapping[UUID, Collection[UUID]],
    ) -> None:
        """Index reviewed pairs.

        `decided` maps pairs to labels. Pairs of types that never match are skipped.

        `claims` maps a document to the documents that refer to it. As in matching, the quantities that remain after
        these documents are evidence. Claims that reviewers rejected are ignored.
        """
        super().__init__(name, (), ())
        known = {document.id: document for document in documents}
        pairs = [
            (*order_pair(*(known[id_] for id_ in sorted(pair))), true)
            for pair, true in decided.items()
            if pair <= known.keys()
        ]
        self.decided = tuple(
            Pair(
                child,
                parent,
                true,
                tuple(
                    known[id_]
                    for id_ in sorted(claims.get(parent.id, ()))
                    if id_ in known and decided.get(frozenset((id_, parent.id)), True)
                ),
            )
            for child, parent, true in pairs
            if is_parent(child, parent)
        )

    def pairs(self) -> Iterator[Pair]:
        """Yield the reviewed pairs."""
        yield from self.decided

    def groups(self) -> Iterator[Group]:
        """Yield the reviewed candidates of each child, grouped by document type."""
        by_child_and_type: dict[tuple[UUID, str], list[Pair]] = defaultdict(list)
        for pair in self.decided:
            by_child_and_type[pair.child.id, pair.parent.kind].append(pair)
        for pairs in by_child_and_type.values():
            true = frozenset(pair.parent.id for pair in pairs if pair.is_match)
            claims = {pair.parent.id: pair.claims for pair in pairs}
            yield Group(pairs[0].child, tuple(pair.parent for pair in pairs), true, claims)


def count_decided_pairs(known: Mapping[str, Any], tenants: Sequence[ReviewedTenant]) -> int:
    """Return the number of reviewed pairs, if they are enough to learn from.

    Raises:
        TooFewDecisionsError: no calibration has enough cases. All candidates for a document that have the same type
            count as one case, so fifty rejections for one document count once.
    """
    cases = calibration_cases(parse(known), tenants)
    if not sufficient_cases(cases):
        by_number, by_content = (
            "{} confirmed and {} rejected".format(*count_answers(case for case in cases if case.names_parent is named))
            for named in (True, False)
        )
        message = (
            f"There are too few reviewed documents to learn from: {by_number} with a reference number, {by_content} "
            f"without a reference number. At least one group requires {MIN_CASES}, including {MIN_CASES_PER_ANSWER} of "
            "each decision. All candidates for a document count as one. Review more with 'counterfoil review'."
        )
        raise TooFewDecisionsError(message)
    return sum(len(tenant.decided) for tenant in tenants)


# The latest decision about a pair applies.
_DECIDED = """
SELECT DISTINCT ON (document_a_id, document_b_id) document_a_id, document_b_id, decision = 'confirmed'
FROM match_decision ORDER BY document_a_id, document_b_id, id DESC
"""
_DOCUMENTS = """
SELECT id, received_at, type, structured_data FROM document
WHERE id = ANY(%(ids)s) AND type = ANY(%(kinds)s) AND structured_data IS NOT NULL
"""


def reviewed_tenants(cloud: Cloud) -> list[ReviewedTenant]:
    """Return all tenants with reviewed pairs."""
    reviewed = []
    for tenant in list_tenants(cloud):
        with cloud.database.tenant(tenant.id) as connection:
            reviewed_tenant = read_decided(connection, tenant.id, tenant.slug)
        if reviewed_tenant.decided:
            reviewed.append(reviewed_tenant)
    return reviewed


def read_decided(connection: Connection, tenant_id: UUID, name: str) -> ReviewedTenant:
    """Read the decisions of the transaction's tenant."""
    decided = {frozenset((a, b)): true for a, b, true in connection.execute(_DECIDED)}
    documents = _read(connection, {id_ for pair in decided for id_ in pair})
    keys = {document.id: blocking_keys.expected_number_keys(document) for document in documents}
    max_holders = sql.MAX_DOCUMENTS_PER_KEY
    limits = dict.fromkeys(frozenset().union(*keys.values()), max_holders + 1)
    holders = sql.documents_with_keys(connection, KeyLookup(tenant_id, limits))
    usable_holders = {key: ids for key, ids in holders.items() if len(ids) <= max_holders}
    claims = {
        id_: {other for key in number_keys for other in usable_holders.get(key, ())} - {id_}
        for id_, number_keys in keys.items()
    }
    read_ids = {document.id for document in documents}
    documents += _read(connection, {id_ for ids in claims.values() for id_ in ids} - read_ids)
    return ReviewedTenant(name, documents, decided, claims)


def _read(connection: Connection, ids: Collection[UUID]) -> list[Document]:
    rows = connection.execute(_DOCUMENTS, {"ids": list(ids), "kinds": list(KINDS)})
    return [normalize_document(*row) for row in rows]
