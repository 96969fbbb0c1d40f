"""Units of measure as documents write them, in codes of UN/ECE Recommendation 20. Pure.

Only what is certain has a code: `Stk` is C62 (one), as e-invoices count pieces, and `kg` is KGM. What is unknown has
none, and is not guessed.
"""

import re
from functools import lru_cache
from types import MappingProxyType

from counterfoil.documents.lexicon import MATCHER
from counterfoil.documents.lexicon.folding import fold_umlauts

_CODES = MappingProxyType({word: code for code, words in MATCHER.meanings("units.unit").items() for word in words})
_PRINTED_CODES = frozenset({*MATCHER.meanings("units.unit"), *MATCHER.terms("units.printed_code")} - {"MIN"})
_ALIKE = MappingProxyType({same: code for code, codes in MATCHER.meanings("units.same_code").items() for same in codes})
"""Codes that say the same as another one."""
_SYMBOLS = str.maketrans("²³", "23")
_PLURAL = re.compile(r"\((?:s|e|n|en|es|i)\)$")


def code(text: str) -> str | None:
    """Return the Rec 20 code of a unit as printed (`Stk.`, `m²`, `Liter(s)`, `HUR`), None where it is not certain."""
    written = text.strip(" .,:;/()[]")
    if written in _PRINTED_CODES:
        return written
    return _CODES.get(fold_umlauts(_PLURAL.sub("", text.strip(" .,:;/")).translate(_SYMBOLS)).strip("()[]. "))


@lru_cache(maxsize=2_000)
def canonical(text: str | None) -> str | None:
    """A unit's code, of several that say the same one; what is no known unit as it is written, in upper case.

    >>> canonical("Stk"), canonical("H87"), canonical("CT"), canonical("VPE 12")
    ('C62', 'C62', 'XCT', 'VPE 12')
    """
    if not text or not (written := text.strip().upper()):
        return None
    found = _ALIKE.get(written) or code(text) or written
    return _ALIKE.get(found, found)
