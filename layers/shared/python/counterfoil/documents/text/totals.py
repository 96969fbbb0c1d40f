"""Reads totals, charges and tax rates, and verifies them by arithmetic. Pure.

Totals are found by their labels and verified: net plus tax equals gross. A discount, freight or packaging charge next
to the line items becomes a separate line item if line items and charges add up to a stated sum. If nothing adds up,
only charges in a table of charges become line items.

Printed amounts are rounded. Two amounts agree if rounding explains their difference: half a unit in the last place of
each printed number, propagated through the formula. Numbers with fewer than two decimal places count as exact to two.
Amounts are `Decimal`; rates and discounts are percentages.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations, islice, pairwise, permutations, takewhile
from typing import Any

from counterfoil.documents.lexicon import READER
from counterfoil.documents.text.layout import TRANSLATION_SEPARATOR, Cell, Layout, is_line_item_header, starts_at
from counterfoil.documents.text.page import Evidence, Page, Word
from counterfoil.documents.text.table_headings import Kind, heading_kinds, plain_heading
from counterfoil.documents.text.table_layout import NumberFormat, Row, Token, read_tokens

_CENT = Decimal("0.01")
_HALF = Decimal("0.5")
_ONE = Decimal(1)
_HUNDRED = Decimal(100)
_MAX_SEARCHED_LINES = 14
"""Maximum number of line items for an exhaustive search of subsets by tax rate. 2^14 sums take milliseconds."""


def line_net(quantity: Decimal, unit_price: Decimal, basis: Decimal = _ONE, discount: Decimal = Decimal(0)) -> Decimal:
    """Return quantity * price / price basis, less a discount in percent, unrounded."""
    return quantity * unit_price / basis * (_HUNDRED - discount) / _HUNDRED


def line_agrees(
    quantity: Decimal,
    unit_price: Decimal,
    net: Decimal,
    basis: Decimal = _ONE,
    discount: Decimal = Decimal(0),
) -> bool:
    """Return whether quantity * price / basis, less the discount, is the net amount.

    `discount` is in percent. Differences due to rounding are allowed.
    """
    if basis <= 0:
        return False
    tolerance = _half_place(unit_price) * abs(quantity) / basis + _half_place(net)
    return abs(line_net(quantity, unit_price, basis, discount) - net) <= tolerance


def sum_agrees(amounts: Iterable[Decimal], total: Decimal) -> bool:
    """Return whether amounts add up to a total.

    Each amount with more than two decimal places adds half a cent of tolerance.
    """
    amounts = tuple(amounts)
    finer = sum(1 for amount in amounts if _decimal_place(amount) < _CENT)
    return abs(sum(amounts, Decimal(0)) - total) <= (_CENT * _HALF * finer if finer else Decimal(0))


def tax_agrees(base: Decimal, rate: Decimal, tax: Decimal, parts: int = 1) -> bool:
    """Return whether `rate` percent of `base` equals the tax.

    Each of `parts` parts may be rounded to a cent.
    """
    return abs(base * rate / _HUNDRED - tax) <= _CENT * _HALF * max(parts, 1)


def gross_agrees(net: Decimal, tax: Decimal, gross: Decimal) -> bool:
    """Return whether net plus tax equals gross, to the cent."""
    return net + tax == gross


def indices_of_sum(amounts: Sequence[Decimal], total: Decimal) -> tuple[int, ...] | None:
    """Return the indices of the only subset that adds up to a total.

    Returns None if no subset or several do, and for more than 14 amounts.
    """
    if len(amounts) > _MAX_SEARCHED_LINES:
        return None
    subsets: list[tuple[int, ...]] = []
    for size in range(1, len(amounts) + 1):
        for subset in combinations(range(len(amounts)), size):
            if sum((amounts[index] for index in subset), Decimal(0)) == total:
                subsets.append(subset)
                if len(subsets) > 1:
                    return None
    return subsets[0] if subsets else None


def _decimal_place(amount: Decimal) -> Decimal:
    """Return the unit of a printed number's last decimal place, at most 0.01."""
    exponent = amount.as_tuple().exponent
    return Decimal(1).scaleb(min(exponent, -2)) if isinstance(exponent, int) else _CENT


