"""What papers of trade call things, in German, English, French, Italian, Spanish, Dutch and Danish. Pure.

All words are written as `layout.plain` writes them: small letters, no accents. A blank in a phrase stands for blanks,
dots and hyphens or nothing: `rechnungs nr` is found in `Rechnungs-Nr.` and `RECHNUNGSNR`.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from counterfoil.documents.structured import DocumentType

_NUMBER: Final = r"(?:nummer|number|numero|numeros|num|nr|n\.?o|n|n'|#|id)"


def pattern(phrases: Iterable[str]) -> "re.Pattern[str]":
    """A pattern for any of the phrases as whole words; `*` in a phrase is the word for number, in any language."""
    written = sorted(
        (re.escape(phrase).replace(r"\ ", r"[\s.\-/]*").replace(r"\*", _NUMBER) for phrase in phrases),
        key=len,
        reverse=True,
    )
    return re.compile(rf"(?<![a-z0-9])(?:{'|'.join(written)})(?:(?<=#)|(?![a-z0-9]))")


def words(*lines: str) -> frozenset[str]:
    """The words of lines."""
    return frozenset(word for line in lines for word in line.split())


TITLES: Mapping[DocumentType, tuple[str, ...]] = MappingProxyType(
    {
        DocumentType.ORDER_CONFIRMATION: (
            "auftragsbestatigung", "bestellbestatigung", "order (?:confirmation|acknowledge?ment)",
            "sales order confirmation", "confirmation de (?:la )?commande", "accuse (?:de reception )?de commande",
            "conferma (?:d')?(?:di )?ordine", "confirmacion (?:de|del) pedido", "order ?bevestiging",
            "opdrachtbevestiging", "ordre ?bekr[ae]e?ftelse",
        ),
        DocumentType.CREDIT_NOTE: (
            "[a-z]*gutschrift", "credit ?note", "credit memo(?:randum)?", "credit invoice", "avoir",
            "facture d'avoir", "note de credit", "nota (?:di|de) credito", "factura rectificativa", "abono",
            "credit ?nota", "credit ?factuur", "kredit ?nota",
        ),
        DocumentType.GOODS_RECEIPT: (
            "wareneingang(?:s ?-?(?:schein|beleg|meldung|bestatigung))?", "goods receipt(?: note)?",
            "goods received note", "receiving report", "bon de reception", "avis de reception", "entrata merc[ei]",
            "ricevimento merci", "bolla di entrata", "entrada de mercancias", "nota de recepcion", "ontvangstbon",
            "goederenontvangst", "varemodtagelse",
        ),
        DocumentType.DELIVERY_NOTE: (
            "lieferschein", "lieferavis", "warenbegleitschein", "delivery note", "despatch advice", "dispatch note",
            "packing (?:slip|list)",
            "bon de livraison", "bordereau de livraison", "documento di trasporto", r"d\.?d\.?t\.?",
            "bolla di consegna", "albaran(?: de entrega)?", "nota de entrega", "pakbon", "afleverbon", "leveringsbon",
            "leverbon", "folgeseddel", "leveringsseddel",
        ),
        DocumentType.PURCHASE_ORDER: (
            "(?:einkaufs|rahmen|material)?bestellung", "bestellauftrag", "bestellschein",
            "purchase order", "order", "bon de commande", "commande",
            "ordine(?: (?:di |d')acquisto)?", "ordine fornitore", "pedido(?: de compra)?", "orden de compra",
            "bestelling", "bestelbon", "inkooporder", "indkobsordre", "bestilling", "ordre",
        ),
        DocumentType.CONTRACT: (
            "[a-z]*vertrag", "rahmenvereinbarung", "contract", "(?:framework )?agreement", "contrat(?:[ -]cadre)?",
            "accord[ -]cadre", "contratto(?: quadro)?", "contrato(?: marco)?", "overeenkomst",
            "raam(?:contract|overeenkomst)", "kontrakt", "rammeaftale",
        ),
        DocumentType.INVOICE: (
            "[a-z]*rechnung(?:s-? ?korrektur)?", "honorarnote", "kostennote", "note d'honoraires",
            "faktura", "(?:[a-z]+ )?invoice", "bill", "facture", "fattura", "factura",
            "factuur",
        ),
    }
)  # fmt: skip
"""Patterns of what the types call themselves, the more special before those that are part of them."""

PREPOSITIONS = words(
    "zu zur zum gemass gem laut lt aus fur uber per in bei auf ihre ihrer unsere diese dieser der die den to for your",
    "our this of pour selon de la votre notre cette sur suite vostra questa para su esta segun voor uw onze til jeres",
    "vores deres bezug betrifft original statt related ref ihr unser vs ns vos nos vostro nostra nostro nuestro",
    "nuestra vuestro vuestra",
)
"""Before the name of a type, or between it and a number, these make it a mention of another document."""

NUMBERS: Mapping[DocumentType, tuple[str, ...]] = MappingProxyType(
    {
        DocumentType.INVOICE: (
            "rechnungs *", "rechnung *", "honorarnote *", "kostennote *", "bill *", "ref facture", "reference facture",
            "re *", "rg *", "piece *", "* de piece", "fatt *", "fra *", "fact *", "faktura *", "fakturanummer",
            "rechnungskorrektur *",
            "invoice *", "tax invoice *", "inv *", "facture *", "* de facture", "* facture", "fattura *", "* fattura",
            "* della fattura", "factura *", "* de factura", "* factura", "factuur *",
        ),
        DocumentType.CREDIT_NOTE: (
            "gutschrifts *", "gutschrift *", "credit note *", "credit memo *", "avoir *", "* d'avoir", "* avoir",
            "nota di credito *", "nota credito *", "nota de credito *", "abono *", "factura rectificativa *",
            "creditnota *", "creditfactuur *", "creditfactuurnummer", "kreditnota *",
        ),
        DocumentType.PURCHASE_ORDER: (
            "bestell *", "bestellungs *", "bestellung *", "kundenbestell *", "po *", "p o *",
            "purchase order *", "order *",
            "customer order *", "buyer order *", "* de commande", "commande *", "* commande", "bon de commande *",
            "* d'ordine", "ordine *", "* ordine", "ordine di acquisto *", "ordine d'acquisto *", "* de pedido",
            "pedido *", "* pedido", "orden de compra *", "bestel *", "inkooporder *", "bestelling *", "ordre *",
            "indkobsordre *", "rekvisitions *", "bestillings *",
        ),
        DocumentType.ORDER_CONFIRMATION: (
            "our order *", "unser auftrag *", "notre commande *", "nostro ordine *", "onze order *", "vores ordre *",
            "auftragsbestatigungs *", "auftragsbestatigung *", "auftrags *", "auftrag *", "ab *", "auftrag nr lief",
            "order confirmation *", "confirmation *", "sales order *", "so *", "confirmation de commande *",
            "accuse de reception *", "conferma d'ordine *", "conferma ordine *", "confirmacion de pedido *",
            "confirmacion del pedido *", "orderbevestiging *", "opdrachtbevestiging *", "ordrebekraeftelse *",
            "ordrebekreftelse *", "verkooporder *",
        ),
        DocumentType.DELIVERY_NOTE: (
            "lieferschein *", "lieferscheins *", "lieferavis *", "lieferung *", "lieferschein nr datum",
            "lieferscheinnr datum", "delivery note *", "despatch advice *", "dispatch note *", "packing slip *",
            "packing list *", "delivery *", "bon de livraison *", "bl *", "bordereau de livraison *",
            "documento di trasporto *", "bolla *", "ddt *", "d d t *", "albaran *", "nota de entrega *", "pakbon *",
            "leverbon *", "afleverbon *", "leveringsbon *", "folgeseddel *", "leverings *",
        ),
        DocumentType.GOODS_RECEIPT: (
            "wareneingangs *", "wareneingang *", "wareneingangsschein *", "goods receipt *", "goods received note *",
            "grn *", "receiving report *", "bon de reception *", "avis de reception *", "entrata merci *",
            "ricevimento merci *", "bolla di entrata *", "entrada de mercancias *", "nota de recepcion *",
            "ontvangstbon *", "goederenontvangst *", "varemodtagelse *", "varemodtagelses *",
        ),
        DocumentType.CONTRACT: (
            "vertrags *", "vertrag *", "rahmenvertrag *", "rahmenvertrags *", "contract *", "agreement *",
            "framework agreement *", "contrat *", "* de contrat", "contratto *", "* contratto", "contrato *",
            "* de contrato", "kontrakt *", "aftale *", "raamcontract *", "ref marche", "marche *",
            "contract ref", "contract reference", "agreement ref", "agreement reference", "vertragsreferenz",
            "reference contrat", "ref contrat", "rif contratto", "ref contrato",
        ),
    }
)  # fmt: skip
"""Labels of the number of each type of document: its own on the document itself, a reference on any other."""

OWN_NUMBER = (
    "beleg *", "dokument *", "dokumenten *", "document *", "doc *", "* document", "* du document", "* documento",
    "documento *", "bilags *", "dokument *", "belegnummer",
)  # fmt: skip
"""Labels that every type of document may give its own number."""

ORDER_NUMBER = (
    "order *", "commande *", "* de commande", "* commande", "ordine *", "* ordine", "pedido *", "* de pedido",
    "ordre *",
)  # fmt: skip
"""Labels of the number that an order has with who prints it: of a confirmation its own, where no other is."""

REMINDER = (
    "mahnung", "zahlungserinnerung", "kontoauszug", "reminder", "statement", "relance", "rappel", "releve", "sollecito",
    "estratto conto", "recordatorio", "extracto", "herinnering", "aanmaning", "rekeningoverzicht", "rykker",
    "kontoudtog",
)  # fmt: skip
"""What asks for the payment of other documents, and names them without being one."""

TYPE_LABEL = (
    "documento", "tipo documento", "tipo de documento", "tipo di documento", "tipologia documento", "document",
    "document type", "type of document", "type de document", "belegart", "dokumentart", "dokument", "dokumenttype",
)  # fmt: skip
"""Labels of the name of a document's type."""

