"""Holdout documents, for which no rule was written or changed.

Their scores estimate how well an unknown document is extracted. If you change a rule for a holdout document, move the
document to another module and draw a new holdout document.
"""

from tests.documents.text.drawn_documents.sheet import DrawnDocument, Sheet, lines, party, totals


def nursery() -> DrawnDocument:
    """A German nursery's invoice.

    Latin plant names, sizes, a subtotal before freight, reduced and standard VAT rates.
    """
    sheet = Sheet()
    sheet.rows(20, 18, "Baumschule Harms", "Inhaberin Elke Harms", "Moorweg 44", "26655 Westerstede", size=9)
    sheet.rows(190, 18, "Tel. 04488 7710", "Fax 04488 7711", "www.baumschule-harms.example", size=8, right=True)
    sheet.rows(20, 48, "Stadt Leer (Ostfriesland)", "Fachdienst Grünflächen", "Rathausstraße 1", "26789 Leer", size=10)
    sheet.at(20, 80, "RECHNUNG", 15, bold=True)
    sheet.table(80, "110 150", "Rechnung Nr.:|24-1187", "Rechnungsdatum:|06.11.2024", "Ihr Auftrag vom:|21.10.2024",
                "Kundennummer:|4410")  # fmt: skip
    columns = "20 34 104 140r 164r 190r"
    sheet.table(112, columns, "12|Acer campestre, Feldahorn|H 3xv 14-16|198,00|7|2.376,00",
                "40|Carpinus betulus, Hainbuche|Hei 100-125|8,40|7|336,00",
                "52|Baumpfahl 250 cm, Kiefer|imprägniert|4,90|19|254,80",
                heading="Anzahl|Artikel|Größe|Einzelpreis|MwSt|Gesamt")  # fmt: skip
    sheet.table(138, "120 190r", "Zwischensumme|2.966,80", "Anlieferung frei Baustelle|95,00", "Summe netto|3.061,80",
                "7 % MwSt. von 2.712,00|189,84", "19 % MwSt. von 349,80|66,46", "Endbetrag EUR|3.318,10")  # fmt: skip
    sheet.rows(20, 180, "Zahlbar bis 06.12.2024 rein netto.",
        "Raiffeisenbank Westerstede, IBAN DE33 7002 0270 0654 3210 98",
               "USt-IdNr. DE532650201, Steuernummer 69/116/20418")  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "24-1187", "invoice_date": "2024-11-06", "payment_due_date": "2024-12-06",
        **totals("EUR 3061.80 256.30 3318.10"),
        "issuer": party("Baumschule Harms|Moorweg 44|26655|Westerstede", vat_id="DE532650201",
                         tax_number="69/116/20418", iban="DE33700202700654321098"),
        "recipient": party("Stadt Leer (Ostfriesland)|Rathausstraße 1|26789|Leer"),
        "line_items": [
            *lines(
                "quantity description unit_price tax_rate net_amount", "12|Acer campestre, Feldahorn|198.00|7|2376.00",
                "40|Carpinus betulus, Hainbuche|8.40|7|336.00", "52|Baumpfahl 250 cm, Kiefer|4.90|19|254.80",
            ),
            {"description": "Anlieferung frei Baustelle", "net_amount": "95.00"},
        ],
    })  # fmt: skip


