"""What papers call things, in seven languages: German, English, French, Italian, Spanish, Dutch, Danish.

Every pattern is for folded text: lower case, without accents, with plain quotes and blanks (`fold`).
"""

import re
import unicodedata
from typing import NamedTuple

_SPELT_OUT = str.maketrans({"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "’": "'", "–": "-", "—": "-", "\u00ad": ""})  # noqa: RUF001


def fold(text: str) -> str:
    """The text as the patterns have it."""
    decomposed = unicodedata.normalize("NFKD", text.lower().translate(_SPELT_OUT))
    return " ".join("".join(c for c in decomposed if not unicodedata.combining(c)).split())


class Paper(NamedTuple):
    """A kind of paper. Papers name those of an earlier stage: an invoice its order, never the other way round."""

    kind: str
    stage: int
    title: str
    """What it is headed with."""
    stem: str
    """What its number is called after: `Bestell` in Bestell-Nr."""


def _any(*patterns: str) -> str:
    return "|".join(patterns)


PAPERS = (
    Paper(
        "contract",
        0,
        _any(
            r"(?:rahmen|liefer|kauf|miet)?vertrag|(?:framework )?(?:contract|agreement)|contrat(?:to|o)?",
            r"(?:raam)?overeenkomst|(?:ramme)?(?:kontrakt|aftale)",
        ),
        r"vertrags|contract|contrat",
    ),
    Paper(
        "quotation",
        0,
        r"angebot|quotation|quote|devis|offerta|preventivo|oferta|presupuesto|offerte|tilbud",
        r"angebots|quotation|quote",
    ),
    Paper(
        "purchase_order",
        1,
        _any(
            r"bestellung|purchase order|order|bon de commande|commande|ordine(?: di acquisto| d'acquisto)?",
            r"pedido(?: de compra)?|orden de compra|bestelling|inkooporder|(?:indkobs)?ordre|bestilling",
        ),
        r"bestell?|bestellungs|purchase order|p\.?o\.?|order|ordre|commande|ordine|pedido",
    ),
    Paper(
        "order_confirmation",
        2,
        _any(
            r"(?:auftrags|bestell)(?:- ?)?bestatigung|(?:sales )?order (?:confirmation|acknowledge?ment)",
            r"(?:accuse de reception|accuse|confirmation) de (?:la )?commande",
            r"conferma (?:d'ordine|dell'ordine|ordine)|confirmacion del? pedido|order ?bevestiging|"
            r"ordrebekraeftelse",
        ),
        r"(?:auftrags|bestell)bestatigungs|confirmation",
    ),
    Paper(
        "delivery_note",
        3,
        _any(
            r"lieferschein|delivery (?:note|docket|slip)|(?:despatch|dispatch) (?:note|advice)|"
            r"packing (?:slip|list)",
            r"bon de livraison|bordereau de livraison|bolla di (?:consegna|accompagnamento)",
            r"documento di trasporto|d\.?d\.?t\.?|albaran(?: de entrega)?|nota de entrega",
            r"pakbon|lever(?:ings)?bon|afleverbon|vrachtbrief|folgeseddel|leveringsseddel",
        ),
        r"lieferschein|delivery note|pakbon|folgeseddel|albaran",
    ),
    Paper(
        "goods_receipt",
        4,
        _any(
            r"wareneingang(?:sschein|sbeleg)?|goods[- ]rece(?:ipt|ived)(?: note)?|grn|bon de reception",
            r"entrata merc[ei]|bolla di entrata|(?:entrada|recepcion) de mercancias?",
            r"ontvangstbon|goederenontvangst|varemodtagelse",
        ),
        r"wareneingangs|goods receipt|grn",
    ),
    Paper(
        "invoice",
        5,
        _any(
            r"(?:buchungshilfe - keine )?[a-z]*rechnung(?: des versicherers)?|(?:tax |vat |commercial |"
            r"sales )?invoice",
            r"facture|fattura(?: immediata| differita)?|factura|(?:verkoop)?factuur|faktura|regning",
        ),
        r"rechnungs|invoice|facture|fattura|factura|factuur|faktura",
    ),
    Paper(
        "credit_note",
        6,
        _any(
            r"gutschrift|rechnungs-? ?korrektur|(?:korrektur|storno)rechnung|credit (?:note|memo|invoice)",
            r"(?:facture d')?avoir|note de credit|nota di (?:credito|accredito)|nota de (?:credito|abono)",
            r"factura (?:rectificativa|de abono)|credit(?:nota|factuur)|kredit ?nota",
        ),
        r"gutschrifts?|credit (?:note|memo)|avoir|creditnota|kreditnota",
    ),
    Paper(
        "statement",
        7,
        _any(
            r"(?:zahlungs)?erinnerung|(?:\d\. ?)?mahnung|kontoauszug|zahlungsavis|(?:payment )?reminder",
            r"statement(?: of account)?|remittance advice|relance|releve de compte|avis de paiement",
            r"sollecito(?: di pagamento)?|estratto conto|recordatorio(?: de pago)?|extracto de cuenta",
            r"(?:betalings)?herinnering|aanmaning|rekeningoverzicht|rykker(?:skrivelse)?|kontoudtog",
        ),
        r"mahnungs|statement",
    ),
)
STAGES = {paper.kind: paper.stage for paper in PAPERS}

_DATE = r"\d{1,2}[./-]\s?\d{1,2}[./-]\s?\d{2,4}|\d{4}-\d{2}-\d{2}|\d{1,2}\.? [a-z]{3,9}\.? \d{4}"
_NO_PREFIX = r"(?:vom|von|du|of|del|van|af|nr|no|to|zu|zum|den|und|and|et|on|per|page|side|pag|blad|p|n|total)\b"
_NUMBER = (
    rf"(?:(?!{_NO_PREFIX})[a-z]{{1,4}} )?(?!(?:{_DATE})(?:\s|"
    rf"$))(?=[a-z./_-]*\d)[a-z0-9](?:[\w./-]*\w)?(?![\w./-]|,\d)"
)
_CALLED = r"(?:(?:nummer|number|numero|num|nr|no|n|id)\b|n ?°|#) ?[.:°]*"
_LINKED = r"(?:de la |de l'|della |dell'|del |de |d'|du |di |of |van |af )"
_ASIDE = r"(?: ?\([^()]{1,40}\))?"
_DATED = rf"(?:[ ,]*(?:vom|v\.|dated|date|of|issued at|issued on|du|del|van|von|af|le|il|den)?:? ?(?:{_DATE}))?"

_titles = "|".join(
    f"(?P<{paper.kind}>{paper.title})" for paper in sorted(PAPERS, key=lambda paper: -paper.stage)
)  # a Stornorechnung is no Rechnung: the later stage is tried first
_stems = "|".join(f"(?P<{paper.kind}_stem>{paper.stem})" for paper in sorted(PAPERS, key=lambda paper: -paper.stage))
TITLE = re.compile(
    rf"(?:{_titles})\b{_ASIDE}(?P<label> ?[:.]| ?-? ?{_CALLED})? ?(?P<number>{_NUMBER})?(?P<rest>{_DATED}.*)"
)
"""A paper's name at the beginning of a text, with its number where that follows; `rest` is what is left."""
LABEL = re.compile(
    rf"(?:(?:{_stems})s?-? ?{_CALLED}|{_CALLED} ?{_LINKED}?(?:{_titles.replace('?P<', '?P<named_')})\b ?:?)"
    rf" ?(?P<number>{_NUMBER})?(?P<rest>.*)"
)
"""`Rechnungs-Nr. 17`, `numéro de facture: 17`: a number called after the kind of its paper."""
PIECES = ("label", "number", "rest")
"""The groups of these two that are no kind of paper."""
OWN_LABEL = re.compile(
    rf"(?:(?:beleg|dokument(?:en)?|document|bilags)s?-? ?(?:nummer|number|nr|no)\b ?[.:]*|nummer|number|numero"
    rf"|n ?°|numero de document)(?: ?:)? (?P<number>{_NUMBER})(?P<rest>{_DATED})$"
)
"""`Beleg-Nr. 17`, `Nummer 17`: the number of the paper itself, whatever it is."""
ENDS = re.compile(rf"{_DATED}[ .,;]*$")
NUMBER = re.compile(_NUMBER)

_PAGE = r"(?:seite|page|pagina|pag\.|pg\.|side|blatt|blad|bladzijde|blz\.|feuille|folio|hoja|foglio|sheet)"
_OF = r"(?:von|of|sur|de|di|van|af|aus|/)"
PAGE_PLACE = re.compile(
    rf"\b{_PAGE} ?[:.]? ?(?:nr\.?|no\.?|n°)? ?(?P<place>\d{{1,4}})(?: ?{_OF} ?(?P<count>\d{{1,4}}))?\b(?![.,]\d)"
)
BARE_PLACE = re.compile(
    r"-? ?(?P<place>\d{1,3}) ?(?:/|von|of|sur|de|di|van|af) ?(?P<count>\d{1,3}) ?-?|- ?(?P<alone>\d{1,3}) ?-"
)
BEFORE_OTHER_PAGE = re.compile(
    r"\b(?:siehe|auf|see|on|zu|zur|to|about|uber|over|om|von|from|voir|sur|vedi|vease|en|la|a|zie|op|van|se|pa|fra|nachste|next|volgende|"
    r"suite|segue|sigue|vervolg|folgt)\W*$"
)
AFTER_OTHER_PAGE = re.compile(r"folgt|follows|suit|segue|sigue|volgt|folger")
"""Words with which a line speaks of another page than the one that it is on."""

CARRIED = re.compile(
    r"\b(?:ubertrag|carried (?:forward|over)|brought forward|carry ?forward|a reporter|report a nouveau|riporto|"
    r"a riportare|suma y sigue|suma anterior|suma y va|transporteren|over te brengen|overgebracht|overfort|"
    r"overforsel|"
    r"zwischensumme seite|page (?:sub)?total|fortsetzung (?:auf|folgt|von|der)|continued on|continues on|"
    r"continued from|suite (?:page|au verso|sur|en page)|segue (?:a )?pag|\(segue\)|sigue en|continua en|"
    r"continuacion|"
    r"vervolg op|vervolgt op|vervolg van|zie volgende|fortsaettes|bitte wenden|please turn over|p\.t\.o\.)"
    r"|^(?:report|transport)\b ?:? [\d.,' ]+(?: ?[a-z€£$]{1,3})?$"
)
TOTAL = re.compile(
    r"(?:gesamtbetrag|rechnungsbetrag|summe inkl\b|rechnungssumme brutto|rechnungsbeitrag|"
    r"zu zahlender (?:betrag|beitrag)|"
    r"endbetrag|bruttosumme|bruttobetrag|zahlbetrag|zu zahlen|zahlbar|gesamtsumme|"
    r"gesamt(?: brutto)?|brutto|endsumme|total due|amount due|due payable|amount payable|grand total|balance due|"
    r"invoice total|total(?: amount)?(?: payable)?|total ttc|net a payer|(?:total|solde|montant) a payer|"
    r"montant total|"
    r"montant ttc|totale|totale (?:fattura|documento|ordine|da pagare)|importo totale|netto a pagare|importe total|"
    r"total (?:factura|a pagar|pedido)|te betalen|totaal(?:bedrag)?|totaal te betalen|i alt|at betale|"
    r"total inkl.*?)"
    r"\b[^\d\n]{0,25}-?\d[\d.,' ]*[.,]\d\d\b"
)
"""A sum with which a paper ends."""
GOODS = re.compile(
    r"(?:^| )(?!\d{1,2}\.\d{1,2}\.\d\d\b)-?\d[\d.,']*[.,]\d\d"
    r"(?: ?(?:eur|usd|gbp|chf|dkk|kr\.?|€|£|\$))?(?: \d\d? ?%?)?$"
)
"""The end of a line of a table: an amount, perhaps with the rate of its tax."""
NO_TOTAL = re.compile(
    r"zwischen|sub-? ?total|sous-total|subtotale|subtotaal|net(?:to)?\b|ht\b|uebertrag|ubertrag|report|riporto"
)

_SOON = r"[^\d]{0,12}"
HEAD_LABELS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:[a-z]*datum|[a-z]* ?date(?: of issue| de facture)?|data|fecha|dato|[a-z]*dato)\b[ .:]*(?:{_DATE})",
        r"(?:(?:ihre )?kunden-? ?(?:nr|nummer)|(?:your )?customer (?:no|number|id)|n ?°? (?:de )?client|"
        r"code client|"
        r"codice cliente|n\. cliente|n ?[°o]? (?:de )?cliente|codigo (?:de )?cliente|klant(?:en)?-? ?(?:nr|"
        r"nummer)|kunden?r)"
        rf"{_SOON}\d",
        r"(?:ihre?|your|votre|vostr[oa]|vs\.|su|uw|deres|jeres) (?:bestell|order|commande|ordine|pedido|"
        r"bestelling|ordre|"
        rf"ref|zeichen|auftrag|n)[a-z]*{_SOON}\d",
        r"(?:fallig|zahlbar bis|due|payable by|[a-z' ]*echeance|[a-z ]*scadenza|[a-z ]*vencimiento|"
        r"vervaldatum|forfald)"
        rf"[a-z]*{_SOON}(?:{_DATE})",
        r"(?:lieferdatum|liefertermin|leistungsdatum|(?:delivery date|date of delivery)|date de livraison|"
        r"data (?:di )?consegna|"
        r"fecha de entrega|leverdatum|leveringsdato|liefer-(?: und leistungsdatum| bzw\. leistungsdatum))"
        rf"{_SOON}(?:{_DATE})",
        r"(?:ihre |your |votre |uw )?(?:ust|vat|[a-z° ]*tva|p\.? ?iva|partita iva|btw|moms|cvr|nif|cif|"
        r"umsatzsteuer)"
        r"[^\d]{0,25}[a-z]{0,3}\d[\d. ]{6,}",
        r"(?:kostenstelle|cost centre|ansprechpartner|sachbearbeiter|contact|interlocuteur|referente|"
        r"contactpersoon|"
        r"kontaktperson)\b ?:? \w",
    )
)
"""What stands in the head of a paper's first page, one pattern for each kind of thing."""

