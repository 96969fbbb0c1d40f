"""The situations of the sample: each leaves the papers of one or more deals in a tenant's casebook, with true links.

A deal is one cluster. Whatever is not named by a number is told by content without doubt: articles of unnamed orders
occur in no other order of the supplier, and no article is ordered twice in the same quantity.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from random import Random

from tools.sample_generator import trading
from tools.sample_generator.model import Document, Firm, Kind
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.trading import Buying, Supplier

_LINK_KINDS: Mapping[tuple[Kind, Kind], str] = {
    (Kind.ORDER_CONFIRMATION, Kind.PURCHASE_ORDER): "confirmation-order",
    (Kind.DELIVERY_NOTE, Kind.PURCHASE_ORDER): "delivery-order",
    (Kind.GOODS_RECEIPT, Kind.PURCHASE_ORDER): "receipt-order",
    (Kind.GOODS_RECEIPT, Kind.DELIVERY_NOTE): "receipt-delivery",
    (Kind.INVOICE, Kind.PURCHASE_ORDER): "invoice-order",
    (Kind.INVOICE, Kind.DELIVERY_NOTE): "invoice-delivery",
    (Kind.INVOICE, Kind.INVOICE): "duplicate-original",
    (Kind.CREDIT_NOTE, Kind.INVOICE): "credit_note-invoice",
}


class Form(StrEnum):
    """How a document is written: as UBL 2.1, as CII, or as a PDF page with the CII inside."""

    UBL = "ubl"
    CII = "cii"
    HYBRID = "hybrid"


@dataclass(frozen=True, eq=False)
class Filing:
    """A document in its form, as it came in, with its place in the truth."""

    document: Document
    form: Form
    cluster: str
    situation: str
    reason: str
    received: datetime


@dataclass(frozen=True)
class Link:
    """A true direct link from `a` to `b`. `stated`: one of the two names the other by its number."""

    a: Filing
    b: Filing
    kind: str
    stated: bool


@dataclass
class Casebook:
    """What came in for one tenant: its buyer, its suppliers, its filings and their links."""

    tenant: str
    buyer: Firm
    suppliers: list[Supplier]
    rng: Random
    numbers: Numbers
    opened: date
    filings: list[Filing] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    deals: int = 0
    untouched: list[Supplier] = field(init=False)
    rota: list[Supplier] = field(init=False)

    def __post_init__(self) -> None:
        """Put in an order by chance who is next to sell, and whose reserved articles are next to be ordered."""
        self.untouched = self.rng.sample(self.suppliers, len(self.suppliers))
        self.rota = self.rng.sample(self.suppliers, len(self.suppliers))

    def deal(self, situation: str, supplier: Supplier | None = None) -> "Deal":
        """Open the next deal, with the given supplier or with the next one in turn, some days after the last."""
        self.deals += 1
        day = trading.workday(self.opened, self.deals * 5 + self.rng.randint(0, 4))
        if supplier is None:
            supplier = self.rota.pop()
            self.rota.insert(0, supplier)
        buying = Buying(self.rng, self.numbers, self.buyer, supplier)
        return Deal(self, buying, situation, f"{self.tenant}-{self.deals:02d}", day)


@dataclass
class Deal:
    """One deal under way: files documents into the casebook under its cluster."""

    book: Casebook
    buying: Buying
    situation: str
    cluster: str
    day: date

    def later(self, least: int, most: int) -> date:
        """Move the deal on by some days and return the working day."""
        self.day = trading.workday(self.day, self.book.rng.randint(least, most))
        return self.day

    def file(self, document: Document, form: Form, reason: str, *, received: date | None = None) -> Filing:
        """File a document, received on its own day where no other is given."""
        minute = self.book.rng.randrange(7 * 60, 17 * 60)
        moment = datetime.combine(received or document.issued, time(minute // 60, minute % 60))
        filing = Filing(document, form, self.cluster, self.situation, reason, moment)
        self.book.filings.append(filing)
        return filing

    def link(self, a: Filing, b: Filing, *, stated: bool = True) -> None:
        """Record that `a` belongs to `b` directly."""
        self.book.links.append(Link(a, b, _LINK_KINDS[a.document.kind, b.document.kind], stated))

    def order(self, line_count: int | None = None, *, reserved: bool = False) -> Filing:
        """File the order that opens the deal."""
        count = line_count or self.book.rng.randint(2, 5)
        order = trading.place_order(self.buying, self.day, count, reserved=reserved)
        return self.file(order, Form.UBL, "opens the deal; the others refer to it")

    def confirmation(self, order: Filing) -> Filing:
        """File the supplier's confirmation."""
        confirmation = trading.confirm(self.buying, order.document, self.later(1, 3))
        filing = self.file(confirmation, Form.UBL, "names its order")
        self.link(filing, order)
        return filing

    def delivery(self, order: Filing, quantities: list[Decimal] | None = None) -> Filing:
        """File a delivery note, of everything where no quantities are given."""
        share = quantities or trading.all_of(order.document)
        filing = self.file(
            trading.deliver(self.buying, order.document, share, self.later(3, 9)), Form.UBL, "names its order"
        )
        self.link(filing, order)
        return filing

    def receipt(self, delivery: Filing, order: Filing, rejected: Decimal | None = None) -> Filing:
        """File the buyer's goods receipt for a delivery."""
        receipt = trading.receive(self.buying, delivery.document, self.later(0, 1), rejected)
        filing = self.file(receipt, Form.UBL, "names its delivery note and its order")
        self.link(filing, delivery)
        self.link(filing, order)
        return filing

    def invoice(
        self,
        order: Filing,
        form: Form,
        deliveries: list[Filing],
        *,
        quantities: list[Decimal] | None = None,
        names_order: bool = True,
        names_delivery: bool = False,
        number: str | None = None,
    ) -> Filing:
        """File an invoice for the order and what it bills of the deliveries; it names what it is told to name."""
        references = {"po_reference": order.document.number} if names_order else {}
        if names_delivery:
            references["delivery_note_reference"] = deliveries[0].document.number
        if names_order and self.book.rng.random() < 0.25:
            firm = self.buying.supplier.firm
            references["sales_order_reference"] = self.book.numbers.next(Kind.ORDER_CONFIRMATION, firm, self.day.year)
        share = quantities or trading.all_of(order.document)
        invoice = trading.bill(self.buying, order.document, share, self.later(1, 4), references, number)
        filing = self.file(invoice, form, _reason(names_order=names_order, names_delivery=names_delivery))
        self.link(filing, order, stated=names_order)
        for delivery in deliveries:
            self.link(filing, delivery, stated=names_delivery)
        return filing

    def credit_note(self, invoice: Filing, quantity: Decimal, form: Form = Form.UBL) -> Filing:
        """File a credit note for part of the invoice's first line."""
        note = trading.credit(self.buying, invoice.document, quantity, self.later(4, 12))
        filing = self.file(note, form, "names the invoice that it credits")
        self.link(filing, invoice)
        return filing


