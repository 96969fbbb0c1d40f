"""Data is extracted from UBL documents."""

from typing import Any

import pytest

from counterfoil.documents.einvoice.extract import extract_xml
from tests.documents.einvoice_samples import BUYER, INVOICE_LINE, SELLER, ubl, ubl_invoice

ITEM = "<cac:Item><cbc:Name>Dichtring</cbc:Name></cac:Item>"


def read(content: bytes) -> dict[str, Any]:
    data = extract_xml(content).structured_data
    assert data is not None
    return data


def test_invoice_is_read_completely():
    extraction = extract_xml(ubl_invoice())
    assert (extraction.type, extraction.method, extraction.reason) == ("invoice", "xml", None)
    assert extraction.structured_data == {
        "invoice_number": "R-5108",
        "invoice_date": "2025-03-14",
        "issuer": {
            "name": "Brunnhuber Anlagen GmbH & Co. KG",
            "vat_id": "DE811907980",
            "tax_number": "156/203/40417",
            "registration_id": "HRA 7741",
            "endpoint_id": "rechnung@brunnhuber.example",
            "iban": "DE02120300000000202051",
            "email": "kontor@brunnhuber.example",
            "street": "Am Sudhaus 4b",
            "city": "Rosenheim",
            "postal_code": "83022",
            "country": "DE",
        },
        "recipient": {"name": "Molkerei Irschenberg eG", "city": "Irschenberg"},
        "po_reference": ["B-2281", "B-2290"],
        "delivery_note_reference": "LS-88",
        "contract_reference": "RV-7",
        "sales_order_reference": "A-19",
        "preceding_invoice_reference": "R-5001",
        "currency": "EUR",
        "total_net": "100.00",
        "total_tax": "19.00",
        "total_gross": "119.00",
        "payment_due_date": "2025-04-13",
        "line_items": [
            {
                "position": "10",
                "article_number": "SL040",
                "buyer_article_number": "M-7",
                "description": "Milchschlauch DN 40",
                "quantity": "250",
                "unit": "MTR",
                "price_basis_quantity": "100",
                "unit_price": "42.00",
                "net_amount": "105.00",
                "tax_rate": "19",
                "po_reference": "B-2290",
                "po_line": "3",
            },
            {"description": "Treuerabatt", "net_amount": "-5.00"},
        ],
    }


def test_trading_name_is_preferred_outside_en16931():
    invoice = read(ubl_invoice(("urn:cen.eu:en16931:2017", "urn:example:1")))
    assert invoice["issuer"]["name"] == "Brunnhuber Anlagen"


def test_charge_without_reason_gets_a_default_description():
    invoice = read(
        ubl_invoice(
            ("<cbc:ChargeIndicator>false", "<cbc:ChargeIndicator>true"),
            ("<cbc:AllowanceChargeReason>Treuerabatt</cbc:AllowanceChargeReason>", ""),
        )
    )
    assert invoice["line_items"][-1] == {"description": "Charge", "net_amount": "5.00"}


@pytest.mark.parametrize("code", ["380", "384", "389", "326"])
def test_invoice_type_codes_yield_invoices(code: str):
    extraction = extract_xml(ubl_invoice((">380<", f">{code}<")))
    assert extraction.type == "invoice"
    assert extraction.structured_data is not None
    assert extraction.structured_data["preceding_invoice_reference"] == "R-5001"


@pytest.mark.parametrize("code", ["381", "261", "396"])
def test_invoice_with_credit_code_is_a_credit_note(code: str):
    extraction = extract_xml(ubl_invoice((">380<", f">{code}<")))
    assert extraction.type == "credit_note"
    data = extraction.structured_data or {}
    assert (data["credit_note_number"], data["credit_note_date"]) == ("R-5108", "2025-03-14")
    assert data["invoice_reference"] == "R-5001"
    assert "iban" not in data["issuer"]
    assert "payee" not in data