def _half_place(amount: Decimal) -> Decimal:
    return _decimal_place(amount) * _HALF


_ALIGNED = 5.0  # alignment tolerance in points
_WITHIN_A_NAME = 0.8  # maximum gap between words of a name, in text heights
_HIGHEST_RATE = 40  # maximum tax rate in percent
_MOST_NUMBERS, _MOST_CODES = 8, 100

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
_CHARGE_PREFIX = re.compile(
    r"(?:abzgl|abzüglich|zzgl|zuzüglich|plus|less|minus|abschlag|zuschlag|allowance|charge)\b\.?:?\s+(?=\S)",
    re.IGNORECASE,
)
_REASON_CODE = re.compile(r"\s*\([A-Z]{2,3}\)$")


@dataclass(frozen=True)
class Charge:
    """A discount or charge stated by one row.

    `is_aligned` is true if the amount is in the column of the line items' amounts, `is_in_table` if the row is in a
    table of charges.
    """

    description: str
    token: Token
    is_allowance: bool
    is_aligned: bool
    is_in_table: bool
    row: Row

    @property
    def amount(self) -> Decimal:
        """Printed amount, with its sign."""
        return self.token.value or Decimal(0)


@dataclass(frozen=True)
class TotalReconciliation:
    """Line items and charges that make up the net total.

    `lines` contains the indices of the line items, `charges` the charges with their signed amounts. `is_proven` is true
    if they add up to a stated sum.
    """

    lines: tuple[int, ...]
    charges: tuple[tuple[Charge, Decimal], ...]
    is_proven: bool


def charges(rows: Sequence[Row], right: float | None) -> Iterator[Charge]:
    """Yield the discounts and charges that rows state.

    `right` is the right edge of the line items' amounts in points, or None if unknown.
    A table of charges starts with its heading and ends at the first row that is not a charge.
    """
    is_in_table, last_name = False, ""
    for row in rows:
        is_in_table = is_in_table or _is_heading(row)
        plain = plain_heading(_words(row))
        match = _CHARGE.fullmatch(plain)
        if match is None or not is_charge(_words(row)):
            is_in_table = is_in_table and not _SUM_OF.match(plain)
            continue
        last_name = _name(row) or last_name
        numbers = [token for token in row.tokens if token.value and not token.is_percent and _has_cents(token)]
        if not numbers:
            continue
        aligned = [token for token in numbers if right is not None and abs(token.right - right) <= _ALIGNED]
        amount = (aligned or numbers)[-1]
        is_allowance = (match["type"] or match["lead"] or "") in _DISCOUNT_WORDS or match["allowance"] is not None
        yield Charge(last_name or _words(row), amount, is_allowance, bool(aligned), is_in_table, row)


def is_charge(text: str) -> bool:
    """Return whether a text names a discount or charge.

    Returns False for sums and payment terms.
    """
    plain = plain_heading(text)
    return _CHARGE.fullmatch(plain) is not None and not (_NO_CHARGE.fullmatch(plain) or _SUM_OF.match(plain))


def _has_cents(token: Token) -> bool:
    exponent = (token.value or Decimal(0)).as_tuple().exponent
    return isinstance(exponent, int) and exponent <= -2


def _is_heading(row: Row) -> bool:
    """Return whether a row is the heading of a table of charges.

    This heading has columns for bases and amounts.
    """
    words = set(plain_heading(_words(row)).split())
    return bool(words & _BASE) and bool(words & _AMOUNT) and not any(token.value for token in row.tokens)


_BASE = frozenset({"basisbetrag", "grundbetrag", "base", "prozent", "percentage"})
_AMOUNT = frozenset({"betrag", "amount", "montant", "importo", "importe", "bedrag", "belob"})
_TYPES = frozenset({"", "abzgl", "abzuglich", "zzgl", "zuzuglich", "plus", "less", "minus", "abschlag", "zuschlag"})
_DISCOUNT_WORDS = frozenset({"abzgl", "abzuglich", "less", "minus", "abschlag", "allowance", "remise"})


def _words(row: Row) -> str:
    return " ".join(token.text for token in row.tokens if token.value is None)


