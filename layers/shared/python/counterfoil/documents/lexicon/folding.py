"""Text folding: letters become lowercase Latin letters without diacritics. Pure.

Cyrillic and Greek are transliterated, so different spellings of a name become equal. Scripts with several romanizations
(Hebrew, Arabic, East Asian scripts) are not transliterated. Their width variants are unified and vowel points removed.
"""

# ruff: noqa: RUF001 - this module transliterates letters of other alphabets
import re
import unicodedata
from functools import lru_cache

_LETTERS = {
    "ß": "ss", "ø": "o", "æ": "a", "œ": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h", "ŧ": "t",
    "ŋ": "n", "ə": "a", "ĸ": "k",
    # Cyrillic (scientific transliteration without diacritics)
    "а": "a", "б": "b", "в": "v", "г": "g", "д": "d", "е": "e", "ж": "zh", "з": "z", "и": "i", "й": "i", "к": "k",
    "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f", "х": "h",
    "ц": "ts", "ч": "ch", "ш": "sh", "щ": "sht", "ъ": "a", "ы": "y", "ь": "", "э": "e", "ю": "yu", "я": "ya",
    "і": "i", "є": "e", "ґ": "g", "ђ": "d", "ј": "j", "љ": "lj", "њ": "nj", "ћ": "c", "џ": "dz", "ѕ": "z",
    "ә": "a", "ғ": "g", "қ": "k", "ң": "n", "ө": "o", "ү": "u", "ұ": "u", "һ": "h",
    # Greek (ELOT 743, letter by letter)
    "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k", "λ": "l",
    "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "ς": "s", "τ": "t", "υ": "y", "φ": "f",
    "χ": "ch", "ψ": "ps", "ω": "o",
    # Arabic letters as used in Persian and Urdu
    "ی": "ي", "ى": "ي", "ک": "ك", "ة": "ه",
}  # fmt: skip
_MARKS_END = 0x2100
"""End of the range of removed marks. Later marks belong to kana and distinguish syllables."""
_PLAIN = str.maketrans(_LETTERS) | {
    code: None for code in range(0x300, _MARKS_END) if unicodedata.category(chr(code)) in ("Mn", "Mc")
}
_PUNCTUATION = {ord(mark): "-" for mark in "\u2010\u2011\u2013\u2014\u2212"} | {0x2019: "'", 0xAD: None}
"""Hyphens and dashes, the right single quotation mark, and the soft hyphen."""
_UMLAUTS = re.compile("([aou])e")
_GREEK_PAIRS = re.compile(r"(ο[υύ])|(γ(?=[γξχ]))|\bμπ|([αεη])[υύ](?:(?=[θκξπσςτφχψ]|\b)|(v?))")


def normalize_text(text: str) -> str:
    """Return the folded text, with plain quotes and hyphens, and single spaces.

    >>> normalize_text("Auftrags- Bestätigung")
    'auftrags- bestatigung'
    """
    return " ".join(latin(text.translate(_PUNCTUATION)).split())


def fold_letters(text: str) -> str:
    """Fold each letter to exactly one letter, so that positions do not change.

    >>> fold_letters("Straße Nº 5")
    'strase no 5'
    """
    return "".join(map(_fold_letter, text))


def fold_umlauts(text: str) -> str:
    """Return the text with umlauts folded to their base vowels.

    Both `ü` and `ue` become `u`.
    """
    return _UMLAUTS.sub(r"\1", latin(text))


@lru_cache(maxsize=4096)
def _fold_letter(letter: str) -> str:
    return latin(letter.translate(_PUNCTUATION).replace("\N{DEGREE SIGN}", "o"))[:1].lower() or letter


def latin(text: str) -> str:
    """Return the text in lowercase Latin letters without diacritics, where possible.

    Keeps punctuation.
    """
    if text.isascii():
        return text.lower()
    lower = _GREEK_PAIRS.sub(_pair, text.replace("\N{MICRO SIGN}", "u").casefold())
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", lower).translate(_PLAIN))


def _pair(match: re.Match[str]) -> str:
    """Transliterate a pair of Greek letters (ELOT 743).

    For example, alpha and ypsilon become `af` before a voiceless letter, otherwise `av`.
    """
    if match[1]:
        return "ou"
    if match[2]:
        return "n"
    if match[3]:
        return match[3] + ("v" if match[4] is not None else "f")
    return "b"
