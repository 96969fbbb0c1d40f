"""Papers of accounts programs in six countries, of a craftsman, a school's supplier and a winery."""

from tests.documents.text.strangers.sheet import Sheet, Stranger, lines, party, totals


def craftsman() -> Stranger:
    """A German craftsman's invoice: place of work, hours and material in sections with sums of their own."""
    sheet = Sheet()
    sheet.at(20, 20, "Elektro Wiesner", 17, bold=True)
    sheet.rows(190, 16, "Meisterbetrieb seit 1987", "Inh. Andreas Wiesner", "Lindenstraße 25", "95028 Hof",
               "Fon 09281 88 410", size=8, pitch=3.6, right=True)  # fmt: skip
    sheet.at(20, 48, "Elektro Wiesner, Lindenstraße 25, 95028 Hof", 6.5)
    sheet.rows(20, 54, "Hausverwaltung Frankenwald GmbH", "Luitpoldplatz 9", "95444 Bayreuth", size=10)
    sheet.table(54, "130 165", "Rechnung Nr.|2024-448", "Kunden-Nr.|3107", "Datum|21.08.2024",
                "Leistungsdatum|13.08.2024")  # fmt: skip
    sheet.at(20, 90, "Bauvorhaben: Marienstraße 7, Treppenhausbeleuchtung", 10, bold=True)
    places = "20 34 112r 116 148r 190r"
    y = sheet.table(102, places, "1|Facharbeiterstunde|5,50|Std|58,00|319,00", "2|Auszubildender|5,50|Std|32,00|176,00",
                    "3|LED-Leuchte mit Sensor, weiß|8|Stk|64,90|519,20", "4|Mantelleitung NYM-J 3x1,5|40|m|1,15|46,00",
                    "5|Kleinmaterial pauschal|1|psch|18,50|18,50",
                    head="Pos|Bezeichnung|Menge|Einh|EP €|GP €")  # fmt: skip
    sheet.table(y + 6, "120 190r", "Summe netto|1.078,70", "MwSt. 19,0 %|204,95", "Rechnungsbetrag|1.283,65")
    sheet.rows(20, y + 30, "Im Betrag sind Lohnkosten von 495,00 € netto enthalten.",
               "Zahlbar ohne Abzug bis 04.09.2024.", size=8.5)  # fmt: skip
    sheet.table(276, "20 80 140", "Sparkasse Hochfranken|Finanzamt Hof|HWK Oberfranken",
                "IBAN DE66 3705 0198 0012 3456 78|St.-Nr. 223/289/40117|USt-IdNr. DE520561748", size=7)  # fmt: skip
    return sheet.states("invoice", {
        "invoice_number": "2024-448", "invoice_date": "2024-08-21", "payment_due_date": "2024-09-04",
        **totals("EUR 1078.70 204.95 1283.65"),
        "issuer": party("Elektro Wiesner|Lindenstraße 25|95028|Hof", vat_id="DE520561748", tax_number="223/289/40117",
                         iban="DE66370501980012345678"),
        "recipient": party("Hausverwaltung Frankenwald GmbH|Luitpoldplatz 9|95444|Bayreuth"),
        "line_items": lines(
            "position description quantity unit unit_price net_amount", "1|Facharbeiterstunde|5.50|HUR|58.00|319.00",
            "2|Auszubildender|5.50|HUR|32.00|176.00", "3|LED-Leuchte mit Sensor, weiß|8|C62|64.90|519.20",
            "4|Mantelleitung NYM-J 3x1,5|40|MTR|1.15|46.00", "5|Kleinmaterial pauschal|1|-|18.50|18.50",
        ),
    })  # fmt: skip