BARE_NUMBER = ("#", "nummer", "number", "numero", "nr", "no", "n", "num", "n o")
"""Labels beside a title that say no more than that a number follows."""

BARE_REFERENCES: Mapping[DocumentType, tuple[str, ...]] = MappingProxyType(
    {
        DocumentType.PURCHASE_ORDER: (
            "bestellung", "ihre bestellung", "ihr auftrag", "ihre auftrags *", "order", "purchase order",
            "your order",
            "your order *", "your purchase order", "commande", "votre commande", "bon de commande", "ordine",
            "vs ordine", "vostro ordine", "rif ordine", "pedido", "su pedido", "vuestro pedido", "bestelling",
            "uw bestelling", "uw order", "uw order *", "uw bestel *", "ordre", "jeres ordre", "deres ordre",
            "rekvisition", "deres rekvisition", "jeres rekvisition", "votre reference commande", "vs commande",
            "deres ordre *", "jeres ordre *", "po", "po reference", "po ref", "order reference", "order ref",
            "customer reference order", "customer order", "kundenbestellung", "commande client", "ordine cliente",
            "pedido cliente", "klantorder", "kundeordre", "your purchase order *",
            "gemass bestellung", "reference commande", "ref commande",
        ),
        DocumentType.ORDER_CONFIRMATION: (
            "unser auftrag", "auftragsbestatigung", "our order", "our order *", "sales order",
        ),
        DocumentType.DELIVERY_NOTE: (
            "lieferschein", "lieferavis", "delivery note", "despatch advice", "bon de livraison", "ddt",
            "documento di trasporto", "albaran", "pakbon", "folgeseddel", "lieferscheine", "lieferscheinnummern",
        ),
        DocumentType.GOODS_RECEIPT: ("wareneingang", "goods receipt", "bon de reception", "varemodtagelse"),
        DocumentType.CONTRACT: (
            "vertrag", "rahmenvertrag", "contract", "contrat", "contratto", "contrato", "kontrakt",
            "framework agreement",
        ),
        DocumentType.INVOICE: (
            "rechnung", "zu rechnung", "zur rechnung", "betrifft rechnung", "invoice", "for invoice", "on invoice",
            "related invoice", "credited invoice", "facture", "sur facture", "concerne facture", "facture liee",
            "fattura", "su fattura", "rif fattura", "factura", "sobre factura", "ref factura", "factuur",
            "op factuur",
            "betreft factuur", "faktura", "vedr faktura", "vedrorende faktura",
        ),
    }
)  # fmt: skip
"""Labels without the word for number: they count where a number follows, and nothing after it."""

