"""A tenant's cases, with one transaction per kind of variance.

Some cases are sent by mail, and some share a file. Documents are identified by type and number. Each case has exactly
the variances in its documents' `codes`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from email.message import EmailMessage
from random import Random

from tools.sample_generator.bulk import orders_with_invoices
from tools.sample_generator.bundle import Bundle, bundle
from tools.sample_generator.catalog import PRODUCT_LINES
from tools.sample_generator.companies import CompanyRegistry
from tools.sample_generator.model import Document, Kind, Tax, Totals
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.pdf import write_hybrid
from tools.sample_generator.trading import (
    PurchaseContext,
    all_of,
    bill,
    credit,
    deliver,
    place_order,
    price_list,
    receive,
    workday,
)
from tools.sample_generator.ubl import write_ubl

INVOICES_IN_ONE_FILE = 23
IN_ONE_FILE = "one of many in a file"
"""Title of the cases whose invoices are in one file."""
_COUNTRY = "DE"
_START_DATE = date(2025, 3, 3)
_DAYS_APART = 6


@dataclass(frozen=True)
class CaseDocument:
    """A document with the codes of its variances."""

    document: Document
    codes: frozenset[str] = frozenset()

    @property
    def name(self) -> tuple[str, str]:
        """Type and number, which identify the document."""
        return self.document.kind, self.document.number


@dataclass(frozen=True)
class Case:
    """A transaction's documents, which form one cluster."""

    title: str
    documents: tuple[CaseDocument, ...]
    by_mail: bool = False


@dataclass(frozen=True)
class Cases:
    """All cases of the tenant."""

    cases: tuple[Case, ...]
    bundle: Bundle
    """One file that contains the invoices of some cases."""
    address: str = field(default="")
    """The tenant's mail address."""

    def files(self) -> list[tuple[str, bytes]]:
        """Return the files to upload, as pairs of name and content."""
        bundled = {id(document) for document in self.bundle.documents}
        single = [
            _file(item.document)
            for case in self.cases
            for item in case.documents
            if not case.by_mail and id(item.document) not in bundled
        ]
        return [*single, (f"{INVOICES_IN_ONE_FILE} Rechnungen.pdf", self.bundle.content)]

    def mails(self) -> list[tuple[str, bytes]]:
        """Return the emails, as pairs of file name and content (RFC 5322)."""
        return [(f"{case.documents[-1].document.number}.eml", self._mail(case)) for case in self.cases if case.by_mail]

    def _mail(self, case: Case) -> bytes:
        last = case.documents[-1].document
        mail = EmailMessage()
        mail["From"], mail["To"] = f"{last.issuer.short_name} <{last.issuer.email}>", self.address
        mail["Subject"], mail["Message-ID"] = f"Rechnung {last.number}", f"<{last.number}@{self.address.split('@')[1]}>"
        mail.set_content("Guten Tag,\n\nanbei unsere Papiere.\n")
        for item in case.documents:
            name, content = _file(item.document)
            mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
        return mail.as_bytes()


def _file(document: Document) -> tuple[str, bytes]:
    """Return the name and content of a document's file.

    It is a hybrid PDF for an invoice, and UBL for other types.
    """
    if document.kind is Kind.INVOICE:
        return f"{document.number}.pdf", write_hybrid(document)
    return f"{document.kind}-{document.number}.xml", write_ubl(document)


@dataclass(frozen=True)
class _Misstated(Document):
    """A document with an incorrect gross total."""

    gross_error: Decimal = Decimal(0)

    @property
    def totals(self) -> Totals:
        """Totals with the incorrect gross amount."""
        correct = super().totals
        return replace(correct, gross=correct.gross + self.gross_error)


