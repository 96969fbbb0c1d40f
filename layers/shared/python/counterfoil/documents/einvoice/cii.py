"""Reads UN/CEFACT Cross Industry Invoices and related formats.

Supports D16B and later as used by Factur-X, ZUGFeRD 2 and XRechnung (mapping of EN 16931: CEN/TS 16931-3-3), ZUGFeRD
1.0 and its release candidate after renaming their elements, and the orders of Order-X.
"""

import re
from collections.abc import Iterator
from types import MappingProxyType

from lxml import etree

from counterfoil.documents.einvoice.xml import (
    CREDIT_NOTE_CODES,
    ORDER_CHANGE_CODE,
    ORDER_RESPONSE_CODE,
    EinvoiceResult,
    all_texts,
    common_currency,
    drop_empty,
    iban,
    negated,
    reference,
    single_value,
    text,
    use_local_names,
)
from counterfoil.documents.structured import ROLES, DocumentType

_RENAMED = MappingProxyType(
    {
        "HeaderExchangedDocument": "ExchangedDocument",
        "SpecifiedExchangedDocumentContext": "ExchangedDocumentContext",
        "SpecifiedSupplyChainTradeTransaction": "SupplyChainTradeTransaction",
        "ApplicableSupplyChainTradeAgreement": "ApplicableHeaderTradeAgreement",
        "ApplicableSupplyChainTradeDelivery": "ApplicableHeaderTradeDelivery",
        "ApplicableSupplyChainTradeSettlement": "ApplicableHeaderTradeSettlement",
        "SpecifiedSupplyChainTradeAgreement": "SpecifiedLineTradeAgreement",
        "SpecifiedSupplyChainTradeDelivery": "SpecifiedLineTradeDelivery",
        "SpecifiedSupplyChainTradeSettlement": "SpecifiedLineTradeSettlement",
        "SpecifiedTradeSettlementMonetarySummation": "MonetarySummation",
        "SpecifiedTradeSettlementHeaderMonetarySummation": "MonetarySummation",
        "SpecifiedTradeSettlementLineMonetarySummation": "MonetarySummation",
        "ApplicablePercent": "RateApplicablePercent",
    }
)
_WITHOUT_LINES = re.compile(r":(minimum|basicwl)\b", re.IGNORECASE)
_AGGREGATING_LINES = frozenset({"GROUP", "INFORMATION"})  # Factur-X EXTENDED: subtotals and remarks, not billed
_DAY = re.compile(r"(\d{4})(\d{2})(\d{2})(\d{4}(\d{2})?)?", re.ASCII)
_MONTH_OR_WEEK_FORMATS = frozenset({"610", "616"})

_TRANSACTION = "SupplyChainTradeTransaction"
_LINE = f"{_TRANSACTION}/IncludedSupplyChainTradeLineItem"
_AGREEMENT = f"{_TRANSACTION}/ApplicableHeaderTradeAgreement"
_DELIVERY = f"{_TRANSACTION}/ApplicableHeaderTradeDelivery"
_SETTLEMENT = f"{_TRANSACTION}/ApplicableHeaderTradeSettlement"


def read(root: etree._Element) -> EinvoiceResult:
    """Read an invoice or credit note.

    The tree is modified: element names lose their namespaces.

    The profiles MINIMUM and BASIC WL have no line items by design.
    """
    use_local_names(root, _RENAMED)
    is_credit = text(root, "ExchangedDocument/TypeCode") in CREDIT_NOTE_CODES
    document_type = DocumentType.CREDIT_NOTE if is_credit else DocumentType.INVOICE
    lines = list(_lines(root))
    fields = _fields(root, document_type, lines)
    guideline = text(root, "ExchangedDocumentContext/GuidelineSpecifiedDocumentContextParameter/ID") or ""
    return EinvoiceResult(document_type, fields, lacks_required_lines=not (lines or _WITHOUT_LINES.search(guideline)))


def read_order(root: etree._Element) -> EinvoiceResult:
    """Read an Order-X order, order response or order change.

    An order change is read under the number of the changed order.
    """
    use_local_names(root, _RENAMED)
    code = text(root, "ExchangedDocument/TypeCode")
    is_response = code == ORDER_RESPONSE_CODE
    document_type = DocumentType.ORDER_CONFIRMATION if is_response else DocumentType.PURCHASE_ORDER
    fields = _fields(root, document_type, list(_lines(root)))
    changed_order = fields.get("po_reference")
    if code == ORDER_CHANGE_CODE and isinstance(changed_order, str):
        fields[ROLES[document_type].number] = changed_order
    return EinvoiceResult(document_type, fields)


