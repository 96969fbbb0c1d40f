"""Net, tax and gross amount of a document, from their labels, checked by net plus tax is gross. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile

from counterfoil.documents.text import arithmetic, line_sums, wording_sums
from counterfoil.documents.text.evidence import Evidence
from counterfoil.documents.text.labelled import IN_OTHER_WORDS, begins, heads_goods
from counterfoil.documents.text.layout import Cell, Layout
from counterfoil.documents.text.line_numbers import NumberFormat, tokens
from counterfoil.documents.text.page import Word
from counterfoil.documents.text.wording import pattern

_KINDS = {
    "total_net": pattern(wording_sums.NET),
    "total_tax": pattern(wording_sums.TAX),
    "total_gross": pattern(wording_sums.GROSS),
    "payable": pattern(wording_sums.PAYABLE),
    "tax_part": pattern(wording_sums.TAX_PART),
    "sum": pattern(wording_sums.SUM),
}
_TAXES = frozenset({"total_tax", "tax_part"})
_WEIGHTS = {"total_net": 1.0, "total_tax": 1.0, "total_gross": 1.0, "payable": 0.6, "tax_part": 0.5, "sum": 0.3}
_RATE_BEFORE = re.compile(
    r"[\s.*•:(+\-]*(?:(?:zzgl|zuzugl|zuzuglich|inkl|enthaltene?|davon|darin|plus|incl|including|dont|di cui|waarvan"
    r"|heraf)\b\.?\s*){0,2}"
    r"\d{1,2}(?:[.,]\d{1,3})?\s*%(?:ige)?\s*(?=[a-z])"
)
"""A rate of tax before the name of the tax: `zzgl. 19 % MwSt.`"""
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
_LONGEST = 60  # letters between a label and its amount


@dataclass(frozen=True)
class Amount:
    """An amount that stands beside or below a label of its kind; the weight says how much the label tells."""

    value: Decimal
    weight: float
    cell: Cell


@dataclass(frozen=True)
class Totals:
    """The amounts that are stated, by field, with their evidence."""

    amounts: dict[str, Decimal]
    evidence: dict[str, Evidence]


def read(layout: Layout, form: NumberFormat) -> Totals:
    """Choose net, tax and gross among all labelled amounts: those that add up, and else those labelled best."""
    found: dict[str, list[Amount]] = {kind: [] for kind in _KINDS}
    for place, cell in enumerate(layout.cells):
        kind, end = label(cell)
        if kind is not None:
            found[kind] += _amounts(
                layout, cell, end, form, _WEIGHTS[kind] + _LATER * place / max(len(layout.cells), 1)
            )
    nets, grosses = found["total_net"] + found["sum"], found["total_gross"] + found["payable"]
    taxes = found["total_tax"] + found["tax_part"]
    best = _adding_up(nets, taxes, grosses)
    if best is None and (rounding := _rounding(layout, form)):
        best = _adding_up(nets, taxes, grosses, rounding)
    if best is not None:
        return _chosen(best, 0.98, "label and sum")
    charged = _charged(layout, form, nets, taxes, grosses)
    if charged is not None:
        return charged
    summed = _tax_by_parts(nets, found["tax_part"] + found["total_tax"], grosses)
    if summed is not None:
        return summed
    without = _without_tax(nets, grosses, taxes)
    return without or _chosen(
        {"total_net": _first(nets), "total_tax": _first(found["total_tax"]), "total_gross": _first(grosses)},
        0.6,
        "label",
    )


def label(cell: Cell) -> tuple[str | None, int]:
    """The kind of amount that a cell's label names, and where the label ends; the longest label wins."""
    rate = _RATE_BEFORE.match(cell.plain)
    starts = [
        (match.end(), kind)
        for kind, words in _KINDS.items()
        if (match := words.search(cell.plain, rate.end() if rate and kind in _TAXES else 0))
        and (begins(cell, match.start()) or (rate is not None and match.start() == rate.end()))
    ]
    if not starts:
        return None, 0
    end, named = max(starts)
    while mark := IN_OTHER_WORDS.match(cell.plain, end):
        again = [
            (match.end(), kind) for kind, words in _KINDS.items() if (match := words.match(cell.plain, mark.end()))
        ]
        if not again:
            break
        end, other = max(again)
        named = other if named == "sum" else named
    rest = cell.plain[end:]
    if named == "total_gross" and _EXCLUSIVE.search(rest):
        return "total_net", end
    if named == "total_net" and _INCLUSIVE.search(rest):
        return "total_gross", end
    return named, end


def _amounts(layout: Layout, cell: Cell, end: int, form: NumberFormat, weight: float) -> Iterator[Amount]:
    rest = cell.plain[end:]
    line = layout.line(cell)
    right = list(takewhile(_is_beside, line[line.index(cell) + 1 :]))
    numbers = [(number, other) for other in right if (number := _last_number(other.words, form)) is not None]
    if numbers and _may_follow(rest):
        number, other = numbers[-1]
        yield Amount(number, weight, other)
        return
    own = _last_number(_words_after(cell, end), form)
    if own is not None:
        first = re.search(r"[-\d]", rest)
        if first and _may_follow(rest[: first.start()].rstrip(" €£$")):
            yield Amount(own, weight, cell)
    elif not numbers and _may_follow(rest) and not heads_goods(layout, cell):
        yield from _below(layout, cell, form, weight)


def _may_follow(text: str) -> bool:
    """Tell whether a text between a label and its amount changes nothing about what the label says."""
    return len(text) <= _LONGEST and _MAY_FOLLOW.fullmatch(text) is not None


