"""Documents in English, Dutch and Danish."""

from tests.documents.text.drawn_documents.sheet import DrawnDocument, Sheet, lines, party, totals


def english() -> DrawnDocument:
    """A British invoice: labels on the right, quantities first, partly paid."""
    sheet = Sheet()
    sheet.at(20, 24, "INVOICE", 22, bold=True)
    sheet.rows(190, 20, "Harbour & Finch Ltd", "Unit 4, Quayside Road", "Bristol", "BS1 6TX", "VAT No. GB 980 7806 84",
               pitch=4.2, right=True)  # fmt: skip
    sheet.at(20, 50, "Bill to:", bold=True)
    sheet.rows(20, 55, "The Copper Kettle Tea Rooms", "17 High Street", "Bath", "BA1 5AQ")
    sheet.table(50, "150r 190r", "Invoice No:|INV-00871", "Date:|5 March 2024", "Due date:|4 April 2024",
                "Your PO:|CK/2291")  # fmt: skip
    columns = "28r 35 135r 155r 190r"
    sheet.table(85, columns, "QTY|DESCRIPTION|UNIT PRICE|VAT %|AMOUNT", bold=True)
    sheet.table(
        92, columns, "24|Bone china teacup and saucer, blue rim|£6.75|20|£162.00",
        "6|Three-tier cake stand|£28.40|20|£170.40", "1,200|Loose leaf tea bags, English breakfast|£0.08|0|£96.00",
        "1|Carriage|£15.00|20|£15.00",
    )  # fmt: skip
    sheet.table(
        125, "150r 190r", "Subtotal|£443.40", "VAT @ 20%|£69.48", "Total|£512.88", "Amount paid|£200.00",
        "Balance due|£312.88",
    )  # fmt: skip
    sheet.at(20, 270, "Bank: Lloyds   IBAN GB82 WEST 1234 5698 7654 32   Company No. 04412893", 8)
    return sheet.finish("invoice", {
        "invoice_number": "INV-00871", "invoice_date": "2024-03-05", "payment_due_date": "2024-04-04",
        "po_reference": "CK/2291", **totals("GBP 443.40 69.48 512.88"),
        "issuer": party("Harbour & Finch Ltd|Unit 4, Quayside Road|BS1 6TX|Bristol",
                         vat_id="GB980780684", iban="GB82WEST12345698765432", registration_id="04412893"),
        "recipient": party("The Copper Kettle Tea Rooms|17 High Street|BA1 5AQ|Bath"),
        "line_items": lines(
            "quantity description unit_price tax_rate net_amount",
            "24|Bone china teacup and saucer, blue rim|6.75|20|162.00", "6|Three-tier cake stand|28.40|20|170.40",
            "1200|Loose leaf tea bags, English breakfast|0.08|0|96.00", "1|Carriage|15.00|20|15.00",
        ),
    })  # fmt: skip


def consultancy() -> DrawnDocument:
    """An invoice from American software: number after `#`, month first, dollars.

    The totals are on the left.
    """
    sheet = Sheet()
    sheet.at(20, 25, "Blue Heron Consulting LLC", 14, bold=True)
    sheet.rows(20, 30, "410 Lakeview Drive", "Madison, WI 53703", "USA")
    sheet.at(190, 25, "INVOICE # 2024-118", 14, bold=True, right=True)
    sheet.at(190, 31, "Date: 03/15/2024", right=True)
    sheet.at(190, 36, "Due: 04/14/2024", right=True)
    sheet.at(20, 55, "BILL TO", 8, bold=True)
    sheet.rows(20, 60, "Rheinland Analytics GmbH", "Domstraße 20", "50668 Köln", "Germany")
    columns = "20 120r 150r 190r"
    sheet.table(90, columns, "Item|Hours|Rate|Amount", bold=True)
    sheet.table(
        97, columns, "Discovery workshop|16.00|$185.00|$2,960.00",
        "Data model review|22.50|$185.00|$4,162.50", "Travel time|6.00|$90.00|$540.00",
    )  # fmt: skip
    total_columns = "20 60r"
    sheet.table(125, total_columns, "Subtotal|$7,662.50", "Tax (0%)|$0.00", "Total (USD)|$7,662.50", bold=True)
    return sheet.finish("invoice", {
        "invoice_number": "2024-118", "invoice_date": "2024-03-15", "payment_due_date": "2024-04-14",
        **totals("USD 7662.50 0.00 7662.50"),
        "issuer": {"name": "Blue Heron Consulting LLC"},
        "recipient": party("Rheinland Analytics GmbH|Domstraße 20|50668|Köln", country="DE"),
        "line_items": lines(
            "description quantity unit_price net_amount", "Discovery workshop|16.00|185.00|2960.00",
            "Data model review|22.50|185.00|4162.50", "Travel time|6.00|90.00|540.00",
        ),
    })  # fmt: skip


