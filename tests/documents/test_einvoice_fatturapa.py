"""Data is extracted from FatturaPA invoices."""

import pytest

from counterfoil.documents.einvoice.extract import extract_xml
from counterfoil.errors import InvalidDocumentError
from tests.documents.einvoice_samples import replace_text

NAME = "<Nome>Lara</Nome><Cognome>Rossetti</Cognome>"  # codespell:ignore nome
BODY = """
<FatturaElettronicaBody>
  <DatiGenerali>
    <DatiGeneraliDocumento>
      <TipoDocumento>TD01</TipoDocumento><Divisa>EUR</Divisa><Data>2025-02-03</Data><Numero>17/A</Numero>
      <ScontoMaggiorazione><Tipo>SC</Tipo><Importo>4.00</Importo></ScontoMaggiorazione>
      <DatiCassaPrevidenziale><ImportoContributoCassa>2.00</ImportoContributoCassa></DatiCassaPrevidenziale>
      <ImportoTotaleDocumento>60.50</ImportoTotaleDocumento>
    </DatiGeneraliDocumento>
    <DatiOrdineAcquisto>
      <RiferimentoNumeroLinea>1</RiferimentoNumeroLinea><IdDocumento>ODA-5</IdDocumento><NumItem>30</NumItem>
    </DatiOrdineAcquisto>
    <DatiContratto><IdDocumento>C-8</IdDocumento></DatiContratto>
    <DatiFattureCollegate><IdDocumento>16/A</IdDocumento></DatiFattureCollegate>
    <DatiDDT><NumeroDDT>DDT-3</NumeroDDT></DatiDDT>
  </DatiGenerali>
  <DatiBeniServizi>
    <DettaglioLinee>
      <NumeroLinea>1</NumeroLinea>
      <CodiceArticolo><CodiceTipo>AswArtFor</CodiceTipo><CodiceValore>TB-2</CodiceValore></CodiceArticolo>
      <CodiceArticolo><CodiceTipo>EAN</CodiceTipo><CodiceValore>8000000000002</CodiceValore></CodiceArticolo>
      <Descrizione>Tubo</Descrizione><Quantita>2.00</Quantita><UnitaMisura>MT</UnitaMisura>
      <PrezzoUnitario>20.00</PrezzoUnitario><PrezzoTotale>40.00</PrezzoTotale><AliquotaIVA>22.00</AliquotaIVA>
    </DettaglioLinee>
    <DettaglioLinee>
      <NumeroLinea>2</NumeroLinea><Descrizione>Manuale</Descrizione><PrezzoUnitario>12.00</PrezzoUnitario>
      <PrezzoTotale>12.00</PrezzoTotale><AliquotaIVA>4.00</AliquotaIVA>
    </DettaglioLinee>
    <DatiRiepilogo><AliquotaIVA>22.00</AliquotaIVA><ImponibileImporto>38.00</ImponibileImporto><Imposta>8.36</Imposta>
    </DatiRiepilogo>
    <DatiRiepilogo><AliquotaIVA>4.00</AliquotaIVA><ImponibileImporto>12.00</ImponibileImporto><Imposta>0.48</Imposta>
    </DatiRiepilogo>
  </DatiBeniServizi>
  <DatiPagamento><DettaglioPagamento><DataScadenzaPagamento>2025-03-05</DataScadenzaPagamento>
    <IBAN>IT60X0542811101000000123456</IBAN></DettaglioPagamento></DatiPagamento>
</FatturaElettronicaBody>
"""


