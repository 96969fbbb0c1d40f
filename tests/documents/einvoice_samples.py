"""Build sample e-invoices as XML and PDF."""

import io

from fpdf import FPDF
from pypdf import PdfWriter

UBL = "urn:oasis:names:specification:ubl:schema:xsd:"
SELLER = """
<cac:Party>
  <cbc:EndpointID schemeID="EM">rechnung@brunnhuber.example</cbc:EndpointID>
  <cac:PartyName><cbc:Name>Brunnhuber Anlagen</cbc:Name></cac:PartyName>
  <cac:PostalAddress>
    <cbc:StreetName>Am Sudhaus</cbc:StreetName><cbc:BuildingNumber>4b</cbc:BuildingNumber>
    <cbc:CityName>Rosenheim</cbc:CityName><cbc:PostalZone>83022</cbc:PostalZone>
    <cac:Country><cbc:IdentificationCode>DE</cbc:IdentificationCode></cac:Country>
  </cac:PostalAddress>
  <cac:PartyTaxScheme>
    <cbc:CompanyID>DE811907980</cbc:CompanyID><cac:TaxScheme><cbc:ID>VAT</cbc:ID></cac:TaxScheme>
  </cac:PartyTaxScheme>
  <cac:PartyTaxScheme>
    <cbc:CompanyID>156/203/40417</cbc:CompanyID><cac:TaxScheme><cbc:ID>FC</cbc:ID></cac:TaxScheme>
  </cac:PartyTaxScheme>
  <cac:PartyLegalEntity>
    <cbc:RegistrationName>Brunnhuber Anlagen GmbH &amp; Co. KG</cbc:RegistrationName>
    <cbc:CompanyID>HRA 7741</cbc:CompanyID>
  </cac:PartyLegalEntity>
  <cac:Contact><cbc:ElectronicMail>kontor@brunnhuber.example</cbc:ElectronicMail></cac:Contact>
</cac:Party>
"""
BUYER = """
<cac:Party>
  <cac:PartyName><cbc:Name>Molkerei Irschenberg eG</cbc:Name></cac:PartyName>
  <cac:PostalAddress><cbc:CityName>Irschenberg</cbc:CityName></cac:PostalAddress>
</cac:Party>
"""
INVOICE_LINE = """
<cac:InvoiceLine>
  <cbc:ID>10</cbc:ID>
  <cbc:InvoicedQuantity unitCode="MTR">250</cbc:InvoicedQuantity>
  <cbc:LineExtensionAmount currencyID="EUR">105.00</cbc:LineExtensionAmount>
  <cac:OrderLineReference>
    <cbc:LineID>3</cbc:LineID><cac:OrderReference><cbc:ID>B-2290</cbc:ID></cac:OrderReference>
  </cac:OrderLineReference>
  <cac:DespatchLineReference>
    <cbc:LineID>1</cbc:LineID><cac:DocumentReference><cbc:ID>LS-88</cbc:ID></cac:DocumentReference>
  </cac:DespatchLineReference>
  <cac:Item>
    <cbc:Description>Milchschlauch DN 40</cbc:Description><cbc:Name>Schlauch</cbc:Name>
    <cac:BuyersItemIdentification><cbc:ID>M-7</cbc:ID></cac:BuyersItemIdentification>
    <cac:SellersItemIdentification><cbc:ID>SL040</cbc:ID></cac:SellersItemIdentification>
    <cac:ClassifiedTaxCategory><cbc:ID>S</cbc:ID><cbc:Percent>19</cbc:Percent></cac:ClassifiedTaxCategory>
  </cac:Item>
  <cac:Price>
    <cbc:PriceAmount currencyID="EUR">42.00</cbc:PriceAmount>
    <cbc:BaseQuantity unitCode="MTR">100</cbc:BaseQuantity>
  </cac:Price>
</cac:InvoiceLine>
"""
INVOICE_BODY = f"""
<cbc:CustomizationID>urn:cen.eu:en16931:2017</cbc:CustomizationID>
<cbc:ID>R-5108</cbc:ID>
<cbc:IssueDate>2025-03-14</cbc:IssueDate>
<cbc:DueDate>2025-04-13</cbc:DueDate>
<cbc:InvoiceTypeCode>380</cbc:InvoiceTypeCode>
<cbc:DocumentCurrencyCode>EUR</cbc:DocumentCurrencyCode>
<cac:OrderReference><cbc:ID>B-2281</cbc:ID><cbc:SalesOrderID>A-19</cbc:SalesOrderID></cac:OrderReference>
<cac:BillingReference>
  <cac:InvoiceDocumentReference><cbc:ID>R-5001</cbc:ID></cac:InvoiceDocumentReference>
</cac:BillingReference>
<cac:ContractDocumentReference><cbc:ID>RV-7</cbc:ID></cac:ContractDocumentReference>
<cac:AccountingSupplierParty>{SELLER}</cac:AccountingSupplierParty>
<cac:AccountingCustomerParty>{BUYER}</cac:AccountingCustomerParty>
<cac:PaymentMeans>
  <cac:PayeeFinancialAccount><cbc:ID>DE02 1203 0000 0000 2020 51</cbc:ID></cac:PayeeFinancialAccount>
</cac:PaymentMeans>
<cac:AllowanceCharge>
  <cbc:ChargeIndicator>false</cbc:ChargeIndicator><cbc:AllowanceChargeReason>Treuerabatt</cbc:AllowanceChargeReason>
  <cbc:Amount currencyID="EUR">5.00</cbc:Amount>
</cac:AllowanceCharge>
<cac:TaxTotal>
  <cbc:TaxAmount currencyID="EUR">19.00</cbc:TaxAmount>
  <cac:TaxSubtotal><cbc:TaxAmount currencyID="EUR">19.00</cbc:TaxAmount></cac:TaxSubtotal>
</cac:TaxTotal>
<cac:LegalMonetaryTotal>
  <cbc:LineExtensionAmount currencyID="EUR">105.00</cbc:LineExtensionAmount>
  <cbc:TaxExclusiveAmount currencyID="EUR">100.00</cbc:TaxExclusiveAmount>
  <cbc:TaxInclusiveAmount currencyID="EUR">119.00</cbc:TaxInclusiveAmount>
  <cbc:PayableAmount currencyID="EUR">119.00</cbc:PayableAmount>
</cac:LegalMonetaryTotal>
{INVOICE_LINE}
"""
CII_LINE = """
<ram:IncludedSupplyChainTradeLineItem>
  <ram:AssociatedDocumentLineDocument><ram:LineID>1</ram:LineID></ram:AssociatedDocumentLineDocument>
  <ram:SpecifiedTradeProduct>
    <ram:SellerAssignedID>K-11</ram:SellerAssignedID><ram:BuyerAssignedID>0815</ram:BuyerAssignedID>
    <ram:Name>Kugellager 6204</ram:Name>
  </ram:SpecifiedTradeProduct>
  <ram:SpecifiedLineTradeAgreement>
    <ram:BuyerOrderReferencedDocument>
      <ram:IssuerAssignedID>4500017</ram:IssuerAssignedID><ram:LineID>20</ram:LineID>
    </ram:BuyerOrderReferencedDocument>
    <ram:NetPriceProductTradePrice>
      <ram:ChargeAmount>3.1000</ram:ChargeAmount><ram:BasisQuantity unitCode="C62">1</ram:BasisQuantity>
    </ram:NetPriceProductTradePrice>
  </ram:SpecifiedLineTradeAgreement>
  <ram:SpecifiedLineTradeDelivery>
    <ram:BilledQuantity unitCode="C62">40</ram:BilledQuantity>
  </ram:SpecifiedLineTradeDelivery>
  <ram:SpecifiedLineTradeSettlement>
    <ram:ApplicableTradeTax><ram:RateApplicablePercent>20.00</ram:RateApplicablePercent></ram:ApplicableTradeTax>
    <ram:SpecifiedTradeSettlementLineMonetarySummation>
      <ram:LineTotalAmount>124.00</ram:LineTotalAmount>
    </ram:SpecifiedTradeSettlementLineMonetarySummation>
  </ram:SpecifiedLineTradeSettlement>
</ram:IncludedSupplyChainTradeLineItem>
"""


