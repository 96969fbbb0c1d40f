"""Finds the variances in a cluster, and determines the result. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from uuid import UUID

from counterfoil.documents.matching.normalize import Reference
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.three_way_match.cluster import (
    ClusterDocuments,
    Edges,
    canceled_duplicates,
    price_credit,
    quantity_credit,
    referenced_orders,
    references_order,
)
from counterfoil.documents.three_way_match.decisions import VarianceDecision, apply_decisions
from counterfoil.documents.three_way_match.ledger import (
    Item,
    Ledger,
    LedgerEntry,
    build_ledger,
    format_excess,
    format_quantity,
    is_or_are,
    item_label,
    total,
    was_or_were,
)
from counterfoil.documents.three_way_match.model import (
    ClusterStatus,
    Document,
    Line,
    LineComparison,
    LineContribution,
    Result,
    ThreeWayMatchStatus,
    Variance,
    VarianceCode,
    format_money,
    format_number,
    quote,
    truncate,
    unit_name,
)
from counterfoil.documents.three_way_match.summary import summarize
from counterfoil.documents.three_way_match.tolerances import Key, Tolerances

_PRICE_STEP = Decimal("0.0001")
_EXACT = Context(prec=200)
"""Precision for rounding. The default of 28 digits fails for very large numbers."""


def price_variances(ledger: Ledger, tolerances: Tolerances) -> Iterator[Variance]:
    """Compare prices and tax rates of line items.

    Prices in different currencies are not compared.
    """
    for item in ledger.items:
        if not item.is_ordered:
            continue
        for entry in item.entries_of(DocumentType.INVOICE):
            if entry.is_lump_sum:
                continue
            if _currencies(item.document, entry.document) is None:
                yield from _price(item, entry, tolerances)
            yield from _tax(item, entry, tolerances)


def currency_variances(ledger: Ledger, invoices: list[Document]) -> Iterator[Variance]:
    """Find invoices in a different currency than their order."""
    for invoice in invoices:
        for order in ledger.orders_by_document.get(invoice.id, ()):
            differing = _currencies(order, invoice)
            if differing is not None:
                yield Variance(
                    code=VarianceCode.CURRENCY_MISMATCH,
                    document=invoice,
                    expected=differing[0],
                    actual=differing[1],
                    message=f"{invoice.heading} is in {differing[1]}, {order.title} in {differing[0]}.",
                )
                break


def _currencies(order: Document, invoice: Document) -> tuple[str, str] | None:
    if order.currency is None or invoice.currency is None or order.currency == invoice.currency:
        return None
    return order.currency, invoice.currency


def _price(item: Item, entry: LedgerEntry, tolerances: Tolerances) -> Iterator[Variance]:
    expected, actual = item.price, _billed_price(item, entry)
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
    is_tolerated = limits.contains(expected, actual)
    stated_price = entry.line.cost if actual == entry.price else entry.line.price
    billed = _describe_price(entry.line, stated_price or actual, currency)
    ordered = _describe_price(item.line, expected, currency)
    percent = f", {_percent(expected, actual)}" if expected and not same_figure else ""
    comparison = f"billed at {billed}, ordered at {ordered}{percent}"
    yield Variance(
        code=VarianceCode.PRICE_BASIS_MISMATCH if same_figure else VarianceCode.PRICE_MISMATCH,
        document=entry.document,
        line=entry.line.label,
        expected=_rounded(expected),
        actual=_rounded(actual),
        difference=_rounded(actual - expected),
        unit=item.unit,
        currency=currency,
        limits=limits,
        is_tolerated=is_tolerated,
        message=f"{entry.document.heading}, line item {entry.line.label}: {item_label(item)} is {comparison}.",
        decided_by=price_credit(item, _too_high(item, entry)) if actual > expected else None,
    )


def _too_high(item: Item, last: LedgerEntry) -> list[tuple[LedgerEntry, Decimal]]:
    """Return the line items up to `last` that exceed the ordered price.

    Each has the excess per unit.
    """
    entries = item.entries_of(DocumentType.INVOICE)
    last_index = next(index for index, entry in enumerate(entries) if entry is last)
    return [
        (entry, price - item.price)
        for entry in entries[: last_index + 1]
        if item.price is not None and (price := _billed_price(item, entry)) is not None and price > item.price
    ]


def _billed_price(item: Item, entry: LedgerEntry) -> Decimal | None:
    """Return the billed price of one unit.

    If no discount explains the difference between price and amount, the value that differs more from the order counts.
    If the stated price equals the ordered price, only its basis is missing, and the amount counts.
    """
    line, expected = entry.line, item.price
    if line.has_plausible_cost or line.unit_price == item.line.unit_price or expected is None:
        return entry.price
    assert line.price is not None  # otherwise `cost` is the price
    assert line.cost is not None
    assert entry.price is not None
    stated_price = _EXACT.divide(_EXACT.multiply(entry.price, line.price), line.cost) if line.cost else line.price
    return max(stated_price, entry.price, key=lambda price: abs(price - expected))


def _describe_price(line: Line, price: Decimal, currency: str | None) -> str:
    """Return a price as stated, or as derived from the amount.

    A stated price looks like `12.50 EUR per 100 kg`.
    """
    if line.unit_price is None:
        return format_money(_rounded(price), currency)
    if line.net is not None and line.quantity and price != line.price and price == line.cost:
        singular, plural = unit_name(line.unit, Decimal(1)) or "unit", unit_name(line.unit, line.quantity) or "units"
        amounts = f"{format_money(line.net, currency)} for {format_number(line.quantity)} {plural}"
        return f"{format_money(_rounded(price), currency)} per {singular} ({amounts})"
    basis = "" if line.price_basis == 1 else f"{format_number(line.price_basis)} "
    return f"{format_money(line.unit_price, currency)} per {basis}{unit_name(line.unit, line.price_basis) or 'unit'}"


def _percent(expected: Decimal, actual: Decimal) -> str:
    percent = (actual - expected) * 100 / abs(expected)
    return (
        f"{format_number(abs(percent).quantize(Decimal('0.1'), context=_EXACT))}% {'more' if percent > 0 else 'less'}"
    )


def _rounded(number: Decimal) -> Decimal:
    """Round to four decimal places. Numbers below 0.0001 are not rounded."""
    return number if abs(number) < _PRICE_STEP else number.quantize(_PRICE_STEP, context=_EXACT)


def _tax(item: Item, entry: LedgerEntry, tolerances: Tolerances) -> Iterator[Variance]:
    expected, actual = item.line.tax_rate, entry.line.tax_rate
    if expected is None or actual is None or expected == actual:
        return
    limits = tolerances.limits(Key.TAX, suppliers=entry.document.sellers, articles=item.articles)
    title = entry.document.heading
    yield Variance(
        code=VarianceCode.TAX_MISMATCH,
        document=entry.document,
        line=entry.line.label,
        expected=expected,
        actual=actual,
        difference=actual - expected,
        unit="P1",
        limits=limits,
        is_tolerated=limits.contains(expected, actual),
        message=f"{title}, line item {entry.line.label}: {item_label(item)} is taxed at {format_number(actual)}%, "
        f"ordered at {format_number(expected)}%.",
    )


_ZERO = Decimal(0)


def quantity_variances(ledger: Ledger, tolerances: Tolerances) -> Iterator[Variance]:
    """Compare quantities per article."""
    for item in ledger.items:
        if item.is_ordered:
            yield from _delivered(ledger, item, tolerances)
        yield from _billed_quantities(ledger, item, tolerances)


def _delivered(ledger: Ledger, item: Item, tolerances: Tolerances) -> Iterator[Variance]:
    """Find short and excess deliveries. The variance belongs to the last delivery."""
    delivered, ordered = ledger.delivered_quantity(item), item.ordered
    if delivered is None or ordered is None or not item.is_goods or delivered == ordered:
        return
    limits = tolerances.limits(Key.DELIVERED_QUANTITY, suppliers=item.document.sellers, articles=item.articles)
    last = ledger.deliveries(item.document)[-1]
    last_entries = [entry for entry in item.entries if entry.document.id == last.id]
    yield Variance(
        code=VarianceCode.UNDER_DELIVERED if delivered < ordered else VarianceCode.OVER_DELIVERED,
        document=last,
        line=last_entries[-1].line.label if last_entries else None,
        expected=ordered,
        actual=delivered,
        difference=delivered - ordered,
        unit=item.unit,
        limits=limits,
        is_tolerated=limits.contains(ordered, delivered),
        message=_delivery_message(item, ordered, delivered),
    )


def _delivery_message(item: Item, ordered: Decimal, delivered: Decimal) -> str:
    difference = abs(delivered - ordered)
    if delivered < ordered:
        ratio = f"{format_number(delivered)} of {format_quantity(ordered, item)} ordered"
        missing = f"{format_quantity(difference, item)} {is_or_are(difference)} missing"
        return f"{item_label(item)}: {ratio} {was_or_were(delivered)} delivered; {missing}."
    limit = f"{format_quantity(ordered, item)} {was_or_were(ordered)} ordered"
    delivered_text = f"{format_number(delivered)} {was_or_were(delivered)} delivered"
    return f"{item_label(item)}: {limit}, but {delivered_text} ({format_excess(difference, item)})."


@dataclass(frozen=True, slots=True)
class _Bound:
    """Maximum billed quantity, and the variance if more is billed."""

    code: VarianceCode
    quantity: Decimal
    words: str


def _bounds(ledger: Ledger, item: Item) -> Iterator[_Bound]:
    delivered = ledger.delivered_quantity(item)
    if item.ordered is not None:
        yield _Bound(VarianceCode.OVER_ORDERED_AMOUNT, item.ordered, "ordered")
    if delivered is not None and item.is_goods:
        yield _Bound(VarianceCode.OVER_BILLED_QUANTITY, delivered, "delivered")
        if item.rejected:
            yield _Bound(VarianceCode.REJECTED_GOODS_BILLED, max(_ZERO, delivered - item.rejected), "accepted")


def _billed_quantities(ledger: Ledger, item: Item, tolerances: Tolerances) -> Iterator[Variance]:
    """Find excess billed quantities.

    The variance belongs to the first invoice beyond the maximum.
    """
    for bound in _bounds(ledger, item):
        crossing = _first_beyond(item, bound.quantity)
        if crossing is None:
            continue
        entry, billed = crossing
        limits = tolerances.limits(Key.BILLED_QUANTITY, suppliers=entry.document.sellers, articles=item.articles)
        yield Variance(
            code=bound.code,
            document=entry.document,
            line=entry.line.label,
            expected=bound.quantity,
            actual=billed,
            difference=billed - bound.quantity,
            unit=item.unit,
            limits=limits,
            is_tolerated=limits.contains(bound.quantity, billed),
            message=_excess_message(item, entry, billed, bound),
            decided_by=quantity_credit(item, billed - bound.quantity),
            awaited_deliveries=_awaited_deliveries(ledger, item, billed)
            if bound.code is VarianceCode.OVER_BILLED_QUANTITY
            else None,
        )


def _first_beyond(item: Item, bound: Decimal) -> tuple[LedgerEntry, Decimal] | None:
    """Return the first line item beyond the maximum, and the total billed quantity.

    Returns None if the total does not exceed the maximum.
    """
    billed, crossing = _ZERO, None
    for entry in item.entries_of(DocumentType.INVOICE):
        billed = total((billed, entry.quantity or _ZERO))
        if crossing is None and billed > bound:
            crossing = entry
    return None if crossing is None or billed <= bound else (crossing, billed)


def _excess_message(item: Item, entry: LedgerEntry, billed: Decimal, bound: _Bound) -> str:
    invoices = {
        billed_entry.document.id for billed_entry in item.entries_of(DocumentType.INVOICE) if billed_entry.quantity
    }
    is_single = len(invoices) == 1
    subject = entry.document.heading if is_single else f"With {entry.document.title}, {len(invoices)} invoices together"
    only = "only " if bound.quantity else ""
    limit = f"{only}{format_quantity(bound.quantity, item)} {was_or_were(bound.quantity)} {bound.words}"
    bills = f"{'bills' if is_single else 'bill'} {format_quantity(billed, item)} of {item_label(item)}"
    return f"{subject} {bills}, but {limit} ({format_excess(billed - bound.quantity, item)})."


def _awaited_deliveries(ledger: Ledger, item: Item, billed: Decimal) -> str | None:
    """Return a sentence about missing deliveries that an article's invoices name.

    Returns None if none is missing, or if more is billed than ordered.

    A delivery that no invoice names may belong to a misread number. It therefore counts as one of the missing
    deliveries.
    """
    if item.ordered is None or billed > item.ordered:
        return None
    invoices = [entry.document for entry in item.entries_of(DocumentType.INVOICE)]
    by_text = {
        reference.text: reference
        for invoice in invoices
        for reference in invoice.references.get("delivery_note_reference", ())
    }
    known_numbers = [
        {reference for reference in (document.reference, *_notes_of(document)) if reference}
        for document in ledger.delivery_documents(item.document)
    ]
    missing = [
        text
        for text, reference in by_text.items()
        if not any(_is_among(reference, numbers) for numbers in known_numbers)
    ]
    unnamed = [
        numbers for numbers in known_numbers if not any(_is_among(reference, numbers) for reference in by_text.values())
    ]
    if len(missing) <= len(unnamed):
        return None
    plural = len(missing) > 1
    numbers = ", ".join(map(truncate, missing))
    verb = "have" if plural else "has"
    return f"It names {'deliveries' if plural else 'delivery'} {numbers}, which {verb} not been received."


def _notes_of(document: Document) -> Sequence[Reference]:
    return document.references.get("delivery_note_reference", ())


def _is_among(reference: Reference, references: Iterable[Reference]) -> bool:
    return any(reference.folded & other.folded for other in references)


_HALF = Decimal("0.5")
_CENT = Decimal("0.01")


def total_variances(invoices: Iterable[Document], tolerances: Tolerances) -> Iterator[Variance]:
    """Find invoices whose line items or totals do not add up.

    Line items must add up to the net total, and net and tax to the gross total. Each invoice has at most one variance.
    An open variance takes precedence, then a variance of its line items.
    """
    for invoice in invoices:
        sums = [variance for variance in _sums(invoice, tolerances) if variance is not None]
        open_first = sorted(sums, key=lambda variance: variance.is_tolerated)
        yield from open_first[:1]


def tax_variances(invoices: Iterable[Document], tolerances: Tolerances) -> Iterator[Variance]:
    """Find invoices whose tax does not follow from the rates of their line items.

    Checks only invoices whose line items all have a rate and add up to the net total. The tax of each line item may be
    rounded. The tolerance for totals applies.
    """
    for invoice in invoices:
        lines = [line for line in invoice.lines if line.net is not None]
        limits = tolerances.limits(Key.TOTAL, suppliers=invoice.sellers)
        if invoice.tax is None or invoice.net is None or any(line.tax_rate is None for line in lines) or not lines:
            continue
        if not limits.contains(invoice.net, sum((line.net for line in lines if line.net is not None), Decimal(0))):
            continue
        exact = sum((line.net * line.tax_rate / 100 for line in lines if line.net and line.tax_rate), Decimal(0))
        expected = exact.quantize(_CENT, context=_EXACT)
        if abs(invoice.tax - exact) <= _CENT / 2 * (len(lines) + 1):
            continue
        yield Variance(
            code=VarianceCode.TAX_MISMATCH,
            document=invoice,
            expected=expected,
            actual=invoice.tax,
            difference=invoice.tax - expected,
            currency=invoice.currency,
            limits=limits,
            is_tolerated=limits.contains(expected, invoice.tax),
            message=f"{invoice.heading}: the tax rates of its line items result in "
            f"{format_money(expected, invoice.currency)}, "
            f"but its tax is {format_money(invoice.tax, invoice.currency)}.",
        )


def _sums(invoice: Document, tolerances: Tolerances) -> Iterator[Variance | None]:
    nets = [line.net for line in invoice.lines if line.net is not None]
    if nets and invoice.net is not None and all(line.net is not None for line in invoice.lines if line.quantity):
        line_sum = sum(nets, Decimal(0))
        yield _total_variance(
            invoice, line_sum, invoice.net, tolerances, "its line items add up to", "but its net total is"
        )
    if invoice.net is not None and invoice.gross is not None and invoice.tax is not None:
        sum_of_parts = invoice.net + invoice.tax
        if _is_rounded(invoice.gross, sum_of_parts):
            return
        yield _total_variance(
            invoice, sum_of_parts, invoice.gross, tolerances, "net and tax add up to", "but its gross total is"
        )


def _is_rounded(gross: Decimal, sum_of_parts: Decimal) -> bool:
    """Return True if the payable amount is rounded (EN 16931, BT-114).

    It must be a whole number of currency units, at most half a unit from the sum.
    """
    return gross == gross.to_integral_value() and abs(gross - sum_of_parts) <= _HALF


def _total_variance(
    invoice: Document, expected: Decimal, actual: Decimal, tolerances: Tolerances, parts_text: str, total_text: str
) -> Variance | None:
    if expected == actual:
        return None
    limits = tolerances.limits(Key.TOTAL, suppliers=invoice.sellers)
    currency = invoice.currency
    return Variance(
        code=VarianceCode.TOTAL_MISMATCH,
        document=invoice,
        expected=expected,
        actual=actual,
        difference=actual - expected,
        currency=currency,
        limits=limits,
        is_tolerated=limits.contains(expected, actual),
        message=f"{invoice.heading}: {parts_text} {format_money(expected, currency)}, "
        f"{total_text} {format_money(actual, currency)}.",
    )


_ORDER = {code: place for place, code in enumerate(VarianceCode)}
_ROLES = {
    DocumentType.PURCHASE_ORDER: "ordered",
    DocumentType.ORDER_CONFIRMATION: "confirmed",
    DocumentType.DELIVERY_NOTE: "delivered",
    DocumentType.GOODS_RECEIPT: "received",
    DocumentType.INVOICE: "billed",
    DocumentType.CREDIT_NOTE: "credited",
}


def find_variances(
    documents: Iterable[Document],
    edges: Edges,
    tolerances: Tolerances | None = None,
    decisions: Collection[VarianceDecision] = (),
    ambiguous_ids: Collection[UUID] = (),
    confirmed_ids: Collection[UUID] = (),
) -> Result:
    """Compare the documents of a cluster.

    `documents` are the cluster's documents and their contracts, and `edges` are the links between them. If `tolerances`
    is None, the defaults apply. `decisions` are the latest decisions about differences. `ambiguous_ids` are the
    documents with an open review, and `confirmed_ids` the documents with a confirmed match.
    """
    limits = tolerances or Tolerances()
    cluster = ClusterDocuments(sorted(documents, key=lambda document: document.sort_key), edges)
    ledger = build_ledger(
        cluster.active_documents, cluster.anchors, cluster.reference_documents, cluster.paired_deliveries
    )
    invoices = cluster.active_of(DocumentType.INVOICE)
    variances = [
        *_duplicates(cluster),
        *_missing_orders(cluster, ledger, invoices),
        *_missing_deliveries(cluster, ledger, invoices),
        *currency_variances(ledger, invoices),
        *quantity_variances(ledger, limits),
        *_unordered_items(ledger, invoices),
        *_over_ordered_totals(ledger, invoices, limits),
        *price_variances(ledger, limits),
        *total_variances(invoices, limits),
        *tax_variances(invoices, limits),
    ]
    decided = list(apply_decisions(variances, decisions))
    decided.sort(key=lambda variance: (variance.is_tolerated, variance.decided_by is not None, *_sort_key(variance)))
    outcome, reasons = _outcome(cluster, ledger, decided)
    rows = tuple(_rows(ledger))
    review = list(_for_review(cluster, ambiguous_ids, confirmed_ids))
    summary = summarize(
        cluster,
        rows,
        decided,
        outcome,
        incomparable=bool(ledger.incomparable),
        needs_review=bool(review),
        unordered=[invoice for invoice in invoices if _is_unordered(cluster, ledger, invoice)],
    )
    if summary.status is ClusterStatus.NEEDS_REVIEW:
        reasons = review + reasons
    return Result(outcome, tuple(reasons), tuple(decided), rows, tuple(_remarks(cluster, ledger)), summary)


def _sort_key(variance: Variance) -> tuple[object, ...]:
    return variance.document.sort_key, _ORDER[variance.code], variance.line or "", variance.message


# -- duplicate and missing documents ----------------------------------------------------------------------------------


def _duplicates(cluster: ClusterDocuments) -> Iterator[Variance]:
    by_id = {document.id: document for document in cluster.documents}
    cancellations = canceled_duplicates(cluster)
    for id_, original in cluster.duplicates.items():
        duplicate = by_id[id_]
        number, original_number = duplicate.reference, original.reference
        same_number = (
            number is not None and original_number is not None and bool(number.folded & original_number.folded)
        )
        subject = "an earlier invoice with this number" if same_number else original.title
        facts = [original.day.isoformat()] if original.day else []
        facts += [format_money(original.gross, original.currency)] if original.gross is not None else []
        details = f" ({', '.join(facts)})" if facts else ""
        yield Variance(
            code=VarianceCode.DUPLICATE_INVOICE,
            document=duplicate,
            expected=original.number,
            actual=duplicate.number,
            currency=duplicate.currency,
            message=f"{duplicate.heading} is a duplicate of {subject}{details}.",
            decided_by=cancellations.get(id_),
        )


def _missing_orders(cluster: ClusterDocuments, ledger: Ledger, invoices: Sequence[Document]) -> Iterator[Variance]:
    orders = cluster.documents_of(DocumentType.PURCHASE_ORDER)
    for invoice in invoices:
        invoice_orders = [
            candidate
            for candidate in ledger.orders_by_document.get(invoice.id, ())
            if candidate.type is DocumentType.PURCHASE_ORDER
        ]
        by_text = {reference.text: reference for reference in referenced_orders(invoice)}
        unknown = [
            text
            for text, reference in by_text.items()
            if not any(order.reference and reference.folded & order.reference.folded for order in orders)
        ]
        # An order that the invoice does not name may belong to a misread number.
        unnamed = [order for order in invoice_orders if not references_order(invoice, order)]
        if unknown and len(unknown) > len(unnamed):
            numbers = ", ".join(map(truncate, unknown))
            orders_named, verb = ("purchase orders", "have") if len(unknown) > 1 else ("purchase order", "has")
            yield Variance(
                code=VarianceCode.MISSING_PURCHASE_ORDER,
                document=invoice,
                expected=numbers,
                message=f"{invoice.heading} names {orders_named} {numbers}, which {verb} not been received.",
            )


def _missing_deliveries(cluster: ClusterDocuments, ledger: Ledger, invoices: Sequence[Document]) -> Iterator[Variance]:
    for invoice in invoices:
        for order in ledger.orders_by_document.get(invoice.id, ()):
            billed = [item for item in ledger.items_of(order) if item.is_goods and _billed_quantity(item, invoice) > 0]
            if order.type is not DocumentType.PURCHASE_ORDER or not billed or ledger.deliveries(order):
                continue
            if any(order in ledger.orders_by_document.get(delivery.id, ()) for delivery in cluster.lineless_documents):
                continue  # a delivery has unreadable line items
            first_item = (
                f"{format_quantity(_billed_quantity(billed[0], invoice), billed[0])} of {item_label(billed[0])}"
            )
            suffix = _more_line_items(len(billed) - 1, " and ")
            yield Variance(
                code=VarianceCode.MISSING_DELIVERY,
                document=invoice,
                expected=order.number,
                message=f"{invoice.heading} bills {first_item}{suffix}, but there is no delivery note or goods "
                f"receipt for {order.title}.",
            )


def _more_line_items(count: int, conjunction: str) -> str:
    return f"{conjunction}{count} more line item{'s' if count > 1 else ''}" if count else ""


def _billed_quantity(item: Item, invoice: Document) -> Decimal:
    return sum(
        (entry.quantity for entry in item.entries if entry.document.id == invoice.id and entry.quantity), Decimal(0)
    )


def _unordered_items(ledger: Ledger, invoices: Sequence[Document]) -> Iterator[Variance]:
    """Find billed goods and services that are not in the invoice's orders."""
    for invoice in invoices:
        orders = ledger.orders_by_document.get(invoice.id, ())
        if not orders or any(order.type is not DocumentType.PURCHASE_ORDER or not order.lines for order in orders):
            continue
        for line in ledger.unmatched_lines.get(invoice.id, ()):
            if line.is_item and line.quantity and line.quantity > 0:
                label = quote(line.description or line.article_text or "")
                yield Variance(
                    code=VarianceCode.OVER_ORDERED_AMOUNT,
                    document=invoice,
                    line=line.label,
                    expected=Decimal(0),
                    actual=line.quantity,
                    difference=line.quantity,
                    unit=line.unit,
                    message=f"{invoice.heading}, line item {line.label}: {label} is billed but was not ordered.",
                )


