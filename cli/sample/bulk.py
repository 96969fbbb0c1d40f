"""Many deals of one buyer, as many as asked for: for the replay's bundle, and for whatever needs load with a truth."""

import io
from collections.abc import Iterator, Sequence
from datetime import date
from random import Random

from pypdf import PdfWriter

from cli.sample.firms import FirmRegistry
from cli.sample.model import Document
from cli.sample.numbers import Numbers
from cli.sample.pdf import write_page
from cli.sample.trades import TRADES
from cli.sample.trading import Buying, Supplier, all_of, bill, place_order, price_list, workday

_COUNTRY = "DE"
_LINES = 3


def deals(seed: int, count: int) -> Iterator[tuple[Document, Document]]:
    """Yield `count` orders of one German firm at its German suppliers, each with the invoice that bills and names it.

    The seed draws firms, numbers, articles and quantities.
    """
    rng = Random(f"counterfoil bulk {seed}")  # noqa: S311 - repeatable on purpose, nothing is secret
    registry, numbers = FirmRegistry(rng), Numbers(rng)
    buyer = registry.buyer(_COUNTRY)
    trades = [trade for trade in TRADES if trade.country == _COUNTRY]
    suppliers = [price_list(rng, registry.supplier(trade), trade, buyer_numbers=False) for trade in trades]
    for place in range(count):
        buying = Buying(rng, numbers, buyer, _remembering_nothing(suppliers[place % len(suppliers)]))
        day = workday(date(2025, 1, 2), place % 300)
        order = place_order(buying, day, rng.randint(1, _LINES))
        invoice = bill(buying, order, all_of(order), workday(day, 9), {"po_reference": order.number})
        yield order, invoice


def _remembering_nothing(supplier: Supplier) -> Supplier:
    """A supplier has so many quantities that nobody has ordered yet, and here more orders than that are made."""
    supplier.ordered.clear()
    return supplier


def write_bundle(invoices: Sequence[Document]) -> bytes:
    """Return one PDF of many invoices, as a scanner's operator or an accounting program makes it: text, no XML."""
    writer, file = PdfWriter(), io.BytesIO()
    for invoice in invoices:
        writer.append(io.BytesIO(write_page(invoice)))
    writer.write(file)
    return file.getvalue()
