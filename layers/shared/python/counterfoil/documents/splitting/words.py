"""What papers call things, in seven languages: German, English, French, Italian, Spanish, Dutch, Danish.

Every pattern is for folded text: lower case, without accents, with plain quotes and blanks (`folding.fold`).
"""

import re

from counterfoil.documents.lexicon import SPLITTER

_STAGES = (
    ("contract", "quotation"),
    ("purchase_order",),
    ("order_confirmation",),
    ("delivery_note",),
    ("goods_receipt",),
    ("invoice",),
    ("credit_note",),
    ("statement",),
)
"""Documents name those of an earlier stage: an invoice its order, never the other way round."""
STAGES = {kind: stage for stage, kinds in enumerate(_STAGES) for kind in kinds}

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

_latest_first = sorted(STAGES, key=lambda kind: -STAGES[kind])  # a Stornorechnung is no Rechnung
_titles = "|".join(f"(?P<{kind}>{SPLITTER.alternatives('titles.title', kind)})" for kind in _latest_first)
_stems = "|".join(f"(?P<{kind}_stem>{SPLITTER.alternatives('titles.stem', kind)})" for kind in _latest_first)
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

_PAGE = SPLITTER.alternatives("pages.page")
_OF = SPLITTER.alternatives("pages.page_of")
_OF_LABELED = SPLITTER.alternatives("pages.page_of_labeled")
PAGE_PLACE = re.compile(
    rf"\b(?:{_PAGE}) ?[:.]? ?(?:nr\.?|no\.?|n°)? ?(?P<place>\d{{1,4}})"
    rf"(?: ?(?:{_OF}|{_OF_LABELED}|/) ?(?P<count>\d{{1,4}}))?\b(?![.,]\d)"
)
BARE_PLACE = re.compile(rf"-? ?(?P<place>\d{{1,3}}) ?(?:/|{_OF}) ?(?P<count>\d{{1,3}}) ?-?|- ?(?P<alone>\d{{1,3}}) ?-")
BEFORE_OTHER_PAGE = re.compile(rf"\b(?:{SPLITTER.alternatives('pages.before_other_page')})\W*$")
AFTER_OTHER_PAGE = re.compile(SPLITTER.alternatives("pages.after_other_page"))
"""Words with which a line speaks of another page than the one that it is on."""

CARRIED = re.compile(
    rf"\b(?:{SPLITTER.alternatives('pages.carried')})"
    rf"|^(?:{SPLITTER.alternatives('pages.carried_alone')})\b ?:? [\d.,' ]+(?: ?[a-z€£$]{{1,3}})?$"
)
TOTAL = re.compile(rf"(?:{SPLITTER.alternatives('pages.total')})\b[^\d\n]{{0,25}}-?\d[\d.,' ]*[.,]\d\d\b")
"""A sum with which a paper ends."""
GOODS = re.compile(
    r"(?:^| )(?!\d{1,2}\.\d{1,2}\.\d\d\b)-?\d[\d.,']*[.,]\d\d"
    r"(?: ?(?:eur|usd|gbp|chf|dkk|kr\.?|€|£|\$))?(?: \d\d? ?%?)?$"
)
"""The end of a line of a table: an amount, perhaps with the rate of its tax."""
NO_TOTAL = re.compile(SPLITTER.alternatives("pages.not_total"))

_SOON = r"[^\d]{0,12}"
_head = {means: "|".join(labels) for means, labels in SPLITTER.meanings("pages.head_label").items()}
HEAD_LABELS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:{_head['date']})\b[ .:]*(?:{_DATE})",
        rf"(?:{_head['customer']}){_SOON}\d",
        rf"(?:{_head['your']}) (?:{_head['reference']})[a-z]*{_SOON}\d",
        rf"(?:{_head['due']})[a-z]*{_SOON}(?:{_DATE})",
        rf"(?:{_head['delivered']}){_SOON}(?:{_DATE})",
        rf"(?:ihre |your |votre |uw )?(?:{_head['tax']})[^\d]{{0,25}}[a-z]{{0,3}}\d[\d. ]{{6,}}",
        rf"(?:{_head['contact']})\b ?:? \w",
    )
)
"""What stands in the head of a paper's first page, one pattern for each kind of thing."""

SALUTATION = re.compile(rf"(?:{SPLITTER.alternatives('pages.salutation')})\b")
TOWN = re.compile(
    r"(?:[a-z]{1,3}[- ])?\d{4,6} ?(?:[a-z]{2} )?[a-z][a-z .'/()-]+|[a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2} [a-z .'-]+"
    r"|[a-z .'-]+,? [a-z]{1,2}\d[a-z\d]? ?\d[a-z]{2}"
)
"""The last line of an address: postal code and town."""

ANNEX = re.compile(SPLITTER.alternatives("pages.annex"))

FIRM = re.compile(rf"(?<![\w&.'-])[\w&.'-]+(?: [\w&.'+-]+){{0,5}}?,? (?:{SPLITTER.alternatives('pages.legal_form')})\b")
VAT_ID = re.compile(
    r"\b(?:ATU\d{8}|BE0?\d{9}|CHE\d{9}|DE\d{9}|DK\d{8}|ES[A-Z0-9]\d{7}[A-Z0-9]|FR[A-Z0-9]{2}\d{9}|GB\d{9}|IT\d{11}|"
    r"LU\d{8}|NL\d{9}B\d{2}|PL\d{10}|SE\d{12})\b"
)
IBAN = re.compile(r"\b[A-Z]{2}\d{2}[A-Z0-9]{11,30}\b")

SEPARATOR = re.compile(rf"\b(?:{SPLITTER.alternatives('pages.separator')})")
FAX = re.compile(SPLITTER.alternatives("pages.fax"))
FAX_LABELS = tuple(
    re.compile(rf"(?:{'|'.join(labels)})\b" + (r"[^\d]{0,25}\d" if means == "pages" else " ?:"))
    for means, labels in SPLITTER.meanings("pages.fax_label").items()
)
COVERING = re.compile(rf"\b(?:{SPLITTER.alternatives('pages.covering')})\b")
