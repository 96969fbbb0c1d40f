"""Small companies' documents in the style of accounting software.

The software is free, in the cloud or on the desktop.
"""

from tests.documents.text.drawn_documents.sheet import DrawnDocument, Sheet, lines, party, totals


def free_german_program() -> DrawnDocument:
    """An invoice from free German software.

    Quantities before descriptions, a row of labels with values below.
    """
    sheet = Sheet()
    sheet.rows(20, 18, "Imkerei Waldhonig", "Rolf Diekmann", "Heideweg 3", "29614 Soltau", size=9)
    sheet.rows(130, 18, "Tel. 05191 44 20", "honig@diekmann.example", "Steuernummer 41/112/00834", size=8.5, pitch=4)
    sheet.rows(20, 50, "Bioladen Grünkern GbR", "Hauptstraße 60", "29640 Schneverdingen", size=10)
    sheet.table(82, "20 62 104 150", "Rechnungsnr.|Kundennr.|Rechnungsdatum|Lieferdatum", size=8)
    sheet.table(86.5, "20 62 104 150", "RE000173|KD0031|03.09.2024|02.09.2024")
    sheet.at(20, 98, "Rechnung", 14, bold=True)
    columns = "20 38r 42 62 128r 158r 190r"
    y = sheet.table(108, columns, "1|48|HO-500|Heidehonig 500 g|7%|5,40 €|259,20 €",
                    "2|24|HO-250|Heidehonig 250 g|7%|3,10 €|74,40 €",
                    "3|10|KE-ST|Kerze aus Bienenwachs, Stumpen|19%|6,50 €|65,00 €",
                    heading="Pos.|Menge|Art.-Nr.|Bezeichnung|USt.|E.Preis|G.Preis")  # fmt: skip
    sheet.rule(y)
    sheet.table(y + 6, "130 190r", "Gesamt Netto|398,60 €", "zzgl. 7% USt. auf 333,60 €|23,35 €",
                "zzgl. 19% USt. auf 65,00 €|12,35 €", "Gesamtsumme|434,30 €")  # fmt: skip
    sheet.rows(20, y + 40, "Zahlbar innerhalb von 14 Tagen bis zum 17.09.2024 rein netto.",
               "Bankverbindung: Kreissparkasse Soltau, IBAN DE66 3705 0198 0012 3456 78")  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "RE000173", "invoice_date": "2024-09-03", "payment_due_date": "2024-09-17",
        **totals("EUR 398.60 35.70 434.30"),
        "issuer": party("Imkerei Waldhonig|Heideweg 3|29614|Soltau", tax_number="41/112/00834",
                         iban="DE66370501980012345678", email="honig@diekmann.example"),
        "recipient": party("Bioladen Grünkern GbR|Hauptstraße 60|29640|Schneverdingen"),
        "line_items": lines(
            "position quantity article_number description tax_rate unit_price net_amount",
            "1|48|HO-500|Heidehonig 500 g|7|5.40|259.20", "2|24|HO-250|Heidehonig 250 g|7|3.10|74.40",
            "3|10|KE-ST|Kerze aus Bienenwachs, Stumpen|19|6.50|65.00",
        ),
    })  # fmt: skip


