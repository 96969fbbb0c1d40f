"""The sample's scenarios.

Each adds the documents of one or more transactions, with their links.

A transaction is one cluster. Links without a reference number are unambiguous: the articles in these orders occur in no
other order to the supplier, and no article is ordered twice in the same quantity.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from random import Random

from tools.sample_generator import trading
from tools.sample_generator.model import Company, Document, Kind
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.trading import PurchaseContext, Supplier

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
    """File format: UBL 2.1, CII, or a PDF page with embedded CII."""

    UBL = "ubl"
    CII = "cii"
    HYBRID = "hybrid"


@dataclass(frozen=True, eq=False)
class GeneratedFile:
    """A document with its file format, time of receipt and ground truth."""

    document: Document
    form: Form
    cluster: str
    situation: str
    reason: str
    received: datetime


@dataclass(frozen=True)
class Link:
    """A true direct link.

    `stated` is True if one of the documents contains the other's number.
    """

    a: GeneratedFile
    b: GeneratedFile
    kind: str
    stated: bool


@dataclass
class ScenarioBuilder:
    """Builds one tenant's documents: its buyer, suppliers, files and links."""

    tenant: str
    buyer: Company
    suppliers: list[Supplier]
    rng: Random
    numbers: Numbers
    start_date: date
    generated_files: list[GeneratedFile] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    transaction_count: int = 0
    unused_suppliers: list[Supplier] = field(init=False)
    supplier_rotation: list[Supplier] = field(init=False)

    def __post_init__(self) -> None:
        """Shuffle the suppliers for regular orders and for orders of reserved articles."""
        self.unused_suppliers = self.rng.sample(self.suppliers, len(self.suppliers))
        self.supplier_rotation = self.rng.sample(self.suppliers, len(self.suppliers))

    def transaction(self, situation: str, supplier: Supplier | None = None) -> "Transaction":
        """Start a transaction a few days after the previous one.

        The default supplier is the next in rotation.
        """
        self.transaction_count += 1
        day = trading.workday(self.start_date, self.transaction_count * 5 + self.rng.randint(0, 4))
        if supplier is None:
            supplier = self.supplier_rotation.pop()
            self.supplier_rotation.insert(0, supplier)
        context = PurchaseContext(self.rng, self.numbers, self.buyer, supplier)
        return Transaction(self, context, situation, f"{self.tenant}-{self.transaction_count:02d}", day)


