"""Units of measure as documents write them, in codes of UN/ECE Recommendation 20. Pure.

Packages have the codes of Recommendation 21 with an X before, as EN 16931 prescribes.

Only what is certain has a code: `Stk` is C62 (one), as e-invoices count pieces, and `kg` is KGM. What is unknown has
none, and is not guessed.
"""

import re
from functools import lru_cache
from types import MappingProxyType

from counterfoil.documents.alphabets import plain

_WORDS = {
    "C62": "u nr st stk stck stuck pc pcs pce pces pz pza pzs pezzo pezzi pieza piezas piece pieces each ea unit units"
    " unite unites unita unidad unidades ud uds eenheid eenheden enhed enheder stuks styk einheit einheiten",
    "HUR": "h hr hrs hour hours std stde stdn stunde stunden heure heures ora ore hora horas uur uren time timer",
    "DAY": "day days tag tage tagen tg jour jours giorno giorni dia dias dag dagen dage",
    "WEE": "week weeks woche wochen semaine semaines settimana settimane semana semanas weken uge uger",
    "MON": "month months mon monat monate mois mese mesi mes meses maand maanden maned maneder",
    "ANN": "year years jahr jahre annee annees anno anni ano anos jaar",
    "MIN": "min minute minutes minuten minuto minuti minutos minuut minutter",
    "KGM": "kg kgs kilo kilos kilogramm kilogram kilograms kilogramme kilogrammes chilogrammo chilogrammi",
    "GRM": "g gr gramm gram grams gramme grammes grammo grammi gramos",
    "TNE": "t to tonne tonnen tonnes ton tonnellata tonnellate tonelada toneladas",
    "LTR": "l lt ltr ltrs liter liters litre litres litro litri litros",
    "MLT": "milliliter millilitre",
    "HLT": "hl hektoliter hectolitre",
    "MTR": "m mtr meter meters metre metres metro metri metros lfm lfdm lm",
    "CMT": "cm zentimeter centimeter centimetre",
    "MMT": "mm millimeter millimetre",
    "KMT": "km kilometer kilometre kilometres chilometri kilometros",
    "MTK": "m2 qm sqm quadratmeter mq",
    "MTQ": "m3 cbm kubikmeter mc",
    "KWH": "kwh kilowattstunde kilowattstunden",
    "MWH": "mwh",
    "KWT": "kw",
    "PR": "pr paar pair pairs paire paires paio paia par pares paren",
    "SET": "set sets satz satze",
    "XPK": "pk pkg pack packs packung packungen paket pakete pckg pkt package packages paquet paquets pacco pacchi"
    " paquete paquetes confezione confezioni conf pak pakken pakke pakker",
    "XBX": "box boxes bx schachtel schachteln boite boites scatola scatole caja cajas doos aeske aesker",
    "XCT": "karton kartons krt ktn carton cartons ctn",
    "XRO": "rolle rollen roll rolls rouleau rouleaux rotolo rotoli rollo rollos rol rl",
    "XBO": "flasche flaschen bottle bottles bouteille bouteilles bottiglia bottiglie botella botellas fles flessen",
    "XPX": "palette paletten pallet pallets bancale bancali",
    "XBG": "beutel sack sacke bag bags sac sacs sacco sacchi saco sacos zak zakken",
    "LS": "pauschal pauschale psch",
    "DZN": "dutzend dtz",
    "KT": "kit kits",
}
"""Neither `ml`, which is running metres in Italian and French, too, nor `dozen`, which is boxes in Dutch."""
_CODES = MappingProxyType({word: code for code, words in _WORDS.items() for word in words.split()})
_PRINTED_CODES = frozenset(_WORDS) - {"MIN"} | {"H87", "NAR", "NMP", "XBC", "E48", "PK", "BX"}
_ALIKE = MappingProxyType(
    {
        "H87": "C62", "EA": "C62", "NAR": "C62", "XPP": "C62", "NMP": "XPK", "PK": "XPK", "PCK": "XPK", "PA": "XPA",
        "BX": "XBX", "CT": "XCT", "RO": "XRO", "NRL": "XRO", "BO": "XBO", "BG": "XBG", "BE": "XBE", "CA": "XCA",
        "CS": "XCS", "PF": "XPX", "PX": "XPX", "NPR": "PR",
    }
)  # fmt: skip
"""Codes that say the same as another one; older editions of Recommendation 20 had packages, too, without the X."""
_SYMBOLS = str.maketrans("²³", "23")
_PLURAL = re.compile(r"\((?:s|e|n|en|es|i)\)$")


def code(text: str) -> str | None:
    """Return the Rec 20 code of a unit as printed (`Stk.`, `m²`, `Liter(s)`, `HUR`), None where it is not certain."""
    written = text.strip(" .,:;/()[]")
    if written in _PRINTED_CODES:
        return written
    return _CODES.get(plain(_PLURAL.sub("", text.strip(" .,:;/")).translate(_SYMBOLS)).strip("()[]. "))


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