def merchandise_system() -> DrawnDocument:
    """An invoice from a German merchandise management system.

    References to order and delivery note, percentage discounts, shipping as a line item.
    """
    sheet = Sheet()
    sheet.at(20, 20, "Outdoor-Versand Tannert GmbH & Co. KG", 13, bold=True)
    sheet.at(20, 46, "Outdoor-Versand Tannert GmbH & Co. KG | Gewerbepark 11 | 01640 Coswig", 6.5)
    sheet.rows(20, 52, "Alpinschule Zugspitze", "Jonas Heinrich", "Höllentalstr. 9", "82467 Garmisch-Partenkirchen",
               "Deutschland")  # fmt: skip
    sheet.table(52, "120 165", "Rechnungs-Nr.|R-20240551", "Auftrags-Nr.|A-20240498", "Lieferschein-Nr.|L-20240533",
                "Kunden-Nr.|70118", "Rechnungsdatum|22.08.2024", "Zahlungsart|Rechnung")  # fmt: skip
    sheet.at(20, 96, "Rechnung Nr. R-20240551", 12, bold=True)
    columns = "20 44 112r 132r 150r 170r 190r"
    y = sheet.table(106, columns, "OT-SEIL-60|Kletterseil 9,8 mm, 60 m|6,00|119,50|8,00 %|19,00|659,64",
                    "OT-HELM-M|Kletterhelm Größe M, rot|12,00|41,20||19,00|494,40",
                    "OT-KARA|Karabiner Schrauber|40,00|7,95|5,00 %|19,00|302,10",
                    "VSK|Versandkosten|1,00|14,90||19,00|14,90",
                    heading="Art.-Nr.|Artikelbezeichnung|Menge|EP netto|Rabatt|USt %|Gesamt netto", size=8)  # fmt: skip
    sheet.table(y + 8, "120 190r", "Warenwert netto|1.456,14", "Versand netto|14,90", "Summe netto|1.471,04",
                "19,00 % USt.|279,50", "Rechnungsbetrag EUR|1.750,54")  # fmt: skip
    sheet.at(20, y + 40, "Bitte begleichen Sie den Betrag bis zum 05.09.2024 ohne Abzug.")
    sheet.table(274, "20 80 140", "Geschäftsführer: Kai Tannert|Ostsächsische Sparkasse|USt-IdNr.: DE471874633",
                "HRA 9921, AG Dresden|DE33 7002 0270 0654 3210 98|Steuer-Nr.: 209/160/01555", size=7)  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "R-20240551", "invoice_date": "2024-08-22", "payment_due_date": "2024-09-05",
        "sales_order_reference": "A-20240498", "delivery_note_reference": "L-20240533",
        **totals("EUR 1471.04 279.50 1750.54"),
        "issuer": party("Outdoor-Versand Tannert GmbH & Co. KG|Gewerbepark 11|01640|Coswig", vat_id="DE471874633",
                         tax_number="209/160/01555", iban="DE33700202700654321098", registration_id="HRA 9921"),
        "recipient": party("Alpinschule Zugspitze|Höllentalstr. 9|82467|Garmisch-Partenkirchen", country="DE"),
        "line_items": lines(
            "article_number description quantity unit_price tax_rate net_amount",
            "OT-SEIL-60|Kletterseil 9,8 mm, 60 m|6.00|109.94|19|659.64",
            "OT-HELM-M|Kletterhelm Größe M, rot|12.00|41.20|19|494.40",
            "OT-KARA|Karabiner Schrauber|40.00|7.5525|19|302.10",
            "VSK|Versandkosten|1.00|14.90|19|14.90",
        ),
    })  # fmt: skip


def french_start_up() -> DrawnDocument:
    """An invoice from French cloud software with labels above bold values.

    The VAT details are beside the totals.
    """
    sheet = Sheet()
    sheet.at(15, 22, "Facture", 20, bold=True)
    for x, label, value in ((15, "Numéro", "F-2024-0312"), (60, "Date d'émission", "4 octobre 2024"),
                            (105, "Date d'échéance", "3 novembre 2024")):  # fmt: skip
        sheet.at(x, 30, label, 8)
        sheet.at(x, 34.5, value, 9, bold=True)
    sheet.rows(15, 48, "Atelier Numérique Lyonnais", "SAS au capital de 5 000 €", "41 quai Rambaud", "69002 Lyon",
        "France",
               "SIREN : 686 028 655", "N° TVA : FR20686028655", size=8.5)  # fmt: skip
    sheet.rows(110, 48, "Coopérative Les Vergers", "Zone d'activités des Pins", "26300 Bourg-de-Péage", "France",
               "N° TVA : FR95474740370", size=8.5)  # fmt: skip
    columns = "15 112r 142r 162r 195r"
    y = sheet.table(92, columns, "Refonte du site internet|1|4 200,00 €|20 %|4 200,00 €",
                    heading="Produits|Qté|Prix u. HT|TVA (%)|Total HT")  # fmt: skip
    y = sheet.rows(15, y - 1, "Maquettes, intégration, mise en ligne", size=8) + 1
    y = sheet.table(
        y, columns, "Hébergement annuel|1|180,00 €|20 %|180,00 €", "Formation, demi-journée|2|350,00 €|0 %|700,00 €"
    )
    sheet.table(y + 8, "15 52r 80r", "0 %|0,00 €|700,00 €", "20 %|876,00 €|4 380,00 €", size=8,
                heading="Détails TVA|Montant TVA|Base HT")  # fmt: skip
    sheet.table(y + 8, "130 195r", "Total HT|5 080,00 €", "Montant total de la TVA|876,00 €", "Total TTC|5 956,00 €")
    sheet.rows(
        15, 230, "Moyen de paiement : virement", "IBAN : FR97 3000 6000 0112 3456 7890 102", "BIC : AGRIFRPP", size=8.5
    )
    return sheet.finish("invoice", {
        "invoice_number": "F-2024-0312", "invoice_date": "2024-10-04", "payment_due_date": "2024-11-03",
        **totals("EUR 5080.00 876.00 5956.00"),
        "issuer": party("Atelier Numérique Lyonnais|41 quai Rambaud|69002|Lyon", country="FR", vat_id="FR20686028655",
                         registration_id="686028655", iban="FR9730006000011234567890102"),
        "recipient": party("Coopérative Les Vergers|Zone d'activités des Pins|26300|Bourg-de-Péage", country="FR",
                            vat_id="FR95474740370"),
        "line_items": lines(
            "description quantity unit_price tax_rate net_amount",
            "Refonte du site internet Maquettes, intégration, mise en ligne|1|4200.00|20|4200.00",
            "Hébergement annuel|1|180.00|20|180.00", "Formation, demi-journée|2|350.00|0|700.00",
        ),
    })  # fmt: skip


