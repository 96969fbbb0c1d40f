"""What papers of trade call their sums and currencies, in the seven languages and letters of `wording`. Pure."""

from types import MappingProxyType

CURRENCY = (
    "wahrung", "rechnungswahrung", "belegwahrung", "betrage in", "alle betrage in", "currency",
    "invoice currency", "amounts in",
    "all amounts in", "devise", "monnaie", "montants en", "valuta", "divisa", "moneta", "importi in", "moneda",
    "importes en",
    "bedragen in", "belob i",
)  # fmt: skip

NET = (
    "nettobetrag", "netto betrag", "netto", "summe netto", "gesamt netto", "netto gesamt", "nettosumme",
    "gesamtnetto", "gesamtbetrag netto",
    "zwischensumme netto", "rechnungssumme netto", "rechnungssumme ohne ust", "summe ohne ust", "summe ohne mwst",
    "gesamtbetrag ohne ust", "nettogesamtbetrag", "gesamtnettowert", "gesamtnettobetrag", "nettowert",
    "gesamtwert netto", "nettorechnungsbetrag", "rechnungsbetrag netto", "total exkl mwst", "total ohne mwst",
    "steuerbasisbetrag gesamt", "warenwert netto", "gesamtbeitrag",
    "nett", "nett total", "total nett", "goods value", "net goods", "amount before vat", "amount before tax",
    "total h t", "montant h t", "total net h t", "total net ht", "montant net ht", "net commercial", "base imposable",
    "tot imponibile", "imponibile totale", "base imp", "b imponible", "subtotaal excl btw", "netto factuurbedrag",
    "goederenbedrag", "momspligtigt belob", "momspligtig belob", "nettobelob i alt", "subtotal excl moms",
    "summe netto eur", "gesamtsumme netto", "netto rechnungsbetrag",
    "untaxed amount", "total untaxed amount", "montant hors taxe", "montant hors taxes", "importe sin impuestos",
    "total sin iva", "importo netto", "totale imponibile iva", "total net value", "net value", "net order value",
    "net total", "total net", "net amount", "total net amount", "subtotal", "sub total", "total before tax",
    "total excl vat",
    "total excluding vat", "total ex vat", "total without vat", "amount excl vat", "taxable amount",
    "net invoice amount",
    "total htva", "montant htva",
    "total ht", "montant ht", "total hors taxe", "total hors taxes", "montant total ht", "sous total ht",
    "net ht", "base ht",
    "imponibile", "totale imponibile", "totale netto", "totale documento netto", "netto a pagare imponibile",
    "base imponible", "total base imponible", "importe neto", "total neto", "subtotaal", "totaal excl btw",
    "totaal exclusief btw", "netto bedrag", "netto belob", "netto totaal", "totaal netto", "bedrag excl btw",
    "netto i alt",
    "subtotal ekskl moms", "i alt ekskl moms", "total ekskl moms", "total excl moms", "belob ekskl moms",
    "momsgrundlag",
)  # fmt: skip

TAX = (
    "steuerbetrag", "steuerbetrag in eur", "summe umsatzsteuer", "umsatzsteuer gesamt", "ust gesamt",
    "gesamt ust", "mwst gesamt", "summe ust",
    "summe mwst", "mehrwertsteuer gesamt", "mwst betrag", "ust betrag", "umsatzsteuerbetrag",
    "mehrwertsteuerbetrag", "gesamtbetrag umsatzsteuer",
    "zuzuglich ust", "zuzugl ust", "zzgl ust", "steuer gesamt", "gesamtsteuer", "gesamtsteuerbetrag",
    "vat total", "total vat", "vat amount", "total tax", "tax total",
    "total vat amount", "tax amount", "sales tax", "total taxes", "total tva", "montant tva",
    "montant total tva", "taxes", "total de la tva",
    "totale iva", "totale imposta", "imposta", "importo iva", "totale imposte", "total iva", "cuota iva",
    "importe iva",
    "total impuestos", "totaal btw", "btw bedrag", "btw totaal", "btw", "moms i alt", "moms", "momsbelob",
    "total moms", "samlet moms",
)  # fmt: skip
"""The whole tax of a document."""

