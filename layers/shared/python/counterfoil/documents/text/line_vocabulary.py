"""The words of tables of goods and services: column headings, totals, section titles, in seven languages. Pure.

German, English, French, Italian, Spanish, Dutch and Danish. A heading that means one thing here and another there
(`Amount` is a quantity or a sum of money) has several kinds, the likelier first; what stands below it decides.
"""

import re
import unicodedata
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType


class Kind(StrEnum):
    """What a column holds; the value is the field's name where structured data has one."""

    POSITION = "position"
    ARTICLE = "article_number"
    BUYER_ARTICLE = "buyer_article_number"
    GTIN = "gtin"
    DESCRIPTION = "description"
    QUANTITY = "quantity"
    ORDERED = "ordered quantity"
    REJECTED = "rejected_quantity"
    UNIT = "unit"
    PRICE = "unit_price"
    BASIS = "price_basis_quantity"
    DISCOUNT = "discount"
    NET = "net_amount"
    GROSS = "gross amount"
    TAX_RATE = "tax_rate"
    TAX_AMOUNT = "tax amount"
    ORDER = "po_reference"
    ORDER_LINE = "po_line"
    OTHER = "other"


TEXT_KINDS = frozenset({Kind.ARTICLE, Kind.BUYER_ARTICLE, Kind.GTIN, Kind.DESCRIPTION, Kind.ORDER, Kind.ORDER_LINE})
NUMERIC_KINDS = frozenset(
    {
        Kind.QUANTITY, Kind.ORDERED, Kind.REJECTED, Kind.PRICE, Kind.BASIS, Kind.DISCOUNT, Kind.NET, Kind.GROSS,
        Kind.TAX_RATE, Kind.TAX_AMOUNT,
    }
)  # fmt: skip

