"""Data is extracted from Cross Industry Invoices, ZUGFeRD 1.0 and Order-X."""

from typing import Any

import pytest

from counterfoil.documents.einvoice.extract import extract_xml
from counterfoil.errors import InvalidDocumentError
from tests.documents.einvoice_samples import CII_LINE, cii_invoice

ISSUE_DATE = '<udt:DateTimeString format="102">20250602</udt:DateTimeString>'
PROFILE = "urn:cen.eu:en16931:2017"


def read(content: bytes) -> dict[str, Any]:
    data = extract_xml(content).structured_data
    assert data is not None
    return data


def test_invoice_is_read_completely():
    extraction = extract_xml(cii_invoice())
    assert (extraction.type, extraction.method, extraction.reason) == ("invoice", "xml", None)
    assert extraction.structured_data == {
        "invoice_number": "2025/311",
        "invoice_date": "2025-06-02",
        "issuer": {
            "name": "Lagerwelt Wels GmbH",
            "vat_id": "ATU12345675",
            "tax_number": "46/111",
            "registration_id": "FN 210417 k",
            "endpoint_id": "e@lagerwelt.example",
            "iban": "AT611904300234573201",
            "email": "office@lagerwelt.example",
            "street": "Hafenstraße 2",
            "city": "Wels",
            "postal_code": "4020",
            "country": "AT",
        },
        "recipient": {"name": "Mühlviertler Fördertechnik"},
        "po_reference": ["4500016", "4500017"],
        "delivery_note_reference": "LS-12",
        "contract_reference": "KV-3",
        "sales_order_reference": "AB-9",
        "preceding_invoice_reference": "2025/290",
        "currency": "EUR",
        "total_net": "130.00",
        "total_tax": "26.00",
        "total_gross": "156.00",
        "payment_due_date": "2025-07-02",
        "line_items": [
            {
                "position": "1",
                "article_number": "K-11",
                "buyer_article_number": "0815",
                "description": "Kugellager 6204",
                "quantity": "40",
                "unit": "C62",
                "price_basis_quantity": "1",
                "unit_price": "3.1000",
                "net_amount": "124.00",
                "tax_rate": "20.00",
                "po_reference": "4500017",
                "po_line": "20",
            },
            {"description": "Verpackung", "net_amount": "6.00"},
        ],
    }


def test_credit_note_references_its_invoice():
    extraction = extract_xml(cii_invoice((">380<", ">381<")))
    data = extraction.structured_data or {}
    assert extraction.type == "credit_note"
    assert (data["credit_note_number"], data["invoice_reference"]) == ("2025/311", "2025/290")


def test_corrected_invoice_is_an_invoice():
    assert extract_xml(cii_invoice((">380<", ">384<"))).type == "invoice"


@pytest.mark.parametrize(
    ("stated", "day"),
    [
        ('<udt:DateTimeString format="102">20250602</udt:DateTimeString>', "2025-06-02"),
        ('<udt:DateTimeString format="203">202506021130</udt:DateTimeString>', "2025-06-02"),
        ("<udt:DateTimeString>20250602</udt:DateTimeString>", "2025-06-02"),
        ("<udt:DateTime>2025-06-02T00:00:00</udt:DateTime>", "2025-06-02"),
        ('<udt:DateTimeString format="610">202506</udt:DateTimeString>', None),
        ('<udt:DateTimeString format="616">202523</udt:DateTimeString>', None),
        ('<udt:DateTimeString format="102"></udt:DateTimeString>', None),
    ],
)
def test_only_dates_with_a_day_are_read(stated: str, day: str | None):
    assert read(cii_invoice((ISSUE_DATE, stated))).get("invoice_date") == day


def test_date_in_unknown_format_is_rejected():
    with pytest.raises(InvalidDocumentError, match="invoice_date is not a date"):
        extract_xml(cii_invoice((ISSUE_DATE, '<udt:DateTimeString format="102">2.6.2025</udt:DateTimeString>')))


@pytest.mark.parametrize(
    "profile", ["urn:factur-x.eu:1p0:minimum", "urn:factur-x.eu:1p0:basicwl", "urn:zugferd.de:2p0:minimum"]
)
def test_minimal_profiles_require_no_line_items(profile: str):
    invoice = read(cii_invoice((PROFILE, profile), (CII_LINE, "")))
    assert [line["description"] for line in invoice["line_items"]] == ["Verpackung"]
    assert invoice["total_gross"] == "156.00"


@pytest.mark.parametrize("profile", [PROFILE, "urn:cen.eu:en16931:2017#compliant#urn:factur-x.eu:1p0:basic"])
def test_other_profiles_require_line_items(profile: str):
    with pytest.raises(InvalidDocumentError, match="has no line items"):
        extract_xml(cii_invoice((PROFILE, profile), (CII_LINE, "")))