def _is_beside(cell: Cell) -> bool:
    """Tell what may stand between a label and its amount: numbers, percents, currencies and little words."""
    return len(re.sub(r"[\W\d_]|eur|von|of|in|auf|on|sur", "", cell.plain)) <= 4


def _below(layout: Layout, cell: Cell, form: NumberFormat, weight: float) -> Iterator[Amount]:
    """The numbers of the column under a label, the last of which may be the sum of those above it."""
    bottom, column = cell.bottom, []
    for other in layout.under(cell):
        number = _last_number(other.words, form) if _is_beside(other) else None
        if number is None or other.top > bottom + 4 * cell.height:
            break
        column.append(Amount(number, weight * _LOOSELY, other))
        bottom = other.bottom
    yield from column[-1:]


def _words_after(cell: Cell, end: int) -> Sequence[Word]:
    place, kept = 0, []
    for word in cell.words:
        if place >= end - 1:
            kept.append(word)
        place += len(word.text) + 1
    return kept


def _last_number(words: Sequence[Word], form: NumberFormat) -> Decimal | None:
    numbers = [token for token in tokens(words, form) if token.value is not None and not token.is_percent]
    return numbers[-1].value if numbers and len(numbers) == 1 else None


def _charged(
    layout: Layout, form: NumberFormat, nets: list[Amount], taxes: list[Amount], grosses: list[Amount]
) -> Totals | None:
    """Tax and gross amount where a charge below the sum of the lines makes them add up; the net amount follows."""
    charges = [
        amount.value
        for cell in layout.cells
        if line_sums.is_charge(cell.text)
        for amount in _amounts(layout, cell, len(cell.text), form, 1.0)
        if amount.value
    ]
    for charge in charges[:_MAX_CANDIDATES]:
        found = _adding_up(nets, taxes, grosses, charge)
        if (
            found is not None
            and (tax := found["total_tax"]) is not None
            and (gross := found["total_gross"]) is not None
        ):
            chosen = _chosen({"total_tax": tax, "total_gross": gross}, 0.9, "label and sum")
            chosen.amounts["total_net"] = gross.value - tax.value
            chosen.evidence["total_net"] = Evidence("arithmetic", 0.8, gross.cell.page)
            return chosen
    return None


def _rounding(layout: Layout, form: NumberFormat) -> Decimal:
    """What the document states to have rounded its sum by; 0 where it states nothing."""
    stated = (
        amount.value
        for cell in layout.cells
        if (label := _ROUNDING.match(cell.plain))
        for amount in _amounts(layout, cell, label.end(), form, 1.0)
    )
    return next((value for value in stated if abs(value) < 1), Decimal(0))


def _adding_up(
    nets: list[Amount], taxes: list[Amount], grosses: list[Amount], beside: Decimal = Decimal(0)
) -> dict[str, Amount | None] | None:
    best: tuple[float, dict[str, Amount | None]] | None = None
    for net in nets[-_MAX_CANDIDATES:]:
        for gross in grosses[-_MAX_CANDIDATES:]:
            for tax in taxes[-_MAX_CANDIDATES:]:
                weight = net.weight + tax.weight + gross.weight
                agrees = arithmetic.gross_agrees(net.value, tax.value, gross.value - beside)
                if agrees and (best is None or weight > best[0]):
                    best = weight, {"total_net": net, "total_tax": tax, "total_gross": gross}
    return None if best is None else best[1]


def _tax_by_parts(nets: list[Amount], parts: list[Amount], grosses: list[Amount]) -> Totals | None:
    """Net and gross whose difference is the sum of the taxes of each rate, each of which is stated."""
    distinct = list({part.cell: part for part in parts}.values())
    if len(distinct) < 2:
        return None
    tax = sum((part.value for part in distinct), Decimal(0))
    for gross in sorted(grosses, key=lambda amount: -amount.weight):
        for net in sorted(nets, key=lambda amount: -amount.weight):
            if arithmetic.gross_agrees(net.value, tax, gross.value):
                chosen = _chosen({"total_net": net, "total_gross": gross}, 0.95, "label and sum")
                chosen.amounts["total_tax"] = tax
                chosen.evidence["total_tax"] = Evidence("sum of its parts", 0.9, distinct[0].cell.page)
                return chosen
    return None


def _without_tax(nets: list[Amount], grosses: list[Amount], taxes: list[Amount]) -> Totals | None:
    """Net and gross that are the same, where no tax is stated or one of zero."""
    if any(tax.value for tax in taxes):
        return None
    for gross in sorted(grosses, key=lambda amount: -amount.weight):
        for net in sorted(nets, key=lambda amount: -amount.weight):
            if net.value == gross.value:
                return _chosen({"total_net": net, "total_tax": _first(taxes), "total_gross": gross}, 0.9, "label")
    return None


def _first(amounts: list[Amount]) -> Amount | None:
    """The best labelled amount, where the labels that are as good do not say different things."""
    amounts = [amount for amount in amounts if amount.weight >= _BESIDE]
    if not amounts:
        return None
    top = max(amounts, key=lambda amount: amount.weight)
    rivals = {amount.value for amount in amounts if amount.weight >= top.weight - _LATER}
    return top if len(rivals) == 1 else None


def _chosen(amounts: dict[str, Amount | None], confidence: float, source: str) -> Totals:
    stated = {name: amount for name, amount in amounts.items() if amount is not None}
    return Totals(
        {name: amount.value for name, amount in stated.items()},
        {name: Evidence(source, confidence, amount.cell.page) for name, amount in stated.items()},
    )
