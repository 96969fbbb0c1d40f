"""Units of measure in documents, as UN/ECE Recommendation 20 codes. Pure.

Only unambiguous units have a code: `Stk` is C62 (one), as in e-invoices, and `kg` is KGM. Unknown units have no code.
"""

import re
from functools import lru_cache
from types import MappingProxyType

from counterfoil.documents.lexicon import MATCHER
from counterfoil.documents.lexicon.folding import fold_umlauts

_CODES = MappingProxyType({word: code for code, words in MATCHER.meanings("units.unit").items() for word in words})
_PRINTED_CODES = frozenset({*MATCHER.meanings("units.unit"), *MATCHER.terms("units.printed_code")} - {"MIN"})
_SAME_CODE = MappingProxyType(
    {same: code for code, codes in MATCHER.meanings("units.same_code").items() for same in codes}
)
"""Maps codes to the preferred code with the same meaning."""
_SYMBOLS = str.maketrans("²³", "23")
_PLURAL = re.compile(r"\((?:s|e|n|en|es|i)\)$")


def unit_code(text: str) -> str | None:
    """Return the Rec 20 code of a printed unit; None if ambiguous or unknown.

    Examples are `Stk.`, `m²`, `Liter(s)` and `HUR`.
    """
    symbol = text.strip(" .,:;/()[]")
    if symbol in _PRINTED_CODES:
        return symbol
    return _CODES.get(fold_umlauts(_PLURAL.sub("", text.strip(" .,:;/")).translate(_SYMBOLS)).strip("()[]. "))


@lru_cache(maxsize=2_000)
def canonical(text: str | None) -> str | None:
    """Return the preferred code of a unit, or an unknown unit in upper case.

    Returns None if the text is empty.

    >>> canonical("Stk"), canonical("H87"), canonical("CT"), canonical("VPE 12")
    ('C62', 'C62', 'XCT', 'VPE 12')
    """
    if not text or not (symbol := text.strip().upper()):
        return None
    code = _SAME_CODE.get(symbol) or unit_code(text) or symbol
    return _SAME_CODE.get(code, code)
