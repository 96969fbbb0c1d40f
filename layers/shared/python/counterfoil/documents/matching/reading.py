"""Reads rows for decisions from PostgreSQL: each row once, in shared queries.

A decision is a `Plan`: a generator that yields a `Fetch` before it uses the rows. `run` executes one plan and reads
each row when the plan needs it. `BatchReader.run_all` executes several plans in step, with one query for all fetches of
a step. Documents, the keys that lead to them and their edges are read in one round trip. Documents are cached between
calls. `Context` holds the rows that one decision reads. docs/matching.md has a diagram.

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
from counterfoil.documents.matching.judge import JudgeAnswer, JudgePrompt
from counterfoil.documents.matching.keys import PARENT_KINDS, Key
from counterfoil.documents.matching.normalize import Document, document
from counterfoil.documents.matching.rules import ManualDecisions
from counterfoil.documents.matching.sql import HOLDERS, Edge, Edges, KeyLookup, Pair

_CACHE_CHARACTERS = 12_000_000
"""Size of the cache in characters of structured data: about 48 MB, or 20,000 orders of three line items."""
MAX_CACHED_DOCUMENTS = 50
"""Maximum number of holders that are read with their contents. Of more holders, a decision uses only a few.

Counted holders are always read without contents.
"""
MAX_CACHED_BYTES = 4_000
"""Maximum stored size in bytes of contents that are read with holders.

Larger contents are read separately, unless they are cached.
"""

# `version` is a hash of all of a document's data.
_CONTENT = """
SELECT document.id, type, received_at, structured_data, text_hash, model, signature,
       hashtextextended(
           type || extract(epoch FROM received_at) || coalesce(model || signature::text || text_hash::text, ''),
           jsonb_hash_extended(structured_data, 0)) AS version
FROM document LEFT JOIN document_embedding ON document_id = document.id
WHERE type = ANY(%(kinds)s) AND structured_data IS NOT NULL
"""

# Structured data of cached versions is not read again.
_CONTENTS = f"""
SELECT d.id, d.version, d.type, d.received_at,
       CASE WHEN d.version IS DISTINCT FROM cached.version THEN d.structured_data::text END,
       d.text_hash, d.model, d.signature
FROM unnest(%(ids)s::uuid[], %(versions)s::bigint[]) AS cached (id, version)
CROSS JOIN LATERAL ({_CONTENT} AND document.id = cached.id OFFSET 0) AS d  -- so that the hash is computed once
"""  # noqa: S608  # built from constants

_HOLDERS = f"""
SELECT holder.id, holder.numbers, d.version, d.type, d.received_at, d.structured_data::text,
       d.text_hash, d.model, d.signature