PRECEDING_INVOICE = (
    "ursprungsbeleg *", "ursprungliche rechnung", "ursprungsrechnung", "ursprungsrechnung *", "original rechnung",
    "originalrechnung *", "vorangegangene rechnung", "vorherige rechnung", "korrigierte rechnung", "zu rechnung *",
    "zur rechnung *", "bezug rechnung *", "rechnungsbezug", "original invoice", "original invoice *",
    "preceding invoice", "preceding invoice *", "previous invoice", "corrected invoice", "facture liee",
    "facture liee *", "facture d'origine", "facture d'origine *", "facture initiale", "fattura di riferimento",
    "rif fattura *", "fattura collegata", "factura original", "factura original *", "factura rectificada",
    "oorspronkelijke factuur", "betreft factuur", "oprindelig faktura", "vedr faktura", "vedrorende faktura",
    "rechnungsreferenz", "vorausgegangene rechnung",
)  # fmt: skip

QUOTATION = (
    "angebots *", "angebot *", "unser angebot", "ihr angebot", "angebot", "quotation *", "quote *", "your quotation",
    "your quote", "devis *", "* de devis", "votre devis", "devis", "offerta *", "vs offerta", "vostra offerta",
    "preventivo *", "oferta *", "su oferta",
    "presupuesto *", "offerte *", "uw offerte", "tilbuds *", "tilbud *", "jeres tilbud", "deres tilbud",
)  # fmt: skip

