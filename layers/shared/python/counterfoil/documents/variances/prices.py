"""Prices, price bases, tax rates and currencies of an invoice, against its order's. Pure."""

from collections.abc import Iterator
from decimal import Context, Decimal

from counterfoil.documents.structured import DocumentType
from counterfoil.documents.variances.credits import price_credited
from counterfoil.documents.variances.ledger import Entry, Item, Ledger
from counterfoil.documents.variances.model import Code, Document, Line, Variance, money, plain
from counterfoil.documents.variances.tolerances import Key, Tolerances
from counterfoil.documents.variances.units import spoken
from counterfoil.documents.variances.wording import naming

_SHOWN = Decimal("0.0001")
_EXACT = Context(prec=200)
"""For what is rounded to a place: with the default's 28 digits a larger number, however senseless, cannot be."""


def price_variances(ledger: Ledger, tolerances: Tolerances) -> Iterator[Variance]:
    """Prices and tax rates, line by line. Amounts in two currencies are not compared."""
    for item in ledger.items:
        if not item.is_ordered:
            continue
        for entry in item.of(DocumentType.INVOICE):
            if entry.is_lump:
                continue
            if _currencies(item.document, entry.document) is None:
                yield from _price(item, entry, tolerances)
            yield from _tax(item, entry, tolerances)


def currency_variances(ledger: Ledger, invoices: list[Document]) -> Iterator[Variance]:
    """Invoices in another currency than their order's."""
    for invoice in invoices:
        for order in ledger.orders_of.get(invoice.id, ()):
            differing = _currencies(order, invoice)
            if differing is not None:
                yield Variance(
                    code=Code.CURRENCY_MISMATCH,
                    document=invoice,
                    expected=differing[0],
                    actual=differing[1],
                    sentence=f"{invoice.heading} is in {differing[1]}, {order.title} in {differing[0]}.",
                )
                break


def _currencies(order: Document, invoice: Document) -> tuple[str, str] | None:
    if order.currency is None or invoice.currency is None or order.currency == invoice.currency:
        return None
    return order.currency, invoice.currency


def _price(item: Item, entry: Entry, tolerances: Tolerances) -> Iterator[Variance]:
    expected, actual = item.price, _billed(item, entry)
    if expected is None or actual is None or expected == actual:
        return
    limits = tolerances.limits(Key.PRICE, suppliers=entry.document.sellers, articles=item.articles)
    currency = entry.document.currency or item.document.currency
    same_figure = (
        item.line.unit_price is not None
        and item.line.unit_price == entry.line.unit_price
        and item.line.price_basis != entry.line.price_basis
        and entry.line.unit in (None, item.unit)
    )
    is_tolerated = limits.allow(expected, actual)
    said = entry.line.cost if actual == entry.price else entry.line.price
    billed = _stated(entry.line, said or actual, currency)
    ordered = _stated(item.line, expected, currency)
    percent = f", {_percent(expected, actual)}" if expected and not same_figure else ""
    what = f"billed at {billed}, ordered at {ordered}{percent}"
    yield Variance(
        code=Code.PRICE_BASIS_MISMATCH if same_figure else Code.PRICE_MISMATCH,
        document=entry.document,
        line=entry.line.label,
        expected=_rounded(expected),
        actual=_rounded(actual),
        difference=_rounded(actual - expected),
        unit=item.unit,
        currency=currency,
        limits=limits,
        is_tolerated=is_tolerated,
        sentence=f"{entry.document.heading}, line {entry.line.label}: {naming(item)} is {what}.",
        settled_by=price_credited(item, _too_high(item, entry)) if actual > expected else None,
    )


def _too_high(item: Item, last: Entry) -> list[tuple[Entry, Decimal]]:
    """The lines that bill more than was ordered, up to the last, and by how much for one unit."""
    entries = item.of(DocumentType.INVOICE)
    until = next(place for place, entry in enumerate(entries) if entry is last)
    return [
        (entry, price - item.price)
        for entry in entries[: until + 1]
        if item.price is not None and (price := _billed(item, entry)) is not None and price > item.price
    ]


def _billed(item: Item, entry: Entry) -> Decimal | None:
    """What one unit is billed at. Of a price and an amount that no discount can explain, the one that is further off.

    Where the price is the order's very figure, it is the basis that is not stated, and the amount says which.
    """
    line, expected = entry.line, item.price
    if line.is_discount or line.unit_price == item.line.unit_price or expected is None:
        return entry.price
    assert line.price is not None  # else what it comes to is its price
    assert line.cost is not None
    assert entry.price is not None
    stated = _EXACT.divide(_EXACT.multiply(entry.price, line.price), line.cost) if line.cost else line.price
    return max(stated, entry.price, key=lambda price: abs(price - expected))


def _stated(line: Line, price: Decimal, currency: str | None) -> str:
    """A price as its document states it: `12.50 EUR per 100 kg`; or what the line comes to, where that is another."""
    if line.unit_price is None:
        return money(_rounded(price), currency)
    if line.net is not None and line.quantity and price != line.price and price == line.cost:
        one, all_ = spoken(line.unit, Decimal(1)) or "unit", spoken(line.unit, line.quantity) or "units"
        worth = f"{money(line.net, currency)} for {plain(line.quantity)} {all_}"
        return f"{money(_rounded(price), currency)} per {one} ({worth})"
    basis = "" if line.price_basis == 1 else f"{plain(line.price_basis)} "
    return f"{money(line.unit_price, currency)} per {basis}{spoken(line.unit, line.price_basis) or 'unit'}"


def _percent(expected: Decimal, actual: Decimal) -> str:
    percent = (actual - expected) * 100 / abs(expected)
    return f"{plain(abs(percent).quantize(Decimal('0.1'), context=_EXACT))} % {'more' if percent > 0 else 'less'}"


def _rounded(number: Decimal) -> Decimal:
    """Enough places for the smallest price that anybody states, and no endless fractions."""
    return number if abs(number) < _SHOWN else number.quantize(_SHOWN, context=_EXACT)


def _tax(item: Item, entry: Entry, tolerances: Tolerances) -> Iterator[Variance]:
    expected, actual = item.line.tax_rate, entry.line.tax_rate
    if expected is None or actual is None or expected == actual:
        return
    limits = tolerances.limits(Key.TAX, suppliers=entry.document.sellers, articles=item.articles)
    title = entry.document.heading
    yield Variance(
        code=Code.TAX_MISMATCH,
        document=entry.document,
        line=entry.line.label,
        expected=expected,
        actual=actual,
        difference=actual - expected,
        unit="P1",
        limits=limits,
        is_tolerated=limits.allow(expected, actual),
        sentence=f"{title}, line {entry.line.label}: {naming(item)} is taxed at {plain(actual)} %, "
        f"ordered at {plain(expected)} %.",
    )
