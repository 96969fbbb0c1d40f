"""Papers of every type in five languages say on their pages what they state as data, and the reader finds it."""

from collections.abc import Iterator
from datetime import date
from random import Random

import pytest

from counterfoil.documents.structured import ROLES, DocumentType, structure
from counterfoil.documents.text import reading
from counterfoil.documents.text.page import pages
from tools.sample_generator.firms import FirmRegistry
from tools.sample_generator.model import Document
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.pdf import write_page
from tools.sample_generator.trades import TRADES, Trade
from tools.sample_generator.trading import (
    Buying,
    all_of,
    bill,
    confirm,
    credit,
    deliver,
    place_order,
    price_list,
    receive,
    workday,
)

_COUNTRIES = ["DE", "FR", "IT", "NL", "GB"]
_DAY = date(2025, 4, 8)  # which may be read as the fourth of August


def _papers(country: str) -> Iterator[Document]:
    rng = Random(f"papers {country}")
    registry, numbers = FirmRegistry(rng), Numbers(rng)
    trade: Trade = next(trade for trade in TRADES if trade.country == country)
    supplier = price_list(rng, registry.supplier(trade), trade, buyer_numbers=False)
    buying = Buying(rng, numbers, registry.buyer(country), supplier)
    order = place_order(buying, workday(_DAY), 3)
    delivery = deliver(buying, order, all_of(order), workday(_DAY, 2))
    invoice = bill(buying, order, all_of(order), workday(_DAY, 4), {"po_reference": order.number})
    yield from (order, confirm(buying, order, workday(_DAY, 1)), delivery, receive(buying, delivery, workday(_DAY, 3)))
    yield from (invoice, credit(buying, invoice, invoice.lines[0].quantity, workday(_DAY, 6)))


@pytest.mark.parametrize("country", _COUNTRIES)
@pytest.mark.parametrize("number", range(6), ids=["order", "confirmation", "delivery", "receipt", "invoice", "credit"])
def test_a_paper_is_read_as_what_it_is(country: str, number: int):
    document = list(_papers(country))[number]
    truth = document.structured_data
    found = reading.read(pages(write_page(document)))
    assert found is not None
    assert found.type.value == document.kind.value
    data = structure(found.type, found.fields)[0].data()
    roles = ROLES[DocumentType(document.kind.value)]
    sides = [roles.buyer] if found.type is DocumentType.GOODS_RECEIPT else [roles.seller, roles.buyer]
    for side in sides:  # a receipt is a paper of the buyer's for itself
        stated, party = truth[side], data.pop(side)
        assert {name: value for name, value in party.items() if name in stated}.items() <= stated.items()
        assert {"name", "street", "postal_code", "city"} <= party.keys()
    lines, true_lines = data.pop("line_items"), truth.pop("line_items")
    assert [line["description"] for line in lines] == [line["description"] for line in true_lines]
    assert data == {name: value for name, value in truth.items() if name in data}
    assert truth.keys() - data.keys() == {roles.seller, roles.buyer}