def _over_ordered_totals(ledger: Ledger, invoices: Sequence[Document], tolerances: Tolerances) -> Iterator[Variance]:
    """Find invoices without articles that bill more than their orders are worth."""
    for invoice in invoices:
        orders = ledger.orders_by_document.get(invoice.id, ())
        items = [item for order in orders for item in ledger.items_of(order)]
        prices = [item.price * item.ordered for item in items if item.price is not None and item.ordered]
        nets = [
            line.net for line in ledger.unmatched_lines.get(invoice.id, ()) if line.net is not None and not line.is_item
        ]
        if (
            not prices
            or len(nets) != len(invoice.lines)
            or any(candidate.currency != invoice.currency for candidate in orders)
        ):
            continue
        ordered, billed = sum(prices, Decimal(0)), sum(nets, Decimal(0))
        limits = tolerances.limits(Key.TOTAL, suppliers=invoice.sellers)
        if billed > ordered:
            numbers = " and ".join(order.title for order in orders)
            yield Variance(
                code=VarianceCode.OVER_ORDERED_AMOUNT,
                document=invoice,
                expected=ordered,
                actual=billed,
                difference=billed - ordered,
                currency=invoice.currency,
                limits=limits,
                is_tolerated=limits.contains(ordered, billed),
                message=f"{invoice.heading} bills {format_money(billed, invoice.currency)} without naming an article; "
                f"{numbers} {'is' if len(orders) == 1 else 'are'} worth {format_money(ordered, invoice.currency)}.",
            )