def subscription() -> DrawnDocument:
    """An English invoice from a payment provider.

    American dates with the month in words, the amount due in large print, reverse charge.
    """
    sheet = Sheet()
    sheet.at(20, 22, "Invoice", 20, bold=True)
    sheet.table(
        32, "20 55", "Invoice number|8F21C0DE-0007", "Date of issue|May 3, 2024", "Date due|May 17, 2024", size=9
    )
    sheet.rows(20, 55, "Lumen Metrics Ltd", "9 Harcourt Street", "Dublin D02 F583", "Ireland", "billing@lumen.example",
               size=9)  # fmt: skip
    sheet.at(110, 55, "Bill to", 9, bold=True)
    sheet.rows(
        110, 59.4, "Weingut Sonnleiten KG", "Kellergasse 14", "3550 Langenlois", "Austria", "ATU50288148", size=9
    )
    sheet.at(20, 92, "€1,147.20 due May 17, 2024", 14, bold=True)
    columns = "20 118r 145r 165r 190r"
    y = sheet.table(
        104, columns, "Analytics Pro|4|€229.00|0%|€916.00", heading="Description|Qty|Unit price|Tax|Amount", size=8.5
    )
    y = sheet.rows(20, y - 1, "May 3 \u2013 Jun 3, 2024", size=8) + 1
    y = sheet.table(y, columns, "Additional data storage, 100 GB|8|€28.90|0%|€231.20", size=8.5)
    sheet.table(y + 6, "118 190r", "Subtotal|€1,147.20", "Total excluding tax|€1,147.20",
                "VAT (0% on €1,147.20)|€0.00", "Total|€1,147.20", "Amount due|€1,147.20")  # fmt: skip
    sheet.at(20, y + 45, "Tax to be paid on reverse charge basis", 8)
    sheet.at(20, 285, "8F21C0DE-0007 · €1,147.20 due May 17, 2024", 7)
    sheet.at(190, 285, "Page 1 of 1", 7, right=True)
    return sheet.finish("invoice", {
        "invoice_number": "8F21C0DE-0007", "invoice_date": "2024-05-03", "payment_due_date": "2024-05-17",
        **totals("EUR 1147.20 0.00 1147.20"),
        "issuer": party("Lumen Metrics Ltd|9 Harcourt Street|D02 F583|Dublin", country="IE",
                         email="billing@lumen.example"),
        "recipient": party("Weingut Sonnleiten KG|Kellergasse 14|3550|Langenlois", country="AT", vat_id="ATU50288148"),
        "line_items": lines(
            "description quantity unit_price tax_rate net_amount",
            "Analytics Pro May 3 \u2013 Jun 3, 2024|4|229.00|0|916.00",
            "Additional data storage, 100 GB|8|28.90|0|231.20",
        ),
    })  # fmt: skip


