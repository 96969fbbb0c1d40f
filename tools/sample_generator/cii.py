"""Writes invoices and credit notes as UN/CEFACT CII D16B.

The elements are in the order of the schema. The guideline is EN 16931. Factur-X and ZUGFeRD 2 embed such a file as
`factur-x.xml`.
"""

from datetime import date
from decimal import Decimal

from lxml import etree

from tools.sample_generator.model import CENT, Document, Kind, Line, Party, TaxGroup, plain
from tools.sample_generator.ubl import EXEMPTIONS

_STANDARD = "urn:un:unece:uncefact:data:standard:"
_RSM = f"{_STANDARD}CrossIndustryInvoice:100"
_RAM = f"{_STANDARD}ReusableAggregateBusinessInformationEntity:100"
_UDT = f"{_STANDARD}UnqualifiedDataType:100"
_QDT = f"{_STANDARD}QualifiedDataType:100"
_GUIDELINE = "urn:cen.eu:en16931:2017"


def write_cii(document: Document) -> bytes:
    """Return the invoice or credit note as a UTF-8 CII file."""
    nsmap = {"rsm": _RSM, "ram": _RAM, "udt": _UDT, "qdt": _QDT}
    root = etree.Element(f"{{{_RSM}}}CrossIndustryInvoice", nsmap=nsmap)
    context = etree.SubElement(root, f"{{{_RSM}}}ExchangedDocumentContext")
    _text(_node(context, "GuidelineSpecifiedDocumentContextParameter"), "ID", _GUIDELINE)
    head = etree.SubElement(root, f"{{{_RSM}}}ExchangedDocument")
    _text(head, "ID", document.number)
    _text(head, "TypeCode", "381" if document.kind is Kind.CREDIT_NOTE else "380")
    _date(head, "IssueDateTime", document.issue_date)
    if document.note is not None:
        _text(_node(head, "IncludedNote"), "Content", document.note)
    transaction = etree.SubElement(root, f"{{{_RSM}}}SupplyChainTradeTransaction")
    for line in document.lines:
        _line(_node(transaction, "IncludedSupplyChainTradeLineItem"), line)
    _agreement(_node(transaction, "ApplicableHeaderTradeAgreement"), document)
    _delivery(_node(transaction, "ApplicableHeaderTradeDelivery"), document)
    _settlement(_node(transaction, "ApplicableHeaderTradeSettlement"), document)
    etree.indent(root, "  ")
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8") + b"\n"


def _node(parent: etree._Element, name: str) -> etree._Element:
    return etree.SubElement(parent, f"{{{_RAM}}}{name}")


def _text(parent: etree._Element, name: str, text: str | None, **attributes: str) -> None:
    if text is not None:
        etree.SubElement(parent, f"{{{_RAM}}}{name}", attributes).text = text


def _amount(parent: etree._Element, name: str, value: Decimal, **attributes: str) -> None:
    _text(parent, name, plain(value), **attributes)


def _date(parent: etree._Element, name: str, day: date | None) -> None:
    if day is not None:
        node = etree.SubElement(_node(parent, name), f"{{{_UDT}}}DateTimeString", {"format": "102"})
        node.text = day.strftime("%Y%m%d")


def _line(node: etree._Element, line: Line) -> None:
    _text(_node(node, "AssociatedDocumentLineDocument"), "LineID", line.position)
    product = _node(node, "SpecifiedTradeProduct")
    _text(product, "SellerAssignedID", line.article_number)
    _text(product, "BuyerAssignedID", line.buyer_article_number)
    _text(product, "Name", line.description)
    agreement = _node(node, "SpecifiedLineTradeAgreement")
    if line.po_line is not None:
        _text(_node(agreement, "BuyerOrderReferencedDocument"), "LineID", line.po_line)
    price = _node(agreement, "NetPriceProductTradePrice")
    _amount(price, "ChargeAmount", line.unit_price or Decimal(0))
    if line.price_basis_quantity is not None:
        _amount(price, "BasisQuantity", line.price_basis_quantity, unitCode=line.unit)
    _amount(_node(node, "SpecifiedLineTradeDelivery"), "BilledQuantity", line.quantity, unitCode=line.unit)
    settlement = _node(node, "SpecifiedLineTradeSettlement")
    if line.tax is not None:
        tax = _node(settlement, "ApplicableTradeTax")
        _text(tax, "TypeCode", "VAT")
        _text(tax, "CategoryCode", line.tax.category)
        _amount(tax, "RateApplicablePercent", line.tax.rate)
    summation = _node(settlement, "SpecifiedTradeSettlementLineMonetarySummation")
    _amount(summation, "LineTotalAmount", line.net_amount or CENT * 0)


