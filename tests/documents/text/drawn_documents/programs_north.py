"""Documents in the style of business software from northern Europe."""

from tests.documents.text.drawn_documents.sheet import DrawnDocument, Sheet, lines, party, totals


def online_bookkeeping() -> DrawnDocument:
    """An invoice from German online accounting software.

    Labels and values on the right, a column for units, a three-column footer.
    """
    sheet = Sheet()
    sheet.at(190, 22, "Holzmanufaktur Brandt e.K.", 15, bold=True, right=True)
    sheet.at(25, 50, "Holzmanufaktur Brandt e.K. · Dorfstr. 12 · 29439 Lüchow", 6.5)
    sheet.rows(25, 56, "Kindertagesstätte Regenbogen", "Frau Anja Petersen", "Schulweg 4", "29456 Hitzacker", size=10)
    sheet.table(56, "130 190r", "Rechnungsnr.:|RE0417", "Kundennr.:|10023", "Datum:|04.04.2024",
                "Lieferdatum:|28.03.2024", "Ansprechpartner:|Jörg Brandt")  # fmt: skip
    sheet.at(25, 98, "Rechnung", 16, bold=True)
    sheet.rows(25, 106, "Unsere Lieferungen/Leistungen stellen wir Ihnen wie folgt in Rechnung.")
    columns = "25 34 115r 119 150r 190r"
    y = sheet.table(116, columns, "1.|Garderobenbank mit Schuhrost|3|Stück|245,00|735,00",
                    heading="Pos|Bezeichnung|Menge|Einheit|Einzel €|Gesamt €")  # fmt: skip
    y = sheet.rows(34, y - 1, "Esche geölt, 120 cm,", "Sitzhöhe 30 cm", size=8, pitch=3.6) + 2
    y = sheet.table(y, columns, "2.|Wandhaken, Messing|24|Stück|6,80|163,20", "3.|Montage|4,5|Stunde(n)|52,00|234,00")
    sheet.rule(y, 25)
    sheet.table(y + 6, "110 190r", "Summe netto|1.132,20 €", "zzgl. 19% USt.|215,12 €")
    sheet.table(y + 18, "110 190r", "Gesamtsumme|1.347,32 €", bold=True, size=10)
    sheet.rows(25, y + 30, "Zahlungsbedingungen: Zahlung innerhalb von 14 Tagen ab Rechnungseingang ohne Abzüge.",
               "Bitte überweisen Sie den Rechnungsbetrag bis zum 18.04.2024 unter Angabe der Nummer.")  # fmt: skip
    sheet.table(274, "25 85 145", "Holzmanufaktur Brandt e.K.|Telefon: 05841 97123|Sparkasse Uelzen",
                "Inhaber Jörg Brandt|E-Mail: info@holz-brandt.example|IBAN: DE66 3705 0198 0012 3456 78",
                "Dorfstr. 12|www.holz-brandt.example|USt-ID: DE342366712",
                "29439 Lüchow||Steuer-Nr.: 47/105/02219", size=7, pitch=3.2)  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "RE0417", "invoice_date": "2024-04-04", "payment_due_date": "2024-04-18",
        **totals("EUR 1132.20 215.12 1347.32"),
        "issuer": party("Holzmanufaktur Brandt e.K.|Dorfstr. 12|29439|Lüchow", vat_id="DE342366712",
                         tax_number="47/105/02219", iban="DE66370501980012345678", email="info@holz-brandt.example"),
        "recipient": party("Kindertagesstätte Regenbogen|Schulweg 4|29456|Hitzacker"),
        "line_items": lines(
            "position description quantity unit unit_price net_amount",
            "1|Garderobenbank mit Schuhrost Esche geölt, 120 cm, Sitzhöhe 30 cm|3|C62|245.00|735.00",
            "2|Wandhaken, Messing|24|C62|6.80|163.20", "3|Montage|4.5|HUR|52.00|234.00",
        ),
    })  # fmt: skip


