"""Reads what decisions need from PostgreSQL: each row once, and for several decisions together.

A decision is a `Plan`: a generator that yields a `Fetch` before it looks at the rows. `run` executes one plan and
reads each row when the plan needs it. `Reading.run_all` executes several plans in step, with one query for all fetches
of a step. Documents are read in one round trip with the keys that lead to them and their edges, and cached between
calls. `Context` is the part of a tenant that one decision looks at. docs/matching.md has a diagram.

Each statement runs in a transaction of one tenant (`Database.tenant`).
"""

import json
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents.matching import judge, rules, sql
from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching.judge import Case, Verdict
from counterfoil.documents.matching.keys import PARENTS, Key
from counterfoil.documents.matching.normalise import Document, document
from counterfoil.documents.matching.rules import Said
from counterfoil.documents.matching.sql import HOLDERS, Edge, Edges, Lookup, Pair

_KEPT = 12_000_000
"""Characters of structured data, each of which takes some 4 bytes in canonical forms: 20,000 orders of three lines."""
MOST_WITH_CONTENTS = 50
"""Documents that a look at keys may find and still bring what they say: of more, few are looked at. Those that are only
counted bring nothing."""
LONGEST_WITH_CONTENTS = 4_000
"""Bytes, as stored, of what comes along so. What is longer is asked for, and does not come where it is known."""

# With a hash of all that a document in canonical forms is made from.
_CONTENT = """
SELECT document.id, type, received_at, structured_data, text_hash, model, signature,
       hashtextextended(
           type || extract(epoch FROM received_at) || coalesce(model || signature::text || text_hash::text, ''),
           jsonb_hash_extended(structured_data, 0)) AS version
FROM document LEFT JOIN document_embedding ON document_id = document.id
WHERE type = ANY(%(kinds)s) AND structured_data IS NOT NULL
"""

# Of a version that is known, what it says does not come again.
_CONTENTS = f"""
SELECT d.id, d.version, d.type, d.received_at,
       CASE WHEN d.version IS DISTINCT FROM known.version THEN d.structured_data::text END,
       d.text_hash, d.model, d.signature
FROM unnest(%(ids)s::uuid[], %(versions)s::bigint[]) AS known (id, version)
CROSS JOIN LATERAL ({_CONTENT} AND document.id = known.id OFFSET 0) AS d  -- so that the hash is computed once
"""  # noqa: S608  # of constants

_HOLDERS = f"""
SELECT held.id, held.numbers, d.version, d.type, d.received_at, d.structured_data::text,
       d.text_hash, d.model, d.signature
FROM (
    SELECT document_id AS id, array_agg(n) AS numbers, NOT bool_and(counted) AS is_wanted,
           sum(CASE WHEN bool_and(counted) THEN 0 ELSE 1 END) OVER () AS count
    FROM ({HOLDERS}) AS held GROUP BY document_id
) AS held
LEFT JOIN LATERAL (
    {_CONTENT} AND document.id = held.id AND held.is_wanted AND held.count <= %(most)s
        AND pg_column_size(structured_data) <= %(longest)s
    OFFSET 0
) AS d ON true
ORDER BY held.id
"""  # noqa: S608  # of constants
_KINDS = list(PARENTS)


class Found(NamedTuple):
    """What was read at once."""

    holders: Sequence[Mapping[Key, list[UUID]]]
    """Of each lookup, by key. Keys that nobody holds are left out."""
    documents: Mapping[UUID, Document]
    """Those asked for that are there and of a kind that is matched, and most of the holders."""
    edges: Edges


class _Kept(NamedTuple):
    """A document, and the hash of all that it is made from."""

    version: int
    document: Document
    size: int
    """Characters of its structured data."""


