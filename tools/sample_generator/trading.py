"""Trade between companies: price lists, and documents for each transaction step.

Each step is a function that returns one `Document`. Quantities are multiples of an article's step, so that they can be
split over several deliveries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from random import Random

from tools.sample_generator.catalog import ORDINARY_ARTICLES, Article, ProductLine
from tools.sample_generator.companies import CURRENCIES, EU_COUNTRIES
from tools.sample_generator.labels import LABELS
from tools.sample_generator.model import Company, Document, Kind, Line, Tax
from tools.sample_generator.numbers import Numbers

_STANDARD_RATES = {"DE": "19", "FR": "20", "IT": "22", "NL": "21", "GB": "20"}
_REDUCED_RATES = {"DE": "7", "FR": "5.5", "IT": "10", "NL": "9", "GB": "0"}
_CHEAP, _EXPENSIVE = Decimal(2), Decimal(100)


@dataclass(frozen=True)
class Offer:
    """An article in a supplier's price list, with its numbers and current price."""

    article: Article
    number: str
    buyer_number: str | None
    price: Decimal


@dataclass
class Supplier:
    """A supplier of one tenant with its price list and the quantities ordered so far."""

    company: Company
    offers: tuple[Offer, ...]
    currency: str
    ordered: set[tuple[str, Decimal]] = field(default_factory=set)
    reserved_left: list[Offer] = field(default_factory=list)


@dataclass(frozen=True)
class PurchaseContext:
    """A transaction's buyer and supplier, with the sources of numbers and randomness."""

    rng: Random
    numbers: Numbers
    buyer: Company
    supplier: Supplier


def price_list(rng: Random, company: Company, product_line: ProductLine, *, buyer_numbers: bool) -> Supplier:
    """Create a supplier with its own article numbers and prices.

    Prices are within 10% of the product line's prices.
    """
    style = rng.choice(("{n}", "{letters}-{n}", "{n}.{m:02d}", "{letters}{n}"))
    letters = "".join(rng.choice("BCDFGHKMNPRSTVW") for _ in range(2))
    offers = []
    for index, article in enumerate(product_line.articles):
        cent = Decimal(1).scaleb(article.price.as_tuple().exponent)  # type: ignore[arg-type]
        price = (article.price * rng.randint(90, 110) / 100).quantize(cent, ROUND_HALF_UP)
        number = style.format(letters=letters, n=rng.randint(10, 99) * 1000 + index * 37, m=rng.randint(1, 99))
        offers.append(Offer(article, number, str(rng.randint(100000, 999999)) if buyer_numbers else None, price))
    reserved = offers[ORDINARY_ARTICLES:]
    rng.shuffle(reserved)
    return Supplier(company, tuple(offers[:ORDINARY_ARTICLES]), CURRENCIES[company.country], set(), reserved)


def tax_of(article: Article | None, seller: Company, buyer: Company) -> Tax:
    """Return the VAT on a sale between these companies.

    If the article is None, the sale is freight.
    """
    if seller.country != buyer.country:
        within_union = seller.country in EU_COUNTRIES and buyer.country in EU_COUNTRIES
        return Tax("K" if within_union else "G", Decimal(0))
    if article is not None and article.reduced:
        rate = Decimal(_REDUCED_RATES[seller.country])
        return Tax("S" if rate else "Z", rate)
    return Tax("S", Decimal(_STANDARD_RATES[seller.country]))


def workday(day: date, days: int = 0) -> date:
    """Return the day `days` days after `day`. A weekend becomes Monday."""
    day += timedelta(days=days)
    return day + timedelta(days=max(0, 7 - day.weekday()) if day.weekday() > 4 else 0)


