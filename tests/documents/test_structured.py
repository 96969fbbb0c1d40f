"""Structured data is normalized and validated.

Errors never quote the input.
"""

import pytest
from pydantic import ValidationError

from counterfoil.documents.structured import MODELS, ROLES, DocumentType, Invoice, Party, to_structured_data
from counterfoil.errors import InvalidDocumentError


@pytest.mark.parametrize(
    ("stated", "normal"),
    [
        ("1190.00", "1190.00"),
        ("+7", "7"),
        (" 007.50 ", "7.50"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-0.00", "0.00"),
        ("1E3", "1000"),
        ("2.5e-2", "0.025"),
    ],
)
def test_amount_is_normalized_and_keeps_its_precision(stated: str, normal: str):
    record, _ = to_structured_data(DocumentType.INVOICE, {"invoice_number": "1", "total_net": stated})
    assert record.data()["total_net"] == normal


@pytest.mark.parametrize("unreadable", ["1.190,00", "12 EUR", "NaN", "Infinity", "1e999999999", "--1", "١٢"])
def test_error_for_invalid_amount_names_only_the_field(unreadable: str):
    with pytest.raises(InvalidDocumentError, match="total_net is not a decimal number") as error:
        to_structured_data(DocumentType.INVOICE, {"invoice_number": "1", "total_net": unreadable})
    assert unreadable not in str(error.value)


@pytest.mark.parametrize(
    ("stated", "day"),
    [
        ("2024-02-29", "2024-02-29"),
        ("2024-02-29Z", "2024-02-29"),
        ("2024-02-29+01:00", "2024-02-29"),
        ("2024-02-29T10:30:00", "2024-02-29"),
    ],
)
def test_time_and_zone_are_removed_from_dates(stated: str, day: str):
    record, _ = to_structured_data(DocumentType.INVOICE, {"invoice_number": "1", "invoice_date": stated})
    assert record.data()["invoice_date"] == day


@pytest.mark.parametrize("unreadable", ["2023-02-29", "29.02.2024", "2024-02", "0000-01-01", "yesterday"])
def test_invalid_date_is_rejected(unreadable: str):
    with pytest.raises(InvalidDocumentError, match="invoice_date is not a date"):
        to_structured_data(DocumentType.INVOICE, {"invoice_number": "1", "invoice_date": unreadable})


def test_invalid_tax_rate_is_omitted_with_a_warning():
    lines = [{"position": "1", "tax_rate": "19"}, {"position": "2", "tax_rate": "19.00e"}]
    record, remarks = to_structured_data(DocumentType.INVOICE, {"invoice_number": "1", "line_items": lines})
    assert record.data()["line_items"] == [{"position": "1", "tax_rate": "19"}, {"position": "2"}]
    assert remarks == ("line_items.1.tax_rate is not a decimal number and was omitted.",)


def test_empty_and_unknown_fields_are_dropped():
    record, _ = to_structured_data(
        DocumentType.INVOICE,
        {
            "invoice_number": "1",
            "issuer": {"name": "Ober", "vat_id": "  ", "iban": None},
            "currency": "",
            "colour": "red",
        },
    )
    assert record.data() == {"invoice_number": "1", "issuer": {"name": "Ober"}}


@pytest.mark.parametrize("document_type", [kind for kind in DocumentType if kind is not DocumentType.OTHER])
def test_every_type_except_other_requires_a_number(document_type: DocumentType):
    with pytest.raises(InvalidDocumentError, match=rf"does not state its number \({ROLES[document_type].number}\)"):
        to_structured_data(document_type, {})


def test_error_codes_name_field_without_line_number():
    codes = set()
    for line in range(2):
        lines = [{"quantity": "1"}, {"quantity": "1"}]
        lines[line]["quantity"] = "many"
        with pytest.raises(InvalidDocumentError, match="quantity is not a decimal number") as error:
            to_structured_data(DocumentType.INVOICE, {"invoice_number": "1", "line_items": lines})
        codes.add(error.value.code)
    assert codes == {"invalid_invoice_line_items_quantity"}


@pytest.mark.parametrize("document_type", list(ROLES))
def test_role_fields_exist_in_the_model(document_type: DocumentType):
    roles = ROLES[document_type]
    assert {roles.number, roles.date, roles.seller, roles.buyer} <= set(MODELS[document_type].model_fields)


def test_reference_is_a_value_or_a_list():
    several = Invoice(invoice_number="1", po_reference=("A", "B"))
    assert several.data()["po_reference"] == ["A", "B"]
    assert Invoice.model_validate({"invoice_number": "1", "po_reference": "A"}).po_reference == "A"


def test_records_are_immutable():
    with pytest.raises(ValidationError):
        Party(name="Ober").name = "Nieder"  # type: ignore[misc]
