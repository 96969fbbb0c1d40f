"""Units of measure, as canonical codes: which can be converted for certain, and how people call them. Pure.

Factors are exact by the definitions of the SI, of the international yard and pound (1959), and of time. What depends on
the goods (pieces in a box, metres on a reel) is not converted.
"""

from decimal import Decimal

_FACTORS = {
    unit: (dimension, Decimal(factor))
    for dimension, units in {
        "number": {"C62": "1", "DZN": "12", "CEN": "100", "MIL": "1000", "GRO": "144"},
        "mass": {"MGM": "0.000001", "GRM": "0.001", "DTN": "100", "KGM": "1", "TNE": "1000", "LBR": "0.45359237",
                 "ONZ": "0.028349523125"},
        "length": {"MMT": "0.001", "CMT": "0.01", "DMT": "0.1", "MTR": "1", "KMT": "1000", "INH": "0.0254",
                   "FOT": "0.3048", "YRD": "0.9144"},
        "area": {"MMK": "0.000001", "CMK": "0.0001", "MTK": "1", "HAR": "10000", "KMK": "1000000",
                 "FTK": "0.09290304"},
        "volume": {"MLT": "0.001", "CLT": "0.01", "DLT": "0.1", "LTR": "1", "HLT": "100", "MTQ": "1000",
                   "CMQ": "0.001", "DMQ": "1"},
        "time": {"SEC": "1", "MIN": "60", "HUR": "3600"},
        "energy": {"WHR": "1", "KWH": "1000", "MWH": "1000000"},
    }.items()
    for unit, factor in units.items()
}  # fmt: skip

_SERVICES = frozenset(
    {"SEC", "MIN", "HUR", "DAY", "WEE", "MON", "QAN", "SAN", "ANN", "E48", "E49", "E51", "LS", "ACT", "LH"}
)  # fmt: skip
"""Time, service units, jobs, activities and lump sums."""


_WORDS = {
    "C62": ("piece", "pieces"), "XBX": ("box", "boxes"), "XPK": ("pack", "packs"), "DZN": ("dozen", "dozen"),
    "XCT": ("carton", "cartons"), "XRO": ("roll", "rolls"), "XBO": ("bottle", "bottles"), "XBG": ("bag", "bags"),
    "XPX": ("pallet", "pallets"), "PR": ("pair", "pairs"), "SET": ("set", "sets"),
    "SEC": ("second", "seconds"), "MIN": ("minute", "minutes"), "HUR": ("hour", "hours"), "DAY": ("day", "days"),
    "WEE": ("week", "weeks"), "MON": ("month", "months"), "ANN": ("year", "years"), "E48": ("service", "services"),
    "MGM": ("mg", "mg"), "GRM": ("g", "g"), "KGM": ("kg", "kg"), "TNE": ("t", "t"), "MMT": ("mm", "mm"),
    "CMT": ("cm", "cm"), "MTR": ("m", "m"), "KMT": ("km", "km"), "MTK": ("m²", "m²"), "MLT": ("ml", "ml"),
    "LTR": ("l", "l"), "HLT": ("hl", "hl"), "MTQ": ("m³", "m³"), "KWH": ("kWh", "kWh"),
}  # fmt: skip
"""What people call a unit, of one and of several."""


def spoken(unit: str | None, quantity: Decimal) -> str:
    """A unit as a sentence names it; empty where none is stated, the code where people have no other word for it."""
    if unit is None:
        return ""
    return _WORDS.get(unit, (unit, unit))[abs(quantity) != 1]


def factor(unit: str | None, wanted: str | None) -> Decimal | None:
    """How many of `wanted` one `unit` is; None where that is not certain. A unit that is not stated is the wanted one.

    >>> factor("TNE", "KGM")
    Decimal('1000')
    """
    if unit == wanted or unit is None or wanted is None:
        return Decimal(1)
    mine, theirs = _FACTORS.get(unit), _FACTORS.get(wanted)
    if mine is None or theirs is None or mine[0] != theirs[0]:
        return None
    return mine[1] / theirs[1]


def is_goods(unit: str | None) -> bool:
    """Whether what is measured so is delivered: not time, and not a service."""
    return unit is not None and unit not in _SERVICES
