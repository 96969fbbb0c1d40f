"""Canonical forms of what documents say: names, identifiers, references, words, numbers, whole documents. Pure.

Capture damages text. The forms here make two spellings equal (`GmbH` and `Gesellschaft mbH`, `PO-2025-00397` and
`2025 - 397`) or, where that is not possible, close. What they lose (umlauts, legal forms, zeros) they lose on both
sides.

A legal form never takes a word of the name: short forms, which are also words and initials, count at the end of a name
only. Where a form may come before a name as well (`AS Tallink`, `AS Roma`), both readings are kept.
"""

# ruff: noqa: RUF001 - letters of other alphabets
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from counterfoil.documents import units
from counterfoil.documents.lexicon.folding import fold_umlauts
from counterfoil.documents.matching import meaning
from counterfoil.documents.matching.meaning import Embedding
from counterfoil.documents.matching.wording import (
    ATTACHED,
    LEADING,
    LEADING_CYRILLIC,
    MEANINGS,
    PERHAPS_LEADING,
    PHRASES,
    SIGNS,
    SLASHED,
    Meaning,
    Role,
    Sign,
    spelled,
)

_TOKEN = re.compile(r"[^\W_]+|[,;()\[\]|&+]")
_DOUBLED = re.compile(r"(.)\1+")
_DIGIT = re.compile(r"\d")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_SLASHED = re.compile(rf"\b(?:{'|'.join(SLASHED)})\b|(?<!\w)(\w)/(\w)(?!\w)")
_UMLAUT_FORM = re.compile(r"(?<=\s)([AO])(E)$|\b([ΑΟ])(Ε)\b")
"""Greek forms (Α.Ε., Ο.Ε.) without dots, which would be taken for umlauts."""
_CONFUSABLE = str.maketrans("015826", "olsbzg")
_WORD = Meaning(Role.WORD)
_SURE, _LAST, _KIND, _FILLER, _LINK, _LETTER, _BREAK = list(Role)[1:]
"""Looked up once: members of an enumeration are slow to reach."""
_COMPOUNDS = {
    "aktiengesellschaft": "stock",
    "gesellschaft": None,
    "gesmbh": "limited",
    "gmbh": "limited",
    "ges": None,  # codespell:ignore ges
    "aktiebolaget": "limited",
    "aktiebolag": "limited",
    "aktieselskab": "stock",
}
"""Forms that German and the Nordic languages write in one word with the name."""
_COMPOUNDS_END = tuple(_COMPOUNDS)
_KEY_LETTERS = 6
_OTHER_KEYS = 2
_ACRONYM = 4
"""Letters of a single word that may have its place behind it: `TIL Manchester`."""
_BRANCHES = {
    "uk", "us", "eu", "uae", "german", "french", "swiss", "italian", "spanish", "dutch", "irish", "polish", "belgian",
    "european", "europe", "ireland", "india", "london", "dublin", "dubai", "singapore", "paris", "frankfurt",
}  # fmt: skip
"""What most often stands before `Branch`."""


@dataclass(frozen=True, slots=True)
class Name:
    """A firm's name. `core` has neither legal form, branch, filler words nor the place; its words are sorted."""

    core: str
    form: str | None
    """The group of legal forms that the name states: limited, stock, partners, trader, cooperative, association,
    foundation or public."""
    key: str
    """How a search finds it: the beginning of its first word, which is what abbreviating and dropping words leave; `i`
    and `l` alike, no letter twice in a row."""
    others: frozenset[str] = frozenset()
    """Cores of other names that the text states (trading as, formerly, owner), and of the other reading of a word that
    may be a form."""
    other_keys: tuple[str, ...] = ()
    """The keys of the first two of those other names."""


