"""Documents of a cluster, the ones that count, and their reference documents. Pure.

Duplicates count once. The last version of a changed order counts. A credit note is for returned goods at the billed
price, or for a part of the price.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from uuid import UUID

from counterfoil.documents.matching import normalize
from counterfoil.documents.matching.normalize import Reference
from counterfoil.documents.matching.rules import is_same_document
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.three_way_match.ledger import Item, LedgerEntry, format_quantity, total
from counterfoil.documents.three_way_match.model import Document, money

Edges = Collection[tuple[UUID, UUID]]

_ONCE = (DocumentType.DELIVERY_NOTE, DocumentType.GOODS_RECEIPT, DocumentType.CREDIT_NOTE)


@dataclass(frozen=True)
class ClusterDocuments:
    """The documents of a cluster, and their linked contracts."""

    documents: Sequence[Document]
    edges: Edges

    @cached_property
    def neighbors(self) -> Mapping[UUID, frozenset[UUID]]:
        """Linked documents by document."""
        found: dict[UUID, set[UUID]] = defaultdict(set)
        there = {document.id for document in self.documents}
        for a, b in self.edges:
            if a in there and b in there:
                found[a].add(b)
                found[b].add(a)
        return {id_: frozenset(others) for id_, others in found.items()}

    def of(self, *types: DocumentType) -> list[Document]:
        """Return the documents of these types, by date."""
        return sorted((one for one in self.documents if one.type in types), key=lambda one: one.order_of_time)

    @cached_property
    def duplicates(self) -> Mapping[UUID, Document]:
        """Duplicate invoices, mapped to their originals.

        A duplicate is linked to another invoice by matching, or is a duplicate of one with the same number by the rules
        of matching. Of two invoices, the duplicate is the one without other links, or else the one received later.
        """
        invoices = sorted(self.of(DocumentType.INVOICE), key=self._originality)
        found: dict[UUID, Document] = {}
        for place, invoice in enumerate(invoices):
            for other in invoices[:place]:
                if other.id not in found and self._is_again(other, invoice):
                    found[invoice.id] = other
                    break
        return found

    def _originality(self, invoice: Document) -> tuple[object, ...]:
        types = {document.id: document.type for document in self.documents}
        others = [id_ for id_ in self.neighbors.get(invoice.id, ()) if types[id_] is not DocumentType.INVOICE]
        return not others, invoice.received_at, invoice.id

    def _is_again(self, one: Document, other: Document) -> bool:
        if other.id in self.neighbors.get(one.id, ()):
            return True
        same_number = one.reference and other.reference and one.reference.folded & other.reference.folded
        return bool(same_number) and self._is_same(one, other)

    @cached_property
    def superseded_orders(self) -> Mapping[UUID, Document]:
        """Orders that were changed or repeated, mapped to their last version."""
        found: dict[UUID, Document] = {}
        later: dict[str, list[Document]] = defaultdict(list)
        for order in reversed(self.of(DocumentType.PURCHASE_ORDER)):
            forms = order.reference.folded if order.reference else ()
            named = {other.id: other for form in forms for other in later[form]}
            last = [other for other in named.values() if self._is_same(order, other)]
            if last:
                found[order.id] = max(last, key=lambda one: one.order_of_time)
            for form in forms:
                later[form].append(order)
        return found

    def _is_same(self, one: Document, other: Document) -> bool:
        """Return whether two documents are duplicates by the rules of matching."""
        return is_same_document(self._profile(one), self._profile(other))

    def _profile(self, document: Document) -> normalize.Document:
        known = self._profiles.get(document.id)
        if known is None:
            known = normalize.document(document.id, document.received_at, document.type.value, document.data)
            self._profiles[document.id] = known
        return known

    @cached_property
    def _profiles(self) -> dict[UUID, normalize.Document]:
        """Documents in the form that matching uses."""
        return {}

    @cached_property
    def repeated(self) -> Mapping[UUID, Document]:
        """Duplicate delivery notes, receipts and credit notes, mapped to the first one."""
        found: dict[UUID, Document] = {}
        for type_ in _ONCE:
            same = self.of(type_)
            for place, document in enumerate(same):
                first = next((one for one in same[:place] if _is_same_paper(one, document)), None)
                if first is not None:
                    found[document.id] = found.get(first.id, first)
        return found

    @cached_property
    def active_documents(self) -> list[Document]:
        """Documents that count."""
        left_out = self.duplicates.keys() | self.superseded_orders.keys() | self.repeated.keys()
        return [document for document in self.documents if document.id not in left_out]

    def latest_orders(self, type_: DocumentType) -> list[Document]:
        """Return the documents of a type that count, by date."""
        counting = {document.id for document in self.active_documents}
        return [document for document in self.of(type_) if document.id in counting]

    @cached_property
    def lineless_documents(self) -> list[Document]:
        """Delivery notes and receipts without any quantity in a line item."""
        deliveries = self.latest_orders(DocumentType.DELIVERY_NOTE) + self.latest_orders(DocumentType.GOODS_RECEIPT)
        return [one for one in deliveries if not any(line.quantity is not None for line in one.lines)]

    @cached_property
    def anchors(self) -> list[Document]:
        """Reference documents: the orders, and the deliveries without an order."""
        orders = self.latest_orders(DocumentType.PURCHASE_ORDER)
        notes = self.latest_orders(DocumentType.DELIVERY_NOTE)
        of_no_order = [note for note in notes if not self._nearest(note, orders)]
        receipts = [
            receipt
            for receipt in self.latest_orders(DocumentType.GOODS_RECEIPT)
            if not self._nearest(receipt, orders) and not self._nearest(receipt, notes)
        ]
        return orders + of_no_order + receipts

    @cached_property
    def reference_documents(self) -> dict[UUID, Collection[UUID]]:
        """Reference documents by document: its orders, or its deliveries if it has no order."""
        orders = self.latest_orders(DocumentType.PURCHASE_ORDER)
        others = [anchor for anchor in self.anchors if anchor.type is not DocumentType.PURCHASE_ORDER]
        return {
            document.id: [one.id for one in self._nearest(document, orders) or self._nearest(document, others)]
            for document in self.active_documents
        }

    @cached_property
    def confirmed_prices(self) -> dict[UUID, UUID]:
        """Delivery ids by delivery note and receipt, for deliveries with both documents.

        A delivery has the smallest id of its documents.
        """
        notes = self.latest_orders(DocumentType.DELIVERY_NOTE)
        part_of: dict[UUID, UUID] = {}

        def first(id_: UUID) -> UUID:
            while part_of.get(id_, id_) != id_:
                id_ = part_of[id_]
            return id_

        for receipt in self.latest_orders(DocumentType.GOODS_RECEIPT):
            linked = self.neighbors.get(receipt.id, frozenset())
            for note in notes:
                if note.id in linked or _names_delivery(receipt, note):
                    low, high = sorted((first(note.id), first(receipt.id)))
                    part_of[high] = part_of[low] = low
        return {id_: first(id_) for id_ in part_of}

    def _nearest(self, document: Document, targets: Sequence[Document]) -> list[Document]:
        """Return the targets that a document is linked to or names, or else the nearest ones by links."""
        current = {id_: last.id for id_, last in self.superseded_orders.items()}
        direct = {current.get(id_, id_) for id_ in self.neighbors.get(document.id, ())}
        named = [one for one in targets if one.id in direct or references_order(document, one)]
        if named:
            return named
        wanted = {one.id for one in targets}
        seen, level = {document.id}, {document.id}
        while level:
            level = {current.get(n, n) for id_ in level for n in self.neighbors.get(id_, ())} - seen
            if reached := level & wanted:
                return [one for one in targets if one.id in reached]
            seen |= level
        return []


def references_order(document: Document, order: Document) -> bool:
    """Return whether a document names an order, in its header or in a line item."""
    return order.reference is not None and any(
        reference.folded & order.reference.folded for reference in referenced_orders(document)
    )


def _names_delivery(receipt: Document, note: Document) -> bool:
    return note.reference is not None and any(
        named.folded & note.reference.folded for named in receipt.named.get("delivery_note_reference", ())
    )


def referenced_orders(document: Document) -> list[Reference]:
    """Return the numbers of orders that a document names."""
    found = list(document.named.get("po_reference", ()))
    return found + [line.order for line in document.lines if line.order is not None]


def _is_same_paper(one: Document, other: Document) -> bool:
    """Return whether two documents are duplicates: same number, date and line items.

    Applies to delivery notes, receipts and credit notes.
    """
    if one.reference is None or other.reference is None or not one.reference.folded & other.reference.folded:
        return False
    return one.day == other.day and _amounts(one) == _amounts(other)


def _amounts(document: Document) -> list[tuple[object, ...]]:
    return sorted((str(line.quantity), str(line.rejected), str(line.net)) for line in document.lines)


_ZERO = Decimal(0)
_CENT = Decimal("0.01")
_AWAY = Decimal("0.1")
"""Relative difference from the billed price beyond which a credit is about the price, not about returned goods."""


def returned_goods(item: Item) -> list[LedgerEntry]:
    """Return credited line items for returned goods: at the billed price, or without a price."""
    return [entry for entry in item.of(DocumentType.CREDIT_NOTE) if entry.quantity and not _is_of_price(item, entry)]


def _is_of_price(item: Item, entry: LedgerEntry) -> bool:
    """Return whether a line item credits a part of the price."""
    billed = [one.price for one in item.of(DocumentType.INVOICE) if one.price]
    return entry.price is not None and all(abs(abs(entry.price) / abs(one) - 1) > _AWAY for one in billed)


def credited_price(item: Item, too_high: Sequence[tuple[LedgerEntry, Decimal]]) -> str | None:
    """Return a sentence about the credit notes that refund excess prices; None if they do not.

    `too_high` contains the line items with excess prices by date, each with the excess per unit.
    """
    amounts = [one for one in item.of(DocumentType.CREDIT_NOTE) if one.line.net and _is_of_price(item, one)]
    too_much = sum((excess * (entry.quantity or _ZERO) for entry, excess in too_high), _ZERO)
    if amounts and _worth(amounts) >= too_much - _CENT:
        return _credits(amounts, money(_worth(amounts), amounts[0].document.currency))
    goods = returned_goods(item)
    billed = total(entry.quantity or _ZERO for entry, _ in too_high)
    return _credits(goods, format_quantity(billed, item)) if goods and _returned(goods) >= billed > 0 else None


def _returned(goods: Iterable[LedgerEntry]) -> Decimal:
    return total(abs(entry.quantity or _ZERO) for entry in goods)


def _worth(entries: Iterable[LedgerEntry]) -> Decimal:
    return sum((abs(entry.line.net or _ZERO) for entry in entries), _ZERO)


def _credits(entries: Iterable[LedgerEntry], what: str) -> str:
    notes = list(dict.fromkeys(entry.document.heading for entry in entries))
    return f"{' and '.join(notes)} {'credits' if len(notes) == 1 else 'credit'} {what}."


def goods_credited(item: Item, excess: Decimal) -> str | None:
    """Return a sentence about the credit notes for excess quantities; None if not credited."""
    goods = returned_goods(item)
    taken_back = _returned(goods)
    return _credits(goods, format_quantity(taken_back, item)) if goods and taken_back >= excess else None


def canceled(case: ClusterDocuments) -> dict[UUID, str]:
    """Return the duplicates that a credit note for the whole amount cancels, each with a sentence.

    A credit note for the original also cancels one of its duplicates.
    """
    copies: dict[UUID, list[UUID]] = {}
    for id_, original in case.duplicates.items():
        copies.setdefault(original.id, []).append(id_)
    by_id = {document.id: document for document in case.documents}
    found: dict[UUID, str] = {}
    for original_id, duplicates in copies.items():
        left = [by_id[id_] for id_ in duplicates]
        for credit in case.latest_orders(DocumentType.CREDIT_NOTE):
            taken = next((one for one in left if _is_over_all(case, credit, one)), None)
            if taken is not None:
                found[taken.id] = f"{credit.heading} credits all of it."
            elif left and _is_over_all(case, credit, by_id[original_id]):
                taken = left[0]
                found[taken.id] = f"{credit.heading} credits all of {by_id[original_id].title}."
            if taken is not None:
                left.remove(taken)
    return found


def _is_over_all(case: ClusterDocuments, credit: Document, invoice: Document) -> bool:
    """Return whether a credit note is about an invoice and its whole amount."""
    if credit.id not in case.neighbors.get(invoice.id, ()) or credit.gross is None or invoice.gross is None:
        return False
    return abs(credit.gross) == abs(invoice.gross)