def test_invoice_reference_is_read_from_a_line_item():
    line = f"""<cac:CreditNoteLine><cbc:ID>1</cbc:ID><cbc:CreditedQuantity unitCode="C62">2</cbc:CreditedQuantity>
        <cac:BillingReference><cac:InvoiceDocumentReference><cbc:ID>R-4711</cbc:ID></cac:InvoiceDocumentReference>
        </cac:BillingReference>{ITEM}</cac:CreditNoteLine>"""
    extraction = extract_xml(ubl("CreditNote", f"<cbc:ID>G-1</cbc:ID>{line}"))
    assert extraction.type == "credit_note"
    assert extraction.structured_data == {
        "credit_note_number": "G-1",
        "invoice_reference": "R-4711",
        "line_items": [{"position": "1", "description": "Dichtring", "quantity": "2", "unit": "C62"}],
    }


def test_payees_account_is_not_assigned_to_seller():
    payee = "<cac:PayeeParty><cac:PartyName><cbc:Name>Factor AG</cbc:Name></cac:PartyName></cac:PayeeParty>"
    invoice = read(ubl_invoice(("<cac:PaymentMeans>", f"{payee}<cac:PaymentMeans>")))
    assert "iban" not in invoice["issuer"]


def test_account_number_is_not_an_iban():
    assert "iban" not in read(ubl_invoice(("DE02 1203 0000 0000 2020 51", "12345678")))["issuer"]


def test_debtor_account_belongs_to_the_buyer():
    mandate = """<cac:PaymentMeans><cac:PaymentMandate><cac:PayerFinancialAccount><cbc:ID>AT611904300234573201</cbc:ID>
        </cac:PayerFinancialAccount></cac:PaymentMandate></cac:PaymentMeans><cac:TaxTotal>"""
    assert read(ubl_invoice(("<cac:TaxTotal>", mandate)))["recipient"]["iban"] == "AT611904300234573201"


def test_tax_in_accounting_currency_is_ignored():
    second = '<cac:TaxTotal><cbc:TaxAmount currencyID="SEK">214.70</cbc:TaxAmount></cac:TaxTotal>'
    assert read(ubl_invoice(("<cac:LegalMonetaryTotal>", f"{second}<cac:LegalMonetaryTotal>")))["total_tax"] == "19.00"


def test_placeholder_order_reference_is_ignored():
    line_reference = "<cac:OrderReference><cbc:ID>B-2290</cbc:ID></cac:OrderReference>"
    invoice = read(ubl_invoice(("<cbc:ID>B-2281</cbc:ID>", "<cbc:ID>NA</cbc:ID>"), (line_reference, "")))
    assert "po_reference" not in invoice
    assert invoice["sales_order_reference"] == "A-19"


def test_payable_amount_replaces_a_missing_gross_total():
    invoice = read(
        ubl_invoice(
            ('<cbc:TaxExclusiveAmount currencyID="EUR">100.00</cbc:TaxExclusiveAmount>', ""),
            ('<cbc:TaxInclusiveAmount currencyID="EUR">119.00</cbc:TaxInclusiveAmount>', ""),
            ("<cbc:DocumentCurrencyCode>EUR</cbc:DocumentCurrencyCode>", ""),
        )
    )
    # With a document-level allowance, the sum of the lines is not the net total.
    assert "total_net" not in invoice
    assert (invoice["total_gross"], invoice["currency"]) == ("119.00", "EUR")


def test_remaining_amount_due_is_not_the_gross_total():
    invoice = read(
        ubl_invoice(
            ('<cbc:TaxInclusiveAmount currencyID="EUR">119.00</cbc:TaxInclusiveAmount>', ""),
            ("<cbc:PayableAmount", '<cbc:PrepaidAmount currencyID="EUR">50.00</cbc:PrepaidAmount><cbc:PayableAmount'),
        )
    )
    assert "total_gross" not in invoice