YOUR_REFERENCE = (
    "your reference", "your ref", "votre reference", "v ref", "vos references",
    "ihre referenz", "uw referentie",
    "uw ref", "vs riferimento", "vs rif", "su referencia", "deres ref", "deres reference", "jeres ref",
)  # fmt: skip
"""The buyer's own mark: an order's number where it looks like one."""

ANY_REFERENCE = ("referenz", "referenz *", "reference", "reference *", "riferimento", "referencia", "referentie")
"""Nobody's mark: a number of what it surely looks like."""

OWN_DATE: Mapping[DocumentType, tuple[str, ...]] = MappingProxyType(
    {
        DocumentType.INVOICE: (
            "rechnungs datum", "re datum", "faktura datum", "invoice date", "date of invoice", "tax point",
            "date de facture", "date facture", "date de la facture", "date de facturation", "data fattura",
            "data della fattura", "fecha de factura", "fecha factura", "fecha de la factura", "factuurdatum",
            "fakturadato",
        ),
        DocumentType.CREDIT_NOTE: (
            "gutschriftsdatum", "gutschrift datum", "credit note date", "date d'avoir", "date de l'avoir",
            "date de facture", "data nota di credito", "fecha de abono", "creditnotadatum", "kreditnotadato",
        ),
        DocumentType.PURCHASE_ORDER: (
            "bestell datum", "bestellung vom", "order date", "date of order", "purchase order date", "po date",
            "date de commande", "date de la commande", "data ordine", "data dell'ordine", "fecha de pedido",
            "fecha del pedido", "besteldatum", "orderdatum", "ordredato", "bestillingsdato",
        ),
        DocumentType.ORDER_CONFIRMATION: (
            "auftrags datum", "bestatigungsdatum", "confirmation date", "order date", "date de confirmation",
            "data conferma",
            "fecha de confirmacion", "bevestigingsdatum", "ordredato", "orderdatum",
        ),
        DocumentType.DELIVERY_NOTE: (
            "lieferschein datum", "liefer datum", "versanddatum", "delivery date", "date of delivery",
            "despatch date",
            "dispatch date", "ship date", "date de livraison", "date du bon de livraison", "data di consegna",
            "data consegna", "data ddt", "data documento di trasporto", "fecha de entrega", "fecha del albaran",
            "fecha albaran", "leverdatum", "pakbondatum", "leveringsdato", "folgeseddeldato",
        ),
        DocumentType.GOODS_RECEIPT: (
            "wareneingangs datum", "eingangsdatum", "receipt date", "date received", "received on", "date of receipt",
            "date de reception", "data di ricevimento", "data ricevimento", "fecha de recepcion", "ontvangstdatum",
            "modtagelsesdato", "modtaget",
        ),
        DocumentType.CONTRACT: (
            "vertragsdatum", "vertrags datum", "contract date", "date of contract", "effective date",
            "date du contrat", "data del contratto", "data contratto", "fecha del contrato", "contractdatum",
            "kontraktdato", "aftaledato",
        ),
    }
)  # fmt: skip