@lru_cache(maxsize=20_000)
def name(text: str, place: str = "") -> Name:
    """Take a name apart; `place` is the firm's city, which many write behind the name."""
    words = _words(text)
    aliases: list[list[str]] = []
    of_place = _place(place) if place else frozenset()
    if not SIGNS.keys().isdisjoint(words):
        words, aliases = _without_signs(words, of_place)
    kept, form = _reduced(words, of_place)
    stated = [other for alias in aliases if (other := _reduced(alias, of_place)[0])]
    others = {" ".join(sorted(other)) for other in stated}
    if len(kept) > 1:
        cyrillic = not text.isascii() and _CYRILLIC.search(text) is not None
        kept, form, reading = _doubtful_forms(kept, form, cyrillic=cyrillic)
        others |= reading
    core, key = " ".join(sorted(kept)), _key(kept, of_place)
    other_keys = tuple(_key(other, of_place) for other in stated[:_OTHER_KEYS]) if stated else ()
    return Name(core, form, key, frozenset(others - {core, ""}), other_keys)


def _key(words: Sequence[str], of_place: frozenset[str]) -> str:
    """The beginning of the first word that is neither a form nor the place."""
    first = words[0] if words else ""
    found = next(
        (word for word in words if word not in MEANINGS and word not in LEADING and word not in of_place), first
    )
    return _DOUBLED.sub(r"\1", found.replace("i", "l"))[:_KEY_LETTERS]


def _doubtful_forms(kept: list[str], form: str | None, *, cyrillic: bool) -> tuple[list[str], str | None, set[str]]:
    """Forms before a name and in it: the words of the name, its form, and what the name is in the other reading."""
    first, rest = kept[0], kept[1:]
    group = LEADING.get(first) or (LEADING_CYRILLIC.get(first) if cyrillic else None)
    if group is not None and form is None:
        return rest, group, {" ".join(sorted(kept))}
    if group is not None or first in PERHAPS_LEADING:
        return kept, form, {" ".join(sorted(rest))}
    if form is None and any(MEANINGS.get(word, _WORD).role is _LAST for word in rest):  # `Siemens AG Österreich`
        without = [word for word in rest if MEANINGS.get(word, _WORD).role is not _LAST]
        return kept, form, {" ".join(sorted([first, *without]))}
    return kept, form, set()


@lru_cache(maxsize=5_000)
def _place(place: str) -> frozenset[str]:
    return frozenset(_TOKEN.findall(spelled(place)))


def _words(text: str) -> list[str]:
    """The words of a name and the marks between them: initials joined, phrases of several words as one."""
    if not text.isascii() or text.endswith(("AE", "OE")):
        text = _UMLAUT_FORM.sub(_dotted, text)
    written = spelled(text)
    if "/" in written:
        written = _SLASHED.sub(_unslashed, written)
    if not written.isascii():
        written = ATTACHED.sub(r" \g<0> ", written)
    words = _TOKEN.findall(written)
    if _DIGIT.search(written):
        words = [word if word.isdigit() else word.translate(_CONFUSABLE) for word in words]
    if 1 in map(len, words):
        words = _initials_joined(words)
    if not PHRASES.keys().isdisjoint(words):
        words = _phrases_joined(words)
    return words


def _unslashed(match: re.Match[str]) -> str:
    """`t/a` in words; two initials, such as those of `A/S`, as one word."""
    return f"{match[1]}{match[2]}" if match[1] else f" {SLASHED[match[0]]} "


def _dotted(match: re.Match[str]) -> str:
    return ".".join(letter for letter in match.groups() if letter) + "."


def _initials_joined(words: Sequence[str]) -> list[str]:
    """`S. A. S.` as `sas`; of `M S A/S` the end, which is a form, apart."""
    found: list[str] = []
    run = ""
    for word in (*words, ""):
        if len(word) == 1 and word.isalpha():
            run += word
            continue
        if len(run) > 1 and run not in MEANINGS:
            if run[0] in "eyu":
                found.append(run[0])
                run = run[1:]
            ends = (run[-length:] for length in (4, 3, 2) if len(run) > length)
            end = next((end for end in ends if end in MEANINGS), "")
            found += [run.removesuffix(end), end] if end else [run]
        elif run:
            found.append(run)
        run = ""
        if word:
            found.append(word)
    return found