FROM (
    SELECT document_id AS id, array_agg(n) AS numbers, NOT bool_and(counted) AS is_wanted,
           sum(CASE WHEN bool_and(counted) THEN 0 ELSE 1 END) OVER () AS count
    FROM ({HOLDERS}) AS holder GROUP BY document_id
) AS holder
LEFT JOIN LATERAL (
    {_CONTENT} AND document.id = holder.id AND holder.is_wanted AND holder.count <= %(most)s
        AND pg_column_size(structured_data) <= %(longest)s
    OFFSET 0
) AS d ON true
ORDER BY holder.id
"""  # noqa: S608  # built from constants
_KINDS = list(PARENT_KINDS)


class CacheResult(NamedTuple):
    """Result of one round trip."""

    holders: Sequence[Mapping[Key, list[UUID]]]
    """Holders by key for each lookup. Keys without holders are missing."""
    documents: Mapping[UUID, Document]
    """Requested documents that exist and have a matched kind, and holders that were read with contents."""
    edges: Edges


class _CachedDocument(NamedTuple):
    """A cached document with the hash of its data."""

    version: int
    document: Document
    size: int
    """Length of its structured data in characters."""


class DocumentCache:
    """Cache of documents in canonical form.

    Consecutive documents mostly have the same neighbors.

    Outdated documents are detected by the hash of their data.
    """

    def __init__(self, size: int = _CACHE_CHARACTERS) -> None:
        """Create a cache for documents of `size` characters in total."""
        self._room = size
        self._entries: OrderedDict[UUID, _CachedDocument] = OrderedDict()
        self._lock = Lock()

    def load(self, connection: Connection, ids: Collection[UUID]) -> Mapping[UUID, Document]:
        """Return the documents with these ids that exist and have a matched kind."""
        return self.read(connection, (), ids, ()).documents

    def read(
        self,
        connection: Connection,
        lookups: Sequence[KeyLookup],
        ids: Collection[UUID],
        edges_of: Collection[UUID],
    ) -> CacheResult:
        """Read holders of keys, documents by id, and edges of documents."""
        cached = self._cached(ids)
        bounds = {"kinds": _KINDS, "most": MAX_CACHED_DOCUMENTS, "longest": MAX_CACHED_BYTES}
        parameters = {
            "ids": list(cached),
            "versions": [entry and entry.version for entry in cached.values()],
            "kinds": _KINDS,
        }
        with connection.pipeline() if len(lookups) + bool(ids) + bool(edges_of) > 1 else nullcontext():
            cursors = [connection.execute(_HOLDERS, bounds | lookup.parameters) for lookup in lookups]
            contents = connection.execute(_CONTENTS, parameters) if ids else None
            edge_cursor = sql.select_edges(connection, edges_of) if edges_of else None
        documents = self._documents_of(contents.fetchall() if contents else (), cached)
        holders = []
        for lookup, cursor in zip(lookups, cursors, strict=True):
            rows = cursor.fetchall()
            holders.append(lookup.by_key((id_, numbers) for id_, numbers, *_ in rows))
            document_rows = [(id_, *content) for id_, _, *content in rows if content[0] is not None]
            documents |= self._documents_of(document_rows, self._cached([row[0] for row in document_rows]))
        return CacheResult(holders, documents, sql.parse_edges(edge_cursor.fetchall() if edge_cursor else ()))

    def _cached(self, ids: Iterable[UUID]) -> dict[UUID, _CachedDocument | None]:
        with self._lock:
            return {id_: self._entries.get(id_) for id_ in ids}

    def _documents_of(
        self, rows: Iterable[tuple[Any, ...]], cached: Mapping[UUID, _CachedDocument | None]
    ) -> dict[UUID, Document]:
        """Return the documents in rows, and cache them.

        A cached document with the same version is reused.
        """
        entries: dict[UUID, _CachedDocument] = {}
        for id_, version, kind, received_at, data, *embedding in rows:
            entry = cached[id_]
            if entry is None or entry.version != version:
                parsed = document(id_, received_at, kind, json.loads(data), sql.embedding(embedding))
                entry = _CachedDocument(version, parsed, len(data))
            entries[id_] = entry
        self._store(entries)
        return {id_: entry.document for id_, entry in entries.items()}

    def _store(self, entries: Mapping[UUID, _CachedDocument]) -> None:
        """Cache documents, and evict the least recently used documents."""
        with self._lock:
            for id_, entry in entries.items():
                if previous := self._entries.pop(id_, None):
                    self._room += previous.size
                self._entries[id_] = entry
                self._room -= entry.size
            while self._room < 0:
                _, oldest = self._entries.popitem(last=False)
                self._room += oldest.size


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fetch:
    """Rows that a decision needs next."""

    holders: Mapping[Key, int] = field(default_factory=dict)
    """Keys whose holders are needed, each with the maximum number of holders."""
    kind: str | None = None
    """Document type of the holders; None for any."""
    count_only: Collection[Key] = ()
    """Keys whose holders are only counted."""
    documents: Collection[UUID] = ()
    edges: Collection[UUID] = ()
    """Documents whose edges and reviewers' decisions are needed."""


Plan = Generator[Fetch, None, T]
"""Decision in progress: yields each `Fetch`, is resumed when its rows have been read, and returns the result."""


