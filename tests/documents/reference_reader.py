"""Independent e-invoice reader for cross-checks, based on ElementTree and pdfium."""

from dataclasses import dataclass
from decimal import Decimal
from xml.etree import ElementTree as ET

import pypdfium2  # type: ignore[import-untyped]

CAC = "{urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2}"
CBC = "{urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2}"


@dataclass(frozen=True)
class Line:
    quantity: Decimal | None
    net: Decimal | None


@dataclass(frozen=True)
class ReferenceInvoice:
    number: str | None
    date: str | None
    issuer: str | None
    net: Decimal | None
    tax: Decimal | None
    gross: Decimal | None
    lines: list[Line]


def xml_of_pdf(content: bytes) -> bytes | None:
    """Return the XML e-invoice in a hybrid PDF, or None. Prefer Factur-X."""
    document = pypdfium2.PdfDocument(content)
    files = [document.get_attachment(index) for index in range(document.count_attachments())]
    xml_files = {file.get_name(): bytes(file.get_data()) for file in files if file.get_name().lower().endswith(".xml")}
    document.close()
    return xml_files.get("factur-x.xml") or next(iter(xml_files.values()), None)


def read_reference(content: bytes) -> ReferenceInvoice:
    root = ET.fromstring(content.replace(b"UTF-8-W/O-BOM", b"UTF-8"))  # no parser knows this encoding name
    if root.tag.endswith("}FatturaElettronica"):
        return _fatturapa(root)
    if root.tag.startswith("{urn:oasis:"):
        return _ubl(root)
    if root.tag.endswith("}CrossIndustryInvoice"):
        return _cross_industry_invoice(root)
    return _zugferd_1(root)


def _ubl(root: ET.Element) -> ReferenceInvoice:
    kind = root.tag.partition("}")[2]
    party = root.find(f"{CAC}AccountingSupplierParty/{CAC}Party")
    assert party is not None
    totals = root.find(f"{CAC}LegalMonetaryTotal")
    assert totals is not None
    currency = root.findtext(f"{CBC}DocumentCurrencyCode")
    taxes = [tax for tax in root.findall(f"{CAC}TaxTotal/{CBC}TaxAmount") if tax.get("currencyID") == currency]
    quantity = {"Invoice": "InvoicedQuantity", "CreditNote": "CreditedQuantity"}[kind]
    return ReferenceInvoice(
        number=root.findtext(f"{CBC}ID"),
        date=root.findtext(f"{CBC}IssueDate"),
        issuer=party.findtext(f"{CAC}PartyLegalEntity/{CBC}RegistrationName", "").strip(),
        net=_decimal(totals.findtext(f"{CBC}TaxExclusiveAmount")),
        tax=_decimal(taxes[0].text) if taxes else None,
        gross=_decimal(totals.findtext(f"{CBC}TaxInclusiveAmount")),
        lines=[
            Line(_decimal(line.findtext(f"{CBC}{quantity}")), _decimal(line.findtext(f"{CBC}LineExtensionAmount")))
            for line in root.findall(f"{CAC}{kind}Line")
        ],
    )


def _cross_industry_invoice(root: ET.Element) -> ReferenceInvoice:
    document = _only_child(root, "ExchangedDocument")
    transaction = _only_child(root, "SupplyChainTradeTransaction")
    settlement = _only_child(transaction, "ApplicableHeaderTradeSettlement")
    totals = _only_child(settlement, "SpecifiedTradeSettlementHeaderMonetarySummation")
    currency = _value(settlement, "InvoiceCurrencyCode")
    seller = _only_child(_only_child(transaction, "ApplicableHeaderTradeAgreement"), "SellerTradeParty")
    return ReferenceInvoice(
        number=_value(document, "ID"),
        date=_day(document),
        issuer=_value(seller, "Name"),
        net=_decimal(_value(totals, "TaxBasisTotalAmount")),
        tax=_tax(totals, currency),
        gross=_decimal(_value(totals, "GrandTotalAmount")),
        lines=[_cii_line(line) for line in transaction if _local(line) == "IncludedSupplyChainTradeLineItem"],
    )


