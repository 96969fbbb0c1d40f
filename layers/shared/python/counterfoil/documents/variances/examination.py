"""The examination of a case: every check, and what they come to. Pure: no clock, no I/O, no order of arrival."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from uuid import UUID

from counterfoil.documents.structured import DocumentType
from counterfoil.documents.variances.case import Case, Edges, names, orders_named
from counterfoil.documents.variances.credits import cancelled
from counterfoil.documents.variances.ledger import Entry, Item, Ledger, keep
from counterfoil.documents.variances.model import (
    ClusterStatus,
    Code,
    Document,
    Line,
    Outcome,
    Part,
    Result,
    Row,
    Variance,
    money,
    short,
)
from counterfoil.documents.variances.prices import currency_variances, price_variances
from counterfoil.documents.variances.quantities import quantity_variances
from counterfoil.documents.variances.summary import summarize
from counterfoil.documents.variances.tolerances import Key, Tolerances
from counterfoil.documents.variances.totals import tax_variances, total_variances
from counterfoil.documents.variances.verdicts import Verdict, hear
from counterfoil.documents.variances.wording import measured, naming

_ORDER = {code: place for place, code in enumerate(Code)}
_ROLES = {
    DocumentType.PURCHASE_ORDER: "ordered",
    DocumentType.ORDER_CONFIRMATION: "confirmed",
    DocumentType.DELIVERY_NOTE: "delivered",
    DocumentType.GOODS_RECEIPT: "received",
    DocumentType.INVOICE: "billed",
    DocumentType.CREDIT_NOTE: "credited",
}


def examine(
    documents: Iterable[Document],
    edges: Edges,
    tolerances: Tolerances | None = None,
    verdicts: Collection[Verdict] = (),
    ambiguous: Collection[UUID] = (),
    confirmed: Collection[UUID] = (),
) -> Result:
    """Hold the documents of a cluster against one another.

    `documents` are the cluster's, and contracts that they are linked to; `edges` the links between them. Without
    `tolerances` the defaults apply. `verdicts` are the last that people said of its differences, `ambiguous` the
    documents with an open review, `confirmed` those with a match that a person confirmed.
    """
    limits = tolerances or Tolerances()
    case = Case(sorted(documents, key=lambda one: one.order_of_time), edges)
    ledger = keep(case.counting, case.anchors, case.held_against, case.confirmed)
    invoices = case.effective(DocumentType.INVOICE)
    variances = [
        *_duplicates(case),
        *_missing_orders(case, ledger, invoices),
        *_missing_deliveries(case, ledger, invoices),
        *currency_variances(ledger, invoices),
        *quantity_variances(ledger, limits),
        *_never_ordered(ledger, invoices),
        *_worth_more(ledger, invoices, limits),
        *price_variances(ledger, limits),
        *total_variances(invoices, limits),
        *tax_variances(invoices, limits),
    ]
    found = list(hear(variances, verdicts))
    found.sort(key=lambda one: (one.is_tolerated, one.settled_by is not None, *_place(one)))
    outcome, reasons = _outcome(case, ledger, found)
    rows = tuple(_rows(ledger))
    review = list(_for_review(case, ambiguous, confirmed))
    summary = summarize(
        case,
        rows,
        found,
        outcome,
        incomparable=bool(ledger.incomparable),
        needs_review=bool(review),
        unordered=[one for one in invoices if _is_unordered(case, ledger, one)],
    )
    if summary.status is ClusterStatus.NEEDS_REVIEW:
        reasons = review + reasons
    return Result(outcome, tuple(reasons), tuple(found), rows, tuple(_remarks(case, ledger)), summary)


def _place(variance: Variance) -> tuple[object, ...]:
    return variance.document.order_of_time, _ORDER[variance.code], variance.line or "", variance.sentence


# -- documents too many, documents missing -----------------------------------------------------------------------------


def _duplicates(case: Case) -> Iterator[Variance]:
    by_id = {document.id: document for document in case.documents}
    settled = cancelled(case)
    for id_, original in case.duplicates.items():
        again = by_id[id_]
        one, other = again.reference, original.reference
        same_number = one is not None and other is not None and bool(one.folded & other.folded)
        what = "is here already" if same_number else f"is {original.title} under another number"
        dated = f" of {original.day.isoformat()}" if original.day else ""
        worth = f" over {money(original.gross, original.currency)}" if original.gross is not None else ""
        yield Variance(
            code=Code.DUPLICATE_INVOICE,
            document=again,
            expected=original.number,
            actual=again.number,
            currency=again.currency,
            sentence=f"{again.heading} {what}: the same bill{dated}{worth} came again.",
            settled_by=settled.get(id_),
        )


def _missing_orders(case: Case, ledger: Ledger, invoices: Sequence[Document]) -> Iterator[Variance]:
    orders = case.of(DocumentType.PURCHASE_ORDER)
    for invoice in invoices:
        held = [one for one in ledger.orders_of.get(invoice.id, ()) if one.type is DocumentType.PURCHASE_ORDER]
        named = {reference.text: reference for reference in orders_named(invoice)}
        unknown = [
            text
            for text, reference in named.items()
            if not any(order.reference and reference.folded & order.reference.folded for order in orders)
        ]
        # An order that is here and is named by nobody may be what a damaged number means.
        unnamed = [order for order in held if not names(invoice, order)]
        if unknown and len(unknown) > len(unnamed):
            numbers = ", ".join(map(short, unknown))
            yield Variance(
                code=Code.MISSING_PURCHASE_ORDER,
                document=invoice,
                expected=numbers,
                sentence=f"{invoice.heading} names order {numbers}, which is not here.",
            )


def _missing_deliveries(case: Case, ledger: Ledger, invoices: Sequence[Document]) -> Iterator[Variance]:
    for invoice in invoices:
        for order in ledger.orders_of.get(invoice.id, ()):
            billed = [item for item in ledger.of_order(order) if item.is_goods and _quantity(item, invoice) > 0]
            if order.type is not DocumentType.PURCHASE_ORDER or not billed or ledger.deliveries(order):
                continue
            if any(order in ledger.orders_of.get(one.id, ()) for one in case.without_lines):
                continue  # something was delivered, and nobody can read what
            first = f"{measured(_quantity(billed[0], invoice), billed[0])} of {naming(billed[0])}"
            more = f" and {len(billed) - 1} more" if len(billed) > 1 else ""
            yield Variance(
                code=Code.MISSING_DELIVERY,
                document=invoice,
                expected=order.number,
                sentence=f"{invoice.heading} bills {first}{more}; there is no delivery note or receipt for "
                f"{order.title}.",
            )


def _quantity(item: Item, invoice: Document) -> Decimal:
    return sum((e.quantity for e in item.entries if e.document.id == invoice.id and e.quantity), Decimal(0))


def _never_ordered(ledger: Ledger, invoices: Sequence[Document]) -> Iterator[Variance]:
    """Goods and services that an invoice bills and no line of its orders has."""
    for invoice in invoices:
        orders = ledger.orders_of.get(invoice.id, ())
        if not orders or any(one.type is not DocumentType.PURCHASE_ORDER or not one.lines for one in orders):
            continue
        for line in ledger.loose.get(invoice.id, ()):
            if line.is_item and line.quantity and line.quantity > 0:
                what = f"'{short(line.description or line.article_text or '')}'"
                yield Variance(
                    code=Code.BILLED_BEYOND_ORDER,
                    document=invoice,
                    line=line.label,
                    expected=Decimal(0),
                    actual=line.quantity,
                    difference=line.quantity,
                    unit=line.unit,
                    sentence=f"{invoice.heading}, line {line.label}: {what} is billed and was not ordered.",
                )


def _worth_more(ledger: Ledger, invoices: Sequence[Document], tolerances: Tolerances) -> Iterator[Variance]:
    """Invoices that name no article, and bill more than all of their orders are worth."""
    for invoice in invoices:
        orders = ledger.orders_of.get(invoice.id, ())
        items = [item for order in orders for item in ledger.of_order(order)]
        prices = [item.price * item.ordered for item in items if item.price is not None and item.ordered]
        nets = [line.net for line in ledger.loose.get(invoice.id, ()) if line.net is not None and not line.is_item]
        if not prices or len(nets) != len(invoice.lines) or any(one.currency != invoice.currency for one in orders):
            continue
        ordered, billed = sum(prices, Decimal(0)), sum(nets, Decimal(0))
        limits = tolerances.limits(Key.TOTAL, suppliers=invoice.sellers)
        if billed > ordered:
            numbers = " and ".join(order.title for order in orders)
            yield Variance(
                code=Code.BILLED_BEYOND_ORDER,
                document=invoice,
                expected=ordered,
                actual=billed,
                difference=billed - ordered,
                currency=invoice.currency,
                limits=limits,
                is_tolerated=limits.allow(ordered, billed),
                sentence=f"{invoice.heading} bills {money(billed, invoice.currency)} without naming an article; "
                f"{numbers} {'is' if len(orders) == 1 else 'are'} worth {money(ordered, invoice.currency)}.",
            )


# -- what it comes to --------------------------------------------------------------------------------------------------


def _outcome(case: Case, ledger: Ledger, found: Sequence[Variance]) -> tuple[Outcome, list[str]]:
    """The outcome, and why, the most important first."""
    wrong = [one.sentence for one in found if one.is_open and not one.is_waiting]
    wrong += [_incomparable(entry) for entry in ledger.incomparable]
    waiting = [f"{one.sentence} {one.awaits or ''}".rstrip() for one in found if one.is_open and one.is_waiting]
    waiting += _still_to_come(case, ledger)
    tolerated = [f"{one.sentence[:-1]} (within the tolerance)." for one in found if one.is_tolerated]
    settled = [f"{one.sentence} {one.settled_by}" for one in found if one.settled_by and not one.is_tolerated]
    rest = tolerated + settled
    if wrong:
        return Outcome.EXCEPTION, wrong + waiting + rest
    if waiting:
        return Outcome.INCOMPLETE, waiting + rest
    if tolerated:
        return Outcome.WITHIN_TOLERANCE, rest
    agreement = "Everything agrees." if ledger.items else "Nothing is wrong with it, and there is no order to compare."
    return Outcome.MATCHED, rest or [agreement]


def _for_review(case: Case, ambiguous: Collection[UUID], confirmed: Collection[UUID]) -> Iterator[str]:
    """Yield a sentence for each document that a reviewer must decide about."""
    for document in case.documents:
        if document.type is DocumentType.CONTRACT:
            continue
        if document.id in ambiguous:
            yield f"{document.heading}: its match is ambiguous, see Review."
        elif not document.names_supplier and document.id not in confirmed:
            yield f"{document.heading} names no supplier."


def _incomparable(entry: Entry) -> str:
    return (
        f"{entry.document.heading}, line {entry.line.label}: its unit {entry.line.unit} cannot be compared with the "
        f"order's; look at the quantity."
    )


def _still_to_come(case: Case, ledger: Ledger) -> Iterator[str]:
    """What a complete case would have and this one has not, where no variance says so."""
    invoices = case.effective(DocumentType.INVOICE)
    orders = case.effective(DocumentType.PURCHASE_ORDER)
    if not invoices:
        yield "There is no invoice yet."
        return
    for invoice in invoices:
        if _is_unordered(case, ledger, invoice) and not orders_named(invoice):
            yield f"{invoice.heading} names no order, and none was found that it could be held against."
    for delivery in case.without_lines:
        yield f"{delivery.heading} states no lines: what was delivered cannot be counted."
    for item in ledger.items:
        if item.is_goods and ledger.delivered(item) is None:
            for delivery in ledger.unsaid(item):
                yield (
                    f"{delivery.heading} states no quantity of {naming(item)}: what was delivered of it cannot be "
                    "counted."
                )
    for order in orders:
        open_ = [
            item
            for item in ledger.of_order(order)
            if item.ordered is not None and (item.total(DocumentType.INVOICE) or Decimal(0)) < item.ordered
        ]
        if open_:
            item = open_[0]
            left = (item.ordered or Decimal(0)) - (item.total(DocumentType.INVOICE) or Decimal(0))
            more = f", and more on {len(open_) - 1} other lines" if len(open_) > 1 else ""
            yield f"{order.heading}: {measured(left, item)} of {naming(item)} not billed yet{more}."
            yield from (_unnamed(invoice, order) for invoice in invoices if _names_nothing(ledger, invoice, order))


def _is_unordered(case: Case, ledger: Ledger, invoice: Document) -> bool:
    """Return True for an invoice without an order and without a contract."""
    linked = {one.type for one in case.documents if one.id in case.neighbours.get(invoice.id, ())}
    return not ledger.orders_of.get(invoice.id) and DocumentType.CONTRACT not in linked


def _names_nothing(ledger: Ledger, invoice: Document, order: Document) -> bool:
    """Whether an invoice for an order bills amounts alone, which no goods could be found for."""
    return (
        order in ledger.orders_of.get(invoice.id, ())
        and len(ledger.loose.get(invoice.id, ())) == len(invoice.lines) > 0
    )


def _unnamed(invoice: Document, order: Document) -> str:
    worth = money(invoice.net, invoice.currency) if invoice.net is not None else "what it bills"
    return f"{invoice.heading} names no line of {order.title}: {worth} cannot be told apart by lines."


def _remarks(case: Case, ledger: Ledger) -> Iterator[str]:
    by_id = {document.id: document for document in case.documents}
    for id_, last in case.changed.items():
        yield f"{by_id[id_].heading} was changed or came again: the last form of it counts{_dated(last)}."
    for id_, first in case.repeated.items():
        yield f"{by_id[id_].heading} came more than once, and counts once{_dated(first)}."
    for credit in case.effective(DocumentType.CREDIT_NOTE):
        worth = money(abs(credit.gross), credit.currency) if credit.gross is not None else "an amount"
        yield f"{credit.heading} credits {worth}."
    for invoice in case.effective(DocumentType.INVOICE):
        extra = _extra(ledger, invoice)
        if extra:
            worth = money(sum((line.net for line in extra if line.net is not None), Decimal(0)), invoice.currency)
            named = ", ".join(f"'{short(line.description)}'" for line in extra[:3] if line.description)
            yield f"{invoice.heading} bills {worth} that no order names: {named}."


def _extra(ledger: Ledger, invoice: Document) -> list[Line]:
    """Freight, surcharges and the like that an invoice bills beside what was ordered."""
    loose = ledger.loose.get(invoice.id, ())
    if not ledger.orders_of.get(invoice.id) or len(loose) == len(invoice.lines):
        return []
    return [line for line in loose if not line.is_item and line.description and line.net is not None and line.net > 0]


def _dated(document: Document) -> str:
    return f" ({document.day.isoformat()})" if document.day else ""


def _rows(ledger: Ledger) -> Iterator[Row]:
    for item in ledger.items:
        document, line = item.document, item.line
        ordered = (
            []
            if not item.is_ordered
            else [Part(document.id, one.label, "ordered", one.quantity, one.cost) for one in item.lines]
        )
        entries = sorted(item.entries, key=lambda e: (e.document.order_of_time, e.line.place))
        parts = ordered + [
            Part(e.document.id, e.line.label, _ROLES[e.document.type], e.quantity, e.price) for e in entries
        ]
        has_receipts = bool(item.of(DocumentType.GOODS_RECEIPT))
        yield Row(
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
