"""The keys by which documents find one another. Pure.

A key has a type and a value. Types say who wrote it and who looks it up, so that a lookup returns possible partners
only:

    own:KIND    a document of KIND bears this number; looked up by those that name it
    names:KIND  a document names this number of a KIND; looked up by a document of KIND, for those that waited for it
    deal:KIND   a document of KIND between these parties, about this article or of this bucket, in this quarter; looked
                up by those that may belong to it without a number
    seeks:KIND  a document between these parties, about this article or of this bucket, in this quarter, that no number
                led to the document of KIND that it belongs to; looked up by documents of KIND
    copy:KIND   what two copies of a document have alike; looked up by documents of KIND

All but `seeks` are what a document says. What it seeks is what its decision left open, and is written with that.

Numbers are keys in their folded forms (equal for what OCR confuses), with `~` before a mere tail. A deal is the pair of
the parties, by the end of the VAT id and by each of their names, or an article (`#`, and `'` before a word for those
who number none), or a bucket of what the document is about (`≈`, see `normalise`), and the quarter of the document's
date; a child looks at its own quarter and at those before it in which its parent may be dated, a parent at its own and
at those after it. Articles find what is misspelled in its number and in its parties, too; buckets find what is written
in another language or in other words.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from counterfoil.documents.matching.normalise import (
    CONFIRMATION,
    CONTRACT,
    CREDIT_NOTE,
    DELIVERY,
    INVOICE,
    ORDER,
    RECEIPT,
    Document,
    Party,
    Reference,
    vat_end,
)

PARENTS: dict[str, tuple[str, ...]] = {
    INVOICE: (ORDER, DELIVERY, CONTRACT),
    CREDIT_NOTE: (INVOICE,),
    ORDER: (CONTRACT,),
    CONFIRMATION: (ORDER,),
    DELIVERY: (ORDER,),
    RECEIPT: (ORDER, DELIVERY),
    CONTRACT: (),
}
"""Which kinds of document a document of a kind belongs to. The child's decision makes the link."""
COPIED = frozenset({INVOICE, ORDER})
"""Kinds of which one document can be another one again: a duplicate invoice, the change of an order."""
SOUGHT = frozenset({ORDER, INVOICE, CONTRACT})
"""Kinds of which a partner is looked for without its number. Deliveries are found through their order."""
SEEKS = "seeks:"
"""How the types begin whose keys a document has for what its decision left open."""
_QUARTER_DAYS = 91
_ARTICLES = 4
"""Of a document, those that it is found by."""
_WORD_LETTERS = 6
"""Shorter words say little about what is bought."""
_KEPT = 1_000
"""Documents whose keys are kept: a decision, and those beside it, ask for the same ones again and again."""
_QUARTERS_BACK = {ORDER: 2, INVOICE: 2, CONTRACT: 5}
"""How many quarters before a seeker its partner may be dated."""


class Key(NamedTuple):
    """A row of document_key."""

    type: str
    value: str


def keys(document: Document) -> frozenset[Key]:
    """The keys that a document is found by."""
    found = {Key(f"own:{document.kind}", value) for value in _numbers(document.number)}
    for kind, references in document.named.items():
        found |= {Key(f"names:{kind}", value) for named in references for value in _numbers(named)}
    if document.kind in SOUGHT:
        found |= _deals(document, f"deal:{document.kind}", 0, 0)
    found |= copies(document)
    return frozenset(found)


def seeks(document: Document, kinds: Iterable[str]) -> frozenset[Key]:
    """The keys by which parents of `kinds` find a document that no number led to one."""
    return frozenset(key for kind in kinds for key in _deals(document, f"{SEEKS}{kind}", 0, 0))


@lru_cache(maxsize=_KEPT)
def numbers_named(document: Document) -> frozenset[Key]:
    """Where the documents are found that this one names."""
    return frozenset(
        Key(f"own:{kind}", value)
        for kind in PARENTS[document.kind]
        for named in document.named.get(kind, ())
        for value in _numbers(named)
    )


@lru_cache(maxsize=_KEPT)
def copies(document: Document) -> frozenset[Key]:
    """Where other copies of this document are found."""
    return frozenset(Key(f"copy:{document.kind}", value) for value in _copies(document))


