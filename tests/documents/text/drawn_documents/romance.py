"""Documents in French, Italian and Spanish."""

from tests.documents.text.drawn_documents.sheet import DrawnDocument, Sheet, lines, party, totals


def french_title() -> DrawnDocument:
    """A French craftsman's invoice: number in the title, SIRET in the footer.

    Numbers contain spaces.
    """
    sheet = Sheet()
    sheet.at(15, 20, "SARL Menuiserie Garonne", 13, bold=True)
    sheet.rows(15, 25, "8 chemin des Acacias", "31200 Toulouse", "Tél. : 05 61 00 11 22")
    sheet.rows(125, 45, "Madame Claire Fontaine", "27 bis rue Victor Hugo", "31000 TOULOUSE", size=10)
    sheet.at(15, 75, "FACTURE N° FA-2024-0117", 15, bold=True)
    sheet.at(15, 82, "Date : 3 mars 2024")
    sheet.at(15, 87, "Échéance : 2 avril 2024")
    columns = "15 115r 120 150r 168r 195r"
    sheet.table(100, columns, "Désignation|Qté|Unité|P.U. HT|TVA|Total HT", bold=True)
    y = sheet.table(107, columns, "Porte d'entrée en chêne massif|1,00|u|1 890,00 €|10 %|1 890,00 €")
    y = sheet.rows(15, y - 0.5, "dimensions 215 x 90 cm, pose comprise", size=8)
    y = sheet.table(y + 2, columns, "Plinthes chêne|24,50|m|14,20 €|20 %|347,90 €")
    y = sheet.table(y + 1, columns, "Main d'oeuvre|8,00|h|45,00 €|10 %|360,00 €")
    sheet.table(
        y + 10, "135 195r", "Total HT|2 597,90 €", "TVA 10 %|225,00 €", "TVA 20 %|69,58 €",
        "Total TTC|2 892,48 €", "Acompte versé|800,00 €", "Net à payer|2 092,48 €",
    )  # fmt: skip
    sheet.at(15, 220, "En cas de retard de paiement, une indemnité forfaitaire de 40 € sera appliquée.", 7)
    sheet.at(15, 282, "SARL au capital de 10 000 € - SIRET 303 265 045 00017 - TVA intracommunautaire FR40303265045", 7)
    sheet.at(15, 286, "IBAN FR14 2004 1010 0505 0001 3M02 606 - BIC PSSTFRPPXXX", 7)
    return sheet.finish("invoice", {
        "invoice_number": "FA-2024-0117", "invoice_date": "2024-03-03", "payment_due_date": "2024-04-02",
        **totals("EUR 2597.90 294.58 2892.48"),
        "issuer": party("SARL Menuiserie Garonne|8 chemin des Acacias|31200|Toulouse",
                         vat_id="FR40303265045", iban="FR1420041010050500013M02606",
                         registration_id="30326504500017"),
        "recipient": party("Madame Claire Fontaine|27 bis rue Victor Hugo|31000|TOULOUSE"),
        "line_items": lines(
            "description quantity unit unit_price net_amount tax_rate",
            "Porte d'entrée en chêne massif dimensions 215 x 90 cm, pose comprise|1.00|C62|1890.00|1890.00|10",
            "Plinthes chêne|24.50|MTR|14.20|347.90|20", "Main d'oeuvre|8.00|HUR|45.00|360.00|10",
        ),
    })  # fmt: skip