class Documents:
    """Documents in canonical forms, kept between calls: a document's neighbours are much the same as the next one's.

    Each is kept with a hash of all that it is made from, so that new data are read anew.
    """

    def __init__(self, size: int = _KEPT) -> None:
        """Keep documents of so many characters at most."""
        self._room = size
        self._kept: OrderedDict[UUID, _Kept] = OrderedDict()
        self._lock = Lock()

    def load(self, connection: Connection, ids: Collection[UUID]) -> Mapping[UUID, Document]:
        """The documents of these ids that are there and of a kind that is matched."""
        return self.read(connection, (), ids, ()).documents

    def read(
        self,
        connection: Connection,
        lookups: Sequence[Lookup],
        ids: Collection[UUID],
        edges_of: Collection[UUID],
    ) -> Found:
        """Read who holds keys, documents by their ids, and the edges of documents."""
        known = self._known(ids)
        bounds = {"kinds": _KINDS, "most": MOST_WITH_CONTENTS, "longest": LONGEST_WITH_CONTENTS}
        asked = {"ids": list(known), "versions": [kept and kept.version for kept in known.values()], "kinds": _KINDS}
        with connection.pipeline() if len(lookups) + bool(ids) + bool(edges_of) > 1 else nullcontext():
            held = [connection.execute(_HOLDERS, bounds | lookup.parameters) for lookup in lookups]
            contents = connection.execute(_CONTENTS, asked) if ids else None
            linked = sql.select_edges(connection, edges_of) if edges_of else None
        found = self._taken(contents.fetchall() if contents else (), known)
        holders = []
        for lookup, cursor in zip(lookups, held, strict=True):
            rows = cursor.fetchall()
            holders.append(lookup.by_key((id_, numbers) for id_, numbers, *_ in rows))
            told = [(id_, *content) for id_, _, *content in rows if content[0] is not None]
            found |= self._taken(told, self._known([row[0] for row in told]))
        return Found(holders, found, sql.edges_from(linked.fetchall() if linked else ()))

    def _known(self, ids: Iterable[UUID]) -> dict[UUID, _Kept | None]:
        with self._lock:
            return {id_: self._kept.get(id_) for id_ in ids}

    def _taken(self, rows: Iterable[tuple[Any, ...]], known: Mapping[UUID, _Kept | None]) -> dict[UUID, Document]:
        """The documents of rows: as they are known, where they are the same version; else read. They are kept."""
        taken: dict[UUID, _Kept] = {}
        for id_, version, kind, received_at, data, *embedding in rows:
            kept = known[id_]
            if kept is None or kept.version != version:
                found = document(id_, received_at, kind, json.loads(data), sql.embedding(embedding))
                kept = _Kept(version, found, len(data))
            taken[id_] = kept
        self._keep(taken)
        return {id_: kept.document for id_, kept in taken.items()}

    def _keep(self, read: Mapping[UUID, _Kept]) -> None:
        """Keep documents, and let go of those that were read longest ago."""
        with self._lock:
            for id_, kept in read.items():
                if before := self._kept.pop(id_, None):
                    self._room += before.size
                self._kept[id_] = kept
                self._room -= kept.size
            while self._room < 0:
                _, oldest = self._kept.popitem(last=False)
                self._room += oldest.size


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fetch:
    """Rows that a decision looks at next."""

    holders: Mapping[Key, int] = field(default_factory=dict)
    """Keys whose holders it looks at, with the maximum number per key."""
    kind: str | None = None
    """Document type of the holders; None: any."""
    counted: Collection[Key] = ()
    """Keys whose holders it only counts."""
    documents: Collection[UUID] = ()
    edges: Collection[UUID] = ()
    """Documents whose edges and reviewers' decisions it looks at."""


Plan = Generator[Fetch, None, T]
"""Decision in progress: yields what to fetch, is resumed when it was read, and returns the result."""


