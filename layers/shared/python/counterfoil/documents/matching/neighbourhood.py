"""The part of a tenant that a decision looks at, piece by piece as it is asked for."""

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from counterfoil.documents.matching import judge, judgements, key_rows, rules, store
from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching.judge import Case, Verdict
from counterfoil.documents.matching.keys import Key
from counterfoil.documents.matching.profile import Document
from counterfoil.documents.matching.reading import Reading, Steps, Want
from counterfoil.documents.matching.rules import Said
from counterfoil.documents.matching.store import Edge, Pair


class Neighbourhood:
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
    ) -> Steps[None]:
        """Find the candidates that keys lead a decision to. A key with too many holders leads to nobody.

        And the holders of keys that lead `back` to decisions which a document may be part of; and, beside that, the
        edges of some as `read_edges` does. Of keys that are `counted` it only matters whether they lead to nobody.
        """
        wanted, counted = set(wanted), set(counted)
        self._only_counted |= counted - self._holders.keys()
        self._only_counted -= wanted
        most = key_rows.MAX_HOLDERS + key_rows.NEAR_MAX_HOLDERS + 1
        missing = {key: most for key in wanted | counted if key not in self._holders}
        missing_back = {key: key_rows.MAX_WAITING for key in back if key not in self._waiting}
        if not missing and not missing_back:
            yield from self.read_edges(edges_of)
            return
        limits = missing | {key: max(limit, missing.get(key, 0)) for key, limit in missing_back.items()}
        yield Want(limits, counted=self._only_counted, edges_of=set(edges_of) - self._edges.keys())
        found = self._reading.holders(limits)
        for key in missing:
            ids = self._with_own(key, found.get(key, []))
            self._holders[key] = ids if len(ids) <= key_rows.MAX_HOLDERS else []
            self._crowds[key] = ids if key_rows.MAX_HOLDERS < len(ids) < most else []
            self._counts[key] = len(ids)
        self._waiting |= {key: found.get(key, [])[:limit] for key, limit in missing_back.items()}
        yield from self.read_edges(edges_of)

    def _with_own(self, key: Key, ids: list[UUID]) -> list[UUID]:
        """Who holds a key, the document among them that is taken in: as it states it now, whatever is stored."""
        if self._own is None:
            return ids
        id_, keys = self._own
        return [other for other in ids if other != id_] + [id_] * (key in keys)

    def seekers(self, wanted: Iterable[Key], kind: str, ahead: Collection[UUID] = ()) -> Steps[set[UUID]]:
        """The documents of a kind that `seeks` keys lead to. The edges of some are read `ahead`."""
        limits = dict.fromkeys(wanted, key_rows.MAX_WAITING)
        if not limits:
            return set()
        yield Want(limits, kind, edges_of=set(ahead))
        found = self._reading.holders(limits, kind)
        self._looked_at |= limits.keys()
        return {id_ for ids in found.values() for id_ in ids}

    def load(self, ids: Iterable[UUID]) -> Steps[None]:
        """Read documents."""
        yield from self.read(ids, ())

    def read_edges(self, ids: Iterable[UUID]) -> Steps[None]:
        """Read the stored edges of documents, and what people decided about them."""
        yield from self.read((), ids)

    def read(self, ids: Iterable[UUID], edges_of: Iterable[UUID]) -> Steps[None]:
        """Read documents, and the edges of some as `read_edges` does."""
        missing, missing_edges = set(ids) - self._asked, set(edges_of) - self._edges.keys()
        if not missing and not missing_edges:
            return
        yield Want(ids=missing, edges_of=missing_edges)
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
            key: key_rows.MAX_HOLDERS - count
            for key in self._only_counted
            if (count := self._counts[key]) <= key_rows.MAX_HOLDERS
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

    def candidates(self, child: Document, ids: Collection[UUID], kind: str) -> Steps[list[Document]]:
        """Those of these documents that are of a kind and may follow from a child's links; they are read."""
        yield from self.read(ids, [child.id])
        rejected = self.said(child.id).rejected
        return [other for other in self.documents(ids, but=child.id) if other.kind == kind and other.id not in rejected]

    def fellows(self, documents: Collection[Document]) -> Steps[set[UUID]]:
        """The documents that name an order which one of these names; they and their edges are read."""
        wanted = {key for document in documents for key in keyed.fellows(document)}
        yield from self.follow(wanted)
        found = self.holders(wanted)
        yield from self.read(found, found)
        return found

    def surround(self, children: Collection[Document]) -> Steps[None]:
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
        contents = store.contents(self._reading.connection, ids | asked.keys())
        cases = {
            id_: judge.case(id_, choice, contents)
            for id_, choice in asked.items()
            if contents.keys() >= {id_, *(link.parent for doubt in judge.doubts(choice) for link in doubt.candidates)}
        }
        kept = judgements.answers(self._reading.connection, {id_: case.question for id_, case in cases.items()})
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