def french_row_of_labels() -> DrawnDocument:
    """A French supplier's invoice.

    A row of labels with values below, and taxes in a table.
    """
    sheet = Sheet()
    sheet.at(15, 18, "Distribution Atlantique SAS", 14, bold=True)
    sheet.rows(15, 23, "Zone artisanale du Port, 12 rue des Docks", "44600 Saint-Nazaire", "France", size=8)
    sheet.at(15, 30 + 12, "Facturé à", 8, bold=True)
    sheet.rows(15, 47, "Restaurant Le Phare", "3 quai de l'Océan", "56100 Lorient")
    sheet.at(115, 42, "Livré à", 8, bold=True)
    sheet.rows(115, 47, "Le Phare - Annexe", "9 rue du Marché", "56100 Lorient")
    sheet.at(195, 18, "Facture", 20, bold=True, right=True)
    label_columns = "17 60 95 130 165"
    sheet.table(70, label_columns, "N° de facture|Date|N° client|Votre commande|Échéance", size=8, bold=True)
    sheet.table(75, label_columns, "2400981|15/01/2024|C0457|BC-2024-33|14/02/2024")
    columns = "17 42 118r 145r 165r 195r"
    sheet.table(88, columns, "Référence|Désignation|Quantité|Prix unitaire|Remise|Montant HT", bold=True)
    sheet.table(
        95, columns,
        "SAR-125|Sardines à l'huile 125 g|120|2,35||282,00",
        "HUI-5L|Huile d'olive vierge extra 5 L|12|38,90|10 %|420,12",
        "SEL-GR|Sel gris de Guérande 10 kg|6|11,50||69,00",
    )  # fmt: skip
    taxes = "17 60r 90r"
    sheet.table(130, taxes, "Taux TVA|Base HT|Montant TVA", size=8, bold=True)
    sheet.table(135, taxes, "5,50 %|771,12|42,41", size=8)
    sheet.table(130, "140 195r", "Montant total HT|771,12", "Total TVA|42,41", "Montant TTC EUR|813,53")
    sheet.at(15, 280, "Distribution Atlantique SAS - RCS Saint-Nazaire 303 265 045 - N° TVA : FR 40 303265045", 7)
    sheet.at(15, 284, "Banque : Crédit Maritime - IBAN : FR1420041010050500013M02606", 7)
    names = "article_number description quantity unit_price net_amount tax_rate"
    return sheet.finish("invoice", {
        "invoice_number": "2400981", "invoice_date": "2024-01-15", "payment_due_date": "2024-02-14",
        "po_reference": "BC-2024-33", **totals("EUR 771.12 42.41 813.53"),
        "issuer": party("Distribution Atlantique SAS|Zone artisanale du Port, 12 rue des Docks|44600|Saint-Nazaire",
                         country="FR", vat_id="FR40303265045", iban="FR1420041010050500013M02606",
                         registration_id="303265045"),
        "recipient": party("Restaurant Le Phare|3 quai de l'Océan|56100|Lorient"),
        "line_items": lines(
            names, "SAR-125|Sardines à l'huile 125 g|120|2.35|282.00|5.50",
            "HUI-5L|Huile d'olive vierge extra 5 L|12|35.01|420.12|5.50",
            "SEL-GR|Sel gris de Guérande 10 kg|6|11.50|69.00|5.50",
        ),
    })  # fmt: skip


def italian() -> DrawnDocument:
    """An Italian invoice: number and date in one heading, totals in a bottom row."""
    sheet = Sheet("times")
    sheet.at(15, 20, "Ceramiche Valtaro S.r.l.", 15, bold=True)
    sheet.rows(15, 25, "Via Emilia Ovest 240", "43126 Parma (PR)", "P.IVA IT00743110157  C.F. 00743110157", size=8)
    sheet.at(120, 42, "Spett.le")
    sheet.rows(120, 47, "Edilizia Brambilla S.p.A.", "Corso Lodi 12", "20135 Milano (MI)", "P.IVA IT12345670017")
    sheet.at(15, 75, "Fattura n. 128/2024 del 14/02/2024", 13, bold=True)
    sheet.at(15, 82, "Vs. ordine: OR-5567")
    sheet.at(15, 87, "Condizioni di pagamento: Bonifico 30 gg - Scadenza: 15/03/2024")
    columns = "15 38 105 125r 145r 160r 183r 195r"
    sheet.table(100, columns, "Codice|Descrizione|U.M.|Q.tà|Prezzo|Sc.%|Importo|IVA", bold=True)
    sheet.table(
        107, columns,
        "GR6060|Gres porcellanato 60x60 grigio|MQ|84,00|18,50|10|1.398,60|22",
        "BT0860|Battiscopa 8x60|ML|56,00|4,20||235,20|22", "COL25|Colla per gres, sacco 25 kg|PZ|20,00|9,75||195,00|22",
    )  # fmt: skip
    label_columns = "20 65 110 155"
    sheet.table(240, label_columns, "Totale imponibile|Aliquota IVA|Totale IVA|Totale documento", size=8)
    sheet.table(245, label_columns, "1.828,80|22%|402,34|€ 2.231,14", size=10, bold=True)
    sheet.at(15, 275, "Banca: Credem  IBAN: IT60X0542811101000000123456", 8)
    names = "article_number description unit quantity unit_price net_amount tax_rate"
    return sheet.finish("invoice", {
        "invoice_number": "128/2024", "invoice_date": "2024-02-14", "payment_due_date": "2024-03-15",
        "po_reference": "OR-5567", **totals("EUR 1828.80 402.34 2231.14"),
        "issuer": party("Ceramiche Valtaro S.r.l.|Via Emilia Ovest 240|43126|Parma (PR)",
                         vat_id="IT00743110157", iban="IT60X0542811101000000123456", tax_number="00743110157"),
        "recipient": party("Edilizia Brambilla S.p.A.|Corso Lodi 12|20135|Milano (MI)",
                            vat_id="IT12345670017"),
        "line_items": lines(
            names, "GR6060|Gres porcellanato 60x60 grigio|MTK|84.00|16.65|1398.60|22",
            "BT0860|Battiscopa 8x60|-|56.00|4.20|235.20|22",
            "COL25|Colla per gres, sacco 25 kg|C62|20.00|9.75|195.00|22",
        ),
    })  # fmt: skip


