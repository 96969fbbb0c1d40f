"""Seven international documents in the style of various business software."""

from tests.documents.text.drawn_documents.sheet import DrawnDocument, Sheet, lines, party, totals


def german_office() -> DrawnDocument:
    """An invoice from German office software.

    Number in the title, optional discount row, small-print remarks in line items.
    """
    sheet = Sheet()
    sheet.rows(190, 18, "Kälte-Klima Südharz GmbH", "Bahnhofstraße 51", "37431 Bad Lauterberg", "Telefon: 05524 9200-0",
               "rechnung@kks.example", size=8, pitch=3.8, right=True)  # fmt: skip
    sheet.at(20, 48, "Kälte-Klima Südharz GmbH, Bahnhofstraße 51, 37431 Bad Lauterberg", 6)
    sheet.rows(
        20, 54, "Fleischerei Otto Grimme", "Inhaber Sven Grimme", "Marktstr. 22", "37412 Herzberg am Harz", size=10
    )
    sheet.table(54, "125 160", "Referenz|Wartung 2024", "Ihre Kundennr.|1417", "Rechnungsdatum|14.10.2024",
                "Lieferdatum|10.10.2024", "Ihr Ansprechpartner|Uta Kern")  # fmt: skip
    sheet.at(20, 96, "Rechnung Nr. 2024-1093", 14, bold=True)
    sheet.rows(20, 105, "Sehr geehrter Herr Grimme,", "vielen Dank für Ihren Auftrag. Wir berechnen Ihnen:")
    columns = "20 30 120r 150r 190r"
    y = sheet.table(120, columns, "1.|Wartung Kühlzelle|1,00 pauschal|189,00 EUR|189,00 EUR",
                    heading="Pos.|Beschreibung|Menge|Einzelpreis|Gesamtpreis")  # fmt: skip
    y = sheet.rows(30, y - 1, "Dichtheitsprüfung nach EU 517/2014,", "Protokoll liegt bei", size=8) + 1.5
    y = sheet.table(y, columns, "2.|Kältemittel R-290|0,85 kg|96,00 EUR|81,60 EUR",
                    "3.|Monteurstunde|2,50 Std.|64,00 EUR|160,00 EUR",
                    "4.|Fahrtkosten|38,00 km|0,70 EUR|26,60 EUR")  # fmt: skip
    sheet.rule(y)
    sheet.table(y + 6, "110 190r", "Gesamtbetrag netto|457,20 EUR", "Umsatzsteuer 19%|86,87 EUR")
    sheet.table(y + 17, "110 190r", "Gesamtbetrag brutto|544,07 EUR", bold=True)
    sheet.rows(20, y + 30, "Bitte überweisen Sie den Gesamtbetrag innerhalb von 10 Tagen, spätestens am 24.10.2024.")
    sheet.table(276, "20 75 130", "Harzer Volksbank eG|Steuer-Nr. 23/204/01187|Geschäftsführung: Ralf Kern",
                "IBAN DE66 3705 0198 0012 3456 78|USt-IdNr. DE520561748|Amtsgericht Göttingen, HRB 140287",
                size=7)  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "2024-1093", "invoice_date": "2024-10-14", "payment_due_date": "2024-10-24",
        **totals("EUR 457.20 86.87 544.07"),
        "issuer": party("Kälte-Klima Südharz GmbH|Bahnhofstraße 51|37431|Bad Lauterberg", vat_id="DE520561748",
                         tax_number="23/204/01187", iban="DE66370501980012345678", registration_id="HRB 140287",
                         email="rechnung@kks.example"),
        "recipient": party("Fleischerei Otto Grimme|Marktstr. 22|37412|Herzberg am Harz"),
        "line_items": lines(
            "position description quantity unit unit_price net_amount",
            "1|Wartung Kühlzelle Dichtheitsprüfung nach EU 517/2014, Protokoll liegt bei|1.00|-|189.00|189.00",
            "2|Kältemittel R-290|0.85|KGM|96.00|81.60", "3|Monteurstunde|2.50|HUR|64.00|160.00",
            "4|Fahrtkosten|38.00|KMT|0.70|26.60",
        ),
    })  # fmt: skip