_HEADINGS = {
    (Kind.POSITION,): (
        "pos|position|posit|posten|pos nr|positionsnr|lfd nr|lfd|zeile|line|line no|line number|ln|ligne|no ligne"
        "|n ligne|riga|rif|n riga|linea|regel|regelnr|linje|linjenr|lp|pos no|nr pos"
    ),
    (Kind.POSITION, Kind.QUANTITY): "#",
    (Kind.POSITION, Kind.ARTICLE): "nr|n|no|num|item no|item nr",
    (Kind.DESCRIPTION, Kind.POSITION, Kind.ARTICLE): "item|items",
    (
        Kind.ARTICLE,
        Kind.DESCRIPTION,
    ): "artikel|article|articolo|articulo|vare|material|produkt nr",
    (Kind.ARTICLE,): (
        "art nr|artnr|art no|artikelnr|artikelnummer|artikel nr|artikel nummer|artikelcode|article no|article nr"
        "|article number|article code|item number|item code|item|sku|product no|product code|product number"
        "|product id|part no|part number|part|mat nr|materialnr|materialnummer|material nr|material no"
        "|material number|sachnummer|sachnr|teilenummer|teilenr|produktnr|produktnummer|produktcode|ref|reference"
        "|references|reference article|ref article|code|code article|code produit|codice|codice articolo|cod"
        "|cod articolo|cod art|codigo|codigo articulo|referencia|varenr|varenummer|vare nr|unsere art nr|art nr lief"
        "|art nr lieferant|lief art nr|lieferanten art nr|lieferantenartikelnr|supplier article|supplier item"
        "|supplier part no|supplier article no|seller article no|seller item no|our reference|our ref|our article no"
        "|hersteller nr|herstellernummer|best nr|artikelkode|varekode|art nr verkaufer|verkaufer art nr"
        "|unsere artikelnr|unsere artikelnummer|notre reference|ref fournisseur"
    ),
    (Kind.BUYER_ARTICLE,): (
        "ihre art nr|ihre artikelnr|ihre artikelnummer|ihre artikel nr|art nr kunde|kunden art nr|kundenartikelnr"
        "|kundenartikelnummer|kundenmaterial|kundenmaterialnummer|kundenmaterial nr|ihre materialnr"
        "|ihre materialnummer|art nr kaufer|kaufer art nr|your article no|your article number|your item no"
        "|your part no|your material no|your item code|your code|customer article|customer article no|customer item"
        "|customer item no|customer part no|customer material|buyer article no|buyer item no|buyer s article no"
        "|buyer s item no|votre reference|votre ref|ref client|reference client|code client article|vostro codice"
        "|cod cliente|codice cliente|su referencia|ref cliente|uw artikelnummer|uw artikelnr|uw artikelcode"
        "|jeres varenr|kundens varenr|deres varenr"
    ),
    (Kind.GTIN,): "gtin|ean|ean code|ean nr|upc|barcode|ean gtin|gtin ean|code barre|code ean|art nr art|codice ean",
    (Kind.DESCRIPTION,): (
        "bezeichnung|tatigkeit|leistungsart|vorgang|beschreibung|artikelbezeichnung|artikelbeschreibung|produktbezeichnung|produktbeschreibung"
        "|produkt beschreibung|warenbezeichnung|leistungsbeschreibung|leistungsbezeichnung|leistung|leistungen"
        "|produkt|produkte|produktname|text|artikeltext|positionstext|ware|gegenstand|material beschreibung"
        "|material bezeichnung|artikel bezeichnung|artikel beschreibung|bezeichnung beschreibung|art bezeichnung"
        "|artikel leistung|bezeichnung der leistung|art der leistung|kurztext|description|description of goods"
        "|descriptions|description of services|goods description|goods|product|products|product name"
        "|product description|item description|item name|article description|article name|service|services|details"
        "|particulars|item details|activity|material description|designation|designations|libelle|produit|produits"
        "|prestation|prestations|designation article|description article|designation des produits|nature"
        "|description et reference|descrizione|descrizione articolo|descrizione prodotto|denominazione|prodotto"
        "|prodotti|descrizione dei beni|descrizione beni servizi|natura|descripcion|concepto|producto|productos"
        "|descripcion del articulo|detalle|denominacion|omschrijving|artikelomschrijving|productomschrijving"
        "|beschrijving|product omschrijving|dienst|beskrivelse|varebeskrivelse|varebetegnelse|betegnelse|tekst|ydelse"
        "|varetekst|varenavn|navn"
    ),
    (Kind.QUANTITY,): (
        "menge|mng|mge|anzahl|anz|gel|gelev|lev|livr|cons|gelief|liefermng"
        "|stuckzahl|menge einheit|menge me|geliefert|liefermenge|gelieferte menge"
        "|menge geliefert|gelief menge|stunden|std|qty|quantity|quant|qnty|delivered|qty delivered|quantity delivered"
        "|delivered quantity|delivered qty|shipped|qty shipped|quantity shipped|shipped quantity|received"
        "|qty received|received quantity|quantity received|units|hours|hrs|pcs|pieces|qty unit|qty uom|quantity unit"
        "|quantite|quantites|qte|qtes|quantite livree|qte livree|livre|livree|quantite recue|nombre|nb|nbre|heures"
        "|quantita|qta|q ta|q|quant ta|quantita consegnata|q ta consegnata|consegnata|cantidad|cant"
        "|cantidad entregada|entregado|uds|unidades|aantal|hoeveelheid|geleverd|aantal geleverd|geleverde hoeveelheid"
        "|ontvangen|antal|maengde|antal leveret|leveret|modtaget|leveret antal|antal enheder|empfangen"
        "|empfangene menge|erhalten|erhaltene menge|wareneingang|gebuchte menge|eingangsmenge|accepted|qty accepted"
        "|accepted quantity|angenommen|angenommene menge|fakturierte menge|billed|qty billed|quantity billed|facturee"
        "|quantite facturee|berechnete menge|stuck|stk|recu|ricevuta|quantita ricevuta|recibido|cantidad recibida"
        "|ontvangen aantal|modtaget antal"
    ),
    (Kind.ORDERED,): (
        "bestellt|best|bestellmng|cde|cdee|ord|bestellmenge"
        "|bestellte menge|menge bestellt|ordered|qty ordered|quantity ordered|ordered quantity"
        "|ordered qty|commande|quantite commandee|qte commandee|commandee|ordinata|quantita ordinata|q ta ordinata"
        "|pedido|cantidad pedida|besteld|aantal besteld|bestilt|antal bestilt|offen|offene menge|restmenge|open"
        "|open qty|outstanding|backorder|back order|ruckstand|reste|soll|soll menge|restant|rest"
    ),
    (Kind.REJECTED,): (
        "abgelehnt|abgelehnte menge|zuruckgewiesen|zuruckgewiesene menge|beanstandet|rejected|qty rejected"
        "|rejected quantity|quantity rejected|rejected qty|refuse|refusee|quantite refusee|qte refusee|respinta"
        "|rifiutata|quantita respinta|scarto|rechazado|rechazada|cantidad rechazada|afgekeurd|geweigerd"
        "|aantal afgekeurd|afvist|antal afvist|ausschuss|mangelhaft"
    ),
    (Kind.UNIT,): (
        "einheit|einh|eenh|eh|me|mengeneinheit|meng einheit|mengen einheit|unit|units of measure|uom|unit of measure"
        "|unit measure|u m|um|unita|unita di misura|unite|unites|u|unidad|ud|eenheid|enhed|enh|vpe|masseinheit"
    ),
    (Kind.PRICE, Kind.NET): "preis|price|prix|prezzo|precio|prijs|pris|cost",
    (Kind.PRICE,): (
        "einzelpreis|einzel preis|einzel|e preis|ep|stuckpreis|stuck preis|einheitspreis|nettopreis|netto preis"
        "|netto einzelpreis|einzelpreis netto|nettoeinzelpreis|preis netto|preis einheit|preis je einheit|preis stuck"
        "|preis pro einheit|preis pro stuck|preis me|einzelbetrag|stundensatz|satz|vk preis|unit price|price unit"
        "|price each|price per unit|unit net price|net unit price|net price|unit cost|rate|each|unit rate"
        "|prix unitaire|prix unit|prix u|pu|p u|prix net|prix unitaire net|pu net|p u net|tarif|prezzo unitario"
        "|prezzo unit|prezzo un|pr unitario|prezzo netto|precio unitario|precio unidad|precio ud|p unitario"
        "|eenheidsprijs|stuksprijs|prijs per eenheid|prijs per stuk|stukprijs|prijs eenheid|nettoprijs|tarief"
        "|enhedspris|stk pris|stykpris|a pris|pris pr enhed|pris enhed|pris pr stk|nettopris|u price|unitario"
    ),
    (Kind.BASIS,): (
        "preisbasis|preiseinheit|pe|per|pro|je|price basis|price unit quantity|base|base prix|base prezzo|base precio"
        "|prijsbasis|prisbasis|prisenhed|preismenge|basismenge|basis"
    ),
    (Kind.DISCOUNT,): (
        "rabatt|rabatt %|rab|rab %|% rabatt|nachlass|nachlass %|discount|discount %|disc|disc %|% disc|remise"
        "|remise %|rem|rem %|sconto|sconto %|sc|sc %|sconti|descuento|dto|dto %|desc|descuento %|korting|korting %"
        "|% korting|rabat|rabat %|rabatt in %"
    ),
    (Kind.NET, Kind.QUANTITY): "amount",
    (Kind.NET,): (
        "gebuhr|honorar|vergutung|betrag|nettobetrag"
        "|netto betrag|positionsbetrag|positions betrag|gesamtbetrag|gesamt betrag|gesamt"
        "|gesamtpreis|gesamt preis|gp|g preis|netto|nettowert|netto wert|wert|warenwert|summe|nettosumme|entgelt"
        "|gesamt netto|netto gesamt|gesamtnetto|gesamtpreis netto|preis gesamt|positionswert|positionssumme"
        "|zeilensumme|zeilenbetrag|gesamtwert|nettogesamt|total|line total|line amount|net|net amount|net total"
        "|net value|net line total|value|total net|total price|total amount|price total|extended price|ext price"
        "|extended amount|extension|subtotal|sub total|sum|montant|montant net|total ligne|montant total|prix total"
        "|valeur|importo|importo netto|totale|imponibile|prezzo totale|importo totale|totale riga|valore|totale netto"
        "|importe|importe neto|importe total|precio total|neto|bedrag|totaal|nettobedrag|netto bedrag|totaalbedrag"
        "|regelbedrag|totaalprijs|regeltotaal|belob|beloeb|i alt|ialt|linjetotal|nettobelob|netto belob|pris i alt"
        "|linjebelob|samlet pris"
    ),
    (Kind.GROSS,): (
        "brutto|bruttobetrag|brutto betrag|bruttopreis|bruttosumme|betrag brutto|gesamt brutto|gesamtpreis brutto"
        "|endbetrag|gross|gross amount|total gross|amount incl tax|amount inc vat|amount incl vat|total incl vat"
        "|total inc vat|total incl tax|ttc|total ttc|montant ttc|prix ttc|importo lordo|lordo|totale lordo|bruto"
        "|total con iva|importe bruto|totaal incl btw|bedrag incl btw|incl btw|bruttobelob|inkl moms|belob inkl moms"
    ),
    (Kind.TAX_RATE,): (
        "ust|mwst|mehrwertsteuer|umsatzsteuer|ust %|mwst %|ust satz|mwst satz|ust satz %|mwst satz %|% ust|% mwst"
        "|steuer|steuersatz|steuer %|steuersatz %|st|st satz|steuerschlussel|ust in %|mwst in %|vat|vat %|vat rate"
        "|vat rate %|% vat|vat code|tax|tax %|tax rate|tax rate %|gst|gst %|sales tax|tva|tva %|taux tva|taux de tva"
        "|% tva|taxe|taxes|taux|iva|iva %|% iva|aliquota|aliquota iva|al iva|aliq|aliq iva|cod iva|tipo iva|btw|btw %"
        "|btw tarief|% btw|moms|moms %|momssats|moms sats|vat ust|mwst ust"
    ),
    (Kind.TAX_AMOUNT,): (
        "ust betrag|mwst betrag|steuerbetrag|umsatzsteuerbetrag|vat amount|tax amount|montant tva|montant de la tva"
        "|importo iva|imposta|importe iva|cuota iva|cuota|btw bedrag|momsbelob|moms belob"
    ),
    (Kind.ORDER, Kind.ARTICLE): "bestell nr|bestellnummer|bestellnr|order code|order no|order number|order nr",
    (Kind.ORDER,): (
        "bestellung|ihre bestellung|ihre bestellnummer|ihre bestell nr|po|po no|po number|po nr|p o number"
        "|purchase order|purchase order no|your order|your order no|order|order reference|order ref|customer order"
        "|numero de commande|n commande|no commande|votre commande|commande no|ordine|n ordine|vostro ordine|ordine n"
        "|numero ordine|rif ordine|su pedido|n pedido|num pedido|bestelling|bestelnummer|bestelnr|uw bestelling"
        "|uw ordernummer|ordernummer|ordre|ordre nr|ordrenr|ordrenummer|deres ordre|rekvisition"
    ),
    (Kind.ORDER_LINE,): (
        "bestellpos|bestellposition|bestell pos|auftragspos|ihre pos|po line|po pos|po item|order line|order item"
        "|order pos|line of order|ligne commande|pos commande|riga ordine|linea pedido|orderregel|bestelregel"
        "|ordrelinje|best pos"
    ),
    (Kind.OTHER,): (
        "art|gegenstandswert|geschaftswert|vke geb"
        "|vke|geb|gebinde|datum|date|fecha|dato|data|lieferdatum|delivery date|termin|liefertermin"
        "|leistungsdatum|leistungszeitraum|zeitraum|period|periode|charge|chargennr|chargen nr|batch|batch no|lot"
        "|lot no|lotto|lote|seriennummer|serien nr|serial no|serial number|gewicht|weight|net weight|gross weight"
        "|poids|peso|gewicht kg|herkunft|origin|origine|ursprung|zolltarifnr|zolltarifnummer|tariff|hs code"
        "|commodity code|warennummer|konto|account|kostenstelle|cost centre|cost center|lager|lagerort|warehouse"
        "|lagerplatz|bin|bild|image|foto|verpackung|packaging|colli|kolli|packstucke|packages|mhd|haltbarkeit"
        "|best before|farbe|color|colour|grosse|size|lieferschein|lieferscheinnr|delivery note|auftrag|auftragsnr"
        "|auftragsnummer|projekt|project|status|bemerkung|bemerkungen|remarks|remark|notes|note|comment|comments"
        "|skonto|zustand|condition|steuercode|tax code|grund|reason"
    ),
}
_KINDS = MappingProxyType(
    {phrase: kinds for kinds, phrases in reversed(_HEADINGS.items()) for phrase in phrases.split("|")}
)