class _Transaction:
    """A transaction in progress."""

    def __init__(self, context: PurchaseContext, begin: date) -> None:
        self.context = context
        self.day = begin
        self.order = place_order(context, begin, 2)

    def later(self, days: int) -> date:
        """Advance the transaction by `days`, and return the working day."""
        self.day = workday(self.day, days)
        return self.day

    def quantities(self, change: Decimal | int = 0) -> list[Decimal]:
        """Return all ordered quantities, with the first one changed."""
        first, *rest = all_of(self.order)
        return [first + change, *rest]

    def delivery(self, change: int = 0) -> Document:
        return deliver(self.context, self.order, self.quantities(change), self.later(3))

    def invoice(self, change: int = 0, delivery: Document | None = None) -> Document:
        references = {"po_reference": self.order.number}
        if delivery is not None:
            references["delivery_note_reference"] = delivery.number
        return _without_freight(bill(self.context, self.order, self.quantities(change), self.later(2), references))


def _without_freight(invoice: Document) -> Document:
    """Remove freight, so that a case has only its own variance."""
    return replace(invoice, lines=tuple(line for line in invoice.lines if line.article_number is not None))


_Build = Callable[[_Transaction], Sequence[CaseDocument]]


def _three_way(
    transaction: _Transaction, change: Callable[[Document], Document] = lambda document: document, *codes: str
) -> list[CaseDocument]:
    """Create an order, its delivery note and its changed invoice."""
    delivery = transaction.delivery()
    return [
        CaseDocument(transaction.order),
        CaseDocument(delivery),
        CaseDocument(change(transaction.invoice(0, delivery)), frozenset(codes)),
    ]


def _first_line(**changes: object) -> Callable[[Document], Document]:
    """Return a function that changes the first line item."""
    return lambda document: replace(document, lines=(replace(document.lines[0], **changes), *document.lines[1:]))  # type: ignore[arg-type]


def _quantity_case(delivered: int, billed: int, on_delivery: str, on_invoice: str = "") -> _Build:
    """Return a builder for a case whose first line item differs from the order.

    `delivered` and `billed` are the differences in quantity. `on_delivery` and `on_invoice` are the variance codes.
    """

    def build(transaction: _Transaction) -> list[CaseDocument]:
        delivery = transaction.delivery(delivered)
        codes = frozenset({on_invoice} - {""})
        return [
            CaseDocument(transaction.order),
            CaseDocument(delivery, frozenset({on_delivery})),
            CaseDocument(transaction.invoice(billed, delivery), codes),
        ]

    return build


def _price(transaction: _Transaction) -> list[CaseDocument]:
    price = transaction.order.lines[0].unit_price or Decimal(1)
    return _three_way(
        transaction, _first_line(unit_price=(price * Decimal("1.12")).quantize(Decimal("0.01"))), "price_mismatch"
    )


def _basis(transaction: _Transaction) -> list[CaseDocument]:
    transaction.order = _first_line(price_basis_quantity=Decimal(100))(transaction.order)
    return _three_way(transaction, _first_line(price_basis_quantity=Decimal(10)), "price_basis_mismatch")


def _total(transaction: _Transaction) -> list[CaseDocument]:
    def misstate(document: Document) -> Document:
        return _Misstated(
            **{name: getattr(document, name) for name in Document.__dataclass_fields__}, gross_error=Decimal("9.90")
        )

    return _three_way(transaction, misstate, "total_mismatch")


def _currency(transaction: _Transaction) -> list[CaseDocument]:
    return _three_way(transaction, lambda document: replace(document, currency="USD"), "currency_mismatch")


def _tax(transaction: _Transaction) -> list[CaseDocument]:
    tax = transaction.order.lines[0].tax
    assert tax is not None  # every line item of an order has a tax
    wrong_rate = Decimal(7) if tax.rate != 7 else Decimal(19)
    return _three_way(transaction, _first_line(tax=Tax("S", wrong_rate)), "tax_mismatch")


def _without_order(transaction: _Transaction) -> list[CaseDocument]:
    return [CaseDocument(transaction.invoice(), frozenset({"missing_purchase_order"}))]