def english_order() -> DrawnDocument:
    """An English purchase order with the vendor beside the ship-to address.

    The number is in a row of labels.
    """
    sheet = Sheet()
    sheet.at(20, 22, "Copper Kettle Catering Ltd", 13, bold=True)
    sheet.rows(20, 27, "1 Canal Wharf", "Leeds LS1 4BR", size=8)
    sheet.at(190, 22, "PURCHASE ORDER", 18, bold=True, right=True)
    sheet.at(20, 45, "VENDOR", 8, bold=True)
    sheet.rows(20, 50, "Harbour & Finch Ltd", "4 Quayside Road", "Bristol BS1 6TX")
    sheet.at(110, 45, "SHIP TO", 8, bold=True)
    sheet.rows(110, 50, "Copper Kettle Catering", "Goods In, 3 Mill Lane", "Leeds LS2 7EA")
    label_columns = "20 65 110 150"
    sheet.table(75, label_columns, "P.O. Number|Order Date|Terms|Required By", size=8, bold=True)
    sheet.table(80, label_columns, "CK/2291|26/02/2024|30 days|08/03/2024")
    columns = "20 50 130r 160r 190r"
    sheet.table(95, columns, "Item #|Description|Qty|Unit Price|Total", bold=True)
    sheet.table(102, columns, "BC-TC-01|Bone china teacup and saucer|24|6.75|162.00",
                "CS-3T|Three-tier cake stand|6|28.40|170.40")  # fmt: skip
    sheet.table(125, "140 190r", "Subtotal|332.40", "VAT|66.48", "Order total (GBP)|398.88")
    return sheet.finish("purchase_order", {
        "po_number": "CK/2291", "order_date": "2024-02-26", **totals("GBP 332.40 66.48 398.88"),
        "buyer": party("Copper Kettle Catering Ltd|1 Canal Wharf|LS1 4BR|Leeds"),
        "supplier": party("Harbour & Finch Ltd|4 Quayside Road|BS1 6TX|Bristol"),
        "line_items": lines(
            "article_number description quantity unit_price net_amount",
            "BC-TC-01|Bone china teacup and saucer|24|6.75|162.00", "CS-3T|Three-tier cake stand|6|28.40|170.40",
        ),
    })  # fmt: skip


def dutch() -> DrawnDocument:
    """A Dutch invoice: labels without colons, two VAT rates, the amount due last."""
    sheet = Sheet()
    sheet.at(190, 20, "Bloemenveiling Westland B.V.", 12, bold=True, right=True)
    sheet.rows(190, 25, "Handelsweg 88", "2671 AB Naaldwijk", "KvK 27123456", "BTW NL004495445B01",
               "IBAN NL91 ABNA 0417 1643 00", size=8, pitch=4, right=True)  # fmt: skip
    sheet.rows(20, 52, "Tuincentrum De Linde", "T.a.v. crediteuren", "Molenstraat 4a", "5211 KL 's-Hertogenbosch")
    sheet.at(20, 82, "Factuur", 17, bold=True)
    sheet.table(
        90, "20 60", "Factuurnummer|2024.0456", "Factuurdatum|19-02-2024", "Vervaldatum|20-03-2024",
        "Uw referentie|PO-98120",
    )  # fmt: skip
    columns = "20r 26 135r 155r 190r"
    sheet.table(118, columns, "Aantal|Omschrijving|Prijs|BTW|Bedrag", bold=True)
    sheet.table(
        125, columns, "40|Tulpen, bos van 10|€ 2,15|9%|€ 86,00",
        "25|Hyacint in pot 9 cm|€ 1,80|9%|€ 45,00", "4|Deense kar, huur per week|€ 12,50|21%|€ 50,00",
    )  # fmt: skip
    sheet.table(
        150, "130 190r", "Subtotaal|€ 181,00", "BTW 9%|€ 11,79", "BTW 21%|€ 10,50",
        "Totaal te voldoen|€ 203,29",
    )  # fmt: skip
    return sheet.finish("invoice", {
        "invoice_number": "2024.0456", "invoice_date": "2024-02-19", "payment_due_date": "2024-03-20",
        "po_reference": "PO-98120", **totals("EUR 181.00 22.29 203.29"),
        "issuer": party("Bloemenveiling Westland B.V.|Handelsweg 88|2671 AB|Naaldwijk",
                         vat_id="NL004495445B01", iban="NL91ABNA0417164300", registration_id="27123456"),
        "recipient": party("Tuincentrum De Linde|Molenstraat 4a|5211 KL|'s-Hertogenbosch"),
        "line_items": lines(
            "quantity description unit_price tax_rate net_amount", "40|Tulpen, bos van 10|2.15|9|86.00",
            "25|Hyacint in pot 9 cm|1.80|9|45.00", "4|Deense kar, huur per week|12.50|21|50.00",
        ),
    })  # fmt: skip


