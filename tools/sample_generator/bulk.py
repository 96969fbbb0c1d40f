"""Many deals of one buyer, as many as asked for: for the replay's bundle, and for whatever needs load with a truth."""

from collections.abc import Iterator
from datetime import date
from random import Random

from tools.sample_generator.firms import FirmRegistry
from tools.sample_generator.model import Document
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.trades import TRADES
from tools.sample_generator.trading import Buying, Supplier, all_of, bill, deliver, place_order, price_list, workday

_LINES = 3
_LONG = (18, 60)
"""Lines of an order that fills more than a page."""
_LONG_EVERY = 4


def deals(seed: int, count: int, *, country: str = "DE", varied: bool = False) -> Iterator[tuple[Document, Document]]:
    """Yield `count` orders of a firm at suppliers of its country, each with the invoice that bills and names it.

    The seed draws firms, numbers, articles and quantities. `varied` deals are about many goods now and then, and
    sometimes two with the same supplier follow one another.
    """
    for order, _, invoice in whole_deals(seed, count, country=country, varied=varied):
        yield order, invoice


def whole_deals(
    seed: int, count: int, *, country: str = "DE", varied: bool = False
) -> Iterator[tuple[Document, Document, Document]]:
    """The same with the delivery note of each: order, delivery note, invoice."""
    rng = Random(f"counterfoil bulk {seed}")  # noqa: S311 - repeatable on purpose, nothing is secret
    registry, numbers = FirmRegistry(rng), Numbers(rng)
    buyer = registry.buyer(country)
    trades = [trade for trade in TRADES if trade.country == country]
    suppliers = [price_list(rng, registry.supplier(trade), trade, buyer_numbers=False) for trade in trades]
    delivered = Numbers(Random(f"counterfoil deliveries {seed}"))  # noqa: S311 - as above; they leave the others alone
    for place in range(count):
        turn = place - place // _LONG_EVERY if varied else place
        buying = Buying(rng, numbers, buyer, _remembering_nothing(suppliers[turn % len(suppliers)]))
        day = workday(date(2025, 1, 2), place % 300)
        is_long = varied and place % _LONG_EVERY == 1
        order = place_order(buying, day, rng.randint(*_LONG) if is_long else rng.randint(1, _LINES))
        delivering = Buying(rng, delivered, buyer, buying.supplier)
        delivery = deliver(delivering, order, all_of(order), workday(day, 4))
        invoice = bill(buying, order, all_of(order), workday(day, 9), {"po_reference": order.number})
        yield order, delivery, invoice


def _remembering_nothing(supplier: Supplier) -> Supplier:
    """A supplier has so many quantities that nobody has ordered yet, and here more orders than that are made."""
    supplier.ordered.clear()
    return supplier
