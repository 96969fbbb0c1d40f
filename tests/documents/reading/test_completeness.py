"""What is wanting in what was read is named: what its type has to have, and amounts that disagree."""

from typing import Any

import pytest

from counterfoil.documents.reading.merge import Completeness, check_completeness
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.text.page import Evidence

WHOLE: dict[str, Any] = {
    "invoice_number": "R-1",
    "invoice_date": "2026-01-02",
    "issuer": {"name": "Nordwind"},
    "recipient": {"name": "Acme"},
    "currency": "EUR",
    "total_net": "100.00",
    "total_tax": "19.00",
    "total_gross": "119.00",
    "line_items": [{"net_amount": "60.00"}, {"net_amount": "40.00"}],
}


def of(**changes: Any) -> Completeness:
    fields = {name: value for name, value in (WHOLE | changes).items() if value is not None}
    return check_completeness(DocumentType.INVOICE, fields, {})


def test_a_whole_invoice_wants_nothing():
    assert of() == Completeness()
    assert of().is_good


@pytest.mark.parametrize(
    "path", ["invoice_number", "invoice_date", "currency", "total_gross", "line_items", "issuer", "recipient"]
)
def test_what_an_invoice_has_to_have_is_missed(path: str):
    missed = f"{path}.name" if path in ("issuer", "recipient") else path
    assert of(**{path: None}).missing == (missed,)
    assert not of(**{path: None}).is_good


def test_totals_and_lines_that_disagree_are_told():
    assert of(total_gross="118.00").contradictions == ("total_net and total_tax do not add up to total_gross.",)
    lines = [{"net_amount": "60.00"}, {"net_amount": "41.00"}]
    assert of(line_items=lines).contradictions == ("The net amounts of the lines do not add up to total_net.",)


@pytest.mark.parametrize("name", ["total_net", "total_tax"])
def test_what_is_not_stated_disagrees_with_nothing(name: str):
    assert of(**{name: None}).is_good
    assert of(line_items=[{"net_amount": "60.00"}, {"description": "free"}]).is_good


def test_an_essential_field_that_is_unsure_is_doubtful():
    evidence = {"invoice_number": Evidence("label", 0.5, 1), "total_gross": Evidence("label", 0.6, 1)}
    assert check_completeness(DocumentType.INVOICE, WHOLE, evidence).doubtful == ("invoice_number",)


def test_a_delivery_note_has_lines_and_no_totals():
    fields = {
        "delivery_note_number": "1",
        "delivery_date": "2026-01-02",
        "supplier": {"name": "a"},
        "buyer": {"name": "b"},
        "line_items": [{"quantity": "1"}],
    }
    assert check_completeness(DocumentType.DELIVERY_NOTE, fields, {}).is_good
    assert check_completeness(DocumentType.OTHER, {}, {}).is_good
