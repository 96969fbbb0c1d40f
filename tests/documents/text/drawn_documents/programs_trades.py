"""Documents from particular trades, such as tax advisers, builders and exporters."""

from tests.documents.text.drawn_documents.sheet import DrawnDocument, Sheet, lines, party, totals


def tax_adviser() -> DrawnDocument:
    """A German tax adviser's fee note with expenses and items from a fee scale.

    The number is in the subject line.
    """
    sheet = Sheet("times")
    sheet.at(105, 18, "Kanzlei Dr. Behrendt & Kollegen PartG mbB", 12, bold=True)
    sheet.rows(140, 26, "Steuerberater", "Elbchaussee 77", "22763 Hamburg", "Telefon 040 880 55-0",
        "Telefax 040 880 55-99",
               "kanzlei@behrendt-stb.example", size=8, pitch=3.6)  # fmt: skip
    sheet.at(25, 50, "Dr. Behrendt & Kollegen PartG mbB, Elbchaussee 77, 22763 Hamburg", 6)
    sheet.rows(25, 56, "Segelmacherei Thode OHG", "z. Hd. Herrn Thode", "Fischmarkt 2", "22767 Hamburg", size=10)
    sheet.at(190, 88, "Hamburg, 30. September 2024", right=True)
    sheet.at(25, 96, "Gebührenrechnung Nr. 24/1187", 12, bold=True)
    sheet.rows(25, 102, "Mandant 10442 - Leistungszeitraum Januar bis Juni 2024")
    columns = "25 88 136r 160r 190r"
    sheet.table(114, columns, "Finanzbuchführung, § 33 Abs. 1|6 Monate|18.400,00|6/10|1.062,00",
                "Lohnbuchführung, § 34 Abs. 2|24 Abr.||15,00|360,00",
                "Umsatzsteuer-Voranmeldung, § 24|6|1.840,00|2/10|228,00",
                heading="Tätigkeit|Menge|Gegenstandswert|Satz|Gebühr EUR")  # fmt: skip
    sheet.table(142, "100 190r", "Zwischensumme|1.650,00", "Auslagenpauschale § 16|20,00", "Nettobetrag|1.670,00",
                "19 % Umsatzsteuer|317,30", "Rechnungsbetrag|1.987,30")  # fmt: skip
    sheet.rows(25, 180, "Wir bitten um Überweisung bis zum 14.10.2024.",
               "Hamburger Sparkasse, IBAN DE66 3705 0198 0012 3456 78, USt-IdNr. DE342366712")  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "24/1187", "invoice_date": "2024-09-30", "payment_due_date": "2024-10-14",
        **totals("EUR 1670.00 317.30 1987.30"),
        "issuer": party("Dr. Behrendt & Kollegen PartG mbB|Elbchaussee 77|22763|Hamburg", vat_id="DE342366712",
                         iban="DE66370501980012345678", email="kanzlei@behrendt-stb.example"),
        "recipient": party("Segelmacherei Thode OHG|Fischmarkt 2|22767|Hamburg"),
        "line_items": lines(
            "description net_amount", "Finanzbuchführung, § 33 Abs. 1|1062.00", "Lohnbuchführung, § 34 Abs. 2|360.00",
            "Umsatzsteuer-Voranmeldung, § 24|228.00", "Auslagenpauschale § 16|20.00",
        ),
    })  # fmt: skip