def fattura(*changes: tuple[str, str]) -> bytes:
    document = f"""<?xml version="1.0" encoding="UTF-8"?>
    <p:FatturaElettronica xmlns:p="http://ivaservizi.agenziaentrate.gov.it/docs/xsd/fatture/v1.2" versione="FPR12">
      <FatturaElettronicaHeader>
        <DatiTrasmissione><CodiceDestinatario>KRRH6B9</CodiceDestinatario></DatiTrasmissione>
        <CedentePrestatore>
          <DatiAnagrafici>
            <IdFiscaleIVA><IdPaese>IT</IdPaese><IdCodice>01879020517</IdCodice></IdFiscaleIVA>
            <CodiceFiscale>RSSLRA70A41F205Z</CodiceFiscale>
            <Anagrafica>{NAME}</Anagrafica>
          </DatiAnagrafici>
          <Sede><Indirizzo>Via dei Mille</Indirizzo><NumeroCivico>9</NumeroCivico>
            <CAP>52100</CAP><Comune>Arezzo</Comune><Nazione>IT</Nazione></Sede>
          <Contatti><Email>lara@rossetti.example</Email></Contatti>
        </CedentePrestatore>
        <CessionarioCommittente><DatiAnagrafici><Anagrafica><Denominazione>Vetreria Chiara srl</Denominazione>
          </Anagrafica></DatiAnagrafici></CessionarioCommittente>
      </FatturaElettronicaHeader>
      {BODY}
    </p:FatturaElettronica>"""
    return replace_text(document, *changes).encode()


def test_invoice_is_read_completely():
    extraction = extract_xml(fattura())
    assert (extraction.type, extraction.method) == ("invoice", "xml")
    assert extraction.structured_data == {
        "invoice_number": "17/A",
        "invoice_date": "2025-02-03",
        "issuer": {
            "name": "Lara Rossetti",
            "vat_id": "IT01879020517",
            "tax_number": "RSSLRA70A41F205Z",
            "iban": "IT60X0542811101000000123456",
            "email": "lara@rossetti.example",
            "street": "Via dei Mille 9",
            "city": "Arezzo",
            "postal_code": "52100",
            "country": "IT",
        },
        "recipient": {"name": "Vetreria Chiara srl", "endpoint_id": "KRRH6B9"},
        "po_reference": "ODA-5",
        "delivery_note_reference": "DDT-3",
        "contract_reference": "C-8",
        "preceding_invoice_reference": "16/A",
        "currency": "EUR",
        "total_net": "50.00",
        "total_tax": "8.84",
        "total_gross": "60.50",
        "payment_due_date": "2025-03-05",
        "line_items": [
            {
                "position": "1",
                "article_number": "TB-2",
                "description": "Tubo",
                "quantity": "2.00",
                "unit": "MT",
                "unit_price": "20.00",
                "net_amount": "40.00",
                "tax_rate": "22.00",
                "po_reference": "ODA-5",
                "po_line": "30",
            },
            {
                "position": "2",
                "description": "Manuale",
                "unit_price": "12.00",
                "net_amount": "12.00",
                "tax_rate": "4.00",
            },
            {"description": "Allowance", "net_amount": "-4.00"},
            {"description": "Charge", "net_amount": "2.00"},
        ],
    }


def test_credit_note_is_read():
    extraction = extract_xml(fattura((">TD01<", ">TD04<")))
    data = extraction.structured_data or {}
    assert extraction.type == "credit_note"
    assert (data["credit_note_number"], data["invoice_reference"]) == ("17/A", "16/A")


def test_file_with_several_invoices_is_not_extracted():
    extraction = extract_xml(fattura((BODY, BODY + BODY)))
    assert (extraction.type, extraction.method, extraction.structured_data) == (None, "none", None)
    assert (
        extraction.reason == "The file contains 2 invoices and is not extracted. Send each invoice as a separate file."
    )


def test_invoice_with_invalid_partial_amount_is_rejected():
    with pytest.raises(InvalidDocumentError, match="total_net is not a decimal number"):
        extract_xml(fattura(("<ImponibileImporto>12.00<", "<ImponibileImporto>12,00<")))


def test_invoice_without_line_items_is_rejected():
    lines = BODY[BODY.index("    <DettaglioLinee>") : BODY.index("    <DatiRiepilogo>")]
    with pytest.raises(InvalidDocumentError, match="has no line items"):
        extract_xml(fattura((lines, "")))
