"""A cluster's ledger: quantities ordered, and added by documents. Pure.

An entry assigns the quantity of a document's line item to an item. Items are the lines of orders, and the lines of
deliveries without an order. Equal lines of one order are one item, because later documents cannot distinguish them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from uuid import UUID

from counterfoil.documents.structured import DocumentType
from counterfoil.documents.three_way_match.alignment import OrderLine, Place, align_documents, anchors
from counterfoil.documents.three_way_match.model import (
    MEASURED_UNITS,
    Document,
    Line,
    conversion_factor,
    format_number,
    is_goods,
    quote,
    unit_name,
)

DELIVERIES = (DocumentType.DELIVERY_NOTE, DocumentType.GOODS_RECEIPT)
BILLS = (DocumentType.INVOICE, DocumentType.CREDIT_NOTE)
_ROUNDING = Decimal("0.05")
_ZERO = Decimal(0)
_DIGITS = Context(prec=18)
"""Precision of converted quantities and prices."""
_SUM_CONTEXT = Context(prec=15)
"""Precision of sums: more digits than documents state, but few enough that three thirds of a foot add up to a foot."""


def total(quantities: Iterable[Decimal]) -> Decimal:
    """Return the sum of quantities, rounded for comparison."""
    return _SUM_CONTEXT.plus(sum(quantities, _ZERO))


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A document's line item, assigned to an item."""

    document: Document
    line: Line
    quantity: Decimal | None
    """In the item's unit; None if absent, or in a unit that cannot be converted."""
    rejected: Decimal = _ZERO
    price: Decimal | None = None
    """Price of one unit of the item."""
    is_lump_sum: bool = False
    """Whether the line item bills several items in one amount, from which the quantity is derived."""


@dataclass(slots=True)
class Item:
    """An article: the equal lines of an order or a delivery, and all entries.

    Lines of a delivery are articles only if it has no order.
    """

    document: Document
    """The order, or the delivery if it has no order."""
    lines: tuple[Line, ...]
    entries: list[LedgerEntry] = field(default_factory=list)

    @property
    def is_ordered(self) -> bool:
        """True for items of an order."""
        return self.document.type is DocumentType.PURCHASE_ORDER

    @property
    def line(self) -> Line:
        """Its first line item."""
        return self.lines[0]

    @property
    def unit(self) -> str | None:
        """Unit of all its quantities."""
        return self.line.unit

    @property
    def is_goods(self) -> bool:
        """True for goods, which are delivered; false for services."""
        return is_goods(self.unit)

    @property
    def ordered(self) -> Decimal | None:
        """Ordered quantity, or None if not ordered or not stated in the order."""
        quantities = [line.quantity for line in self.lines if line.quantity is not None]
        return total(quantities) if self.is_ordered and quantities else None

    @property
    def price(self) -> Decimal | None:
        """Ordered price of one unit, after the line item's discount.

        An amount that no plausible discount or surcharge explains is ignored.
        """
        return self.line.cost if self.line.has_plausible_cost else self.line.price

    @property
    def articles(self) -> tuple[str, ...]:
        """Its article numbers, the supplier's and the buyer's."""
        return tuple(code for code in (self.line.article, self.line.buyer_article) if code)

    def entries_of(self, *types: DocumentType) -> list[LedgerEntry]:
        """Return the entries of documents of these types, by date."""
        entries = [entry for entry in self.entries if entry.document.type in types]
        return sorted(entries, key=lambda entry: (entry.document.sort_key, entry.line.place))

    def total(self, *types: DocumentType) -> Decimal | None:
        """Return the total quantity in documents of these types, or None if not stated."""
        quantities = [entry.quantity for entry in self.entries_of(*types) if entry.quantity is not None]
        return total(quantities) if quantities else None

    @property
    def rejected(self) -> Decimal:
        """Rejected quantity in receipts."""
        return total(entry.rejected for entry in self.entries)