def parts_dealer() -> DrawnDocument:
    """A German car parts dealer's invoice.

    Article numbers in a second row of each line item, a percentage discount on the total.
    """
    sheet = Sheet()
    sheet.at(20, 18, "KFZ-TEILE HAGEMANN", 16, bold=True)
    sheet.rows(20, 24, "Inhaber: Dirk Hagemann", "Werler Straße 190 - 59069 Hamm", size=8, pitch=3.6)
    sheet.rows(20, 50, "Autohaus Sievers GmbH", "Ahlener Weg 4", "59227 Ahlen", size=10)
    sheet.table(50, "120 150", "Rechnung:|471188", "vom:|17.07.2024", "Kunde:|20310", "Lieferschein:|88120",
                "Seite:|1")  # fmt: skip
    columns = "20 32 115r 119 150r 190r"
    y = 92.0
    sheet.table(84, columns, "Pos|Text / Artikelnummer|Menge|ME|Einzelpreis|Gesamtpreis", bold=True)
    for texts, article, numbers in (("1|Bremsscheibe vorn belüftet", "BS-2280", "2|Stk|38,40|76,80"),
                                    ("2|Bremsbelagsatz vorn", "BB-1147", "1|Satz|41,90|41,90"),
                                    ("3|Bremsflüssigkeit DOT 4, 1 l", "BF-D4", "2|Dose|7,15|14,30")):  # fmt: skip
        sheet.table(y, "20 32", texts)
        sheet.table(y, "115r 119 150r 190r", numbers)
        sheet.at(32, y + 4, article, 8)
        y += 10
    sheet.table(
        y + 4, "120 190r", "Summe|133,00", "Rabatt 10 %|-13,30", "Netto|119,70", "MwSt 19 %|22,74", "Brutto EUR|142,44"
    )
    sheet.at(20, y + 40, "Zahlung sofort ohne Abzug. Die Ware bleibt bis zur vollständigen Bezahlung unser Eigentum.")
    sheet.at(
        20, 284, "Volksbank Hamm IBAN DE33 7002 0270 0654 3210 98 - Steuernr. 322/5110/0997 - USt-ID DE676122202", 7
    )
    return sheet.finish("invoice", {
        "invoice_number": "471188", "invoice_date": "2024-07-17", "delivery_note_reference": "88120",
        **totals("EUR 119.70 22.74 142.44"),
        "issuer": party("KFZ-TEILE HAGEMANN|Werler Straße 190|59069|Hamm", vat_id="DE676122202",
                         tax_number="322/5110/0997", iban="DE33700202700654321098"),
        "recipient": party("Autohaus Sievers GmbH|Ahlener Weg 4|59227|Ahlen"),
        "line_items": [
            *lines(
                "position description article_number quantity unit unit_price net_amount",
                "1|Bremsscheibe vorn belüftet|BS-2280|2|C62|38.40|76.80",
                "2|Bremsbelagsatz vorn|BB-1147|1|SET|41.90|41.90",
                "3|Bremsflüssigkeit DOT 4, 1 l|BF-D4|2|-|7.15|14.30",
            ),
            {"description": "Rabatt", "net_amount": "-13.30"},
        ],
    })  # fmt: skip


def french_works() -> DrawnDocument:
    """A French building firm's invoice for work done.

    Positions such as 1.2, a VAT column, an advance payment deducted at the end.
    """
    sheet = Sheet()
    sheet.at(15, 18, "CHARPENTE DU VERCORS", 13, bold=True)
    sheet.rows(15, 23, "Entreprise générale du bâtiment", "320 route de Lans", "38250 VILLARD-DE-LANS",
               "Tél : 04 76 95 00 11", "Siret : 954 747 403 00022 - APE 4391A", size=8, pitch=3.7)  # fmt: skip
    sheet.rows(115, 42, "Doit :", size=8)
    sheet.rows(115, 47, "Monsieur et Madame Bernard", "12 chemin du Bois", "38880 AUTRANS", size=10)
    sheet.at(15, 72, "FACTURE n° 24-0218", 13, bold=True)
    sheet.rows(
        15, 78, "Villard-de-Lans, le 14 juin 2024", "Chantier : réfection de toiture - Devis n° D24-0091 du 11/03/2024"
    )
    columns = "15 30 112r 116 140r 158r 195r"
    y = sheet.table(94, columns, "1.1|Dépose de la couverture existante|128,00|m2|14,50|10,00|1 856,00",
                    heading="N°|Désignation|Qté|U|P.U. HT|TVA|Montant HT")  # fmt: skip
    y = sheet.table(y, columns, "1.2|Fourniture et pose de tuiles|128,00|m2|62,00|10,00|7 936,00")
    y = sheet.rows(30, y - 1, "tuiles terre cuite, coloris rouge nuancé,", "y compris liteaux", size=8, pitch=3.6) + 1.5
    y = sheet.table(
        y,
        columns,
        "1.3|Gouttière zinc|22,50|ml|48,00|10,00|1 080,00",
        "2.1|Location échafaudage|1,00|ens|650,00|20,00|650,00",
    )
    sheet.table(y + 8, "125 195r", "Montant total HT|11 522,00", "TVA 10,00 %|1 087,20", "TVA 20,00 %|130,00",
                "Montant total TTC|12 739,20", "Acompte reçu le 02/04/2024|-4 000,00",
                "Reste à payer|8 739,20 €")  # fmt: skip
    sheet.rows(15, 235, "Payable au plus tard le 14/07/2024 par virement : FR70 3000 6000 0112 3456 7890 103",
               "Assurance décennale : MAAF n° 38 114 552 - couverture France métropolitaine", size=8)  # fmt: skip
    sheet.at(15, 284, "SARL au capital de 12 000 € - RCS Grenoble 954 747 403 - TVA : FR95474740370", 7)
    return sheet.finish("invoice", {
        "invoice_number": "24-0218", "invoice_date": "2024-06-14", "payment_due_date": "2024-07-14",
        **totals("EUR 11522.00 1217.20 12739.20"),
        "issuer": party("CHARPENTE DU VERCORS|320 route de Lans|38250|VILLARD-DE-LANS", vat_id="FR95474740370",
                         iban="FR7030006000011234567890103", registration_id="95474740300022"),
        "recipient": party("Monsieur et Madame Bernard|12 chemin du Bois|38880|AUTRANS"),
        "line_items": lines(
            "position description quantity unit unit_price tax_rate net_amount",
            "1.1|Dépose de la couverture existante|128.00|MTK|14.50|10|1856.00",
            "1.2|Fourniture et pose de tuiles tuiles terre cuite, coloris rouge nuancé, y compris "
            "liteaux|128.00|MTK|62.00|10|"
            "7936.00", "1.3|Gouttière zinc|22.50|-|48.00|10|1080.00",
            "2.1|Location échafaudage|1.00|-|650.00|20|650.00",
        ),
    })  # fmt: skip


