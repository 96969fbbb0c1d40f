"""Writes documents as UBL 2.1 (OASIS), in the element order of its schemas.

Invoices and credit notes follow EN 16931: XRechnung 3.0 for German sellers, Peppol BIS Billing 3.0 for others. Orders,
confirmations and delivery notes contain the Peppol profile of their transaction. Goods receipts have no such profile.
"""

from decimal import Decimal

from lxml import etree

from tools.sample_generator.model import CENT, Document, Kind, Line, Party, Tax, plain

_UBL = "urn:oasis:names:specification:ubl:schema:xsd:"
_CAC = f"{_UBL}CommonAggregateComponents-2"
_CBC = f"{_UBL}CommonBasicComponents-2"
_ROOTS = {
    Kind.PURCHASE_ORDER: "Order",
    Kind.ORDER_CONFIRMATION: "OrderResponse",
    Kind.DELIVERY_NOTE: "DespatchAdvice",
    Kind.GOODS_RECEIPT: "ReceiptAdvice",
    Kind.INVOICE: "Invoice",
    Kind.CREDIT_NOTE: "CreditNote",
}
_XRECHNUNG = "urn:cen.eu:en16931:2017#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0"
_PEPPOL_BILLING = "urn:cen.eu:en16931:2017#compliant#urn:fdc:peppol.eu:2017:poacc:billing:3.0"
_BILLING_PROCESS = "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0"
_PROFILES = {
    Kind.PURCHASE_ORDER: ("urn:fdc:peppol.eu:poacc:trns:order:3", "urn:fdc:peppol.eu:poacc:bis:ordering:3"),
    Kind.ORDER_CONFIRMATION: (
        "urn:fdc:peppol.eu:poacc:trns:order_response:3",
        "urn:fdc:peppol.eu:poacc:bis:ordering:3",
    ),
    Kind.DELIVERY_NOTE: (
        "urn:fdc:peppol.eu:poacc:trns:despatch_advice:3",
        "urn:fdc:peppol.eu:poacc:bis:despatch_advice:3",
    ),
}
EXEMPTIONS = {
    "K": ("VATEX-EU-IC", "Intra-community supply"),
    "G": ("VATEX-EU-G", "Export"),
}


def write_ubl(document: Document) -> bytes:
    """Return the document as a UTF-8 UBL 2.1 file."""
    name = _ROOTS[document.kind]
    root = etree.Element(f"{{{_UBL}{name}-2}}{name}", nsmap={None: f"{_UBL}{name}-2", "cac": _CAC, "cbc": _CBC})
    _head(root, document)
    _references(root, document)
    _parties(root, document)
    if document.kind in (Kind.INVOICE, Kind.CREDIT_NOTE):
        _delivery(root, document)
        _payment(root, document)
    if document.currency is not None:
        _totals(root, document)
    for line in document.lines:
        _LINE_WRITERS[document.kind](root, line, document.currency or "")
    etree.indent(root, "  ")
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8") + b"\n"


def _cac(parent: etree._Element, name: str) -> etree._Element:
    return etree.SubElement(parent, f"{{{_CAC}}}{name}")


def _cbc(parent: etree._Element, name: str, text: str | None, **attributes: str) -> None:
    if text is not None:
        etree.SubElement(parent, f"{{{_CBC}}}{name}", attributes).text = text


def _amount(parent: etree._Element, name: str, value: Decimal, currency: str) -> None:
    _cbc(parent, name, plain(value), currencyID=currency)


def _head(root: etree._Element, document: Document) -> None:
    if document.kind in (Kind.INVOICE, Kind.CREDIT_NOTE):
        _cbc(root, "CustomizationID", _XRECHNUNG if document.seller.country == "DE" else _PEPPOL_BILLING)
        _cbc(root, "ProfileID", _BILLING_PROCESS)
    elif document.kind in _PROFILES:
        customization, profile = _PROFILES[document.kind]
        _cbc(root, "CustomizationID", customization)
        _cbc(root, "ProfileID", profile)
    else:
        _cbc(root, "UBLVersionID", "2.1")
    _cbc(root, "ID", document.number)
    _cbc(root, "IssueDate", document.issue_date.isoformat())
    if document.kind is Kind.INVOICE:
        _cbc(root, "DueDate", document.due_date.isoformat() if document.due_date else None)
        _cbc(root, "InvoiceTypeCode", "380")
    elif document.kind is Kind.CREDIT_NOTE:
        _cbc(root, "CreditNoteTypeCode", "381")
    elif document.kind is Kind.PURCHASE_ORDER:
        _cbc(root, "OrderTypeCode", "220")
    elif document.kind is Kind.ORDER_CONFIRMATION:
        _cbc(root, "OrderResponseCode", "AP")
    _cbc(root, "Note", document.note)
    _cbc(root, "DocumentCurrencyCode", document.currency)
    if document.kind in (Kind.INVOICE, Kind.CREDIT_NOTE):
        _cbc(root, "BuyerReference", document.buyer_reference)