def test_sub_lines_are_not_separate_lines():
    sub_line = INVOICE_LINE.replace("InvoiceLine", "SubInvoiceLine")
    invoice = read(ubl_invoice(("</cac:InvoiceLine>", f"{sub_line}</cac:InvoiceLine>")))
    assert [line.get("position") for line in invoice["line_items"]] == ["10", None]


def order(kind: str, head: str) -> bytes:
    line = f"""<cac:OrderLine><cac:LineItem><cbc:ID>1</cbc:ID><cbc:Quantity unitCode="C62">12</cbc:Quantity>
        <cbc:LineExtensionAmount currencyID="EUR">30.00</cbc:LineExtensionAmount>
        <cac:Price><cbc:PriceAmount currencyID="EUR">2.50</cbc:PriceAmount></cac:Price>{ITEM}
        </cac:LineItem></cac:OrderLine>"""
    return ubl(
        kind,
        f"""{head}<cbc:IssueDate>2025-01-08</cbc:IssueDate>
        <cac:BuyerCustomerParty>{BUYER}</cac:BuyerCustomerParty>
        <cac:SellerSupplierParty>{SELLER}</cac:SellerSupplierParty>
        <cac:AnticipatedMonetaryTotal><cbc:LineExtensionAmount currencyID="EUR">30.00</cbc:LineExtensionAmount>
        <cbc:PayableAmount currencyID="EUR">30.00</cbc:PayableAmount></cac:AnticipatedMonetaryTotal>{line}""",
    )


def test_order_is_read():
    head = """<cbc:ID>B-2281</cbc:ID>
        <cac:QuotationDocumentReference><cbc:ID>AN-4</cbc:ID></cac:QuotationDocumentReference>
        <cac:OrderDocumentReference><cbc:ID>B-0001</cbc:ID></cac:OrderDocumentReference>
        <cac:Contract><cbc:ID>RV-7</cbc:ID></cac:Contract>"""
    extraction = extract_xml(order("Order", head))
    data = extraction.structured_data or {}
    assert extraction.type == "purchase_order"
    assert (data["po_number"], data["order_date"]) == ("B-2281", "2025-01-08")
    assert (data["supplier"]["name"], data["buyer"]["name"]) == ("Brunnhuber Anlagen", "Molkerei Irschenberg eG")
    assert (data["quotation_reference"], data["contract_reference"]) == ("AN-4", "RV-7")
    assert (data["currency"], data["total_net"], data["total_gross"]) == ("EUR", "30.00", "30.00")
    assert data["line_items"] == [
        {
            "position": "1",
            "description": "Dichtring",
            "quantity": "12",
            "unit": "C62",
            "unit_price": "2.50",
            "net_amount": "30.00",
        }
    ]


def test_order_change_keeps_the_order_number():
    head = "<cbc:ID>C-1</cbc:ID><cac:OrderReference><cbc:ID>B-2281</cbc:ID></cac:OrderReference>"
    extraction = extract_xml(order("OrderChange", head))
    assert extraction.type == "purchase_order"
    assert (extraction.structured_data or {})["po_number"] == "B-2281"


@pytest.mark.parametrize("kind", ["OrderResponse", "OrderResponseSimple"])
def test_order_response_is_an_order_confirmation(kind: str):
    head = "<cbc:ID>AB-5</cbc:ID><cac:OrderReference><cbc:ID>B-2281</cbc:ID></cac:OrderReference>"
    extraction = extract_xml(order(kind, head))
    data = extraction.structured_data or {}
    assert extraction.type == "order_confirmation"
    assert (data["confirmation_number"], data["confirmation_date"]) == ("AB-5", "2025-01-08")
    assert data["po_reference"] == "B-2281"