def _name(row: Row) -> str:
    """Return a charge's name: the words before the first number or basis.

    Numbers of one or two digits right after a word are part of the name. Returns an empty string if the row only says
    "discount" or "charge", as in the second row of a cell.
    """
    words: list[str] = []
    for previous, token in pairwise((None, *row.tokens)):
        if token is None or _BASE & set(plain_heading(token.text).split()):
            break
        if token.value is not None:
            is_near = previous is not None and token.left - previous.right <= _WITHIN_A_NAME * row.height
            if token.is_percent or not is_near or not re.fullmatch(r"\d{1,2}:?", token.text):
                break
        words.append(token.text)
    name = _REASON_CODE.sub("", _CHARGE_PREFIX.sub("", " ".join(words))).rstrip(" :")
    return name if plain_heading(name) not in _TYPES and re.search(r"[^\W\d]{3}", name) else ""


def tax_rates(rows: Sequence[Row], nets: Sequence[Decimal | None]) -> list[Decimal | None]:
    """Return the tax rate of each amount, derived from the stated taxes.

    All rates are None if the stated taxes do not determine them. Stated taxes look like `19 % of 100.00 is 19.00`. A
    single rate whose base is the sum of all amounts applies to each amount. Several rates require unique, disjoint sets
    of amounts that add up to the bases and cover all amounts.
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
    rates = list(unknown)
    for rate, base in bases.items():
        indices = indices_of_sum(amounts, base)
        if indices is None or any(rates[index] is not None for index in indices):
            return unknown
        for index in indices:
            rates[index] = rate
    return unknown if None in rates else rates


def tax_codes(rows: Sequence[Row]) -> dict[Decimal, Decimal]:
    """Return tax rates by tax code, from a table of taxes.

    Its rows contain code, base, rate and tax, for example `1 | 1 134,56 | 20,00 | 226,91`.
    """
    codes: dict[Decimal, Decimal] = {}
    coded = (row for row in rows if (first := row.tokens[0].value) is not None and first == first.to_integral_value())
    for row in islice(coded, _MOST_CODES):
        code = row.tokens[0].value or Decimal(0)
        numbers = [token.value for token in row.tokens[1:] if token.value is not None]
        for rate, base, tax in permutations(numbers[:_MOST_NUMBERS], 3):
            if 0 < rate <= _HIGHEST_RATE and abs(tax) < abs(base) and tax_agrees(base, rate, tax):
                codes.setdefault(code, rate)
                break
    return codes


def _bases(rows: Sequence[Row], total: Decimal, count: int) -> Iterator[tuple[Decimal, Decimal]]:
    """Yield tax rates with their bases.

    They come from rows with rate, base and tax, or with rate and total tax.
    """
    for row in rows:
        rates = [token.value for token in row.tokens if token.is_percent and token.value is not None]
        numbers = [token.value for token in row.tokens if token.value is not None and not token.is_percent]
        if len(rates) != 1 or not _is_of_tax(row) or not 0 <= rates[0] <= _HIGHEST_RATE:
            continue
        for base, tax in permutations(numbers, 2):
            if base and tax_agrees(base, rates[0], tax, count) and abs(tax) < abs(base):
                yield rates[0], base
                break
        else:
            if any(tax_agrees(total, rates[0], tax, count) for tax in numbers):
                yield rates[0], total


def _is_of_tax(row: Row) -> bool:
    return any(Kind.TAX_RATE in heading_kinds(token.text) for token in row.tokens if token.value is None)


def reconcile(
    nets: Sequence[Decimal | None],
    is_optional: Sequence[bool],
    candidates: Sequence[Charge],
    stated_sums: frozenset[Decimal],
) -> TotalReconciliation:
    """Choose line items and charges that add up to a stated sum.

    All are chosen if possible. Line items marked in `is_optional` may be omitted. These sets of charges are tried in
    order: all charges, the charges aligned with the line items' amounts, the charges in tables of charges, all charges
    but one, and none. Each set is tried with the printed signs and then with negative discounts. Few combinations are
    tried, because more would match by coincidence. If none matches, the result has all line items and the charges in
    tables of charges.
    """
    all_lines = tuple(range(len(nets)))
    certain_lines = tuple(index for index in all_lines if not is_optional[index])
    if any(net is not None for net in nets):
        for lines in dict.fromkeys((all_lines, certain_lines)):
            base = sum((net for index in lines if (net := nets[index]) is not None), Decimal(0))
            for chosen in _charge_choices(candidates):
                for amount_of in (_as_printed, _as_discount):
                    amounts = [(charge, amount_of(charge)) for charge in chosen]
                    if base + sum((amount for _, amount in amounts), Decimal(0)) in stated_sums:
                        return TotalReconciliation(lines, tuple(amounts), is_proven=True)
    from_tables = tuple((charge, _as_discount(charge)) for charge in candidates if charge.is_in_table)
    return TotalReconciliation(all_lines, from_tables, is_proven=False)


def _charge_choices(candidates: Sequence[Charge]) -> Iterator[tuple[Charge, ...]]:
    """Yield choices of charges, the most likely first."""
    all_charges = tuple(candidates)
    choices = [all_charges, tuple(charge for charge in all_charges if charge.is_aligned)]
    choices.append(tuple(charge for charge in all_charges if charge.is_in_table))
    choices += [all_charges[:index] + all_charges[index + 1 :] for index in range(len(all_charges))]
    yield from dict.fromkeys([*choices, ()])


def _as_printed(charge: Charge) -> Decimal:
    return charge.amount


def _as_discount(charge: Charge) -> Decimal:
    """Return a charge's amount. A discount printed without a sign becomes negative."""
    return -charge.amount if charge.is_allowance and charge.amount > 0 else charge.amount