def _phrases_joined(words: Sequence[str]) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(words):
        phrases = PHRASES.get(words[at], ())
        phrase = next((one for one in phrases if tuple(words[at : at + len(one)]) == one), words[at : at + 1])
        found.append(" ".join(phrase))
        at += len(phrase)
    return found


def _without_signs(words: list[str], of_place: frozenset[str]) -> tuple[list[str], list[list[str]]]:
    """The words of the name alone, and those of its other names."""
    aliases: list[list[str]] = []
    if SIGNS.get(words[0]) is Sign.CARE_OF:
        words = words[1:]
    at = 1
    while at < len(words):
        sign = SIGNS.get(words[at])
        if sign is None:
            at += 1
            continue
        end = _end(words, at)
        begin = _begin(words, at, end, sign, of_place)
        if begin is None or not any(word[0].isalnum() for word in words[:begin]):
            at += 1
            continue
        if sign in (Sign.ALIAS, Sign.ALIAS_AFTER_FORM) and at + 1 < end:
            aliases.append(words[at + 1 : end])
        words = words[:begin] + words[end:]
        at = begin
    return words, aliases


def _end(words: Sequence[str], at: int) -> int:
    """Where what the sign at `at` introduces ends: at a bracket, or where one more name is introduced."""
    for end in range(at + 1, len(words)):
        if words[end] in (")", "]") or (end > at + 1 and SIGNS.get(words[end]) is Sign.ALIAS):
            return end
    return len(words)


def _begin(words: Sequence[str], at: int, end: int, sign: Sign, of_place: frozenset[str]) -> int | None:
    """Where what the sign at `at` introduces begins; None where it is a word of the name."""
    behind = words[at + 1 : end]
    over = _is_over(words[at - 1])
    if sign in (Sign.BRANCH_AFTER_FORM, Sign.ALIAS_AFTER_FORM):
        named = bool(behind) and not any(_is_over(word) for word in behind)
        return at if over or (sign is Sign.BRANCH_AFTER_FORM and named) else None
    if sign is Sign.BRANCH_BEFORE and not over:
        before = max((i + 1 for i in range(at) if _is_over(words[i])), default=0)
        if before > 0:
            return before
        if words[at - 1] in _BRANCHES or words[at - 1] in of_place:
            return at - 1 if at > 1 else None
        return at if of_place.intersection(behind) else None
    if sign is Sign.BRANCH and not over and behind and all(_is_over(word) for word in behind):
        return None
    return at


def _is_over(word: str) -> bool:
    """Whether a word ends a name: a form, or a comma or bracket."""
    meaning = MEANINGS.get(word)
    return meaning is not None and meaning.role in (Role.SURE, Role.LAST, Role.BREAK)


def _reduced(words: Sequence[str], of_place: frozenset[str]) -> tuple[list[str], str | None]:
    """The words that are the name, in their order, and the group of its form. Reads from the end."""
    kept: list[str] = []
    places: list[str] = []
    form: str | None = None
    at_end = behind_company = True
    for at in range(len(words) - 1, -1, -1):
        word = words[at]
        role, group = MEANINGS.get(word, _WORD)
        if role is _SURE or (role is _LAST and at_end and (form is None or behind_company)):
            if form is None and at > 0 and words[at + 1 : at + 2] == [","]:
                kept.clear()  # `Lyngcombe Chemicals GmbH, Abteilung Einkauf`
            places.clear()
            form, at_end, behind_company = form or group, True, False
        elif role is _BREAK:
            places.clear()
            at_end = True
        elif role is _FILLER and at_end:
            behind_company = True  # `AG & Co. KG`
        elif role is _LINK or (role is _LETTER and kept and at > 0):
            continue
        elif at_end and form is None and word in of_place:
            places.append(word)
        else:
            word, stated = _stated(word, words[at + 1 : at + 2], group if role is _KIND else None)
            form = form or stated
            kept.append(word)
            at_end = behind_company = False
    # A place with no comma or form before it is one behind a whole name only: it is part of `Stadtwerke Köln`.
    if len(kept) > 1 or (kept and len(kept[0]) <= _ACRONYM):
        places = []
    whole = (places + kept)[::-1]
    return (whole, form) if whole else _nothing_but_forms(words, form)


