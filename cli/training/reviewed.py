"""Pairs that people decided about, as labels to learn from.

Of all other pairs of these documents nobody knows whether they are true, so nothing is learned from those. People
decide what was in doubt: that says much about which doubts are right, and little about how often candidates are
partners at all.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from uuid import UUID

from cli.cloud.cloud import Cloud
from cli.tenants import list_tenants
from cli.training.candidates import Group, Pair, Tenant
from counterfoil.db import Connection
from counterfoil.documents.matching.profile import KINDS, Document, document
from counterfoil.documents.matching.rules import ends, is_parent
from counterfoil.errors import PermanentError

LEAST, LEAST_OF_A_VERDICT = 50, 10
"""Decided pairs that are learned from, and of those confirmed and rejected ones: fewer teach chance."""


class TooFewDecisionsError(PermanentError):
    """People have not decided enough to learn from."""


class Reviewed(Tenant):
    """Of one tenant, the pairs that people decided about."""

    def __init__(self, name: str, documents: Collection[Document], decided: Mapping[frozenset[UUID], bool]) -> None:
        """`decided` says of pairs whether they belong together; those of kinds that never do are left out."""
        super().__init__(name, (), ())
        known = {one.id: one for one in documents}
        found = [
            (*ends(*(known[id_] for id_ in sorted(pair))), true)
            for pair, true in decided.items()
            if pair <= known.keys()
        ]
        self.decided = tuple(Pair(child, parent, true) for child, parent, true in found if is_parent(child, parent))

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
            yield Group(pairs[0].child, tuple(pair.parent for pair in pairs), true, {})


def enough(tenants: Sequence[Reviewed]) -> int:
    """How many pairs people decided about.

    Raises:
        TooFewDecisionsError: too few to learn from.
    """
    confirmed = sum(pair.true for tenant in tenants for pair in tenant.decided)
    rejected = sum(not pair.true for tenant in tenants for pair in tenant.decided)
    if confirmed + rejected < LEAST or min(confirmed, rejected) < LEAST_OF_A_VERDICT:
        message = (
            f"People have decided about too few pairs to learn from: {confirmed} confirmed and {rejected} rejected. "
            f"It takes {LEAST}, {LEAST_OF_A_VERDICT} of each verdict among them: decide more with counterfoil review."
        )
        raise TooFewDecisionsError(message)
    return confirmed + rejected


# The last decision about a pair is what stands.
_DECIDED = "SELECT DISTINCT ON (a, b) a, b, verdict = 'confirmed' FROM match_decision ORDER BY a, b, id DESC"
_DOCUMENTS = """
SELECT id, received_at, type, structured_data FROM document
WHERE id = ANY(%(ids)s) AND type = ANY(%(kinds)s) AND structured_data IS NOT NULL
"""


def reviewed(cloud: Cloud) -> list[Reviewed]:
    """Every tenant of which people decided about pairs."""
    found = []
    for tenant in list_tenants(cloud):
        with cloud.database.tenant(tenant.id) as connection:
            one = read_decided(connection, tenant.slug)
        if one.decided:
            found.append(one)
    return found


def read_decided(connection: Connection, name: str) -> Reviewed:
    """The decisions of the transaction's tenant."""
    decided = {frozenset((a, b)): true for a, b, true in connection.execute(_DECIDED)}
    ids = {id_ for pair in decided for id_ in pair}
    rows = connection.execute(_DOCUMENTS, {"ids": list(ids), "kinds": list(KINDS)})
    return Reviewed(name, [document(*row) for row in rows], decided)