_KINDS = READER.patterns("labels.sum")
_TAXES = frozenset({"total_tax", "tax_part"})
_WEIGHTS = {"total_net": 1.0, "total_tax": 1.0, "total_gross": 1.0, "payable": 0.6, "tax_part": 0.5, "sum": 0.3}
_RATE_BEFORE = re.compile(
    r"[\s.*•:(+\-]*(?:(?:zzgl|zuzugl|zuzuglich|inkl|enthaltene?|davon|darin|plus|incl|including|dont|di cui|waarvan"
    r"|heraf)\b\.?\s*){0,2}"
    r"\d{1,2}(?:[.,]\d{1,3})?\s*%(?:ige)?\s*(?=[a-z])"
)
"""A tax rate before the name of the tax: `zzgl. 19 % MwSt.`"""
_MAY_FOLLOW = re.compile(
    r"(?:\([^()]*\)|[\s.:*=+@]|\d+(?:[.,]\d+)?\s*%|\b(?:in|of|von)\b|"
    r"\b(?:auf|von|aus|on|of|sur|su|sobre|over|van|af)\s+(?:eur\s|€\s?)?\d[\d.,' ]*|\b(?:at|a|zu|al|af)\s+(?=\d)|"
    r"\b(?:eur|euro|chf|gbp|usd|dkk|sek|nok|pln|czk|huf|dem)\b|[€£$]|"
    r"(?:inkl|exkl|incl|excl|ekskl|eks|inc|ohne|uden|zzgl|inklusive|exklusive|including|excluding)\.?"
    r"(?:\s+(?:ust|mwst|vat|tva|iva|btw|moms|tax|taxes|steuer)\.?)?|"
    r"\b(?:ust|mwst|vat|tva|iva|btw|moms|ht|ttc|htva|tvac|brutto|netto|gross|net)\b\.?)*"
)
_ROUNDING = re.compile(r"(?:rundung\w*|arrondi\w*|rounding|arrotondamento|redondeo|afronding|afrunding|oreafrunding)\b")
_INCLUSIVE = re.compile(r"(?:inkl|incl|inc|brutto|ttc|inclusi)")
_EXCLUSIVE = re.compile(
    r"(?:exkl|excl|ekskl|\beks\b|ohne|uden|netto|\bht\b|hors|esclus|senza|\bsin\b|zonder|before|zzgl)"
)
_LATER, _LOOSELY, _BESIDE = 0.01, 0.4, 0.45
_MAX_CANDIDATES = 40
_LONGEST = 60  # characters between a label and its amount