def enterprise_billing() -> DrawnDocument:
    """A billing document from a large ERP system.

    'Nummer/Datum', discounts below line items, trailing minus signs, two pages.
    """
    sheet = Sheet()
    sheet.rows(150, 16, "Rheintal Antriebstechnik AG", "Werkstraße 1-9", "68169 Mannheim", "DEUTSCHLAND", size=8)
    sheet.at(20, 46, "Rheintal Antriebstechnik AG, Postfach 10 03 21, 68003 Mannheim", 6)
    sheet.rows(20, 52, "Firma", "Fördertechnik Oberhausen GmbH", "Zechenstraße 40", "46149 Oberhausen", size=10)
    sheet.at(115, 46, "Rechnung", 12, bold=True)
    sheet.rows(115, 52, "Nummer/Datum", "90041877 / 11.06.2024", "Referenz-Nr./Datum", "4500118823 / 22.05.2024",
               "Auftragsnummer/Datum", "30077124 / 23.05.2024", "Lieferschein/Datum", "80055210 / 10.06.2024",
               "Kundennummer", "110472", size=8, pitch=4)  # fmt: skip
    sheet.rows(20, 98, "Währung EUR", "Bitte bei Zahlung angeben: 90041877", size=8)
    columns = "20 34 60 128r 131 160r 190r"
    heading = "Pos.|Material|Bezeichnung|Menge|ME|Preis|Betrag"
    y = sheet.table(112, columns, "000010|GM-7740-B|Getriebemotor 0,75 kW|12|ST|412,00|4.944,00", heading=heading)
    y = sheet.table(y, "60 160r 190r", "Rabatt vom Brutto|8,000- %|395,52-", "Nettowert||4.548,48")
    y = sheet.table(y + 2, columns, "000020|KU-M40|Kupplung M40|12|ST|58,50|702,00")
    y = sheet.table(y, "60 160r 190r", "Nettowert||702,00")
    sheet.table(y + 6, "60 190r", "Übertrag|5.250,48")
    sheet.at(190, 285, "Seite 1 / 2", 7, right=True)
    sheet.add_page()
    sheet.table(20, "20 190r", "Rechnung 90041877 vom 11.06.2024|Seite 2 / 2", size=8)
    y = sheet.table(
        34, columns, "||Übertrag||||5.250,48", "000030|SH-220|Schutzhaube|6|ST|33,90|203,40", heading=heading
    )
    y = sheet.table(y, "60 190r", "Nettowert|203,40")
    y = sheet.table(y + 4, "60 120r 160r 190r", "Summe Positionen|||5.453,88",
                    "Mehrwertsteuer|19,000 %|5.453,88|1.036,24", "Endbetrag|||6.490,12")  # fmt: skip
    sheet.rows(20, y + 8, "Zahlungsbedingungen: bis zum 21.06.2024 erhalten Sie 3,000 % Skonto",
               "bis zum 11.07.2024 ohne Abzug", "Lieferbedingung: CPT Oberhausen")  # fmt: skip
    sheet.table(276, "20 75 135", "Vorstand: Dr. H. Wirtz, K. Seidel|Sitz: Mannheim|Commerzbank Mannheim",
                "Aufsichtsratsvorsitz: M. Frings|Amtsgericht Mannheim HRB 70012|IBAN DE33 7002 0270 0654 3210 98",
                "|USt-IdNr.: DE676122202|SWIFT HYVEDEMMXXX", size=6.5, pitch=3)  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "90041877", "invoice_date": "2024-06-11", "payment_due_date": "2024-07-11",
        "po_reference": "4500118823", "sales_order_reference": "30077124", "delivery_note_reference": "80055210",
        **totals("EUR 5453.88 1036.24 6490.12"),
        "issuer": party("Rheintal Antriebstechnik AG|Werkstraße 1-9|68169|Mannheim", country="DE",
                         vat_id="DE676122202", iban="DE33700202700654321098", registration_id="HRB 70012"),
        "recipient": party("Fördertechnik Oberhausen GmbH|Zechenstraße 40|46149|Oberhausen"),
        "line_items": lines(
            "position article_number description quantity unit net_amount",
            "000010|GM-7740-B|Getriebemotor 0,75 kW|12|C62|4548.48", "000020|KU-M40|Kupplung M40|12|C62|702.00",
            "000030|SH-220|Schutzhaube|6|C62|203.40",
        ),
    })  # fmt: skip


