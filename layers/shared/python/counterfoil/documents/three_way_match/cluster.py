"""Documents of a cluster that count, and their reference documents. Pure.

Duplicates count once. Only the latest version of a changed order counts. A credit note credits returned goods at the
billed price, or part of the price.
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
from counterfoil.documents.three_way_match.model import Document, format_money

Edges = Collection[tuple[UUID, UUID]]

_COUNTED_ONCE = (DocumentType.DELIVERY_NOTE, DocumentType.GOODS_RECEIPT, DocumentType.CREDIT_NOTE)


@dataclass(frozen=True)
class ClusterDocuments:
    """The documents of a cluster, and their linked contracts."""

    documents: Sequence[Document]
    edges: Edges

    @cached_property
    def neighbors(self) -> Mapping[UUID, frozenset[UUID]]:
        """Ids of linked documents, by document id."""
        by_document: dict[UUID, set[UUID]] = defaultdict(set)
        ids = {document.id for document in self.documents}
        for a, b in self.edges:
            if a in ids and b in ids:
                by_document[a].add(b)
                by_document[b].add(a)
        return {id_: frozenset(others) for id_, others in by_document.items()}

    def documents_of(self, *types: DocumentType) -> list[Document]:
        """Return the documents of these types, by date."""
        return sorted(
            (document for document in self.documents if document.type in types),
            key=lambda document: document.sort_key,
        )

    @cached_property
    def duplicates(self) -> Mapping[UUID, Document]:
        """Duplicate invoices, mapped to their originals.

        Invoices are duplicates if matching has linked them, or if they have the same number and are duplicates by the
        matching rules. Of two duplicates, the original is the invoice with links to other types of documents, or else
        the invoice received first.
        """
        invoices = sorted(self.documents_of(DocumentType.INVOICE), key=self._originality)
        originals: dict[UUID, Document] = {}
        for index, invoice in enumerate(invoices):
            for other in invoices[:index]:
                if other.id not in originals and self._is_duplicate(other, invoice):
                    originals[invoice.id] = other
                    break
        return originals

    def _originality(self, invoice: Document) -> tuple[object, ...]:
        types = {document.id: document.type for document in self.documents}
        others = [id_ for id_ in self.neighbors.get(invoice.id, ()) if types[id_] is not DocumentType.INVOICE]
        return not others, invoice.received_at, invoice.id

    def _is_duplicate(self, first: Document, second: Document) -> bool:
        if second.id in self.neighbors.get(first.id, ()):
            return True
        same_number = first.reference and second.reference and first.reference.folded & second.reference.folded
        return bool(same_number) and self._is_same(first, second)

    @cached_property
    def superseded_orders(self) -> Mapping[UUID, Document]:
        """Orders that were changed or repeated, mapped to their latest version."""
        latest_versions: dict[UUID, Document] = {}
        later: dict[str, list[Document]] = defaultdict(list)
        for order in reversed(self.documents_of(DocumentType.PURCHASE_ORDER)):
            forms = order.reference.folded if order.reference else ()
            same_number = {other.id: other for form in forms for other in later[form]}
            versions = [other for other in same_number.values() if self._is_same(order, other)]
            if versions:
                latest_versions[order.id] = max(versions, key=lambda version: version.sort_key)
            for form in forms:
                later[form].append(order)
        return latest_versions

    def _is_same(self, first: Document, second: Document) -> bool:
        """Return whether two documents are duplicates by the matching rules."""
        return is_same_document(self._profile(first), self._profile(second))

    def _profile(self, document: Document) -> normalize.Document:
        profile = self._profiles.get(document.id)
        if profile is None:
            profile = normalize.document(document.id, document.received_at, document.type.value, document.data)
            self._profiles[document.id] = profile
        return profile

    @cached_property
    def _profiles(self) -> dict[UUID, normalize.Document]:
        """Cache of documents in the form that matching uses, by id."""
        return {}

    @cached_property
    def repeated_documents(self) -> Mapping[UUID, Document]:
        """Duplicate delivery notes, receipts and credit notes, mapped to their originals."""
        originals: dict[UUID, Document] = {}
        for type_ in _COUNTED_ONCE:
            candidates = self.documents_of(type_)
            for index, document in enumerate(candidates):
                first = next((earlier for earlier in candidates[:index] if _is_repeated(earlier, document)), None)
                if first is not None:
                    originals[document.id] = originals.get(first.id, first)
        return originals

    @cached_property
    def active_documents(self) -> list[Document]:
        """Documents that count: all except for duplicates and superseded orders."""
        excluded = self.duplicates.keys() | self.superseded_orders.keys() | self.repeated_documents.keys()
        return [document for document in self.documents if document.id not in excluded]

    def active_of(self, type_: DocumentType) -> list[Document]:
        """Return the documents of a type that count, by date."""
        active_ids = {document.id for document in self.active_documents}
        return [document for document in self.documents_of(type_) if document.id in active_ids]

    @cached_property
    def lineless_documents(self) -> list[Document]:
        """Delivery notes and receipts without any quantity in a line item."""
        deliveries = self.active_of(DocumentType.DELIVERY_NOTE) + self.active_of(DocumentType.GOODS_RECEIPT)
        return [document for document in deliveries if not any(line.quantity is not None for line in document.lines)]

    @cached_property
    def anchors(self) -> list[Document]:
        """Reference documents: the orders, and the deliveries without an order."""
        orders = self.active_of(DocumentType.PURCHASE_ORDER)
        notes = self.active_of(DocumentType.DELIVERY_NOTE)
        unordered_notes = [note for note in notes if not self._nearest(note, orders)]
        receipts = [
            receipt
            for receipt in self.active_of(DocumentType.GOODS_RECEIPT)
            if not self._nearest(receipt, orders) and not self._nearest(receipt, notes)
        ]
        return orders + unordered_notes + receipts

    @cached_property
    def reference_documents(self) -> dict[UUID, Collection[UUID]]:
        """Each document's orders, or its deliveries if it has no order."""
        orders = self.active_of(DocumentType.PURCHASE_ORDER)
        deliveries = [anchor for anchor in self.anchors if anchor.type is not DocumentType.PURCHASE_ORDER]
        return {
            document.id: [
                target.id for target in self._nearest(document, orders) or self._nearest(document, deliveries)
            ]
            for document in self.active_documents
        }

    @cached_property
    def paired_deliveries(self) -> dict[UUID, UUID]:
        """Delivery ids by delivery note and receipt, for deliveries with both documents.

        A delivery's id is the smallest id of its documents.
        """
        notes = self.active_of(DocumentType.DELIVERY_NOTE)
        parents: dict[UUID, UUID] = {}

        def root(id_: UUID) -> UUID:
            while parents.get(id_, id_) != id_:
                id_ = parents[id_]
            return id_

        for receipt in self.active_of(DocumentType.GOODS_RECEIPT):
            linked = self.neighbors.get(receipt.id, frozenset())
            for note in notes:
                if note.id in linked or _names_delivery(receipt, note):
                    low, high = sorted((root(note.id), root(receipt.id)))
                    parents[high] = parents[low] = low
        return {id_: root(id_) for id_ in parents}

    def _nearest(self, document: Document, targets: Sequence[Document]) -> list[Document]:
        """Return the targets that a document is linked to or names.

        Without such targets, return the targets that are the fewest links away.
        """
        latest_ids = {id_: latest.id for id_, latest in self.superseded_orders.items()}
        linked_ids = {latest_ids.get(id_, id_) for id_ in self.neighbors.get(document.id, ())}
        linked_targets = [target for target in targets if target.id in linked_ids or references_order(document, target)]
        if linked_targets:
            return linked_targets
        target_ids = {target.id for target in targets}
        visited, level = {document.id}, {document.id}
        while level:
            level = {
                latest_ids.get(neighbor, neighbor) for id_ in level for neighbor in self.neighbors.get(id_, ())
            } - visited
            if reached := level & target_ids:
                return [target for target in targets if target.id in reached]
            visited |= level
        return []


