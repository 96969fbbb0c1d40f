"""Reads a line item's fields from its cells, with their confidence. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise

from counterfoil.documents import units
from counterfoil.documents.text import totals
from counterfoil.documents.text.table_headings import Heading, Kind
from counterfoil.documents.text.table_layout import NumberFormat, Piece, RawLine, Token, is_position, parse_number
from counterfoil.documents.units import unit_code

_UNIT_IN_BRACKETS = re.compile(r"\(([^\W\d]+)\)\s*:?", re.UNICODE)
_PER = re.compile(r"\b(?:pro|je|per|par|por)\s+([^\W\d]+)\s*:?$", re.IGNORECASE)


def unit_in_description(description: str) -> str | None:
    """Return the unit in a description: `Consulting (hours)`, `Hot air per litre`."""
    for pattern in (_UNIT_IN_BRACKETS, _PER):
        for match in pattern.finditer(description):
            if (code := unit_code(match[1])) is not None and len(match[1]) > 1:
                return code
    return None


_PROVEN = 0.97
_STATED = 0.8
_DERIVED = 0.6
_CONTRADICTED = 0.3
"""Confidence of values proven by arithmetic, stated below a heading, derived from other words, and contradicted by
arithmetic."""
_HIGHEST_RATE = 40
_BLANK_ROW = 0.6
"""Minimum gap between paragraphs in a cell, in text heights."""
_BASES = (Decimal(1000), Decimal(100), Decimal(10))

_BASIS = re.compile(
    r"(?:^|\s)(?:(?:EUR|€|CHF|GBP|£|USD|\$|DKK)\s?)?(?:/|je|pro|per|par|por|pr\.?|à|a)\s*(?P<number>\d[\d.,']*)",
    re.IGNORECASE,
)
_BASIS_LABEL = re.compile(
    r"(?:preisbasis(?:menge)?|price basis|base (?:de )?prix|base prezzo|prijsbasis|preiseinheit)"
    r"\s*:?\s*(?P<number>\d[\d.,']*)",
    re.IGNORECASE,
)
_LABELS = (
    r"\w*bruttopreis|\w*bruttoeinzelpreis|gross price|prix brut|gtin|ean(?:[ -]?\w+)?|upc|hs[ -]?code|zolltarif\w*"
    r"|commodity code|taric|statistische warennummer|herkunftsland|ursprungsland|country of origin|pays d.origine"
    r"|paese d.origine|pais de origen|oprindelsesland|artikelrabatt|(?:zeilen)?rabatt|abschlag|zuschlag|abzgl\.?"
    r"|discount|remise|sconto|descuento|korting|preisbasis(?:menge)?|anzahl packst\w+|number of packages|colis"
    r"|serien-?nr\.?|serial (?:no|number)\.?|chargen?(?:-?nr)?\.?|batch(?: no)?\.?|lot(?: no)?\.?|liefer-?datum"
    r"|liefer-?termin|lieferschein[\w.-]*|delivery (?:date|note)|leistungs(?:datum|zeitraum)|abrechnungszeitraum"
    r"|berechnungszeitraum|warenempf\w+|kostenstelle|cost cent(?:er|re)"
    r"|(?:your|our|ihre?|unsere?|votre|notre|vostr[oa]|nostr[oa]|su|uw|onze|deres|vores)"
    r" (?:material|article|artikel|articolo|item|part|product|teile?|vare)[ -]?(?:no|nr|num\w*|code|number)?"
)
_ATTRIBUTE = re.compile(rf"[*•·-]?\s*(?:{_LABELS})\b[^:=]{{0,30}}[:=]?\s*\S.*", re.IGNORECASE)
_PROPERTIES = re.compile(
    r"(?:weitere eigenschaften|eigenschaften|(?:further |additional )?properties|attributes|basisartikel|bestandteile"
    r"|stückliste|components)\s*:?",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"(?:ihre |your |votre |vostro |su |uw |jeres )?"
    r"(?:bestellung|bestell-?(?:nr|nummer)|purchase order|p\.?o\.?|order|commande"
    r"|ordine|pedido|bestelling|ordre)\s*(?:nr|no|nummer|number|n°|#)?\.?\s*:?\s*(?P<order>(?=\S*\d)[\w./-]+)"
    r"(?:\W+(?:pos(?:ition)?|zeile|line|item|ligne|riga|regel|linje)\.?\s*:?\s*(?P<line>\d+))?",
    re.IGNORECASE,
)
_ARTICLE = re.compile(
    r"(?:art(?:ikel|icle|\.)?[ .-]*(?:nr|nummer|no|number|code|n°)|item[ -]?(?:no|number|code)|sku"
    r"|part[ -]?(?:no|number)|product[ -]?(?:no|code)|r[ée]f(?:[ée]rence)?"
    r"|cod(?:ice)?[. ]*art(?:icolo)?|varenr|artikelcode)\b\.?\s*:?\s*"
    r"(?P<code>(?=\S*\d)[\w./-]{2,40})",
    re.IGNORECASE,
)
_GTIN = re.compile(r"\d{8}|\d{12,14}")
_IN_BRACKETS = re.compile(r"\([^()]*\)")
_CODE_BEFORE = re.compile(r"\[(?P<code>[\w./-]{2,40})\] (?P<name>\S.*)")
_ZERO_RATED = re.compile(r"(?:zero|0)[ -]?rated\b.*", re.IGNORECASE)
_CODE = re.compile(r"(?=.*\w).{1,40}")


@dataclass
class LineFields:
    """A line item's fields by their names in structured data, with their confidence.

    `sources` has an entry for each field that does not come from its own cell.
    """

    fields: dict[str, str] = field(default_factory=dict)
    confidence: dict[str, float] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    has_unknown_unit: bool = False

    def put(self, name: str, text: str | None, confidence: float, source: str | None = None) -> None:
        """Set a field if `text` is not empty and the field is not set yet."""
        if text and name not in self.fields:
            self.fields[name] = text
            self.confidence[name] = confidence
            if source is not None:
                self.sources[name] = source

    def number(self, name: str) -> Decimal | None:
        """Return a field as a number."""
        return Decimal(self.fields[name]) if name in self.fields else None


def format_number(number: Decimal) -> str:
    """Format a number for structured data, with the printed decimal places."""
    return format(number or abs(number), "f")


def read_fields(line: RawLine, heading: Heading, form: NumberFormat, *, collapsed: bool) -> LineFields:
    """Read a line item's fields.

    If `collapsed` is true, cells with several values have no blank row for a missing value.
    """
    item = LineFields()
    cells = _by_kind(line, heading, collapsed=collapsed)
    _put_texts(item, cells)
    _put_quantities(item, line, cells)
    _put_prices(item, line.values, cells, form)
    price_basis = next((column.basis for column in heading.columns if column.holds(Kind.PRICE)), 1)
    if price_basis != 1 and "unit_price" in item.fields:
        item.put("price_basis_quantity", str(price_basis), 0.85, "heading")
    rate = line.values.get(Kind.TAX_RATE)
    if rate is not None and rate.value is not None and 0 <= rate.value <= _HIGHEST_RATE:
        item.put("tax_rate", format_number(rate.value), 0.95 if rate.is_percent else _STATED)
    elif any(_ZERO_RATED.fullmatch(piece.text) for piece in cells.get(Kind.TAX_RATE, [])):
        item.put("tax_rate", "0", 0.9)
    _prove(item, line.values)
    if form.by_language:
        for kind, token in line.values.items():
            if kind.value in item.confidence and re.search(r"[.,]", token.text):
                item.confidence[kind.value] = min(item.confidence[kind.value], _DERIVED)
    return item


def _by_kind(line: RawLine, heading: Heading, *, collapsed: bool) -> dict[Kind, list[Piece]]:
    """Return the words of a line item by kind.

    Cells with several values are split by rows.
    """
    cells: dict[Kind, list[Piece]] = {}
    for index, pieces in sorted(line.cells.items()):
        names = [name[0] for name in heading.columns[index].names]
        if len(names) == 1:
            cells.setdefault(names[0], []).extend(pieces)
        else:
            for kind, piece in _split_rows(names, pieces, line, collapsed=collapsed):
                cells.setdefault(kind, []).append(piece)
    return cells


def _split_rows(
    names: Sequence[Kind], pieces: Sequence[Piece], line: RawLine, *, collapsed: bool
) -> Iterator[tuple[Kind, Piece]]:
    """Yield each row of a cell with its kind, by position.

    Rows after the last kind also have that kind.
    """
    rows = [piece for piece in pieces if not _is_known_code(piece.text)]
    if Kind.DESCRIPTION not in names and collapsed and len(rows) == 1 and Kind.ARTICLE in names:
        yield Kind.ARTICLE, rows[0]
        return
    if list(names) == [Kind.DESCRIPTION, Kind.ARTICLE]:
        codes = [index for index, piece in enumerate(pieces) if index and _is_code([piece])]
        for index, piece in enumerate(pieces):
            yield Kind.ARTICLE if [index] == codes[-1:] else Kind.DESCRIPTION, piece
        return
    if names[0] is Kind.ARTICLE and Kind.DESCRIPTION in names and not _is_code(pieces):
        yield from ((Kind.DESCRIPTION, piece) for piece in pieces)
        return
    row_kinds = [kind for kind in names if kind is not Kind.GTIN] if Kind.DESCRIPTION not in names else list(names)
    slot, previous = -1, None
    for piece in pieces:
        is_known = _is_known_code(piece.text)
        if is_known and Kind.DESCRIPTION not in names:
            continue
        if previous is None:
            first_row = piece.page == line.page and piece.top - line.top < 0.7 * (piece.bottom - piece.top)
            slot = 0 if first_row or collapsed else 1
        else:
            slot += 1
        previous = piece
        if is_known and slot < len(row_kinds) and row_kinds[slot] is not Kind.GTIN and Kind.GTIN in names:
            yield Kind.GTIN, piece
            continue
        yield row_kinds[min(slot, len(row_kinds) - 1)], piece


def _is_code(pieces: Sequence[Piece]) -> bool:
    """Return whether a cell's first row is a code, such as an article number.

    A code is a single word with a digit.
    """
    return len(pieces[0].tokens) == 1 and any(map(str.isdigit, pieces[0].text))


def _is_known_code(text: str) -> bool:
    """Return whether a row is a GTIN, or the name of its scheme in brackets."""
    return _GTIN.fullmatch(text.strip(".")) is not None or _IN_BRACKETS.fullmatch(text) is not None


def is_collapsed(lines: Sequence[RawLine], heading: Heading) -> bool:
    """Return whether cells with several values omit missing values.

    If so, every such cell starts at the top of its line item. Otherwise, missing values leave blank rows.
    """
    for index, column in enumerate(heading.columns):
        if len(column.names) < 2 or any(name[0] is Kind.DESCRIPTION for name in column.names):
            continue
        for line in lines:
            pieces = line.cells.get(index, [])
            if pieces and pieces[0].page == line.page:
                top, height = pieces[0].top, pieces[0].bottom - pieces[0].top
                if 0.7 * height < top - line.top < 2 * height:
                    return False
    return True


def _put_texts(item: LineFields, cells: Mapping[Kind, Sequence[Piece]]) -> None:
    position = next(
        (piece.tokens[0].text for piece in cells.get(Kind.POSITION, []) if is_position(piece.tokens[0].text)), ""
    )
    item.put("position", position.rstrip(".)"), 0.9)
    for kind in (Kind.ARTICLE, Kind.BUYER_ARTICLE):
        rows = next(_paragraphs(cells.get(kind, [])), [])
        text = " ".join(row for row in rows if not _ATTRIBUTE.fullmatch(row))
        if _CODE.fullmatch(text):
            item.put(kind.value, text.rstrip(".,;"), 0.85)
    paragraphs = list(_paragraphs(cells.get(Kind.DESCRIPTION, [])))
    item.put("description", next(filter(None, map(description_of, paragraphs)), ""), 0.85)
    if (code_match := _CODE_BEFORE.fullmatch(item.fields.get("description", ""))) and Kind.ARTICLE not in cells:
        item.put("article_number", code_match["code"], 0.85)
        item.fields["description"] = code_match["name"]
    texts = [text for paragraph in paragraphs for text in paragraph]
    order = " ".join(piece.text for piece in cells.get(Kind.ORDER, []))
    item.put("po_reference", order if any(map(str.isdigit, order)) else None, 0.85)
    order_line = " ".join(piece.text for piece in cells.get(Kind.ORDER_LINE, []))
    item.put("po_line", order_line if is_position(order_line) else None, 0.85)
    for text in texts:
        if match := _ARTICLE.fullmatch(text.strip("*•·- ")):
            item.put("article_number", match["code"], _DERIVED, "description")
        if (match := _ORDER.search(text)) and text.strip("*•·- ").startswith(match[0][:6]):
            item.put("po_reference", match["order"].rstrip(".,;"), _DERIVED, "description")
            item.put("po_line", match["line"], _DERIVED, "description")


def _paragraphs(pieces: Sequence[Piece]) -> Iterator[list[str]]:
    """Yield the rows of a cell, split at blank rows.

    A page break does not split a paragraph.
    """
    rows: list[str] = []
    for previous, piece in pairwise((None, *pieces)):
        if piece is None:
            continue
        blank = 0.0 if previous is None or previous.page != piece.page else piece.top - previous.bottom
        if rows and blank > _BLANK_ROW * (piece.bottom - piece.top):
            yield rows
            rows = []
        rows.append(piece.text)
    if rows:
        yield rows


def description_of(rows: Sequence[str]) -> str:
    """Return the description in these rows, without labeled values.

    Labeled values are codes, gross prices and discounts. Rows below such a label are remarks and not part of the
    description.
    """
    parts: list[str] = []
    for row in rows:
        is_label = _ATTRIBUTE.fullmatch(row) is not None or _ARTICLE.fullmatch(row.strip("*•·- ")) is not None
        if _PROPERTIES.fullmatch(row) or (is_label and parts):
            break
        if is_label or ((match := _ORDER.match(row.strip("*•·- "))) and match["order"]):
            continue
        if parts and parts[-1].endswith("-") and len(parts[-1]) > 1 and parts[-1][-2].isalpha() and row[:1].isalpha():
            parts[-1] = (parts[-1][:-1] if row[:1].islower() else parts[-1]) + row
        else:
            parts.append(row)
    return " ".join(parts).rstrip(" :")


def _put_quantities(item: LineFields, line: RawLine, cells: Mapping[Kind, Sequence[Piece]]) -> None:
    values = line.values
    quantity = values.get(Kind.QUANTITY)
    if quantity is None and Kind.NET not in values:
        quantity = values.get(Kind.ORDERED)
    if quantity is not None and quantity.value is not None:
        item.put("quantity", format_number(quantity.value), _STATED)
    rejected = values.get(Kind.REJECTED)
    if rejected is not None and rejected.value is not None:
        item.put("rejected_quantity", format_number(rejected.value), _STATED)
    unit_texts = [piece.text for kind in (Kind.UNIT, Kind.QUANTITY) for piece in cells.get(kind, [])]
    unit_texts.append(line.quantity_neighbor)
    for text in unit_texts:
        first_word = text.split()[0] if text.split() else ""
        item.put("unit", units.unit_code(text) or units.unit_code(first_word), 0.9)
    item.has_unknown_unit = any(unit_texts) and "unit" not in item.fields
    if quantity is not None and "unit" not in item.fields:
        item.put("unit", unit_in_description(item.fields.get("description", "")), _DERIVED, "description")


def _put_prices(
    item: LineFields, values: Mapping[Kind, Token], cells: Mapping[Kind, Sequence[Piece]], form: NumberFormat
) -> None:
    price, net, basis = values.get(Kind.PRICE), values.get(Kind.NET), values.get(Kind.BASIS)
    if net is not None and net.value is not None:
        item.put("net_amount", format_number(net.value), _STATED)
    if price is None or price.value is None:
        return
    item.put("unit_price", format_number(price.value), _STATED)
    if basis is not None and basis.value:
        item.put("price_basis_quantity", format_number(basis.value), _STATED)
    for piece in cells.get(Kind.PRICE, []):
        is_beside = piece.top < price.bottom
        match = _BASIS.search(piece.text) if is_beside else None
        if match is not None and match["number"]:
            _put_basis(item, match["number"], form)
    for kind in (Kind.PRICE, Kind.DESCRIPTION):
        text = " ".join(piece.text for piece in cells.get(kind, []))
        if (match := _BASIS_LABEL.search(text)) and match["number"]:
            _put_basis(item, match["number"], form)


def _put_basis(item: LineFields, text: str, form: NumberFormat) -> None:
    number = parse_number(text.rstrip(".,"), form)
    if number:
        item.put("price_basis_quantity", format_number(number), 0.85)


def _prove(item: LineFields, values: Mapping[Kind, Token]) -> None:
    """Check quantity * price / basis = net, and raise or lower the confidence.

    If only that explains the net amount, a discount is subtracted from the price, or a price basis is derived.
    """
    quantity, price, net = item.number("quantity"), item.number("unit_price"), item.number("net_amount")
    if quantity is None or price is None or net is None:
        return
    basis = item.number("price_basis_quantity") or Decimal(1)
    rebate = values.get(Kind.DISCOUNT)
    percent = rebate.value if rebate is not None and rebate.value is not None and 0 < rebate.value < 100 else None
    proven_fields: tuple[str, ...] = ("quantity", "unit_price", "net_amount")
    if not totals.line_agrees(quantity, price, net, basis):
        if percent is not None and totals.line_agrees(quantity, price, net, basis, percent):
            item.fields["unit_price"] = format_number(price * (100 - percent) / 100)
            item.sources["unit_price"] = "arithmetic"
        elif "price_basis_quantity" not in item.fields and (agreeing_basis := _basis_that_agrees(quantity, price, net)):
            item.put("price_basis_quantity", format_number(agreeing_basis), _DERIVED, "arithmetic")
        elif totals.line_agrees(quantity, price, -net, basis, percent or Decimal(0)):
            # A credit note may have negative amounts with positive quantities.
            item.fields["unit_price"] = format_number(price * (100 - percent) / 100 if percent else price)
            proven_fields = ("quantity", "unit_price")
        else:
            for name in proven_fields:
                item.confidence[name] = _CONTRADICTED
            return
    for name in proven_fields:
        item.confidence[name] = _PROVEN
    if "price_basis_quantity" in item.fields:
        item.confidence["price_basis_quantity"] = max(_DERIVED, item.confidence["price_basis_quantity"])


def count_pieces(lines: Sequence[LineFields]) -> None:
    """Set missing units of quantities to C62 (one) if a line item states a unit."""
    if any("unit" in item.fields and item.confidence["unit"] > _DERIVED for item in lines):
        for item in lines:
            if "quantity" in item.fields and not item.has_unknown_unit:
                item.put("unit", "C62", _DERIVED, "other lines")


def make_positive(lines: Sequence[LineFields]) -> None:
    """Make a credit note's net amounts and quantities positive.

    Applies only if every line item has a quantity, a positive price and a negative net amount.
    """
    names = ("quantity", "unit_price", "net_amount")
    numbers = [tuple(item.number(name) or Decimal(0) for name in names) for item in lines]
    if numbers and all(quantity and price > 0 > net for quantity, price, net in numbers):
        for item, (quantity, _, net) in zip(lines, numbers, strict=True):
            item.fields["net_amount"] = format_number(-net)
            item.fields["quantity"] = format_number(abs(quantity))


def _basis_that_agrees(quantity: Decimal, price: Decimal, net: Decimal) -> Decimal | None:
    """Return the price basis (10, 100 or 1000) that explains the net amount, or None.

    A net amount of zero fits any basis, so the result is None.
    """
    if not net:
        return None
    return next((basis for basis in _BASES if totals.line_agrees(quantity, price, net, basis)), None)
