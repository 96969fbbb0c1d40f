"""Units of measure as pages print them, in codes of UN/ECE Recommendation 20. Pure.

Packages have the codes of Recommendation 21 with an X before, as EN 16931 prescribes.

Only what is certain has a code: `Stk` is C62 (one), as e-invoices count pieces, and `kg` is KGM. What is unknown has
none, and is not guessed.
"""

import re
from types import MappingProxyType

from counterfoil.documents.matching.normalise import fold

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
    "MLT": "ml milliliter millilitre",
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
    "XBX": "box boxes bx schachtel schachteln boite boites scatola scatole caja cajas doos dozen aeske aesker",
    "XCT": "karton kartons krt ktn carton cartons ctn",
    "XRO": "rolle rollen roll rolls rouleau rouleaux rotolo rotoli rollo rollos rol rl",
    "XBO": "flasche flaschen bottle bottles bouteille bouteilles bottiglia bottiglie botella botellas fles flessen",
    "XPX": "palette paletten pallet pallets bancale bancali",
    "XBG": "beutel sack sacke bag bags sac sacs sacco sacchi saco sacos zak zakken",
    "LS": "pauschal pauschale psch",
    "DZN": "dutzend dtz",
    "KT": "kit kits",
}
_CODES = MappingProxyType({word: code for code, words in _WORDS.items() for word in words.split()})
_DOUBTFUL = frozenset({"ML", "ml"})
"""Running metres in Italian and French, millilitres elsewhere."""
_PRINTED_CODES = frozenset(_WORDS) - {"MIN"} | {"H87", "NAR", "NMP", "XBC", "E48", "PK", "BX"}
_SYMBOLS = str.maketrans("²³", "23")
_PLURAL = re.compile(r"\((?:s|e|n|en|es|i)\)$")
_IN_BRACKETS = re.compile(r"\(([^\W\d]+)\)\s*:?", re.UNICODE)
_PER = re.compile(r"\b(?:pro|je|per|par|por)\s+([^\W\d]+)\s*:?$", re.IGNORECASE)


def code(text: str) -> str | None:
    """Return the Rec 20 code of a unit as printed (`Stk.`, `m²`, `Liter(s)`, `HUR`), None where it is not certain."""
    plain = text.strip(" .,:;/()[]")
    if plain in _DOUBTFUL:
        return None
    if plain in _PRINTED_CODES:
        return plain
    return _CODES.get(fold(_PLURAL.sub("", text.strip(" .,:;/")).translate(_SYMBOLS)).strip("()[]. "))


def stated_in(description: str) -> str | None:
    """Return the unit that a description states for its quantity: `Consulting (hours)`, `Hot air per litre`."""
    for pattern in (_IN_BRACKETS, _PER):
        for match in pattern.finditer(description):
            if (found := code(match[1])) is not None and len(match[1]) > 1:
                return found
    return None
