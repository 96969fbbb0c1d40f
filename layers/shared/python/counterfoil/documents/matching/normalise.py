"""Canonical forms of what documents say: names, identifiers, references, words, numbers. Pure functions.

Capture damages text. The forms here make two writings of one thing equal (`GmbH` and `Gesellschaft mbH`,
`PO-2025-00397` and `2025 - 397`), and, where that is not possible, close. What they lose (umlauts, legal forms, zeros)
they lose on both sides.
"""

# ruff: noqa: RUF001 - letters of other alphabets are what is transliterated here
import re
import unicodedata
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

_LETTERS = str.maketrans(
    {
        "ß": "ss", "ø": "o", "æ": "a", "œ": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i",
        # Cyrillic (scientific transliteration without diacritics)
        "а": "a", "б": "b", "в": "v", "г": "g", "д": "d", "е": "e", "ж": "zh", "з": "z", "и": "i", "й": "i", "к": "k",
        "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f", "х": "h",
        "ц": "ts", "ч": "ch", "ш": "sh", "щ": "sht", "ъ": "a", "ы": "y", "ь": "", "э": "e", "ю": "yu", "я": "ya",
        "і": "i", "є": "e", "ґ": "g", "ђ": "d", "ј": "j", "љ": "lj", "њ": "nj", "ћ": "c", "џ": "dz",
        # Greek (ELOT 743, letter by letter)
        "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k", "λ": "l",
        "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "ς": "s", "τ": "t", "υ": "y", "φ": "f",
        "χ": "ch", "ψ": "ps", "ω": "o",
    }
)  # fmt: skip
_MICRO = "\N{MICRO SIGN}"
_UMLAUTS = re.compile("([aou])e")
_NOT_WORD = re.compile(r"[^a-z0-9]+")

_LEGAL_FORMS: dict[str, str] = {
    form: group
    for group, forms in {
        "limited": "gmbh gesmbh mbh ug limited ltd plc bv sarl srl srls sro doo kft spzoo oy ab as aps bvba sl slu lda"
        " ltda pty pte llc eood ood sia uab ou dooel haftungsbeschrankt unipersonale",
        "stock": "ag aktiengesellschaft sa spa nv se oyj asa corp corporation inc incorporated nyrt zrt ad dd kgaa sas",
        "partners": "kg ohg gbr llp lp spk spj sc snc scs vof cv sca partg",
        "trader": "ek eu einzelunternehmen kfm",
    }.items()
    for form in forms.split()
}
_SPACED_FORMS = re.compile(r"\b(sp z o ?o|sp [kj]|s r o|s r l|d o o|s a s|s a|a s|b v|n v|e k|e u)\b")
_FILLERS = frozenset(
    ["co", "company", "cie", "and", "und", "et", "e", "y", "u", "the", "group", "gruppe", "gesellschaft", "firma"]
)
_KEY_LETTERS = 6
_BRANCH = re.compile(r"\b(niederlassung|zweigniederlassung|nl|branch|filiale|succursale|sucursal|oddzial|pobocka)\b.*")

_CONFUSABLE_DIGITS = str.maketrans("OQDILSBZG", "000115826")
_CONFUSABLE_NAME = str.maketrans("015826", "olsbzg")

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
def fold(text: str) -> str:
    """Lower-case Latin letters, digits and punctuation: transliterated, without diacritics, `ue` and `ü` alike `u`."""
    decomposed = unicodedata.normalize("NFKD", text.replace(_MICRO, "u").casefold())
    plain = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return _UMLAUTS.sub(r"\1", plain.translate(_LETTERS))


def words(text: str) -> str:
    """The words of a text, folded, separated by one space, in their order."""
    return _NOT_WORD.sub(" ", fold(text)).strip()


@dataclass(frozen=True, slots=True)
class Name:
    """A firm's name. `core` has neither legal form, branch, filler words nor the place; its words are sorted."""

    core: str
    form: str | None
    """The group of legal forms that the name states: limited, stock, partners or trader."""
    key: str
    """How a search finds it: the beginning of its first word, which is what abbreviating and dropping words leave; `i`
    and `l` alike, no letter twice in a row."""


@lru_cache(maxsize=20_000)
def name(text: str, place: str = "") -> Name:
    """Take a name apart; `place` is the firm's city, which many write behind the name."""
    plain = _BRANCH.sub("", words(text.replace(".", "")))
    plain = _SPACED_FORMS.sub(lambda match: match[0].replace(" ", ""), plain)
    of_place = frozenset(words(place).split())
    found = [_as_letters(word) for word in plain.split()]
    form = next((group for word in reversed(found) if (group := _LEGAL_FORMS.get(word))), None)
    kept = [word for word in found if word not in _LEGAL_FORMS and word not in _FILLERS]
    core = [word for word in kept if word not in of_place] or kept or found
    first = re.sub(r"(.)\1+", r"\1", core[0].replace("i", "l")) if core else ""
    return Name(" ".join(sorted(core)), form, first[:_KEY_LETTERS])


def _as_letters(word: str) -> str:
    """A word of a name as capture may have meant it: `5upp1ies` is `supplies`, and `rn` an `m`."""
    letters = word if word.isdigit() else word.translate(_CONFUSABLE_NAME)
    return letters.replace("rn", "m")


_MISREAD = re.compile(r"(?<![^\W\d_])(?:[^\W\d_]+[0156]+[^\W\d_]{2,}|[^\W\d_]{3,}[0156]|[0156][^\W\d_]{3,})(?!\w)")


def misread(text: str) -> int:
    """How many words hold a digit that capture put in a letter's place: `Stahlhande1`, `5upplies`."""
    return len(_MISREAD.findall(text))


def identifier(text: str) -> str:
    """A VAT id, IBAN, register number, ...: letters and digits, letters that look like digits read as digits."""
    return "".join(_GROUPS.findall(fold(text).upper())).translate(_CONFUSABLE_DIGITS)


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
    upper = _SPACE_IN_NUMBER.sub("", _SUFFIX.sub("", fold(text).upper().strip()))
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
    return None if number is None else int(number * 100 + (0.5 if number >= 0 else -0.5))


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