def _stated(word: str, behind: Sequence[str], group: str | None) -> tuple[str, str | None]:
    """A word of the name and the form that it states, without one that is written in one with it."""
    if word.endswith(_COMPOUNDS_END):
        for ending, meant in _COMPOUNDS.items():
            if ending == "ges" and "mbh" not in behind:  # codespell:ignore ges
                continue
            if word.endswith(ending) and len(word) > len(ending):
                return word.removesuffix(ending), meant
    return word, group


def _nothing_but_forms(words: Sequence[str], form: str | None) -> tuple[list[str], str | None]:
    """The first of several forms is the name of a firm that has no other."""
    said = [word for word in words if MEANINGS.get(word, _WORD).role not in (Role.LINK, Role.LETTER, Role.BREAK)]
    others = any(MEANINGS.get(word, _WORD).role in (Role.SURE, Role.LAST) for word in said[1:])
    return said[:1] or [word for word in words if word[0].isalnum()], form if others else None


__all__ = [
    "Name",
    "Reference",
    "cents",
    "code",
    "day",
    "identifier",
    "misread",
    "name",
    "quantity",
    "reference",
    "same_vat",
    "vat_end",
    "vat_id",
    "words",
]

_NOT_WORD = re.compile(r"[\W_]+")

_CONFUSABLE_DIGITS = str.maketrans("OQDILSBZG", "000115826")

_TAX_NUMBER = re.compile(r"\d{2,3}\s?/\s?\d{3,4}\s?/\s?\d{4,5}")
_VAT_ENDING = re.compile("(?:MWST|TVA|IVA|MVA)$")
_BARE_VAT = re.compile(r"[A-Z]\d{7,8}[A-Z\d]?")
"""A letter and a number, as ids of Austria, Spain and Cyprus are without their country."""
_VAT_LETTERS = {"GR": "EL", "CH": "CHE"}
_VAT_END = 8
"""Characters that are a VAT id without its country's letters, or the end of one; a few countries have shorter ids."""

_PREFIX_WORDS = re.compile(
    r"^(?:(?:P\.?\s?O|PURCHASE|ORDER|BESTELLUNG|BESTELLNUMMER|BESTELL|BEST|ORD|AUFTRAG|LIEFERSCHEIN|DELIVERY|NOTE|INVOICE|RECHNUNG|CONTRACT|VERTRAG"
    r"|COMMANDE|FACTURE|REFERENCE|REF|NUMBER|NUMMER|NUM|NO|NR|N°|IHRE|YOUR|OUR|UNSERE?)(?![A-Z])[\s.:#/-]*|[#:.\s]+)+(?=.*\d)"
)
_SUFFIX = re.compile(r"\s+(?:VOM|V\.|DATED|DATE|OF|FROM|DU|DEL|DE|Z DNIA|DAT\.)\s.*$|\s*[,;(].*$")
_YEAR = re.compile(r"(19|20)\d\d")
_POSITION = re.compile(r"(?<=\d)\s*(?:/|\bPOS\.?)\s*\d{1,3}$")
_SPACE_IN_NUMBER = re.compile(r"(?<=\d)\s+(?=\d)")
_GROUPS = re.compile(r"[A-Z0-9]+")
_MIN_TAIL = 3
"""Fewer digits at the end of a number say nothing about which number it is."""


@lru_cache(maxsize=20_000)
def words(text: str) -> str:
    """The words of a text, folded, separated by one space, in their order."""
    return _NOT_WORD.sub(" ", fold_umlauts(text)).strip()


_MISREAD = re.compile(r"(?<![^\W\d_])(?:[^\W\d_]+[0156]+[^\W\d_]{2,}|[^\W\d_]{3,}[0156]|[0156][^\W\d_]{3,})(?!\w)")