def ubl(kind: str, body: str, *, prolog: str = '<?xml version="1.0" encoding="UTF-8"?>') -> bytes:
    """Return a UBL document with root element `kind` and content `body`."""
    return f"""{prolog}<{kind} xmlns="{UBL}{kind}-2" xmlns:cac="{UBL}CommonAggregateComponents-2"
        xmlns:cbc="{UBL}CommonBasicComponents-2">{body}</{kind}>""".encode()


def ubl_invoice(*changes: tuple[str, str]) -> bytes:
    """Return an EN 16931 invoice in UBL, changed as in `replace_text`."""
    return ubl("Invoice", replace_text(INVOICE_BODY, *changes))


def cii_invoice(*changes: tuple[str, str]) -> bytes:
    """Return a Cross Industry Invoice, changed as in `replace_text`."""
    namespaces = "urn:un:unece:uncefact:data:standard:"
    document = f"""<?xml version="1.0" encoding="UTF-8"?>
    <rsm:CrossIndustryInvoice xmlns:rsm="{namespaces}CrossIndustryInvoice:100"
        xmlns:ram="{namespaces}ReusableAggregateBusinessInformationEntity:100"
        xmlns:udt="{namespaces}UnqualifiedDataType:100">
      <rsm:ExchangedDocumentContext>
        <ram:GuidelineSpecifiedDocumentContextParameter>
          <ram:ID>urn:cen.eu:en16931:2017</ram:ID>
        </ram:GuidelineSpecifiedDocumentContextParameter>
      </rsm:ExchangedDocumentContext>
      <rsm:ExchangedDocument>
        <ram:ID>2025/311</ram:ID><ram:TypeCode>380</ram:TypeCode>
        <ram:IssueDateTime><udt:DateTimeString format="102">20250602</udt:DateTimeString></ram:IssueDateTime>
      </rsm:ExchangedDocument>
      <rsm:SupplyChainTradeTransaction>
        {CII_LINE}
        <ram:ApplicableHeaderTradeAgreement>
          <ram:SellerTradeParty>
            <ram:Name>Lagerwelt Wels GmbH</ram:Name>
            <ram:SpecifiedLegalOrganization><ram:ID>FN 210417 k</ram:ID></ram:SpecifiedLegalOrganization>
            <ram:DefinedTradeContact>
              <ram:EmailURIUniversalCommunication><ram:URIID>office@lagerwelt.example</ram:URIID>
              </ram:EmailURIUniversalCommunication>
            </ram:DefinedTradeContact>
            <ram:PostalTradeAddress>
              <ram:PostcodeCode>4020</ram:PostcodeCode><ram:LineOne>Hafenstraße 2</ram:LineOne>
              <ram:CityName>Wels</ram:CityName><ram:CountryID>AT</ram:CountryID>
            </ram:PostalTradeAddress>
            <ram:URIUniversalCommunication><ram:URIID schemeID="EM">e@lagerwelt.example</ram:URIID>
            </ram:URIUniversalCommunication>
            <ram:SpecifiedTaxRegistration><ram:ID schemeID="FC">46/111</ram:ID></ram:SpecifiedTaxRegistration>
            <ram:SpecifiedTaxRegistration><ram:ID schemeID="VA">ATU12345675</ram:ID></ram:SpecifiedTaxRegistration>
          </ram:SellerTradeParty>
          <ram:BuyerTradeParty><ram:Name>Mühlviertler Fördertechnik</ram:Name></ram:BuyerTradeParty>
          <ram:SellerOrderReferencedDocument><ram:IssuerAssignedID>AB-9</ram:IssuerAssignedID>
          </ram:SellerOrderReferencedDocument>
          <ram:BuyerOrderReferencedDocument><ram:IssuerAssignedID>4500016</ram:IssuerAssignedID>
          </ram:BuyerOrderReferencedDocument>
          <ram:ContractReferencedDocument><ram:IssuerAssignedID>KV-3</ram:IssuerAssignedID>
          </ram:ContractReferencedDocument>
        </ram:ApplicableHeaderTradeAgreement>
        <ram:ApplicableHeaderTradeDelivery>
          <ram:DespatchAdviceReferencedDocument><ram:IssuerAssignedID>LS-12</ram:IssuerAssignedID>
          </ram:DespatchAdviceReferencedDocument>
        </ram:ApplicableHeaderTradeDelivery>
        <ram:ApplicableHeaderTradeSettlement>
          <ram:InvoiceCurrencyCode>EUR</ram:InvoiceCurrencyCode>
          <ram:SpecifiedTradeSettlementPaymentMeans>
            <ram:PayeePartyCreditorFinancialAccount><ram:IBANID>AT61 1904 3002 3457 3201</ram:IBANID>
            </ram:PayeePartyCreditorFinancialAccount>
          </ram:SpecifiedTradeSettlementPaymentMeans>
          <ram:SpecifiedTradeAllowanceCharge>
            <ram:ChargeIndicator><udt:Indicator>true</udt:Indicator></ram:ChargeIndicator>
            <ram:ActualAmount>6.00</ram:ActualAmount><ram:Reason>Verpackung</ram:Reason>
          </ram:SpecifiedTradeAllowanceCharge>
          <ram:SpecifiedTradePaymentTerms>
            <ram:DueDateDateTime><udt:DateTimeString format="102">20250702</udt:DateTimeString></ram:DueDateDateTime>
          </ram:SpecifiedTradePaymentTerms>
          <ram:SpecifiedTradeSettlementHeaderMonetarySummation>
            <ram:TaxBasisTotalAmount>130.00</ram:TaxBasisTotalAmount>
            <ram:TaxTotalAmount currencyID="CHF">24.90</ram:TaxTotalAmount>
            <ram:TaxTotalAmount currencyID="EUR">26.00</ram:TaxTotalAmount>
            <ram:GrandTotalAmount>156.00</ram:GrandTotalAmount>
          </ram:SpecifiedTradeSettlementHeaderMonetarySummation>
          <ram:InvoiceReferencedDocument><ram:IssuerAssignedID>2025/290</ram:IssuerAssignedID>
          </ram:InvoiceReferencedDocument>
        </ram:ApplicableHeaderTradeSettlement>
      </rsm:SupplyChainTradeTransaction>
    </rsm:CrossIndustryInvoice>"""
    return replace_text(document, *changes).encode()


def replace_text(document: str, *changes: tuple[str, str]) -> str:
    """Replace the first text of each pair with the second.

    Fail if the first text does not occur.
    """
    for text, replacement_ in changes:
        assert text in document
        document = document.replace(text, replacement_)
    return document


def pdf(*, pages: int = 1, text: str = "", files: tuple[tuple[str, bytes], ...] = ()) -> bytes:
    """Return a PDF with `text` on every page and with embedded `files`."""
    document = FPDF()
    document.set_font("Helvetica")
    for _ in range(pages):
        document.add_page()
        if text:
            document.cell(text=text)
    writer = PdfWriter(io.BytesIO(bytes(document.output())))
    for name, content in files:
        writer.add_attachment(name, content)
    return write_pdf(writer)


def write_pdf(writer: PdfWriter) -> bytes:
    """Return the writer's PDF as bytes."""
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()