def run(plan: Plan[T]) -> T:
    """Execute one plan. Each row is read when the plan looks at it."""
    while True:
        try:
            next(plan)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Reading:
    """Rows of one tenant, each read once after a snapshot and kept."""

    def __init__(self, connection: Connection, tenant_id: UUID, cache: Documents) -> None:
        """Begin with nothing."""
        self.connection = connection
        self._tenant_id = tenant_id
        self._cache = cache
        self._holders: dict[str | None, dict[Key, tuple[int, list[UUID]]]] = {}
        self._asked: set[UUID] = set()
        self._documents: dict[UUID, Document] = {}
        self._edges: dict[Pair, Edge] = {}
        self._rejected: set[Pair] = set()
        self._pairs: dict[UUID, set[Pair]] = {}

    def know(self, ids: Collection[UUID], edges: Edges) -> None:
        """Take in the edges of documents, which have been read already."""
        found, rejected = edges
        self._edges |= found
        self._rejected |= rejected
        self._pairs |= {id_: set() for id_ in ids}
        for pair in found.keys() | rejected:
            for end in pair:
                if end in ids:
                    self._pairs[end].add(pair)

    def run_all(self, plans: Sequence[Plan[T]]) -> list[T]:
        """Execute plans in step, with one query for all fetches of a step."""
        ended: dict[int, T] = {}
        while len(ended) < len(plans):
            fetches = []
            for number, plan in enumerate(plans):
                if number not in ended:
                    try:
                        fetches.append(next(plan))
                    except StopIteration as end:
                        ended[number] = end.value
            self._fetch(fetches)
        return [ended[number] for number in range(len(plans))]

    def holders(self, limits: Mapping[Key, int], kind: str | None = None) -> dict[Key, list[UUID]]:
        """The documents that hold each key, at most as many as its limit; keys that nobody holds are left out."""
        self._fetch([Fetch(limits, kind)])
        known = self._holders.get(kind, {})
        return {key: ids[:limit] for key, limit in limits.items() if (ids := known[key][1])}

    def read(self, ids: Collection[UUID], edges_of: Collection[UUID]) -> tuple[dict[UUID, Document], Edges]:
        """Those of these documents that are there and of a kind that is matched, and the edges of some."""
        self._fetch([Fetch(documents=ids, edges=edges_of)])
        pairs = {pair for id_ in edges_of for pair in self._pairs[id_]}
        documents = {id_: found for id_ in ids if (found := self._documents.get(id_))}
        edges = {pair: edge for pair in pairs if (edge := self._edges.get(pair))}
        return documents, (edges, pairs & self._rejected)

    def _fetch(self, fetches: Iterable[Fetch]) -> None:
        """Read what is not known yet of all that is wanted, in one round trip."""
        limits: dict[str | None, dict[Key, int]] = {}
        looked_at: set[Key] = set()
        ids: set[UUID] = set()
        edges_of: set[UUID] = set()
        for fetch in fetches:
            known = self._holders.setdefault(fetch.kind, {})
            for key, limit in fetch.holders.items():
                if key not in known or known[key][0] < limit:
                    merged = limits.setdefault(fetch.kind, {})
                    merged[key] = max(limit, merged.get(key, 0))
                    if key not in fetch.counted:
                        looked_at.add(key)
            ids.update(fetch.documents)
            edges_of.update(fetch.edges)
        ids -= self._asked
        edges_of -= self._pairs.keys()
        if limits or ids or edges_of:
            lookups = [
                Lookup(self._tenant_id, wanted, kind, wanted.keys() - looked_at) for kind, wanted in limits.items()
            ]
            found = self._cache.read(self.connection, lookups, ids, edges_of)
            for lookup, held in zip(lookups, found.holders, strict=True):
                read = {key: (limit, held.get(key, [])) for key, limit in lookup.limits.items()}
                self._holders[lookup.kind].update(read)
            self._asked |= ids | found.documents.keys()
            self._documents |= found.documents
            self.know(edges_of, found.edges)