def spanish() -> DrawnDocument:
    """A Spanish design studio's invoice: labels with colons, two-digit years."""
    sheet = Sheet()
    sheet.at(20, 22, "FACTURA", 20, bold=True)
    sheet.rows(20, 34, "Nº factura: A/2024/0093", "Fecha factura: 01/02/24", "Vencimiento: 02/03/24")
    sheet.at(20, 55, "Emisor:", bold=True)
    sheet.rows(20, 60, "Estudio Gráfico Levante, S.L.", "Calle Colón 18", "46004 Valencia", "CIF: B58378431")
    sheet.at(110, 55, "Cliente:", bold=True)
    sheet.rows(110, 60, "Hotel Mirador del Mar, S.A.", "Avenida de la Playa 55", "03502 Benidorm", "CIF: A13585625")
    columns = "20 125r 155r 190r"
    sheet.table(92, columns, "Concepto|Cantidad|Precio|Importe", bold=True)
    sheet.table(
        99, columns, "Diseño de carta y menús|1|850,00 €|850,00 €",
        "Impresión folletos A5 (millar)|3|124,50 €|373,50 €", "Fotografía de habitaciones|5|60,00 €|300,00 €",
    )  # fmt: skip
    sheet.table(125, "130 190r", "Base imponible|1.523,50 €", "IVA 21%|319,94 €", "TOTAL FACTURA|1.843,44 €")
    sheet.at(20, 150, "Forma de pago: transferencia a ES91 2100 0418 4502 0005 1332")
    return sheet.finish("invoice", {
        "invoice_number": "A/2024/0093", "invoice_date": "2024-02-01", "payment_due_date": "2024-03-02",
        **totals("EUR 1523.50 319.94 1843.44"),
        "issuer": party("Estudio Gráfico Levante, S.L.|Calle Colón 18|46004|Valencia",
                         iban="ES9121000418450200051332"),
        "recipient": party("Hotel Mirador del Mar, S.A.|Avenida de la Playa 55|03502|Benidorm"),
        "line_items": lines(
            "description quantity unit_price net_amount", "Diseño de carta y menús|1|850.00|850.00",
            "Impresión folletos A5 (millar)|3|124.50|373.50", "Fotografía de habitaciones|5|60.00|300.00",
        ),
    })  # fmt: skip