@dataclass(frozen=True)
class Amount:
    """An amount beside or below its label. `weight` is the strength of the label."""

    value: Decimal
    weight: float
    cell: Cell


@dataclass(frozen=True)
class Totals:
    """Stated totals by field, with their evidence."""

    amounts: dict[str, Decimal]
    evidence: dict[str, Evidence]


def read(layout: Layout, form: NumberFormat) -> Totals:
    """Choose net, tax and gross amounts that add up.

    If none do, choose the amounts with the best labels.
    """
    candidates: dict[str, list[Amount]] = {kind: [] for kind in _KINDS}
    for index, cell in enumerate(layout.cells):
        kind, end = label(cell)
        if kind is not None:
            candidates[kind] += _amounts(
                layout, cell, end, form, _WEIGHTS[kind] + _LATER * index / max(len(layout.cells), 1)
            )
    nets, grosses = candidates["total_net"] + candidates["sum"], candidates["total_gross"] + candidates["payable"]
    taxes = candidates["total_tax"] + candidates["tax_part"]
    best = _best_sum(nets, taxes, grosses)
    if best is None and (rounding := _rounding(layout, form)):
        best = _best_sum(nets, taxes, grosses, rounding)
    if best is not None:
        return _totals_of(best, 0.98, "label and sum")
    with_charge = _totals_with_charge(layout, form, nets, taxes, grosses)
    if with_charge is not None:
        return with_charge
    by_parts = _tax_by_parts(nets, candidates["tax_part"] + candidates["total_tax"], grosses)
    if by_parts is not None:
        return by_parts
    untaxed = _without_tax(nets, grosses, taxes)
    return untaxed or _totals_of(
        {"total_net": _first(nets), "total_tax": _first(candidates["total_tax"]), "total_gross": _first(grosses)},
        0.6,
        "label",
    )


def label(cell: Cell) -> tuple[str | None, int]:
    """Return the kind and end of a cell's longest amount label, or (None, 0)."""
    rate = _RATE_BEFORE.match(cell.plain)
    starts = [
        (match.end(), kind)
        for kind, words in _KINDS.items()
        if (match := words.search(cell.plain, rate.end() if rate and kind in _TAXES else 0))
        and (starts_at(cell, match.start()) or (rate is not None and match.start() == rate.end()))
    ]
    if not starts:
        return None, 0
    end, best_kind = max(starts)
    while mark := TRANSLATION_SEPARATOR.match(cell.plain, end):
        translations = [
            (match.end(), kind) for kind, words in _KINDS.items() if (match := words.match(cell.plain, mark.end()))
        ]
        if not translations:
            break
        end, other = max(translations)
        best_kind = other if best_kind == "sum" else best_kind
    rest = cell.plain[end:]
    if best_kind == "total_gross" and _EXCLUSIVE.search(rest):
        return "total_net", end
    if best_kind == "total_net" and _INCLUSIVE.search(rest):
        return "total_gross", end
    return best_kind, end


def _amounts(layout: Layout, cell: Cell, end: int, form: NumberFormat, weight: float) -> Iterator[Amount]:
    rest = cell.plain[end:]
    line = layout.line(cell)
    cells_right = list(takewhile(_is_beside, line[line.index(cell) + 1 :]))
    numbers = [(number, other) for other in cells_right if (number := _last_number(other.words, form)) is not None]
    if numbers and _may_follow(rest):
        number, other = numbers[-1]
        yield Amount(number, weight, other)
        return
    own_number = _last_number(_words_after(cell, end), form)
    if own_number is not None:
        first = re.search(r"[-\d]", rest)
        if first and _may_follow(rest[: first.start()].rstrip(" €£$")):
            yield Amount(own_number, weight, cell)
    elif not numbers and _may_follow(rest) and not is_line_item_header(layout, cell):
        yield from _last_below(layout, cell, form, weight)


def _may_follow(text: str) -> bool:
    """Return whether text between a label and its amount keeps the label's meaning."""
    return len(text) <= _LONGEST and _MAY_FOLLOW.fullmatch(text) is not None


