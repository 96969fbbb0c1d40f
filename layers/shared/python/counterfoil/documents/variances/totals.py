"""An invoice against itself: its lines, its net total, its tax and their rates, its gross total. Pure."""

from collections.abc import Iterable, Iterator
from decimal import Context, Decimal

from counterfoil.documents.variances.model import Code, Document, Variance, money
from counterfoil.documents.variances.tolerances import Key, Tolerances

_HALF = Decimal("0.5")
_CENT = Decimal("0.01")
_EXACT = Context(prec=200)
"""For what is rounded to a place: with the default's 28 digits a larger number, however senseless, cannot be."""


def total_variances(invoices: Iterable[Document], tolerances: Tolerances) -> Iterator[Variance]:
    """Invoices whose lines do not come to their net total, or whose net and tax do not come to their gross total.

    Each invoice is reported once, by its lines where they are at fault.
    """
    for invoice in invoices:
        found = [variance for variance in _sums(invoice, tolerances) if variance is not None]
        open_first = sorted(found, key=lambda variance: variance.is_tolerated)
        yield from open_first[:1]


def tax_variances(invoices: Iterable[Document], tolerances: Tolerances) -> Iterator[Variance]:
    """Invoices whose tax is not what the rates of their lines come to.

    Only where each amount has its rate and all of them come to the net total; each line may have been rounded. The
    tolerance is that of totals.
    """
    for invoice in invoices:
        lines = [line for line in invoice.lines if line.net is not None]
        limits = tolerances.limits(Key.TOTAL, suppliers=invoice.sellers)
        if invoice.tax is None or invoice.net is None or any(line.tax_rate is None for line in lines) or not lines:
            continue
        if not limits.allow(invoice.net, sum((line.net for line in lines if line.net is not None), Decimal(0))):
            continue
        exact = sum((line.net * line.tax_rate / 100 for line in lines if line.net and line.tax_rate), Decimal(0))
        expected = exact.quantize(_CENT, context=_EXACT)
        if abs(invoice.tax - exact) <= _CENT / 2 * (len(lines) + 1):
            continue
        yield Variance(
            code=Code.TAX_MISMATCH,
            document=invoice,
            expected=expected,
            actual=invoice.tax,
            difference=invoice.tax - expected,
            currency=invoice.currency,
            limits=limits,
            is_tolerated=limits.allow(expected, invoice.tax),
            sentence=f"{invoice.heading}: its lines' tax rates come to {money(expected, invoice.currency)}, its tax is "
            f"{money(invoice.tax, invoice.currency)}.",
        )


def _sums(invoice: Document, tolerances: Tolerances) -> Iterator[Variance | None]:
    nets = [line.net for line in invoice.lines if line.net is not None]
    if nets and invoice.net is not None and all(line.net is not None for line in invoice.lines if line.quantity):
        lines = sum(nets, Decimal(0))
        yield _sum(invoice, lines, invoice.net, tolerances, "its lines come to", "its net total is")
    if invoice.net is not None and invoice.gross is not None and invoice.tax is not None:
        together = invoice.net + invoice.tax
        if _is_rounded(invoice.gross, together):
            return
        yield _sum(invoice, together, invoice.gross, tolerances, "net and tax come to", "its gross total is")


def _is_rounded(gross: Decimal, together: Decimal) -> bool:
    """Whether the amount to pay was rounded to a whole unit of the currency (EN 16931, BT-114)."""
    return gross == gross.to_integral_value() and abs(gross - together) <= _HALF


def _sum(
    invoice: Document, expected: Decimal, actual: Decimal, tolerances: Tolerances, parts: str, whole: str
) -> Variance | None:
    if expected == actual:
        return None
    limits = tolerances.limits(Key.TOTAL, suppliers=invoice.sellers)
    currency = invoice.currency
    return Variance(
        code=Code.TOTAL_MISMATCH,
        document=invoice,
        expected=expected,
        actual=actual,
        difference=actual - expected,
        currency=currency,
        limits=limits,
        is_tolerated=limits.allow(expected, actual),
        sentence=f"{invoice.heading}: {parts} {money(expected, currency)}, {whole} {money(actual, currency)}.",
    )