@dataclass
class Transaction:
    """A transaction in progress, which adds documents of its cluster to the builder."""

    builder: ScenarioBuilder
    context: PurchaseContext
    situation: str
    cluster: str
    day: date

    def later(self, min_days: int, max_days: int) -> date:
        """Advance the transaction by a few days, and return the working day."""
        self.day = trading.workday(self.day, self.builder.rng.randint(min_days, max_days))
        return self.day

    def file(self, document: Document, form: Form, reason: str, *, received: date | None = None) -> GeneratedFile:
        """Add a document, received on its own date by default."""
        minute = self.builder.rng.randrange(7 * 60, 17 * 60)
        moment = datetime.combine(received or document.issue_date, time(minute // 60, minute % 60))
        generated = GeneratedFile(document, form, self.cluster, self.situation, reason, moment)
        self.builder.generated_files.append(generated)
        return generated

    def link(self, a: GeneratedFile, b: GeneratedFile, *, stated: bool = True) -> None:
        """Add a direct link from `a` to `b`."""
        self.builder.links.append(Link(a, b, _LINK_KINDS[a.document.kind, b.document.kind], stated))

    def order(self, line_count: int | None = None, *, reserved: bool = False) -> GeneratedFile:
        """Add the transaction's order."""
        count = line_count or self.builder.rng.randint(2, 5)
        order = trading.place_order(self.context, self.day, count, reserved=reserved)
        return self.file(order, Form.UBL, "the other documents refer to it")

    def confirmation(self, order: GeneratedFile) -> GeneratedFile:
        """Add the supplier's confirmation."""
        confirmation = trading.confirm(self.context, order.document, self.later(1, 3))
        generated = self.file(confirmation, Form.UBL, "refers to its order")
        self.link(generated, order)
        return generated

    def delivery(self, order: GeneratedFile, quantities: list[Decimal] | None = None) -> GeneratedFile:
        """Add a delivery note, by default for all quantities."""
        share = quantities or trading.all_of(order.document)
        generated = self.file(
            trading.deliver(self.context, order.document, share, self.later(3, 9)), Form.UBL, "refers to its order"
        )
        self.link(generated, order)
        return generated

    def receipt(self, delivery: GeneratedFile, order: GeneratedFile, rejected: Decimal | None = None) -> GeneratedFile:
        """Add the buyer's goods receipt for a delivery."""
        receipt = trading.receive(self.context, delivery.document, self.later(0, 1), rejected)
        generated = self.file(receipt, Form.UBL, "refers to its delivery note and its order")
        self.link(generated, delivery)
        self.link(generated, order)
        return generated

    def invoice(
        self,
        order: GeneratedFile,
        form: Form,
        deliveries: list[GeneratedFile],
        *,
        quantities: list[Decimal] | None = None,
        names_order: bool = True,
        names_delivery: bool = False,
        number: str | None = None,
    ) -> GeneratedFile:
        """Add an invoice for the order and its deliveries, with the selected references."""
        references = {"po_reference": order.document.number} if names_order else {}
        if names_delivery:
            references["delivery_note_reference"] = deliveries[0].document.number
        if names_order and self.builder.rng.random() < 0.25:
            company = self.context.supplier.company
            references["sales_order_reference"] = self.builder.numbers.next(
                Kind.ORDER_CONFIRMATION, company, self.day.year
            )
        share = quantities or trading.all_of(order.document)
        invoice = trading.bill(self.context, order.document, share, self.later(1, 4), references, number)
        generated = self.file(invoice, form, _reason(names_order=names_order, names_delivery=names_delivery))
        self.link(generated, order, stated=names_order)
        for delivery in deliveries:
            self.link(generated, delivery, stated=names_delivery)
        return generated

    def credit_note(self, invoice: GeneratedFile, quantity: Decimal, form: Form = Form.UBL) -> GeneratedFile:
        """Add a credit note for part of the invoice's first line item."""
        note = trading.credit(self.context, invoice.document, quantity, self.later(4, 12))
        generated = self.file(note, form, "refers to the invoice that it credits")
        self.link(generated, invoice)
        return generated


def _reason(*, names_order: bool, names_delivery: bool) -> str:
    if names_order:
        return "refers to its order and its delivery note" if names_delivery else "refers to its order"
    if names_delivery:
        return "refers to its delivery note, which refers to the order"
    return "has no reference; only one order has this supplier, buyer, articles, quantities and amounts"


def full_chain(builder: ScenarioBuilder, form: Form) -> None:
    """Add an order, confirmation, delivery note, goods receipt and invoice.

    They refer to each other.
    """
    transaction = builder.transaction("full chain")
    order = transaction.order()
    transaction.confirmation(order)
    delivery = transaction.delivery(order)
    transaction.receipt(delivery, order)
    transaction.invoice(order, form, [delivery], names_delivery=True)


def short_chain(builder: ScenarioBuilder, form: Form) -> None:
    """Add an order, a delivery note, and an invoice that refers only to the order."""
    transaction = builder.transaction("order, delivery, invoice")
    order = transaction.order()
    delivery = transaction.delivery(order)
    transaction.invoice(order, form, [delivery])


def partial_deliveries_billed_apart(builder: ScenarioBuilder, form: Form) -> None:
    """Add an order with several deliveries, and an invoice for each delivery.

    Each invoice refers to the order and to its delivery note.
    """
    transaction = builder.transaction("partial deliveries, several invoices")
    order = transaction.order(builder.rng.randint(3, 5))
    for share in trading.split(builder.rng, order.document, builder.rng.randint(2, 3)):
        delivery = transaction.delivery(order, share)
        transaction.invoice(order, form, [delivery], quantities=share, names_delivery=True)


def partial_deliveries_billed_once(builder: ScenarioBuilder, form: Form) -> None:
    """Add an order with several deliveries and goods receipts, and one invoice.

    The invoice refers only to the order.
    """
    transaction = builder.transaction("partial deliveries, one invoice")
    order = transaction.order(builder.rng.randint(3, 5))
    deliveries = []
    for share in trading.split(builder.rng, order.document, builder.rng.randint(2, 3)):
        delivery = transaction.delivery(order, share)
        transaction.receipt(delivery, order)
        deliveries.append(delivery)
    transaction.invoice(order, form, deliveries)


def invoice_by_delivery_note(builder: ScenarioBuilder, form: Form) -> None:
    """Add an invoice that refers to the delivery note instead of the order."""
    transaction = builder.transaction("no order reference, names its delivery note", builder.unused_suppliers.pop())
    order = transaction.order(2, reserved=True)
    delivery = transaction.delivery(order)
    transaction.invoice(order, form, [delivery], names_order=False, names_delivery=True)


def invoice_by_content(builder: ScenarioBuilder, form: Form) -> None:
    """Add an invoice that can be matched to its order only by content."""
    transaction = builder.transaction("no reference at all", builder.unused_suppliers.pop())
    order = transaction.order(3, reserved=True)
    transaction.invoice(order, form, [], names_order=False)


def rejected_and_credited(builder: ScenarioBuilder, form: Form) -> None:
    """Add a delivery that is partly rejected, billed completely and then credited."""
    transaction = builder.transaction("rejected goods, credit note")
    order = transaction.order()
    delivery = transaction.delivery(order)
    first = order.document.lines[0]
    rejected = trading.quantity_step(first.unit, first.price_basis_quantity) * builder.rng.randint(1, 3)
    transaction.receipt(delivery, order, rejected)
    invoice = transaction.invoice(order, form, [delivery], names_delivery=True)
    transaction.credit_note(invoice, rejected)


def same_number_of_two_suppliers(builder: ScenarioBuilder, form: Form) -> None:
    """Add invoices with the same number from two suppliers.

    One of the invoices has a credit note.
    """
    first_supplier, second_supplier = builder.rng.sample(builder.suppliers, 2)
    number = None
    while number is None or not builder.numbers.reserve(number):
        number = f"{builder.start_date.year}-{builder.rng.randint(100, 4999):04d}"
    for supplier in (first_supplier, second_supplier):
        transaction = builder.transaction("same invoice number, two suppliers", supplier)
        order = transaction.order()
        invoice = transaction.invoice(order, form, [], number=number)
        if supplier is second_supplier:
            first = invoice.document.lines[0]
            transaction.credit_note(invoice, trading.quantity_step(first.unit, first.price_basis_quantity), Form.CII)


def duplicate_invoice(builder: ScenarioBuilder, form: Form) -> None:
    """Add an invoice that arrives again a few days later in another file format."""
    transaction = builder.transaction("duplicate invoice")
    order = transaction.order()
    original = transaction.invoice(order, form, [])
    received = transaction.later(5, 15)
    other_form = Form.UBL if form is Form.HYBRID else Form.HYBRID
    duplicate = transaction.file(
        original.document, other_form, "the same invoice again in a different file format", received=received
    )
    transaction.link(duplicate, original)


def unknown_order(builder: ScenarioBuilder, form: Form) -> None:
    """Add an invoice without a match, which refers to an order outside the sample."""
    transaction = builder.transaction("order not in the set", builder.unused_suppliers.pop())
    missing = trading.place_order(transaction.context, transaction.day, 2, reserved=True)
    references = {"po_reference": missing.number}
    invoice = trading.bill(transaction.context, missing, trading.all_of(missing), transaction.later(6, 14), references)
    transaction.file(invoice, form, "refers to an order that is not in the set, so it has no match")


def copy_transaction(source: ScenarioBuilder, target: ScenarioBuilder, cluster: str) -> None:
    """Add an identical copy of a transaction to another tenant.

    It is a separate cluster there.
    """
    copies: dict[GeneratedFile, GeneratedFile] = {}
    label = _copied_label(target)
    for generated in [generated for generated in source.generated_files if generated.cluster == cluster]:
        reason = f"{generated.reason}; the other tenant has the same file, which must not match"
        copies[generated] = _refile(generated, target, label, reason, "identical in both tenants")
    for link in [link for link in source.links if link.a in copies]:
        target.links.append(Link(copies[link.a], copies[link.b], link.kind, link.stated))


def copy_invoice(source: ScenarioBuilder, target: ScenarioBuilder, cluster: str) -> None:
    """Add only a transaction's invoice to another tenant, where it has no match."""
    invoice = next(
        generated
        for generated in source.generated_files
        if generated.cluster == cluster and generated.document.kind is Kind.INVOICE
    )
    reason = "only the other tenant has its order, so it has no match"
    _refile(invoice, target, _copied_label(target), reason, "partner only in the other tenant")


def _copied_label(target: ScenarioBuilder) -> str:
    target.transaction_count += 1
    return f"{target.tenant}-{target.transaction_count:02d}"


def _refile(
    generated: GeneratedFile, target: ScenarioBuilder, label: str, reason: str, situation: str
) -> GeneratedFile:
    received = generated.received + timedelta(minutes=target.rng.randint(3, 40))
    copy = GeneratedFile(generated.document, generated.form, label, situation, reason, received)
    target.generated_files.append(copy)
    return copy