def export_invoice() -> DrawnDocument:
    """An Italian firm's English invoice in dollars.

    A row of labels, weights and origin, the total in words after 'Say'.
    """
    sheet = Sheet()
    sheet.at(105, 16, "TESSITURA BRIANZA S.P.A.", 14, bold=True)
    sheet.rows(
        105, 21, "Via Manzoni 31 - 20841 Carate Brianza (MB) - Italy", "VAT no. IT01893560159", size=8, pitch=3.6
    )
    sheet.rows(
        15, 36, "Messrs.", "HARROW & BLYTHE FABRICS INC.", "1411 Broadway, 12th Floor", "New York, NY 10018", "U.S.A."
    )
    sheet.table(66, "15 55 95 135 170", "2024/E/0412|18/09/2024|LC 60 days|Ex Works|USD", size=8.5,
                heading="Invoice no.|Date|Payment|Delivery|Currency")  # fmt: skip
    sheet.rows(15, 82, "Your order no. HB-2207 of 02/08/2024", "Country of origin: Italy", size=8)
    columns = "15 48 112r 116 145r 190r"
    y = sheet.table(94, columns, "TW-118/07|Wool twill, 150 cm, navy|420.50|mtr|18.40|7,737.20",
                    "TW-118/11|Wool twill, 150 cm, charcoal|380.00|mtr|18.40|6,992.00",
                    "LN-09/02|Linen plain weave, 140 cm|1,250.00|mtr|9.75|12,187.50",
                    heading="Article|Description|Quantity|Unit|Unit price|Amount")  # fmt: skip
    sheet.table(y + 6, "116 190r", "Total goods|26,916.70", "Packing|120.00", "Total invoice USD|27,036.70")
    sheet.rows(15, y + 28, "Say: twenty-seven thousand thirty-six and 70/100 dollars",
        "Net weight 812 kg - Gross weight 846 kg - 34 rolls",
               "Not subject to VAT, art. 8 D.P.R. 633/72", size=8)  # fmt: skip
    sheet.at(15, 282, "Bank: Intesa Sanpaolo, IBAN IT60 S030 6909 6061 0000 0123 456, SWIFT BCITITMM", 7)
    return sheet.finish("invoice", {
        "invoice_number": "2024/E/0412", "invoice_date": "2024-09-18", "po_reference": "HB-2207", "currency": "USD",
        "total_gross": "27036.70",
        "issuer": party("TESSITURA BRIANZA S.P.A.|Via Manzoni 31|20841|Carate Brianza (MB)", country="IT",
                         vat_id="IT01893560159", iban="IT60S0306909606100000123456"),
        "recipient": party("HARROW & BLYTHE FABRICS INC.|1411 Broadway, 12th Floor|10018|New York", country="US"),
        "line_items": [
            *lines(
                "article_number description quantity unit unit_price net_amount",
                "TW-118/07|Wool twill, 150 cm, navy|420.50|MTR|18.40|7737.20",
                "TW-118/11|Wool twill, 150 cm, charcoal|380.00|MTR|18.40|6992.00",
                "LN-09/02|Linen plain weave, 140 cm|1250.00|MTR|9.75|12187.50",
            ),
            {"description": "Packing", "net_amount": "120.00"},
        ],
    })  # fmt: skip