def danish() -> DrawnDocument:
    """A Danish invoice in kroner, with hyphens in dates."""
    sheet = Sheet()
    sheet.rows(20, 30, "Café Nyhavn ApS", "Havnegade 21", "1058 København K", size=10)
    sheet.rows(130, 20, "Kaffegrossisten A/S", "Industrivej 9", "8260 Viby J", "CVR-nr. 13585628", "Tlf. 86 11 22 33")
    sheet.at(130, 55, "Faktura", 16, bold=True)
    sheet.table(62, "130 165", "Fakturanr.:|10457", "Fakturadato:|05-03-2024", "Forfaldsdato:|19-03-2024",
                "Deres ordre:|NY-338")  # fmt: skip
    columns = "20 45 120r 125 155r 190r"
    sheet.table(95, columns, "Varenr.|Beskrivelse|Antal|Enhed|Pris|Beløb", bold=True)
    sheet.table(
        102, columns, "K-110|Espressobønner 1 kg|24|stk|149,00|3.576,00",
        "M-020|Havremælk 1 l|60|stk|13,50|810,00", "F-001|Kaffefiltre 1x4|10|pk|22,00|220,00",
    )  # fmt: skip
    sheet.table(125, "140 190r", "Subtotal|4.606,00", "Moms (25%)|1.151,50", "Total DKK|5.757,50")
    sheet.at(20, 160, "Beløbet bedes indbetalt på konto IBAN DK50 0040 0440 1162 43 senest på forfaldsdatoen.")
    return sheet.finish("invoice", {
        "invoice_number": "10457", "invoice_date": "2024-03-05", "payment_due_date": "2024-03-19",
        "po_reference": "NY-338", **totals("DKK 4606.00 1151.50 5757.50"),
        "issuer": party("Kaffegrossisten A/S|Industrivej 9|8260|Viby J", iban="DK5000400440116243"),
        "recipient": party("Café Nyhavn ApS|Havnegade 21|1058|København K"),
        "line_items": lines(
            "article_number description quantity unit unit_price net_amount",
            "K-110|Espressobønner 1 kg|24|C62|149.00|3576.00", "M-020|Havremælk 1 l|60|C62|13.50|810.00",
            "F-001|Kaffefiltre 1x4|10|XPK|22.00|220.00",
        ),
    })  # fmt: skip


def belgian() -> DrawnDocument:
    """A bilingual Belgian invoice in French and Dutch."""
    sheet = Sheet()
    sheet.rows(15, 20, "Imprimerie Meuse SRL", "Rue de la Station 45", "B-5000 Namur", "TVA BE 0428.759.497")
    sheet.at(195, 20, "FACTURE / FACTUUR", 15, bold=True, right=True)
    sheet.rows(120, 42, "Stad Leuven", "Dienst Financiën", "Professor Van Overstraetenplein 1", "3000 Leuven")
    label_columns = "15 65 115 160"
    sheet.table(75, label_columns, "Numéro / Nummer|Date / Datum|Échéance / Vervaldag|Réf. client", size=8, bold=True)
    sheet.table(80, label_columns, "F24/00781|11/04/2024|11/05/2024|LEU-77")
    columns = "15 105r 145r 160r 195r"
    sheet.table(
        95,
        columns,
        "Description / Omschrijving|Qté / Aantal|P.U. / Eenheidsprijs|TVA|Montant / Bedrag",
        bold=True,
    )
    sheet.table(
        102,
        columns,
        "Affiches A2 quadri|500|0,92|21 %|460,00",
        "Dépliants 3 volets|2.000|0,18|6 %|360,00",
    )
    sheet.table(
        125,
        "130 195r",
        "Total HTVA|820,00 EUR",
        "TVA 21 %|96,60 EUR",
        "TVA 6 %|21,60 EUR",
        "Total TVAC|938,20 EUR",
    )
    sheet.at(15, 270, "IBAN BE68 5390 0754 7034 - BIC GKCCBEBB - RPM Liège, division Namur", 8)
    return sheet.finish("invoice", {
        "invoice_number": "F24/00781", "invoice_date": "2024-04-11", "payment_due_date": "2024-05-11",
        **totals("EUR 820.00 118.20 938.20"),
        "issuer": party("Imprimerie Meuse SRL|Rue de la Station 45|5000|Namur", country="BE",
                         vat_id="BE0428759497", iban="BE68539007547034"),
        "recipient": party("Stad Leuven|Professor Van Overstraetenplein 1|3000|Leuven"),
        "line_items": lines(
            "description quantity unit_price tax_rate net_amount", "Affiches A2 quadri|500|0.92|21|460.00",
            "Dépliants 3 volets|2000|0.18|6|360.00",
        ),
    })  # fmt: skip