_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe"})
_CURRENCIES = frozenset(["eur", "euro", "euros", "chf", "gbp", "usd", "dkk", "sek", "nok", "dem", "pln", "kr", "fr"])
_WITHOUT_TAX = (
    r"ohne (?:ust|mwst|steuer)|(?:exkl|exklusive|zzgl) (?:ust|mwst)|excl(?:uding|usive)?(?: of)? (?:vat|tax|btw)"
    r"|ex (?:vat|tax)|w o tax|w o vat|without (?:tax|vat)|(?:before|net of) tax|h t|ht|hors taxes?|hors tva"
    r"|iva escl(?:usa)?|senza iva|sin iva|excl|exclusief(?: btw)?|ekskl(?: moms)?|eks moms|uden moms|netto|net|neto"
)
_QUALIFIED = re.compile(rf"(?P<before>(?:{_WITHOUT_TAX}) )?(?P<phrase>.+?)(?P<after> (?:{_WITHOUT_TAX}))?")
_WITH_TAX = (
    r"brutto|gross|ttc|t t c|(?:inkl|incl|inc|inclusive|including)(?: (?:ust|mwst|steuer|vat|tax|btw|moms))?"
    r"|iva inclusa|iva incl|ivato|iva incluido|con iva|inclusief btw|inkl moms"
)
_TAXED = re.compile(rf"(?P<phrase>.+?) (?:{_WITH_TAX})")
_MONEY = frozenset({Kind.PRICE, Kind.NET})
_OURS = frozenset(["our", "unsere", "notre", "nostro", "onze", "vores", "nuestra", "supplier", "seller", "lieferanten"])
_YOURS = frozenset(
    ["your", "ihre", "votre", "vostro", "uw", "jeres", "deres", "su", "customer", "buyer", "client", "kunden"]
)
_DANGLING = re.compile(r" (?:w o|without|ohne|excl|exkl|incl|inkl|inc|hors|per|pro|je|par|pr|in)$")
_BASED = re.compile(
    r"(?P<price>[a-z ]+?) (?:(?:per|je|pro|par|por|pr|a|fur|for) )?(?P<basis>1|10|100|1000)"
    r"(?: (?:st|stk|stck|stuck|pcs|pc|pieces|einheiten|units|u|pz|pezzi|ud|uds|stuks|kg|m|l))?"
)
_MOST_LANGUAGES = 3
_NOT_HEADING = re.compile(r"[^a-z0-9#%]+")
_FUNCTION_WORDS = (
    "in|ohne|inkl|incl|exkl|excl|excluding|w|o|without|per|pro|je|pr|de|der|des|du|la|di|del|van|het|the|of|net|ht|h"
    "|t|ttc|hors|taxe|taxes|escl|esclusa|senza|sin|exclusief|ekskl|eks|uden|vat|ust|mwst|tax|btw|moms|iva|tva|unsere"
    "|ihre|your|our"
)