def run(plan: Plan[T]) -> T:
    """Execute one plan. Rows are read when the plan uses them."""
    while True:
        try:
            next(plan)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class BatchReader:
    """Reads the rows of one tenant, each once, after a snapshot."""

    def __init__(self, connection: Connection, tenant_id: UUID, cache: DocumentCache) -> None:
        """Create a reader without rows."""
        self.connection = connection
        self._tenant_id = tenant_id
        self._cache = cache
        self._holders: dict[str | None, dict[Key, tuple[int, list[UUID]]]] = {}
        self._requested: set[UUID] = set()
        self._documents: dict[UUID, Document] = {}
        self._edges: dict[Pair, Edge] = {}
        self._rejected: set[Pair] = set()
        self._pairs: dict[UUID, set[Pair]] = {}

    def add_edges(self, ids: Collection[UUID], edges: Edges) -> None:
        """Add previously read edges of documents."""
        linked, rejected = edges
        self._edges |= linked
        self._rejected |= rejected
        self._pairs |= {id_: set() for id_ in ids}
        for pair in linked.keys() | rejected:
            for end in pair:
                if end in ids:
                    self._pairs[end].add(pair)

    def run_all(self, plans: Sequence[Plan[T]]) -> list[T]:
        """Execute plans in step, with one query for all fetches of a step."""
        results: dict[int, T] = {}
        while len(results) < len(plans):
            fetches = []
            for index, plan in enumerate(plans):
                if index not in results:
                    try:
                        fetches.append(next(plan))
                    except StopIteration as end:
                        results[index] = end.value
            self._fetch(fetches)
        return [results[index] for index in range(len(plans))]

    def holders(self, limits: Mapping[Key, int], kind: str | None = None) -> dict[Key, list[UUID]]:
        """Return the holders of each key up to its limit.

        Keys without holders are missing.
        """
        self._fetch([Fetch(limits, kind)])
        cached = self._holders.get(kind, {})
        return {key: ids[:limit] for key, limit in limits.items() if (ids := cached[key][1])}

    def read(self, ids: Collection[UUID], edges_of: Collection[UUID]) -> tuple[dict[UUID, Document], Edges]:
        """Return existing documents of matched kinds, and the edges of `edges_of`."""
        self._fetch([Fetch(documents=ids, edges=edges_of)])
        pairs = {pair for id_ in edges_of for pair in self._pairs[id_]}
        documents = {id_: document for id_ in ids if (document := self._documents.get(id_))}
        edges = {pair: edge for pair in pairs if (edge := self._edges.get(pair))}
        return documents, (edges, pairs & self._rejected)

    def _fetch(self, fetches: Iterable[Fetch]) -> None:
        """Read the missing rows in one round trip."""
        limits: dict[str | None, dict[Key, int]] = {}
        listed_keys: set[Key] = set()
        ids: set[UUID] = set()
        edges_of: set[UUID] = set()
        for fetch in fetches:
            cached = self._holders.setdefault(fetch.kind, {})
            for key, limit in fetch.holders.items():
                if key not in cached or cached[key][0] < limit:
                    merged = limits.setdefault(fetch.kind, {})
                    merged[key] = max(limit, merged.get(key, 0))
                    if key not in fetch.count_only:
                        listed_keys.add(key)
            ids.update(fetch.documents)
            edges_of.update(fetch.edges)
        ids -= self._requested
        edges_of -= self._pairs.keys()
        if limits or ids or edges_of:
            lookups = [
                KeyLookup(self._tenant_id, key_limits, kind, key_limits.keys() - listed_keys)
                for kind, key_limits in limits.items()
            ]
            result = self._cache.read(self.connection, lookups, ids, edges_of)
            for lookup, holders in zip(lookups, result.holders, strict=True):
                entries = {key: (limit, holders.get(key, [])) for key, limit in lookup.limits.items()}
                self._holders[lookup.kind].update(entries)
            self._requested |= ids | result.documents.keys()
            self._documents |= result.documents
            self.add_edges(edges_of, result.edges)