def _reason(*, names_order: bool, names_delivery: bool) -> str:
    if names_order:
        return "names its order and its delivery note" if names_delivery else "names its order"
    if names_delivery:
        return "names its delivery note, which names the order"
    return "names nothing; supplier, buyer, articles, quantities and amounts fit one order alone"


def full_chain(book: Casebook, form: Form) -> None:
    """Order, confirmation, delivery, goods receipt and invoice, each naming what came before."""
    deal = book.deal("full chain")
    order = deal.order()
    deal.confirmation(order)
    delivery = deal.delivery(order)
    deal.receipt(delivery, order)
    deal.invoice(order, form, [delivery], names_delivery=True)


def short_chain(book: Casebook, form: Form) -> None:
    """Order, delivery and an invoice that names the order alone."""
    deal = book.deal("order, delivery, invoice")
    order = deal.order()
    delivery = deal.delivery(order)
    deal.invoice(order, form, [delivery])


def partial_deliveries_billed_apart(book: Casebook, form: Form) -> None:
    """One order in two or three deliveries, each with an invoice of its own that names order and delivery."""
    deal = book.deal("partial deliveries, several invoices")
    order = deal.order(book.rng.randint(3, 5))
    for share in trading.split(book.rng, order.document, book.rng.randint(2, 3)):
        delivery = deal.delivery(order, share)
        deal.invoice(order, form, [delivery], quantities=share, names_delivery=True)


def partial_deliveries_billed_once(book: Casebook, form: Form) -> None:
    """One order in two or three deliveries, received one by one, and one invoice for all that names the order alone."""
    deal = book.deal("partial deliveries, one invoice")
    order = deal.order(book.rng.randint(3, 5))
    deliveries = []
    for share in trading.split(book.rng, order.document, book.rng.randint(2, 3)):
        delivery = deal.delivery(order, share)
        deal.receipt(delivery, order)
        deliveries.append(delivery)
    deal.invoice(order, form, deliveries)


