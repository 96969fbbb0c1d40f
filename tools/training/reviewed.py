"""Pairs that people decided about, as labels to learn from.

Of all other pairs of these documents nobody knows whether they are true, so nothing is learned from those. People
decide what was in doubt: that says much about which doubts are right, and little about how often candidates are
partners at all.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from cli.local.cloud import Cloud
from cli.local.tenants import list_tenants
from counterfoil.db import Connection
from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching import sql
from counterfoil.documents.matching.normalise import KINDS, Document, document
from counterfoil.documents.matching.rules import ends, is_parent
from counterfoil.documents.matching.score import parse
from counterfoil.documents.matching.sql import Lookup
from counterfoil.errors import PermanentError
from tools.training.candidates import Group, Pair, Tenant
from tools.training.learning import LEAST, LEAST_OF_AN_ANSWER, asked, counted, taught


class TooFewDecisionsError(PermanentError):
    """People have not decided enough to learn from."""


class Reviewed(Tenant):
    """Of one tenant, the pairs that people decided about."""

    def __init__(
        self,
        name: str,
        documents: Collection[Document],
        decided: Mapping[frozenset[UUID], bool],
        claims: Mapping[UUID, Collection[UUID]],
    ) -> None:
        """`decided` says of pairs whether they belong together; those of kinds that never do are left out.

        `claims` says of a document which others name it: what they leave of it is evidence, as it is when matching
        decides. Those of which people said that they do not belong to it are no claims.
        """
        super().__init__(name, (), ())
        known = {one.id: one for one in documents}
        found = [
            (*ends(*(known[id_] for id_ in sorted(pair))), true)
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
            for child, parent, true in found
            if is_parent(child, parent)
        )

    def pairs(self) -> Iterator[Pair]:
        """Those that people decided about."""
        yield from self.decided

    def groups(self) -> Iterator[Group]:
        """The candidates of one kind that people decided about for one child."""
        found: dict[tuple[UUID, str], list[Pair]] = defaultdict(list)
        for pair in self.decided:
            found[pair.child.id, pair.parent.kind].append(pair)
        for pairs in found.values():
            true = frozenset(pair.parent.id for pair in pairs if pair.true)
            claims = {pair.parent.id: pair.claims for pair in pairs}
            yield Group(pairs[0].child, tuple(pair.parent for pair in pairs), true, claims)


def enough(known: Mapping[str, Any], tenants: Sequence[Reviewed]) -> int:
    """How many pairs people decided about, if they teach anything to these weights.

    Raises:
        TooFewDecisionsError: for no calibration there are enough. All candidates of a document that are of one kind are
            one question: to reject fifty of one document teaches as little as to reject one.
    """
    questions = asked(parse(known), tenants)
    if not taught(questions):
        by_number, by_content = (
            "{} confirmed and {} rejected".format(*counted(one for one in questions if one.named is named))
            for named in (True, False)
        )
        message = (
            f"People have decided about too few documents to learn from: {by_number} of those that name a number, "
            f"{by_content} of others. It takes {LEAST} of one sort, {LEAST_OF_AN_ANSWER} of each verdict among them; "
            "all candidates of a document count as one. Decide more with counterfoil review."
        )
        raise TooFewDecisionsError(message)
    return sum(len(tenant.decided) for tenant in tenants)


# The last decision about a pair is what stands.
_DECIDED = """
SELECT DISTINCT ON (document_a_id, document_b_id) document_a_id, document_b_id, verdict = 'confirmed'
FROM match_decision ORDER BY document_a_id, document_b_id, id DESC
"""
_DOCUMENTS = """
SELECT id, received_at, type, structured_data FROM document
WHERE id = ANY(%(ids)s) AND type = ANY(%(kinds)s) AND structured_data IS NOT NULL
"""


def reviewed(cloud: Cloud) -> list[Reviewed]:
    """Every tenant of which people decided about pairs."""
    found = []
    for tenant in list_tenants(cloud):
        with cloud.database.tenant(tenant.id) as connection:
            one = read_decided(connection, tenant.id, tenant.slug)
        if one.decided:
            found.append(one)
    return found


def read_decided(connection: Connection, tenant_id: UUID, name: str) -> Reviewed:
    """The decisions of the transaction's tenant."""
    decided = {frozenset((a, b)): true for a, b, true in connection.execute(_DECIDED)}
    known = _read(connection, {id_ for pair in decided for id_ in pair})
    keys = {one.id: keyed.waiting(one) for one in known}
    most = sql.MAX_HOLDERS
    wanted = dict.fromkeys(frozenset().union(*keys.values()), most + 1)
    holders = sql.holders(connection, Lookup(tenant_id, wanted))
    found = {key: ids for key, ids in holders.items() if len(ids) <= most}
    claims = {id_: {other for key in led for other in found.get(key, ())} - {id_} for id_, led in keys.items()}
    there = {one.id for one in known}
    known += _read(connection, {id_ for ids in claims.values() for id_ in ids} - there)
    return Reviewed(name, known, decided, claims)


def _read(connection: Connection, ids: Collection[UUID]) -> list[Document]:
    rows = connection.execute(_DOCUMENTS, {"ids": list(ids), "kinds": list(KINDS)})
    return [document(*row) for row in rows]