def references_order(document: Document, order: Document) -> bool:
    """Return whether a document names an order, in its header or in a line item."""
    return order.reference is not None and any(
        reference.folded & order.reference.folded for reference in referenced_orders(document)
    )


def _names_delivery(receipt: Document, note: Document) -> bool:
    return note.reference is not None and any(
        reference.folded & note.reference.folded for reference in receipt.references.get("delivery_note_reference", ())
    )


def referenced_orders(document: Document) -> list[Reference]:
    """Return the numbers of orders that a document names."""
    references = list(document.references.get("po_reference", ()))
    return references + [line.order for line in document.lines if line.order is not None]


def _is_repeated(first: Document, second: Document) -> bool:
    """Return whether two documents are duplicates: same number, date and line items.

    Applies to delivery notes, receipts and credit notes.
    """
    if first.reference is None or second.reference is None or not first.reference.folded & second.reference.folded:
        return False
    return first.day == second.day and _amounts(first) == _amounts(second)


def _amounts(document: Document) -> list[tuple[object, ...]]:
    return sorted((str(line.quantity), str(line.rejected), str(line.net)) for line in document.lines)


_ZERO = Decimal(0)
_CENT = Decimal("0.01")
_PRICE_CREDIT_RATIO = Decimal("0.1")
"""Relative difference from the billed price beyond which a credit is for the price, not for returned goods."""