def french_public() -> DrawnDocument:
    """A French invoice to a public body.

    Commitment and service numbers, two addresses, a discount on the total.
    """
    sheet = Sheet("times")
    sheet.rows(15, 18, "NETTOYAGE BRETAGNE SUD", "SARL au capital de 20 000 €", "3 rue des Frères Lumière",
        "56000 VANNES",
               "SIRET 954 747 403 00014", "TVA FR95474740370", size=8.5, pitch=3.8)  # fmt: skip
    sheet.at(125, 20, "FACTURE", 18, bold=True)
    sheet.table(28, "125 160", "Numéro :|2024-09-0127", "Date d'émission :|30/09/2024", "Date d'échéance :|30/10/2024",
                "N° d'engagement :|EJ-1100452", "Code service :|SRV-TECH")  # fmt: skip
    sheet.rows(15, 60, "Adresse de livraison", "Médiathèque municipale", "1 place de la Mairie", "56400 AURAY")
    sheet.rows(
        115, 60, "Adresse de facturation", "MAIRIE D'AURAY", "100 place de la République", "56400 AURAY", "FRANCE"
    )
    columns = "15 28 108r 112 145r 165r 195r"
    y = sheet.table(95, columns, "001|Nettoyage des vitres, intérieur|185,00|m²|1,85|20,0|342,25",
                    heading="N°|Description de la prestation|Quantité|Unité|PU HT|TVA %|Total HT")  # fmt: skip
    y = sheet.rows(28, y - 1, "et extérieur, septembre 2024", size=8) + 1
    y = sheet.table(y, columns, "002|Entretien courant des bureaux|42,50|h|26,40|20,0|1 122,00",
                    "003|Fourniture de consommables|1,00|forfait|87,35|20,0|87,35")  # fmt: skip
    sheet.table(y + 8, "125 195r", "Total brut HT|1 551,60 €", "Remise commerciale 5 %|-77,58 €",
        "Total net HT|1 474,02 €",
                "TVA 20,0 %|294,80 €", "Total TTC|1 768,82 €")  # fmt: skip
    sheet.rows(15, 240, "Règlement par virement à 30 jours - IBAN : FR27 3000 6000 0112 3456 7890 101",
               "Pénalités de retard : 3 fois le taux d'intérêt légal. Indemnité forfaitaire de recouvrement : 40 €",
               size=8)  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "2024-09-0127", "invoice_date": "2024-09-30", "payment_due_date": "2024-10-30",
        **totals("EUR 1474.02 294.80 1768.82"),
        "issuer": party("NETTOYAGE BRETAGNE SUD|3 rue des Frères Lumière|56000|VANNES", vat_id="FR95474740370",
                         iban="FR2730006000011234567890101", registration_id="95474740300014"),
        "recipient": party("MAIRIE D'AURAY|100 place de la République|56400|AURAY", country="FR"),
        "line_items": [
            *lines(
                "position description quantity unit unit_price tax_rate net_amount",
                "001|Nettoyage des vitres, intérieur et extérieur, septembre 2024|185.00|MTK|1.85|20|342.25",
                "002|Entretien courant des bureaux|42.50|HUR|26.40|20|1122.00",
                "003|Fourniture de consommables|1.00|-|87.35|20|87.35",
            ),
            {"description": "Remise commerciale 5 %", "net_amount": "-77.58"},
        ],
    })  # fmt: skip