@lru_cache(maxsize=20_000)
def misread(text: str) -> int:
    """How many words hold a digit that capture put in a letter's place: `Stahlhande1`, `5upplies`."""
    return len(_MISREAD.findall(text))


def identifier(text: str) -> str:
    """A VAT id, IBAN, register number, ...: letters and digits, letters that look like digits read as digits."""
    return "".join(_GROUPS.findall(fold_umlauts(text).upper())).translate(_CONFUSABLE_DIGITS)


def vat_id(text: str, country: str = "") -> str | None:
    """A VAT id as `identifier`, with its country's letters (Greece's are EL) and without what says that it is one.

    `country` (ISO 3166 alpha-2) is that of the firm, for an id that is written without. None for a German tax number
    (`12/345/67890`), which is no VAT id. Check digits are not looked at: a misread id is still nearly right.
    """
    if _TAX_NUMBER.fullmatch(text.strip()):
        return None
    number = _VAT_ENDING.sub("", "".join(_GROUPS.findall(text.upper())))
    if number[:2].isdigit() or _BARE_VAT.fullmatch(number):
        number = _VAT_LETTERS.get(country, country) + number
    elif number.startswith("GR"):
        number = "EL" + number[2:]
    return number.translate(_CONFUSABLE_DIGITS) or None


def vat_end(vat: str) -> str:
    """The end of a VAT id, which it has with and without its country's letters."""
    return vat[-_VAT_END:]


def same_vat(a: str, b: str) -> bool:
    """Whether two VAT ids are one, be it that only one of them has its country's letters."""
    return a == b or (min(len(a), len(b)) >= _VAT_END and (a.endswith(b) or b.endswith(a)))


@lru_cache(maxsize=20_000)
def code(text: str) -> str:
    """An article number as `identifier`, without leading zeros."""
    return identifier(text).lstrip("0")


@dataclass(frozen=True, slots=True)
class Reference:
    """A document's number as somebody wrote it, in forms that can be compared."""

    text: str
    """As written, for people."""
    exact: frozenset[str]
    """Canonical forms: upper case, no prefix words, no separators, with and without leading zeros and position."""
    folded: frozenset[str]
    """The same with letters that look like digits read as digits: what capture may confuse is equal."""
    tail: str | None
    """The digits at the end, but for a year, without leading zeros, where they are at least three: what is left of a
    damaged number."""
    length: int
    """Characters of the shortest canonical form: how much an agreement says."""


@lru_cache(maxsize=20_000)
def reference(text: str) -> Reference | None:
    """Read a number; None where nothing that could tell documents apart is left."""
    upper = _SPACE_IN_NUMBER.sub("", _SUFFIX.sub("", fold_umlauts(text).upper().strip()))
    stripped = _PREFIX_WORDS.sub("", upper) or upper
    exact: set[str] = set()
    folded: set[str] = set()
    for written in {stripped, _POSITION.sub("", stripped)}:
        exact |= _forms(written)
        folded |= _forms(written.translate(_CONFUSABLE_DIGITS))
    if not any(letter.isdigit() for form in exact for letter in form):
        return None
    digits = re.findall(r"\d+", stripped.translate(_CONFUSABLE_DIGITS))
    # `4711/2025` ends in its year, which it shares with every other number of that year.
    if len(digits) > 1 and _YEAR.fullmatch(digits[-1]):
        digits.pop()
    tail = digits[-1].lstrip("0") if digits else ""
    return Reference(
        " ".join(text.split()),
        frozenset(exact),
        frozenset(folded),
        tail if len(tail) >= _MIN_TAIL else None,
        min(map(len, folded)),
    )


def _forms(text: str) -> set[str]:
    groups = _GROUPS.findall(text)
    bare = [group.lstrip("0") or "0" if group.isdigit() else group for group in groups]
    return {"".join(groups).lstrip("0") or "0", "".join(bare)} if groups else set()