def open_source_suite() -> DrawnDocument:
    """An English invoice from an open-source business suite.

    Customer on the right, codes in brackets, dates in one row, '2.00 Units'.
    """
    sheet = Sheet()
    sheet.at(20, 20, "Meridian Office Supply NV", 14, bold=True)
    sheet.rows(20, 25, "Kempische Steenweg 311", "3500 Hasselt", "Belgium", size=8)
    sheet.rows(120, 45, "Azure Interior, Brandon Freeman", "Rue Royale 45", "1000 Brussels", "Belgium",
               "VAT: BE0467898504")  # fmt: skip
    sheet.at(20, 82, "Invoice INV/2024/00057", 16, bold=True)
    sheet.table(90, "20 62 104 146", "Invoice Date:|Due Date:|Source:|Reference:", size=8, bold=True)
    sheet.table(94.5, "20 62 104 146", "07/05/2024|06/06/2024|S00231|PO-2024-118")
    columns = "20 118r 145r 160 190r"
    sheet.table(108, columns, "[FURN_7777] Office Chair|2.00 Units|70.00|21%|€ 140.00",
                "[DESK0005] Customizable Ingestion (Aluminium)|1.00 Units|750.00|21%|€ 750.00",
                "[PAP-A4] Recycled copy paper, box|12.00 Units|18.25|6%|€ 219.00",
                heading="Description|Quantity|Unit Price|Taxes|Amount")  # fmt: skip
    sheet.table(138, "120 190r", "Untaxed Amount|€ 1,109.00", "VAT 21% on € 890.00|€ 186.90",
                "VAT 6% on € 219.00|€ 13.14")  # fmt: skip
    sheet.table(155, "120 190r", "Total|€ 1,309.04", bold=True)
    sheet.rows(20, 165, "Payment terms: 30 Days", "Payment Communication: INV/2024/00057 on this account: "
               "BE68 5390 0754 7034")  # fmt: skip
    sheet.at(40, 284, "+32 11 22 33 44 | accounts@meridian.example | http://www.meridian.example | BE0372204539", 7)
    sheet.at(190, 288, "Page 1 / 1", 7, right=True)
    return sheet.finish("invoice", {
        "invoice_number": "INV/2024/00057", "invoice_date": "2024-05-07", "payment_due_date": "2024-06-06",
        "po_reference": "PO-2024-118", **totals("EUR 1109.00 200.04 1309.04"),
        "issuer": party("Meridian Office Supply NV|Kempische Steenweg 311|3500|Hasselt", country="BE",
                         vat_id="BE0372204539", iban="BE68539007547034", email="accounts@meridian.example"),
        "recipient": party("Azure Interior, Brandon Freeman|Rue Royale 45|1000|Brussels", country="BE",
                            vat_id="BE0467898504"),
        "line_items": lines(
            "article_number description quantity unit unit_price tax_rate net_amount",
            "FURN_7777|Office Chair|2.00|C62|70.00|21|140.00",
            "DESK0005|Customizable Ingestion (Aluminium)|1.00|C62|750.00|21|750.00",
            "PAP-A4|Recycled copy paper, box|12.00|C62|18.25|6|219.00",
        ),
    })  # fmt: skip