def _agreement(node: etree._Element, document: Document) -> None:
    _text(node, "BuyerReference", document.buyer_reference)
    _party(_node(node, "SellerTradeParty"), document.seller, document)
    _party(_node(node, "BuyerTradeParty"), document.buyer, document)
    for name, reference in (("SellerOrderReferencedDocument", "sales_order_reference"),
                            ("BuyerOrderReferencedDocument", "po_reference")):  # fmt: skip
        if reference in document.references:
            _text(_node(node, name), "IssuerAssignedID", document.references[reference])


def _party(node: etree._Element, party: Party, document: Document) -> None:
    _text(node, "Name", party.name)
    if party.registration_id is not None:
        _text(_node(node, "SpecifiedLegalOrganization"), "ID", party.registration_id)
    if party.email is not None:
        contact = _node(node, "DefinedTradeContact")
        _text(contact, "PersonName", document.issuer.short_name)
        _text(_node(contact, "TelephoneUniversalCommunication"), "CompleteNumber", document.issuer.phone)
        _text(_node(contact, "EmailURIUniversalCommunication"), "URIID", party.email)
    _address(node, party)
    if party.endpoint_id is not None:
        _text(_node(node, "URIUniversalCommunication"), "URIID", party.endpoint_id, schemeID="EM")
    for number, scheme in ((party.vat_id, "VA"), (party.tax_number, "FC")):
        if number is not None:
            _text(_node(node, "SpecifiedTaxRegistration"), "ID", number, schemeID=scheme)


def _address(node: etree._Element, party: Party) -> None:
    address = _node(node, "PostalTradeAddress")
    _text(address, "PostcodeCode", party.postal_code)
    _text(address, "LineOne", party.street)
    _text(address, "CityName", party.city)
    _text(address, "CountryID", party.country)


def _delivery(node: etree._Element, document: Document) -> None:
    if document.delivery_date is not None:
        receiver = _node(node, "ShipToTradeParty")
        _text(receiver, "Name", document.buyer.name)
        _address(receiver, document.buyer)
        _date(_node(node, "ActualDeliverySupplyChainEvent"), "OccurrenceDateTime", document.delivery_date)
    if "delivery_note_reference" in document.references:
        advice = _node(node, "DespatchAdviceReferencedDocument")
        _text(advice, "IssuerAssignedID", document.references["delivery_note_reference"])


def _settlement(node: etree._Element, document: Document) -> None:
    _text(node, "InvoiceCurrencyCode", document.currency)
    if document.seller.iban is not None:
        means = _node(node, "SpecifiedTradeSettlementPaymentMeans")
        _text(means, "TypeCode", "58" if document.currency == "EUR" else "30")
        account = _node(means, "PayeePartyCreditorFinancialAccount")
        _text(account, "IBANID", document.seller.iban)
        _text(account, "AccountName", document.seller.name)
    totals = document.totals
    for group in totals.groups:
        _tax(_node(node, "ApplicableTradeTax"), group)
    if document.due_date is not None:
        _date(_node(node, "SpecifiedTradePaymentTerms"), "DueDateDateTime", document.due_date)
    summation = _node(node, "SpecifiedTradeSettlementHeaderMonetarySummation")
    _amount(summation, "LineTotalAmount", totals.net)
    _amount(summation, "TaxBasisTotalAmount", totals.net)
    _amount(summation, "TaxTotalAmount", totals.tax, currencyID=document.currency or "")
    _amount(summation, "GrandTotalAmount", totals.gross)
    _amount(summation, "DuePayableAmount", totals.gross)
    if "invoice_reference" in document.references:
        invoice = _node(node, "InvoiceReferencedDocument")
        _text(invoice, "IssuerAssignedID", document.references["invoice_reference"])


def _tax(node: etree._Element, group: TaxGroup) -> None:
    code, reason = EXEMPTIONS.get(group.tax.category, (None, None))
    _amount(node, "CalculatedAmount", group.amount)
    _text(node, "TypeCode", "VAT")
    _text(node, "ExemptionReason", reason)
    _amount(node, "BasisAmount", group.base)
    _text(node, "CategoryCode", group.tax.category)
    _text(node, "ExemptionReasonCode", code)
    _amount(node, "RateApplicablePercent", group.tax.rate)
