"""How firms trade with one another: price lists, numbers, and the papers that each step of a deal leaves.

Every function returns one `Document`. Quantities are whole multiples of an article's step, so that they split evenly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from random import Random

from tools.sample_generator.firms import CURRENCIES, EU_COUNTRIES
from tools.sample_generator.model import Document, Firm, Kind, Line, Tax
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.trades import ORDINARY_ARTICLES, Article, Trade
from tools.sample_generator.wording import WORDS

_STANDARD_RATES = {"DE": "19", "FR": "20", "IT": "22", "NL": "21", "GB": "20"}
_REDUCED_RATES = {"DE": "7", "FR": "5.5", "IT": "10", "NL": "9", "GB": "0"}
_CHEAP, _DEAR = Decimal(2), Decimal(100)


@dataclass(frozen=True)
class Offer:
    """An article as one supplier sells it: with the supplier's number, the buyer's number and today's price."""

    article: Article
    number: str
    buyer_number: str | None
    price: Decimal


@dataclass
class Supplier:
    """A supplier of one tenant, with its price list for it and what has been ordered from it."""

    firm: Firm
    offers: tuple[Offer, ...]
    currency: str
    ordered: set[tuple[str, Decimal]] = field(default_factory=set)
    reserved_left: list[Offer] = field(default_factory=list)


@dataclass(frozen=True)
class Buying:
    """The buying side of a deal: the tenant's firm, the supplier, and where numbers and chance come from."""

    rng: Random
    numbers: Numbers
    buyer: Firm
    supplier: Supplier


def price_list(rng: Random, firm: Firm, trade: Trade, *, buyer_numbers: bool) -> Supplier:
    """Return a supplier with prices up to a tenth around those of its trade, and article numbers of its own style."""
    style = rng.choice(("{n}", "{letters}-{n}", "{n}.{m:02d}", "{letters}{n}"))
    letters = "".join(rng.choice("BCDFGHKMNPRSTVW") for _ in range(2))
    offers = []
    for place, article in enumerate(trade.articles):
        cent = Decimal(1).scaleb(article.price.as_tuple().exponent)  # type: ignore[arg-type]
        price = (article.price * rng.randint(90, 110) / 100).quantize(cent, ROUND_HALF_UP)
        number = style.format(letters=letters, n=rng.randint(10, 99) * 1000 + place * 37, m=rng.randint(1, 99))
        offers.append(Offer(article, number, str(rng.randint(100000, 999999)) if buyer_numbers else None, price))
    reserved = offers[ORDINARY_ARTICLES:]
    rng.shuffle(reserved)
    return Supplier(firm, tuple(offers[:ORDINARY_ARTICLES]), CURRENCIES[firm.country], set(), reserved)


def tax_of(article: Article | None, seller: Firm, buyer: Firm) -> Tax:
    """Return the VAT that this seller charges this buyer; no article means freight (standard rate)."""
    if seller.country != buyer.country:
        within_union = seller.country in EU_COUNTRIES and buyer.country in EU_COUNTRIES
        return Tax("K" if within_union else "G", Decimal(0))
    if article is not None and article.reduced:
        rate = Decimal(_REDUCED_RATES[seller.country])
        return Tax("S" if rate else "Z", rate)
    return Tax("S", Decimal(_STANDARD_RATES[seller.country]))


def workday(day: date, later: int = 0) -> date:
    """Return the day `later` days on, moved from a weekend to Monday."""
    day += timedelta(days=later)
    return day + timedelta(days=max(0, 7 - day.weekday()) if day.weekday() > 4 else 0)