def cents(text: str | None) -> int | None:
    """An amount in minor units of two decimals, rounded half up; None where there is none or it is no number."""
    number = quantity(text)
    if number is None:
        return None
    # Rounded to less than a cent first: the float of 1.005 is a little less.
    return int(round(number * 100, 4) + (0.5 if number >= 0 else -0.5))


def quantity(text: str | None) -> float | None:
    """A quantity or price, for comparison within a tolerance only; None where there is none or it is no number."""
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is None or abs(number) < 1e15 else None


def day(text: str | None) -> int | None:
    """A date as the number of its day; None where there is none or it is no date."""
    try:
        return date.fromisoformat(text).toordinal() if text else None
    except ValueError:
        return None


INVOICE = "invoice"
CREDIT_NOTE = "credit_note"
ORDER = "purchase_order"
CONFIRMATION = "order_confirmation"
DELIVERY = "delivery_note"
RECEIPT = "goods_receipt"
CONTRACT = "contract"

_NUMBER_AND_DATE = {
    INVOICE: ("invoice_number", "invoice_date"),
    CREDIT_NOTE: ("credit_note_number", "credit_note_date"),
    ORDER: ("po_number", "order_date"),
    CONFIRMATION: ("confirmation_number", "confirmation_date"),
    DELIVERY: ("delivery_note_number", "delivery_date"),
    RECEIPT: ("receipt_number", "receipt_date"),
    CONTRACT: ("contract_number", "contract_date"),
}
KINDS = tuple(_NUMBER_AND_DATE)
"""The types of document that are matched."""
_REFERENCES = {
    "po_reference": ORDER,
    "delivery_note_reference": DELIVERY,
    "contract_reference": CONTRACT,
    "invoice_reference": INVOICE,
}
_IDENTIFIERS = ("tax_number", "registration_id", "endpoint_id", "iban", "email")
_OF_PARTY = ("name", "city", "vat_id", "country", "postal_code", *_IDENTIFIERS)
_PARTIES = 10_000
"""Writings of parties that are kept as they were read."""