@lru_cache(maxsize=4096)
def heading(text: str) -> tuple[Kind, ...]:
    """The kinds of column that a heading may name, the likelier first; empty where it names none."""
    plain = plain_heading(text)
    if plain in _KINDS:
        return _KINDS[plain]
    if (begun := _DANGLING.sub("", plain)) in _KINDS:
        return _KINDS[begun]
    if (one := _in_two_languages(text)) is not None:
        return one
    whose, _, own = plain.partition(" ")
    if Kind.ARTICLE in _KINDS.get(own, ()) and (whose in _OURS or whose in _YOURS):
        return (Kind.ARTICLE if whose in _OURS else Kind.BUYER_ARTICLE,)
    return _of_money(plain)


def _in_two_languages(text: str) -> tuple[Kind, ...] | None:
    """The kinds of a heading that says the same in several languages: `Qté / Aantal`; None for any other."""
    parts = [part for part in text.split("/") if part.strip()]
    if not 2 <= len(parts) <= _MOST_LANGUAGES:
        return None
    named = [_KINDS.get(plain_heading(part), ()) for part in parts]
    common = [kind for kind in named[0] if all(kind in kinds for kinds in named)]
    return tuple(common) or None


def _of_money(plain: str) -> tuple[Kind, ...]:
    """The kinds of an amount whose heading says what it is for, or whether it has the tax in it."""
    if (based := _BASED.fullmatch(plain)) and Kind.PRICE in heading(based["price"]):
        return (Kind.PRICE,)
    if (taxed := _TAXED.fullmatch(plain)) and not _MONEY.isdisjoint(_KINDS.get(taxed["phrase"], ())):
        return (Kind.GROSS,)
    match = _QUALIFIED.fullmatch(plain)
    kinds = _KINDS.get(match["phrase"], ()) if match and (match["before"] or match["after"]) else ()
    if Kind.PRICE in kinds:
        return (Kind.PRICE, Kind.NET)
    return kinds if Kind.NET in kinds else ()