def translator() -> DrawnDocument:
    """A Spanish translator's invoice to France: price per word, reverse charge.

    The month is in words.
    """
    sheet = Sheet("times")
    sheet.rows(20, 20, "Carmen Iglesias Prado", "Traductora jurada", "Calle Mayor 71, 3º B", "28013 Madrid", "España",
               "NIF: 51234567T", "carmen@iglesias-traduce.example")  # fmt: skip
    sheet.rows(
        120, 50, "Éditions du Sablier SARL", "18 rue des Carmes", "31000 Toulouse", "Francia", "TVA: FR95474740370"
    )
    sheet.at(20, 78, "Factura n.º 2024/029", 14, bold=True)
    sheet.at(20, 85, "Madrid, 15 de octubre de 2024")
    sheet.table(98, "20 120r 150r 190r", "Traducción de novela, capítulos 1-9|41.250|0,075|3.093,75",
                "Revisión de galeradas|12|38,00|456,00", heading="Descripción|Cantidad|Tarifa|Importe (€)")  # fmt: skip
    sheet.table(118, "130 190r", "Subtotal|3.549,75", "IVA (0 %)|0,00", "Total factura|3.549,75 €")
    sheet.rows(20, 145, "Operación exenta de IVA, inversión del sujeto pasivo (art. 196 Directiva 2006/112/CE).",
               "Vencimiento: 30 días. Transferencia a ES28 2100 0418 4502 0005 1011")  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "2024/029", "invoice_date": "2024-10-15", **totals("EUR 3549.75 0.00 3549.75"),
        "issuer": party("Carmen Iglesias Prado|Calle Mayor 71, 3º B|28013|Madrid", country="ES",
                         iban="ES2821000418450200051011", email="carmen@iglesias-traduce.example"),
        "recipient": party("Éditions du Sablier SARL|18 rue des Carmes|31000|Toulouse", country="FR",
                            vat_id="FR95474740370"),
        "line_items": lines(
            "description quantity unit_price net_amount", "Traducción de novela, capítulos 1-9|41250|0.075|3093.75",
            "Revisión de galeradas|12|38.00|456.00",
        ),
    })  # fmt: skip


def machine_shop() -> DrawnDocument:
    """An Austrian machine shop's order confirmation.

    Labels without colons, prices per hundred, a week as delivery date.
    """
    sheet = Sheet()
    sheet.at(20, 20, "Metallbau Ennstal GmbH", 14, bold=True)
    sheet.at(20, 46, "Metallbau Ennstal GmbH, Industriezeile 30, A-4400 Steyr", 6.5)
    sheet.rows(
        20,
        52,
        "Seilbahntechnik Hofer AG",
        "Einkauf, Frau Mag. Pichler",
        "Gewerbestraße 8",
        "A-6060 Hall in Tirol",
        size=10,
    )
    sheet.table(52, "125 162", "AUFTRAGSBESTÄTIGUNG|", bold=True)
    sheet.table(58, "125 162", "Nummer|AB-24/0778", "Datum|19.09.2024", "Ihre Bestellnummer|ST-88114", "vom|17.09.2024",
                "Sachbearbeiter|Hr. Lang")  # fmt: skip
    columns = "20 30 58 122r 126 150r 166r 190r"
    sheet.table(102, columns, "10|HS-4410|Hülse gedreht Ø 40x60, S355|250|Stk|1.184,00|100|2.960,00",
                "20|BZ-12|Bolzen 12h6 x 45, gehärtet|1.000|Stk|96,50|100|965,00",
                "30|VP|Verpackung und Fracht|1|psch|85,00|1|85,00",
                heading="Pos|Artikel|Bezeichnung|Menge|EH|Preis|PE|Betrag EUR", size=8.5)  # fmt: skip
    sheet.table(130, "126 190r", "Nettosumme|4.010,00", "+ 20 % MwSt.|802,00", "Gesamtsumme|4.812,00")
    sheet.rows(
        20,
        165,
        "Liefertermin: KW 44/2024, unverzollt ab Werk Steyr",
        "Zahlung: 14 Tage 2 % Skonto, 30 Tage netto",
        size=8.5,
    )
    sheet.at(20, 284, "FN 214466 k, LG Steyr - UID ATU21371423 - IBAN AT61 1904 3002 3457 3201", 7)
    return sheet.finish("order_confirmation", {
        "confirmation_number": "AB-24/0778", "confirmation_date": "2024-09-19", "po_reference": "ST-88114",
        **totals("EUR 4010.00 802.00 4812.00"),
        "supplier": party("Metallbau Ennstal GmbH|Industriezeile 30|4400|Steyr", country="AT", vat_id="ATU21371423",
                           iban="AT611904300234573201"),
        "buyer": party("Seilbahntechnik Hofer AG|Gewerbestraße 8|6060|Hall in Tirol", country="AT"),
        "line_items": lines(
            "position article_number description quantity unit unit_price price_basis_quantity net_amount",
            "10|HS-4410|Hülse gedreht Ø 40x60, S355|250|C62|1184.00|100|2960.00",
            "20|BZ-12|Bolzen 12h6 x 45, gehärtet|1000|C62|96.50|100|965.00",
            "30|VP|Verpackung und Fracht|1|-|85.00|-|85.00",
        ),
    })  # fmt: skip