def two_column_totals() -> DrawnDocument:
    """A Dutch exporter's English invoice.

    Article number above description, totals on the left, terms on the right, reverse charge.
    """
    sheet = Sheet("times")
    sheet.at(105, 18, "VAN DIJK PUMPS & VALVES B.V.", 14, bold=True)
    sheet.at(105, 23, "Havenkade 40, 3011 AB Rotterdam, The Netherlands", 8)
    sheet.at(15, 40, "Invoice address", 8, bold=True)
    sheet.rows(15, 45, "Baltic Water Utilities AB", "Storgatan 12", "211 42 Malmö", "Sweden", "VAT SE556012579001")
    sheet.at(15, 75, "COMMERCIAL INVOICE", 14, bold=True)
    sheet.table(40, "105 150", "Invoice number|240311", "Invoice date|14-Jun-2024", "Payment due|14-Jul-2024",
                "Customer order|PO-SE-8841", "Our VAT number|NL004495445B01", "Delivery terms|DAP Malmö")  # fmt: skip
    columns = "15 25 120r 123 155r 190r"
    sheet.table(88, columns, "Line|Article / Description|Qty|UoM|Net price|Net value", bold=True)
    y = 95.0
    for name, numbers in (
        ("Centrifugal pump DN50 stainless", "1|PV-2200-SS|2|pcs|1,845.00|3,690.00"),
        ("Ball valve DN50 PN16", "2|BV-050-16|12|pcs|96.25|1,155.00"),
        ("Gasket set DN50", "3|GK-050|24|set|4.10|98.40"),
    ):
        y = sheet.table(y, columns, numbers)
        y = sheet.rows(25, y - 0.6, name, size=8) + 2
    total_columns = "15 75r"
    sheet.table(y + 8, total_columns, "Total excl. VAT EUR|4,943.40", "VAT 0% (intra-community supply)|0.00",
                "Total amount EUR|4,943.40")  # fmt: skip
    sheet.rows(
        105, y + 8, "Payment: 30 days net", "IBAN NL91 ABNA 0417 1643 00", "Reverse charge, Art. 138 VAT Directive"
    )
    return sheet.finish("invoice", {
        "invoice_number": "240311", "invoice_date": "2024-06-14", "payment_due_date": "2024-07-14",
        "po_reference": "PO-SE-8841", **totals("EUR 4943.40 0.00 4943.40"),
        "issuer": party("VAN DIJK PUMPS & VALVES B.V.|Havenkade 40|3011 AB|Rotterdam", country="NL",
                         vat_id="NL004495445B01", iban="NL91ABNA0417164300"),
        "recipient": party("Baltic Water Utilities AB|Storgatan 12|211 42|Malmö", country="SE",
                            vat_id="SE556012579001"),
        "line_items": lines(
            "position article_number description quantity unit unit_price net_amount",
            "1|PV-2200-SS|Centrifugal pump DN50 stainless|2|C62|1845.00|3690.00",
            "2|BV-050-16|Ball valve DN50 PN16|12|C62|96.25|1155.00", "3|GK-050|Gasket set DN50|24|SET|4.10|98.40",
        ),
    })  # fmt: skip


