"""Document titles and numbers are recognized in many notations and languages."""

# ruff: noqa: RUF001 - original typography

import pytest

from counterfoil.documents.structured import ROLES, DocumentType
from counterfoil.documents.text import reading
from tests.documents.text.text_pages import draw_page

_LETTER = """
Muster AG, Hauptstr. 1, 10115 Berlin

Beispiel GmbH
Weg 2
20095 Hamburg

{title}


Danke.
"""


@pytest.mark.parametrize(
    ("kind", "number", "lines"),
    [
        (
            DocumentType.INVOICE,
            "4711",
            ["Rechnung", "", "Rechnungs-Nr./Datum       Kunde", "4711 / 01.02.2024         99"],
        ),
        (DocumentType.INVOICE, "4711", ["Rechnung", "", "Rechnungsnr.: 4711   Datum: 01.02.2024"]),
        (DocumentType.DELIVERY_NOTE, "77", ["Delivery docket No. 77"]),
        (DocumentType.DELIVERY_NOTE, "77-A", ["Vrachtbrief", "", "Vrachtbriefnummer: 77-A"]),
        (DocumentType.CREDIT_NOTE, "12/2024", ["Nota di accredito n. 12/2024"]),
        (DocumentType.INVOICE, "2412", ["Regning nr. 2412"]),
        (DocumentType.INVOICE, "4711/2024", ["RECHNUNG NR. 4711/2024"]),
        (DocumentType.INVOICE, "4711", ["Rechnung  Nr.:  4711"]),
        (DocumentType.INVOICE, "4711", ["R E C H N U N G", "", "Nummer:      4711"]),
        (DocumentType.INVOICE, "INV-001", ["INVOICE", "# INV-001"]),
        (DocumentType.INVOICE, "INV-001", ["INVOICE", "", "Invoice #        Date", "INV-001          2024-02-01"]),
        (DocumentType.INVOICE, "INV-1", ["Tax Invoice", "", "Invoice Number     INV-1"]),
        (DocumentType.INVOICE, "12", ["Fattura elettronica nr. 12 del 03/04/2024"]),
        (DocumentType.INVOICE, "12/2024", ["Fattura immediata n° 12/2024"]),
        (DocumentType.INVOICE, "33/A", ["FATTURA DIFFERITA N. 33/A del 13/04/2024"]),
        (DocumentType.INVOICE, "2024-03-001", ["Facture N°: 2024-03-001"]),
        (DocumentType.INVOICE, "F-2024-01", ["FACTURE : F-2024-01"]),
        (DocumentType.INVOICE, "1230", ["N° Facture : 1230"]),
        (DocumentType.INVOICE, "1230", ["Facture numéro 1230"]),
        (DocumentType.INVOICE, "1230", ["Numéro facture     1230"]),
        (DocumentType.INVOICE, "1230", ["Facture", "", "Réf. facture : 1230"]),
        (DocumentType.INVOICE, "12-24", ["Factura núm. 12-24"]),
        (DocumentType.INVOICE, "12-24", ["Número de factura: 12-24"]),
        (DocumentType.INVOICE, "12-24", ["Factura simplificada", "", "Nº de factura: 12-24"]),
        (DocumentType.INVOICE, "2412", ["Factuur nr. 2412"]),
        (DocumentType.INVOICE, "2412", ["Factuurnr: 2412"]),
        (DocumentType.INVOICE, "2412", ["Faktura nr. 2412"]),
        (DocumentType.INVOICE, "2412", ["Faktura 2412"]),
        (DocumentType.INVOICE, "AR-3", ["Abschlagsrechnung Nr. AR-3"]),
        (DocumentType.INVOICE, "TR-3", ["Teilrechnung TR-3"]),
        (DocumentType.INVOICE, "AR-3", ["1. Abschlagsrechnung", "", "Rechnungsnummer: AR-3"]),
        (DocumentType.INVOICE, "ST-3", ["Stornorechnung Nr. ST-3"]),
        (DocumentType.INVOICE, "4711", ["Rechnung: 4711"]),
        (DocumentType.INVOICE, "4711", ["Rechnung – 4711"]),
        (DocumentType.INVOICE, "4711", ["Rechnung 4711 vom 01.02.2024"]),
        (DocumentType.INVOICE, "4711", ["Rechnung vom 01.02.2024", "", "Nr.: 4711"]),
        (DocumentType.INVOICE, "4711", ["Rechnung / Invoice 4711"]),
        (DocumentType.INVOICE, "4711", ["Rechnung", "", "Beleg-Nr.   4711"]),
        (DocumentType.INVOICE, "4711", ["Rechnung", "", "Rechnungs-ID: 4711"]),
        (
            DocumentType.INVOICE,
            "4711",
            ["Rechnung", "", "Rechnung Nr      Datum       Kunden-Nr", "4711             01.02.2024  88"],
        ),
        (DocumentType.INVOICE, "R 4711", ["Rechnung", "", "Rechnungsnummer : R 4711"]),
        (DocumentType.INVOICE, "2024-4711", ["Ihre Rechnung Nr. 2024-4711"]),
        (DocumentType.INVOICE, "2024-4711", ["Rechnung", "", "Rechnungsnummer", "2024-4711"]),
        (DocumentType.INVOICE, "4711", ["Proforma-Rechnung Nr. 4711"]),
        (DocumentType.INVOICE, "4711", ["Rechnung", "", "Nr. 4711", "Datum 01.02.2024"]),
        (DocumentType.INVOICE, "4711-A", ["Bill", "", "Bill no.: 4711-A"]),
        (DocumentType.INVOICE, "4711-A", ["Sales Invoice 4711-A"]),
        (DocumentType.INVOICE, "4711", ["Rechnungskopie", "", "Rechnungsnummer 4711"]),
        (DocumentType.INVOICE, "4711", ["Rechnungs-Nummer", "4711"]),
        (DocumentType.INVOICE, "4711", ["Invoice no. 4711 dated 1 February 2024"]),
        (DocumentType.INVOICE, "VF-4711", ["Verkaufsrechnung VF-4711"]),
        (DocumentType.CREDIT_NOTE, "G-1", ["Gutschrift Nr. G-1 zu Rechnung 4711"]),
        (DocumentType.CREDIT_NOTE, "CN-9", ["Credit Note", "", "Credit note no: CN-9", "Invoice no: 77"]),
        (DocumentType.CREDIT_NOTE, "AV-1", ["FACTURE D'AVOIR N° AV-1"]),
        (DocumentType.CREDIT_NOTE, "NC-1", ["Nota di credito n. NC-1 del 03/04/2024"]),
        (DocumentType.CREDIT_NOTE, "NC-1", ["Nota de crédito Nº NC-1"]),
        (DocumentType.CREDIT_NOTE, "CR1", ["Creditfactuur CR1"]),
        (DocumentType.CREDIT_NOTE, "AV-1", ["Avoir sur facture 4711", "", "Avoir n° : AV-1"]),
        (DocumentType.CREDIT_NOTE, "K-1", ["Kreditnota nr. K-1"]),
        (DocumentType.PURCHASE_ORDER, "45001234", ["Bestellung Nr. 45001234"]),
        (DocumentType.PURCHASE_ORDER, "1230", ["Purchase Order No. 1230"]),
        (DocumentType.PURCHASE_ORDER, "1230", ["PURCHASE ORDER", "PO# 1230"]),
        (DocumentType.PURCHASE_ORDER, "12-4", ["Bon de commande n° 12-4"]),
        (DocumentType.PURCHASE_ORDER, "44/24", ["Ordine n. 44/24 del 03/04/2024"]),
        (DocumentType.PURCHASE_ORDER, "8-24", ["Pedido nº 8-24"]),
        (DocumentType.PURCHASE_ORDER, "2024-1", ["Bestelling 2024-1"]),
        (DocumentType.PURCHASE_ORDER, "B-9", ["Einkaufsbestellung B-9"]),
        (DocumentType.PURCHASE_ORDER, "B-9", ["Bestellschein Nr. B-9"]),
        (DocumentType.PURCHASE_ORDER, "1230", ["Order number: 1230"]),
        (DocumentType.PURCHASE_ORDER, "4500012", ["Bestellung 4500012 / 01.02.2024"]),
        (
            DocumentType.PURCHASE_ORDER,
            "1230",
            ["Purchase order", "", "Order no.     Order date", "1230          01/02/2024"],
        ),
        (DocumentType.DELIVERY_NOTE, "L-12", ["Lieferschein-Nr. L-12"]),
        (DocumentType.DELIVERY_NOTE, "1230", ["Delivery Note No 1230"]),
        (DocumentType.DELIVERY_NOTE, "PL-1", ["Packing list", "", "Packing list no.: PL-1"]),
        (DocumentType.DELIVERY_NOTE, "PS-12", ["Packing Slip #PS-12"]),
        (DocumentType.DELIVERY_NOTE, "BL-1", ["Bon de livraison n° BL-1 du 03/04/2024"]),
        (DocumentType.DELIVERY_NOTE, "12/24", ["D.D.T. n. 12/24 del 03/04/2024"]),
        (DocumentType.DELIVERY_NOTE, "12-24", ["Albarán nº 12-24"]),
        (DocumentType.DELIVERY_NOTE, "2412", ["Pakbon 2412"]),
        (DocumentType.DELIVERY_NOTE, "2412", ["Følgeseddel nr. 2412"]),
        (DocumentType.DELIVERY_NOTE, "L-12", ["Lieferschein", "", "Lieferscheinnr.: L-12", "Ihre Bestellung: 4711"]),
        (DocumentType.DELIVERY_NOTE, "8012", ["Warenbegleitschein Nr. 8012"]),
        (DocumentType.DELIVERY_NOTE, "8012", ["Lieferschein", "", "Nummer    Datum", "8012      01.02.2024"]),
        (DocumentType.ORDER_CONFIRMATION, "AB-1", ["Auftragsbestätigung AB-1"]),
        (
            DocumentType.ORDER_CONFIRMATION,
            "AB-1",
            ["Auftragsbestätigung", "", "Auftragsnummer: AB-1", "Ihre Bestellung: 4711"],
        ),
        (
            DocumentType.ORDER_CONFIRMATION,
            "SO-1",
            ["Order Confirmation", "", "Confirmation no.: SO-1", "Your PO: 88-1"],
        ),
        (DocumentType.ORDER_CONFIRMATION, "AB-1", ["Bestellbestätigung Nr. AB-1"]),
        (DocumentType.ORDER_CONFIRMATION, "C-1", ["Conferma d'ordine n. C-1"]),
        (DocumentType.ORDER_CONFIRMATION, "C-1", ["Orderbevestiging C-1"]),
        (DocumentType.GOODS_RECEIPT, "WE-1", ["Wareneingangsschein WE-1"]),
        (DocumentType.GOODS_RECEIPT, "GRN-77", ["Goods Received Note GRN-77"]),
    ],
)
def test_title_and_its_number_are_read(kind: DocumentType, number: str, lines: list[str]):
    reading_ = reading.read([draw_page(_LETTER.format(title="\n".join(lines)))])
    assert reading_ is not None
    assert (reading_.type, reading_.fields[ROLES[kind].number]) == (kind, number)


def test_number_column_of_a_table_is_ignored():
    table = "Rechnung\n\nNr.        Leistung             Betrag\n1001       Beratung             119,00"
    assert reading.read([draw_page(_LETTER.format(title=table))]) is None


_OF_ORDERS = """Rechnung Nr. 4711

Pos   {column:<10}   Bezeichnung        Menge    Preis    Betrag
1     PO-9001      Schrauben             10     1,00     10,00
2     PO-9002      Muttern               10     2,00     20,00
"""


@pytest.mark.parametrize("column", ["Bestellung", "Bestell-Nr."])
def test_order_column_is_not_an_order_reference(column: str):
    reading_ = reading.read([draw_page(_LETTER.format(title=_OF_ORDERS.format(column=column)))])
    assert reading_ is not None
    assert len(reading_.fields["line_items"]) == 2
    assert "po_reference" not in reading_.fields
