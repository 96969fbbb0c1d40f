"""Documents in German."""

from tests.documents.text.drawn_documents.sheet import DrawnDocument, Sheet, lines, party, totals


def labels_over_values() -> DrawnDocument:
    """A modern German invoice: small labels over values, a wide table, a large total."""
    sheet = Sheet()
    sheet.at(20, 22, "Nordwerk Beleuchtung GmbH", 16, bold=True)
    sheet.at(20, 50, "Nordwerk Beleuchtung GmbH · Kaistraße 14 · 24103 Kiel", 6.5)
    sheet.rows(20, 56, "Stadtcafé Möwe GmbH", "Frau Silke Ahrens", "Hafenplatz 3", "18055 Rostock", size=10)
    sheet.at(20, 95, "Rechnung", 18, bold=True)
    label_columns = "20 60 100 145"
    sheet.table(103, label_columns, "Rechnungsnummer|Rechnungsdatum|Kundennummer|Fälligkeitsdatum", size=7)
    sheet.table(107.5, label_columns, "RN-24-00318|1. März 2024|K-20771|15. März 2024", size=10)
    columns = "20 30 120r 155r 190r"
    sheet.table(120, columns, "Pos.|Beschreibung|Menge|Einzelpreis|Gesamt", bold=True)
    sheet.table(127, columns, '1|Pendelleuchte "Fjord", matt|4 Stk|312,50 €|1.250,00 €')
    sheet.rows(30, 131.5, "inkl. Leuchtmittel 2700 K", size=8)
    sheet.table(138, columns, "2|Montage vor Ort|6 Std|68,00 €|408,00 €")
    sheet.table(145, columns, "3|Anfahrt|1 Stk|35,50 €|35,50 €")
    total_columns = "120 190r"
    sheet.table(158, total_columns, "Zwischensumme (netto)|1.693,50 €", "Umsatzsteuer 19 %|321,77 €")
    sheet.table(170, total_columns, "Rechnungsbetrag|2.015,27 €", size=13, bold=True)
    sheet.at(20, 185, "Bitte überweisen Sie den Betrag ohne Abzug auf das unten genannte Konto.")
    sheet.table(
        276, "20 80 140",
        "Nordwerk Beleuchtung GmbH|Förde Sparkasse|USt-IdNr. DE136695976",
        "Kaistraße 14, 24103 Kiel|IBAN DE89 3704 0044 0532 0130 00|Amtsgericht Kiel HRB 20114",
        "Telefon 0431 998877|BIC COBADEFFXXX|Geschäftsführer: Jens Petersen",
        size=7, pitch=3.2,
    )  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "RN-24-00318", "invoice_date": "2024-03-01", "payment_due_date": "2024-03-15",
        **totals("EUR 1693.50 321.77 2015.27"),
        "issuer": party("Nordwerk Beleuchtung GmbH|Kaistraße 14|24103|Kiel", vat_id="DE136695976",
                         iban="DE89370400440532013000", registration_id="HRB 20114"),
        "recipient": party("Stadtcafé Möwe GmbH|Hafenplatz 3|18055|Rostock"),
        "line_items": lines(
            "position description quantity unit unit_price net_amount",
            "1|Pendelleuchte \"Fjord\", matt inkl. Leuchtmittel 2700 K|4|C62|312.50|1250.00",
            "2|Montage vor Ort|6|HUR|68.00|408.00", "3|Anfahrt|1|C62|35.50|35.50",
        ),
    })  # fmt: skip