def _zugferd_1(root: ET.Element) -> ReferenceInvoice:
    document = _only_child(root, "HeaderExchangedDocument")
    transaction = _only_child(root, "SpecifiedSupplyChainTradeTransaction")
    settlement = _only_child(transaction, "ApplicableSupplyChainTradeSettlement")
    totals = _only_child(settlement, "SpecifiedTradeSettlementMonetarySummation")
    seller = _only_child(_only_child(transaction, "ApplicableSupplyChainTradeAgreement"), "SellerTradeParty")
    lines = [line for line in transaction if _local(line) == "IncludedSupplyChainTradeLineItem"]
    return ReferenceInvoice(
        number=_value(document, "ID"),
        date=_day(document),
        issuer=_value(seller, "Name"),
        net=_decimal(_value(totals, "TaxBasisTotalAmount")),
        tax=_tax(totals, _value(settlement, "InvoiceCurrencyCode")),
        gross=_decimal(_value(totals, "GrandTotalAmount")),
        lines=[
            _cii_line(line) for line in lines if any(_local(element_) == "SpecifiedTradeProduct" for element_ in line)
        ],
    )


def _fatturapa(root: ET.Element) -> ReferenceInvoice:
    (body,) = root.findall("FatturaElettronicaBody")
    summaries = body.findall("DatiBeniServizi/DatiRiepilogo")
    return ReferenceInvoice(
        number=body.findtext("DatiGenerali/DatiGeneraliDocumento/Numero"),
        date=body.findtext("DatiGenerali/DatiGeneraliDocumento/Data"),
        issuer=root.findtext("FatturaElettronicaHeader/CedentePrestatore/DatiAnagrafici/Anagrafica/Denominazione"),
        net=sum((Decimal(summary.findtext("ImponibileImporto", "")) for summary in summaries), Decimal(0)),
        tax=sum((Decimal(summary.findtext("Imposta", "")) for summary in summaries), Decimal(0)),
        gross=_decimal(body.findtext("DatiGenerali/DatiGeneraliDocumento/ImportoTotaleDocumento")),
        lines=[
            Line(_decimal(line.findtext("Quantita")), _decimal(line.findtext("PrezzoTotale")))
            for line in body.findall("DatiBeniServizi/DettaglioLinee")
        ],
    )


def _cii_line(line: ET.Element) -> Line:
    quantities = [element_ for element_ in line.iter() if _local(element_) == "BilledQuantity"]
    totals = [element_ for element_ in line.iter() if _local(element_) == "LineTotalAmount"]
    return Line(
        _decimal(quantities[0].text) if quantities else None,
        _decimal(totals[0].text) if totals else None,
    )


def _tax(totals: ET.Element, currency: str | None) -> Decimal | None:
    amounts = [element_ for element_ in totals if _local(element_) == "TaxTotalAmount"]
    return next((_decimal(tax.text) for tax in amounts if len(amounts) == 1 or tax.get("currencyID") == currency), None)


def _day(document: ET.Element) -> str | None:
    """Return the issue date in ISO format.

    Every invoice in the corpus has a complete date.
    """
    digits = "".join(_only_child(document, "IssueDateTime").itertext()).strip()
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"


def _only_child(parent: ET.Element, name: str) -> ET.Element:
    (child,) = (element_ for element_ in parent if _local(element_) == name)
    return child


def _value(parent: ET.Element, name: str) -> str | None:
    return next((element_.text.strip() for element_ in parent if _local(element_) == name and element_.text), None)


def _local(element: ET.Element) -> str:
    return element.tag.partition("}")[2] or element.tag


def _decimal(text: str | None) -> Decimal | None:
    return Decimal(text.strip()) if text and text.strip() else None