def dutch_freelancer() -> DrawnDocument:
    """A Dutch freelancer's invoice.

    Buyer on the left, issuer on the right, quantities such as '16 uur', a VAT rate per line item.
    """
    sheet = Sheet("times")
    sheet.rows(20, 30, "Gemeente Zutphen", "T.a.v. mevrouw De Wit", "'s Gravenhof 2", "7201 DN Zutphen", size=10)
    sheet.rows(140, 30, "Studio Veldkamp", "Lange Hofstraat 31", "7201 HV Zutphen", "06 2288 4410",
        "info@veldkamp.example",
               "KVK: 08155021", "BTW-ID: NL625003548B01", "IBAN: NL20 INGB 0001 2345 67",
               size=8.5, pitch=3.9)  # fmt: skip
    sheet.at(20, 78, "Factuur 2024-0077", 15, bold=True)
    sheet.rows(20, 86, "Factuurdatum: 28-06-2024", "Vervaldatum: 28-07-2024", "Kenmerk: ZUT/2024/1180")
    columns = "20 34 140r 158r 190r"
    y = sheet.table(108, columns, "16 uur|Ontwerp informatieborden Hanzefeesten|€ 85,00|21%|€ 1.360,00",
                    "40 st|Drukwerk boekje, 24 pagina's|€ 4,25|9%|€ 170,00",
                    heading="Aantal|Omschrijving|Tarief|Btw|Bedrag")  # fmt: skip
    sheet.table(y + 8, "120 190r", "Subtotaal|€ 1.530,00", "21% btw|€ 285,60", "9% btw|€ 15,30", "Totaal|€ 1.830,90")
    sheet.at(20, 250, "We verzoeken u vriendelijk het bedrag van € 1.830,90 voor 28-07-2024 over te maken.", 9)
    return sheet.finish("invoice", {
        "invoice_number": "2024-0077", "invoice_date": "2024-06-28", "payment_due_date": "2024-07-28",
        **totals("EUR 1530.00 300.90 1830.90"),
        "issuer": party("Studio Veldkamp|Lange Hofstraat 31|7201 HV|Zutphen", vat_id="NL625003548B01",
                         registration_id="08155021", iban="NL20INGB0001234567", email="info@veldkamp.example"),
        "recipient": party("Gemeente Zutphen|'s Gravenhof 2|7201 DN|Zutphen"),
        "line_items": lines(
            "quantity unit description unit_price tax_rate net_amount",
            "16|HUR|Ontwerp informatieborden Hanzefeesten|85.00|21|1360.00",
            "40|C62|Drukwerk boekje, 24 pagina's|4.25|9|170.00",
        ),
    })  # fmt: skip


def italian_cloud() -> DrawnDocument:
    """An invoice from Italian cloud software.

    'Destinatario', number in the title, a discount column, two VAT rates.
    """
    sheet = Sheet()
    sheet.rows(15, 20, "Serramenti Valle d'Itria S.r.l.", "Contrada Figazzano 9 - 72014 Cisternino (BR)",
               "P.IVA 01893560159 - C.F. 01893560159", "info@serramentitria.example", size=8.5, pitch=4)  # fmt: skip
    sheet.at(120, 20, "Fattura n. 45/2024", 14, bold=True)
    sheet.at(120, 27, "del 12 marzo 2024", 10)
    sheet.rows(120, 42, "Destinatario", size=8, bold=True)
    sheet.rows(120, 47, "Masseria Trullo Bianco di A. Semeraro", "Strada Provinciale 14 n. 3", "72015 Fasano (BR)",
               "P.IVA 06165300150")  # fmt: skip
    columns = "15 100r 128r 156r 172r 195r"
    y = sheet.table(85, columns, "Finestra in legno 2 ante|6 pz|€ 410,00||22%|€ 2.460,00",
                    heading="Prodotto|Quantità|Prezzo netto|Sconto|IVA|Importo netto")  # fmt: skip
    y = sheet.rows(15, y - 1, "Rovere naturale, vetro camera", size=8) + 1
    y = sheet.table(
        y, columns, "Persiana in alluminio|4 pz|€ 260,00|10%|22%|€ 936,00", "Posa in opera|1|€ 540,00||10%|€ 540,00"
    )
    sheet.table(
        y + 10, "120 195r", "Imponibile|€ 3.936,00", "IVA 22% su € 3.396,00|€ 747,12", "IVA 10% su € 540,00|€ 54,00"
    )
    sheet.table(y + 26, "120 195r", "Totale|€ 4.737,12", bold=True, size=11)
    sheet.rows(15, y + 26, "Scadenza pagamenti", size=8, bold=True)
    sheet.rows(15, y + 31, "11/04/2024: € 4.737,12", "Bonifico - IBAN IT63A0200801600000101234567", size=8.5)
    return sheet.finish("invoice", {
        "invoice_number": "45/2024", "invoice_date": "2024-03-12", "payment_due_date": "2024-04-11",
        **totals("EUR 3936.00 801.12 4737.12"),
        "issuer": party("Serramenti Valle d'Itria S.r.l.|Contrada Figazzano 9|72014|Cisternino (BR)",
                         iban="IT63A0200801600000101234567", email="info@serramentitria.example"),
        "recipient": party("Masseria Trullo Bianco di A. Semeraro|Strada Provinciale 14 n. 3|72015|Fasano (BR)"),
        "line_items": lines(
            "description quantity unit unit_price tax_rate net_amount",
            "Finestra in legno 2 ante Rovere naturale, vetro camera|6|C62|410.00|22|2460.00",
            "Persiana in alluminio|4|C62|234.00|22|936.00", "Posa in opera|1|-|540.00|10|540.00",
        ),
    })  # fmt: skip