def _references(root: etree._Element, document: Document) -> None:
    references = document.references
    if "po_reference" in references:
        order = _cac(root, "OrderReference")
        _cbc(order, "ID", references["po_reference"])
        _cbc(order, "SalesOrderID", references.get("sales_order_reference"))
    if "invoice_reference" in references:
        billing = _cac(_cac(root, "BillingReference"), "InvoiceDocumentReference")
        _cbc(billing, "ID", references["invoice_reference"])
    if "delivery_note_reference" in references:
        _cbc(_cac(root, "DespatchDocumentReference"), "ID", references["delivery_note_reference"])


def _parties(root: etree._Element, document: Document) -> None:
    """Write both parties in the order that the document type requires."""
    seller, buyer = document.seller, document.buyer
    if document.kind is Kind.PURCHASE_ORDER:
        sides = (("BuyerCustomerParty", buyer), ("SellerSupplierParty", seller))
    elif document.kind is Kind.ORDER_CONFIRMATION:
        sides = (("SellerSupplierParty", seller), ("BuyerCustomerParty", buyer))
    elif document.kind is Kind.DELIVERY_NOTE:
        sides = (("DespatchSupplierParty", seller), ("DeliveryCustomerParty", buyer))
    elif document.kind is Kind.GOODS_RECEIPT:
        sides = (("DeliveryCustomerParty", buyer), ("DespatchSupplierParty", seller))
    else:
        sides = (("AccountingSupplierParty", seller), ("AccountingCustomerParty", buyer))
    for name, party in sides:
        _party(_cac(_cac(root, name), "Party"), party, document)


def _party(node: etree._Element, party: Party, document: Document) -> None:
    _cbc(node, "EndpointID", party.endpoint_id, schemeID="EM")
    _cbc(_cac(node, "PartyName"), "Name", party.name)
    _address(_cac(node, "PostalAddress"), party)
    for number, scheme in ((party.vat_id, "VAT"), (party.tax_number, "FC")):
        if number is not None:
            tax = _cac(node, "PartyTaxScheme")
            _cbc(tax, "CompanyID", number)
            _cbc(_cac(tax, "TaxScheme"), "ID", scheme)
    legal = _cac(node, "PartyLegalEntity")
    _cbc(legal, "RegistrationName", party.name)
    _cbc(legal, "CompanyID", party.registration_id)
    if party.email is not None:
        contact = _cac(node, "Contact")
        _cbc(contact, "Name", document.issuer.short_name)
        _cbc(contact, "Telephone", document.issuer.phone)
        _cbc(contact, "ElectronicMail", party.email)


def _address(node: etree._Element, party: Party) -> None:
    _cbc(node, "StreetName", party.street)
    _cbc(node, "CityName", party.city)
    _cbc(node, "PostalZone", party.postal_code)
    _cbc(_cac(node, "Country"), "IdentificationCode", party.country)


def _delivery(root: etree._Element, document: Document) -> None:
    if document.delivery_date is not None:
        delivery = _cac(root, "Delivery")
        _cbc(delivery, "ActualDeliveryDate", document.delivery_date.isoformat())
        _address(_cac(_cac(delivery, "DeliveryLocation"), "Address"), document.buyer)


def _payment(root: etree._Element, document: Document) -> None:
    if document.seller.iban is None:
        return
    means = _cac(root, "PaymentMeans")
    _cbc(means, "PaymentMeansCode", "58" if document.currency == "EUR" else "30")
    account = _cac(means, "PayeeFinancialAccount")
    _cbc(account, "ID", document.seller.iban)
    _cbc(account, "Name", document.seller.name)