def carried_totals() -> DrawnDocument:
    """A German wholesaler's invoice over two pages.

    Discounts on line items, prices per hundred, totals carried over to the next page.
    """
    sheet = Sheet("times")
    columns = "18 28 52 122r 126 150r 168r 192r"
    heading = "Pos|Art.-Nr.|Bezeichnung|Menge|ME|Preis/100|Rab. %|Betrag EUR"
    sheet.at(192, 18, "Schraubenkontor Wuppertal KG", 14, bold=True, right=True)
    sheet.at(18, 45, "Schraubenkontor Wuppertal KG, Bahnstr. 77, 42327 Wuppertal", 7)
    sheet.rows(18, 52, "Firma", "Maschinenbau Lindner GmbH & Co. KG", "Industriestraße 5-7", "", "58638 Iserlohn")
    block = "130 192r"
    sheet.table(
        52, block, "Rechnung-Nr.|4471209", "Datum|12.02.2024", "Kunden-Nr.|10-2288",
        "Ihre Bestellung|B-7712/24", "Lieferschein-Nr.|LS 88123", "Seite|1 von 2",
    )  # fmt: skip
    sheet.at(18, 92, "RECHNUNG", 13, bold=True)
    sheet.table(104, columns, heading, bold=True)
    y = 111.0
    items = [
        "10|933-8x40|Sechskantschraube M8x40 8.8 verzinkt|2.500|Stk|11,80|15,0|250,75",
        "20|934-8|Sechskantmutter M8|2.500|Stk|4,20|15,0|89,25",
        "30|125-8|Scheibe M8 verzinkt|5.000|Stk|1,55||77,50",
        "40|912-6x20|Zylinderschraube M6x20|1.000|Stk|9,40|10,0|84,60",
    ]
    for item in items:
        y = sheet.table(y, columns, item)
        y = sheet.rows(52, y, "Zolltarifnummer: 73181588", size=8) + 2
    sheet.table(y + 6, "52 192r", "Übertrag|502,10", bold=True)
    sheet.add_page()
    sheet.table(30, block, "Rechnung-Nr.|4471209", "Seite|2 von 2")
    sheet.table(50, columns, heading, bold=True)
    sheet.table(57, "52 192r", "Übertrag von Seite 1|502,10", bold=True)
    y = sheet.table(64, columns, "50|7504-4|Bohrschraube 4,2x16|3.000|Stk|3,10||93,00")
    y = sheet.table(y + 2, columns, "60|VP-1|Kleinteilekasten|12|Stk|845,00|5,0|96,33")
    sheet.table(
        y + 8, "120 192r", "Warenwert|691,43", "Fracht|18,50", "Netto|709,93",
        "19,00 % MwSt.|134,89", "Gesamtbetrag EUR|844,82",
    )  # fmt: skip
    sheet.at(18, y + 48, "Zahlbar bis 13.03.2024 ohne Abzug, bis 22.02.2024 mit 2 % Skonto.")
    sheet.at(18, 280, "Sparkasse Wuppertal IBAN: DE89 3704 0044 0532 0130 00   USt-Id-Nr.: DE 136695976", 7)
    names = "position article_number description quantity unit price_basis_quantity unit_price net_amount"
    return sheet.finish("invoice", {
        "invoice_number": "4471209", "invoice_date": "2024-02-12", "payment_due_date": "2024-03-13",
        "po_reference": "B-7712/24", "delivery_note_reference": "LS 88123",
        **totals("EUR 709.93 134.89 844.82"),
        "issuer": party("Schraubenkontor Wuppertal KG|Bahnstr. 77|42327|Wuppertal", vat_id="DE136695976",
                         iban="DE89370400440532013000"),
        "recipient": party("Maschinenbau Lindner GmbH & Co. KG|Industriestraße 5-7|58638|Iserlohn"),
        "line_items": [
            *lines(
                names,
                "10|933-8x40|Sechskantschraube M8x40 8.8 verzinkt|2500|C62|100|10.03|250.75",
                "20|934-8|Sechskantmutter M8|2500|C62|100|3.57|89.25",
                "30|125-8|Scheibe M8 verzinkt|5000|C62|100|1.55|77.50",
                "40|912-6x20|Zylinderschraube M6x20|1000|C62|100|8.46|84.60",
                "50|7504-4|Bohrschraube 4,2x16|3000|C62|100|3.10|93.00",
                "60|VP-1|Kleinteilekasten|12|C62|100|802.75|96.33",
            ),
            {"description": "Fracht", "net_amount": "18.50"},
        ],
    })  # fmt: skip


