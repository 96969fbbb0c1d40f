"""Data is extracted correctly from generated documents in five languages.

The documents cover every type.
"""

from collections.abc import Iterator
from datetime import date
from random import Random

import pytest

from counterfoil.documents.structured import ROLES, DocumentType, to_structured_data
from counterfoil.documents.text import reading
from counterfoil.documents.text.page import pages
from tools.sample_generator.catalog import PRODUCT_LINES, ProductLine
from tools.sample_generator.companies import CompanyRegistry
from tools.sample_generator.model import Document
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.pdf import write_page
from tools.sample_generator.trading import (
    PurchaseContext,
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
_DAY = date(2025, 4, 8)  # ambiguous in digits: April 8 or August 4


def _documents(country: str) -> Iterator[Document]:
    rng = Random(f"papers {country}")
    registry, numbers = CompanyRegistry(rng), Numbers(rng)
    product_line: ProductLine = next(product_line for product_line in PRODUCT_LINES if product_line.country == country)
    supplier = price_list(rng, registry.supplier(product_line), product_line, buyer_numbers=False)
    context = PurchaseContext(rng, numbers, registry.buyer(country), supplier)
    order = place_order(context, workday(_DAY), 3)
    delivery = deliver(context, order, all_of(order), workday(_DAY, 2))
    invoice = bill(context, order, all_of(order), workday(_DAY, 4), {"po_reference": order.number})
    yield from (
        order,
        confirm(context, order, workday(_DAY, 1)),
        delivery,
        receive(context, delivery, workday(_DAY, 3)),
    )
    yield from (invoice, credit(context, invoice, invoice.lines[0].quantity, workday(_DAY, 6)))


@pytest.mark.parametrize("country", _COUNTRIES)
@pytest.mark.parametrize("number", range(6), ids=["order", "confirmation", "delivery", "receipt", "invoice", "credit"])
def test_generated_document_is_extracted_correctly(country: str, number: int):
    document = list(_documents(country))[number]
    expected = document.structured_data
    reading_ = reading.read(pages(write_page(document)))
    assert reading_ is not None
    assert reading_.type.value == document.kind.value
    data = to_structured_data(reading_.type, reading_.fields)[0].data()
    roles = ROLES[DocumentType(document.kind.value)]
    sides = [roles.buyer] if reading_.type is DocumentType.GOODS_RECEIPT else [roles.seller, roles.buyer]
    for side in sides:  # a goods receipt is internal to the buyer
        stated, party = expected[side], data.pop(side)
        assert {name: value for name, value in party.items() if name in stated}.items() <= stated.items()
        assert {"name", "street", "postal_code", "city"} <= party.keys()
    lines, true_lines = data.pop("line_items"), expected.pop("line_items")
    assert [line["description"] for line in lines] == [line["description"] for line in true_lines]
    assert data == {name: value for name, value in expected.items() if name in data}
    assert expected.keys() - data.keys() == {roles.seller, roles.buyer}