def test_freight_becomes_a_separate_line():
    freight = """<ram:SpecifiedLogisticsServiceCharge><ram:Description>Fracht</ram:Description>
        <ram:AppliedAmount>3.00</ram:AppliedAmount></ram:SpecifiedLogisticsServiceCharge>"""
    invoice = read(cii_invoice(("<ram:SpecifiedTradePaymentTerms>", f"{freight}<ram:SpecifiedTradePaymentTerms>")))
    assert invoice["line_items"][-1] == {"description": "Fracht", "net_amount": "3.00"}


def test_allowance_has_a_negative_amount():
    invoice = read(cii_invoice(("<udt:Indicator>true", "<udt:Indicator>false")))
    assert invoice["line_items"][-1] == {"description": "Verpackung", "net_amount": "-6.00"}


@pytest.mark.parametrize("status", ["GROUP", "INFORMATION"])
def test_group_and_information_lines_are_ignored(status: str):
    group = CII_LINE.replace(
        "</ram:LineID>", f"</ram:LineID><ram:LineStatusReasonCode>{status}</ram:LineStatusReasonCode>", 1
    )
    invoice = read(cii_invoice((CII_LINE, group + CII_LINE)))
    assert [line.get("quantity") for line in invoice["line_items"]] == ["40", None]


def test_note_only_line_is_ignored():
    note = """<ram:IncludedSupplyChainTradeLineItem><ram:AssociatedDocumentLineDocument><ram:IncludedNote>
        <ram:Content>Thank you</ram:Content></ram:IncludedNote></ram:AssociatedDocumentLineDocument>
        </ram:IncludedSupplyChainTradeLineItem>"""
    assert read(cii_invoice((CII_LINE, note + CII_LINE))) == read(cii_invoice())


def test_payees_account_is_not_assigned_to_seller():
    payee = "<ram:PayeeTradeParty><ram:Name>Factor AG</ram:Name></ram:PayeeTradeParty>"
    invoice = read(cii_invoice(("<ram:InvoiceCurrencyCode>", f"{payee}<ram:InvoiceCurrencyCode>")))
    assert "iban" not in invoice["issuer"]


def test_zugferd_1_yields_same_data_as_its_successor():
    older = [
        ("rsm:CrossIndustryInvoice", "rsm:CrossIndustryDocument"),
        ("urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100", "urn:ferd:CrossIndustryDocument:invoice:1p0"),
        ("BusinessInformationEntity:100", "BusinessInformationEntity:12"),
        ("UnqualifiedDataType:100", "UnqualifiedDataType:15"),
        ("rsm:ExchangedDocumentContext", "rsm:SpecifiedExchangedDocumentContext"),
        ("<rsm:ExchangedDocument>", "<rsm:HeaderExchangedDocument>"),
        ("</rsm:ExchangedDocument>", "</rsm:HeaderExchangedDocument>"),
        ("rsm:SupplyChainTradeTransaction", "rsm:SpecifiedSupplyChainTradeTransaction"),
        ("ApplicableHeaderTrade", "ApplicableSupplyChainTrade"),
        ("SpecifiedLineTrade", "SpecifiedSupplyChainTrade"),
        ("SettlementHeaderMonetary", "SettlementMonetary"),
        ("SettlementLineMonetary", "SettlementMonetary"),
        ("RateApplicablePercent", "ApplicablePercent"),
        ("IssuerAssignedID", "ID"),
    ]
    assert read(cii_invoice(*older)) == read(cii_invoice())


def order_x(code: str) -> bytes:
    root = "SCRDMCCBDACIOMessageStructure"
    return cii_invoice(
        ("urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100", f"urn:un:unece:uncefact:data:{root}:100"),
        ("rsm:CrossIndustryInvoice", f"rsm:{root}"),
        (">380<", f">{code}<"),
        ("BilledQuantity", "RequestedQuantity"),
        ("InvoiceCurrencyCode", "OrderCurrencyCode"),
    )


def test_order_x_order_is_read():
    extraction = extract_xml(order_x("220"))
    data = extraction.structured_data or {}
    assert extraction.type == "purchase_order"
    assert (data["po_number"], data["order_date"], data["currency"]) == ("2025/311", "2025-06-02", "EUR")
    assert data["line_items"][0]["quantity"] == "40"
    assert "iban" not in data["supplier"]


def test_order_x_response_is_an_order_confirmation():
    extraction = extract_xml(order_x("231"))
    assert extraction.type == "order_confirmation"
    assert (extraction.structured_data or {})["confirmation_number"] == "2025/311"