def _is_beside(cell: Cell) -> bool:
    """Return whether a cell may be between a label and its amount.

    It may be a number or a currency, for example.
    """
    return len(re.sub(r"[\W\d_]|eur|von|of|in|auf|on|sur", "", cell.plain)) <= 4


def _last_below(layout: Layout, cell: Cell, form: NumberFormat, weight: float) -> Iterator[Amount]:
    """Yield the last number in the column below a label.

    This number may be the column's sum.
    """
    bottom, column = cell.bottom, []
    for other in layout.under(cell):
        number = _last_number(other.words, form) if _is_beside(other) else None
        if number is None or other.top > bottom + 4 * cell.height:
            break
        column.append(Amount(number, weight * _LOOSELY, other))
        bottom = other.bottom
    yield from column[-1:]


def _words_after(cell: Cell, end: int) -> Sequence[Word]:
    position, remaining = 0, []
    for word in cell.words:
        if position >= end - 1:
            remaining.append(word)
        position += len(word.text) + 1
    return remaining


def _last_number(words: Sequence[Word], form: NumberFormat) -> Decimal | None:
    numbers = [token for token in read_tokens(words, form) if token.value is not None and not token.is_percent]
    return numbers[-1].value if numbers and len(numbers) == 1 else None


def _totals_with_charge(
    layout: Layout, form: NumberFormat, nets: list[Amount], taxes: list[Amount], grosses: list[Amount]
) -> Totals | None:
    """Return totals that add up if a charge below the line items is included.

    The net amount is derived.
    """
    charges = [
        amount.value
        for cell in layout.cells
        if is_charge(cell.text)
        for amount in _amounts(layout, cell, len(cell.text), form, 1.0)
        if amount.value
    ]
    for charge in charges[:_MAX_CANDIDATES]:
        amounts = _best_sum(nets, taxes, grosses, charge)
        if (
            amounts is not None
            and (tax := amounts["total_tax"]) is not None
            and (gross := amounts["total_gross"]) is not None
        ):
            chosen = _totals_of({"total_tax": tax, "total_gross": gross}, 0.9, "label and sum")
            chosen.amounts["total_net"] = gross.value - tax.value
            chosen.evidence["total_net"] = Evidence("arithmetic", 0.8, gross.cell.page)
            return chosen
    return None


def _rounding(layout: Layout, form: NumberFormat) -> Decimal:
    """Return the stated rounding difference of the total; 0 if none is stated."""
    values = (
        amount.value
        for cell in layout.cells
        if (label := _ROUNDING.match(cell.plain))
        for amount in _amounts(layout, cell, label.end(), form, 1.0)
    )
    return next((value for value in values if abs(value) < 1), Decimal(0))


def _best_sum(
    nets: list[Amount], taxes: list[Amount], grosses: list[Amount], charge: Decimal = Decimal(0)
) -> dict[str, Amount | None] | None:
    best: tuple[float, dict[str, Amount | None]] | None = None
    for net in nets[-_MAX_CANDIDATES:]:
        for gross in grosses[-_MAX_CANDIDATES:]:
            for tax in taxes[-_MAX_CANDIDATES:]:
                weight = net.weight + tax.weight + gross.weight
                is_consistent = gross_agrees(net.value, tax.value, gross.value - charge)
                if is_consistent and (best is None or weight > best[0]):
                    best = weight, {"total_net": net, "total_tax": tax, "total_gross": gross}
    return None if best is None else best[1]


def _tax_by_parts(nets: list[Amount], parts: list[Amount], grosses: list[Amount]) -> Totals | None:
    """Return totals whose net and gross differ by the sum of the taxes per rate."""
    distinct = list({part.cell: part for part in parts}.values())
    if len(distinct) < 2:
        return None
    tax = sum((part.value for part in distinct), Decimal(0))
    for gross in sorted(grosses, key=lambda amount: -amount.weight):
        for net in sorted(nets, key=lambda amount: -amount.weight):
            if gross_agrees(net.value, tax, gross.value):
                chosen = _totals_of({"total_net": net, "total_gross": gross}, 0.95, "label and sum")
                chosen.amounts["total_tax"] = tax
                chosen.evidence["total_tax"] = Evidence("sum of its parts", 0.9, distinct[0].cell.page)
                return chosen
    return None