def french_accounts() -> Stranger:
    """A French enterprise program's invoice: references in a frame, price by the hundred, several dates for payment."""
    sheet = Sheet()
    sheet.rows(12, 18, "LABORATOIRES ARVERNE SA", "Parc technologique La Pardieu", "15 rue Pierre Boulanger",
               "63100 CLERMONT-FERRAND", size=8.5, pitch=3.9)  # fmt: skip
    sheet.rows(118, 40, "PHARMACIE CENTRALE", "2 place Delille", "63000 CLERMONT-FERRAND", size=10)
    sheet.table(66, "12 42 68 96 130 165", "FC240771|05/09/2024|P0418|CDE-5580|BL240902|30 jours net", size=8.5,
                head="Facture|Date|Client|Votre référence|Bon de livraison|Règlement")  # fmt: skip
    places = "12 36 108r 126r 144r 170r 190r"
    sheet.table(82, places, "3400930|Compresses stériles 10x10|2 000|14,80||296,00|20,00",
                "3400955|Sérum physiologique, dosettes|1 500|9,60|5,00|136,80|20,00",
                "3401122|Bande extensible 4 m|400|31,50||126,00|5,50",
                head="Code|Désignation|Quantité|PU/100|Rem. %|Montant HT|TVA", size=8.5)  # fmt: skip
    sheet.table(120, "120 198r", "Total HT|558,80", "TVA 20,00 % sur 432,80|86,56", "TVA 5,50 % sur 126,00|6,93",
                "Net à payer en EUR|652,29")  # fmt: skip
    sheet.at(12, 150, "Échéance : 05/10/2024   Montant : 652,29 EUR   Mode : LCR", 8.5)
    sheet.rows(12, 276, "LABORATOIRES ARVERNE SA au capital de 1 200 000 € - RCS Clermont-Ferrand 686 028 655",
               "N° TVA intracommunautaire FR20686028655 - IBAN FR43 3000 6000 0112 3456 7890 104", size=7)  # fmt: skip
    return sheet.states("invoice", {
        "invoice_number": "FC240771", "invoice_date": "2024-09-05", "payment_due_date": "2024-10-05",
        "po_reference": "CDE-5580", "delivery_note_reference": "BL240902", **totals("EUR 558.80 93.49 652.29"),
        "issuer": party("LABORATOIRES ARVERNE SA|15 rue Pierre Boulanger|63100|CLERMONT-FERRAND",
        vat_id="FR20686028655",
                         iban="FR4330006000011234567890104", registration_id="686028655"),
        "recipient": party("PHARMACIE CENTRALE|2 place Delille|63000|CLERMONT-FERRAND"),
        "line_items": lines(
            "article_number description quantity unit_price price_basis_quantity tax_rate net_amount",
            "3400930|Compresses stériles 10x10|2000|14.80|100|20|296.00",
            "3400955|Sérum physiologique, dosettes|1500|9.12|100|20|136.80",
            "3401122|Bande extensible 4 m|400|31.50|100|5.5|126.00",
        ),
    })  # fmt: skip


def british_accounts() -> Stranger:
    """A British accounts program's invoice: details in a box, no unit, net and VAT of each line, carriage below."""
    sheet = Sheet()
    sheet.rows(20, 20, "Pennine Packaging Supplies Ltd", "Albion Mill, Canal Road", "Bradford", "BD1 4SJ",
               "Tel: 01274 720 118", "VAT Reg No: 368 4271 29", size=9)  # fmt: skip
    sheet.at(190, 22, "Sales Invoice", 16, bold=True, right=True)
    sheet.rows(20, 54, "Dales Creamery Ltd", "Unit 6, Station Yard", "Hawes", "DL8 3NL")
    sheet.table(54, "135 165", "Invoice No.|48812", "Invoice/Tax Date|11/10/2024", "Order No.|DC-1180",
                "Account Ref.|DALES01")  # fmt: skip
    places = "20 50 122r 142r 160r 175r 190r"
    sheet.table(88, places, "BX-4040|Double wall carton 400x400x300|200|1.12|224.00|20.00|44.80",
                "TP-48C|Packing tape 48 mm clear, per roll|36|0.95|34.20|20.00|6.84",
                "BW-750|Bubble wrap 750 mm x 100 m|4|22.50|90.00|20.00|18.00",
                head="Product Code|Details|Quantity|Unit Price|Net|VAT %|VAT", size=8.5)  # fmt: skip
    sheet.table(
        125,
        "150 190r",
        "Total Net Amount|348.20",
        "Carriage Net|12.00",
        "Total Tax Amount|72.04",
        "Invoice Total|£432.24",
    )
    sheet.rows(20, 240, "Payment due by 10/11/2024. Cheques payable to Pennine Packaging Supplies Ltd.",
               "Bank: Sort code 60-16-13 Account 31926819. Registered in England No. 02240187", size=8)  # fmt: skip
    return sheet.states("invoice", {
        "invoice_number": "48812", "invoice_date": "2024-10-11", "payment_due_date": "2024-11-10",
        "po_reference": "DC-1180",
        "currency": "GBP", "total_tax": "72.04", "total_gross": "432.24",
        "issuer": party("Pennine Packaging Supplies Ltd|Albion Mill, Canal Road|BD1 4SJ|Bradford",
                         registration_id="02240187"),
        "recipient": party("Dales Creamery Ltd|Unit 6, Station Yard|DL8 3NL|Hawes"),
        "line_items": [
            *lines(
                "article_number description quantity unit_price net_amount tax_rate",
                "BX-4040|Double wall carton 400x400x300|200|1.12|224.00|20",
                "TP-48C|Packing tape 48 mm clear, per roll|36|0.95|34.20|20",
                "BW-750|Bubble wrap 750 mm x 100 m|4|22.50|90.00|20",
            ),
            {"description": "Carriage Net", "net_amount": "12.00"},
        ],
    })  # fmt: skip