def place_order(buying: Buying, day: date, line_count: int, *, reserved: bool = False) -> Document:
    """Order `line_count` articles, the same ones again where there are not so many.

    With `reserved`, articles that no other order of this supplier has.
    """
    rng, supplier = buying.rng, buying.supplier
    if reserved:
        chosen = [supplier.reserved_left.pop() for _ in range(line_count)]
    else:
        chosen = rng.sample(supplier.offers * -(-line_count // len(supplier.offers)), line_count)
    step = rng.choice((1, 10))
    lines = []
    for place, offer in enumerate(chosen, 1):
        article = offer.article
        lines.append(
            Line(
                position=str(place * step),
                article_number=offer.number,
                buyer_article_number=offer.buyer_number,
                description=article.description,
                quantity=_unseen_quantity(buying, offer),
                unit=article.unit,
                unit_price=offer.price,
                price_basis_quantity=article.basis if article.basis != 1 else None,
                tax=tax_of(article, supplier.firm, buying.buyer),
            )
        )
    return Document(
        kind=Kind.PURCHASE_ORDER,
        number=buying.numbers.next(Kind.PURCHASE_ORDER, buying.buyer, day.year),
        issued=day,
        written_by=buying.buyer,
        seller=supplier.firm.party("vat_id"),
        buyer=buying.buyer.party("vat_id", "registration_id", "endpoint_id", "email"),
        lines=tuple(lines),
        currency=supplier.currency,
    )


def confirm(buying: Buying, order: Document, day: date) -> Document:
    """The supplier confirms the order as it stands."""
    firm = buying.supplier.firm
    return replace(
        order,
        kind=Kind.ORDER_CONFIRMATION,
        number=buying.numbers.next(Kind.ORDER_CONFIRMATION, firm, day.year),
        issued=day,
        written_by=firm,
        seller=firm.party("vat_id", "endpoint_id", "email"),
        buyer=buying.buyer.party("vat_id"),
        references={"po_reference": order.number},
    )


def deliver(buying: Buying, order: Document, quantities: Sequence[Decimal], day: date) -> Document:
    """Deliver these quantities, one for each line of the order; a line with nothing to deliver is left out."""
    firm = buying.supplier.firm
    return Document(
        kind=Kind.DELIVERY_NOTE,
        number=buying.numbers.next(Kind.DELIVERY_NOTE, firm, day.year),
        issued=day,
        written_by=firm,
        seller=firm.party("endpoint_id"),
        buyer=buying.buyer.party("endpoint_id"),
        lines=_partial_lines(order, quantities, priced=False),
        references={"po_reference": order.number},
    )


def receive(buying: Buying, delivery: Document, day: date, rejected: Decimal | None = None) -> Document:
    """Book the delivery in; `rejected` of its first line is turned away."""
    lines = [replace(line, position=str(place)) for place, line in enumerate(delivery.lines, 1)]
    if rejected is not None:
        lines[0] = replace(lines[0], rejected_quantity=rejected)
    return Document(
        kind=Kind.GOODS_RECEIPT,
        number=buying.numbers.next(Kind.GOODS_RECEIPT, buying.buyer, day.year),
        issued=day,
        written_by=buying.buyer,
        seller=buying.supplier.firm.party(),
        buyer=buying.buyer.party("endpoint_id"),
        lines=tuple(lines),
        references={**delivery.references, "delivery_note_reference": delivery.number},
    )


def bill(
    buying: Buying,
    order: Document,
    quantities: Sequence[Decimal],
    day: date,
    references: Mapping[str, str],
    number: str | None = None,
) -> Document:
    """Bill these quantities of the order's lines, with the references given.

    Lines name their line of the order where the order is named.
    """
    rng, firm = buying.rng, buying.supplier.firm
    lines = _partial_lines(order, quantities, priced=True)
    if "po_reference" not in references:
        lines = tuple(replace(line, po_line=None) for line in lines)
    elif rng.random() < 0.3:
        lines = (*lines, _freight(buying, len(lines) + 1))
    return Document(
        kind=Kind.INVOICE,
        number=number or buying.numbers.next(Kind.INVOICE, firm, day.year),
        issued=day,
        written_by=firm,
        seller=firm.party("vat_id", "tax_number", "registration_id", "endpoint_id", "iban", "email"),
        buyer=buying.buyer.party("vat_id", "endpoint_id"),
        lines=lines,
        currency=order.currency,
        references=dict(references),
        due=day + timedelta(days=rng.choice((14, 30, 45))),
        delivered_on=workday(day, -rng.randint(1, 4)),
        buyer_reference=f"{WORDS[firm.language].cost_centre} {rng.randint(100, 899)}",
        note=WORDS[firm.language].thanks,
    )


def credit(buying: Buying, invoice: Document, quantity: Decimal, day: date) -> Document:
    """Credit `quantity` of the invoice's first line."""
    firm = buying.supplier.firm
    line = replace(invoice.lines[0], position="1", quantity=quantity, po_line=None)
    return replace(
        invoice,
        kind=Kind.CREDIT_NOTE,
        number=buying.numbers.next(Kind.CREDIT_NOTE, firm, day.year),
        issued=day,
        seller=firm.party("vat_id", "tax_number", "registration_id", "endpoint_id", "email"),
        lines=(line,),
        references={"invoice_reference": invoice.number},
        due=None,
        note=WORDS[firm.language].credit_reason,
    )


def split(rng: Random, order: Document, parts: int) -> list[list[Decimal]]:
    """Split each line's quantity over `parts` deliveries; each delivery gets some of the first line at least."""
    shares: list[list[Decimal]] = [[] for _ in range(parts)]
    for place, line in enumerate(order.lines):
        step = quantity_step(line.unit, line.price_basis_quantity)
        steps = int(line.quantity / step)
        if place > 0 and rng.random() < 0.25:
            whole = rng.randrange(parts)
            counts = [steps if part == whole else 0 for part in range(parts)]
        else:
            cuts = [0, *sorted(rng.sample(range(1, steps), parts - 1)), steps]
            counts = [cuts[part + 1] - cuts[part] for part in range(parts)]
        for part, count in enumerate(counts):
            shares[part].append(_tidy(count * step))
    return shares


def all_of(order: Document) -> list[Decimal]:
    """Return the whole quantity of each line."""
    return [line.quantity for line in order.lines]


def quantity_step(unit: str, basis: Decimal | None) -> Decimal:
    """Return the amount in whose multiples an article of this unit and price basis is sold."""
    if basis is not None and unit == "C62":
        return basis / 2
    return {"KGM": Decimal("2.5"), "LTR": Decimal("2.5"), "MTR": Decimal(5), "MTK": Decimal("1.2")}.get(
        unit, Decimal(1)
    )


def _unseen_quantity(buying: Buying, offer: Offer) -> Decimal:
    """Draw a quantity that this supplier has not been asked for before, so that article and quantity tell the order."""
    step = quantity_step(offer.article.unit, offer.article.basis if offer.article.basis != 1 else None)
    value = offer.price * step / offer.article.basis
    most = 14 if value > _DEAR else 120 if value < _CHEAP else 48
    while True:
        quantity = _tidy(buying.rng.randint(4, most) * step)
        if (offer.number, quantity) not in buying.supplier.ordered:
            buying.supplier.ordered.add((offer.number, quantity))
            return quantity


def _tidy(quantity: Decimal) -> Decimal:
    """Drop a fraction of nothing but zeros."""
    whole = quantity.quantize(Decimal(1))
    return whole if whole == quantity else quantity


def _partial_lines(order: Document, quantities: Sequence[Decimal], *, priced: bool) -> tuple[Line, ...]:
    lines: list[Line] = []
    for line, quantity in zip(order.lines, quantities, strict=True):
        if quantity == 0:
            continue
        part = replace(line, position=str(len(lines) + 1), quantity=quantity, po_line=line.position)
        lines.append(part if priced else replace(part, unit_price=None, price_basis_quantity=None, tax=None))
    return tuple(lines)


def _freight(buying: Buying, place: int) -> Line:
    firm = buying.supplier.firm
    price = Decimal(buying.rng.randint(9, 48)) + Decimal(buying.rng.choice(("0.00", "0.50", "0.90")))
    tax = tax_of(None, firm, buying.buyer)
    return Line(str(place), None, None, WORDS[firm.language].freight, Decimal(1), "C62", price, tax=tax)