def cloud_credit() -> DrawnDocument:
    """A credit note from British cloud accounting software.

    Labels above values in the middle column, the issuer in the right column.
    """
    sheet = Sheet()
    sheet.at(20, 34, "CREDIT NOTE", 22)
    sheet.rows(20, 46, "Thistle & Rye Bakery Ltd", "Attention: Fiona Baird", "88 Leith Walk", "EDINBURGH", "EH6 5HB",
               "UNITED KINGDOM", size=9)  # fmt: skip
    y = 34.0
    for label, value in (("Credit Note Date", "14 May 2024"), ("Credit Note Number", "CN-0033"),
                         ("Reference", "INV-2207"), ("VAT Number", "GB226935308")):  # fmt: skip
        sheet.at(105, y, label, 8.5, bold=True)
        sheet.at(105, y + 4.2, value)
        y += 11
    sheet.rows(150, 34, "Cairngorm Flour Mills", "Limited", "Millbank Road", "FORRES", "IV36 1BJ", "UNITED KINGDOM")
    columns = "20 112r 138r 158r 190r"
    sheet.table(105, columns, "Strong white flour 16 kg - water damaged|10.00|14.20|Zero Rated|142.00",
                "Rye flour 16 kg - short delivered|2.00|17.85|Zero Rated|35.70",
                "Pallet charge|1.00|12.50|20%|12.50",
                heading="Description|Quantity|Unit Price|VAT|Amount GBP")  # fmt: skip
    sheet.rule(123.5, 110)
    sheet.table(128, "158r 190r", "Subtotal|190.20", "TOTAL VAT 20%|2.50", "TOTAL CREDIT GBP|192.70",
                "Less credit to invoice|0.00")  # fmt: skip
    sheet.table(150, "158r 190r", "Remaining Credit GBP|192.70", bold=True)
    sheet.at(20, 285, "Company Registration No: SC204417.  Registered Office: Millbank Road, Forres, IV36 1BJ.", 7)
    return sheet.finish("credit_note", {
        "credit_note_number": "CN-0033", "credit_note_date": "2024-05-14", "invoice_reference": "INV-2207",
        **totals("GBP 190.20 2.50 192.70"),
        "issuer": party("Cairngorm Flour Mills Limited|Millbank Road|IV36 1BJ|FORRES", country="GB",
                         vat_id="GB226935308", registration_id="SC204417"),
        "recipient": party("Thistle & Rye Bakery Ltd|88 Leith Walk|EH6 5HB|EDINBURGH", country="GB"),
        "line_items": lines(
            "description quantity unit_price tax_rate net_amount",
            "Strong white flour 16 kg - water damaged|10.00|14.20|0|142.00",
            "Rye flour 16 kg - short delivered|2.00|17.85|0|35.70", "Pallet charge|1.00|12.50|20|12.50",
        ),
    })  # fmt: skip


def small_business() -> DrawnDocument:
    """An invoice from small-business software.

    Services with dates, labels in capitals, a VAT summary.
    """
    sheet = Sheet()
    sheet.at(20, 20, "Oakfield Garden Services", 12, bold=True)
    sheet.rows(20, 25, "3 Barn Close", "Cirencester GL7 2NN", "+44 1285 640112", "hello@oakfield.example",
               "VAT Registration No.: GB 368 4271 29", size=8, pitch=3.8)  # fmt: skip
    sheet.at(20, 55, "INVOICE", 18)
    sheet.at(20, 64, "BILL TO", 8, bold=True)
    sheet.rows(20, 69, "The Manor House Hotel", "Castle Combe", "Chippenham", "SN14 7HR")
    sheet.table(64, "150r 153", "INVOICE|1162", "DATE|28/06/2024", "DUE DATE|12/07/2024", "TERMS|Net 14", size=8.5)
    sheet.rule(95)
    columns = "20 42 70 140r 155r 170r 190r"
    y = sheet.table(102, columns, "03/06/2024|Maintenance|Lawn mowing and edging, front|20.0% S|4|65.00|260.00",
                    heading="DATE|SERVICE|DESCRIPTION|VAT|QTY|RATE|AMOUNT", size=8)  # fmt: skip
    y = sheet.rows(70, y - 1, "and rear lawns", size=8) + 1
    y = sheet.table(y, columns, "11/06/2024|Planting|Lavender borders, supply and plant|20.0% S|36|7.25|261.00",
                    "21/06/2024|Waste|Green waste removal|20.0% S|1|48.00|48.00", size=8)  # fmt: skip
    sheet.table(y + 6, "120 190r", "SUBTOTAL|569.00", "VAT TOTAL|113.80", "TOTAL|682.80")
    sheet.table(y + 24, "120 190r", "BALANCE DUE|GBP 682.80", bold=True, size=11)
    sheet.at(20, y + 40, "VAT SUMMARY", 8, bold=True)
    sheet.table(y + 46, "20 150r 190r", "VAT @ 20%|113.80|569.00", heading="RATE|VAT|NET", size=8)
    sheet.at(20, y + 70, "Bank transfer: Sort code 60-16-13, account 31926819, GB29 NWBK 6016 1331 9268 19", 8)
    return sheet.finish("invoice", {
        "invoice_number": "1162", "invoice_date": "2024-06-28", "payment_due_date": "2024-07-12",
        **totals("GBP 569.00 113.80 682.80"),
        "issuer": party("Oakfield Garden Services|3 Barn Close|GL7 2NN|Cirencester", vat_id="GB368427129",
                         iban="GB29NWBK60161331926819", email="hello@oakfield.example"),
        "recipient": party("The Manor House Hotel|Castle Combe|SN14 7HR|Chippenham"),
        "line_items": lines(
            "description quantity unit_price tax_rate net_amount",
            "Maintenance Lawn mowing and edging, front and rear lawns|4|65.00|20|260.00",
            "Planting Lavender borders, supply and plant|36|7.25|20|261.00",
            "Waste Green waste removal|1|48.00|20|48.00",
        ),
    })  # fmt: skip