def french_delivery() -> DrawnDocument:
    """A French delivery note: ordered beside delivered quantities, no prices."""
    sheet = Sheet()
    sheet.at(15, 20, "Distribution Atlantique SAS", 13, bold=True)
    sheet.rows(15, 25, "12 rue des Docks", "44600 Saint-Nazaire", size=8)
    sheet.at(15, 48, "Bon de livraison N° BL-88120", 14, bold=True)
    sheet.rows(15, 55, "Date de livraison : 12/01/2024", "Votre commande : BC-2024-33 du 08/01/2024")
    sheet.at(115, 48, "Client", 8, bold=True)
    sheet.rows(115, 53, "Restaurant Le Phare", "3 quai de l'Océan", "56100 Lorient")
    columns = "15 45 140r 165r 192r"
    sheet.table(85, columns, "Référence|Désignation|Qté commandée|Qté livrée|Reste", bold=True)
    sheet.table(92, columns, "SAR-125|Sardines à l'huile 125 g|120|120|0",
                "HUI-5L|Huile d'olive vierge extra 5 L|12|10|2",
                "SEL-GR|Sel gris de Guérande 10 kg|6|6|0")  # fmt: skip
    sheet.at(15, 130, "Poids total : 168 kg - 14 colis")
    sheet.at(15, 250, "Signature du client :")
    return sheet.finish("delivery_note", {
        "delivery_note_number": "BL-88120", "delivery_date": "2024-01-12", "po_reference": "BC-2024-33",
        "supplier": party("Distribution Atlantique SAS|12 rue des Docks|44600|Saint-Nazaire"),
        "buyer": party("Restaurant Le Phare|3 quai de l'Océan|56100|Lorient"),
        "line_items": lines(
            "article_number description quantity", "SAR-125|Sardines à l'huile 125 g|120",
            "HUI-5L|Huile d'olive vierge extra 5 L|10", "SEL-GR|Sel gris de Guérande 10 kg|6",
        ),
    })  # fmt: skip


def italian_transport() -> DrawnDocument:
    """An Italian transport document: D.D.T. with number and date in a row of labels."""
    sheet = Sheet("times")
    sheet.at(15, 20, "Ceramiche Valtaro S.r.l.", 14, bold=True)
    sheet.rows(15, 25, "Via Emilia Ovest 240", "43126 Parma", "P.IVA IT00743110157", size=8)
    sheet.at(120, 20, "DOCUMENTO DI TRASPORTO", 13, bold=True)
    label_columns = "120 160"
    sheet.table(27, label_columns, "Numero|Data", size=8, bold=True)
    sheet.table(32, label_columns, "DDT-551|09/02/2024")
    sheet.at(15, 48, "Destinatario", 8, bold=True)
    sheet.rows(15, 53, "Edilizia Brambilla S.p.A.", "Corso Lodi 12", "20135 Milano")
    sheet.at(15, 78, "Rif. ordine OR-5567 del 02/02/2024")
    columns = "15 45 130 165r"
    sheet.table(90, columns, "Articolo|Descrizione|U.M.|Quantità", bold=True)
    sheet.table(97, columns, "GR6060|Gres porcellanato 60x60 grigio|MQ|84,00",
                "BT0860|Battiscopa 8x60|ML|56,00")  # fmt: skip
    sheet.table(250, "15 70 130", "Causale: Vendita|N. colli 6|Firma conducente")
    return sheet.finish("delivery_note", {
        "delivery_note_number": "DDT-551", "delivery_date": "2024-02-09", "po_reference": "OR-5567",
        "supplier": party("Ceramiche Valtaro S.r.l.|Via Emilia Ovest 240|43126|Parma", vat_id="IT00743110157"),
        "buyer": party("Edilizia Brambilla S.p.A.|Corso Lodi 12|20135|Milano"),
        "line_items": lines(
            "article_number description unit quantity", "GR6060|Gres porcellanato 60x60 grigio|MTK|84.00",
            "BT0860|Battiscopa 8x60|-|56.00",
        ),
    })  # fmt: skip


