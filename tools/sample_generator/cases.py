"""A tenant whose papers disagree: a deal for each thing that can be wrong; some come by mail, some in one file.

Every paper is told by its type and number. Besides what it is about, nothing is wrong with a deal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from email.message import EmailMessage
from random import Random

from tools.sample_generator.bulk import deals
from tools.sample_generator.bundle import Bundle, bundle
from tools.sample_generator.firms import FirmRegistry
from tools.sample_generator.model import Document, Kind, Tax, Totals
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.pdf import write_hybrid
from tools.sample_generator.trades import TRADES
from tools.sample_generator.trading import (
    Buying,
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
"""The title of their deals."""
_COUNTRY = "DE"
_BEGIN = date(2025, 3, 3)
_DAYS_APART = 6


@dataclass(frozen=True)
class Paper:
    """A document and what is wrong with it, by the codes of variances."""

    document: Document
    wrong: frozenset[str] = frozenset()

    @property
    def name(self) -> tuple[str, str]:
        """What tells it from others: type and number."""
        return self.document.kind, self.document.number


@dataclass(frozen=True)
class Case:
    """The papers of a deal, which are one cluster."""

    title: str
    papers: tuple[Paper, ...]
    by_mail: bool = False


@dataclass(frozen=True)
class Cases:
    """All that comes in for the tenant."""

    cases: tuple[Case, ...]
    bundle: Bundle
    """The invoices of the cases that it is about, in one file."""
    address: str = field(default="")
    """Where the tenant's mail goes."""

    def files(self) -> list[tuple[str, bytes]]:
        """What is uploaded: name and content."""
        bundled = {id(document) for document in self.bundle.documents}
        single = [
            _file(paper.document)
            for case in self.cases
            for paper in case.papers
            if not case.by_mail and id(paper.document) not in bundled
        ]
        return [*single, (f"{INVOICES_IN_ONE_FILE} Rechnungen.pdf", self.bundle.content)]

    def mails(self) -> list[tuple[str, bytes]]:
        """What comes by mail: name and content (RFC 5322)."""
        return [(f"{case.papers[-1].document.number}.eml", self._mail(case)) for case in self.cases if case.by_mail]

    def _mail(self, case: Case) -> bytes:
        last = case.papers[-1].document
        mail = EmailMessage()
        mail["From"], mail["To"] = f"{last.written_by.short_name} <{last.written_by.email}>", self.address
        mail["Subject"], mail["Message-ID"] = f"Rechnung {last.number}", f"<{last.number}@{self.address.split('@')[1]}>"
        mail.set_content("Guten Tag,\n\nanbei unsere Papiere.\n")
        for paper in case.papers:
            name, content = _file(paper.document)
            mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
        return mail.as_bytes()


def _file(document: Document) -> tuple[str, bytes]:
    """Invoices are hybrid PDFs, all other papers UBL."""
    if document.kind is Kind.INVOICE:
        return f"{document.number}.pdf", write_hybrid(document)
    return f"{document.kind}-{document.number}.xml", write_ubl(document)


@dataclass(frozen=True)
class _Misstated(Document):
    """A document whose gross total is more than net and tax."""

    more: Decimal = Decimal(0)

    @property
    def totals(self) -> Totals:
        """As it states them."""
        right = super().totals
        return replace(right, gross=right.gross + self.more)


class _Deal:
    """One deal under way."""

    def __init__(self, buying: Buying, begin: date) -> None:
        self.buying = buying
        self.day = begin
        self.order = place_order(buying, begin, 2)

    def later(self, days: int) -> date:
        """Some days on."""
        self.day = workday(self.day, days)
        return self.day

    def quantities(self, change: Decimal | int = 0) -> list[Decimal]:
        """All that was ordered, with so much more or less of the first line."""
        first, *rest = all_of(self.order)
        return [first + change, *rest]

    def delivery(self, change: int = 0) -> Document:
        return deliver(self.buying, self.order, self.quantities(change), self.later(3))

    def invoice(self, change: int = 0, delivery: Document | None = None) -> Document:
        named = {"po_reference": self.order.number}
        if delivery is not None:
            named["delivery_note_reference"] = delivery.number
        return _goods(bill(self.buying, self.order, self.quantities(change), self.later(2), named))


def _goods(invoice: Document) -> Document:
    """Without freight, which bills now and then have: a case is about one thing alone."""
    return replace(invoice, lines=tuple(line for line in invoice.lines if line.article_number is not None))


_Build = Callable[[_Deal], Sequence[Paper]]


def _plain(deal: _Deal, change: Callable[[Document], Document] = lambda one: one, *wrong: str) -> list[Paper]:
    """An order, its delivery and its invoice, which is changed."""
    delivery = deal.delivery()
    return [Paper(deal.order), Paper(delivery), Paper(change(deal.invoice(0, delivery)), frozenset(wrong))]


def _first_line(**changes: object) -> Callable[[Document], Document]:
    """Another first line."""
    return lambda one: replace(one, lines=(replace(one.lines[0], **changes), *one.lines[1:]))  # type: ignore[arg-type]