# -- result -----------------------------------------------------------------------------------------------------------


def _outcome(
    cluster: ClusterDocuments, ledger: Ledger, variances: Sequence[Variance]
) -> tuple[ThreeWayMatchStatus, list[str]]:
    """Return the status and its reasons, most important first."""
    exceptions = [variance.message for variance in variances if variance.is_open and not variance.is_waiting]
    exceptions += [_incomparable_message(entry) for entry in ledger.incomparable]
    waiting = [
        f"{variance.message} {variance.awaited_deliveries or ''}".rstrip()
        for variance in variances
        if variance.is_open and variance.is_waiting
    ]
    waiting += _missing_messages(cluster, ledger)
    tolerated = [f"{variance.message} This is within the tolerance." for variance in variances if variance.is_tolerated]
    decided = [
        f"{variance.message} {variance.decided_by}"
        for variance in variances
        if variance.decided_by and not variance.is_tolerated
    ]
    explained = tolerated + decided
    if exceptions:
        return ThreeWayMatchStatus.EXCEPTION, exceptions + waiting + explained
    if waiting:
        return ThreeWayMatchStatus.INCOMPLETE, waiting + explained
    if tolerated:
        return ThreeWayMatchStatus.WITHIN_TOLERANCE, explained
    agreement = "Everything agrees." if ledger.items else "No differences, but the purchase order is missing."
    return ThreeWayMatchStatus.MATCHED, explained or [agreement]