def german_credit_note() -> DrawnDocument:
    """A German credit note with negative amounts.

    A column has labels and the numbers of the credit note and the invoice.
    """
    sheet = Sheet()
    sheet.at(20, 20, "Oberland Textil AG", 13, bold=True)
    sheet.at(20, 48, "Oberland Textil AG | Weberstraße 2 | 87435 Kempten", 7)
    sheet.rows(20, 54, "Modehaus Kramer e.K.", "Marktplatz 11", "88212 Ravensburg")
    sheet.at(20, 90, "Gutschrift", 16, bold=True)
    sheet.table(54, "125 160", "Gutschrift-Nr.|GS-24-0041", "Datum|18.03.24", "Zu Rechnung Nr.|RE-24-1077",
                "Kunden-Nr.|D-4410")  # fmt: skip
    columns = "20 30 60 135r 160r 190r"
    sheet.table(105, columns, "Pos|Artikel|Bezeichnung|Menge|E-Preis|G-Preis", bold=True)
    sheet.table(112, columns, "1|WJ-301|Walkjacke Damen Gr. 40|-2|129,00|-258,00",
                "2|SC-118|Schal Merino grau|-5|24,90|-124,50")  # fmt: skip
    sheet.table(130, "130 190r", "Nettosumme|-382,50", "MwSt 19%|-72,68", "Gutschriftsbetrag EUR|-455,18", bold=True)
    sheet.at(20, 280, "USt-IdNr.: DE136695976 · IBAN: DE89370400440532013000 · Amtsgericht Kempten HRB 5501", 7)
    return sheet.finish("credit_note", {
        "credit_note_number": "GS-24-0041", "credit_note_date": "2024-03-18", "invoice_reference": "RE-24-1077",
        **totals("EUR 382.50 72.68 455.18"),
        "issuer": party("Oberland Textil AG|Weberstraße 2|87435|Kempten", vat_id="DE136695976",
                         iban="DE89370400440532013000", registration_id="HRB 5501"),
        "recipient": party("Modehaus Kramer e.K.|Marktplatz 11|88212|Ravensburg"),
        "line_items": lines(
            "position article_number description quantity unit_price net_amount",
            "1|WJ-301|Walkjacke Damen Gr. 40|2|129.00|258.00", "2|SC-118|Schal Merino grau|5|24.90|124.50",
        ),
    })  # fmt: skip


def final_invoice() -> DrawnDocument:
    """A German builder's final invoice.

    Section titles between line items, positions such as 01.02, an installment deducted from the total.
    """
    sheet = Sheet()
    sheet.at(20, 18, "Zimmerei Hölzl", 15, bold=True)
    sheet.rows(20, 23, "Inh. Max Hölzl", "Bergweg 5", "83646 Bad Tölz")
    sheet.rows(20, 50, "Eheleute Petra und Jan Sommer", "Am Anger 19", "83661 Lenggries")
    sheet.table(50, "130 165", "Rechnungs-Nr.:|2024/017", "Rechnungsdatum:|28. Februar 2024",
                "Steuernummer:|139/230/40218", "Auftrags-Nr.:|A-23-088")  # fmt: skip
    sheet.at(20, 85, "Schlussrechnung 2024/017", 14, bold=True)
    columns = "20 44r 47 60 155r 190r"
    sheet.table(97, columns, "Pos.|Menge|Einh.|Leistung|EP in EUR|GP in EUR", bold=True)
    sheet.table(104, "20 60", "01|Dachstuhl", bold=True)
    y = sheet.table(110, columns, "01.01|86,40|m²|Abbund und Aufstellen des Dachstuhls|74,50|6.436,80")
    y = sheet.rows(
        60, y - 0.5, "Konstruktionsvollholz C24, sichtbar gehobelt,", "einschließlich Kleineisenteile", size=8
    )
    y = sheet.table(y + 2, columns, "01.02|22,00|lfm|Gesims verkleiden|38,00|836,00")
    sheet.table(y + 3, "20 60", "02|Dämmung", bold=True)
    y = sheet.table(y + 9, columns, "02.01|86,40|m²|Holzfaserdämmung 180 mm|41,25|3.564,00")
    sheet.table(
        y + 8, "110 190r", "Summe netto|10.836,80", "zzgl. 19 % MwSt.|2.058,99",
        "Gesamtsumme brutto|12.895,79",
        "abzgl. Abschlagsrechnung 2024/003|-8.000,00", "Restbetrag|4.895,79",
    )  # fmt: skip
    sheet.at(20, 270, "Zahlbar innerhalb von 14 Tagen. Konto: Raiffeisenbank, IBAN DE89370400440532013000", 8)
    return sheet.finish("invoice", {
        "invoice_number": "2024/017", "invoice_date": "2024-02-28", "sales_order_reference": "A-23-088",
        **totals("EUR 10836.80 2058.99 12895.79"),
        "issuer": party("Zimmerei Hölzl|Bergweg 5|83646|Bad Tölz", tax_number="139/230/40218",
                         iban="DE89370400440532013000"),
        "recipient": party("Eheleute Petra und Jan Sommer|Am Anger 19|83661|Lenggries"),
        "line_items": lines(
            "position quantity unit description unit_price net_amount",
            "01.01|86.40|MTK|Abbund und Aufstellen des Dachstuhls Konstruktionsvollholz C24, sichtbar gehobelt, "
            "einschließlich Kleineisenteile|74.50|6436.80",
            "01.02|22.00|MTR|Gesims verkleiden|38.00|836.00", "02.01|86.40|MTK|Holzfaserdämmung 180 mm|41.25|3564.00",
        ),
    })  # fmt: skip