TAX_PART = (
    "ust", "umsatzsteuer", "mwst", "mehrwertsteuer", "zzgl ust", "zzgl umsatzsteuer", "zzgl mwst", "zuzuglich ust",
    "zuzuglich umsatzsteuer", "zuzuglich mwst", "zzgl mehrwertsteuer", "steuerbasisbetrag ust",
    "versicherungsteuer", "versicherungssteuer",
    "enthaltene mwst", "vat", "plus vat", "vat at", "tva", "iva", "btw", "moms", "enthaltene ust", "inkl mwst",
    "darin enthaltene mwst", "tax", "gst", "i v a", "t v a", "b t w",
)  # fmt: skip
"""A tax, of one rate, or the whole where there is but one."""

GROSS = (
    "bruttobetrag", "bruttosumme", "brutto", "gesamtbetrag brutto", "gesamt brutto", "brutto gesamt",
    "bruttogesamtbetrag", "summe brutto",
    "rechnungssumme brutto", "rechnungssumme inkl ust", "summe inkl ust", "summe inkl mwst",
    "gesamtbetrag inkl ust", "gesamtbetrag inkl mwst",
    "gesamtsumme brutto", "gesamtbetrag", "rechnungsbetrag", "rechnungssumme", "gesamtsumme", "endbetrag",
    "endsumme", "rechnungsbeitrag", "gesamt",
    "auftragssumme", "bestellsumme", "auftragswert", "bestellwert", "gutschriftsbetrag", "gutschriftbetrag",
    "gutschriftssumme", "rechnungsendbetrag", "gesamtrechnungsbetrag", "bruttorechnungsbetrag", "credit total",
    "total credit", "montant de l'avoir", "totale nota di credito", "totale ordine", "totale generale",
    "total general", "importe bruto", "total bruto", "total pedido", "kreditbelob", "creditbedrag",
    "grand total", "total gross", "gross total", "gross amount", "total amount", "total incl vat",
    "total including vat",
    "total inc vat", "total including tax", "invoice total", "total invoice amount", "invoice amount", "total",
    "order total", "total price", "total tvac", "montant tvac",
    "total ttc", "montant ttc", "montant total ttc", "total toutes taxes comprises",
    "montant total", "totale", "totale fattura", "totale documento", "importo totale", "totale iva inclusa",
    "total factura",
    "importe total", "total con iva", "total iva incluido", "totaal", "totaalbedrag", "totaal incl btw",
    "totaal inclusief btw",
    "rechnungsgesamtbetrag", "gesamtpreis", "gesamtrechnungssumme", "total t t c", "montant t t c", "tot documento",
    "tot fattura", "totaal bedrag", "eindtotaal", "eindbedrag", "fakturabelob", "belob i alt", "faktura i alt",
    "totaal factuur", "factuurtotaal", "totaalbedrag factuur", "total facture", "total de la facture",
    "total invoice", "total de la factura", "importe factura", "factuurbedrag", "bedrag incl btw", "i alt",
    "i alt inkl moms", "total inkl moms", "fakturatotal",
    "samlet belob", "totalbelob",
)  # fmt: skip

SUM = (
    "summe", "zwischensumme", "positionssumme", "warenwert", "gesamtwert", "total des lignes", "somme", "totale merce",
    "totale righe", "suma", "som", "varebelob", "sum", "base", "bases", "grundbetrag", "bemessungsgrundlage",
    "grondslag", "grundlag", "importe", "goods total", "total goods", "line total", "summe positionen",
)  # fmt: skip
"""A sum that is the net amount only where the tax added to it shows so."""

PAYABLE = (
    "zahlbetrag", "zu zahlen", "zu zahlender betrag", "zahlungsbetrag", "offener betrag",
    "zu zahlender beitrag", "falliger betrag",
    "total a payer", "totale a pagare", "totaal te voldoen", "te voldoen", "amount due", "total due",
    "balance due", "due payable", "amount payable", "total payable", "please pay", "net a payer",
    "reste a payer",
    "solde a payer", "montant a payer", "a payer", "totale da pagare", "netto a pagare", "da pagare",
    "total a pagar", "importe a pagar", "a pagar",
    "te betalen", "te betalen bedrag", "totaal te betalen", "at betale", "til betaling", "belob til betaling",
)  # fmt: skip
"""What is left to pay: the gross amount, where nothing was paid before."""

CURRENCIES = MappingProxyType({"€": "EUR", "£": "GBP", "euro": "EUR", "euros": "EUR"})

CODES = (
    "EUR|GBP|CHF|USD|DKK|SEK|NOK|PLN|CZK|HUF|RON|BGN|DEM|CAD|AUD|JPY|CNY|TRY|ISK"
)  # fmt: skip