def spanish_desktop() -> DrawnDocument:
    """An invoice from Spanish desktop software.

    Document type, number, page and date in one row, tax bases in a row of the footer.
    """
    sheet = Sheet()
    sheet.rows(15, 18, "SUMINISTROS ELÉCTRICOS TAJO, S.L.", "C/ Río Jarama, 14 - Pol. Ind. Santa María", "45007 TOLEDO",
               "Tlf: 925 230 118", "C.I.F.: ESB46886727", size=8.5, pitch=4)  # fmt: skip
    sheet.table(48, "15 45 75 92", "FACTURA|1 - 000482|1|26/07/2024", heading="DOCUMENTO|NÚMERO|PÁGINA|FECHA", size=8)
    sheet.rows(
        115, 42, "Hnos. Carrasco Instalaciones, C.B.", "Avda. de Europa, 27", "45003 TOLEDO", "N.I.F.: E45112233"
    )
    columns = "15 42 107r 134r 154r 168r 195r"
    sheet.table(80, columns, "CAB-3G25|Manguera libre halógenos 3G2,5|500,00|1,12|560,00|15,00|476,00",
                    "MAG-2P16|Magnetotérmico 2P 16A|20,00|7,85|157,00|10,00|141,30",
                    "CAN-4025|Canaleta 40x25 blanca, 2 m|30,00|2,46|73,80||73,80",
                    heading="ARTÍCULO|DESCRIPCIÓN|CANTIDAD|PRECIO UNIDAD|SUBTOTAL|DTO.|TOTAL", size=8)  # fmt: skip
    sheet.table(225, "15 60r 95r 125r 160r", "21,00|691,10|691,10|145,13|",
                heading="TIPO|IMPORTE|BASE|I.V.A.|R.E.", size=8)  # fmt: skip
    sheet.table(245, "140 195r", "TOTAL:|836,23 €", bold=True, size=12)
    sheet.rows(15, 255, "FORMA DE PAGO: RECIBO DOMICILIADO 30 DÍAS", "VENCIMIENTO: 25/08/2024", size=8)
    return sheet.finish("invoice", {
        "invoice_number": "1 - 000482", "invoice_date": "2024-07-26", "payment_due_date": "2024-08-25",
        **totals("EUR 691.10 145.13 836.23"),
        "issuer": party("SUMINISTROS ELÉCTRICOS TAJO, S.L.|C/ Río Jarama, 14 - Pol. Ind. Santa María|45007|TOLEDO",
                         vat_id="ESB46886727"),
        "recipient": party("Hnos. Carrasco Instalaciones, C.B.|Avda. de Europa, 27|45003|TOLEDO"),
        "line_items": lines(
            "article_number description quantity unit_price net_amount",
            "CAB-3G25|Manguera libre halógenos 3G2,5|500.00|0.952|476.00",
            "MAG-2P16|Magnetotérmico 2P 16A|20.00|7.065|141.30", "CAN-4025|Canaleta 40x25 blanca, 2 m|30.00|2.46|73.80",
        ),
    })  # fmt: skip