def french_credit() -> DrawnDocument:
    """A French credit note: 'Avoir', the invoice's number, unsigned amounts."""
    sheet = Sheet()
    sheet.at(15, 20, "ÉLECTRO CENTRE", 14, bold=True)
    sheet.rows(15, 25, "14 avenue Jean Jaurès", "63000 Clermont-Ferrand", "SIRET : 303 265 045 00025")
    sheet.rows(120, 45, "SCI Les Tilleuls", "5 impasse du Moulin", "63100 Clermont-Ferrand")
    sheet.at(15, 75, "Avoir n° AV-0042", 15, bold=True)
    sheet.rows(15, 82, "Date d'avoir : 22 mai 2024", "Facture d'origine n° FC-1187 du 02/05/2024")
    columns = "15 120r 155r 195r"
    sheet.table(100, columns, "Libellé|Qté|PU HT|Total HT", bold=True)
    sheet.table(
        107,
        columns,
        "Retour chauffe-eau 200 L|1|489,00|489,00",
        "Retour kit de fixation|2|18,50|37,00",
    )
    sheet.table(
        125,
        "140 195r",
        "Total HT|526,00 €",
        "TVA 20,00 %|105,20 €",
        "Total TTC|631,20 €",
        "Net à déduire|631,20 €",
    )
    sheet.at(15, 285, "N° TVA intracommunautaire : FR40303265045", 7)
    return sheet.finish("credit_note", {
        "credit_note_number": "AV-0042", "credit_note_date": "2024-05-22", "invoice_reference": "FC-1187",
        **totals("EUR 526.00 105.20 631.20"),
        "issuer": party("ÉLECTRO CENTRE|14 avenue Jean Jaurès|63000|Clermont-Ferrand",
                         vat_id="FR40303265045", registration_id="30326504500025"),
        "recipient": party("SCI Les Tilleuls|5 impasse du Moulin|63100|Clermont-Ferrand"),
        "line_items": lines(
            "description quantity unit_price net_amount", "Retour chauffe-eau 200 L|1|489.00|489.00",
            "Retour kit de fixation|2|18.50|37.00",
        ),
    })  # fmt: skip


def spanish_delivery() -> DrawnDocument:
    """A Spanish delivery note with batch numbers and no prices."""
    sheet = Sheet()
    sheet.rows(
        20,
        20,
        "Aceites del Guadalquivir S.L.",
        "Polígono Industrial El Olivar, nave 7",
        "41500 Alcalá de Guadaíra",
        "CIF ESB58378431",
    )
    sheet.at(120, 22, "ALBARÁN Nº 2024/3381", 14, bold=True)
    sheet.rows(120, 30, "Fecha: 17/05/2024", "Su pedido: P-2024-118")
    sheet.at(20, 55, "Cliente", 8, bold=True)
    sheet.rows(20, 60, "Supermercados Nervión S.A.", "Avenida Eduardo Dato 90", "41005 Sevilla")
    columns = "20 50 130 160r 190r"
    sheet.table(90, columns, "Código|Descripción|Lote|Cajas|Cantidad", bold=True)
    sheet.table(97, columns, "AOVE-5|Aceite de oliva virgen extra 5 L|L24055|30|120",
                "AOVE-1|Aceite de oliva virgen extra 1 L|L24061|10|150")  # fmt: skip
    sheet.at(20, 125, "Recibido conforme:")
    return sheet.finish("delivery_note", {
        "delivery_note_number": "2024/3381", "delivery_date": "2024-05-17", "po_reference": "P-2024-118",
        "supplier": party("Aceites del Guadalquivir S.L.|Polígono Industrial El Olivar, nave 7|41500|"
                          "Alcalá de Guadaíra", vat_id="ESB58378431"),
        "buyer": party("Supermercados Nervión S.A.|Avenida Eduardo Dato 90|41005|Sevilla"),
        "line_items": lines(
            "article_number description quantity", "AOVE-5|Aceite de oliva virgen extra 5 L|120",
            "AOVE-1|Aceite de oliva virgen extra 1 L|150",
        ),
    })  # fmt: skip


