"""Generates any number of one buyer's orders and invoices.

They are for the replay and for load tests.
"""

from collections.abc import Iterator
from datetime import date
from random import Random

from tools.sample_generator.catalog import PRODUCT_LINES
from tools.sample_generator.companies import CompanyRegistry
from tools.sample_generator.model import Document
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.trading import (
    PurchaseContext,
    Supplier,
    all_of,
    bill,
    deliver,
    place_order,
    price_list,
    workday,
)

_MAX_LINES = 3
_LONG_LINES = (18, 60)
"""Minimum and maximum number of line items of an order that fills more than a page."""
_LONG_EVERY = 4


def orders_with_invoices(
    seed: int, count: int, *, country: str = "DE", varied: bool = False
) -> Iterator[tuple[Document, Document]]:
    """Yield `count` orders of one company, each with the invoice that refers to it.

    The suppliers are domestic. The seed determines companies, numbers, articles and quantities. With `varied`, some
    orders have many line items, and some consecutive orders have the same supplier.
    """
    for order, _, invoice in orders_with_deliveries_and_invoices(seed, count, country=country, varied=varied):
        yield order, invoice


def orders_with_deliveries_and_invoices(
    seed: int, count: int, *, country: str = "DE", varied: bool = False
) -> Iterator[tuple[Document, Document, Document]]:
    """Yield each order with its delivery note and its invoice.

    See `orders_with_invoices`.
    """
    rng = Random(f"counterfoil bulk {seed}")  # noqa: S311 - repeatable on purpose, nothing is secret
    registry, numbers = CompanyRegistry(rng), Numbers(rng)
    buyer = registry.buyer(country)
    product_lines = [product_line for product_line in PRODUCT_LINES if product_line.country == country]
    suppliers = [
        price_list(rng, registry.supplier(product_line), product_line, buyer_numbers=False)
        for product_line in product_lines
    ]
    delivery_numbers = Numbers(Random(f"counterfoil deliveries {seed}"))  # noqa: S311 - as above; independent of `rng`
    for index in range(count):
        supplier_index = index - index // _LONG_EVERY if varied else index
        context = PurchaseContext(rng, numbers, buyer, _forget_orders(suppliers[supplier_index % len(suppliers)]))
        day = workday(date(2025, 1, 2), index % 300)
        is_long = varied and index % _LONG_EVERY == 1
        order = place_order(context, day, rng.randint(*_LONG_LINES) if is_long else rng.randint(1, _MAX_LINES))
        delivery_context = PurchaseContext(rng, delivery_numbers, buyer, context.supplier)
        delivery = deliver(delivery_context, order, all_of(order), workday(day, 4))
        invoice = bill(context, order, all_of(order), workday(day, 9), {"po_reference": order.number})
        yield order, delivery, invoice


def _forget_orders(supplier: Supplier) -> Supplier:
    """Forget the ordered quantities.

    There are more orders than distinct quantities.
    """
    supplier.ordered.clear()
    return supplier