def american_suite() -> DrawnDocument:
    """An invoice in euros from American software.

    The parties are in one row, the terms in another, and the total is repeated at the top.
    """
    sheet = Sheet()
    sheet.at(20, 22, "Larkspur Instruments, Inc.", 13, bold=True)
    sheet.rows(20, 27, "2200 Harbor Blvd, Suite 310", "Oakland, CA 94607", "United States", size=8.5)
    sheet.at(190, 24, "Invoice", 20, bold=True, right=True)
    sheet.at(190, 31, "#INV104482", 11, right=True)
    sheet.at(190, 37, "9/27/2024", 9, right=True)
    sheet.rows(20, 52, "Bill To", size=8, bold=True)
    sheet.rows(20, 57, "Institut für Umweltanalytik GmbH", "Lise-Meitner-Allee 5", "44801 Bochum", "Germany")
    sheet.rows(80, 52, "Ship To", size=8, bold=True)
    sheet.rows(80, 57, "Institut für Umweltanalytik", "Labor 2, Tor B", "44801 Bochum", "Germany")
    sheet.rows(145, 52, "TOTAL", size=8, bold=True)
    sheet.at(145, 60, "€8,547.50", 16, bold=True)
    sheet.at(145, 67, "Due Date: 10/27/2024")
    sheet.table(88, "20 65 110 150", "Net 30|10/27/2024|BE-24-0993|FedEx", size=8.5,
                heading="Terms|Due Date|PO #|Shipping Method")  # fmt: skip
    columns = "28r 35 75 130r 160r 190r"
    y = sheet.table(106, columns, "1|LK-3000-EU|pH controller, rack mount|€4,150.00|0%|€4,150.00",
                    heading="Quantity|Item|Description|Rate|Tax Rate|Amount", size=8.5)  # fmt: skip
    y = sheet.rows(75, y - 1, "Serial no. 30-22817", "Country of origin: US", size=7.5, pitch=3.5) + 1.5
    sheet.table(y, columns, "5|LK-EL-12|Replacement electrode|€812.50|0%|€4,062.50",
                "10|LK-BUF|Buffer solution set, 3 x 500 ml|€24.90|0%|€249.00", size=8.5)  # fmt: skip
    sheet.table(160, "150r 190r", "Subtotal|€8,461.50", "Shipping Cost (FedEx)|€86.00", "Tax Total (%)|€0.00")
    sheet.table(178, "150r 190r", "Total|€8,547.50", bold=True)
    sheet.at(20, 270, "Please remit to our Euro account. Export from the United States; reverse charge applies.", 8)
    return sheet.finish("invoice", {
        "invoice_number": "INV104482", "invoice_date": "2024-09-27", "payment_due_date": "2024-10-27",
        "po_reference": "BE-24-0993", **totals("EUR 8547.50 0.00 8547.50"),
        "issuer": party("Larkspur Instruments, Inc.|2200 Harbor Blvd, Suite 310|94607|Oakland", country="US"),
        "recipient": party("Institut für Umweltanalytik GmbH|Lise-Meitner-Allee 5|44801|Bochum", country="DE"),
        "line_items": [
            *lines(
                "quantity article_number description unit_price tax_rate net_amount",
                "1|LK-3000-EU|pH controller, rack mount|4150.00|0|4150.00",
                "5|LK-EL-12|Replacement electrode|812.50|0|4062.50",
                "10|LK-BUF|Buffer solution set, 3 x 500 ml|24.90|0|249.00",
            ),
            {"description": "Shipping Cost (FedEx)", "net_amount": "86.00"},
        ],
    })  # fmt: skip


def danish_confirmation() -> DrawnDocument:
    """A Danish order confirmation from enterprise software.

    Labels in two columns, discounts, freight in the last row of the table.
    """
    sheet = Sheet()
    sheet.rows(20, 30, "Møbelsnedkeriet Fuglsang", "Att.: Indkøb", "Håndværkervej 19", "9000 Aalborg")
    sheet.rows(145, 20, "Nordjysk Træhandel A/S", "Havnekajen 3", "9400 Nørresundby", "Telefon 98 17 40 00",
               "CVR-nr. 78918918", size=8.5)  # fmt: skip
    sheet.at(20, 68, "Ordrebekræftelse", 15, bold=True)
    sheet.table(76, "20 55 115 150", "Ordrenr.|SO-118204|Ordredato|11. oktober 2024", "Deres rekvisition|IND-5521|"
                "Afsendelsesdato|18. oktober 2024", "Sælger|Bo Thomsen|Valuta|DKK")  # fmt: skip
    columns = "20 45 115r 119 148r 163r 190r"
    sheet.table(100, columns, "EG-26-A|Egeplank 26 mm, A-sortering|14,00|m²|412,00|8|5.306,56",
                "LIM-D3|Trælim D3, 5 kg|3,00|spand|268,50||805,50",
                "OLIE-H|Hårdvoksolie 2,5 l|2,00|stk|540,00|5|1.026,00",
                "|Fragt|||||350,00",
                heading="Varenummer|Beskrivelse|Antal|Enhed|Enhedspris|Rabat %|Linjebeløb")  # fmt: skip
    sheet.table(135, "120 190r", "I alt DKK ekskl. moms|7.488,06", "25% moms|1.872,02", "I alt DKK inkl. moms|9.360,08")
    sheet.rows(20, 165, "Betalingsbetingelser: Løbende måned + 20 dage", "Leveringsbetingelser: Frit leveret")
    return sheet.finish("order_confirmation", {
        "confirmation_number": "SO-118204", "confirmation_date": "2024-10-11", "po_reference": "IND-5521",
        **totals("DKK 7488.06 1872.02 9360.08"),
        "supplier": party("Nordjysk Træhandel A/S|Havnekajen 3|9400|Nørresundby"),
        "buyer": party("Møbelsnedkeriet Fuglsang|Håndværkervej 19|9000|Aalborg"),
        "line_items": [
            *lines(
                "article_number description quantity unit unit_price net_amount",
                "EG-26-A|Egeplank 26 mm, A-sortering|14.00|MTK|379.04|5306.56",
                "LIM-D3|Trælim D3, 5 kg|3.00|-|268.50|805.50", "OLIE-H|Hårdvoksolie 2,5 l|2.00|C62|513.00|1026.00",
            ),
            {"description": "Fragt", "net_amount": "350.00"},
        ],
    })  # fmt: skip