class Context:
    """Documents by the keys that lead to them, their contents, and their stored edges.

    What was read is remembered (`followed`, `edges_read`), so that it can be asked later whether it still holds.
    """

    def __init__(self, reading: Reading) -> None:
        """Begin with nothing. What is looked at comes from `reading`, which others may read from, too."""
        self._reading = reading
        self._holders: dict[Key, list[UUID]] = {}
        self._crowds: dict[Key, list[UUID]] = {}
        self._waiting: dict[Key, list[UUID]] = {}
        self._looked_at: set[Key] = set()
        self._counts: dict[Key, int] = {}
        self._only_counted: set[Key] = set()
        self._documents: dict[UUID, Document] = {}
        self._asked: set[UUID] = set()
        self._edges: dict[UUID, dict[Pair, Edge]] = {}
        self._rejected: dict[UUID, set[UUID]] = {}
        self._own: tuple[UUID, frozenset[Key]] | None = None

    # -- reading ----------------------------------------------------------------------------------------------------

    def follow(
        self,
        wanted: Iterable[Key] = (),
        back: Iterable[Key] = (),
        edges_of: Collection[UUID] = (),
        counted: Iterable[Key] = (),
    ) -> Plan[None]:
        """Find the candidates that keys lead a decision to. A key with too many holders leads to nobody.

        And the holders of keys that lead `back` to decisions which a document may be part of; and, beside that, the
        edges of some as `read_edges` does. Of keys that are `counted` it only matters whether they lead to nobody.
        """
        wanted, counted = set(wanted), set(counted)
        self._only_counted |= counted - self._holders.keys()
        self._only_counted -= wanted
        most = sql.MAX_HOLDERS + sql.NEAR_MAX_HOLDERS + 1
        missing = {key: most for key in wanted | counted if key not in self._holders}
        missing_back = {key: sql.MAX_WAITING for key in back if key not in self._waiting}
        if not missing and not missing_back:
            yield from self.read_edges(edges_of)
            return
        limits = missing | {key: max(limit, missing.get(key, 0)) for key, limit in missing_back.items()}
        yield Fetch(limits, counted=self._only_counted, edges=set(edges_of) - self._edges.keys())
        found = self._reading.holders(limits)
        for key in missing:
            ids = self._with_own(key, found.get(key, []))
            self._holders[key] = ids if len(ids) <= sql.MAX_HOLDERS else []
            self._crowds[key] = ids if sql.MAX_HOLDERS < len(ids) < most else []
            self._counts[key] = len(ids)
        self._waiting |= {key: found.get(key, [])[:limit] for key, limit in missing_back.items()}
        yield from self.read_edges(edges_of)

    def _with_own(self, key: Key, ids: list[UUID]) -> list[UUID]:
        """Who holds a key, the document among them that is taken in: as it states it now, whatever is stored."""
        if self._own is None:
            return ids
        id_, keys = self._own
        return [other for other in ids if other != id_] + [id_] * (key in keys)

    def seekers(self, wanted: Iterable[Key], kind: str, ahead: Collection[UUID] = ()) -> Plan[set[UUID]]:
        """The documents of a kind that `seeks` keys lead to. The edges of some are read `ahead`."""
        limits = dict.fromkeys(wanted, sql.MAX_WAITING)
        if not limits:
            return set()
        yield Fetch(limits, kind, edges=set(ahead))
        found = self._reading.holders(limits, kind)
        self._looked_at |= limits.keys()
        return {id_ for ids in found.values() for id_ in ids}

    def load(self, ids: Iterable[UUID]) -> Plan[None]:
        """Read documents."""
        yield from self.read(ids, ())

    def read_edges(self, ids: Iterable[UUID]) -> Plan[None]:
        """Read the stored edges of documents, and what people decided about them."""
        yield from self.read((), ids)

    def read(self, ids: Iterable[UUID], edges_of: Iterable[UUID]) -> Plan[None]:
        """Read documents, and the edges of some as `read_edges` does."""
        missing, missing_edges = set(ids) - self._asked, set(edges_of) - self._edges.keys()
        if not missing and not missing_edges:
            return
        yield Fetch(documents=missing, edges=missing_edges)
        self._asked |= missing
        documents, (found, rejected) = self._reading.read(missing, missing_edges)
        self._documents |= documents
        # Each document's are as they were when its own were read, though another one's, read later, say otherwise.
        self._edges |= {id_: {} for id_ in missing_edges}
        for pair, edge in found.items():
            for end in missing_edges.intersection(pair):
                self._edges[end][pair] = edge
        for pair in rejected:
            for end, other in ((pair.a, pair.b), (pair.b, pair.a)):
                if end in missing_edges:
                    self._rejected.setdefault(end, set()).add(other)
        people = (pair for pair, edge in found.items() if edge.by == "person" or edge.by_person)
        yield from self.load({end for pair in people for end in pair})

    def add(self, document: Document) -> None:
        """Take in a document that has been read already, and found by what it says now."""
        self._own = document.id, keyed.keys(document)
        self._asked.add(document.id)
        self._documents[document.id] = document

    # -- what was read ----------------------------------------------------------------------------------------------

    @property
    def followed(self) -> Collection[Key]:
        """Every key of which it matters who holds it, or that leads to nobody since a moment ago."""
        counted = {key for key in self._only_counted if not self._crowds[key]}
        return (self._holders.keys() - counted) | self._waiting.keys() | self._looked_at

    @property
    def room(self) -> Mapping[Key, int]:
        """Of keys whose holders were only counted: how many more there can be before a key leads to nobody.

        One that leads to nobody for long is not among them: that does not change by more of them.
        """
        return {
            key: sql.MAX_HOLDERS - count
            for key in self._only_counted
            if (count := self._counts[key]) <= sql.MAX_HOLDERS
        }

    @property
    def edges_read(self) -> Mapping[UUID, Mapping[Pair, Edge]]:
        """The edges of every document whose edges were looked at, as they were then."""
        return self._edges

    def holders(self, wanted: Iterable[Key]) -> set[UUID]:
        """The candidates that these keys lead to, which have been followed."""
        return {id_ for key in wanted for id_ in self._holders[key]}

    def waiting(self, wanted: Iterable[Key]) -> set[UUID]:
        """Whose decisions these keys lead to, which have been followed back."""
        return {id_ for key in wanted for id_ in self._waiting[key]}

    def crowd(self, wanted: Iterable[Key]) -> set[UUID]:
        """Who holds any of these keys that has come to lead to nobody just now."""
        return {id_ for key in wanted for id_ in self._crowds[key]}

    def document(self, id_: UUID) -> Document | None:
        """A document that has been loaded; None where there is none, or none of a kind that is matched."""
        return self._documents.get(id_)

    def documents(self, ids: Iterable[UUID], but: UUID | None = None) -> list[Document]:
        """Those of these documents that have been loaded, in the order of their ids."""
        return [found for id_ in sorted(ids) if id_ != but and (found := self._documents.get(id_))]

    def edges(self, id_: UUID) -> list[Edge]:
        """The stored edges of a document whose edges have been read."""
        return [edge for _, edge in sorted(self._edges[id_].items())]

    def decided_by(self, child: UUID) -> list[Edge]:
        """The stored edges that are a child's decision, or a person's about it."""
        return [edge for edge in self.edges(child) if edge.child == child]

    def said(self, id_: UUID) -> Said:
        """What people said about a document whose edges have been read."""
        ends = {end for edge in self.edges(id_) if edge.by_person for end in edge.pair}
        return Said(tuple(self.documents(ends, but=id_)), frozenset(self._rejected.get(id_, ())))

    def names(self, child: UUID, parent: UUID) -> bool:
        """Whether a child names its parent's number; both have been loaded."""
        one, other = self._documents.get(child), self._documents.get(parent)
        return one is not None and other is not None and rules.names(one, other)

    # -- what a decision needs --------------------------------------------------------------------------------------

    def named(self, child: Document) -> list[Document]:
        """The documents that bear a number which the child names."""
        return self.documents(self.holders(keyed.numbers_named(child)), but=child.id)

    def copies(self, document: Document) -> list[Document]:
        """The documents that may be this one again."""
        return self.documents(self.holders(keyed.copies(document)), but=document.id)

    def similar(self, child: Document, kinds: tuple[str, ...]) -> list[Document]:
        """The documents of `kinds` between the same parties that the child may belong to."""
        found = self.documents(self.holders(keyed.deals(child, kinds)), but=child.id)
        return [other for other in found if rules.considers(child, other)]

    def claims(self, document: Document) -> list[Document]:
        """The documents that name this one's number, but for those that people said do not belong to it."""
        ids = self.holders(keyed.waiting(document)) - self.said(document.id).rejected
        return self.documents(ids, but=document.id)

    def candidates(self, child: Document, ids: Collection[UUID], kind: str) -> Plan[list[Document]]:
        """Those of these documents that are of a kind and may follow from a child's links; they are read."""
        yield from self.read(ids, [child.id])
        rejected = self.said(child.id).rejected
        return [other for other in self.documents(ids, but=child.id) if other.kind == kind and other.id not in rejected]

    def fellows(self, documents: Collection[Document]) -> Plan[set[UUID]]:
        """The documents that name an order which one of these names; they and their edges are read."""
        wanted = {key for document in documents for key in keyed.fellows(document)}
        yield from self.follow(wanted)
        found = self.holders(wanted)
        yield from self.read(found, found)
        return found

    def surround(self, children: Collection[Document]) -> Plan[None]:
        """Read all that the decisions of these children need."""
        wanted = {key for child in children for key in keyed.numbers_named(child) | keyed.copies(child)}
        yield from self.follow(wanted)
        found = self.holders(wanted) | {child.id for child in children}
        yield from self.read(found, found)
        kinds = {child: self.undecided(child) for child in children}
        wanted = {key for child in children for key in keyed.deals(child, kinds[child])}
        yield from self.follow(wanted)
        yield from self.load(self.holders(wanted))
        similar = {child: self.similar(child, kinds[child]) for child in children}
        weighed = {other for child in children for other in rules.weighed(child, similar[child])}
        wanted = {key for other in weighed for key in keyed.waiting(other)}
        yield from self.follow(wanted, edges_of={other.id for alike in similar.values() for other in alike})
        yield from self.load(self.holders(wanted))

    def seeking(self, child: Document) -> frozenset[Key]:
        """Where a surrounded child is found by the documents among which it looks for a parent."""
        return frozenset() if self.is_copy(child) else keyed.seeks(child, self.undecided(child))

    def undecided(self, child: Document) -> tuple[str, ...]:
        """The kinds of parent that have to be looked for without a number."""
        return rules.undecided(child, self.named(child), self.is_copy, self.said(child.id))

    def choose(self, child: Document) -> rules.Choice:
        """A surrounded child's decision."""
        similar = self.similar(child, self.undecided(child))
        said = self.said(child.id)
        claims = {other.id: self.claims(other) for other in rules.weighed(child, similar)}
        return rules.choose(child, self.named(child), similar, self.copies(child), claims, self.is_copy, said)

    def cases(self, choices: Mapping[UUID, rules.Choice]) -> tuple[dict[UUID, Case], dict[UUID, Verdict]]:
        """What a language model can be asked about decisions, and what it has answered already.

        Where a person has decided about a child, nobody else is asked.
        """
        asked = {
            id_: choice
            for id_, choice in choices.items()
            if judge.doubts(choice) and not any(edge.by_person for edge in self.decided_by(id_))
        }
        if not asked:
            return {}, {}
        ids = {link.parent for choice in asked.values() for doubt in judge.doubts(choice) for link in doubt.candidates}
        contents = sql.contents(self._reading.connection, ids | asked.keys())
        cases = {
            id_: judge.case(id_, choice, contents)
            for id_, choice in asked.items()
            if contents.keys() >= {id_, *(link.parent for doubt in judge.doubts(choice) for link in doubt.candidates)}
        }
        kept = judge.answers(self._reading.connection, {id_: case.question for id_, case in cases.items()})
        return cases, {id_: Verdict.model_validate(answer) for id_, answer in kept.items()}

    def is_copy(self, document: Document) -> bool:
        """Whether a document is an earlier one again: computed where its surroundings were read, else as stored."""
        if document.kind not in keyed.COPIED:
            return False
        wanted = keyed.copies(document)
        if wanted <= self._holders.keys():
            return rules.original(document, self.copies(document), self.said(document.id)) is not None
        return self.was_copy(document)

    def was_copy(self, document: Document) -> bool:
        """Whether a document is stored as an earlier one again."""
        if any(edge.by == "copy" for edge in self.decided_by(document.id)):
            return True
        ends = {end for edge in self.edges(document.id) if edge.by == "person" for end in edge.pair}
        return rules.original(document, self.documents(ends, but=document.id)) is not None
