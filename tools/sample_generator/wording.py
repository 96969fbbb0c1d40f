"""The words that papers and file names use, in the five languages of the sample's firms."""

# ruff: noqa: RUF001 - wording in its own typography

from collections.abc import Mapping
from dataclasses import dataclass

from tools.sample_generator.model import Kind


@dataclass(frozen=True)
class Words:
    """The wording of one language. `titles` head a paper and begin the name of its file."""

    titles: Mapping[Kind, str]
    number: str
    date: str
    due: str
    delivered: str
    our_contact: str
    customer_vat: str
    order: str
    delivery_note: str
    sales_order: str
    credited_invoice: str
    columns: tuple[str, str, str, str, str, str, str]
    net: str
    tax: str
    total: str
    per: str
    pay: str
    bank: str
    vat_id: str
    tax_number: str
    intra_community: str
    export: str
    freight: str
    cost_centre: str
    thanks: str
    credit_reason: str
    copy: str
    page: str
    page_of: str
    carried: str
    enclosed: str
    separator: str


_TITLES = {
    "de": ("Bestellung", "Auftragsbestätigung", "Lieferschein", "Wareneingang", "Rechnung", "Gutschrift"),
    "fr": ("Commande", "Accusé de commande", "Bon de livraison", "Bon de réception", "Facture", "Avoir"),
    "it": ("Ordine", "Conferma d’ordine", "Bolla di consegna", "Entrata merce", "Fattura", "Nota di credito"),
    "nl": ("Bestelling", "Orderbevestiging", "Pakbon", "Ontvangstbon", "Factuur", "Creditnota"),
    "en": ("Purchase order", "Order confirmation", "Delivery note", "Goods receipt", "Invoice", "Credit note"),
}


def _names(language: str) -> dict[Kind, str]:
    return dict(zip(Kind, _TITLES[language], strict=True))