def italian_goods() -> Stranger:
    """An Italian invoice that goes with the goods: buyer and destination in two frames, sums in frames at the foot."""
    sheet = Sheet()
    sheet.at(12, 18, "AGRICOLA FERRARINI S.S.", 13, bold=True)
    sheet.rows(
        12,
        23,
        "Strada Bassa 112 - 42017 Novellara (RE)",
        "C.F./P.IVA 00959240151 - Tel. 0522 654 120",
        size=8,
        pitch=3.6,
    )
    sheet.at(120, 18, "FATTURA ACCOMPAGNATORIA", 11, bold=True)
    sheet.table(25, "120 150 178", "1.284|28/11/2024|1/1", size=9, head="Numero|Data|Pagina")
    sheet.rows(12, 44, "Cliente", size=7.5, bold=True)
    sheet.rows(12, 48, "Gastronomia Emiliana S.r.l.", "Via Roma 44", "41012 Carpi (MO)", "P.IVA IT01572670154", size=9)
    sheet.rows(110, 44, "Destinazione", size=7.5, bold=True)
    sheet.rows(110, 48, "Gastronomia Emiliana - Laboratorio", "Via Lama 3", "41012 Carpi (MO)", size=9)
    places = "12 34 112r 118 142r 158r 178r 198r"
    sheet.table(80, places, "PR24|Parmigiano Reggiano 24 mesi|38,400|KG|14,90||572,16|4",
                "BUR|Burro di panna, panetti 250 g|60,000|PZ|2,35|5|133,95|4",
                "AC50|Aceto balsamico 500 ml|24,000|PZ|4,80||115,20|10",
                head="Articolo|Descrizione|Quantità|UM|Prezzo|Sconto|Importo|IVA", size=8.5)  # fmt: skip
    sheet.table(220, "12 60r 95r 130r 165r 198r", "4|706,11|28,24|||", "10|115,20|11,52|821,31|39,76|861,07",
                head="% IVA|Imponibile|Imposta|Tot. imponibile|Tot. imposta|Totale fattura", size=8)  # fmt: skip
    sheet.rows(12, 245, "Pagamento: Ricevuta bancaria 30 gg d.f. - Scadenza 28/12/2024 - Valuta: EUR", size=8)
    return sheet.states("invoice", {
        "invoice_number": "1.284", "invoice_date": "2024-11-28", "payment_due_date": "2024-12-28",
        **totals("EUR 821.31 39.76 861.07"),
        "issuer": party("AGRICOLA FERRARINI S.S.|Strada Bassa 112|42017|Novellara (RE)"),
        "recipient": party("Gastronomia Emiliana S.r.l.|Via Roma 44|41012|Carpi (MO)", vat_id="IT01572670154"),
        "line_items": lines(
            "article_number description quantity unit unit_price net_amount tax_rate",
            "PR24|Parmigiano Reggiano 24 mesi|38.400|KGM|14.90|572.16|4",
            "BUR|Burro di panna, panetti 250 g|60.000|C62|2.2325|133.95|4",
            "AC50|Aceto balsamico 500 ml|24.000|C62|4.80|115.20|10",
        ),
    })  # fmt: skip


