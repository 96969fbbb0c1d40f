"""Lines that bill no goods and no service of their own: freight, surcharges, fees, discounts, down payments. Pure.

Nobody orders them, and EN 16931 has a unit on every line, on these too: their words tell them apart. Words are those of
`normalise.words`: folded, without accents.
"""

from counterfoil.documents.matching.normalise import words

_ALONE = frozenset(
    words(
        "Fracht Frachtkosten Versand Versandkosten Versandkostenanteil Porto Verpackung Verpackungskosten Transport "
        "Transportkosten Lieferung Lieferkosten Zustellung Anlieferung Kosten pauschal Pauschale und inkl "
        "freight carriage shipping shipment postage packing packaging handling delivery transport charge charges cost "
        "costs fee and surcharge insurance rounding "
        "frais de port transport livraison emballage expedition et d participation aux "
        "trasporto spese di spedizione imballo consegna e "
        "portes debidos pagados gastos envio embalaje transporte y "
        "verzendkosten verzending vracht vrachtkosten verpakking verpakkingskosten transportkosten en "
        "fragt forsendelse emballage og levering Zoll Versicherung Bonus"
    ).split()
)
"""A line is a charge if it has none but these words: some of them also stand in the names of goods."""

_HEADS = frozenset(
    words(
        "Fracht Porto Maut Mautgebühr Zuschlag Zuschläge Zulage Rabatt Nachlass Skonto Abschlag Abschlagszahlung "
        "Anzahlung Anzahlungsrechnung Vorauszahlung Teilzahlung Pauschale Gebühr Gebühren Pfand Leergut Palettentausch "
        "Rundung Rundungsdifferenz Umlage "
        "freight postage surcharge surcharges discount rebate allowance prepayment toll "
        "remise rabais escompte ristourne acompte surcharge majoration "
        "supplemento spese sconto acconto anticipo maggiorazione arrotondamento sovrapprezzo "
        "suplemento gastos descuento anticipo recargo redondeo "
        "toeslag korting voorschot aanbetaling afronding statiegeld vracht "
        "fragt gebyr rabat aconto forudbetaling afrunding"
    ).split()
)
"""A line with one of these words is a charge, whatever else it says: `Anzahlung 30 % auf Bestellung 4711`."""

_FIRST = frozenset(words("frais supplement arrondi").split())
"""A line that begins with one of these words is a charge. Behind others they tell of goods: fresh ones, round ones."""

_TAILS = tuple(
    words(
        "zuschlag zuschläge kosten pauschale gebühr gebühren rabatt nachlass skonto anzahlung vorauszahlung maut "
        "umlage toeslag korting gebyr tillæg rabat"
    ).split()
)
"""What German, Dutch and Danish put together ends with: `Mindermengenzuschlag`."""

_PHRASES = tuple(
    f" {words(phrase)} "
    for phrase in (
        "down payment",
        "advance payment",
        "shipping charge",
        "shipping charges",
        "shipping cost",
        "shipping costs",
        "delivery charge",
        "delivery charges",
        "handling charge",
        "handling fee",
        "service charge",
        "processing fee",
    )
)


def is_charge(said: str) -> bool:
    """Whether a description, as `normalise.words` gives it, is of a charge.

    >>> is_charge("mindermengenzuschlag"), is_charge("transport box")
    (True, False)
    """
    telling = [word for word in said.split() if not word.isdigit()]
    if not telling:
        return False
    return (
        _ALONE.issuperset(telling)
        or telling[0] in _FIRST
        or any(word in _HEADS or word.endswith(_TAILS) for word in telling)
        or any(phrase in f" {said} " for phrase in _PHRASES)
    )