WORDS: Mapping[str, Words] = {
    "de": Words(
        titles=_names("de"),
        number="Nummer",
        date="Datum",
        due="Fällig am",
        delivered="Lieferdatum",
        our_contact="Kostenstelle",
        customer_vat="Ihre USt-IdNr.",
        order="Ihre Bestellung",
        delivery_note="Lieferschein",
        sales_order="Unser Auftrag",
        credited_invoice="Zu Rechnung",
        columns=("Pos.", "Artikel", "Bezeichnung", "Menge", "Preis", "USt.", "Betrag"),
        net="Nettobetrag",
        tax="Umsatzsteuer {rate} % auf {base}",
        total="Gesamtbetrag",
        per="je {basis}",
        pay="Bitte überweisen Sie den Betrag bis zum {due} unter Angabe der Rechnungsnummer.",
        bank="Bankverbindung",
        vat_id="USt-IdNr.",
        tax_number="Steuernummer",
        intra_community="Steuerfreie innergemeinschaftliche Lieferung",
        export="Steuerfreie Ausfuhrlieferung",
        freight="Fracht und Verpackung",
        cost_centre="KST",
        thanks="Vielen Dank für Ihren Auftrag. Es gelten unsere Lieferbedingungen.",
        credit_reason="Gutschrift für zurückgesandte oder beanstandete Ware.",
        copy="Kopie von",
        page="Seite",
        page_of="von",
        carried="Übertrag",
        enclosed="Anbei erhalten Sie die folgenden Belege:",
        separator="Trennblatt",
    ),
    "fr": Words(
        titles=_names("fr"),
        number="Numéro",
        date="Date",
        due="Échéance",
        delivered="Date de livraison",
        our_contact="Centre de coûts",
        customer_vat="Votre n° de TVA",
        order="Votre commande",
        delivery_note="Bon de livraison",
        sales_order="Notre commande",
        credited_invoice="Sur facture",
        columns=("N°", "Article", "Désignation", "Quantité", "Prix", "TVA", "Montant"),
        net="Total hors taxes",
        tax="TVA {rate} % sur {base}",
        total="Total à payer",
        per="par {basis}",
        pay="Merci de régler ce montant avant le {due} en rappelant le numéro de la facture.",
        bank="Coordonnées bancaires",
        vat_id="N° TVA",
        tax_number="N° fiscal",
        intra_community="Livraison intracommunautaire exonérée",
        export="Exportation exonérée",
        freight="Frais de port et d’emballage",
        cost_centre="Service",
        thanks="Nous vous remercions de votre confiance. Nos conditions générales s’appliquent.",
        credit_reason="Avoir pour marchandise retournée ou refusée.",
        copy="Copie de",
        page="Page",
        page_of="sur",
        carried="À reporter",
        enclosed="Veuillez trouver ci-joint les documents suivants :",
        separator="Intercalaire",
    ),
    "it": Words(
        titles=_names("it"),
        number="Numero",
        date="Data",
        due="Scadenza",
        delivered="Data di consegna",
        our_contact="Centro di costo",
        customer_vat="Vostra partita IVA",
        order="Vostro ordine",
        delivery_note="Documento di trasporto",
        sales_order="Nostro ordine",
        credited_invoice="Su fattura",
        columns=("Pos.", "Articolo", "Descrizione", "Quantità", "Prezzo", "IVA", "Importo"),
        net="Imponibile",
        tax="IVA {rate} % su {base}",
        total="Totale documento",
        per="per {basis}",
        pay="Vi preghiamo di versare l’importo entro il {due} citando il numero della fattura.",
        bank="Coordinate bancarie",
        vat_id="Partita IVA",
        tax_number="Codice fiscale",
        intra_community="Cessione intracomunitaria non imponibile",
        export="Cessione all’esportazione non imponibile",
        freight="Trasporto e imballo",
        cost_centre="Reparto",
        thanks="Vi ringraziamo dell’ordine. Valgono le nostre condizioni di vendita.",
        credit_reason="Nota di credito per merce resa o contestata.",
        copy="Copia di",
        page="Pagina",
        page_of="di",
        carried="Riporto",
        enclosed="In allegato trovate i seguenti documenti:",
        separator="Foglio separatore",
    ),
    "nl": Words(
        titles=_names("nl"),
        number="Nummer",
        date="Datum",
        due="Vervaldatum",
        delivered="Leverdatum",
        our_contact="Kostenplaats",
        customer_vat="Uw btw-nummer",
        order="Uw bestelling",
        delivery_note="Pakbon",
        sales_order="Onze order",
        credited_invoice="Op factuur",
        columns=("Nr.", "Artikel", "Omschrijving", "Aantal", "Prijs", "Btw", "Bedrag"),
        net="Totaal exclusief btw",
        tax="Btw {rate} % over {base}",
        total="Te betalen",
        per="per {basis}",
        pay="Gelieve het bedrag vóór {due} over te maken onder vermelding van het factuurnummer.",
        bank="Bankgegevens",
        vat_id="Btw-nummer",
        tax_number="Fiscaal nummer",
        intra_community="Intracommunautaire levering, vrijgesteld van btw",
        export="Uitvoer, vrijgesteld van btw",
        freight="Verzend- en verpakkingskosten",
        cost_centre="Afdeling",
        thanks="Dank voor uw opdracht. Onze leveringsvoorwaarden zijn van toepassing.",
        credit_reason="Credit voor teruggezonden of geweigerde goederen.",
        copy="Kopie van",
        page="Pagina",
        page_of="van",
        carried="Transporteren",
        enclosed="Bijgaand ontvangt u de volgende stukken:",
        separator="Tussenblad",
    ),
    "en": Words(
        titles=_names("en"),
        number="Number",
        date="Date",
        due="Due date",
        delivered="Delivered on",
        our_contact="Cost centre",
        customer_vat="Your VAT number",
        order="Your order",
        delivery_note="Delivery note",
        sales_order="Our order",
        credited_invoice="For invoice",
        columns=("No.", "Item", "Description", "Quantity", "Price", "VAT", "Amount"),
        net="Net total",
        tax="VAT {rate} % on {base}",
        total="Amount due",
        per="per {basis}",
        pay="Please pay by {due} and quote the invoice number.",
        bank="Bank details",
        vat_id="VAT number",
        tax_number="Tax reference",
        intra_community="Intra-community supply, exempt from VAT",
        export="Export, zero rated",
        freight="Carriage and packing",
        cost_centre="Dept",
        thanks="Thank you for your order. Our terms of sale apply.",
        credit_reason="Credit for goods returned or refused.",
        copy="Copy of",
        page="Page",
        page_of="of",
        carried="Carried forward",
        enclosed="Please find enclosed the following documents:",
        separator="Separator sheet",
    ),
}