def place_order(context: PurchaseContext, day: date, line_count: int, *, reserved: bool = False) -> Document:
    """Order `line_count` articles, repeating some if there are too few.

    With `reserved`, order articles that no other order to this supplier contains.
    """
    rng, supplier = context.rng, context.supplier
    if reserved:
        offers = [supplier.reserved_left.pop() for _ in range(line_count)]
    else:
        offers = rng.sample(supplier.offers * -(-line_count // len(supplier.offers)), line_count)
    step = rng.choice((1, 10))
    lines = []
    for position, offer in enumerate(offers, 1):
        article = offer.article
        lines.append(
            Line(
                position=str(position * step),
                article_number=offer.number,
                buyer_article_number=offer.buyer_number,
                description=article.description,
                quantity=_new_quantity(context, offer),
                unit=article.unit,
                unit_price=offer.price,
                price_basis_quantity=article.basis if article.basis != 1 else None,
                tax=tax_of(article, supplier.company, context.buyer),
            )
        )
    return Document(
        kind=Kind.PURCHASE_ORDER,
        number=context.numbers.next(Kind.PURCHASE_ORDER, context.buyer, day.year),
        issue_date=day,
        issuer=context.buyer,
        seller=supplier.company.party("vat_id"),
        buyer=context.buyer.party("vat_id", "registration_id", "endpoint_id", "email"),
        lines=tuple(lines),
        currency=supplier.currency,
    )


def confirm(context: PurchaseContext, order: Document, day: date) -> Document:
    """Confirm the order unchanged."""
    company = context.supplier.company
    return replace(
        order,
        kind=Kind.ORDER_CONFIRMATION,
        number=context.numbers.next(Kind.ORDER_CONFIRMATION, company, day.year),
        issue_date=day,
        issuer=company,
        seller=company.party("vat_id", "endpoint_id", "email"),
        buyer=context.buyer.party("vat_id"),
        references={"po_reference": order.number},
    )


def deliver(context: PurchaseContext, order: Document, quantities: Sequence[Decimal], day: date) -> Document:
    """Deliver these quantities, one per line item. Lines with quantity 0 are omitted."""
    company = context.supplier.company
    return Document(
        kind=Kind.DELIVERY_NOTE,
        number=context.numbers.next(Kind.DELIVERY_NOTE, company, day.year),
        issue_date=day,
        issuer=company,
        seller=company.party("endpoint_id"),
        buyer=context.buyer.party("endpoint_id"),
        lines=_partial_lines(order, quantities, priced=False),
        references={"po_reference": order.number},
    )


def receive(context: PurchaseContext, delivery: Document, day: date, rejected: Decimal | None = None) -> Document:
    """Receive the delivery.

    `rejected` is the rejected quantity of its first line item.
    """
    lines = [replace(line, position=str(position)) for position, line in enumerate(delivery.lines, 1)]
    if rejected is not None:
        lines[0] = replace(lines[0], rejected_quantity=rejected)
    return Document(
        kind=Kind.GOODS_RECEIPT,
        number=context.numbers.next(Kind.GOODS_RECEIPT, context.buyer, day.year),
        issue_date=day,
        issuer=context.buyer,
        seller=context.supplier.company.party(),
        buyer=context.buyer.party("endpoint_id"),
        lines=tuple(lines),
        references={**delivery.references, "delivery_note_reference": delivery.number},
    )


def bill(
    context: PurchaseContext,
    order: Document,
    quantities: Sequence[Decimal],
    day: date,
    references: Mapping[str, str],
    number: str | None = None,
) -> Document:
    """Bill these quantities of the order's line items, with the given references.

    Line items refer to the order's line items only if the invoice refers to the order.
    """
    rng, company = context.rng, context.supplier.company
    lines = _partial_lines(order, quantities, priced=True)
    if "po_reference" not in references:
        lines = tuple(replace(line, po_line=None) for line in lines)
    elif rng.random() < 0.3:
        lines = (*lines, _freight(context, len(lines) + 1))
    return Document(
        kind=Kind.INVOICE,
        number=number or context.numbers.next(Kind.INVOICE, company, day.year),
        issue_date=day,
        issuer=company,
        seller=company.party("vat_id", "tax_number", "registration_id", "endpoint_id", "iban", "email"),
        buyer=context.buyer.party("vat_id", "endpoint_id"),
        lines=lines,
        currency=order.currency,
        references=dict(references),
        due_date=day + timedelta(days=rng.choice((14, 30, 45))),
        delivery_date=workday(day, -rng.randint(1, 4)),
        buyer_reference=f"{LABELS[company.language].cost_center} {rng.randint(100, 899)}",
        note=LABELS[company.language].thanks,
    )


def credit(context: PurchaseContext, invoice: Document, quantity: Decimal, day: date) -> Document:
    """Credit `quantity` of the invoice's first line item."""
    company = context.supplier.company
    line = replace(invoice.lines[0], position="1", quantity=quantity, po_line=None)
    return replace(
        invoice,
        kind=Kind.CREDIT_NOTE,
        number=context.numbers.next(Kind.CREDIT_NOTE, company, day.year),
        issue_date=day,
        seller=company.party("vat_id", "tax_number", "registration_id", "endpoint_id", "email"),
        lines=(line,),
        references={"invoice_reference": invoice.number},
        due_date=None,
        note=LABELS[company.language].credit_reason,
    )


def split(rng: Random, order: Document, parts: int) -> list[list[Decimal]]:
    """Split the order's quantities over `parts` deliveries.

    Each contains some of the first line item.
    """
    shares: list[list[Decimal]] = [[] for _ in range(parts)]
    for index, line in enumerate(order.lines):
        step = quantity_step(line.unit, line.price_basis_quantity)
        steps = int(line.quantity / step)
        if index > 0 and rng.random() < 0.25:
            only_part = rng.randrange(parts)
            counts = [steps if part == only_part else 0 for part in range(parts)]
        else:
            cuts = [0, *sorted(rng.sample(range(1, steps), parts - 1)), steps]
            counts = [cuts[part + 1] - cuts[part] for part in range(parts)]
        for part, count in enumerate(counts):
            shares[part].append(_without_zero_fraction(count * step))
    return shares


def all_of(order: Document) -> list[Decimal]:
    """Return the ordered quantity of each line item."""
    return [line.quantity for line in order.lines]


def quantity_step(unit: str, basis: Decimal | None) -> Decimal:
    """Return the quantity step for an article with this unit and price basis."""
    if basis is not None and unit == "C62":
        return basis / 2
    return {"KGM": Decimal("2.5"), "LTR": Decimal("2.5"), "MTR": Decimal(5), "MTK": Decimal("1.2")}.get(
        unit, Decimal(1)
    )


def _new_quantity(context: PurchaseContext, offer: Offer) -> Decimal:
    """Draw a quantity that is new for this article.

    The article and the quantity therefore identify the order.
    """
    step = quantity_step(offer.article.unit, offer.article.basis if offer.article.basis != 1 else None)
    value = offer.price * step / offer.article.basis
    max_steps = 14 if value > _EXPENSIVE else 120 if value < _CHEAP else 48
    while True:
        quantity = _without_zero_fraction(context.rng.randint(4, max_steps) * step)
        if (offer.number, quantity) not in context.supplier.ordered:
            context.supplier.ordered.add((offer.number, quantity))
            return quantity


def _without_zero_fraction(quantity: Decimal) -> Decimal:
    """Drop the fraction if it is zero."""
    integer = quantity.quantize(Decimal(1))
    return integer if integer == quantity else quantity


def _partial_lines(order: Document, quantities: Sequence[Decimal], *, priced: bool) -> tuple[Line, ...]:
    lines: list[Line] = []
    for line, quantity in zip(order.lines, quantities, strict=True):
        if quantity == 0:
            continue
        part = replace(line, position=str(len(lines) + 1), quantity=quantity, po_line=line.position)
        lines.append(part if priced else replace(part, unit_price=None, price_basis_quantity=None, tax=None))
    return tuple(lines)


def _freight(context: PurchaseContext, position: int) -> Line:
    company = context.supplier.company
    price = Decimal(context.rng.randint(9, 48)) + Decimal(context.rng.choice(("0.00", "0.50", "0.90")))
    tax = tax_of(None, company, context.buyer)
    return Line(str(position), None, None, LABELS[company.language].freight, Decimal(1), "C62", price, tax=tax)