def dutch_packing_slip() -> DrawnDocument:
    """A Dutch packing slip.

    Order number and date in one line, quantities in the first two columns, no prices.
    """
    sheet = Sheet()
    sheet.at(20, 20, "PAKBON", 18, bold=True)
    sheet.rows(
        130, 18, "Verpakkingscentrum Twente BV", "Textielstraat 61", "7575 CA Oldenzaal", "Tel. 0541 57 00 10", size=8.5
    )
    sheet.rows(20, 42, "Afleveradres:", size=8, bold=True)
    sheet.rows(20, 47, "Kaasmakerij Het Groene Hart", "Polderweg 8", "3421 GT Oudewater")
    sheet.table(42, "120 155", "Pakbonnummer:|PB-556120", "Leverdatum:|21 november 2024", "Ons ordernr.:|VO-88214",
                "Uw bestelling:|KG-2024-310 d.d. 14-11-2024", "Blad:|1")  # fmt: skip
    sheet.table(82, "28r 40r 46 75 165", "12|12|DOOS-4030|Vouwdoos 400x300x200 enkelgolf|bundel",
                "4|6|FOLIE-50|Wikkelfolie 50 cm 23 my|rol", "1.000|1.000|ETIK-KA|Etiket breekbaar 100x50|st",
                heading="Gel.|Best.|Artikelcode|Artikelomschrijving|Eenh.")  # fmt: skip
    sheet.rows(20, 115, "In backorder: 2 rol FOLIE-50, verwacht week 49")
    sheet.table(260, "20 100", "Voor ontvangst:|Naam en handtekening")
    sheet.at(20, 285, "KvK Enschede 06088112 | BTW NL696002103B01 | verkoop@vct.example", 7)
    return sheet.finish("delivery_note", {
        "delivery_note_number": "PB-556120", "delivery_date": "2024-11-21", "po_reference": "KG-2024-310",
        "supplier": party("Verpakkingscentrum Twente BV|Textielstraat 61|7575 CA|Oldenzaal", vat_id="NL696002103B01",
                           registration_id="06088112", email="verkoop@vct.example"),
        "buyer": party("Kaasmakerij Het Groene Hart|Polderweg 8|3421 GT|Oudewater"),
        "line_items": lines(
            "quantity article_number description unit", "12|DOOS-4030|Vouwdoos 400x300x200 enkelgolf|-",
            "4|FOLIE-50|Wikkelfolie 50 cm 23 my|-", "1000|ETIK-KA|Etiket breekbaar 100x50|C62",
        ),
    })  # fmt: skip


