"""Reads UBL 2 invoices, orders and delivery documents.

UBL is the Universal Business Language of OASIS. Paths and meanings follow the UBL 2.1 to 2.4 schemas and, for invoices
under EN 16931, CEN/TS 16931-3-2. An order change is read as the changed order, under its number.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType

from lxml import etree

from counterfoil.documents.einvoice.xml import (
    CREDIT_NOTE_CODES,
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

_NO_ORDER = "NA"  # Peppol BIS Billing 3: order number on invoices for which only a sales order is known
_DANISH_VAT = "63"  # tax scheme code of Danish VAT in OIOUBL


@dataclass(frozen=True)
class _Layout:
    """Element names of a document type."""

    type: DocumentType
    lines: str
    quantity: str
    sellers: tuple[str, ...]
    buyers: tuple[str, ...]
    line_body: str = "."
    number: str = "ID"
    priced: bool = True
    lines_required: bool = False


_INVOICE = _Layout(
    DocumentType.INVOICE,
    lines="InvoiceLine",
    quantity="InvoicedQuantity",
    sellers=("AccountingSupplierParty",),
    buyers=("AccountingCustomerParty",),
    lines_required=True,
)
_CREDIT_AS_INVOICE = replace(_INVOICE, type=DocumentType.CREDIT_NOTE)
_CREDIT_NOTE = replace(_CREDIT_AS_INVOICE, lines="CreditNoteLine", quantity="CreditedQuantity")
_ORDER = _Layout(
    DocumentType.PURCHASE_ORDER,
    lines="OrderLine",
    line_body="LineItem",
    quantity="Quantity",
    sellers=("SellerSupplierParty",),
    buyers=("BuyerCustomerParty",),
)
_ORDER_CHANGE = replace(_ORDER, number="OrderReference/ID")
_ORDER_RESPONSE = replace(_ORDER, type=DocumentType.ORDER_CONFIRMATION)
_DESPATCH_ADVICE = _Layout(
    DocumentType.DELIVERY_NOTE,
    lines="DespatchLine",
    quantity="DeliveredQuantity",
    sellers=("SellerSupplierParty", "DespatchSupplierParty"),
    buyers=("BuyerCustomerParty", "DeliveryCustomerParty"),
    priced=False,
)
_RECEIPT_ADVICE = replace(
    _DESPATCH_ADVICE, type=DocumentType.GOODS_RECEIPT, lines="ReceiptLine", quantity="ReceivedQuantity"
)
_LAYOUTS = MappingProxyType(
    {
        "Invoice": _INVOICE,
        "CreditNote": _CREDIT_NOTE,
        "Order": _ORDER,
        "OrderChange": _ORDER_CHANGE,
        "OrderResponse": _ORDER_RESPONSE,
        "OrderResponseSimple": _ORDER_RESPONSE,
        "DespatchAdvice": _DESPATCH_ADVICE,
        "ReceiptAdvice": _RECEIPT_ADVICE,
    }
)


def read(root: etree._Element) -> EinvoiceResult:
    """Read a UBL 2 document.

    The tree is modified: element names lose their namespaces.

    Documents of types that are not matched (a quotation, a reminder, ...) become `other`, with their type, date and
    parties.
    """
    kind = etree.QName(root).localname
    use_local_names(root)
    layout = _LAYOUTS.get(kind)
    if layout is None:
        return _read_other(root, kind)
    if kind == "Invoice" and text(root, "InvoiceTypeCode") in CREDIT_NOTE_CODES:
        layout = _CREDIT_AS_INVOICE
    roles = ROLES[layout.type]
    # EN 16931: the registered name is the party's name (BT-27, BT-44), and PartyName is a trading name.
    registered_first = "en16931" in (text(root, "CustomizationID") or "")
    seller = _party(root, layout.sellers, registered_first=registered_first)
    buyer = _party(root, layout.buyers, registered_first=registered_first)
    if layout is _INVOICE:
        seller, buyer = _with_accounts(root, seller, buyer)
    fields = drop_empty(
        **{
            roles.number: text(root, layout.number),
            roles.date: text(root, "IssueDate"),
            roles.seller: seller,
            roles.buyer: buyer,
        },
        **_references(root, layout),
        **(_totals(root) if layout.priced else {}),
        line_items=[*_lines(root, layout), *(_allowances_and_charges(root) if layout.priced else ())],
    )
    lacks_lines = layout.lines_required and root.find(layout.lines) is None
    return EinvoiceResult(layout.type, fields, lacks_required_lines=lacks_lines)


def _read_other(root: etree._Element, kind: str) -> EinvoiceResult:
    fields = drop_empty(
        subject=kind,
        date=text(root, "IssueDate"),
        issuer=_party(root, ("AccountingSupplierParty", "SellerSupplierParty")),
        recipient=_party(root, ("AccountingCustomerParty", "BuyerCustomerParty")),
    )
    return EinvoiceResult(DocumentType.OTHER, fields)


def _party(root: etree._Element, roles: tuple[str, ...], *, registered_first: bool = False) -> dict[str, object] | None:
    """Return the party of the first role with a name; None if no party has a name."""
    for party in (element for role in roles for element in root.iterfind(f"{role}/Party")):
        names = ["PartyName/Name", "PartyLegalEntity/RegistrationName"]
        name = text(party, *(reversed(names) if registered_first else names), "PartyTaxScheme/RegistrationName")
        name = name or " ".join(all_texts(party, "Person/FirstName", "Person/FamilyName"))
        if name:
            street = " ".join(
                part for path in ("StreetName", "BuildingNumber") if (part := text(party, f"PostalAddress/{path}"))
            )
            return drop_empty(
                name=name,
                **_tax_ids(party),
                registration_id=text(party, "PartyLegalEntity/CompanyID"),
                endpoint_id=text(party, "EndpointID"),
                email=text(party, "Contact/ElectronicMail"),
                street=street or text(party, "PostalAddress/AddressLine/Line"),
                city=text(party, "PostalAddress/CityName"),
                postal_code=text(party, "PostalAddress/PostalZone"),
                country=text(party, "PostalAddress/Country/IdentificationCode"),
            )
    return None


def _tax_ids(party: etree._Element) -> dict[str, str]:
    """Return the first VAT number and the first other tax number of a party.

    The tax schemes distinguish them.
    """
    numbers: dict[str, str] = {}
    for scheme in party.iterfind("PartyTaxScheme"):
        number = text(scheme, "CompanyID")
        codes = [code.upper() for code in all_texts(scheme, "TaxScheme/ID", "TaxScheme/TaxTypeCode")]
        is_vat = any("VAT" in code.split() or code == _DANISH_VAT for code in codes)
        if number:
            numbers.setdefault("vat_id" if is_vat else "tax_number", number)
    return numbers


def _with_accounts(
    root: etree._Element, seller: dict[str, object] | None, buyer: dict[str, object] | None
) -> tuple[dict[str, object] | None, dict[str, object] | None]:
    """Add an invoice's bank accounts.

    The payee account is the supplier's if no separate payee is named.
    """
    if seller and root.find("PayeeParty") is None:
        accounts = all_texts(root, "PaymentMeans/PayeeFinancialAccount/ID")
        seller |= drop_empty(iban=next(filter(None, map(iban, accounts)), None))
    if buyer:
        buyer |= drop_empty(iban=iban(text(root, "PaymentMeans/PaymentMandate/PayerFinancialAccount/ID")))
    return seller, buyer


def _references(root: etree._Element, layout: _Layout) -> dict[str, object]:
    """Return the references in the document and its line items."""
    line = layout.lines
    orders = all_texts(root, "OrderReference/ID", f"{line}/OrderLineReference/OrderReference/ID")
    sales_orders = all_texts(root, "OrderReference/SalesOrderID")
    if sales_orders:
        orders = [order for order in orders if order != _NO_ORDER]
    invoices = all_texts(
        root,
        "BillingReference/InvoiceDocumentReference/ID",
        f"{line}/BillingReference/InvoiceDocumentReference/ID",
    )
    return {
        "po_reference": reference(orders),
        "sales_order_reference": reference(sales_orders),
        "delivery_note_reference": reference(
            all_texts(root, "DespatchDocumentReference/ID", f"{line}/DespatchLineReference/DocumentReference/ID")
        ),
        "contract_reference": reference(all_texts(root, "ContractDocumentReference/ID", "Contract/ID")),
        "quotation_reference": reference(all_texts(root, "QuotationDocumentReference/ID")),
        "preceding_invoice_reference": reference(invoices),
        "invoice_reference": reference(invoices),
    }


def _totals(root: etree._Element) -> dict[str, object]:
    """Return the totals.

    Older documents use other elements for the amounts with and without tax.
    """
    total = next(
        (element for tag in ("Legal", "Anticipated") if (element := root.find(f"{tag}MonetaryTotal")) is not None), None
    )
    currency = text(root, "DocumentCurrencyCode") or common_currency(total)
    net = text(total, "TaxExclusiveAmount")
    if net is None and root.find("AllowanceCharge") is None:
        net = text(total, "LineExtensionAmount")
    gross = text(total, "TaxInclusiveAmount")
    if gross is None and text(total, "PrepaidAmount") is None:
        gross = text(total, "PayableAmount")
    return {
        "currency": currency,
        "total_net": net,
        "total_tax": _tax_total(root, currency),
        "total_gross": gross,
        "payment_due_date": text(root, "DueDate", "PaymentMeans/PaymentDueDate", "PaymentTerms/PaymentDueDate"),
    }


def _tax_total(root: etree._Element, currency: str | None) -> str | None:
    """Return the tax in the document's currency.

    A second total in the accounting currency is ignored.
    """
    totals = [
        (total, amount)
        for total in root.iterfind("TaxTotal")
        for amount in total.iterfind("TaxAmount")
        if currency is None or amount.get("currencyID") in {None, currency}
    ]
    if len(totals) > 1:
        totals = [(total, amount) for total, amount in totals if total.find("TaxSubtotal") is not None]
    return single_value([(amount.text or "").strip() for _, amount in totals])


def _lines(root: etree._Element, layout: _Layout) -> Iterator[dict[str, object]]:
    for line in root.iterfind(layout.lines):
        body = line.find(layout.line_body)
        if body is None:
            continue
        quantity = body.find(layout.quantity)
        fields = {
            "position": text(body, "ID"),
            "article_number": text(body, "Item/SellersItemIdentification/ID"),
            "buyer_article_number": text(body, "Item/BuyersItemIdentification/ID"),
            "description": "\n".join(all_texts(body, "Item/Description")) or text(body, "Item/Name"),
            "quantity": text(body, layout.quantity),
            "unit": None if quantity is None else quantity.get("unitCode"),
            "rejected_quantity": text(body, "RejectedQuantity"),
            "po_reference": text(line, "OrderLineReference/OrderReference/ID"),
            "po_line": text(line, "OrderLineReference/LineID"),
        }
        if layout.priced:
            rates = all_texts(body, "Item/ClassifiedTaxCategory/Percent") or all_texts(
                body, "TaxTotal/TaxSubtotal/TaxCategory/Percent", "TaxTotal/TaxSubtotal/Percent"
            )
            fields |= {
                "price_basis_quantity": text(body, "Price/BaseQuantity"),
                "unit_price": text(body, "Price/PriceAmount"),
                "net_amount": text(body, "LineExtensionAmount"),
                "tax_rate": single_value(rates),
            }
        yield drop_empty(**fields)


def _allowances_and_charges(root: etree._Element) -> Iterator[dict[str, object]]:
    """Yield document-level allowances and charges as line items.

    Allowances are negative.
    """
    for entry in root.iterfind("AllowanceCharge"):
        is_charge = text(entry, "ChargeIndicator") in {"true", "1"}
        amount = text(entry, "Amount")
        if amount:
            yield {
                "description": text(entry, "AllowanceChargeReason") or ("Charge" if is_charge else "Allowance"),
                "net_amount": amount if is_charge else negated(amount),
            }