def _without_delivery(transaction: _Transaction) -> list[CaseDocument]:
    return [CaseDocument(transaction.order), CaseDocument(transaction.invoice(), frozenset({"missing_delivery"}))]


def _billed_twice(transaction: _Transaction) -> list[CaseDocument]:
    documents = _three_way(transaction)
    invoice = documents[-1].document
    duplicate = replace(invoice, number=f"{invoice.number}-2", issue_date=workday(invoice.issue_date, 9))
    return [*documents, CaseDocument(duplicate, frozenset({"duplicate_invoice"}))]


def _rejected(transaction: _Transaction) -> list[CaseDocument]:
    delivery = transaction.delivery()
    receipt = receive(transaction.context, delivery, transaction.later(1), Decimal(1))
    invoice = transaction.invoice(0, delivery)
    return [
        CaseDocument(transaction.order),
        CaseDocument(delivery),
        CaseDocument(receipt),
        CaseDocument(invoice, frozenset({"rejected_goods_billed"})),
    ]


def _credited(transaction: _Transaction) -> list[CaseDocument]:
    """Create a case with rejected goods that were billed and credited.

    No variance remains open.
    """
    delivery = transaction.delivery()
    receipt = receive(transaction.context, delivery, transaction.later(1), Decimal(1))
    invoice = transaction.invoice(0, delivery)
    note = credit(transaction.context, invoice, Decimal(1), transaction.later(5))
    return [CaseDocument(document) for document in (transaction.order, delivery, receipt, invoice, note)]


_CASES: tuple[tuple[str, _Build], ...] = (
    ("no differences", _three_way),
    ("billed more than delivered", _quantity_case(-1, 0, "under_delivered", "over_billed_quantity")),
    ("delivered and billed less than ordered", _quantity_case(-1, -1, "under_delivered")),
    ("delivered more than ordered", _quantity_case(1, 0, "over_delivered")),
    ("delivered and billed more than ordered", _quantity_case(1, 1, "over_delivered", "billed_beyond_order")),
    ("billed at another price", _price),
    ("billed on another price basis", _basis),
    ("wrong total", _total),
    ("billed in another currency", _currency),
    ("purchase order missing", _without_order),
    ("delivery note missing", _without_delivery),
    ("billed twice", _billed_twice),
    ("rejected goods billed", _rejected),
    ("rejected goods billed and credited", _credited),
    ("taxed at another rate", _tax),
)
_BY_MAIL = {"no differences", "billed at another price"}


def generate_cases(seed: int, address: str = "") -> Cases:
    """Generate the cases for a seed and a tenant's mail address.

    Equal arguments give equal cases.
    """
    rng = Random(f"counterfoil cases {seed}")  # noqa: S311 - repeatable on purpose, nothing is secret
    registry, numbers = CompanyRegistry(rng), Numbers(rng)
    buyer = registry.buyer(_COUNTRY)
    product_lines = [product_line for product_line in PRODUCT_LINES if product_line.country == _COUNTRY]
    suppliers = [
        price_list(rng, registry.supplier(product_line), product_line, buyer_numbers=True)
        for product_line in product_lines
    ]
    cases = []
    for index, (title, build) in enumerate(_CASES):
        context = PurchaseContext(rng, numbers, buyer, suppliers[index % len(suppliers)])
        transaction = _Transaction(context, workday(_START_DATE, index * _DAYS_APART))
        cases.append(Case(title, tuple(build(transaction)), title in _BY_MAIL))
    bulk_deals = [
        (order, _without_freight(invoice))
        for order, invoice in orders_with_invoices(seed, INVOICES_IN_ONE_FILE, varied=True)
    ]
    cases += [
        Case(IN_ONE_FILE, (CaseDocument(order), CaseDocument(invoice, frozenset({"missing_delivery"}))))
        for order, invoice in bulk_deals
    ]
    invoices = [invoice for _, invoice in bulk_deals]
    return Cases(tuple(cases), bundle(invoices, sender=invoices[0].issuer), address)