def _without_tax(nets: list[Amount], grosses: list[Amount], taxes: list[Amount]) -> Totals | None:
    """Return equal net and gross amounts if no tax, or a tax of zero, is stated."""
    if any(tax.value for tax in taxes):
        return None
    for gross in sorted(grosses, key=lambda amount: -amount.weight):
        for net in sorted(nets, key=lambda amount: -amount.weight):
            if net.value == gross.value:
                return _totals_of({"total_net": net, "total_tax": _first(taxes), "total_gross": gross}, 0.9, "label")
    return None


def _first(amounts: list[Amount]) -> Amount | None:
    """Return the amount with the best label, or None if it is unclear.

    It is unclear if equally good labels have different amounts, or if all labels are weak.
    """
    amounts = [amount for amount in amounts if amount.weight >= _BESIDE]
    if not amounts:
        return None
    top = max(amounts, key=lambda amount: amount.weight)
    rivals = {amount.value for amount in amounts if amount.weight >= top.weight - _LATER}
    return top if len(rivals) == 1 else None


def _totals_of(amounts: dict[str, Amount | None], confidence: float, source: str) -> Totals:
    known = {name: amount for name, amount in amounts.items() if amount is not None}
    return Totals(
        {name: amount.value for name, amount in known.items()},
        {name: Evidence(source, confidence, amount.cell.page) for name, amount in known.items()},
    )


_FIELD_OF_LABEL = {
    "payable": "total_gross",
    "sum": "total_net",
    "tax_part": "total_tax",
    "total_gross": "total_gross",
    "total_net": "total_net",
    "total_tax": "total_tax",
}
"""Field names in structured data, by kind of label."""
MIN_LOST_CHARACTERS = 3
"""Minimum characters of an unreadable amount. Shorter text is more likely a bullet or a symbol."""


def unreadable_warning(pages: Sequence[Page], fields: Mapping[str, Any]) -> str | None:
    """Return a sentence that names missing fields with unreadable amounts, or None.

    The amounts are visible, but their font has no mapping to text. The page can still be legible, because its other
    fonts may have a mapping.
    """
    missing = unreadable_amounts(pages, fields)
    if not missing:
        return None
    numbers = sorted(set(missing.values()))
    location = f"page {numbers[0]}" if len(numbers) == 1 else f"pages {', '.join(map(str, numbers))}"
    return (
        f"These fields are printed on {location} in a font without usable characters: {', '.join(sorted(missing))}. "
        "Print the document to a new PDF and send that."
    )


def unreadable_amounts(pages: Sequence[Page], fields: Mapping[str, Any]) -> dict[str, int]:
    """Return the first page with unreadable amounts for each missing field.

    A field is missing if it is not in `fields`. Pages count from 1. Fields without unreadable amounts are not included.
    """
    lost_words = {
        number: [word for word in page.lost_words if len(word.text) >= MIN_LOST_CHARACTERS]
        for number, page in enumerate(pages, 1)
    }
    if not any(lost_words.values()):
        return {}
    pages_by_field: dict[str, int] = {}
    for field, page in _lost_fields(Layout(pages), lost_words):
        if field not in fields:
            pages_by_field.setdefault(field, page)
    return pages_by_field


def _lost_fields(layout: Layout, lost_words: Mapping[int, Sequence[Word]]) -> Iterator[tuple[str, int]]:
    """Yield the field and page of unreadable words.

    The words are to the right of a label, or in a table row.
    """
    for line in layout.lines:
        if not line:
            continue
        page, top, bottom = line[0].page, min(cell.top for cell in line), max(cell.bottom for cell in line)
        words_on_line = [word for word in lost_words[page] if top <= (word.top + word.bottom) / 2 <= bottom]
        labels = [(cell, kind) for cell in line if (kind := label(cell)[0]) is not None]
        for cell, kind in labels:
            if any(word.left >= cell.left for word in words_on_line):
                yield _FIELD_OF_LABEL[kind], page
        if words_on_line and not labels and len(line) > 1:
            yield "line_items", page