def dutch_credit() -> Stranger:
    """A Dutch credit invoice: the invoice it is for in the first column of a strip, amounts with a minus behind."""
    sheet = Sheet()
    sheet.at(20, 22, "Kantoorvakhandel De Pen", 14, bold=True)
    sheet.rows(20, 27, "Stationsplein 18, 3818 LE Amersfoort", "KvK 32088114 - btw NL910376785B01", size=8, pitch=3.6)
    sheet.rows(20, 50, "Basisschool De Vuurvogel", "Administratie", "Leusderweg 210", "3817 KE Amersfoort", size=10)
    sheet.at(20, 84, "Creditfactuur", 15, bold=True)
    sheet.table(92, "20 60 100 140", "CF-20240091|12-12-2024|F-20241877|40233",
                head="Creditfactuurnummer|Datum|Betreft factuur|Klantnummer", size=8.5)  # fmt: skip
    places = "20 52 118r 146r 162r 190r"
    sheet.table(110, places, "TON-85A|Toner HP 85A, verkeerd geleverd|2|54,95|21%|109,90-",
                "PAP-80|Kopieerpapier A4, beschadigd|5|4,65|21%|23,25-",
                head="Artikelnr.|Omschrijving|Aantal|Stuksprijs|Btw|Bedrag")  # fmt: skip
    sheet.table(135, "130 190r", "Totaal excl. btw|133,15-", "Btw 21%|27,96-", "Te ontvangen|€ 161,11-")
    sheet.at(20, 160, "Het bedrag wordt overgemaakt op uw rekening.")
    return sheet.states("credit_note", {
        "credit_note_number": "CF-20240091", "credit_note_date": "2024-12-12", "invoice_reference": "F-20241877",
        **totals("EUR 133.15 27.96 161.11"),
        "issuer": party("Kantoorvakhandel De Pen|Stationsplein 18|3818 LE|Amersfoort", vat_id="NL910376785B01",
                         registration_id="32088114"),
        "recipient": party("Basisschool De Vuurvogel|Leusderweg 210|3817 KE|Amersfoort"),
        "line_items": lines(
            "article_number description quantity unit_price tax_rate net_amount",
            "TON-85A|Toner HP 85A, verkeerd geleverd|2|54.95|21|109.90",
            "PAP-80|Kopieerpapier A4, beschadigd|5|4.65|21|23.25",
        ),
    })  # fmt: skip


def spanish_order() -> Stranger:
    """A Spanish purchase order: 'Proveedor' in a frame, number behind 'Pedido de compra', delivery place below."""
    sheet = Sheet()
    sheet.rows(20, 20, "Bodegas Ribera Alta S.A.", "Carretera de Soria km 12", "42330 San Esteban de Gormaz",
               "compras@riberaalta.example", size=9)  # fmt: skip
    sheet.at(190, 22, "PEDIDO DE COMPRA Nº PC-24/0331", 12, bold=True, right=True)
    sheet.at(190, 28, "Fecha: 03/06/2024", right=True)
    sheet.rows(20, 46, "Proveedor:", size=8, bold=True)
    sheet.rows(
        20, 51, "Vidrieras del Norte S.L.", "Polígono Barreda, parcela 9", "39300 Torrelavega", "CIF ESB83958645"
    )
    sheet.rows(110, 46, "Lugar de entrega:", size=8, bold=True)
    sheet.rows(110, 51, "Nave de embotellado", "Camino de la Estación s/n", "42330 San Esteban de Gormaz")
    places = "20 48 118r 144r 190r"
    sheet.table(84, places, "BOT-BD75|Botella bordelesa 75 cl verde|12.000|0,284|3.408,00",
                "BOT-MG15|Botella magnum 150 cl|1.200|0,915|1.098,00",
                head="Referencia|Descripción|Cantidad|Precio|Importe")  # fmt: skip
    sheet.table(105, "140 190r", "Base imponible|4.506,00 €", "IVA 21%|946,26 €", "Total pedido|5.452,26 €")
    sheet.rows(20, 135, "Plazo de entrega: semana 27. Rogamos confirmen el pedido por correo electrónico.", size=8.5)
    return sheet.states("purchase_order", {
        "po_number": "PC-24/0331", "order_date": "2024-06-03", **totals("EUR 4506.00 946.26 5452.26"),
        "buyer": party("Bodegas Ribera Alta S.A.|Carretera de Soria km 12|42330|San Esteban de Gormaz",
                        email="compras@riberaalta.example"),
        "supplier": party("Vidrieras del Norte S.L.|Polígono Barreda, parcela 9|39300|Torrelavega",
        vat_id="ESB83958645"),
        "line_items": lines(
            "article_number description quantity unit_price net_amount",
            "BOT-BD75|Botella bordelesa 75 cl verde|12000|0.284|3408.00",
            "BOT-MG15|Botella magnum 150 cl|1200|0.915|1098.00",
        ),
    })  # fmt: skip


PROGRAMS_ACCOUNTS = (
    craftsman,
    french_accounts,
    british_accounts,
    italian_goods,
    dutch_credit,
    spanish_order,
)