def dutch_accounting() -> DrawnDocument:
    """An invoice from Dutch accounting software.

    Colons in a separate column, a discount column, VAT in a table.
    """
    sheet = Sheet()
    sheet.at(20, 20, "Technische Groothandel Van Berkel B.V.", 13, bold=True)
    sheet.rows(145, 16, "Ambachtsweg 27", "5627 BZ Eindhoven", "T 040 241 88 00", "administratie@vanberkel.example",
               "KvK 17084456", "BTW NL897787602B01", "IBAN NL30 RABO 0301 2345 67", size=7.5, pitch=3.5)  # fmt: skip
    sheet.rows(20, 52, "Installatiebedrijf Hermans", "Afd. Inkoop", "Postbus 114", "6040 AC Roermond")
    sheet.at(20, 85, "FACTUUR", 14, bold=True)
    sheet.table(93, "20 48 50 110 143 145", "Factuurnummer|:|24700318|Uw ordernummer|:|IN-20877",
                "Factuurdatum|:|13-06-2024|Debiteurnummer|:|101448",
                "Vervaldatum|:|13-07-2024|Pakbonnummer|:|PB24-5510")  # fmt: skip
    columns = "20 45 112r 115 145r 163r 190r"
    sheet.table(116, columns, "CU15-H|Koperbuis 15 mm hard, lengte 5 m|20|lgt|22,40|12,5|392,00",
                "KNP15|Knelkoppeling recht 15 mm|150|stuks|1,98|20|237,60",
                "AFD-10|Afdichtingsset|8|set|14,75||118,00", "VRACHT|Vrachtkosten|1||15,00||15,00",
                heading="Artikel|Omschrijving|Aantal|Eenheid|Prijs|Korting %|Bedrag")  # fmt: skip
    sheet.table(200, "20 60r 90r", "Hoog 21%|762,60|160,15", heading="BTW-code|Grondslag|BTW-bedrag", size=8)
    sheet.table(200, "130 190r", "Netto bedrag|762,60", "BTW-bedrag|160,15", "Totaal factuur EUR|922,75")
    sheet.at(20, 230, "Wij verzoeken u het bedrag binnen 30 dagen over te maken onder vermelding van 24700318.", 8)
    return sheet.finish("invoice", {
        "invoice_number": "24700318", "invoice_date": "2024-06-13", "payment_due_date": "2024-07-13",
        "po_reference": "IN-20877", "delivery_note_reference": "PB24-5510", **totals("EUR 762.60 160.15 922.75"),
        "issuer": party("Technische Groothandel Van Berkel B.V.|Ambachtsweg 27|5627 BZ|Eindhoven",
                         vat_id="NL897787602B01", iban="NL30RABO0301234567", registration_id="17084456",
                         email="administratie@vanberkel.example"),
        "recipient": party("Installatiebedrijf Hermans|Postbus 114|6040 AC|Roermond"),
        "line_items": lines(
            "article_number description quantity unit unit_price net_amount",
            "CU15-H|Koperbuis 15 mm hard, lengte 5 m|20|-|19.60|392.00",
            "KNP15|Knelkoppeling recht 15 mm|150|C62|1.584|237.60", "AFD-10|Afdichtingsset|8|SET|14.75|118.00",
            "VRACHT|Vrachtkosten|1|-|15.00|15.00",
        ),
    })  # fmt: skip