def _fields(root: etree._Element, document_type: DocumentType, lines: list[dict[str, object]]) -> dict[str, object]:
    roles = ROLES[document_type]
    return drop_empty(
        **{
            roles.number: text(root, "ExchangedDocument/ID"),
            roles.date: _date(root.find("ExchangedDocument/IssueDateTime")),
            roles.seller: _seller(root, document_type),
            roles.buyer: _buyer(root, document_type),
        },
        **_references(root),
        **_totals(root),
        line_items=[*lines, *_allowances_and_charges(root)],
    )


def _date(element: etree._Element | None) -> str | None:
    """Return a date in ISO 8601, or None if it does not name a day.

    The formats for a month (610) and a week (616) do not name a day. All other values of the format attribute are
    ignored, because they are often wrong in practice. Text in an unknown format is returned unchanged and rejected
    later.
    """
    if element is None:
        return None
    holder = next(iter(element), element)
    value = (holder.text or "").strip()
    if holder.get("format") in _MONTH_OR_WEEK_FORMATS or not value:
        return None
    match = _DAY.fullmatch(value)
    return f"{match[1]}-{match[2]}-{match[3]}" if match else value


def _seller(root: etree._Element, document_type: DocumentType) -> dict[str, object] | None:
    """Return the supplier.

    If an invoice names no separate payee, the payee account is the supplier's.
    """
    party = _party(root.find(f"{_AGREEMENT}/SellerTradeParty"))
    if party and document_type is DocumentType.INVOICE and root.find(f"{_SETTLEMENT}/PayeeTradeParty") is None:
        means = "SpecifiedTradeSettlementPaymentMeans/PayeePartyCreditorFinancialAccount/IBANID"
        party |= drop_empty(iban=next(filter(None, map(iban, all_texts(root, f"{_SETTLEMENT}/{means}"))), None))
    return party


def _buyer(root: etree._Element, document_type: DocumentType) -> dict[str, object] | None:
    party = _party(root.find(f"{_AGREEMENT}/BuyerTradeParty"))
    if party and document_type is DocumentType.INVOICE:
        means = "SpecifiedTradeSettlementPaymentMeans/PayerPartyDebtorFinancialAccount/IBANID"
        party |= drop_empty(iban=iban(text(root, f"{_SETTLEMENT}/{means}")))
    return party


def _party(party: etree._Element | None) -> dict[str, object] | None:
    """Return a party; None if it has no name."""
    name = text(party, "Name", "SpecifiedLegalOrganization/TradingBusinessName", "DefinedTradeContact/PersonName")
    if party is None or name is None:
        return None
    address = "PostalTradeAddress"
    street = " ".join(part for tag in ("StreetName", "BuildingNumber") if (part := text(party, f"{address}/{tag}")))
    mail = "DefinedTradeContact/EmailURIUniversalCommunication"
    return drop_empty(
        name=name,
        vat_id=text(party, "SpecifiedTaxRegistration/ID[@schemeID='VA']"),
        tax_number=text(party, "SpecifiedTaxRegistration/ID[@schemeID='FC']"),
        registration_id=text(party, "SpecifiedLegalOrganization/ID"),
        endpoint_id=text(party, "URIUniversalCommunication/URIID"),
        email=text(party, f"{mail}/URIID", f"{mail}/CompleteNumber"),
        street=text(party, f"{address}/LineOne") or street,
        city=text(party, f"{address}/CityName"),
        postal_code=text(party, f"{address}/PostcodeCode"),
        country=text(party, f"{address}/CountryID"),
    )


def _referenced(root: etree._Element, *documents: str) -> str | list[str] | None:
    """Return the numbers of referenced documents.

    Before D16B, the number's element was named ID.
    """
    return reference(
        all_texts(root, *(f"{document}/{tag}" for document in documents for tag in ("IssuerAssignedID", "ID")))
    )


def _references(root: etree._Element) -> dict[str, object]:
    """Return the references in the document and its line items."""
    agreement, delivery = f"{_LINE}/SpecifiedLineTradeAgreement", f"{_LINE}/SpecifiedLineTradeDelivery"
    settlement = f"{_LINE}/SpecifiedLineTradeSettlement"
    invoices = _referenced(root, f"{_SETTLEMENT}/InvoiceReferencedDocument", f"{settlement}/InvoiceReferencedDocument")
    return {
        "po_reference": _referenced(
            root, f"{_AGREEMENT}/BuyerOrderReferencedDocument", f"{agreement}/BuyerOrderReferencedDocument"
        ),
        "sales_order_reference": _referenced(root, f"{_AGREEMENT}/SellerOrderReferencedDocument"),
        "delivery_note_reference": _referenced(
            root,
            f"{_DELIVERY}/DespatchAdviceReferencedDocument",
            f"{_DELIVERY}/DeliveryNoteReferencedDocument",
            f"{delivery}/DespatchAdviceReferencedDocument",
            f"{delivery}/DeliveryNoteReferencedDocument",
        ),
        "contract_reference": _referenced(
            root, f"{_AGREEMENT}/ContractReferencedDocument", f"{agreement}/ContractReferencedDocument"
        ),
        "quotation_reference": _referenced(root, f"{_AGREEMENT}/QuotationReferencedDocument"),
        "preceding_invoice_reference": invoices,
        "invoice_reference": invoices,
    }