ANY_DATE = (
    "date emission", "emesso il", "data emiss", "fecha emision", "fecha expedicion", "f emision",
    "datum", "beleg datum", "ausstellungsdatum", "ausgestellt am", "date", "document date", "issue date",
    "date of issue", "issued", "date d'emission", "date du document", "data", "data documento", "data emissione",
    "data di emissione", "fecha", "fecha de emision", "fecha de expedicion", "uitgiftedatum", "dato", "udstedt",
    "udstedelsesdato", "dokumentdato", "documentdatum",
)  # fmt: skip

DUE_DATE = (
    "falligkeits datum", "fallig am", "falligkeit", "falligkeitstag", "fallig bis", "zahlbar bis", "zahlbar bis zum",
    "zahlungsfrist", "zahlung bis", "zahlbar am", "fallig", "netto bis", "please pay by", "pay before",
    "payment due by", "date limite de paiement", "payable le", "date de reglement", "pagamento entro", "scad",
    "fecha de pago", "fecha vto", "vto", "betaaldatum", "uiterlijk te betalen", "betales senest", "betalingsdato",
    "forfaldsdag",
    "zahlungsziel", "zu zahlen bis", "date due", "scadenza pagamenti", "scadenze", "scadenze pagamenti", "due date",
    "payment due", "payment due date", "due", "due on", "payable by",
    "pay by", "due by", "date d'echeance", "date echeance", "echeance", "echeance le", "a payer avant le",
    "a regler avant le", "data scadenza", "data di scadenza", "scadenza", "scadenza pagamento",
    "fecha de vencimiento",
    "fecha vencimiento", "vencimiento", "vence", "vervaldatum", "vervaldag", "te betalen voor",
    "uiterste betaaldatum",
    "betalen voor", "forfaldsdato", "forfald", "forfalder", "betalingsfrist", "sidste rettidige betalingsdag",
)  # fmt: skip

PAY_UNTIL = re.compile(
    r"(?:zahlbar|zahlen|uberweis\w*|begleich\w*|netto|abzug|payable|remit|pay|payment|payer|regler|virement|pagare"
    r"|pagamento|pagar|pago|betalen|overmaken|betales|betal)\b(?P<between>[^;]{0,60}?)\b"
    r"(?:bis(?: spatestens)?(?: zum)?|spatestens(?: am)?|until|by|before|no later than|avant(?: le)?"
    r"|au plus tard(?: le)?"
    r"|jusqu'au|entro(?: il)?|antes del|hasta el|voor|uiterlijk|uiterlijk op|senest(?: den)?|inden)\s*:?\s*$"
)
"""The words of a sentence that asks for payment, up to the date that follows."""

DISCOUNT = re.compile(r"skonto|rabatt|discount|escompte|sconto|descuento|korting")

