"""Lines against the sum that a document states: what proves them, and the discounts and charges between. Pure.

A discount, freight or packaging that a document bills beside its lines is one more line. It counts when lines and
charges together are a sum that the document states; in a table of charges it counts without.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, pairwise, permutations

from counterfoil.documents.text import arithmetic
from counterfoil.documents.text.line_numbers import Token
from counterfoil.documents.text.line_rows import Row
from counterfoil.documents.text.line_vocabulary import Kind, heading, plain_heading

_ALIGNED = 5.0
_WITHIN_A_NAME = 0.8
_HIGHEST_RATE = 40
_MOST_NUMBERS, _MOST_CODES = 8, 100
"""Points; of the text's height; percent of tax."""

_ALLOWANCES = (
    r"\w*rabatt\w*|\w*nachlass\w*|abschlag|discount|allowance|rebate|remise|ristourne|sconto|abbuono|descuento|dto"
    r"|korting|rabat|gutschein"
)
_CHARGES = (
    r"zuschlag|\w+zuschlag|versand\w*|fracht\w*|porto\w*|transport\w*|lieferkosten|lieferpauschale|verpackung\w*"
    r"|\w+verpackung|bearbeitungsgebuhr|mautgebuhr|maut|shipping|freight|postage|carriage|delivery (?:charge|cost|fee)"
    r"|handling|packaging|packing|surcharge|charge|frais|port|transports?|livraison|emballage|supplement|spese"
    r"|trasporto|imballo|portes|gastos|envio|embalaje|verzendkosten|verzending|vracht\w*|toeslag|verpakking\w*"
    r"|fragt|forsendelse|gebyr|tillaeg|emballage|auslagen\w*|nebenkosten\w*|disbursements?|debours|rimborso|onkosten"
)
_CHARGE = re.compile(
    rf"(?P<lead>abzgl|abzuglich|zzgl|zuzuglich|plus|less|minus|(?P<type>abschlag|zuschlag|allowance|charge|remise))?"
    rf"(?: ?.*?\b)?(?:(?P<allowance>{_ALLOWANCES})|(?P<charge>{_CHARGES}))\b.*"
)
_NO_CHARGE = re.compile(
    r".*\b(?:skonto|escompte|cash discount|zahlbar|zahlung|payment|pagamento|betaling|bestellungen)\b.*"
)
_SUM_OF = re.compile(r"(?:gesamt\w*|summe\w*|total\w*|sum|sub ?total|zwischensumme|warenwert|netto\w*|brutto\w*)\b.*")
_LEAD = re.compile(
    r"(?:abzgl|abzüglich|zzgl|zuzüglich|plus|less|minus|abschlag|zuschlag|allowance|charge)\b\.?:?\s+(?=\S)",
    re.IGNORECASE,
)
_REASON_CODE = re.compile(r"\s*\([A-Z]{2,3}\)$")


@dataclass(frozen=True)
class Charge:
    """A discount or charge that a row states, with the amount as printed.

    `is_aligned` where the amount stands below those of the lines, `is_tabled` in a table of charges.
    """

    description: str
    token: Token
    is_allowance: bool
    is_aligned: bool
    is_tabled: bool
    row: Row

    @property
    def amount(self) -> Decimal:
        """The amount as printed."""
        return self.token.value or Decimal(0)


@dataclass(frozen=True)
class Settlement:
    """Which lines and charges make a sum that the document states.

    `lines` are indices of those that count, `charges` the charges that count with their signed amount.
    """

    lines: tuple[int, ...]
    charges: tuple[tuple[Charge, Decimal], ...]
    is_proven: bool