def _counted(delivered: int, billed: int, on_delivery: str, on_invoice: str = "") -> _Build:
    """More or less of the first line is delivered and billed than was ordered."""

    def build(deal: _Deal) -> list[Paper]:
        delivery = deal.delivery(delivered)
        wrong = frozenset({on_invoice} - {""})
        return [
            Paper(deal.order),
            Paper(delivery, frozenset({on_delivery})),
            Paper(deal.invoice(billed, delivery), wrong),
        ]

    return build


def _price(deal: _Deal) -> list[Paper]:
    price = deal.order.lines[0].unit_price or Decimal(1)
    return _plain(deal, _first_line(unit_price=(price * Decimal("1.12")).quantize(Decimal("0.01"))), "price_mismatch")


def _basis(deal: _Deal) -> list[Paper]:
    deal.order = _first_line(price_basis_quantity=Decimal(100))(deal.order)
    return _plain(deal, _first_line(price_basis_quantity=Decimal(10)), "price_basis_mismatch")


def _total(deal: _Deal) -> list[Paper]:
    def misstate(one: Document) -> Document:
        return _Misstated(**{name: getattr(one, name) for name in Document.__dataclass_fields__}, more=Decimal("9.90"))

    return _plain(deal, misstate, "total_mismatch")


def _currency(deal: _Deal) -> list[Paper]:
    return _plain(deal, lambda one: replace(one, currency="USD"), "currency_mismatch")


def _tax(deal: _Deal) -> list[Paper]:
    rate = deal.order.lines[0].tax
    assert rate is not None  # orders state prices
    other = Decimal(7) if rate.rate != 7 else Decimal(19)
    return _plain(deal, _first_line(tax=Tax("S", other)), "tax_mismatch")


def _without_order(deal: _Deal) -> list[Paper]:
    return [Paper(deal.invoice(), frozenset({"missing_purchase_order"}))]


def _without_delivery(deal: _Deal) -> list[Paper]:
    return [Paper(deal.order), Paper(deal.invoice(), frozenset({"missing_delivery"}))]


def _twice(deal: _Deal) -> list[Paper]:
    papers = _plain(deal)
    invoice = papers[-1].document
    again = replace(invoice, number=f"{invoice.number}-2", issued=workday(invoice.issued, 9))
    return [*papers, Paper(again, frozenset({"duplicate_invoice"}))]


def _rejected(deal: _Deal) -> list[Paper]:
    delivery = deal.delivery()
    receipt = receive(deal.buying, delivery, deal.later(1), Decimal(1))
    invoice = deal.invoice(0, delivery)
    return [Paper(deal.order), Paper(delivery), Paper(receipt), Paper(invoice, frozenset({"rejected_goods_billed"}))]


def _settled(deal: _Deal) -> list[Paper]:
    """Rejected goods that were billed and credited: nothing is left to do."""
    delivery = deal.delivery()
    receipt = receive(deal.buying, delivery, deal.later(1), Decimal(1))
    invoice = deal.invoice(0, delivery)
    note = credit(deal.buying, invoice, Decimal(1), deal.later(5))
    return [Paper(document) for document in (deal.order, delivery, receipt, invoice, note)]


_CASES: tuple[tuple[str, _Build], ...] = (
    ("all agrees", _plain),
    ("billed more than delivered", _counted(-1, 0, "under_delivered", "over_billed_quantity")),
    ("delivered and billed less than ordered", _counted(-1, -1, "under_delivered")),
    ("delivered more than ordered", _counted(1, 0, "over_delivered")),
    ("delivered and billed more than ordered", _counted(1, 1, "over_delivered", "billed_beyond_order")),
    ("billed at another price", _price),
    ("billed on another price basis", _basis),
    ("a total that is not the sum", _total),
    ("billed in another currency", _currency),
    ("an order that is not here", _without_order),
    ("no delivery", _without_delivery),
    ("billed twice", _twice),
    ("rejected goods billed", _rejected),
    ("rejected goods billed and credited", _settled),
    ("taxed at another rate", _tax),
)
_BY_MAIL = {"all agrees", "billed at another price"}


def generate_cases(seed: int, address: str = "") -> Cases:
    """The cases of this seed: always the same papers. `address` is where the tenant's mail goes."""
    rng = Random(f"counterfoil cases {seed}")  # noqa: S311 - repeatable on purpose, nothing is secret
    registry, numbers = FirmRegistry(rng), Numbers(rng)
    buyer = registry.buyer(_COUNTRY)
    trades = [trade for trade in TRADES if trade.country == _COUNTRY]
    suppliers = [price_list(rng, registry.supplier(trade), trade, buyer_numbers=True) for trade in trades]
    found = []
    for place, (title, build) in enumerate(_CASES):
        buying = Buying(rng, numbers, buyer, suppliers[place % len(suppliers)])
        deal = _Deal(buying, workday(_BEGIN, place * _DAYS_APART))
        found.append(Case(title, tuple(build(deal)), title in _BY_MAIL))
    many = [(order, _goods(invoice)) for order, invoice in deals(seed, INVOICES_IN_ONE_FILE, varied=True)]
    found += [
        Case(IN_ONE_FILE, (Paper(order), Paper(invoice, frozenset({"missing_delivery"})))) for order, invoice in many
    ]
    invoices = [invoice for _, invoice in many]
    return Cases(tuple(found), bundle(invoices, sent_by=invoices[0].written_by), address)
