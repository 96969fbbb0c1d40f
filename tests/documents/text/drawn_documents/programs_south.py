"""Documents in the style of southern European and Swiss business software."""

from tests.documents.text.drawn_documents.sheet import DrawnDocument, Sheet, lines, party, totals


def italian_courtesy_copy() -> DrawnDocument:
    """The courtesy copy of an Italian electronic invoice.

    Two blocks with the parties' labeled data, then tables with a heading above every value.
    """
    sheet = Sheet()
    sheet.at(12, 14, "Cedente/prestatore (fornitore)", 8, bold=True)
    sheet.rows(12, 19, "Identificativo fiscale ai fini IVA: IT01572670154", "Codice fiscale: 01572670154",
               "Denominazione: Tipografia Lariana S.r.l.", "Regime fiscale: RF01 (ordinario)",
               "Indirizzo: Via per Cernobbio 18", "Comune: Como Provincia: CO", "Cap: 22100 Nazione: IT",
               "Email: amministrazione@lariana.example", size=7.5, pitch=3.8)  # fmt: skip
    sheet.at(110, 14, "Cessionario/committente (cliente)", 8, bold=True)
    sheet.rows(110, 19, "Identificativo fiscale ai fini IVA: IT06165300150", "Codice fiscale: 06165300150",
               "Denominazione: Cantine Oltrepò Soc. Agr.", "Indirizzo: Strada dei Vigneti 3",
               "Comune: Broni Provincia: PV", "Cap: 27043 Nazione: IT", size=7.5, pitch=3.8)  # fmt: skip
    sheet.table(58, "12 60 85 130 165", "TD01 (fattura)||318/A|21-05-2024|M5UXCR1",
                heading="Tipologia documento|Art. 73|Numero documento|Data documento|Codice destinatario",
                    size=7.5)  # fmt: skip
    column_positions = "12 32 102r 122r 126 155r 170r 198r"
    y = sheet.table(74, column_positions, "ET-75|Etichette adesive 75x50, bobina|20,00|41,500000|NR||22,00|830,00",
                    heading="Cod. articolo|Descrizione|Quantità|Prezzo unitario|UM|Sconto o magg.|%IVA|Prezzo totale",
                    size=7.5)  # fmt: skip
    y = sheet.rows(32, y - 1, "Lotto 24/118 - carta vergata avorio", size=7) + 1
    sheet.table(y, column_positions, "CP-6|Cartone 6 bottiglie stampato 2 colori|600,00|0,890000|NR||22,00|534,00",
                "|Vs. ordine n. 77/2024 del 06/05/2024||||||", size=7.5)  # fmt: skip
    sheet.at(80, 150, "RIEPILOGHI IVA E TOTALI", 8, bold=True)
    sheet.table(156, "12 80r 120r 160r 198r", "I (esigibilità immediata)|22,00||1.364,00|300,08",
        heading="esigibilità iva / riferimenti normativi|%IVA|Spese accessorie|Totale imponibile|Totale imposta",
                size=7.5)  # fmt: skip
    sheet.table(172, "12 80r 130r 198r", "||EUR|1.664,08",
                heading="Importo bollo|Sconto/Maggiorazione|Valuta|Totale documento", size=7.5)  # fmt: skip
    sheet.table(188, "12 60 125 158 198r",
        "MP05 Bonifico|IT60S0306909606100000123456|Banca Lariana|20-06-2024|1.664,08",
                heading="Modalità pagamento|IBAN|Istituto|Data scadenza|Importo", size=7.5)  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "318/A", "invoice_date": "2024-05-21", "payment_due_date": "2024-06-20",
        "po_reference": "77/2024", **totals("EUR 1364.00 300.08 1664.08"),
        "issuer": party("Tipografia Lariana S.r.l.|Via per Cernobbio 18|22100|Como", vat_id="IT01572670154",
                         country="IT", iban="IT60S0306909606100000123456", email="amministrazione@lariana.example"),
        "recipient": party("Cantine Oltrepò Soc. Agr.|Strada dei Vigneti 3|27043|Broni", vat_id="IT06165300150",
                            country="IT"),
        "line_items": lines(
            "article_number description quantity unit_price unit tax_rate net_amount",
            "ET-75|Etichette adesive 75x50, bobina Lotto 24/118 - carta vergata avorio|20|41.5|C62|22|830.00",
            "CP-6|Cartone 6 bottiglie stampato 2 colori|600|0.89|C62|22|534.00",
        ),
    })  # fmt: skip