def basis(text: str) -> int:
    """For how many units the prices below a heading are, where it says so: `Preis/100`, `Price per 1000`; else 1."""
    based = _BASED.fullmatch(plain_heading(text))
    return int(based["basis"]) if based and Kind.PRICE in heading(based["price"]) else 1


def plain_heading(text: str) -> str:
    """A heading's words, without case, diacritics, punctuation and the currency that it names."""
    decomposed = unicodedata.normalize("NFKD", text.casefold().translate(_LETTERS))
    letters = "".join(letter for letter in decomposed if not unicodedata.combining(letter)).replace("%", " % ")
    words = _NOT_HEADING.sub(" ", letters).split()
    kept = [word for word in words if word not in _CURRENCIES]
    if len(kept) < len(words) and kept and kept[-1] == "in":
        kept.pop()
    return " ".join(kept)


@lru_cache(maxsize=4096)
def is_heading_word(word: str) -> bool:
    """Tell whether a word occurs in headings, alone or within one; what has no letters does not disturb."""
    return all(part in _HEADING_WORDS for part in plain_heading(word).split())


_HEADING_WORDS = (
    frozenset(word for phrase in _KINDS for word in phrase.split())
    | _CURRENCIES
    | set(_FUNCTION_WORDS.split("|"))
    | {"10", "100", "1000"}
)

