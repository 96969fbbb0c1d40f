"""Blocking keys by which documents find candidates. Pure.

A key has a type and a value. The type states which documents have the key and which look it up, so that a lookup
returns only possible matches:

    own:KIND    own number of a document of KIND; looked up by documents that name it
    names:KIND  number of a document of KIND that this document names; looked up by a document of KIND, to find
                documents that wait for it
    deal:KIND   parties, article or bucket of a document of KIND, with its quarter; looked up by documents that may
                match it without naming its number
    seeks:KIND  parties, article or bucket, with the quarter, of a document that has no match by number with a document
                of KIND; looked up by documents of KIND
    copy:KIND   content that duplicates share; looked up by documents of KIND

Keys of all types except `seeks` depend only on the document. `seeks` keys depend on its decision and are written with
that decision.

Numbers become keys in their folded forms (equal despite OCR errors), with `~` before a tail. The value of a `deal` or
`seeks` key has one of three forms, followed by the quarter of the document's date:

    parties     the pair of parties, by the end of the VAT id and by each of their names
    article     `#` and the article number; `'` and a word if articles have no numbers
    bucket      an embedding bucket (`≈`, see `normalize`)

A child looks up its own quarter and the earlier quarters in which its parent may be dated. A parent looks up its own
quarter and later quarters. Articles find documents with misspelled numbers and parties. Buckets find documents in other
languages or with other words.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from counterfoil.documents.matching.normalize import (
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
    vat_suffix,
)

PARENT_KINDS: dict[str, tuple[str, ...]] = {
    INVOICE: (ORDER, DELIVERY, CONTRACT),
    CREDIT_NOTE: (INVOICE,),
    ORDER: (CONTRACT,),
    CONFIRMATION: (ORDER,),
    DELIVERY: (ORDER,),
    RECEIPT: (ORDER, DELIVERY),
    CONTRACT: (),
}
"""Possible parent types by document type. The child's decision makes the link."""
DUPLICABLE_KINDS = frozenset({INVOICE, ORDER})
"""Types that can have duplicates: duplicate invoices and order changes."""
SEARCHED_KINDS = frozenset({ORDER, INVOICE, CONTRACT})
"""Document types that can be found without their number. Deliveries are found through their order."""
SEARCH_PREFIX = "seeks:"
"""Type prefix of the keys for matches that a decision left open."""
_QUARTER_DAYS = 91
_MAX_ARTICLES = 4
"""Maximum number of articles used as keys per document."""
_MIN_WORD_LETTERS = 6
"""Minimum length of words that replace article numbers. Shorter words are not specific enough."""
_CACHE_SIZE = 1_000
"""Cache size in documents, because a decision and its neighbors use the same keys repeatedly."""
_QUARTERS_BACK = {ORDER: 2, INVOICE: 2, CONTRACT: 5}
"""Number of quarters before the child in which its parent may be dated."""


class Key(NamedTuple):
    """A row of document_key."""

    type: str
    value: str


def keys(document: Document) -> frozenset[Key]:
    """Return the keys by which a document is found."""
    result = {Key(f"own:{document.kind}", value) for value in _numbers(document.number)}
    for kind, references in document.references.items():
        result |= {Key(f"names:{kind}", value) for reference in references for value in _numbers(reference)}
    if document.kind in SEARCHED_KINDS:
        result |= _transaction_keys(document, f"deal:{document.kind}", 0, 0)
    result |= duplicate_keys(document)
    return frozenset(result)


def search_keys(document: Document, kinds: Iterable[str]) -> frozenset[Key]:
    """Return the keys by which parents of `kinds` find a document.

    They are for documents without a match by number.
    """
    return frozenset(key for kind in kinds for key in _transaction_keys(document, f"{SEARCH_PREFIX}{kind}", 0, 0))


@lru_cache(maxsize=_CACHE_SIZE)
def referenced_numbers(document: Document) -> frozenset[Key]:
    """Return the keys of documents whose numbers this document names."""
    return frozenset(
        Key(f"own:{kind}", value)
        for kind in PARENT_KINDS[document.kind]
        for reference in document.references.get(kind, ())
        for value in _numbers(reference)
    )


@lru_cache(maxsize=_CACHE_SIZE)
def duplicate_keys(document: Document) -> frozenset[Key]:
    """Return the keys that duplicates of this document share."""
    return frozenset(Key(f"copy:{document.kind}", value) for value in _duplicate_values(document))


