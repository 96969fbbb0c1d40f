"""Missing or uncertain required fields and contradictory amounts are reported."""

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


def completeness(**changes: Any) -> Completeness:
    fields = {name: value for name, value in (WHOLE | changes).items() if value is not None}
    return check_completeness(DocumentType.INVOICE, fields, {})


def test_complete_invoice_passes_the_check():
    assert completeness() == Completeness()
    assert completeness().is_good


@pytest.mark.parametrize(
    "path", ["invoice_number", "invoice_date", "currency", "total_gross", "line_items", "issuer", "recipient"]
)
def test_missing_required_field_is_reported(path: str):
    missing = f"{path}.name" if path in ("issuer", "recipient") else path
    assert completeness(**{path: None}).missing == (missing,)
    assert not completeness(**{path: None}).is_good


def test_contradictory_totals_and_lines_are_reported():
    assert completeness(total_gross="118.00").contradictions == (
        "total_net and total_tax do not add up to total_gross.",
    )
    lines = [{"net_amount": "60.00"}, {"net_amount": "41.00"}]
    assert completeness(line_items=lines).contradictions == (
        "The net amounts of the line items do not add up to total_net.",
    )


@pytest.mark.parametrize("name", ["total_net", "total_tax"])
def test_missing_amount_is_not_a_contradiction(name: str):
    assert completeness(**{name: None}).is_good
    assert completeness(line_items=[{"net_amount": "60.00"}, {"description": "free"}]).is_good


def test_low_confidence_essential_field_is_uncertain():
    evidence = {"invoice_number": Evidence("label", 0.5, 1), "total_gross": Evidence("label", 0.6, 1)}
    assert check_completeness(DocumentType.INVOICE, WHOLE, evidence).uncertain == ("invoice_number",)


def test_delivery_note_and_other_document_require_no_totals():
    fields = {
        "delivery_note_number": "1",
        "delivery_date": "2026-01-02",
        "supplier": {"name": "a"},
        "buyer": {"name": "b"},
        "line_items": [{"quantity": "1"}],
    }
    assert check_completeness(DocumentType.DELIVERY_NOTE, fields, {}).is_good
    assert check_completeness(DocumentType.OTHER, {}, {}).is_good
