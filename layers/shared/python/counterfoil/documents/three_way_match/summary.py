"""Summary of a cluster: status, supplier, orders, amounts and age. Pure.

Amounts are net and in one currency: the currency of the first invoice, or else of the first order or other document.
Documents in other currencies are not counted.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from uuid import UUID

from counterfoil.documents.structured import DocumentType
from counterfoil.documents.three_way_match.cluster import ClusterDocuments
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
_WHOLE_DOCUMENT_CODES = frozenset(
    {
        VarianceCode.MISSING_PURCHASE_ORDER,
        VarianceCode.MISSING_DELIVERY,
        VarianceCode.DUPLICATE_INVOICE,
        VarianceCode.CURRENCY_MISMATCH,
    }
)
"""Variance codes that affect a document's whole amount."""
_BILLS = (DocumentType.INVOICE, DocumentType.CREDIT_NOTE)


def summarize(
    cluster: ClusterDocuments,
    rows: Sequence[LineComparison],
    variances: Sequence[Variance],
    outcome: ThreeWayMatchStatus,
    *,
    incomparable: bool,
    needs_review: bool,
    unordered: Collection[Document],
) -> Summary:
    """Summarize a compared cluster.

    `incomparable`: the unit of a quantity cannot be converted. `needs_review`: a reviewer must decide about a document.
    `unordered`: active invoices with neither an order nor a contract.
    """
    documents = [document for document in cluster.documents if document.type is not DocumentType.CONTRACT]
    invoices, orders = cluster.active_of(DocumentType.INVOICE), cluster.active_of(DocumentType.PURCHASE_ORDER)
    currency = next((document.currency for document in (*invoices, *orders, *documents) if document.currency), None)
    first_bill = min((document.received_at for document in documents if document.type in _BILLS), default=None)
    return Summary(
        status=_status(variances, outcome, incomparable=incomparable, needs_review=needs_review),
        supplier=next(
            (document.sellers[-1] for document in (*orders, *invoices, *documents) if document.sellers), None
        ),
        order_numbers=_order_numbers(documents, orders),
        currency=currency,
        ordered=_sum(_net(document) for document in orders if document.currency in (None, currency)),
        delivered=_sum(_delivered(row) for row in rows if row.currency in (None, currency)),
        billed=_billed(cluster, currency),
        affected=_affected_amount(rows, variances, unordered, currency),
        waiting_since=first_bill or min((document.received_at for document in documents), default=None),
        documents=len(documents),
    )


def _status(
    variances: Iterable[Variance], outcome: ThreeWayMatchStatus, *, incomparable: bool, needs_review: bool
) -> ClusterStatus:
    open_variances = [variance for variance in variances if variance.is_open and not variance.is_waiting]
    if incomparable or any(variance.decision is None for variance in open_variances):
        return ClusterStatus.EXCEPTION
    if needs_review:
        return ClusterStatus.NEEDS_REVIEW
    if open_variances:
        return ClusterStatus.DISPUTED
    if outcome is ThreeWayMatchStatus.INCOMPLETE:
        return ClusterStatus.INCOMPLETE
    is_accepted = any(variance.decision == "accepted" for variance in variances)
    return ClusterStatus.ACCEPTED if is_accepted else ClusterStatus.MATCHED


def _order_numbers(documents: Sequence[Document], orders: Sequence[Document]) -> tuple[str, ...]:
    numbers = [order.number for order in orders if order.number]
    referenced = (reference.text for document in documents for reference in document.references.get("po_reference", ()))
    return tuple(dict.fromkeys(numbers or referenced))


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


def _billed(cluster: ClusterDocuments, currency: str | None) -> Decimal | None:
    invoices, credits_ = (
        [_net(document) for document in cluster.active_of(type_) if document.currency in (None, currency)]
        for type_ in _BILLS
    )
    billed = _sum(invoices)
    return billed if billed is None else billed - sum((abs(credit) for credit in credits_ if credit), Decimal(0))


# -- amount affected -------------------------------------------------------------------------------------------------


def _affected_amount(
    rows: Sequence[LineComparison], variances: Sequence[Variance], unordered: Collection[Document], currency: str | None
) -> Decimal:
    open_variances = [
        variance for variance in variances if variance.is_open and variance.document.currency in (None, currency)
    ]
    full_documents = {
        variance.document.id: variance.document for variance in open_variances if variance.code in _WHOLE_DOCUMENT_CODES
    }
    full_documents |= {document.id: document for document in unordered if document.currency in (None, currency)}
    by_line = {(part.document, part.line): row for row in rows for part in row.parts}
    billed_quantities = {
        (part.document, part.line): part.quantity for row in rows for part in row.parts if part.role == "billed"
    }
    totals: dict[UUID, Decimal] = defaultdict(Decimal)
    prices = Decimal(0)
    quantities: dict[tuple[object, ...], Decimal] = defaultdict(Decimal)
    for variance in open_variances:
        line_key = (variance.document.id, variance.line or "")
        row = by_line.get(line_key)
        if variance.document.id in full_documents or variance.difference is None:
            continue
        difference = abs(variance.difference)
        if variance.code in (VarianceCode.PRICE_MISMATCH, VarianceCode.PRICE_BASIS_MISMATCH):
            prices = _EXACT.add(prices, _EXACT.multiply(difference, abs(billed_quantities.get(line_key) or Decimal(0))))
        elif variance.currency is not None:  # totals and tax of one invoice overlap
            totals[variance.document.id] = max(totals[variance.document.id], difference)
        elif variance.code is VarianceCode.TAX_MISMATCH:
            prices = _EXACT.add(prices, _EXACT.multiply(difference, _line_net(variance) / 100))
        else:  # excesses over the order and over the delivery overlap
            key = line_key if row is None else (row.order, row.line)
            quantities[key] = max(quantities[key], _EXACT.multiply(difference, _price(variance, row)))
    sums = (prices, *totals.values(), *quantities.values(), *map(_document_value, full_documents.values()))
    return _rounded(sum(sums, Decimal(0)))


def _document_value(document: Document) -> Decimal:
    return abs(document.gross or _net(document) or Decimal(0))


def _line_net(variance: Variance) -> Decimal:
    nets: Mapping[str, Decimal | None] = {line.label: line.net for line in variance.document.lines}
    return abs(nets.get(variance.line or "") or Decimal(0))


def _price(variance: Variance, row: LineComparison | None) -> Decimal:
    if row is not None and row.price is not None:
        return abs(row.price)
    prices = {line.label: line.cost for line in variance.document.lines}
    return abs(prices.get(variance.line or "") or Decimal(0))