def danish_cloud() -> DrawnDocument:
    """An invoice from Danish cloud software with the address only in the footer.

    The due date is in the payment terms.
    """
    sheet = Sheet()
    sheet.at(20, 22, "Gartneriet Solbakken", 16, bold=True)
    sheet.rows(20, 45, "Ejerforeningen Parkhusene", "Att. formand Lise Holm", "Parkvej 8", "8000 Aarhus C", size=10)
    sheet.at(20, 78, "Faktura nr. 1042", 15, bold=True)
    sheet.at(190, 78, "Dato: 16. maj 2024", right=True)
    columns = "20 120r 124 155r 190r"
    sheet.table(92, columns, "Beskæring af bøgehække|14,5|timer|395,00|5.727,50",
                "Bortkørsel af haveaffald|3|læs|450,00|1.350,00", "Bøgeplanter, 60-80 cm|75|stk.|18,00|1.350,00",
                heading="Vare|Antal|Enhed|Pris|I alt")  # fmt: skip
    sheet.table(122, "130 190r", "Subtotal (ekskl. moms)|8.427,50", "Moms 25%|2.106,88", "Total DKK|10.534,38")
    sheet.rows(20, 150, "Betalingsbetingelser: Netto 14 dage. Forfaldsdato: 30. maj 2024",
               "Bank: Sydbank  IBAN: DK80 3000 0009 8765 43")  # fmt: skip
    sheet.rows(60, 280, "Gartneriet Solbakken · Skovvejen 112 · 8361 Hasselager · CVR DK22033646",
               "post@solbakken.example · 86 28 11 00", size=7.5)  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "1042", "invoice_date": "2024-05-16", "payment_due_date": "2024-05-30",
        **totals("DKK 8427.50 2106.88 10534.38"),
        "issuer": party("Gartneriet Solbakken|Skovvejen 112|8361|Hasselager", vat_id="DK22033646",
                         iban="DK8030000009876543", email="post@solbakken.example"),
        "recipient": party("Ejerforeningen Parkhusene|Parkvej 8|8000|Aarhus C"),
        "line_items": lines(
            "description quantity unit unit_price net_amount", "Beskæring af bøgehække|14.5|HUR|395.00|5727.50",
            "Bortkørsel af haveaffald|3|-|450.00|1350.00", "Bøgeplanter, 60-80 cm|75|C62|18.00|1350.00",
        ),
    })  # fmt: skip


def french_rebate() -> DrawnDocument:
    """A credit note from French software.

    Number in the title, the reason in a description, the invoice number in a sentence.
    """
    sheet = Sheet()
    sheet.rows(
        15, 18, "Papeterie Bastide SARL", "6 cours Julien", "13006 MARSEILLE", "RCS Marseille 065 898 934", size=8.5
    )
    sheet.rows(
        120, 42, "Lycée Saint-Exupéry", "Service intendance", "529 chemin de la Madrague", "13015 MARSEILLE", size=10
    )
    sheet.at(15, 78, "AVOIR N° A-2024-019", 14, bold=True)
    sheet.rows(15, 86, "Date : 19/12/2024", "Avoir sur facture n° F-2024-1455 du 02/12/2024")
    columns = "15 40 122r 148r 168r 195r"
    sheet.table(102, columns, "CAH-96|Cahier 24x32 96 pages, livraison incomplète|60|1,35|20,00|81,00",
                "STY-B|Stylo bille bleu, lot de 50|2|9,90|20,00|19,80",
                heading="Code|Désignation|Quantité|PU HT|TVA|Montant HT")  # fmt: skip
    sheet.table(130, "140 195r", "Total HT|100,80 €", "TVA (20,00 %)|20,16 €", "Total TTC|120,96 €")
    sheet.at(15, 284, "Papeterie Bastide - SIRET 065 898 934 00021 - TVA FR47065898934", 7)
    return sheet.finish("credit_note", {
        "credit_note_number": "A-2024-019", "credit_note_date": "2024-12-19", "invoice_reference": "F-2024-1455",
        **totals("EUR 100.80 20.16 120.96"),
        "issuer": party("Papeterie Bastide SARL|6 cours Julien|13006|MARSEILLE", vat_id="FR47065898934"),
        "recipient": party("Lycée Saint-Exupéry|529 chemin de la Madrague|13015|MARSEILLE"),
        "line_items": lines(
            "article_number description quantity unit_price tax_rate net_amount",
            "CAH-96|Cahier 24x32 96 pages, livraison incomplète|60|1.35|20|81.00",
            "STY-B|Stylo bille bleu, lot de 50|2|9.90|20|19.80",
        ),
    })  # fmt: skip


PROGRAMS_CLOUD = (
    free_german_program,
    merchandise_system,
    french_start_up,
    subscription,
    dutch_freelancer,
    italian_cloud,
    spanish_desktop,
    danish_cloud,
    french_rebate,
)