def german_order() -> DrawnDocument:
    """A German purchase order: the buyer's letterhead, the supplier as addressee."""
    sheet = Sheet()
    sheet.at(20, 20, "Maschinenbau Lindner GmbH & Co. KG", 13, bold=True)
    sheet.at(20, 46, "Maschinenbau Lindner GmbH & Co. KG - Industriestraße 5-7 - 58638 Iserlohn", 6.5)
    sheet.rows(20, 52, "Schraubenkontor Wuppertal KG", "Verkauf Innendienst", "Bahnstr. 77", "42327 Wuppertal", size=10)
    sheet.at(20, 88, "Bestellung", 17, bold=True)
    sheet.table(52, "125 165", "Bestellnummer:|B-7712/24", "Bestelldatum:|29.01.2024", "Lieferant Nr.:|70331",
                "Ihr Angebot:|AN-2024-551", "Liefertermin:|KW 7")  # fmt: skip
    columns = "20 32 60 130r 134 160r 190r"
    sheet.table(102, columns, "Pos.|Material|Bezeichnung|Menge|ME|Preis|Wert", bold=True)
    y = sheet.table(109, columns, "10|4000331|Sechskantschraube M8x40|2.500|ST|10,03/100|250,75")
    y = sheet.table(y + 2, columns, "20|4000417|Sechskantmutter M8|2.500|ST|3,57/100|89,25")
    sheet.table(y + 6, "130 190r", "Gesamtnettowert|340,00 EUR", bold=True)
    sheet.at(20, 200, "Rechnung bitte an rechnung@lindner.example. Es gelten unsere Einkaufsbedingungen.", 8)
    names = "position article_number description quantity unit unit_price price_basis_quantity net_amount"
    return sheet.finish("purchase_order", {
        "po_number": "B-7712/24", "order_date": "2024-01-29", "quotation_reference": "AN-2024-551",
        "currency": "EUR", "total_net": "340.00",
        "buyer": party("Maschinenbau Lindner GmbH & Co. KG|Industriestraße 5-7|58638|Iserlohn",
                        email="rechnung@lindner.example"),
        "supplier": party("Schraubenkontor Wuppertal KG|Bahnstr. 77|42327|Wuppertal"),
        "line_items": lines(
            names, "10|4000331|Sechskantschraube M8x40|2500|C62|10.03|100|250.75",
            "20|4000417|Sechskantmutter M8|2500|C62|3.57|100|89.25",
        ),
    })  # fmt: skip


