"""Summary of a cluster for lists: its status, supplier, orders, amounts and age. Pure.

Amounts are net and in one currency: that of the first invoice, or else of the first order or other document. Documents
in other currencies do not count.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from uuid import UUID

from counterfoil.documents.structured import DocumentType
from counterfoil.documents.three_way_match.case import ClusterDocuments
from counterfoil.documents.three_way_match.model import (
    ClusterStatus,
    Document,
    LineComparison,
    Summary,
    ThreeWayMatchStatus,
    Variance,
    VarianceCode,
)

_CENT = Decimal("0.01")
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_WHOLE = frozenset(
    {
        VarianceCode.MISSING_PURCHASE_ORDER,
        VarianceCode.MISSING_DELIVERY,
        VarianceCode.DUPLICATE_INVOICE,
        VarianceCode.CURRENCY_MISMATCH,
    }
)
"""Codes that put the whole document at stake."""
_BILLS = (DocumentType.INVOICE, DocumentType.CREDIT_NOTE)


def summarize(
    case: ClusterDocuments,
    rows: Sequence[LineComparison],
    variances: Sequence[Variance],
    outcome: ThreeWayMatchStatus,
    *,
    incomparable: bool,
    needs_review: bool,
    unordered: Collection[Document],
) -> Summary:
    """Summarize a compared cluster.

    `incomparable`: a quantity's unit cannot be compared. `needs_review`: a reviewer must decide about a document.
    `unordered`: active invoices without any order.
    """
    own = [one for one in case.documents if one.type is not DocumentType.CONTRACT]
    invoices, orders = case.latest_orders(DocumentType.INVOICE), case.latest_orders(DocumentType.PURCHASE_ORDER)
    currency = next((one.currency for one in (*invoices, *orders, *own) if one.currency), None)
    first = min((one.received_at for one in own if one.type in _BILLS), default=None)
    return Summary(
        status=_status(variances, outcome, incomparable=incomparable, needs_review=needs_review),
        supplier=next((one.sellers[-1] for one in (*orders, *invoices, *own) if one.sellers), None),
        order_numbers=_order_numbers(own, orders),
        currency=currency,
        ordered=_sum(_net(one) for one in orders if one.currency in (None, currency)),
        delivered=_sum(_delivered(row) for row in rows if row.currency in (None, currency)),
        billed=_billed(case, currency),
        at_stake=_at_stake(rows, variances, unordered, currency),
        waiting_since=first or min((one.received_at for one in own), default=None),
        documents=len(own),
    )


def _status(
    variances: Iterable[Variance], outcome: ThreeWayMatchStatus, *, incomparable: bool, needs_review: bool
) -> ClusterStatus:
    open_ = [one for one in variances if one.is_open and not one.is_waiting]
    if incomparable or any(one.decision is None for one in open_):
        return ClusterStatus.EXCEPTION
    if needs_review:
        return ClusterStatus.NEEDS_REVIEW
    if open_:
        return ClusterStatus.DISPUTED
    if outcome is ThreeWayMatchStatus.INCOMPLETE:
        return ClusterStatus.INCOMPLETE
    is_accepted = any(one.decision == "accepted" for one in variances)
    return ClusterStatus.ACCEPTED if is_accepted else ClusterStatus.MATCHED


def _order_numbers(own: Sequence[Document], orders: Sequence[Document]) -> tuple[str, ...]:
    numbers = [one.number for one in orders if one.number]
    named = (one.text for document in own for one in document.named.get("po_reference", ()))
    return tuple(dict.fromkeys(numbers or named))


def _sum(amounts: Iterable[Decimal | None]) -> Decimal | None:
    known = [amount for amount in amounts if amount is not None]
    return _rounded(sum(known, Decimal(0))) if known else None


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(_CENT, context=_EXACT)


def _net(document: Document) -> Decimal | None:
    if document.net is not None:
        return document.net
    nets = [line.net for line in document.lines if line.net is not None]
    return sum(nets, Decimal(0)) if nets else document.gross


def _delivered(row: LineComparison) -> Decimal | None:
    quantity = row.received if row.received is not None else row.delivered
    if quantity is None or row.price is None:
        return None
    return _EXACT.multiply(quantity - (row.rejected or 0), row.price)


def _billed(case: ClusterDocuments, currency: str | None) -> Decimal | None:
    invoices, credits_ = (
        [_net(one) for one in case.latest_orders(type_) if one.currency in (None, currency)] for type_ in _BILLS
    )
    billed = _sum(invoices)
    return billed if billed is None else billed - sum((abs(one) for one in credits_ if one), Decimal(0))


# -- amount at stake ------------------------------------------------------------------------------------------------


def _at_stake(
    rows: Sequence[LineComparison], variances: Sequence[Variance], unordered: Collection[Document], currency: str | None
) -> Decimal:
    open_ = [one for one in variances if one.is_open and one.document.currency in (None, currency)]
    whole = {one.document.id: one.document for one in open_ if one.code in _WHOLE}
    whole |= {one.id: one for one in unordered if one.currency in (None, currency)}
    by_line = {(part.document, part.line): row for row in rows for part in row.parts}
    billed = {(part.document, part.line): part.quantity for row in rows for part in row.parts if part.role == "billed"}
    totals: dict[UUID, Decimal] = defaultdict(Decimal)
    prices = Decimal(0)
    quantities: dict[tuple[object, ...], Decimal] = defaultdict(Decimal)
    for one in open_:
        place = (one.document.id, one.line or "")
        row = by_line.get(place)
        if one.document.id in whole or one.difference is None:
            continue
        difference = abs(one.difference)
        if one.code in (VarianceCode.PRICE_MISMATCH, VarianceCode.PRICE_BASIS_MISMATCH):
            prices = _EXACT.add(prices, _EXACT.multiply(difference, abs(billed.get(place) or Decimal(0))))
        elif one.currency is not None:  # totals and tax of one invoice overlap
            totals[one.document.id] = max(totals[one.document.id], difference)
        elif one.code is VarianceCode.TAX_MISMATCH:
            prices = _EXACT.add(prices, _EXACT.multiply(difference, _line_net(one) / 100))
        else:  # billed beyond the order and beyond the delivery: the same money
            key = place if row is None else (row.order, row.line)
            quantities[key] = max(quantities[key], _EXACT.multiply(difference, _price(one, row)))
    sums = (prices, *totals.values(), *quantities.values(), *map(_worth, whole.values()))
    return _rounded(sum(sums, Decimal(0)))


def _worth(document: Document) -> Decimal:
    return abs(document.gross or _net(document) or Decimal(0))


def _line_net(variance: Variance) -> Decimal:
    nets: Mapping[str, Decimal | None] = {line.label: line.net for line in variance.document.lines}
    return abs(nets.get(variance.line or "") or Decimal(0))


def _price(variance: Variance, row: LineComparison | None) -> Decimal:
    if row is not None and row.price is not None:
        return abs(row.price)
    prices = {line.label: line.cost for line in variance.document.lines}
    return abs(prices.get(variance.line or "") or Decimal(0))