def _totals(root: etree._Element) -> dict[str, object]:
    """Return the totals. A tax total in a second (accounting) currency is ignored."""
    settlement = root.find(_SETTLEMENT)
    total = None if settlement is None else settlement.find("MonetarySummation")
    currency = text(settlement, "InvoiceCurrencyCode", "OrderCurrencyCode") or common_currency(total)
    taxes = [] if total is None else total.findall("TaxTotalAmount")
    due = None if settlement is None else settlement.iterfind("SpecifiedTradePaymentTerms/DueDateDateTime")
    return {
        "currency": currency,
        "total_net": text(total, "TaxBasisTotalAmount"),
        "total_tax": single_value(
            [(tax.text or "").strip() for tax in taxes if currency is None or tax.get("currencyID") in {None, currency}]
        ),
        "total_gross": text(total, "GrandTotalAmount"),
        "payment_due_date": next(filter(None, map(_date, due or ())), None),
    }


def _lines(root: etree._Element) -> Iterator[dict[str, object]]:
    """Yield the billed line items, without remarks and groups.

    The details of a group follow as line items.
    """
    for line in root.iterfind(_LINE):
        if text(line, "AssociatedDocumentLineDocument/LineStatusReasonCode") in _AGGREGATING_LINES:
            continue
        agreement, delivery = line.find("SpecifiedLineTradeAgreement"), line.find("SpecifiedLineTradeDelivery")
        settlement = line.find("SpecifiedLineTradeSettlement")
        product = "SpecifiedTradeProduct"
        quantity = _quantity(delivery)
        content = drop_empty(
            article_number=text(line, f"{product}/SellerAssignedID"),
            buyer_article_number=text(line, f"{product}/BuyerAssignedID"),
            description="\n".join(all_texts(line, f"{product}/Description")) or text(line, f"{product}/Name"),
            quantity=None if quantity is None else (quantity.text or "").strip(),
            unit=None if quantity is None else quantity.get("unitCode"),
            price_basis_quantity=text(
                agreement, "NetPriceProductTradePrice/BasisQuantity", "GrossPriceProductTradePrice/BasisQuantity"
            ),
            unit_price=text(agreement, "NetPriceProductTradePrice/ChargeAmount"),
            net_amount=text(settlement, "MonetarySummation/LineTotalAmount"),
            tax_rate=single_value(all_texts(settlement, "ApplicableTradeTax/RateApplicablePercent")),
            po_reference=text(
                agreement, "BuyerOrderReferencedDocument/IssuerAssignedID", "BuyerOrderReferencedDocument/ID"
            ),
            po_line=text(agreement, "BuyerOrderReferencedDocument/LineID"),
        )
        if content:
            yield {**drop_empty(position=text(line, "AssociatedDocumentLineDocument/LineID")), **content}


def _quantity(delivery: etree._Element | None) -> etree._Element | None:
    """Return the billed quantity, or in an order the agreed or requested quantity."""
    names = ("BilledQuantity", "AgreedQuantity", "RequestedQuantity")
    return next(
        (element for name in names if delivery is not None and (element := delivery.find(name)) is not None), None
    )


def _allowances_and_charges(root: etree._Element) -> Iterator[dict[str, object]]:
    """Yield document-level allowances, charges and freight as line items.

    Allowances are negative.
    """
    for entry in root.iterfind(f"{_SETTLEMENT}/SpecifiedTradeAllowanceCharge"):
        is_charge = text(entry, "ChargeIndicator/Indicator", "ChargeIndicator") in {"true", "1"}
        amount = text(entry, "ActualAmount")
        if amount:
            yield {
                "description": text(entry, "Reason") or ("Charge" if is_charge else "Allowance"),
                "net_amount": amount if is_charge else negated(amount),
            }
    for freight in root.iterfind(f"{_SETTLEMENT}/SpecifiedLogisticsServiceCharge"):
        amount = text(freight, "AppliedAmount")
        if amount:
            yield {"description": text(freight, "Description") or "Charge", "net_amount": amount}