_TOTAL = re.compile(
    r"(?:"
    r""
    r"(?:zwischen|gesamt|netto|brutto|rechnungs?|positions|waren|teil|end|auftrags|bestell)*(?:summen?|betrag|netto|brutto|wert|total)"
    r"|gesamt|summen?|sub ?total|total|totals|totaal|totale|totali|subtotaal|grand total|net total|net amount"
    r"|(?:goods|items?|lines?|order|merchandise|products?|services?|overall) total"
    r"|total amount|nettobetrag|amount due|balance|montant (?:total|net|ht|ttc|du)|sous total|base ht|solde"
    r"|net a payer|imponibile|totale (?:imponibile|documento|fattura)|base imponible|importe total|suma|total a pagar"
    r"|subtotale|te betalen|totaalbedrag|i alt|sum|at betale|subtotal|momspligtig|netto(?:summe|betrag)?|zu zahlen\w*"
    r"|zahlbetrag|offener|rechnungsbe\w+|vat|ust|mwst|umsatzsteuer|mehrwertsteuer|tva|iva|btw|moms|taxe?s?|steuer(?:n|betrage?|summe|satz|basis\w*|gesamt|aufschlusselung)?"
    r"|zzgl|zuzuglich|plus|abzgl|abzuglich|less|enthaltene|due|payable|invoice (?:total|amount)|order total"
    r"|gesamtgewicht|bruttogewicht|nettogewicht|total weight|net weight|gross weight|poids (?:total|net|brut)"
    r"|peso (?:totale|netto|lordo)|gesamtbeitrag|beitrag|rechnungsbeitrag|versicherung(?:s)?teuer|steuern?"
    r"|total (?:ht|ttc)"
    r")(?: .*)?"
)
_NO_TOTAL = re.compile(
    r"(?:ust|mwst|umsatzsteuer|steuer|lohnsteuer|vat|tax|btw|moms)-"
    r"(?!(?:betrag|summe|satz|gesamt|total|bedrag|amount|rate|bel\u00f8b|basis)\b)[^\W\d]{3,}",
    re.IGNORECASE,
)
"""Services that have a tax in their name: `Umsatzsteuer-Voranmeldung`."""
_CARRY = re.compile(
    r"(?:"
    r"ubertrag|uebertrag|carried forward|carry forward|brought forward|carried over|c f|b f|report|a reporter"
    r"|a riportare|riporto|suma y sigue|suma anterior|overdracht|over te brengen|saldo overgebracht|overfort"
    r"|at overfore|overfores|zwischensumme ubertrag|ubertrag von seite|ubertrag auf seite"
    r")(?: .*)?"
)
_SECTION = re.compile(
    r"(?:"
    r"zahlungs\w*|zahlbar|zahlung|payment|conditions? de paiement|modalites?|reglement|pagamento|condizioni"
    r"|forma de pago|condiciones|betalings?\w*|betaling|bankverbindung|bank details|coordonnees bancaires"
    r"|coordinate bancarie|datos bancarios|riepilog\w+|iban|bic"
    r"|umsatzsteueraufschlusselung|steueraufschlusselung|belegsummen"
    r"|zu und abschlage|lieferbedingungen|incoterms|hinweise?|notes?|remarks?|bemerkungen?|rechnungsbegleitende"
    r"|unterschrift|signature|firma|handtekening|underskrift|vielen dank|thank you|merci|grazie|gracias|bedankt"
    r"|wir danken|bitte|please|lieferanschrift|delivery address|es gelten"
    r")(?: .*)?"
)


@lru_cache(maxsize=4096)
def is_total(text: str) -> bool:
    """Tell whether a row's text is that of a sum, a tax or a weight, which are no lines."""
    return _TOTAL.fullmatch(plain_heading(text)) is not None and _NO_TOTAL.match(text) is None


def is_tax_name(text: str) -> bool:
    """Tell whether a text is no more than the name of a tax, as cells of a column of taxes may be."""
    return Kind.TAX_RATE in heading(text)


@lru_cache(maxsize=4096)
def is_carried(text: str) -> bool:
    """Tell whether a row carries a sum from page to page."""
    return _CARRY.fullmatch(plain_heading(text)) is not None


@lru_cache(maxsize=4096)
def is_section(text: str) -> bool:
    """Tell whether a row begins what follows a table: terms, bank details, notes, signatures."""
    return _SECTION.fullmatch(plain_heading(text)) is not None