@dataclass(frozen=True, slots=True)
class Party:
    """One side of a document."""

    name: Name | None
    vat: str | None
    """With the country's letters where the id or the address states them."""
    identifiers: Mapping[str, str]
    """By field: tax number, register number, endpoint, IBAN, e-mail address."""
    postal_code: str | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line about goods or services. Freight, discounts and other lines without unit and article are not kept here."""

    article: str | None
    buyer_article: str | None
    text: str
    unit: str | None
    """Its canonical code."""
    quantity: float | None
    price: float | None
    """For one unit: the price basis is divided out."""
    net: int | None


@dataclass(frozen=True, slots=True)
class Document:
    """A document in canonical forms. Amounts are cents, `day` is a proleptic Gregorian ordinal."""

    id: UUID
    received_at: datetime
    kind: str
    number: Reference | None
    named: Mapping[str, tuple[Reference, ...]]
    """Numbers of other documents that this one names, by their kind."""
    seller: Party
    buyer: Party
    day: int | None
    currency: str | None
    net: int | None
    gross: int | None
    lines: tuple[Line, ...]
    amounts: frozenset[int]
    """Net amounts of the lines that are not about goods."""
    misread: int
    """Of an invoice, words of names and lines in which a digit stands where a letter belongs: how badly it was
    captured. Of others nobody asks that."""
    buckets: tuple[str, ...] = ()
    """Those of the vector that is kept of its words; none where none is."""

    def __hash__(self) -> int:
        """By the id alone: scores are kept by document."""
        return hash(self.id)

    @property
    def has_counterparty(self) -> bool:
        """Whether any side says who it is."""
        return any(side.name or side.vat or side.identifiers for side in (self.seller, self.buyer))


def document(
    id_: UUID, received_at: datetime, kind: str, data: Mapping[str, Any], embedding: Embedding | None = None
) -> Document:
    """Read structured data, by the specification's field names. What nobody can read is left out.

    So is an `embedding` of other words than these.
    """
    number_field, date_field = _NUMBER_AND_DATE[kind]
    number = data.get(number_field)
    items = [item for item in data.get("line_items") or () if isinstance(item, Mapping)]
    goods = [item for item in items if _is_of_goods(item)]
    seller, buyer = ("issuer", "recipient") if kind in {INVOICE, CREDIT_NOTE} else ("supplier", "buyer")
    return Document(
        id_,
        received_at,
        kind,
        reference(number) if isinstance(number, str) else None,
        _named(data, items),
        _party(data.get(seller)),
        _party(data.get(buyer)),
        day(data.get(date_field)),
        data.get("currency"),
        cents(data.get("total_net")),
        cents(data.get("total_gross")),
        tuple(_line(item) for item in goods),
        frozenset(net for item in items if not _is_of_goods(item) and (net := cents(item.get("net_amount")))),
        sum(misread(text) for text in _said(data, items)) if kind == INVOICE else 0,
        _buckets(data, embedding),
    )


def _is_of_goods(item: Mapping[str, Any]) -> bool:
    return bool(item.get("unit") or item.get("article_number") or item.get("buyer_article_number"))


def _buckets(data: Mapping[str, Any], embedding: Embedding | None) -> tuple[str, ...]:
    if embedding is None or embedding.text_hash != meaning.text_hash(meaning.text(data)):
        return ()
    return meaning.buckets(embedding)


def _said(data: Mapping[str, Any], items: list[Mapping[str, Any]]) -> Iterator[str]:
    """Names of parties, and descriptions."""
    for part in (*(data.get(side) for side in ("issuer", "recipient", "supplier", "buyer")), *items):
        if isinstance(part, Mapping):
            yield from (text for field in ("name", "description") if isinstance(text := part.get(field), str))


def _named(data: Mapping[str, Any], items: list[Mapping[str, Any]]) -> dict[str, tuple[Reference, ...]]:
    named: dict[str, dict[frozenset[str], Reference]] = {}
    for field, kind in _REFERENCES.items():
        stated = [data.get(field)]
        if field == "po_reference":
            stated += [item.get(field) for item in items]
        for text in (text for value in stated if value for text in _texts(value)):
            if found := reference(text):
                named.setdefault(kind, {}).setdefault(found.folded, found)
    return {kind: tuple(found.values()) for kind, found in named.items()}


def _texts(value: object) -> Iterator[str]:
    for text in value if isinstance(value, list | tuple) else (value,):
        if isinstance(text, str) and text.strip():
            yield text


def _party(data: object) -> Party:
    if not isinstance(data, Mapping):
        return Party(None, None, {}, None)
    stated = [data.get(field) for field in _OF_PARTY]
    return _stated_party(*(value if isinstance(value, str) and value.strip() else None for value in stated))


@lru_cache(maxsize=_PARTIES)
def _stated_party(*values: str | None) -> Party:
    """Those who trade with one another do so again and again."""
    stated = {field: value for field, value in zip(_OF_PARTY, values, strict=True) if value is not None}
    vat = vat_id(stated["vat_id"], stated.get("country", "")) if "vat_id" in stated else None
    if vat is None and "vat_id" in stated:
        stated.setdefault("tax_number", stated["vat_id"])  # what stands there and is no VAT id
    return Party(
        name(stated["name"], stated.get("city", "")) if "name" in stated else None,
        vat,
        {field: found for field in _IDENTIFIERS if field in stated and (found := identifier(stated[field]))},
        identifier(stated["postal_code"]) if "postal_code" in stated else None,
    )


def _line(item: Mapping[str, Any]) -> Line:
    price, basis = quantity(item.get("unit_price")), quantity(item.get("price_basis_quantity"))
    return Line(
        code(item.get("article_number") or "") or None,
        code(item.get("buyer_article_number") or "") or None,
        words(item.get("description") or ""),
        units.canonical(item.get("unit")),
        quantity(item.get("quantity")),
        price / basis if price is not None and basis else price,
        cents(item.get("net_amount")),
    )