def wine_merchant() -> DrawnDocument:
    """A French wine merchant's invoice.

    Bottles and cases, a column of tax codes, freight in the totals, VAT-exempt delivery abroad.
    """
    sheet = Sheet()
    sheet.at(105, 18, "CAVES DE LA TOUR", 15, bold=True)
    sheet.rows(
        105,
        23,
        "Négociant depuis 1921",
        "7 place du Marché - 21200 BEAUNE",
        "caves@latour-beaune.example",
        size=8,
        pitch=3.6,
    )
    sheet.rows(
        15, 42, "Vinothèque Blanc", "Chaussée de Wavre 318", "1040 Bruxelles", "BELGIQUE", "TVA BE0467898504", size=10
    )
    sheet.rows(15, 76, "Facture N° 2024-3318 du 21/11/2024", size=12, bold=True)
    sheet.rows(15, 83, "Commande client : VB-0117", "Transporteur : Ziegler", size=8.5)
    columns = "15 104r 124r 150r 166 195r"
    sheet.table(98, columns, "Savigny-lès-Beaune 2021, 75 cl|10|60|14,20|C|852,00",
        "Aligoté 2023, 75 cl|20|120|6,85|C|822,00",
                "Crémant brut, 75 cl|5|30|9,40|C|282,00",
                heading="Vin|Caisses|Bouteilles|Prix HT|Taxe|Total HT")  # fmt: skip
    sheet.table(124, "130 195r", "Total HT|1 956,00", "Transport|64,00", "TVA 0 % (livraison intracommunautaire)|0,00",
                "Total à régler EUR|2 020,00")  # fmt: skip
    sheet.rows(15, 160, "Échéance : 21 décembre 2024", "Exonération de TVA, article 262 ter I du CGI", size=8.5)
    sheet.at(15, 284, "RCS Dijon 303 265 045 - TVA FR40303265045 - IBAN FR16 3000 6000 0112 3456 7890 105", 7)
    return sheet.finish("invoice", {
        "invoice_number": "2024-3318", "invoice_date": "2024-11-21", "payment_due_date": "2024-12-21",
        "po_reference": "VB-0117", **totals("EUR 2020.00 0.00 2020.00"),
        "issuer": party("CAVES DE LA TOUR|7 place du Marché|21200|BEAUNE", vat_id="FR40303265045",
                         registration_id="303265045", iban="FR1630006000011234567890105",
                         email="caves@latour-beaune.example"),
        "recipient": party("Vinothèque Blanc|Chaussée de Wavre 318|1040|Bruxelles", country="BE",
        vat_id="BE0467898504"),
        "line_items": [
            *lines(
                "description quantity unit_price net_amount", "Savigny-lès-Beaune 2021, 75 cl|60|14.20|852.00",
                "Aligoté 2023, 75 cl|120|6.85|822.00", "Crémant brut, 75 cl|30|9.40|282.00",
            ),
            {"description": "Transport", "net_amount": "64.00"},
        ],
    })  # fmt: skip


HOLDOUT = (
    nursery,
    translator,
    machine_shop,
    wine_merchant,
)