def charges(rows: Sequence[Row], right: float | None) -> Iterator[Charge]:
    """The discounts and charges among rows; `right` is where the amounts of the lines end, in points.

    A table of charges is known by its heading, and goes on as long as its rows state charges.
    """
    is_tabled, last_name = False, ""
    for row in rows:
        is_tabled = is_tabled or _is_heading(row)
        plain = plain_heading(_words(row))
        match = _CHARGE.fullmatch(plain)
        if match is None or not is_charge(_words(row)):
            is_tabled = is_tabled and not _SUM_OF.match(plain)
            continue
        last_name = _name(row) or last_name
        numbers = [token for token in row.tokens if token.value and not token.is_percent and _has_cents(token)]
        if not numbers:
            continue
        aligned = [token for token in numbers if right is not None and abs(token.right - right) <= _ALIGNED]
        amount = (aligned or numbers)[-1]
        is_allowance = (match["type"] or match["lead"] or "") in _LESS or match["allowance"] is not None
        yield Charge(last_name or _words(row), amount, is_allowance, bool(aligned), is_tabled, row)


def is_charge(text: str) -> bool:
    """Tell whether a text names a discount or charge, and no sum or term of payment."""
    plain = plain_heading(text)
    return _CHARGE.fullmatch(plain) is not None and not (_NO_CHARGE.fullmatch(plain) or _SUM_OF.match(plain))


def _has_cents(token: Token) -> bool:
    exponent = (token.value or Decimal(0)).as_tuple().exponent
    return isinstance(exponent, int) and exponent <= -2


def _is_heading(row: Row) -> bool:
    """Tell whether a row is the heading of a table of charges: what they are on, and what they amount to."""
    words = set(plain_heading(_words(row)).split())
    return bool(words & _BASE) and bool(words & _AMOUNT) and not any(token.value for token in row.tokens)


_BASE = frozenset({"basisbetrag", "grundbetrag", "base", "prozent", "percentage"})
_AMOUNT = frozenset({"betrag", "amount", "montant", "importo", "importe", "bedrag", "belob"})
_TYPES = frozenset({"", "abzgl", "abzuglich", "zzgl", "zuzuglich", "plus", "less", "minus", "abschlag", "zuschlag"})
_LESS = frozenset({"abzgl", "abzuglich", "less", "minus", "abschlag", "allowance", "remise"})


def _words(row: Row) -> str:
    return " ".join(token.text for token in row.tokens if token.value is None)


def _name(row: Row) -> str:
    """What a charge is called: its words before numbers and bases; a short number beside them is part of the name.

    Empty where a row only says that it is a discount or charge, as the second of two rows of one cell may.
    """
    words: list[str] = []
    for before, token in pairwise((None, *row.tokens)):
        if token is None or _BASE & set(plain_heading(token.text).split()):
            break
        if token.value is not None:
            is_near = before is not None and token.left - before.right <= _WITHIN_A_NAME * row.height
            if token.is_percent or not is_near or not re.fullmatch(r"\d{1,2}:?", token.text):
                break
        words.append(token.text)
    name = _REASON_CODE.sub("", _LEAD.sub("", " ".join(words))).rstrip(" :")
    return name if plain_heading(name) not in _TYPES and re.search(r"[^\W\d]{3}", name) else ""


def tax_rates(rows: Sequence[Row], nets: Sequence[Decimal | None]) -> list[Decimal | None]:
    """The tax rate of each amount, as far as the taxes that rows state tell: `19 % of 100.00 is 19.00`.

    One rate for the sum of all amounts is the rate of each. Of several, each must be for the one choice of amounts that
    adds up to what it is on, and together they must be for all.
    """
    unknown: list[Decimal | None] = [None] * len(nets)
    amounts = [net for net in nets if net is not None]
    total = sum(amounts, Decimal(0))
    if not amounts or len(amounts) < len(nets):
        return unknown
    bases = dict(_bases(rows, total, len(nets)))
    if len(bases) == 1:
        rate, base = bases.popitem()
        return [rate] * len(nets) if base == total else unknown
    found = list(unknown)
    for rate, base in bases.items():
        chosen = arithmetic.indices_of_sum(amounts, base)
        if chosen is None or any(found[index] is not None for index in chosen):
            return unknown
        for index in chosen:
            found[index] = rate
    return unknown if None in found else found