def _for_review(
    cluster: ClusterDocuments, ambiguous_ids: Collection[UUID], confirmed_ids: Collection[UUID]
) -> Iterator[str]:
    """Yield a sentence for each document that a reviewer must decide about."""
    for document in cluster.documents:
        if document.type is DocumentType.CONTRACT:
            continue
        if document.id in ambiguous_ids:
            yield f"{document.heading}: its match is ambiguous, see Review."
        elif not document.is_supplier_identified and document.id not in confirmed_ids:
            yield f"{document.heading} names no supplier."


def _incomparable_message(entry: LedgerEntry) -> str:
    return (
        f"{entry.document.heading}, line item {entry.line.label}: its unit {entry.line.unit} cannot be converted to "
        f"the unit in the purchase order. Check the quantity."
    )


def _missing_messages(cluster: ClusterDocuments, ledger: Ledger) -> Iterator[str]:
    """Yield sentences about missing documents and quantities.

    There is no variance for any of these.
    """
    invoices = cluster.active_of(DocumentType.INVOICE)
    orders = cluster.active_of(DocumentType.PURCHASE_ORDER)
    if not invoices:
        yield "The invoice is missing."
        return
    for invoice in invoices:
        if _is_unordered(cluster, ledger, invoice) and not referenced_orders(invoice):
            yield f"{invoice.heading} names no purchase order, and no matching one was found."
    for delivery in cluster.lineless_documents:
        yield f"{delivery.heading} has no line items, so the delivered quantities are unknown."
    for item in ledger.items:
        if item.is_goods and ledger.delivered_quantity(item) is None:
            for delivery in ledger.unknown_quantities(item):
                label = item_label(item)
                yield f"{delivery.heading} states no quantity of {label}, so the delivered quantity is unknown."
    for order in orders:
        open_items = [
            item
            for item in ledger.items_of(order)
            if item.ordered is not None and (item.total(DocumentType.INVOICE) or Decimal(0)) < item.ordered
        ]
        if open_items:
            item = open_items[0]
            unbilled = (item.ordered or Decimal(0)) - (item.total(DocumentType.INVOICE) or Decimal(0))
            suffix = _more_line_items(len(open_items) - 1, ", and ")
            yield (
                f"{order.heading} is not fully billed. "
                f"Open: {format_quantity(unbilled, item)} of {item_label(item)}{suffix}."
            )
            yield from (
                _unnamed_item_message(invoice, order) for invoice in invoices if _names_nothing(ledger, invoice, order)
            )