def boxed_german() -> DrawnDocument:
    """A German software company's invoice.

    A block of labels on the right, service periods and remarks below line items.
    """
    sheet = Sheet()
    sheet.at(190, 16, "datenwerk systemhaus gmbh", 16, bold=True, right=True)
    sheet.at(25, 44, "datenwerk systemhaus gmbh • Am Technologiepark 12 • 45307 Essen", 6)
    sheet.rows(
        25,
        50,
        "Stadtwerke Musterhausen AöR",
        "Abt. Einkauf",
        "z. Hd. Frau Yilmaz",
        "Rathausplatz 1",
        "59302 Oelde",
        size=10,
    )
    block = "135 190r"
    sheet.table(50, block, "Rechnung|", bold=True, size=12)
    sheet.table(
        56, block, "Belegnummer|RE2024-10492", "Belegdatum|30.06.2024",
        "Leistungszeitraum|01.04.-30.06.2024",
        "Ihre Kundennummer|12077", "Ihre Bestellnr.|4500981273", "Zahlungsziel|30.07.2024",
    )  # fmt: skip
    columns = "25 36 118r 121 148r 165r 190r"
    sheet.table(102, columns, "Pos|Leistung|Anzahl|Einheit|Einzel €|MwSt|Gesamt €", bold=True)
    y = sheet.table(109, columns, "1|Wartung Ticketsystem|3|Monate|420,00|19%|1.260,00")
    y = sheet.rows(36, y, "Zeitraum: 01.04.2024 - 30.06.2024", size=8) + 2
    y = sheet.table(y, columns, "2|Consulting vor Ort|12,5|Std.|135,00|19%|1.687,50")
    y = sheet.rows(36, y, "Termine: 04.04., 11.04., 02.05.2024", size=8) + 2
    y = sheet.table(y, columns, "3|Schulungsunterlagen (Druck)|15|Stück|24,00|7%|360,00")
    sheet.table(
        y + 6, "120 190r", "Nettobetrag|3.307,50 €", "MwSt. 19% auf 2.947,50 €|560,03 €",
        "MwSt. 7% auf 360,00 €|25,20 €", "Rechnungsbetrag|3.892,73 €",
    )  # fmt: skip
    sheet.table(
        272, "25 80 135", "datenwerk systemhaus gmbh|Amtsgericht Essen|Bank: GLS Bank",
        "Am Technologiepark 12|HRB 28871|IBAN: DE89 3704 0044 0532 0130 00",
        "45307 Essen|USt-ID: DE136695976|BIC: COBADEFFXXX", size=7, pitch=3.3,
    )  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "RE2024-10492", "invoice_date": "2024-06-30", "payment_due_date": "2024-07-30",
        "po_reference": "4500981273", **totals("EUR 3307.50 585.23 3892.73"),
        "issuer": party("datenwerk systemhaus gmbh|Am Technologiepark 12|45307|Essen", vat_id="DE136695976",
                         iban="DE89370400440532013000", registration_id="HRB 28871"),
        "recipient": party("Stadtwerke Musterhausen AöR|Rathausplatz 1|59302|Oelde"),
        "line_items": lines(
            "position description quantity unit unit_price tax_rate net_amount",
            "1|Wartung Ticketsystem Zeitraum: 01.04.2024 - 30.06.2024|3|MON|420.00|19|1260.00",
            "2|Consulting vor Ort Termine: 04.04., 11.04., 02.05.2024|12.5|HUR|135.00|19|1687.50",
            "3|Schulungsunterlagen (Druck)|15|C62|24.00|7|360.00",
        ),
    })  # fmt: skip


def utility_bill() -> DrawnDocument:
    """A German energy invoice: kWh, deducted installments, amount due in a sentence."""
    sheet = Sheet()
    sheet.at(20, 20, "Energie Sauerland eG", 15, bold=True)
    sheet.at(20, 46, "Energie Sauerland eG, Postfach 11 20, 57392 Schmallenberg", 7)
    sheet.rows(20, 52, "Herrn und Frau", "Peter Hesse", "Waldweg 23", "57392 Schmallenberg")
    sheet.table(52, "125 165", "Kundennummer:|881204", "Vertragskonto:|200 118 774", "Rechnungsnummer:|3007716523",
                "Datum:|15.01.2024")  # fmt: skip
    sheet.at(20, 88, "Ihre Jahresabrechnung Strom 2023", 13, bold=True)
    sheet.at(20, 97, "Sehr geehrte Damen und Herren, für die Belieferung mit Strom berechnen wir Ihnen:")
    columns = "20 110r 115 150r 190r"
    sheet.table(107, columns, "Bezeichnung|Menge|Einheit|Preis in EUR|Betrag in EUR", bold=True)
    sheet.table(
        114, columns, "Arbeitspreis|3.120|kWh|0,2850|889,20",
        "Grundpreis|12|Monate|9,50|114,00",
    )  # fmt: skip
    sheet.table(130, "20 190r", "Summe netto|1.003,20", "Umsatzsteuer 19 %|190,61", "Rechnungsbetrag brutto|1.193,81",
                "abzüglich gezahlter Abschläge|-1.080,00", "Nachzahlung|113,81")  # fmt: skip
    sheet.at(20, 165, "Den Betrag von 113,81 EUR buchen wir am 29.01.2024 von Ihrem Konto ab.")
    sheet.at(20, 282, "Vorstand: A. Kemper · Genossenschaftsregister Arnsberg GnR 102 · USt-IdNr. DE136695976", 7)
    return sheet.finish("invoice", {
        "invoice_number": "3007716523", "invoice_date": "2024-01-15", **totals("EUR 1003.20 190.61 1193.81"),
        "issuer": party("Energie Sauerland eG|Postfach 11 20|57392|Schmallenberg", vat_id="DE136695976"),
        "recipient": {"name": "Herrn und Frau Peter Hesse", "street": "Waldweg 23", "postal_code": "57392",
                      "city": "Schmallenberg"},
        "line_items": lines(
            "description quantity unit unit_price net_amount", "Arbeitspreis|3120|KWH|0.2850|889.20",
            "Grundpreis|12|MON|9.50|114.00",
        ),
    })  # fmt: skip