def tax_codes(rows: Sequence[Row]) -> dict[Decimal, Decimal]:
    """The rates that a table of taxes gives to the codes in its first column: `1 | 1 134,56 | 20,00 | 226,91`."""
    codes: dict[Decimal, Decimal] = {}
    coded = (row for row in rows if (first := row.tokens[0].value) is not None and first == first.to_integral_value())
    for row in islice(coded, _MOST_CODES):
        code = row.tokens[0].value or Decimal(0)
        numbers = [token.value for token in row.tokens[1:] if token.value is not None]
        for rate, base, tax in permutations(numbers[:_MOST_NUMBERS], 3):
            if 0 < rate <= _HIGHEST_RATE and abs(tax) < abs(base) and arithmetic.tax_agrees(base, rate, tax):
                codes.setdefault(code, rate)
                break
    return codes


def _bases(rows: Sequence[Row], total: Decimal, count: int) -> Iterator[tuple[Decimal, Decimal]]:
    """Tax rates and what each is on: of rows with a rate, base and tax, or with a rate and the tax on the total."""
    for row in rows:
        rates = [token.value for token in row.tokens if token.is_percent and token.value is not None]
        numbers = [token.value for token in row.tokens if token.value is not None and not token.is_percent]
        if len(rates) != 1 or not _is_of_tax(row) or not 0 <= rates[0] <= _HIGHEST_RATE:
            continue
        for base, tax in permutations(numbers, 2):
            if base and arithmetic.tax_agrees(base, rates[0], tax, count) and abs(tax) < abs(base):
                yield rates[0], base
                break
        else:
            if any(arithmetic.tax_agrees(total, rates[0], tax, count) for tax in numbers):
                yield rates[0], total


def _is_of_tax(row: Row) -> bool:
    return any(Kind.TAX_RATE in heading(token.text) for token in row.tokens if token.value is None)


def settle(
    nets: Sequence[Decimal | None], weak: Sequence[bool], found: Sequence[Charge], stated: frozenset[Decimal]
) -> Settlement:
    """Choose what adds up to a stated sum: all lines and charges if they do, else without those that need not be.

    Lines that are `weak` may be none. Charges are tried together, as printed and with discounts negative; then those
    whose amounts stand below the lines', those of a table, and without one of them. Few tries, so that no sum comes
    about by chance. Where nothing adds up, all lines stay, and the charges that stand in a table of charges.
    """
    every = tuple(range(len(nets)))
    sure = tuple(index for index in every if not weak[index])
    if any(net is not None for net in nets):
        for lines in dict.fromkeys((every, sure)):
            base = sum((net for index in lines if (net := nets[index]) is not None), Decimal(0))
            for kept in _tries(found):
                for signed in (_as_printed, _as_less):
                    amounts = [(charge, signed(charge)) for charge in kept]
                    if base + sum((amount for _, amount in amounts), Decimal(0)) in stated:
                        return Settlement(lines, tuple(amounts), is_proven=True)
    tabled = tuple((charge, _as_less(charge)) for charge in found if charge.is_tabled)
    return Settlement(every, tabled, is_proven=False)


def _tries(found: Sequence[Charge]) -> Iterator[tuple[Charge, ...]]:
    """Choices of charges, the likelier first."""
    every = tuple(found)
    tries = [every, tuple(charge for charge in every if charge.is_aligned)]
    tries.append(tuple(charge for charge in every if charge.is_tabled))
    tries += [every[:index] + every[index + 1 :] for index in range(len(every))]
    yield from dict.fromkeys([*tries, ()])


def _as_printed(charge: Charge) -> Decimal:
    return charge.amount


def _as_less(charge: Charge) -> Decimal:
    """What a charge amounts to where discounts are printed without a sign."""
    return -charge.amount if charge.is_allowance and charge.amount > 0 else charge.amount