def spanish_correction() -> DrawnDocument:
    """A Spanish correcting invoice.

    Reference to the corrected invoice, negative amounts, totals in one row.
    """
    sheet = Sheet()
    sheet.at(20, 20, "FRUTAS Y VERDURAS LA HUERTA, S.A.", 12, bold=True)
    sheet.rows(20, 25, "Mercamurcia, módulo 14 - 30120 Murcia", "C.I.F. A13585625 - Tel. 968 340 112", size=8)
    sheet.rows(115, 42, "CLIENTE", size=8, bold=True)
    sheet.rows(115, 47, "Colegio San Isidoro", "C/ Alcalde Juan López Somalo, 2", "30002 Murcia", "NIF: ESB83958645")
    sheet.at(20, 50, "FACTURA RECTIFICATIVA", 13, bold=True)
    sheet.rows(20, 57, "Número: R24/000031", "Fecha: 15-11-2024", "Factura rectificada: F24/004417 de 31-10-2024")
    columns = "20 42 118r 140r 160r 190r"
    sheet.table(85, columns, "10204|Manzana Golden, caja 10 kg|-6,00|14,50|4,00|-87,00",
                "10311|Plátano de Canarias, kg|-35,50|1,95|4,00|-69,23",
                heading="CÓDIGO|DESCRIPCIÓN|CANTIDAD|PRECIO|% IVA|IMPORTE")  # fmt: skip
    sheet.table(230, "20 80r 105r 135r 190r", "|-156,23|4,00|-6,25|-162,48",
                heading="|BASE IMPONIBLE|% IVA|CUOTA IVA|TOTAL EUR")  # fmt: skip
    sheet.rows(20, 250, "Forma de pago: compensación en la próxima factura", size=8)
    return sheet.finish("credit_note", {
        "credit_note_number": "R24/000031", "credit_note_date": "2024-11-15", "invoice_reference": "F24/004417",
        **totals("EUR 156.23 6.25 162.48"),
        "issuer": party("FRUTAS Y VERDURAS LA HUERTA, S.A.|Mercamurcia, módulo 14|30120|Murcia"),
        "recipient": party("Colegio San Isidoro|C/ Alcalde Juan López Somalo, 2|30002|Murcia", vat_id="ESB83958645"),
        "line_items": lines(
            "article_number description quantity unit_price tax_rate net_amount",
            "10204|Manzana Golden, caja 10 kg|6.00|14.50|4|87.00", "10311|Plátano de Canarias, kg|35.50|1.95|4|69.23",
        ),
    })  # fmt: skip


def italian_order() -> DrawnDocument:
    """An Italian purchase order.

    'Spett.le' above the supplier, number and date in one row, a delivery date per line item.
    """
    sheet = Sheet("times")
    sheet.at(15, 18, "MECCANICA VALSUGANA S.P.A.", 14, bold=True)
    sheet.rows(15, 23, "Via dell'Industria 55 - 38051 Borgo Valsugana (TN)", "Partita IVA IT00959240151",
               "acquisti@valsugana.example", size=8, pitch=3.7)  # fmt: skip
    sheet.rows(115, 42, "Spett.le", "FERRAMENTA ADIGE S.N.C.", "Via Brennero 210", "38121 TRENTO (TN)", size=10)
    sheet.at(15, 75, "ORDINE A FORNITORE N. 1207/24 DEL 08/11/2024", 12, bold=True)
    sheet.table(83, "15 60 110 150", "30 gg d.f.f.m.|Franco destino|Vs. off. 551/B|EURO",
                heading="Pagamento|Resa|Vs. riferimento|Valuta", size=8)  # fmt: skip
    columns = "15 24 48 112r 116 140r 165r 195r"
    sheet.table(102, columns, "1|VT-M10X30|Vite TE M10x30 zincata|2.000|PZ|0,1240|22/11/2024|248,00",
                "2|RD-M10|Rondella piana M10|2.000|PZ|0,0310|22/11/2024|62,00",
                "3|CH-13|Chiave combinata 13|12|PZ|6,4500|29/11/2024|77,40",
                heading="Riga|Codice|Descrizione articolo|Quantità|UM|Prezzo|Consegna|Importo", size=8.5)  # fmt: skip
    sheet.table(140, "130 195r", "TOTALE ORDINE|387,40")
    sheet.rows(15, 160, "Vi preghiamo di inviarci conferma d'ordine entro 3 giorni.", size=8.5)
    return sheet.finish("purchase_order", {
        "po_number": "1207/24", "order_date": "2024-11-08", "currency": "EUR", "total_net": "387.40",
        "buyer": party("MECCANICA VALSUGANA S.P.A.|Via dell'Industria 55|38051|Borgo Valsugana (TN)",
                        vat_id="IT00959240151", email="acquisti@valsugana.example"),
        "supplier": party("FERRAMENTA ADIGE S.N.C.|Via Brennero 210|38121|TRENTO (TN)"),
        "line_items": lines(
            "position article_number description quantity unit unit_price net_amount",
            "1|VT-M10X30|Vite TE M10x30 zincata|2000|C62|0.1240|248.00",
            "2|RD-M10|Rondella piana M10|2000|C62|0.0310|62.00", "3|CH-13|Chiave combinata 13|12|C62|6.4500|77.40",
        ),
    })  # fmt: skip


PROGRAMS_MIXED = (
    german_office,
    french_public,
    american_suite,
    danish_confirmation,
    dutch_packing_slip,
    spanish_correction,
    italian_order,
)