SALUTATION = re.compile(
    r"(?:sehr geehrter?|guten tag|liebe[rs]?|dear|to whom it may concern|madame, monsieur|(?:cher|chere)s? |"
    r"messieurs|monsieur|"
    r"spett\.? ?(?:le|li)|spettabile|gentil[ei]|egregio|estimad[oa]s?|muy senor(?:es)? mio|geachte|beste|"
    r"kaere|til rette "
    r"vedkommende)\b"
)
TOWN = re.compile(
    r"(?:[a-z]{1,3}[- ])?\d{4,6} ?(?:[a-z]{2} )?[a-z][a-z .'/()-]+|[a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2} [a-z .'-]+"
    r"|[a-z .'-]+,? [a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2}"
)
"""The last line of an address: postal code and town."""

ANNEX = re.compile(
    r"(?:anlage|anhang|appendix|annex|enclosure|allegato|anexo|bijlage|bilag|annexe|"
    r"(?:allgemeine )?geschaftsbedingungen|allgemeine (?:verkaufs|liefer|einkaufs)|"
    r"(?:general )?terms (?:and|&) conditions|conditions generales|condizioni generali|condiciones generales|"
    r"algemene voorwaarden|almindelige (?:salgs|forretnings))"
)

FIRM = re.compile(
    r"(?<![\w&.'-])[\w&.'-]+(?: [\w&.'+-]+){0,5}?,? (?:gmbh(?: & co\.? ?kg)?"
    r"|ag|kg|ohg|e\.? ?k\.?|mbh|ltd|limited|plc|llc|"
    r"inc|sarl|sas|sa|"
    r"eurl|s\.?p\.?a|s\.?r\.?l|s\.?l|b\.?v|n\.?v|v\.?o\.?f|a/s|aps|as)\b"
)
VAT_ID = re.compile(
    r"\b(?:ATU\d{8}|BE0?\d{9}|CHE\d{9}|DE\d{9}|DK\d{8}|ES[A-Z0-9]\d{7}[A-Z0-9]|FR[A-Z0-9]{2}\d{9}|GB\d{9}|IT\d{11}|"
    r"LU\d{8}|NL\d{9}B\d{2}|PL\d{10}|SE\d{12})\b"
)
IBAN = re.compile(r"\b[A-Z]{2}\d{2}[A-Z0-9]{11,30}\b")