@lru_cache(maxsize=_CACHE_SIZE)
def transaction_keys(document: Document, kinds: tuple[str, ...]) -> frozenset[Key]:
    """Return the keys of possible parents of `kinds`.

    The keys cover the quarters in which these parents may be dated.
    """
    return frozenset(
        key for kind in kinds for key in _transaction_keys(document, f"deal:{kind}", -_QUARTERS_BACK[kind], 0)
    )


@lru_cache(maxsize=_CACHE_SIZE)
def expected_number_keys(document: Document) -> frozenset[Key]:
    """Return the keys of documents that name this document."""
    return frozenset(Key(f"names:{document.kind}", value) for value in _numbers(document.number))


def shared_order_keys(document: Document) -> frozenset[Key]:
    """Return the keys of documents that name the same orders."""
    return frozenset(
        Key(f"names:{ORDER}", value) for reference in document.references.get(ORDER, ()) for value in reference.folded
    )


def similarity_keys(document: Document) -> frozenset[Key]:
    """Return the keys that a document shares with similar documents of its kind."""
    return frozenset(key for key in keys(document) if key.type == f"deal:{document.kind}")


@lru_cache(maxsize=_CACHE_SIZE)
def seeker_keys(document: Document) -> frozenset[Key]:
    """Return the keys of documents that may match this document without naming it."""
    if document.kind not in SEARCHED_KINDS:
        return frozenset()
    return frozenset(_transaction_keys(document, f"{SEARCH_PREFIX}{document.kind}", 0, _QUARTERS_BACK[document.kind]))


def affected_keys(key: Key) -> list[Key]:
    """Return keys of documents that could find the former holder of a removed key."""
    role, _, kind = key.type.partition(":")
    if role == "own":
        return [Key(f"names:{kind}", key.value)]
    if role == "names" and kind == ORDER:
        return [key]
    if role == "deal":
        parties, _, quarter = key.value.rpartition("|")
        return [
            Key(f"{SEARCH_PREFIX}{kind}", f"{parties}|{int(quarter) + offset}")
            for offset in range(_QUARTERS_BACK[kind] + 1)
        ]
    return []


def referenced_number_keys(key: Key) -> list[Key]:
    """Return the keys of the documents that a key's holder names."""
    role, _, kind = key.type.partition(":")
    return [Key(f"own:{kind}", key.value)] if role == "names" else []


def _transaction_keys(document: Document, type_: str, first: int, last: int) -> set[Key]:
    if document.day is None:
        return set()
    quarter = document.day // _QUARTER_DAYS
    parties = [f"{seller}|{buyer}" for seller in _sides(document.seller) for buyer in _sides(document.buyer)]
    return {
        Key(type_, f"{subject}|{quarter + offset}")
        for subject in (*parties, *_articles(document), *document.buckets)
        for offset in range(first, last + 1)
    }


def _articles(document: Document) -> list[str]:
    """Return a few of a document's articles.

    Documents with the same articles get the same selection.

    If no line item has an article number, long words from the line items are used.
    """
    values = {f"#{code}" for line in document.lines for code in (line.article, line.buyer_article) if code}
    if not values:
        words = {word for line in document.lines for word in line.text.split()}
        values = {f"'{word}" for word in words if len(word) >= _MIN_WORD_LETTERS and word.isalpha()}
    return sorted(values, key=lambda code: crc32(code.encode()))[:_MAX_ARTICLES]


def _numbers(number: Reference | None) -> Iterator[str]:
    if number is not None:
        yield from number.folded
        if number.tail is not None:
            yield f"~{number.tail}"


def _sides(party: Party) -> Iterator[str]:
    if party.vat:
        yield vat_suffix(party.vat)
    if party.name:
        yield party.name.key
        yield from party.name.alias_keys


def _duplicate_values(document: Document) -> Iterator[str]:
    """Yield an order's number, or an invoice's amount with each of its numbers.

    An invoice's numbers are its own, and those of its orders and delivery notes.
    """
    if document.kind == ORDER and document.number is not None:
        yield from document.number.folded
    if document.kind == INVOICE and document.net is not None:
        numbers = [(INVOICE, document.number)] if document.number else []
        numbers += [(kind, reference) for kind in (ORDER, DELIVERY) for reference in document.references.get(kind, ())]
        yield from (f"{kind}|{form}|{document.net}" for kind, number in numbers for form in number.folded)