def italian_freelancer() -> DrawnDocument:
    """An Italian freelancer's invoice with withheld tax below the total.

    The number and date are in one cell.
    """
    sheet = Sheet()
    sheet.rows(
        20,
        20,
        "Ing. Giulia Ferrero",
        "Via Garibaldi 8",
        "10122 Torino (TO)",
        "P. IVA 00743110157",
        "giulia@ferrero-ingegneria.example",
    )
    sheet.rows(120, 45, "Spett.le", "Officine Langhe S.r.l.", "Strada Statale 29 n. 14", "12051 Alba (CN)")
    sheet.at(20, 80, "FATTURA", 14, bold=True)
    sheet.at(20, 87, "Numero: 17/2024     Data: 30/04/2024")
    columns = "20 150r 190r"
    sheet.table(100, columns, "Descrizione|Quantità|Importo", bold=True)
    sheet.table(
        107,
        columns,
        "Progettazione linea di montaggio|1|€ 3.000,00",
        "Sopralluogo in cantiere|2|€ 400,00",
    )
    sheet.table(125, "110 190r", "Totale imponibile|€ 3.400,00", "IVA 22%|€ 748,00", "Totale fattura|€ 4.148,00",
                "Ritenuta d'acconto 20%|-€ 680,00", "Netto a pagare|€ 3.468,00")  # fmt: skip
    sheet.at(20, 165, "Pagamento entro il 31/05/2024 su IBAN IT60 X054 2811 1010 0000 0123 456")
    return sheet.finish("invoice", {
        "invoice_number": "17/2024", "invoice_date": "2024-04-30", "payment_due_date": "2024-05-31",
        **totals("EUR 3400.00 748.00 4148.00"),
        "issuer": party("Ing. Giulia Ferrero|Via Garibaldi 8|10122|Torino (TO)",
                         iban="IT60X0542811101000000123456", email="giulia@ferrero-ingegneria.example"),
        "recipient": party("Officine Langhe S.r.l.|Strada Statale 29 n. 14|12051|Alba (CN)"),
        "line_items": lines(
            "description quantity net_amount", "Progettazione linea di montaggio|1|3000.00",
                "Sopralluogo in cantiere|2|400.00",
        ),
    })  # fmt: skip


def rebates_between() -> DrawnDocument:
    """A French invoice with a rebate row below a line item, and freight at the end."""
    sheet = Sheet()
    sheet.at(15, 18, "PAPETERIE DU CENTRE", 13, bold=True)
    sheet.rows(15, 23, "22 place Bellecour - 69002 LYON", "TVA intra. FR40303265045", size=8)
    sheet.rows(115, 42, "CABINET ROUSSEAU", "A l'attention de Mme Petit", "7 rue Garibaldi", "69006 LYON")
    label_columns = "15 60 105 150"
    sheet.table(75, label_columns, "FACTURE N°|DATE|ÉCHÉANCE|CODE CLIENT", size=8, bold=True)
    sheet.table(80, label_columns, "F2024-3310|06.09.2024|06.10.2024|ROU01")
    columns = "15 40 120r 150r 195r"
    sheet.table(95, columns, "CODE|LIBELLÉ|QTÉ|PRIX UNIT. HT|MONTANT HT", bold=True)
    y = sheet.table(102, columns, "RAM-A4|Ramette papier A4 80 g|50|4,10|205,00")
    y = sheet.table(y, columns, "|Remise 10 %|||-20,50")
    y = sheet.table(y, columns, "TON-26X|Toner noir 26X|2|118,00|236,00")
    y = sheet.table(y, columns, "|Frais de port|||12,00")
    sheet.table(y + 8, "140 195r", "TOTAL HT|432,50", "TVA 20 %|86,50", "TOTAL TTC|519,00 €")
    return sheet.finish("invoice", {
        "invoice_number": "F2024-3310", "invoice_date": "2024-09-06", "payment_due_date": "2024-10-06",
        **totals("EUR 432.50 86.50 519.00"),
        "issuer": party("PAPETERIE DU CENTRE|22 place Bellecour|69002|LYON", vat_id="FR40303265045"),
        "recipient": party("CABINET ROUSSEAU|7 rue Garibaldi|69006|LYON"),
        "line_items": [
            *lines("article_number description quantity unit_price net_amount",
                    "RAM-A4|Ramette papier A4 80 g|50|4.10|184.50", "TON-26X|Toner noir 26X|2|118.00|236.00"),
            {"description": "Frais de port", "net_amount": "12.00"},
        ],
    })  # fmt: skip


ROMANCE = (
    french_title,
    french_row_of_labels,
    italian,
    spanish,
    french_delivery,
    italian_transport,
    french_credit,
    spanish_delivery,
    italian_freelancer,
    rebates_between,
)