def spanish_cloud() -> DrawnDocument:
    """An invoice from Spanish cloud software.

    Price before quantity, line totals with tax in the last column, months in words.
    """
    sheet = Sheet()
    sheet.at(20, 24, "Factura", 20, bold=True)
    sheet.table(33, "20 50", "Número #|F240086", "Fecha|9 de abril de 2024", "Vencimiento|9 de mayo de 2024")
    sheet.rows(135, 22, "Soluciones Audiovisuales Turia, S.L.", "ESB40659054", "Carrer de Sagunt 122, bajo",
               "46009 Valencia, España", "facturas@avturia.example", size=8.5)  # fmt: skip
    sheet.rows(20, 60, "Fundación Teatro Principal", "ESB95852380", "Plaza Mayor 1", "26001 Logroño, España")
    column_positions = "20 105r 127r 149r 161r 190r"
    y = sheet.table(92, column_positions, "Alquiler proyector láser|320,00€|2|640,00€|21%|774,40€",
                    heading="CONCEPTO|PRECIO|UNIDADES|SUBTOTAL|IVA|TOTAL")  # fmt: skip
    y = sheet.rows(20, y - 1, "Funciones del 5 y 6 de abril", size=8) + 1.5
    sheet.table(y, column_positions, "Técnico de sonido|28,50€|16|456,00€|21%|551,76€",
                "Transporte y montaje|150,00€|1|150,00€|21%|181,50€")  # fmt: skip
    sheet.table(140, "130 190r", "BASE IMPONIBLE|1.246,00€", "IVA 21%|261,66€")
    sheet.table(152, "130 190r", "TOTAL|1.507,66€", bold=True, size=12)
    sheet.rows(20, 175, "Condiciones de pago", "Pagar por transferencia bancaria al siguiente número de cuenta:",
               "ES39 2100 0418 4502 0005 1007", size=8.5)  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "F240086", "invoice_date": "2024-04-09", "payment_due_date": "2024-05-09",
        **totals("EUR 1246.00 261.66 1507.66"),
        "issuer": party("Soluciones Audiovisuales Turia, S.L.|Carrer de Sagunt 122, bajo|46009|Valencia", country="ES",
                         vat_id="ESB40659054", iban="ES3921000418450200051007", email="facturas@avturia.example"),
        "recipient": party("Fundación Teatro Principal|Plaza Mayor 1|26001|Logroño", country="ES",
                            vat_id="ESB95852380"),
        "line_items": lines(
            "description unit_price quantity net_amount tax_rate",
            "Alquiler proyector láser Funciones del 5 y 6 de abril|320.00|2|640.00|21",
            "Técnico de sonido|28.50|16|456.00|21", "Transporte y montaje|150.00|1|150.00|21",
        ),
    })  # fmt: skip


def french_trade() -> DrawnDocument:
    """A two-page invoice from French trade software: VAT codes, 'A reporter'.

    The number and date are in a row of labels.
    """
    sheet = Sheet()
    sheet.at(12, 18, "ÉTABLISSEMENTS MOREL", 14, bold=True)
    sheet.rows(12, 23, "Fournitures industrielles", "ZI des Paluds - 310 avenue de la Fleuride", "13400 AUBAGNE",
               "Tél. 04 42 84 10 10 - compta@morel.example", size=8, pitch=3.7)  # fmt: skip
    sheet.rows(120, 42, "GARAGE DU PRADO", "Monsieur Xavier Blanc", "118 avenue du Prado", "13008 MARSEILLE", size=10)
    label_columns = "12 50 82 112 150"
    heading = "FACTURE N°|Date|Code client|Échéance|Page"
    sheet.table(72, label_columns, "FA0024418|18/07/24|CGPRADO|31/08/24|1/2", heading=heading, size=8)
    sheet.rows(12, 86, "Bon de livraison n° BL0038871 du 16/07/24 - Votre commande n° 2024-771", size=8)
    column_positions = "12 36 112r 132r 148r 180r 194r"
    columns = "Référence|Désignation|Qté|P.U. HT|% REM|Montant HT|TVA"
    y = sheet.table(96, column_positions, "FLT-0451|Filtre à huile|24|6,12|25,00|110,16|1",
                    "PLQ-2207|Jeu de plaquettes avant|8|38,90|25,00|233,40|1",
                    "HUI-5W30|Huile moteur 5W30, fût 60 L|1|289,00||289,00|1", heading=columns, size=8)  # fmt: skip
    sheet.table(y + 6, "148r 180r", "A reporter|632,56", bold=True, size=8)
    sheet.add_page()
    sheet.table(30, label_columns, "FA0024418|18/07/24|CGPRADO|31/08/24|2/2", heading=heading, size=8)
    y = sheet.table(48, "148r 180r", "Report|632,56", bold=True, size=8)
    sheet.table(y, column_positions, "MAN-12|Manuel d'entretien|3|22,00||66,00|2",
                "PNE-205|Pneu 205/55 R16 91V|1 004|0,50||502,00|1", size=8)  # fmt: skip
    sheet.table(210, "12 40r 70r 98r", "1|1 134,56|20,00|226,91", "2|66,00|5,50|3,63",
                heading="Code|Base HT|Taux|Montant TVA", size=8)  # fmt: skip
    sheet.table(210, "110 194r", "Total HT|1 200,56", "Total TVA|230,54", "Total TTC|1 431,10", "Acompte|0,00", size=8)
    sheet.table(234, "110 194r", "NET A PAYER|1 431,10 €", bold=True, size=10)
    sheet.at(12, 278, "SAS au capital de 150 000 € - RCS Marseille 065 898 934 - N° TVA intracom. : FR47065898934", 7)
    sheet.at(12, 282, "Domiciliation : BNP Paribas - IBAN FR54 3000 6000 0112 3456 7890 100", 7)
    return sheet.finish("invoice", {
        "invoice_number": "FA0024418", "invoice_date": "2024-07-18", "payment_due_date": "2024-08-31",
        "delivery_note_reference": "BL0038871", "po_reference": "2024-771", **totals("EUR 1200.56 230.54 1431.10"),
        "issuer": party("ÉTABLISSEMENTS MOREL|ZI des Paluds - 310 avenue de la Fleuride|13400|AUBAGNE",
                         vat_id="FR47065898934", iban="FR5430006000011234567890100", registration_id="065898934",
                         email="compta@morel.example"),
        "recipient": party("GARAGE DU PRADO|118 avenue du Prado|13008|MARSEILLE"),
        "line_items": lines(
            "article_number description quantity unit_price net_amount",
            "FLT-0451|Filtre à huile|24|4.59|110.16", "PLQ-2207|Jeu de plaquettes avant|8|29.175|233.40",
            "HUI-5W30|Huile moteur 5W30, fût 60 L|1|289.00|289.00", "MAN-12|Manuel d'entretien|3|22.00|66.00",
            "PNE-205|Pneu 205/55 R16 91V|1004|0.50|502.00",
        ),
    })  # fmt: skip