def numbers_below() -> DrawnDocument:
    """An English order confirmation with descriptions above rows of numbers."""
    sheet = Sheet()
    sheet.rows(20, 20, "Northgate Steel Supplies Ltd", "14 Foundry Lane", "Sheffield S9 2XY", "VAT Reg No GB980780684")
    sheet.at(190, 24, "Order Acknowledgement", 15, bold=True, right=True)
    sheet.table(32, "130 165", "Our order no.|SO-20418", "Date|9 July 2024", "Your order no.|PO-7781")
    sheet.at(20, 50, "Customer", 8, bold=True)
    sheet.rows(20, 55, "Calder Engineering Ltd", "Unit 12, Mill Park", "Halifax HX1 5QT")
    sheet.table(85, "20 35 110r 113 150r 190r", "Item|Product|Quantity|Unit|Price|Value", bold=True)
    y = 93.0
    for name, numbers in (
        ("10|Hot rolled flat bar 50 x 10 mm", "24|pcs|31.50|756.00"),
        ("20|Equal angle 40 x 40 x 4 mm", "40|pcs|22.75|910.00"),
    ):
        sheet.table(y, "20 35", name)
        sheet.at(35, y + 4.2, "EN 10025 S275JR, 6 m lengths", 8)
        y = sheet.table(y + 8.4, "110r 113 150r 190r", numbers) + 3
    sheet.table(
        y + 5,
        "130 190r",
        "Goods total|1,666.00",
        "VAT 20%|333.20",
        "Order total GBP|1,999.20",
    )
    return sheet.finish("order_confirmation", {
        "confirmation_number": "SO-20418", "confirmation_date": "2024-07-09", "po_reference": "PO-7781",
        **totals("GBP 1666.00 333.20 1999.20"),
        "supplier": party("Northgate Steel Supplies Ltd|14 Foundry Lane|S9 2XY|Sheffield", vat_id="GB980780684"),
        "buyer": party("Calder Engineering Ltd|Unit 12, Mill Park|HX1 5QT|Halifax"),
        "line_items": lines(
            "position description quantity unit unit_price net_amount",
            "10|Hot rolled flat bar 50 x 10 mm EN 10025 S275JR, 6 m lengths|24|C62|31.50|756.00",
            "20|Equal angle 40 x 40 x 4 mm EN 10025 S275JR, 6 m lengths|40|C62|22.75|910.00",
        ),
    })  # fmt: skip


def without_heading() -> DrawnDocument:
    """A Dutch craftsman's invoice without a table heading.

    Quantities, prices and amounts in columns without labels.
    """
    sheet = Sheet("times")
    sheet.rows(
        20, 20, "Schildersbedrijf Jansen", "Kerkstraat 12", "1017 GM Amsterdam", "BTW-nr NL004495445B01", size=10
    )
    sheet.rows(20, 55, "Woningstichting De Key", "Postbus 2643", "1000 CP Amsterdam", size=10)
    sheet.rows(20, 80, "Factuur 2024-041", size=13)
    sheet.rows(20, 87, "Datum: 2 oktober 2024")
    sheet.table(
        100, "20 120r 145r 185r", "Schilderwerk voorgevel, uren|24|45,00|1.080,00",
        "Grondverf, liter|12|18,50|222,00", "Steigerhuur, dagen|5|60,00|300,00",
    )  # fmt: skip
    sheet.table(
        120,
        "20 185r",
        "Totaal exclusief btw|1.602,00",
        "btw 9%|144,18",
        "Totaal te betalen|1.746,18 EUR",
    )
    sheet.at(20, 150, "Gelieve te betalen voor 16 oktober 2024 op NL91 ABNA 0417 1643 00")
    return sheet.finish("invoice", {
        "invoice_number": "2024-041", "invoice_date": "2024-10-02", "payment_due_date": "2024-10-16",
        **totals("EUR 1602.00 144.18 1746.18"),
        "issuer": party("Schildersbedrijf Jansen|Kerkstraat 12|1017 GM|Amsterdam", vat_id="NL004495445B01",
                         iban="NL91ABNA0417164300"),
        "recipient": party("Woningstichting De Key|Postbus 2643|1000 CP|Amsterdam"),
        "line_items": lines(
            "description quantity unit_price net_amount", "Schilderwerk voorgevel, uren|24|45.00|1080.00",
            "Grondverf, liter|12|18.50|222.00", "Steigerhuur, dagen|5|60.00|300.00",
        ),
    })  # fmt: skip


NORTHERN = (
    english,
    consultancy,
    english_order,
    dutch,
    danish,
    belgian,
    two_column_totals,
    numbers_below,
    without_heading,
)