def invoice_by_delivery_note(book: Casebook, form: Form) -> None:
    """An invoice without an order reference that names the delivery note."""
    deal = book.deal("no order reference, names its delivery note", book.untouched.pop())
    order = deal.order(2, reserved=True)
    delivery = deal.delivery(order)
    deal.invoice(order, form, [delivery], names_order=False, names_delivery=True)


def invoice_by_content(book: Casebook, form: Form) -> None:
    """An invoice without any reference: only its content says which order it bills."""
    deal = book.deal("no reference at all", book.untouched.pop())
    order = deal.order(3, reserved=True)
    deal.invoice(order, form, [], names_order=False)


def rejected_and_credited(book: Casebook, form: Form) -> None:
    """Part of a delivery is rejected, billed all the same, and credited."""
    deal = book.deal("rejected goods, credit note")
    order = deal.order()
    delivery = deal.delivery(order)
    first = order.document.lines[0]
    rejected = trading.quantity_step(first.unit, first.price_basis_quantity) * book.rng.randint(1, 3)
    deal.receipt(delivery, order, rejected)
    invoice = deal.invoice(order, form, [delivery], names_delivery=True)
    deal.credit_note(invoice, rejected)


def same_number_of_two_suppliers(book: Casebook, form: Form) -> None:
    """Two suppliers give their invoices the same number; a credit note names it, and means its own issuer's invoice."""
    one, other = book.rng.sample(book.suppliers, 2)
    shared = None
    while shared is None or not book.numbers.take(shared):
        shared = f"{book.opened.year}-{book.rng.randint(100, 4999):04d}"
    for supplier in (one, other):
        deal = book.deal("same invoice number, two suppliers", supplier)
        order = deal.order()
        invoice = deal.invoice(order, form, [], number=shared)
        if supplier is other:
            first = invoice.document.lines[0]
            deal.credit_note(invoice, trading.quantity_step(first.unit, first.price_basis_quantity), Form.CII)


def duplicate_invoice(book: Casebook, form: Form) -> None:
    """An invoice comes, and some days later again in another form: PDF after XML, XML after PDF."""
    deal = book.deal("duplicate invoice")
    order = deal.order()
    original = deal.invoice(order, form, [])
    received = deal.later(5, 15)
    other = Form.UBL if form is Form.HYBRID else Form.HYBRID
    again = deal.file(original.document, other, "the same invoice again in another form", received=received)
    deal.link(again, original)


def unknown_order(book: Casebook, form: Form) -> None:
    """An invoice that names an order which is not in the set: it stays alone."""
    deal = book.deal("order not in the set", book.untouched.pop())
    missing = trading.place_order(deal.buying, deal.day, 2, reserved=True)
    references = {"po_reference": missing.number}
    invoice = trading.bill(deal.buying, missing, trading.all_of(missing), deal.later(6, 14), references)
    deal.file(invoice, form, "names an order that is not in the set: it stays alone")


def copy_deal(source: Casebook, target: Casebook, cluster: str) -> None:
    """File the whole deal again, byte for byte, in another tenant, where it is a cluster of its own."""
    copies: dict[Filing, Filing] = {}
    label = _copied_label(target)
    for filing in [filing for filing in source.filings if filing.cluster == cluster]:
        reason = f"{filing.reason}; the other tenant holds the same file, which is no partner"
        copies[filing] = _refile(filing, target, label, reason, "identical in both tenants")
    for link in [link for link in source.links if link.a in copies]:
        target.links.append(Link(copies[link.a], copies[link.b], link.kind, link.stated))


def copy_invoice(source: Casebook, target: Casebook, cluster: str) -> None:
    """File the deal's invoice alone in another tenant, where the order that it names is not: it stays alone there."""
    invoice = next(f for f in source.filings if f.cluster == cluster and f.document.kind is Kind.INVOICE)
    reason = "its order is in the other tenant only: it stays alone"
    _refile(invoice, target, _copied_label(target), reason, "partner only in the other tenant")


def _copied_label(target: Casebook) -> str:
    target.deals += 1
    return f"{target.tenant}-{target.deals:02d}"


def _refile(filing: Filing, target: Casebook, label: str, reason: str, situation: str) -> Filing:
    received = filing.received + timedelta(minutes=target.rng.randint(3, 40))
    copied = Filing(filing.document, filing.form, label, situation, reason, received)
    target.filings.append(copied)
    return copied