def dutch_order() -> DrawnDocument:
    """A Dutch purchase order.

    'Leverancier' above the supplier, a separate delivery address, a column of delivery weeks.
    """
    sheet = Sheet()
    sheet.at(20, 20, "INKOOPORDER", 17, bold=True)
    sheet.rows(
        140,
        18,
        "Machinefabriek Kuipers B.V.",
        "Nijverheidsstraat 45",
        "7461 AD Rijssen",
        "inkoop@kuipers.example",
        size=8.5,
    )
    sheet.rows(20, 40, "Leverancier", size=8, bold=True)
    sheet.rows(20, 45, "Lagertechniek Noord B.V.", "Energieweg 102", "9743 AN Groningen")
    sheet.rows(80, 40, "Afleveradres", size=8, bold=True)
    sheet.rows(80, 45, "Magazijn 3", "Molendijk Noord 90", "7461 JE Rijssen")
    sheet.table(40, "140 168", "Ordernummer|IO-240771", "Orderdatum|05-11-2024", "Onze ref.|M. Kuipers",
                "Uw offerte|OF-5512", size=8.5)  # fmt: skip
    columns = "20 30 62 118r 122 148r 168 195r"
    sheet.table(82, columns, "1|6205-2RS|Groefkogellager 25x52x15|60|st|4,85|wk 47|291,00",
                "2|UCP-206|Lagerblok 30 mm|12|st|17,40|wk 48|208,80",
                "3|LGMT-2|Lagervet, patroon 420 ml|24|st|8,15|wk 47|195,60",
                heading="Nr|Artikel|Omschrijving|Aantal|Eenheid|Prijs|Levering|Totaal", size=8.5)  # fmt: skip
    sheet.table(112, "150 195r", "Totaal excl. btw|€ 695,40")
    sheet.at(20, 130, "Op deze order zijn onze algemene inkoopvoorwaarden van toepassing.", 8)
    return sheet.finish("purchase_order", {
        "po_number": "IO-240771", "order_date": "2024-11-05", "quotation_reference": "OF-5512", "currency": "EUR",
        "total_net": "695.40",
        "buyer": party("Machinefabriek Kuipers B.V.|Nijverheidsstraat 45|7461 AD|Rijssen",
        email="inkoop@kuipers.example"),
        "supplier": party("Lagertechniek Noord B.V.|Energieweg 102|9743 AN|Groningen"),
        "line_items": lines(
            "position article_number description quantity unit unit_price net_amount",
            "1|6205-2RS|Groefkogellager 25x52x15|60|C62|4.85|291.00", "2|UCP-206|Lagerblok 30 mm|12|C62|17.40|208.80",
            "3|LGMT-2|Lagervet, patroon 420 ml|24|C62|8.15|195.60",
        ),
    })  # fmt: skip


def danish_wholesaler() -> DrawnDocument:
    """A Danish wholesaler's invoice with discounts and an environmental fee.

    The labels are in capitals above their values.
    """
    sheet = Sheet()
    sheet.at(20, 20, "FAKTURA", 18, bold=True)
    sheet.rows(190, 18, "Elgros Midtjylland A/S", "Industriparken 40", "7400 Herning", "CVR 67788079",
        "Tlf. 97 22 40 40",
               size=8.5, pitch=3.9, right=True)  # fmt: skip
    sheet.rows(20, 42, "El-installatør Brandt & Søn", "Nørregade 18", "7500 Holstebro", size=10)
    sheet.table(70, "20 52 88 124 158", "220418|12.09.2024|30.09.2024|SAG-771|104455", size=9,
                heading="FAKTURANR.|FAKTURADATO|FORFALDSDATO|DERES REF.|KUNDENR.")  # fmt: skip
    columns = "20 46 112r 116 144r 160r 190r"
    sheet.table(90, columns, "5703302|Installationskabel 3G1,5, 100 m|4|rl|389,00|35,0|1.011,40",
                "1006881|Stikkontakt 1,5 modul hvid|50|stk|42,80|40,0|1.284,00",
                "9000|Miljøbidrag|1|stk|38,00||38,00", heading="VARENR|VARETEKST|ANTAL|ENH|PRIS|RAB%|BELØB",
                size=8.5)  # fmt: skip
    sheet.table(118, "130 190r", "Varer i alt|2.333,40", "Momspligtigt beløb|2.333,40", "25% moms|583,35",
                "Fakturabeløb DKK|2.916,75")  # fmt: skip
    sheet.at(20, 284, "Ringkjøbing Landbobank IBAN DK80 3000 0009 8765 43 - Ved for sen betaling tilskrives rente.", 7)
    return sheet.finish("invoice", {
        "invoice_number": "220418", "invoice_date": "2024-09-12", "payment_due_date": "2024-09-30",
        **totals("DKK 2333.40 583.35 2916.75"),
        "issuer": party("Elgros Midtjylland A/S|Industriparken 40|7400|Herning", iban="DK8030000009876543"),
        "recipient": party("El-installatør Brandt & Søn|Nørregade 18|7500|Holstebro"),
        "line_items": lines(
            "article_number description quantity unit unit_price net_amount",
            "5703302|Installationskabel 3G1,5, 100 m|4|-|252.85|1011.40",
            "1006881|Stikkontakt 1,5 modul hvid|50|C62|25.68|1284.00", "9000|Miljøbidrag|1|C62|38.00|38.00",
        ),
    })  # fmt: skip


PROGRAMS_TRADES = (
    tax_adviser,
    parts_dealer,
    french_works,
    export_invoice,
    dutch_order,
    danish_wholesaler,
)