def returned_goods(item: Item) -> list[LedgerEntry]:
    """Return the credited line items for returned goods.

    Their price is near the billed price, or is missing.
    """
    return [
        entry
        for entry in item.entries_of(DocumentType.CREDIT_NOTE)
        if entry.quantity and not _is_price_credit(item, entry)
    ]


def _is_price_credit(item: Item, entry: LedgerEntry) -> bool:
    """Return whether a line item credits part of the price."""
    prices = [billed.price for billed in item.entries_of(DocumentType.INVOICE) if billed.price]
    return entry.price is not None and all(
        abs(abs(entry.price) / abs(price) - 1) > _PRICE_CREDIT_RATIO for price in prices
    )


def price_credit(item: Item, too_high: Sequence[tuple[LedgerEntry, Decimal]]) -> str | None:
    """Return a sentence about credit notes that cover the excess prices, or None.

    A return of all affected goods also counts. `too_high` contains the line items with excess prices by date, each with
    the excess per unit.
    """
    amounts = [
        credit_entry
        for credit_entry in item.entries_of(DocumentType.CREDIT_NOTE)
        if credit_entry.line.net and _is_price_credit(item, credit_entry)
    ]
    total_excess = sum((excess * (entry.quantity or _ZERO) for entry, excess in too_high), _ZERO)
    if amounts and _total_value(amounts) >= total_excess - _CENT:
        return _credits(amounts, format_money(_total_value(amounts), amounts[0].document.currency))
    goods = returned_goods(item)
    billed = total(entry.quantity or _ZERO for entry, _ in too_high)
    return _credits(goods, format_quantity(billed, item)) if goods and _returned_quantity(goods) >= billed > 0 else None


def _returned_quantity(goods: Iterable[LedgerEntry]) -> Decimal:
    return total(abs(entry.quantity or _ZERO) for entry in goods)


def _total_value(entries: Iterable[LedgerEntry]) -> Decimal:
    return sum((abs(entry.line.net or _ZERO) for entry in entries), _ZERO)


def _credits(entries: Iterable[LedgerEntry], credited: str) -> str:
    notes = list(dict.fromkeys(entry.document.heading for entry in entries))
    return f"{' and '.join(notes)} {'credits' if len(notes) == 1 else 'credit'} {credited}."


def quantity_credit(item: Item, excess: Decimal) -> str | None:
    """Return a sentence about credit notes for all of an excess quantity, or None."""
    goods = returned_goods(item)
    returned = _returned_quantity(goods)
    return _credits(goods, format_quantity(returned, item)) if goods and returned >= excess else None


def canceled_duplicates(cluster: ClusterDocuments) -> dict[UUID, str]:
    """Return the duplicates that credit notes cancel, each with a sentence.

    Only a credit note for the whole amount cancels a duplicate. A credit note for the original also cancels one of its
    duplicates.
    """
    duplicates_by_original: dict[UUID, list[UUID]] = {}
    for id_, original in cluster.duplicates.items():
        duplicates_by_original.setdefault(original.id, []).append(id_)
    by_id = {document.id: document for document in cluster.documents}
    sentences: dict[UUID, str] = {}
    for original_id, duplicates in duplicates_by_original.items():
        open_duplicates = [by_id[id_] for id_ in duplicates]
        for credit in cluster.active_of(DocumentType.CREDIT_NOTE):
            canceled_duplicate = next(
                (duplicate for duplicate in open_duplicates if _covers_invoice(cluster, credit, duplicate)), None
            )
            if canceled_duplicate is not None:
                sentences[canceled_duplicate.id] = f"{credit.heading} credits all of it."
            elif open_duplicates and _covers_invoice(cluster, credit, by_id[original_id]):
                canceled_duplicate = open_duplicates[0]
                sentences[canceled_duplicate.id] = f"{credit.heading} credits all of {by_id[original_id].title}."
            if canceled_duplicate is not None:
                open_duplicates.remove(canceled_duplicate)
    return sentences


def _covers_invoice(cluster: ClusterDocuments, credit: Document, invoice: Document) -> bool:
    """Return whether a credit note is linked to an invoice and credits all of it."""
    if credit.id not in cluster.neighbors.get(invoice.id, ()) or credit.gross is None or invoice.gross is None:
        return False
    return abs(credit.gross) == abs(invoice.gross)