def swiss_french() -> DrawnDocument:
    """An invoice from French-speaking Switzerland.

    Apostrophes and dots in numbers, the town before the date, a rounded total.
    """
    sheet = Sheet()
    sheet.rows(20, 20, "Atelier Mécanique Lavaux Sàrl", "Route de la Corniche 14", "1096 Cully",
        "TVA: CHE-876.782.899 TVA",
               size=8.5)  # fmt: skip
    sheet.rows(120, 48, "Commune de Bourg-en-Lavaux", "Service des travaux", "Case postale 112", "1096 Cully", size=10)
    sheet.at(20, 82, "Cully, le 23 août 2024", 9)
    sheet.at(20, 92, "Facture RE-02216", 15, bold=True)
    sheet.table(
        100, "20 60", "Vos références|Mme Aline Rochat", "N° client|20118", "Payable jusqu'au|22.09.2024", size=8.5
    )
    column_positions = "20 28 118r 122 155r 190r"
    sheet.table(122, column_positions, "1|Révision de la tondeuse autoportée|1.00|forf.|680.00|680.00",
                "2|Lames de rechange 122 cm|6.00|pce|48.50|291.00", "3|Main-d'oeuvre|3.75|h|118.00|442.50",
                heading="Pos.|Désignation|Quantité|Unité|Prix unitaire|Prix total")  # fmt: skip
    sheet.table(150, "120 190r", "Total HT|1'413.50", "TVA 8.10% (1'413.50)|114.49", "Arrondi|0.01")
    sheet.table(166, "120 190r", "Total CHF TTC|1'528.00", bold=True)
    sheet.rows(20, 185, "Nous vous remercions de votre confiance et vous prions d'agréer nos salutations distinguées.",
               "BCV, 1001 Lausanne - IBAN CH91 0070 0110 2001 2345 6", size=8.5)  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "RE-02216", "invoice_date": "2024-08-23", "payment_due_date": "2024-09-22",
        **totals("CHF 1413.50 114.49 1528.00"),
        "issuer": party("Atelier Mécanique Lavaux Sàrl|Route de la Corniche 14|1096|Cully",
                         vat_id="CHE876782899TVA", iban="CH9100700110200123456"),
        "recipient": party("Commune de Bourg-en-Lavaux|Case postale 112|1096|Cully"),
        "line_items": lines(
            "position description quantity unit unit_price net_amount",
            "1|Révision de la tondeuse autoportée|1.00|-|680.00|680.00",
            "2|Lames de rechange 122 cm|6.00|C62|48.50|291.00",
            "3|Main-d'oeuvre|3.75|HUR|118.00|442.50",
        ),
    })  # fmt: skip


PROGRAMS_SOUTH = (
    italian_courtesy_copy,
    spanish_cloud,
    french_trade,
    swiss_french,
)