SEPARATOR = re.compile(
    r"\b(?:trenn(?:blatt|seite|er)|separator(?: sheet| page)?|patch (?:code )?(?:t|ii?)\b|barcode sheet|"
    r"(?:page|feuille) (?:de separation|intercalaire)|intercalaire|foglio separatore|separatore|"
    r"hoja separadora|separador|"
    r"scheidings(?:blad|vel)|tussenblad|skilleark|skilleblad)"
)
FAX = re.compile(
    r"(?:tele)?fax(?:-? ?(?:deckblatt|mitteilung|nachricht|cover(?: sheet)?|message|transmission))?\b|telecopie"
)
FAX_LABELS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:an|to|a|a l'attention de|destinataire|para|aan|til)\b ?:",
        r"(?:von|from|de|da|van|fra|expediteur|mittente)\b ?:",
        r"(?:seiten|seitenzahl|anzahl (?:der )?seiten|pages|number of pages|nombre de pages|pagine|"
        r"numero pagine|paginas|"
        r"pagina's|aantal pagina's|sider|antal sider)\b[^\d]{0,25}\d",
        r"(?:betreff|betr\.|subject|re|objet|oggetto|asunto|betreft|onderwerp|emne|vedr\.?)\b ?:",
    )
)
COVERING = re.compile(
    r"\b(?:deckblatt|begleitschreiben|cover (?:sheet|page|letter)|covering letter|page de garde|lettre "
    r"d'accompagnement|bordereau d'envoi|copertina|frontespizio|lettera di accompagnamento|"
    r"distinta (?:di invio|documenti)|"
    r"portada|hoja de portada|carta de presentacion|voorblad|begeleidende brief|forside|folgebrev|folgeskrivelse|"
    r"inhaltsverzeichnis|inhaltsubersicht|stapelubersicht|belegubersicht|document list|list of documents|"
    r"batch cover|"
    r"anbei|in der anlage|als anlage|beiliegend|enclosed|please find (?:enclosed|attached)|"
    r"attached please find|ci-joint|veuillez trouver|in allegato|alleghiamo|adjunt[ao]s?|adjuntamos|bijgevoegd|"
    r"bijgaand|hierbij|vedlagt|hermed)\b"
)