def _totals(root: etree._Element, document: Document) -> None:
    currency, totals = document.currency or "", document.totals
    tax_total = _cac(root, "TaxTotal")
    _amount(tax_total, "TaxAmount", totals.tax, currency)
    for group in totals.groups:
        subtotal = _cac(tax_total, "TaxSubtotal")
        _amount(subtotal, "TaxableAmount", group.base, currency)
        _amount(subtotal, "TaxAmount", group.amount, currency)
        _tax_category(subtotal, "TaxCategory", group.tax, explained=True)
    name = "AnticipatedMonetaryTotal" if document.kind is Kind.PURCHASE_ORDER else "LegalMonetaryTotal"
    monetary = _cac(root, name)
    _amount(monetary, "LineExtensionAmount", totals.net, currency)
    _amount(monetary, "TaxExclusiveAmount", totals.net, currency)
    _amount(monetary, "TaxInclusiveAmount", totals.gross, currency)
    _amount(monetary, "PayableAmount", totals.gross, currency)


def _tax_category(parent: etree._Element, name: str, tax: Tax, *, explained: bool = False) -> None:
    category = _cac(parent, name)
    _cbc(category, "ID", tax.category)
    _cbc(category, "Percent", plain(tax.rate))
    if explained and tax.category in EXEMPTIONS:
        code, reason = EXEMPTIONS[tax.category]
        _cbc(category, "TaxExemptionReasonCode", code)
        _cbc(category, "TaxExemptionReason", reason)
    _cbc(_cac(category, "TaxScheme"), "ID", "VAT")


def _order_line(root: etree._Element, line: Line, currency: str) -> None:
    item = _cac(_cac(root, "OrderLine"), "LineItem")
    _cbc(item, "ID", line.position)
    _cbc(item, "Quantity", plain(line.quantity), unitCode=line.unit)
    _amount(item, "LineExtensionAmount", line.net_amount or CENT * 0, currency)
    _price(item, line, currency)
    _item(item, line)


def _despatch_line(root: etree._Element, line: Line, _currency: str) -> None:
    node = _cac(root, "DespatchLine")
    _cbc(node, "ID", line.position)
    _cbc(node, "DeliveredQuantity", plain(line.quantity), unitCode=line.unit)
    _order_line_reference(node, line)
    _item(node, line)


def _receipt_line(root: etree._Element, line: Line, _currency: str) -> None:
    node = _cac(root, "ReceiptLine")
    _cbc(node, "ID", line.position)
    _cbc(node, "ReceivedQuantity", plain(line.quantity), unitCode=line.unit)
    if line.rejected_quantity is not None:
        _cbc(node, "RejectedQuantity", plain(line.rejected_quantity), unitCode=line.unit)
    _order_line_reference(node, line)
    _item(node, line)


def _billing_line(root: etree._Element, line: Line, currency: str) -> None:
    credit = etree.QName(root).localname == "CreditNote"
    node = _cac(root, "CreditNoteLine" if credit else "InvoiceLine")
    _cbc(node, "ID", line.position)
    _cbc(node, "CreditedQuantity" if credit else "InvoicedQuantity", plain(line.quantity), unitCode=line.unit)
    _amount(node, "LineExtensionAmount", line.net_amount or CENT * 0, currency)
    _order_line_reference(node, line)
    _item(node, line)
    _price(node, line, currency)


def _order_line_reference(node: etree._Element, line: Line) -> None:
    if line.po_line is not None:
        _cbc(_cac(node, "OrderLineReference"), "LineID", line.po_line)


def _item(node: etree._Element, line: Line) -> None:
    item = _cac(node, "Item")
    _cbc(item, "Name", line.description)
    for name, number in (("BuyersItemIdentification", line.buyer_article_number),
                         ("SellersItemIdentification", line.article_number)):  # fmt: skip
        if number is not None:
            _cbc(_cac(item, name), "ID", number)
    if line.tax is not None:
        _tax_category(item, "ClassifiedTaxCategory", line.tax)


def _price(node: etree._Element, line: Line, currency: str) -> None:
    if line.unit_price is None:
        return
    price = _cac(node, "Price")
    _amount(price, "PriceAmount", line.unit_price, currency)
    if line.price_basis_quantity is not None:
        _cbc(price, "BaseQuantity", plain(line.price_basis_quantity), unitCode=line.unit)


_LINE_WRITERS = {
    Kind.PURCHASE_ORDER: _order_line,
    Kind.ORDER_CONFIRMATION: _order_line,
    Kind.DELIVERY_NOTE: _despatch_line,
    Kind.GOODS_RECEIPT: _receipt_line,
    Kind.INVOICE: _billing_line,
    Kind.CREDIT_NOTE: _billing_line,
}