VAT_ID = (
    "ust id nr", "ust id", "ustid", "ust ident nr", "ust identnr", "ust identifikations nr", "umsatzsteuer id",
    "umsatzsteuer id nr", "umsatzsteuer identifikationsnummer", "ust identifikationsnummer", "uid", "uid nr",
    "mwst nr", "mwst id",
    "vat id", "vat *", "vat reg *", "* tva client", "tva client", "* iva cliente", "btw * klant",
    "ust id kunde", "customer vat *", "buyer vat *", "vat registration *", "vat id *", "vat", "tva", "* tva",
    "tva intracom",
    "tva intracommunautaire", "* tva intracommunautaire", "* de tva", "* de tva intracommunautaire", "id tva",
    "partita iva", "p iva", "piva", "p iva cf", "iva", "* iva", "nif", "nif iva", "cif", "nif cif", "btw", "btw *",
    "btw id", "btw identificatienummer", "cvr", "cvr *", "se *", "momsnr", "moms *", "momsregistreringsnr",
)  # fmt: skip

TAX_NUMBER = (
    "steuer nr", "steuernummer", "st nr", "tax number", "tax *", "tax registration *", "tax id", "tax reference",
    "codice fiscale", "c f", "numero fiscal", "numero fiscale", "fiscaal nummer",
)  # fmt: skip

REGISTRATION = (
    "siret", "* siret", "siren", "* siren", "rcs", "rea", "* rea", "kvk", "kvk *", "company *",
    "company registration *", "registered *", "registered in england", "registered in england *",
    "registered in england and wales", "company reg *", "firmenbuch *", "fn",
)  # fmt: skip

IBAN = ("iban", "iban *", "verkaufer iban")

YOURS = re.compile(
    r"^(?:ihre?|your|votre|vos|vs|vostr[oa]|su|uw|jeres|deres|kaufer|kunden|customer|client|buyer)\b"
    r"|(?:\bclient|\bcliente|\bkunde|\bklant|\bcustomer|\bbuyer|acheteur)\W*$"
)
"""Beside the label of an id: it is the buyer's."""

OURS = re.compile(r"^\W*(?:our|unsere?r?|notre|nos|nostr[oa]|ns|nuestr[oa]|onze|ons|vores|vor)\b")
"""Before the number of an order on a seller's paper: it is the seller's own."""

SELLER = (
    "verkaufer", "lieferant", "rechnungssteller", "rechnungsersteller", "rechnungsaussteller", "auftragnehmer",
    "leistungserbringer", "absender", "seller", "supplier", "vendor", "from", "sold by", "vendeur", "fournisseur",
    "emetteur", "venditore", "fornitore", "cedente", "cedente prestatore", "mittente", "vendedor", "proveedor",
    "emisor", "verkoper", "leverancier", "afzender", "saelger", "leverandor", "afsender",
)  # fmt: skip

BUYER = (
    "kaufer", "kaufer leistungsempfanger", "leistungsempfanger", "kunde", "auftraggeber", "besteller", "buyer",
    "customer", "purchaser", "sold to", "client", "acheteur", "cliente", "acquirente", "committente",
    "cessionario", "cessionario committente", "comprador", "koper", "klant", "afnemer", "kober", "kunde", "firma",
)  # fmt: skip

INVOICED = (
    "rechnungsempfanger", "rechnungsadresse", "rechnungsanschrift", "rechnung an", "bill to",
    "billed to", "invoice to", "billing address", "invoice address", "facture a", "facturer a",
    "adresse de facturation", "fatturare a", "intestatario",
    "indirizzo di fatturazione", "facturar a", "direccion de facturacion", "factuuradres", "factureren aan",
    "faktureres til", "faktureringsadresse", "fakturamodtager",
)  # fmt: skip
"""Whom the invoice goes to: the buyer, where none is named as such."""

ADDRESSED = (
    "empfanger", "an", "to", "destinataire", "destinatario", "spettabile", "spett le", "egregio", "gentile", "aan",
    "modtager", "til", "messrs", "doit", "a l'attention de",
)  # fmt: skip
"""Whom a letter goes to: who does not write."""

DELIVERED = (
    "lieferadresse", "lieferanschrift", "warenempfanger", "abweichender warenempfanger", "versandadresse",
    "lieferung an", "ship to", "shipped to", "deliver to", "please deliver to", "delivery address",
    "shipping address", "consignee", "adresse de livraison", "livre a", "livrer a", "livraison",
    "indirizzo di consegna", "destinazione merce", "luogo di destinazione", "luogo di consegna",
    "direccion de entrega", "enviar a", "afleveradres", "leveradres", "verzendadres", "leveringsadresse",
    "shipping information",
)  # fmt: skip
"""Where the goods go: to the buyer, where a delivery note names no other."""