def german_confirmation() -> DrawnDocument:
    """A German order confirmation with delivery dates below line items.

    The number and the date are below the title.
    """
    sheet = Sheet()
    sheet.at(20, 20, "Hydraulik Neumann GmbH & Co. KG", 13, bold=True)
    sheet.at(20, 48, "Hydraulik Neumann GmbH & Co. KG · Lise-Meitner-Str. 3 · 70736 Fellbach", 6.5)
    sheet.rows(20, 54, "Pressenbau Ostalb AG", "Ulmer Straße 88", "73431 Aalen")
    sheet.at(20, 90, "Auftragsbestätigung", 15, bold=True)
    sheet.at(20, 97, "Nr. AB-77120 vom 04.07.2024")
    sheet.at(20, 103, "Ihre Bestellung 4500011877 vom 02.07.2024")
    columns = "20 32 120r 150r 190r"
    sheet.table(115, columns, "Pos.|Artikel/Bezeichnung|Menge|Stückpreis|Gesamtpreis", bold=True)
    y = sheet.table(122, columns, "1|Hydraulikzylinder 80/50x300|2|1.240,00|2.480,00")
    y = sheet.rows(32, y - 0.5, "Artikel-Nr. HZ-80-300", "Liefertermin: 15.08.2024", size=8) + 2
    y = sheet.table(y, columns, "2|Dichtsatz NBR|4|38,50|154,00")
    y = sheet.rows(32, y - 0.5, "Artikel-Nr. DS-80", "Liefertermin: 18.07.2024", size=8)
    sheet.table(
        y + 6,
        "120 190r",
        "Auftragswert netto EUR|2.634,00",
        "+ 19 % MwSt.|500,46",
        "Auftragswert brutto EUR|3.134,46",
    )
    return sheet.finish("order_confirmation", {
        "confirmation_number": "AB-77120", "confirmation_date": "2024-07-04", "po_reference": "4500011877",
        **totals("EUR 2634.00 500.46 3134.46"),
        "supplier": party("Hydraulik Neumann GmbH & Co. KG|Lise-Meitner-Str. 3|70736|Fellbach"),
        "buyer": party("Pressenbau Ostalb AG|Ulmer Straße 88|73431|Aalen"),
        "line_items": lines(
            "position description quantity unit_price net_amount article_number",
            "1|Hydraulikzylinder 80/50x300|2|1240.00|2480.00|HZ-80-300", "2|Dichtsatz NBR|4|38.50|154.00|DS-80",
        ),
    })  # fmt: skip