def _is_unordered(cluster: ClusterDocuments, ledger: Ledger, invoice: Document) -> bool:
    """Return True for an invoice with neither an order nor a contract."""
    linked = {document.type for document in cluster.documents if document.id in cluster.neighbors.get(invoice.id, ())}
    return not ledger.orders_by_document.get(invoice.id) and DocumentType.CONTRACT not in linked


def _names_nothing(ledger: Ledger, invoice: Document, order: Document) -> bool:
    """Return True if no line item of an invoice for an order matches an article."""
    return (
        order in ledger.orders_by_document.get(invoice.id, ())
        and len(ledger.unmatched_lines.get(invoice.id, ())) == len(invoice.lines) > 0
    )


def _unnamed_item_message(invoice: Document, order: Document) -> str:
    amount = format_money(invoice.net, invoice.currency) if invoice.net is not None else "its amount"
    return f"{invoice.heading} names no line item of {order.title}: {amount} cannot be split by line item."


def _remarks(cluster: ClusterDocuments, ledger: Ledger) -> Iterator[str]:
    by_id = {document.id: document for document in cluster.documents}
    for id_, latest in cluster.superseded_orders.items():
        yield f"{by_id[id_].heading} was changed or repeated, and its last version counts{_date_suffix(latest)}."
    for id_, original in cluster.repeated_documents.items():
        yield f"{by_id[id_].heading} was received more than once, and counts once{_date_suffix(original)}."
    for credit in cluster.active_of(DocumentType.CREDIT_NOTE):
        amount = format_money(abs(credit.gross), credit.currency) if credit.gross is not None else "an amount"
        yield f"{credit.heading} credits {amount}."
    for invoice in cluster.active_of(DocumentType.INVOICE):
        extra_lines = _unordered_charges(ledger, invoice)
        if extra_lines:
            amount = format_money(
                sum((line.net for line in extra_lines if line.net is not None), Decimal(0)), invoice.currency
            )
            descriptions = ", ".join(quote(line.description) for line in extra_lines[:3] if line.description)
            yield f"{invoice.heading} bills {amount} that was not ordered: {descriptions}."