ELSEWHERE = (
    "abweichender rechnungsempfanger", "abweichender zahlungsempfanger", "zahlungsempfanger", "steuervertreter",
    "payee", "bei ruckfragen", "ansprechpartner", "contact", "contact commercial",
    "abweichender kaufer", "endkunde", "information",
)  # fmt: skip

NAME = (
    "name", "firma", "company", "nom", "raison sociale", "nome", "ragione sociale", "denominazione", "nombre",
    "razon social", "naam", "navn",
)  # fmt: skip

ADDRESS = ("anschrift", "adresse", "address", "strasse", "indirizzo", "direccion", "domicilio", "adres")

ADDRESS_LABELS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "name": NAME,
        "street": (*ADDRESS, "street", "rue", "calle", "via", "straat", "vej"),
        "code": (
            "plz", "postleitzahl", "postal code", "post code", "postcode", "zip", "zip code", "code postal", "cap",
            "codigo postal", "cp", "postnummer", "postnr",
        ),
        "city": (
            "ort", "stadt", "city", "town", "ville", "commune", "comune", "citta", "localita", "poblacion", "ciudad",
            "localidad", "plaats", "woonplaats", "by",
        ),
        "country": ("land", "country", "pays", "nazione", "paese", "pais"),
        "other": ("provincia", "prov", "state", "region", "kanton", "regime fiscale", "tel", "fax"),
    }
)  # fmt: skip
"""Labels of the parts of an address that stand on lines of their own, and of what else stands there."""

COUNTRIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "DE": (
            "deutschland", "germany", "allemagne", "germania", "alemania", "duitsland", "tyskland",
            "bundesrepublik deutschland",
        ),
        "AT": ("osterreich", "austria", "autriche", "oostenrijk", "ostrig"),
        "CH": ("schweiz", "switzerland", "suisse", "svizzera", "suiza", "zwitserland"),
        "FR": ("frankreich", "france", "francia", "frankrijk", "frankrig"),
        "IT": ("italien", "italy", "italie", "italia"),
        "ES": ("spanien", "spain", "espagne", "spagna", "espana", "spanje"),
        "NL": (
            "niederlande", "netherlands", "the netherlands", "pays bas", "paesi bassi", "paises bajos",
            "nederland", "nederlandene", "holland",
        ),
        "BE": ("belgien", "belgium", "belgique", "belgio", "belgica", "belgie"),
        "LU": ("luxemburg", "luxembourg", "lussemburgo", "luxemburgo"),
        "DK": ("danemark", "denmark", "danimarca", "dinamarca", "denemarken", "danmark"),
        "GB": (
            "united kingdom", "grossbritannien", "great britain", "england", "royaume uni", "regno unito",
            "reino unido", "verenigd koninkrijk", "storbritannien", "vereinigtes konigreich", "uk", "u k",
        ),
        "IE": ("irland", "ireland", "irlande", "irlanda", "ierland"),
        "US": (
            "usa", "u s a", "united states", "vereinigte staaten", "etats unis", "stati uniti", "estados unidos",
            "verenigde staten",
        ),
        "PL": ("polen", "poland", "pologne", "polonia"),
        "CZ": ("tschechien", "czech republic", "czechia", "tchequie"),
        "SE": ("schweden", "sweden", "suede", "svezia", "suecia", "zweden", "sverige"),
        "NO": ("norwegen", "norway", "norvege", "norvegia", "noruega", "noorwegen", "norge"),
        "PT": ("portugal", "portogallo"),
        "HU": ("ungarn", "hungary", "hongrie", "ungheria", "hungria", "hongarije"),
        "RE": ("ile de la reunion", "la reunion"),
    }
)  # fmt: skip
"""Names of countries in the seven languages."""

COUNTRY_OF = MappingProxyType({name: code for code, names in COUNTRIES.items() for name in names})
