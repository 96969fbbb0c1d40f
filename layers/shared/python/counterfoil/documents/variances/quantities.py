"""Quantities, over all deliveries and invoices of an order: delivered against ordered, billed against both. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from counterfoil.documents.matching.normalise import Reference
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.variances.credits import goods_credited
from counterfoil.documents.variances.ledger import Entry, Item, Ledger, total
from counterfoil.documents.variances.model import Code, Document, Variance, short
from counterfoil.documents.variances.tolerances import Key, Tolerances
from counterfoil.documents.variances.wording import measured, naming, verb

_ZERO = Decimal(0)


def quantity_variances(ledger: Ledger, tolerances: Tolerances) -> Iterator[Variance]:
    """Everything that is wrong with quantities, item by item."""
    for item in ledger.items:
        if item.is_ordered:
            yield from _delivered(ledger, item, tolerances)
        yield from _billed(ledger, item, tolerances)


def _delivered(ledger: Ledger, item: Item, tolerances: Tolerances) -> Iterator[Variance]:
    """Too little or too much delivered, told of the last delivery."""
    delivered, ordered = ledger.delivered(item), item.ordered
    if delivered is None or ordered is None or not item.is_goods or delivered == ordered:
        return
    limits = tolerances.limits(Key.DELIVERED_QUANTITY, suppliers=item.document.sellers, articles=item.articles)
    last = ledger.deliveries(item.document)[-1]
    of_last = [entry for entry in item.entries if entry.document.id == last.id]
    less = delivered < ordered
    was = f"{measured(delivered, item)} of {measured(ordered, item)} ordered"
    apart = measured(abs(delivered - ordered), item)
    sentence = f"{naming(item)}: {was} {verb(delivered)} delivered, {apart} {'missing' if less else 'too many'}."
    yield Variance(
        code=Code.UNDER_DELIVERED if less else Code.OVER_DELIVERED,
        document=last,
        line=of_last[-1].line.label if of_last else None,
        expected=ordered,
        actual=delivered,
        difference=delivered - ordered,
        unit=item.unit,
        limits=limits,
        is_tolerated=limits.allow(ordered, delivered),
        sentence=sentence,
    )


@dataclass(frozen=True, slots=True)
class _Bound:
    """What may be billed at most, and what it is called when more is billed."""

    code: Code
    quantity: Decimal
    words: str


def _bounds(ledger: Ledger, item: Item) -> Iterator[_Bound]:
    delivered = ledger.delivered(item)
    if item.ordered is not None:
        yield _Bound(Code.BILLED_BEYOND_ORDER, item.ordered, "ordered")
    if delivered is not None and item.is_goods:
        yield _Bound(Code.OVER_BILLED_QUANTITY, delivered, "delivered")
        if item.rejected:
            yield _Bound(Code.REJECTED_GOODS_BILLED, max(_ZERO, delivered - item.rejected), "accepted")


def _billed(ledger: Ledger, item: Item, tolerances: Tolerances) -> Iterator[Variance]:
    """Too much billed, told of the invoice that goes beyond."""
    for bound in _bounds(ledger, item):
        crossing = _crossing(item, bound.quantity)
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
            is_tolerated=limits.allow(bound.quantity, billed),
            sentence=_beyond(item, entry, billed, bound),
            settled_by=goods_credited(item, billed - bound.quantity),
            awaits=_awaited(ledger, item, billed) if bound.code is Code.OVER_BILLED_QUANTITY else None,
        )


def _crossing(item: Item, bound: Decimal) -> tuple[Entry, Decimal] | None:
    """The entry of the first invoice that goes beyond the bound, and all that is billed in the end."""
    billed, crossing = _ZERO, None
    for entry in item.of(DocumentType.INVOICE):
        billed = total((billed, entry.quantity or _ZERO))
        if crossing is None and billed > bound:
            crossing = entry
    return None if crossing is None or billed <= bound else (crossing, billed)


def _beyond(item: Item, entry: Entry, billed: Decimal, bound: _Bound) -> str:
    invoices = {one.document.id for one in item.of(DocumentType.INVOICE) if one.quantity}
    alone = len(invoices) == 1
    who = entry.document.heading if alone else f"With {entry.document.title}, {len(invoices)} invoices together"
    was = f"{measured(bound.quantity, item)} {verb(bound.quantity)} {bound.words}"
    too_many = measured(billed - bound.quantity, item)
    bills = "bills" if alone else "bill"
    return f"{who} {bills} {measured(billed, item)} of {naming(item)}; {was}, {too_many} too many."


def _awaited(ledger: Ledger, item: Item, billed: Decimal) -> str | None:
    """The deliveries that invoices over an item name and that are not here, where they can make up for what is missing.

    A delivery that is here and is named by nobody may be what a damaged number means.
    """
    if item.ordered is None or billed > item.ordered:
        return None
    bills = [entry.document for entry in item.of(DocumentType.INVOICE)]
    named = {one.text: one for bill in bills for one in bill.named.get("delivery_note_reference", ())}
    here = [{one for one in (paper.reference, *_notes_of(paper)) if one} for paper in ledger.papers(item.document)]
    missing = [text for text, one in named.items() if not any(_is_among(one, numbers) for numbers in here)]
    unnamed = [numbers for numbers in here if not any(_is_among(one, numbers) for one in named.values())]
    if len(missing) <= len(unnamed):
        return None
    plural = len(missing) > 1
    numbers = ", ".join(map(short, missing))
    return f"It names {'deliveries' if plural else 'delivery'} {numbers}, which {'are' if plural else 'is'} not here."


def _notes_of(paper: Document) -> Sequence[Reference]:
    return paper.named.get("delivery_note_reference", ())


def _is_among(one: Reference, others: Iterable[Reference]) -> bool:
    return any(one.folded & other.folded for other in others)