def _unordered_charges(ledger: Ledger, invoice: Document) -> list[Line]:
    """Return freight, surcharges and similar line items that were not ordered."""
    unmatched_lines = ledger.unmatched_lines.get(invoice.id, ())
    if not ledger.orders_by_document.get(invoice.id) or len(unmatched_lines) == len(invoice.lines):
        return []
    return [
        line
        for line in unmatched_lines
        if not line.is_item and line.description and line.net is not None and line.net > 0
    ]


def _date_suffix(document: Document) -> str:
    return f" ({document.day.isoformat()})" if document.day else ""


def _rows(ledger: Ledger) -> Iterator[LineComparison]:
    for item in ledger.items:
        document, line = item.document, item.line
        ordered = (
            []
            if not item.is_ordered
            else [
                LineContribution(document.id, order_line.label, "ordered", order_line.quantity, order_line.cost)
                for order_line in item.lines
            ]
        )
        entries = sorted(item.entries, key=lambda entry: (entry.document.sort_key, entry.line.place))
        parts = ordered + [
            LineContribution(
                entry.document.id, entry.line.label, _ROLES[entry.document.type], entry.quantity, entry.price
            )
            for entry in entries
        ]
        has_receipts = bool(item.entries_of(DocumentType.GOODS_RECEIPT))
        yield LineComparison(
            order=document.id if item.is_ordered else None,
            line=line.label,
            article=line.article_text,
            description=line.description,
            unit=item.unit,
            currency=document.currency,
            ordered=item.ordered,
            delivered=item.total(DocumentType.DELIVERY_NOTE),
            received=item.total(DocumentType.GOODS_RECEIPT),
            rejected=item.rejected if has_receipts else None,
            billed=item.total(DocumentType.INVOICE),
            credited=item.total(DocumentType.CREDIT_NOTE),
            price=item.price if item.is_ordered else None,
            parts=tuple(parts),
        )