class Context:
    """Rows that a decision reads: documents by blocking key, and stored edges.

    `tracked_keys` and `edges_read` record the rows that were read, to check later whether they are still valid.
    """

    def __init__(self, reading: BatchReader) -> None:
        """Create a context without rows. Several contexts can share a reader."""
        self._reading = reading
        self._holders: dict[Key, list[UUID]] = {}
        self._crowds: dict[Key, list[UUID]] = {}
        self._waiting: dict[Key, list[UUID]] = {}
        self._seek_keys: set[Key] = set()
        self._counts: dict[Key, int] = {}
        self._only_counted: set[Key] = set()
        self._documents: dict[UUID, Document] = {}
        self._requested: set[UUID] = set()
        self._edges: dict[UUID, dict[Pair, Edge]] = {}
        self._rejected: dict[UUID, set[UUID]] = {}
        self._own: tuple[UUID, frozenset[Key]] | None = None

    # -- reading ----------------------------------------------------------------------------------------------------

    def read_holders(
        self,
        keys: Iterable[Key] = (),
        waiting_keys: Iterable[Key] = (),
        edges_of: Collection[UUID] = (),
        count_only: Iterable[Key] = (),
    ) -> Plan[None]:
        """Read the holders of blocking keys. A key with too many holders is ignored.

        `waiting_keys` are keys of documents whose decisions may be affected. Also reads the edges of `edges_of`, as
        `read_edges` does. For `count_only` keys, only the number of holders is needed.
        """
        keys, count_only = set(keys), set(count_only)
        self._only_counted |= count_only - self._holders.keys()
        self._only_counted -= keys
        max_holders = sql.MAX_DOCUMENTS_PER_KEY + sql.FUZZY_MAX_DOCUMENTS_PER_KEY + 1
        missing = {key: max_holders for key in keys | count_only if key not in self._holders}
        missing_waiting = {key: sql.MAX_WAITING_DOCUMENTS for key in waiting_keys if key not in self._waiting}
        if not missing and not missing_waiting:
            yield from self.read_edges(edges_of)
            return
        limits = missing | {key: max(limit, missing.get(key, 0)) for key, limit in missing_waiting.items()}
        yield Fetch(limits, count_only=self._only_counted, edges=set(edges_of) - self._edges.keys())
        holders = self._reading.holders(limits)
        for key in missing:
            ids = self._replace_own(key, holders.get(key, []))
            self._holders[key] = ids if len(ids) <= sql.MAX_DOCUMENTS_PER_KEY else []
            self._crowds[key] = ids if sql.MAX_DOCUMENTS_PER_KEY < len(ids) < max_holders else []
            self._counts[key] = len(ids)
        self._waiting |= {key: holders.get(key, [])[:limit] for key, limit in missing_waiting.items()}
        yield from self.read_edges(edges_of)

    def _replace_own(self, key: Key, ids: list[UUID]) -> list[UUID]:
        """Return the holders of a key, updated with the added document's current keys."""
        if self._own is None:
            return ids
        id_, keys = self._own
        return [other for other in ids if other != id_] + [id_] * (key in keys)

    def read_seekers(self, keys: Iterable[Key], kind: str, prefetch: Collection[UUID] = ()) -> Plan[set[UUID]]:
        """Return the documents of a kind with these `seeks` keys.

        Also prefetches the edges of the `prefetch` documents.
        """
        limits = dict.fromkeys(keys, sql.MAX_WAITING_DOCUMENTS)
        if not limits:
            return set()
        yield Fetch(limits, kind, edges=set(prefetch))
        holders = self._reading.holders(limits, kind)
        self._seek_keys |= limits.keys()
        return {id_ for ids in holders.values() for id_ in ids}

    def load(self, ids: Iterable[UUID]) -> Plan[None]:
        """Read documents."""
        yield from self.read(ids, ())

    def read_edges(self, ids: Iterable[UUID]) -> Plan[None]:
        """Read the stored edges of documents, and reviewers' decisions about them."""
        yield from self.read((), ids)

    def read(self, ids: Iterable[UUID], edges_of: Iterable[UUID]) -> Plan[None]:
        """Read documents, and the edges of `edges_of` as `read_edges` does."""
        missing, missing_edges = set(ids) - self._requested, set(edges_of) - self._edges.keys()
        if not missing and not missing_edges:
            return
        yield Fetch(documents=missing, edges=missing_edges)
        self._requested |= missing
        documents, (edges, rejected) = self._reading.read(missing, missing_edges)
        self._documents |= documents
        # A document's edges are stored as first read, even if a later read from the other end differs.
        self._edges |= {id_: {} for id_ in missing_edges}
        for pair, edge in edges.items():
            for end in missing_edges.intersection(pair):
                self._edges[end][pair] = edge
        for pair in rejected:
            for end, other in ((pair.a, pair.b), (pair.b, pair.a)):
                if end in missing_edges:
                    self._rejected.setdefault(end, set()).add(other)
        reviewed_pairs = (pair for pair, edge in edges.items() if edge.by == "reviewer" or edge.is_manual)
        yield from self.load({end for pair in reviewed_pairs for end in pair})

    def add(self, document: Document) -> None:
        """Add a previously read document, with its current keys."""
        self._own = document.id, keyed.keys(document)
        self._requested.add(document.id)
        self._documents[document.id] = document

    # -- rows that were read ----------------------------------------------------------------------------------------

    @property
    def tracked_keys(self) -> Collection[Key]:
        """The keys whose holders the decision depends on, including newly crowded keys."""
        counted = {key for key in self._only_counted if not self._crowds[key]}
        return (self._holders.keys() - counted) | self._waiting.keys() | self._seek_keys

    @property
    def remaining_capacity(self) -> Mapping[Key, int]:
        """Number of holders that each counted key can gain before it is crowded.

        Keys that are already crowded are not included, because more holders do not change them.
        """
        return {
            key: sql.MAX_DOCUMENTS_PER_KEY - count
            for key in self._only_counted
            if (count := self._counts[key]) <= sql.MAX_DOCUMENTS_PER_KEY
        }

    @property
    def edges_read(self) -> Mapping[UUID, Mapping[Pair, Edge]]:
        """The edges of every document whose edges were read, as of that read."""
        return self._edges

    def holders(self, keys: Iterable[Key]) -> set[UUID]:
        """Return the holders of keys that were read. Crowded keys have none."""
        return {id_ for key in keys for id_ in self._holders[key]}

    def waiting_holders(self, keys: Iterable[Key]) -> set[UUID]:
        """Return the holders of keys that were read as `waiting_keys`."""
        return {id_ for key in keys for id_ in self._waiting[key]}

    def newly_crowded_holders(self, keys: Iterable[Key]) -> set[UUID]:
        """Return the holders of keys that have just become crowded."""
        return {id_ for key in keys for id_ in self._crowds[key]}

    def document(self, id_: UUID) -> Document | None:
        """Return a loaded document, or None if it does not exist or has no matched kind."""
        return self._documents.get(id_)

    def documents(self, ids: Iterable[UUID], exclude: UUID | None = None) -> list[Document]:
        """Return the loaded documents with these ids, sorted by id."""
        return [document for id_ in sorted(ids) if id_ != exclude and (document := self._documents.get(id_))]

    def edges(self, id_: UUID) -> list[Edge]:
        """Return the stored edges of a document. They must have been read."""
        return [edge for _, edge in sorted(self._edges[id_].items())]

    def decided_by(self, child: UUID) -> list[Edge]:
        """Return the stored edges made by decisions about a child.

        Reviewers' decisions are included.
        """
        return [edge for edge in self.edges(child) if edge.child == child]

    def manual_decisions(self, id_: UUID) -> ManualDecisions:
        """Return reviewers' decisions about a document. Its edges must have been read."""
        ends = {end for edge in self.edges(id_) if edge.is_manual for end in edge.pair}
        return ManualDecisions(tuple(self.documents(ends, exclude=id_)), frozenset(self._rejected.get(id_, ())))

    def references(self, child: UUID, parent: UUID) -> bool:
        """Return True if a child names the parent's number. Both must have been loaded."""
        child_document, parent_document = self._documents.get(child), self._documents.get(parent)
        return (
            child_document is not None
            and parent_document is not None
            and rules.references(child_document, parent_document)
        )

    # -- input of decisions -----------------------------------------------------------------------------------------

    def referenced_documents(self, child: Document) -> list[Document]:
        """Return the documents with a number that the child names."""
        return self.documents(self.holders(keyed.referenced_numbers(child)), exclude=child.id)

    def duplicates(self, document: Document) -> list[Document]:
        """Return possible duplicates."""
        return self.documents(self.holders(keyed.duplicate_keys(document)), exclude=document.id)

    def similar(self, child: Document, kinds: tuple[str, ...]) -> list[Document]:
        """Return the candidates of `kinds` that share a key with the child."""
        candidates = self.documents(self.holders(keyed.transaction_keys(child, kinds)), exclude=child.id)
        return [other for other in candidates if rules.is_candidate_kind(child, other)]

    def claims(self, document: Document) -> list[Document]:
        """Return documents that name this document's number, except rejected ones."""
        ids = self.holders(keyed.expected_number_keys(document)) - self.manual_decisions(document.id).rejected
        return self.documents(ids, exclude=document.id)

    def candidates(self, child: Document, ids: Collection[UUID], kind: str) -> Plan[list[Document]]:
        """Read documents, and return those of `kind` that the child may be linked to."""
        yield from self.read(ids, [child.id])
        rejected = self.manual_decisions(child.id).rejected
        return [
            other for other in self.documents(ids, exclude=child.id) if other.kind == kind and other.id not in rejected
        ]

    def read_siblings(self, documents: Collection[Document]) -> Plan[set[UUID]]:
        """Read the documents that name the same order as one of these, and their edges.

        Return their ids.
        """
        keys = {key for document in documents for key in keyed.shared_order_keys(document)}
        yield from self.read_holders(keys)
        ids = self.holders(keys)
        yield from self.read(ids, ids)
        return ids

    def read_inputs(self, children: Collection[Document]) -> Plan[None]:
        """Read all rows for the decisions of these children."""
        keys = {key for child in children for key in keyed.referenced_numbers(child) | keyed.duplicate_keys(child)}
        yield from self.read_holders(keys)
        ids = self.holders(keys) | {child.id for child in children}
        yield from self.read(ids, ids)
        kinds = {child: self.open_kinds(child) for child in children}
        keys = {key for child in children for key in keyed.transaction_keys(child, kinds[child])}
        yield from self.read_holders(keys)
        yield from self.load(self.holders(keys))
        similar = {child: self.similar(child, kinds[child]) for child in children}
        scored = {other for child in children for other in rules.candidates_to_score(child, similar[child])}
        keys = {key for other in scored for key in keyed.expected_number_keys(other)}
        yield from self.read_holders(keys, edges_of={other.id for documents in similar.values() for other in documents})
        yield from self.load(self.holders(keys))

    def search_keys(self, child: Document) -> frozenset[Key]:
        """Return the keys by which possible parents find a child.

        `read_inputs` must have run.
        """
        return frozenset() if self.is_duplicate(child) else keyed.search_keys(child, self.open_kinds(child))

    def open_kinds(self, child: Document) -> tuple[str, ...]:
        """Return the kinds of parent that require a search by content."""
        return rules.open_candidates(
            child, self.referenced_documents(child), self.is_duplicate, self.manual_decisions(child.id)
        )

    def decide(self, child: Document) -> rules.RuleDecision:
        """Return the rules' decision about a child's matches.

        `read_inputs` must have read its rows.
        """
        similar = self.similar(child, self.open_kinds(child))
        decisions = self.manual_decisions(child.id)
        claims = {other.id: self.claims(other) for other in rules.candidates_to_score(child, similar)}
        return rules.decide_matches(
            child,
            self.referenced_documents(child),
            similar,
            self.duplicates(child),
            claims,
            self.is_duplicate,
            decisions,
        )

    def judge_prompts(
        self, choices: Mapping[UUID, rules.RuleDecision]
    ) -> tuple[dict[UUID, JudgePrompt], dict[UUID, JudgeAnswer]]:
        """Return the questions for the LLM judge, and its stored judgments.

        The questions are about ambiguous matches. A child with a reviewer's decision has no question.
        """
        ambiguous_choices = {
            id_: choice
            for id_, choice in choices.items()
            if judge.ambiguous_matches(choice) and not any(edge.is_manual for edge in self.decided_by(id_))
        }
        if not ambiguous_choices:
            return {}, {}
        ids = {
            link.parent
            for choice in ambiguous_choices.values()
            for ambiguous_match in judge.ambiguous_matches(choice)
            for link in ambiguous_match.candidates
        }
        contents = sql.contents(self._reading.connection, ids | ambiguous_choices.keys())
        cases = {
            id_: judge.build_prompt(id_, choice, contents)
            for id_, choice in ambiguous_choices.items()
            if contents.keys()
            >= {
                id_,
                *(
                    link.parent
                    for ambiguous_match in judge.ambiguous_matches(choice)
                    for link in ambiguous_match.candidates
                ),
            }
        }
        answers = judge.find_answers(self._reading.connection, {id_: case.question for id_, case in cases.items()})
        return cases, {id_: JudgeAnswer.model_validate(answer) for id_, answer in answers.items()}

    def is_duplicate(self, document: Document) -> bool:
        """Return True if a document is a duplicate.

        Use stored edges if possible duplicates were not read.
        """
        if document.kind not in keyed.DUPLICABLE_KINDS:
            return False
        keys = keyed.duplicate_keys(document)
        if keys <= self._holders.keys():
            return (
                rules.find_original(document, self.duplicates(document), self.manual_decisions(document.id)) is not None
            )
        return self.was_duplicate(document)

    def was_duplicate(self, document: Document) -> bool:
        """Return True if the document is a duplicate by its stored edges."""
        if any(edge.by == "copy" for edge in self.decided_by(document.id)):
            return True
        ends = {end for edge in self.edges(document.id) if edge.by == "reviewer" for end in edge.pair}
        return rules.find_original(document, self.documents(ends, exclude=document.id)) is not None