def danish_credit() -> DrawnDocument:
    """A credit note from Danish online accounting software.

    The issuer only in the footer, negative amounts in kroner.
    """
    sheet = Sheet()
    sheet.rows(20, 48, "Restaurant Havblik A/S", "Strandvejen 210", "3070 Snekkersten", "CVR-nr.: 94191629", size=10)
    sheet.at(20, 85, "Kreditnota", 16, bold=True)
    sheet.table(48, "140 190r", "Kreditnotanr.|20077", "Dato|2. april 2024", "Kundenr.|1183", "Vedr. faktura|10931")
    columns = "20 42 112r 116 150r 190r"
    sheet.table(98, columns, "4410|Tallerken, dyb, 24 cm|-12,00|stk.|64,50|-774,00",
                "4417|Kop, stentøj|-6,00|stk.|38,00|-228,00",
                heading="Nr.|Tekst|Antal|Enhed|Enhedspris|Pris")  # fmt: skip
    sheet.table(120, "130 190r", "Subtotal|-1.002,00", "Moms (25,00%)|-250,50", "Total DKK|-1.252,50")
    sheet.at(20, 150, "Beløbet modregnes i næste faktura.")
    sheet.at(45, 280, "Porcelænshuset ApS / Kongensgade 44 / 5000 Odense C / CVR-nr. DK67788079", 7.5)
    sheet.at(45, 284, "Tlf. 66 13 20 20 / bogholderi@porcelaenshuset.example / IBAN DK80 3000 0009 8765 43", 7.5)
    return sheet.finish("credit_note", {
        "credit_note_number": "20077", "credit_note_date": "2024-04-02", "invoice_reference": "10931",
        **totals("DKK 1002.00 250.50 1252.50"),
        "issuer": party("Porcelænshuset ApS|Kongensgade 44|5000|Odense C", vat_id="DK67788079",
                         iban="DK8030000009876543", email="bogholderi@porcelaenshuset.example"),
        "recipient": party("Restaurant Havblik A/S|Strandvejen 210|3070|Snekkersten"),
        "line_items": lines(
            "article_number description quantity unit unit_price net_amount",
            "4410|Tallerken, dyb, 24 cm|12|C62|64.50|774.00", "4417|Kop, stentøj|6|C62|38.00|228.00",
        ),
    })  # fmt: skip


def enterprise_order() -> DrawnDocument:
    """An English purchase order from a large ERP system.

    Vendor on the left, delivery address below, delivery date in a row under each line item.
    """
    sheet = Sheet()
    sheet.at(20, 18, "Halden Process Equipment AB", 13, bold=True)
    sheet.rows(20, 40, "Vendor address", size=7.5)
    sheet.rows(20, 45, "Severn Valve Castings plc", "Foundry House, 12 Dock Road", "GLOUCESTER GL1 2EH",
               "UNITED KINGDOM")  # fmt: skip
    sheet.rows(110, 18, "Purchase order", size=13, bold=True)
    sheet.table(26, "110 150", "PO number|4500771209", "Date|17.06.2024", "Vendor No.|200388", "Currency|GBP",
                "Contact person|Ingrid Lund", "E-Mail|ingrid.lund@halden.example", size=8.5)  # fmt: skip
    sheet.rows(20, 72, "Please deliver to:", size=7.5)
    sheet.rows(20, 77, "Halden Process Equipment AB", "Verkstadsgatan 14", "SE-417 55 Göteborg")
    sheet.rows(110, 72, "Terms of payment: Within 60 days without deduction", "Terms of delivery: FCA Gloucester",
               size=8)  # fmt: skip
    columns = "20 33 60 135r 138 165r 190r"
    y = sheet.table(102, columns, "00010|50011872|Valve body DN80 casting|40|PC|186.40|7,456.00",
                    heading="Item|Material|Description|Quantity|UM|Net price|Net amount")  # fmt: skip
    y = sheet.rows(60, y - 1, "Drawing HPE-80-114 rev. C", "Delivery date: 02.09.2024", size=8) + 1.5
    y = sheet.table(y, columns, "00020|50011880|Bonnet DN80 casting|40|PC|71.15|2,846.00")
    y = sheet.rows(60, y - 1, "Your material number SV-B80", "Delivery date: 02.09.2024", size=8)
    sheet.rule(y)
    sheet.table(y + 6, "120 190r", "Total net value excl. tax GBP|10,302.00", bold=True)
    sheet.at(
        20, y + 24, "Please confirm this order within three working days. Invoices without PO number are returned.", 8
    )
    sheet.at(
        20, 284, "Halden Process Equipment AB, Verkstadsgatan 14, SE-417 55 Göteborg, Sweden  VAT SE556012579001", 7
    )
    return sheet.finish("purchase_order", {
        "po_number": "4500771209", "order_date": "2024-06-17", "currency": "GBP", "total_net": "10302.00",
        "buyer": party("Halden Process Equipment AB|Verkstadsgatan 14|417 55|Göteborg", country="SE",
                        vat_id="SE556012579001", email="ingrid.lund@halden.example"),
        "supplier": party("Severn Valve Castings plc|Foundry House, 12 Dock Road|GL1 2EH|GLOUCESTER", country="GB"),
        "line_items": lines(
            "position article_number description quantity unit unit_price net_amount",
            "00010|50011872|Valve body DN80 casting Drawing HPE-80-114 rev. C|40|C62|186.40|7456.00",
            "00020|50011880|Bonnet DN80 casting|40|C62|71.15|2846.00",
        ),
    })  # fmt: skip