@lru_cache(maxsize=_KEPT)
def deals(document: Document, kinds: tuple[str, ...]) -> frozenset[Key]:
    """Where parents of `kinds` between the same parties are found, dated as a parent of this document can be."""
    return frozenset(key for kind in kinds for key in _deals(document, f"deal:{kind}", -_QUARTERS_BACK[kind], 0))


@lru_cache(maxsize=_KEPT)
def waiting(document: Document) -> frozenset[Key]:
    """Where the documents are found that name this one."""
    return frozenset(Key(f"names:{document.kind}", value) for value in _numbers(document.number))


def fellows(document: Document) -> frozenset[Key]:
    """Where the documents are found that name the same orders as this one."""
    return frozenset(Key(f"names:{ORDER}", value) for named in document.named.get(ORDER, ()) for value in named.folded)


def alike(document: Document) -> frozenset[Key]:
    """The keys that a document shares with others between the same parties, among which it is looked for."""
    return frozenset(key for key in keys(document) if key.type == f"deal:{document.kind}")


@lru_cache(maxsize=_KEPT)
def seekers(document: Document) -> frozenset[Key]:
    """Where the documents are found that may belong to this one without naming it."""
    if document.kind not in SOUGHT:
        return frozenset()
    return frozenset(_deals(document, f"{SEEKS}{document.kind}", 0, _QUARTERS_BACK[document.kind]))


def forsaken(key: Key) -> list[Key]:
    """Where the documents are found that a key led to its holder, who has it no more."""
    role, _, kind = key.type.partition(":")
    if role == "own":
        return [Key(f"names:{kind}", key.value)]
    if role == "names" and kind == ORDER:
        return [key]
    if role == "deal":
        parties, _, quarter = key.value.rpartition("|")
        return [Key(f"{SEEKS}{kind}", f"{parties}|{int(quarter) + later}") for later in range(_QUARTERS_BACK[kind] + 1)]
    return []


def claimed(key: Key) -> list[Key]:
    """Where the documents are found that a key's holder names."""
    role, _, kind = key.type.partition(":")
    return [Key(f"own:{kind}", key.value)] if role == "names" else []


def _deals(document: Document, type_: str, first: int, last: int) -> set[Key]:
    if document.day is None:
        return set()
    quarter = document.day // _QUARTER_DAYS
    about = [f"{seller}|{buyer}" for seller in _sides(document.seller) for buyer in _sides(document.buyer)]
    return {
        Key(type_, f"{what}|{quarter + offset}")
        for what in (*about, *_articles(document), *document.buckets)
        for offset in range(first, last + 1)
    }


def _articles(document: Document) -> list[str]:
    """A few of the articles that a document is about; of the same articles, every document takes the same ones.

    Where it states none by number, long words of its lines stand for them; a word that many have leads to nobody.
    """
    stated = {f"#{code}" for line in document.lines for code in (line.article, line.buyer_article) if code}
    if not stated:
        words = {word for line in document.lines for word in line.text.split()}
        stated = {f"'{word}" for word in words if len(word) >= _WORD_LETTERS and word.isalpha()}
    return sorted(stated, key=lambda code: crc32(code.encode()))[:_ARTICLES]


def _numbers(number: Reference | None) -> Iterator[str]:
    if number is not None:
        yield from number.folded
        if number.tail is not None:
            yield f"~{number.tail}"


def _sides(party: Party) -> Iterator[str]:
    if party.vat:
        yield vat_end(party.vat)
    if party.name:
        yield party.name.key
        yield from party.name.other_keys


def _copies(document: Document) -> Iterator[str]:
    """An order's number. An invoice's amount with its number, or with the order or delivery note that it is for."""
    if document.kind == ORDER and document.number is not None:
        yield from document.number.folded
    if document.kind == INVOICE and document.net is not None:
        numbers = [(INVOICE, document.number)] if document.number else []
        numbers += [(kind, named) for kind in (ORDER, DELIVERY) for named in document.named.get(kind, ())]
        yield from (f"{kind}|{form}|{document.net}" for kind, number in numbers for form in number.folded)