def test_despatch_advice_references_orders_by_line():
    line = """<cac:DespatchLine><cbc:ID>{0}</cbc:ID><cbc:DeliveredQuantity unitCode="KGM">7.5</cbc:DeliveredQuantity>
        <cac:OrderLineReference><cbc:LineID>2</cbc:LineID><cac:OrderReference><cbc:ID>{1}</cbc:ID></cac:OrderReference>
        </cac:OrderLineReference><cac:Item><cbc:Name>Hopfen</cbc:Name></cac:Item></cac:DespatchLine>"""
    content = ubl(
        "DespatchAdvice",
        f"""<cbc:ID>LS-88</cbc:ID><cbc:IssueDate>2025-03-10</cbc:IssueDate>
        <cac:DespatchSupplierParty>{SELLER}</cac:DespatchSupplierParty>
        <cac:DeliveryCustomerParty>{BUYER}</cac:DeliveryCustomerParty>
        {line.format(1, "B-2281")}{line.format(2, "B-2290")}""",
    )
    extraction = extract_xml(content)
    data = extraction.structured_data or {}
    assert extraction.type == "delivery_note"
    assert (data["delivery_note_number"], data["delivery_date"]) == ("LS-88", "2025-03-10")
    assert (data["supplier"]["name"], data["buyer"]["name"]) == ("Brunnhuber Anlagen", "Molkerei Irschenberg eG")
    assert data["po_reference"] == ["B-2281", "B-2290"]
    assert data["line_items"][1] == {
        "position": "2",
        "description": "Hopfen",
        "quantity": "7.5",
        "unit": "KGM",
        "po_reference": "B-2290",
        "po_line": "2",
    }


def test_despatch_advice_prefers_seller_over_despatching_party():
    sender = SELLER.replace("Brunnhuber Anlagen", "Lagerhaus Prien")
    content = ubl(
        "DespatchAdvice",
        f"""<cbc:ID>LS-1</cbc:ID><cac:DespatchSupplierParty>{sender}</cac:DespatchSupplierParty>
        <cac:SellerSupplierParty>{SELLER}</cac:SellerSupplierParty>""",
    )
    assert read(content)["supplier"]["name"] == "Brunnhuber Anlagen"


def test_receipt_advice_contains_rejected_quantity():
    content = ubl(
        "ReceiptAdvice",
        f"""<cbc:ID>WE-3</cbc:ID><cbc:IssueDate>2025-03-12</cbc:IssueDate>
        <cac:DespatchDocumentReference><cbc:ID>LS-88</cbc:ID></cac:DespatchDocumentReference>
        <cac:ReceiptLine><cbc:ID>1</cbc:ID><cbc:ReceivedQuantity unitCode="C62">9</cbc:ReceivedQuantity>
        <cbc:RejectedQuantity unitCode="C62">1</cbc:RejectedQuantity>{ITEM}</cac:ReceiptLine>""",
    )
    extraction = extract_xml(content)
    assert extraction.type == "goods_receipt"
    assert extraction.structured_data == {
        "receipt_number": "WE-3",
        "receipt_date": "2025-03-12",
        "delivery_note_reference": "LS-88",
        "line_items": [
            {"position": "1", "description": "Dichtring", "quantity": "9", "rejected_quantity": "1", "unit": "C62"}
        ],
    }


def test_other_documents_have_subject_date_and_issuer():
    content = ubl(
        "Reminder",
        f"""<cbc:ID>M-1</cbc:ID><cbc:IssueDate>2025-05-01</cbc:IssueDate>
        <cac:AccountingSupplierParty>{SELLER}</cac:AccountingSupplierParty>""",
    )
    extraction = extract_xml(content)
    data = extraction.structured_data or {}
    assert extraction.type == "other"
    assert (data["subject"], data["date"], data["issuer"]["name"]) == ("Reminder", "2025-05-01", "Brunnhuber Anlagen")
    assert "recipient" not in data


def test_document_in_peppol_envelope_is_read():
    invoice = ubl_invoice().partition(b"?>")[2]
    namespace = "http://www.unece.org/cefact/namespaces/StandardBusinessDocumentHeader"
    envelope = f'<StandardBusinessDocument xmlns="{namespace}"><StandardBusinessDocumentHeader/>'.encode()
    assert read(envelope + invoice + b"</StandardBusinessDocument>") == read(ubl_invoice())