def german_delivery() -> DrawnDocument:
    """A German delivery note.

    Ordered, delivered and open quantities in adjacent columns, batch numbers below line items.
    """
    sheet = Sheet("times")
    sheet.at(20, 20, "Farben-Großhandel Lohmann oHG", 14, bold=True)
    sheet.at(20, 46, "Farben-Großhandel Lohmann oHG - Am Güterbahnhof 8 - 32756 Detmold", 6.5)
    sheet.rows(20, 52, "Malerbetrieb Kessler GmbH", "Warenannahme", "Bielefelder Str. 203", "32758 Detmold", size=10)
    sheet.table(52, "125 190r", "Lieferschein-Nr.:|LS-240987", "Lieferdatum:|05.07.2024", "Auftrags-Nr.:|AU-119320",
                "Ihre Bestellung:|K-2024/55 v. 03.07.2024", "Kunden-Nr.:|D10882", "Versandart:|Spedition")  # fmt: skip
    sheet.at(20, 92, "Lieferschein", 15, bold=True)
    sheet.at(20, 99, "Wir lieferten Ihnen vereinbarungsgemäß folgende Ware:")
    columns = "20 30 58 132r 150r 168r 174"
    y = sheet.table(109, columns, "1|4711-10|Silikatfarbe weiß 12,5 l|20|16|4|Gebinde",
                    heading="Pos.|Art.-Nr.|Bezeichnung|bestellt|geliefert|Rest|Einheit")  # fmt: skip
    y = sheet.rows(58, y - 1, "Charge: 240611-A", size=8) + 1
    y = sheet.table(y, columns, "2|0815-02|Malervlies 50 m²|10|10|0|Rolle")
    y = sheet.table(y, columns, "3|3300-9|Abdeckfolie extra stark|30|30|0|Stk.")
    sheet.rows(20, y + 8, "Gesamtgewicht: 412,5 kg    Anzahl Paletten: 2", size=8)
    sheet.table(250, "20 110", "Ware vollständig und unbeschädigt erhalten:|Datum, Unterschrift")
    sheet.table(278, "20 80 140", "Telefon 05231 70110|Amtsgericht Lemgo HRA 3301|Volksbank Ostwestfalen",
                "info@lohmann-farben.example|USt-IdNr. DE532650201|IBAN DE33 7002 0270 0654 3210 98",
                size=7)  # fmt: skip
    return sheet.finish("delivery_note", {
        "delivery_note_number": "LS-240987", "delivery_date": "2024-07-05", "po_reference": "K-2024/55",
        "supplier": party("Farben-Großhandel Lohmann oHG|Am Güterbahnhof 8|32756|Detmold", vat_id="DE532650201",
                           iban="DE33700202700654321098", registration_id="HRA 3301",
                           email="info@lohmann-farben.example"),
        "buyer": party("Malerbetrieb Kessler GmbH|Bielefelder Str. 203|32758|Detmold"),
        "line_items": lines(
            "position article_number description quantity unit", "1|4711-10|Silikatfarbe weiß 12,5 l|16|-",
            "2|0815-02|Malervlies 50 m²|10|-", "3|3300-9|Abdeckfolie extra stark|30|C62",
        ),
    })  # fmt: skip


PROGRAMS_NORTH = (
    online_bookkeeping,
    enterprise_billing,
    open_source_suite,
    cloud_credit,
    small_business,
    dutch_accounting,
    danish_credit,
    enterprise_order,
    german_delivery,
)