def long_list() -> DrawnDocument:
    """A German invoice over three pages.

    A table heading on each page, a subtotal at each page break, delivery note numbers between line items.
    """
    sheet = Sheet()
    columns = "18 28 55 125r 128 160r 192r"
    heading = "Pos.|Artikelnr.|Artikelbezeichnung|Menge|Einh.|E-Preis|Gesamt"
    items = []
    sheet.at(18, 20, "Elektrogroßhandel Saale GmbH", 13, bold=True)
    sheet.at(18, 45, "Elektrogroßhandel Saale GmbH, Lagerstr. 9, 06112 Halle (Saale)", 7)
    sheet.rows(18, 51, "Elektro Krause e.K.", "Inh. Torsten Krause", "Gartenstr. 17a", "06217 Merseburg")
    sheet.table(51, "130 165", "Sammelrechnung|SR-558120", "Rechnungsdatum|31.05.2024", "Kundennummer|44120",
                "Fällig am|14.06.2024")  # fmt: skip
    y = sheet.table(90, columns, heading, bold=True)
    total = 0
    for number in range(1, 46):
        if number in (1, 20):
            y = sheet.table(y + 1, "28", f"Lieferschein LS-{7000 + number} vom {number + 2:02}.05.2024", bold=True)
        quantity, price = 3 + number % 7, 125 + 37 * number
        total += quantity * price
        article, name = f"EL-{4000 + number}", f"Leitungsschutzschalter B{number} 1-polig"
        y = sheet.table(
            y, columns, f"{number}|{article}|{name}|{quantity}|Stk|{_german(price)}|{_german(quantity * price)}"
        )
        items.append(f"{number}|{article}|{name}|{quantity}|C62|{price / 100:.2f}|{quantity * price / 100:.2f}")
        if y > 255:
            sheet.at(18, 270, f"Zwischensumme {_german(total)}")
            sheet.at(105, 288, "Seite 1 von 3" if number < 35 else "Seite 2 von 3", 7)
            sheet.add_page()
            sheet.at(18, 15, "Sammelrechnung SR-558120", 8)
            y = sheet.table(25, columns, heading, bold=True)
    tax = round(total * 0.19)
    sheet.table(y + 8, "130 192r", f"Summe netto|{_german(total)}", f"MwSt 19 %|{_german(tax)}",
                f"Gesamtbetrag EUR|{_german(total + tax)}")  # fmt: skip
    sheet.at(18, 284, "USt-IdNr. DE136695976  IBAN DE89 3704 0044 0532 0130 00", 7)
    return sheet.finish("invoice", {
        "invoice_number": "SR-558120", "invoice_date": "2024-05-31", "payment_due_date": "2024-06-14",
        "delivery_note_reference": ["LS-7001", "LS-7020"],
        **totals(f"EUR {total / 100:.2f} {tax / 100:.2f} {(total + tax) / 100:.2f}"),
        "issuer": party("Elektrogroßhandel Saale GmbH|Lagerstr. 9|06112|Halle (Saale)",
                         vat_id="DE136695976", iban="DE89370400440532013000"),
        "recipient": party("Elektro Krause e.K.|Gartenstr. 17a|06217|Merseburg"),
        "line_items": lines("position article_number description quantity unit unit_price net_amount", *items),
    })  # fmt: skip


def gross_prices() -> DrawnDocument:
    """A German consumer invoice: gross prices, the included tax below the total."""
    sheet = Sheet()
    sheet.at(20, 20, "Fahrradladen Speiche", 15, bold=True)
    sheet.rows(20, 25, "Inh. Mara Lenz | Lindenallee 4 | 50968 Köln", size=8)
    sheet.rows(20, 52, "Jonas Weber", "Severinstr. 101", "50678 Köln")
    sheet.at(20, 85, "Rechnung Nr. 2024-0815", 14, bold=True)
    sheet.at(190, 85, "Köln, den 8. Mai 2024", right=True)
    columns = "20 35 150r 190r"
    sheet.table(97, columns, "Anz.|Artikel|Einzelpreis brutto|Summe brutto", bold=True)
    sheet.table(
        104,
        columns,
        "1|Trekkingrad Modell Tour|899,00 €|899,00 €",
        "2|Reifen 28 Zoll|29,95 €|59,90 €",
    )
    sheet.table(
        122,
        "110 190r",
        "Gesamtbetrag|958,90 €",
        "darin enthalten 19 % MwSt.|153,10 €",
        "Nettobetrag|805,80 €",
    )
    sheet.at(20, 150, "Betrag dankend per Karte erhalten.")
    sheet.at(20, 284, "Steuernummer 219/5044/1881", 7)
    return sheet.finish("invoice", {
        "invoice_number": "2024-0815", "invoice_date": "2024-05-08", **totals("EUR 805.80 153.10 958.90"),
        "issuer": party("Fahrradladen Speiche|Lindenallee 4|50968|Köln", tax_number="219/5044/1881"),
        "recipient": party("Jonas Weber|Severinstr. 101|50678|Köln"),
        "line_items": lines("quantity description", "1|Trekkingrad Modell Tour", "2|Reifen 28 Zoll"),
    })  # fmt: skip


def _german(cents: int) -> str:
    """Format an amount in cents in German notation."""
    return f"{cents / 100:,.2f}".translate(str.maketrans(",.", ".,"))


GERMAN = (
    labels_over_values,
    carried_totals,
    german_credit_note,
    final_invoice,
    german_order,
    boxed_german,
    utility_bill,
    german_confirmation,
    long_list,
    gross_prices,
)