@dataclass(slots=True)
class Ledger:
    """All items of a cluster, and line items without an item."""

    items: list[Item]
    orders_by_document: dict[UUID, tuple[Document, ...]]
    """Orders by document, or deliveries for documents without an order."""
    unmatched_lines: dict[UUID, list[Line]]
    """Line items that match no item, by document."""
    paired_deliveries: Mapping[UUID, UUID]
    """Delivery ids by delivery note and receipt, for deliveries known to have both documents."""
    incomparable: list[LedgerEntry] = field(default_factory=list)
    """Entries in a unit that cannot be converted."""

    _by_order: dict[UUID, list[Item]] = field(init=False)
    _deliveries: dict[UUID, list[Document]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._by_order = defaultdict(list)
        for item in self.items:
            self._by_order[item.document.id].append(item)

    def items_of(self, order: Document) -> Sequence[Item]:
        """Return the items of an order."""
        return self._by_order[order.id]

    def deliveries(self, order: Document) -> Sequence[Document]:
        """Return an order's delivery notes, or else its receipts, by date.

        Call it only after all deliveries are recorded, because the result is cached.
        """
        if order.id not in self._deliveries:
            self._deliveries[order.id] = self._find_deliveries(order)
        return self._deliveries[order.id]

    def delivery_documents(self, order: Document) -> Sequence[Document]:
        """Return the delivery notes and receipts of an order."""
        linked = {
            entry.document.id: entry.document
            for item in self.items_of(order)
            for entry in item.entries
            if entry.document.type in DELIVERIES
        }
        return list(linked.values())

    def _find_deliveries(self, order: Document) -> list[Document]:
        documents = self.delivery_documents(order)
        notes = [document for document in documents if document.type is DocumentType.DELIVERY_NOTE]
        return sorted(notes or documents, key=lambda document: document.sort_key)

    def delivered_quantity(self, item: Item) -> Decimal | None:
        """Return the delivered quantity, or None if it is unknown.

        It is unknown if there is no delivery, or if the quantity cannot be counted. For a delivery with a delivery note
        and a receipt, the received quantity counts. Delivery notes and receipts that are not paired may describe the
        same deliveries, so the larger of the two sums counts. If one sum cannot be counted, the other sum counts.
        """
        if not self.deliveries(item.document):
            return None
        notes, receipts = item.entries_of(DocumentType.DELIVERY_NOTE), item.entries_of(DocumentType.GOODS_RECEIPT)
        received = _sum([entry for entry in receipts if entry.document.id in self.paired_deliveries])
        unpaired_sums = [
            _sum([entry for entry in entries if entry.document.id not in self.paired_deliveries])
            for entries in (notes, receipts)
        ]
        known_sums = [quantity for quantity in unpaired_sums if quantity is not None]
        if received is None or (not any(known_sums) and None in unpaired_sums):
            return None
        return total((received, max(known_sums)))

    def unknown_quantities(self, item: Item) -> list[Document]:
        """Return the deliveries that contain the item without a quantity."""
        uncounted = _uncountable_entries(item.entries_of(*DELIVERIES))
        return list({entry.document.id: entry.document for entry in uncounted if entry.line.quantity is None}.values())


def _sum(entries: Sequence[LedgerEntry]) -> Decimal | None:
    """Return the sum of entries; None if any entry cannot be counted."""
    return None if _uncountable_entries(entries) else total(entry.quantity or _ZERO for entry in entries)


def _uncountable_entries(entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """Return entries that cannot be counted.

    Their unit cannot be converted, or their document has no entry with a quantity.
    """
    counted_ids = {entry.document.id for entry in entries if entry.quantity is not None}
    return [
        entry
        for entry in entries
        if entry.quantity is None and (entry.line.quantity is not None or entry.document.id not in counted_ids)
    ]


def build_ledger(
    documents: Sequence[Document],
    anchor_documents: Sequence[Document],
    linked: Mapping[UUID, Collection[UUID]],
    paired_deliveries: Mapping[UUID, UUID],
) -> Ledger:
    """Record every line item of `documents` under its item.

    `anchor_documents` contains the orders, and the deliveries without an order. `linked` maps each document to its
    reference documents. `paired_deliveries` maps delivery notes and receipts to their common delivery.
    """
    items: list[Item] = []
    item_of: dict[Place, Item] = {}
    by_id = {document.id: document for document in anchor_documents}
    for document in anchor_documents:
        for lines in _group_lines(document):
            item = Item(document, tuple(lines))
            items.append(item)
            item_of |= {(document.id, line.place): item for line in lines}
            if document.type is not DocumentType.PURCHASE_ORDER:
                item.entries += [_entry(document, line, item) for line in lines]
    ledger = Ledger(items, {}, {}, paired_deliveries)
    candidates: dict[UUID, tuple[Document, Sequence[OrderLine]]] = {}
    for document in documents:
        if document.id in by_id or document.type is DocumentType.CONTRACT:
            continue
        referenced = [by_id[id_] for id_ in linked.get(document.id, ()) if id_ in by_id]
        ledger.orders_by_document[document.id] = tuple(referenced)
        candidates[document.id] = document, [anchor for order in referenced for anchor in anchors(order)]
    aligned = align_documents(candidates)
    for document, _ in candidates.values():
        for line in document.lines:
            _record_line(ledger, document, line, aligned, item_of)
    for document in sorted(documents, key=lambda one: one.sort_key):
        if document.type in BILLS:
            _spread_lumps(ledger, document)
    return ledger


def _group_lines(document: Document) -> Iterable[list[Line]]:
    groups: dict[object, list[Line]] = defaultdict(list)
    for anchor in anchors(document):
        line = anchor.line
        key = (line.article, line.buyer_article, line.words, line.unit, line.price, line.tax_rate)
        groups[key if any(key[:3]) else line.place].append(line)
    return groups.values()


def _record_line(
    ledger: Ledger, document: Document, line: Line, aligned: Mapping[Place, OrderLine], item_of: Mapping[Place, Item]
) -> None:
    anchor = aligned.get((document.id, line.place))
    if anchor is None:
        ledger.unmatched_lines.setdefault(document.id, []).append(line)
        return
    item = item_of[anchor.place]
    entry = _entry(document, line, item)
    item.entries.append(entry)
    if entry.quantity is None and line.quantity is not None:
        ledger.incomparable.append(entry)


def _entry(document: Document, line: Line, item: Item) -> LedgerEntry:
    per_unit = conversion_factor(line.unit, item.unit)
    if per_unit is None:
        return LedgerEntry(document, line, None)
    price = None if line.cost is None else _DIGITS.divide(line.cost, per_unit)
    quantity = None if line.quantity is None else _DIGITS.multiply(line.quantity, per_unit)
    return LedgerEntry(document, line, quantity, _DIGITS.multiply(line.rejected or _ZERO, per_unit), price)


def _spread_lumps(ledger: Ledger, document: Document) -> None:
    """Distribute a line item that bills several items over these items.

    The line item may read `items as per order`. Its amount must equal the value, at ordered prices, of the whole order,
    of the quantities not billed yet, of the delivered quantities not billed yet, or of a single delivery. The first
    match is used.
    """
    for line in list(ledger.unmatched_lines.get(document.id, ())):
        if line.net is None or line.is_item or document.type is not DocumentType.INVOICE:
            continue
        for share in _shares(ledger, document):
            value = sum((item.price * quantity for item, quantity in share if item.price is not None), _ZERO)
            if share and value and abs(value - line.net) <= _ROUNDING + len(share) * Decimal("0.01"):
                for item, quantity in share:
                    item.entries.append(LedgerEntry(document, line, quantity, price=item.price, is_lump_sum=True))
                ledger.unmatched_lines[document.id].remove(line)
                break


def _shares(ledger: Ledger, document: Document) -> Iterable[list[tuple[Item, Decimal]]]:
    items = [
        item for order in ledger.orders_by_document[document.id] for item in ledger.items_of(order) if item.is_ordered
    ]
    unbilled = [item for item in items if not any(entry.document.id == document.id for entry in item.entries)]
    yield [(item, item.ordered) for item in unbilled if item.ordered]
    remaining = [(item, (item.ordered or _ZERO) - (item.total(DocumentType.INVOICE) or _ZERO)) for item in unbilled]
    yield [(item, quantity) for item, quantity in remaining if quantity > 0]
    delivered = [
        (item, (ledger.delivered_quantity(item) or _ZERO) - (item.total(DocumentType.INVOICE) or _ZERO))
        for item in unbilled
    ]
    yield [(item, quantity) for item, quantity in delivered if quantity > 0]
    for delivery in _deliveries_of(items):
        yield [
            (item, quantity)
            for item in unbilled
            if (quantity := sum((e.quantity or _ZERO for e in item.entries if e.document.id == delivery), _ZERO))
        ]


def _deliveries_of(items: Iterable[Item]) -> list[UUID]:
    return sorted({e.document.id for item in items for e in item.entries_of(*DELIVERIES)})


def item_label(item: Item) -> str:
    """Return the name of an item in sentences."""
    line = item.line
    name = line.description or line.article_text
    return quote(name) if name else f"line item {line.label} of {item.document.title}"


def format_quantity(quantity: Decimal, item: Item) -> str:
    """Return a quantity with its unit."""
    return f"{format_number(quantity)} {unit_name(item.unit, quantity)}".rstrip()


def format_excess(quantity: Decimal, item: Item) -> str:
    """Return an excess quantity, such as "2 pieces too many" or "1.5 kg too much"."""
    return f"{format_quantity(quantity, item)} too {'much' if item.unit in MEASURED_UNITS else 'many'}"


def was_or_were(quantity: Decimal) -> str:
    """Return "was" or "were", to agree with a quantity."""
    return "was" if abs(quantity) == 1 else "were"


def is_or_are(quantity: Decimal) -> str:
    """Return "is" or "are", to agree with a quantity."""
    return "is" if abs(quantity) == 1 else "are"
