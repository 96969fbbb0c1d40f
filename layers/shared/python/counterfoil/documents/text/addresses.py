"""Finds a page's postal addresses: first the town, then the lines above. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from counterfoil.documents.lexicon import READER
from counterfoil.documents.lexicon.folding import fold_letters
from counterfoil.documents.text.kind import emails, find_dates
from counterfoil.documents.text.layout import Cell, Layout

_LETTERS = r"A-Za-z\u00c0-\u024f"
_GB_CODE = r"(?:[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|[A-Z]\d[\dW] [A-Z\d]{4})"  # includes Irish codes
_TOWN = re.compile(
    rf"(?:(?P<land>[A-Z]{{1,3}})(?:\s|\s?[-\u2013]\s?))?"
    rf"(?:(?P<code>\d{{5}}|\d{{4}} ?[A-Z]{{2}}(?= )|\d{{3}} \d{{2}}|\d{{2}}-\d{{3}}|\d{{4}}|{_GB_CODE})\s*[,-]?\s*)"
    rf"(?P<city>(?:['\u2019](?=s-))?[{_LETTERS}][{_LETTERS} .,'\u2019/()\-\d]{{1,60}})"
)
_TOWN_FIRST = re.compile(rf"(?P<city>[{_LETTERS}][{_LETTERS} .'\-]{{1,40}}),? (?P<code>{_GB_CODE})")
_AMERICAN = re.compile(rf"(?P<city>[A-Z][{_LETTERS} .'\-]{{1,40}}), [A-Z]{{2}} (?P<code>\d{{5}}(?:-\d{{4}})?)")
_AMERICAN_STREET = re.compile(
    r"\b(?:street|road|avenue|lane|drive|boulevard|blvd|suite|highway|parkway|circle|broadway|floor|room"
    r"|(?:court|st|ave|rd|dr|ln|ct|pkwy)(?:$|[.,]))"
)
"""Street words. A number before one of them is a house number and not a postal code."""
_OWNER = re.compile(r"(?:inh(?:aber(?:in)?)?|prop(?:rietor)?|titolare|gerante?)\b")
_CODE_ALONE = re.compile(_GB_CODE)
_CITY_ALONE = re.compile(rf"[A-Z][{_LETTERS} .'\-]{{2,30}}")
_COUNTRY_PREFIXES = {"D": "DE", "A": "AT", "F": "FR", "I": "IT", "E": "ES", "B": "BE", "L": "LU"}
_COUNTRIES = READER.meanings("labels.country")
_COUNTRY_OF = {name: code for code, names in _COUNTRIES.items() for name in names}
_STREET_WORDS = re.compile(
    r"str(?:asse|\.)|weg\b|platz\b|allee\b|gasse\b|damm\b|ufer\b|ring\b|chaussee|\brue\b|avenue|boulevard|chemin|\bquai\b"
    r"|impasse|\bvia\b|viale|piazza|corso|calle|avenida|plaza|paseo|straat|laan\b|plein\b|gracht|\bvej\b|vej\b|gade\b"
    r"|alle\b|street|road|\bpark\b|\bunit \d|\bcourt\b|\bwharf\b|crescent|\bclose\b|\bterrace\b|estate\b"
    r"|\broute\b|\blane\b|drive\b|square|postfach|p\.? ?o\.? box|boite postale|\bbp\b|apartado"
    r"|casella postale|postboks|case postale|postbus"
    r"|\bcarrer\b|\bc/|avinguda|\bavda\b|\bpza\b|passeig|\bronda\b|poligono|camino|carretera|\bctra\b|travesia"
    r"|\bstrada\b|\blargo\b|vicolo|localita\b|contrada|frazione|\bcours\b|\ballee|\bplace\b|faubourg"
    r"|\bzone (?:art|ind|d'act)|\bz\.?[ia]\.?\b|lieu[ -]dit|lotissement|\bkade\b"
    r"|\w{3}(?:kade|dijk|singel|dreef|hof|steeg|straede|torv|vanget|parken)\b"
    r"|\bmews\b|\bgardens\b|\byard\b|\bquay\b|\bblvd\b|\bsuite \d"
)
_DEPARTMENT = re.compile(
    r"dep(?:artmen)?t|accounts|purchas|finance|office|procure|goods in|ware(?:house|n)|c/o|invoice"
)
_PO_BOX = re.compile(
    r"postfach|p\.? ?o\.? box|boite postale|case postale|bp\b|apartado|casella postale|postboks|postbus"
)
_HOUSE_NUMBER = re.compile(
    r"(?:^\d{1,5}[a-z]?(?: ?(?:bis|ter))?,? [a-z].{2,}|.{3,} \d{1,5} ?[a-z]?(?:[-/ ]\d{1,4} ?[a-z]?)?$)"
)
_LEGAL_FORM = re.compile(rf"(?<![a-z])(?:{READER.alternatives('legal_forms.written')})(?![a-z])")
_SALUTATION = re.compile(
    r"(?:an|to|a)?\s*(?:(?:herrn?|frau|mr|mrs|ms|mme|m|monsieur|madame|sig|sig\.ra|signor[ae]?|sr|sra|dhr|mevr)\.?"
    r"(?:\s*(?:und|and|et|e|y|en|&)\s*(?!$)|$))+|eheleute|familie|family|famille|famiglia"
)
_LABEL_BEHIND = re.compile(r"^[^:]{2,25}:")
_NOT_OF_ADDRESS = re.compile(
    r"^(?:gln|ust|vat|tva|tel|fon|fax|phone|telefon|telefax|mobil|e-?mail|www|http|iban|bic|nummer|globale nummer"
    r"|kunden-?(?:nr|nummer)|lief-?nr|kd-?nr|hr[ab]|nr)\b"
    r"|@|https?:|www\.|^[+(]?\d[\d\s()/.-]{6,}$"
)
_SEPARATOR = re.compile(r"\s*(?:[·•●∙|;,*]|\s[-\u2013\u2014/]\s|\x1f)\s*")
_REACH = 3.0  # maximum line pitch of an address, in text heights
_REACH_IN_WINDOW = 4.2  # the same in address windows, which may have empty lines
_MAX_LINES = 7
_SAME_END = 0.3  # in text heights; right-aligned lines end at the same position
_MAX_HEIGHT, _WINDOW = (
    24.0,
    10.0,
)  # in text heights: maximum height of an address, and maximum distance from the sender's line to the town
_MAX_TOWNS = 400
_MAX_CITY_WORDS = 6
_MAX_INLINE = 200


@dataclass(frozen=True)
class Town:
    """Postal code, city and country on a line.

    The country is None if the line does not name one.
    """

    code: str
    city: str
    country: str | None


@dataclass(frozen=True)
class Address:
    """Name, street and town, with their cells from top to bottom.

    An `inline` address is on one line. `to_person` is true if a label such as "Attention" names a person.
    """

    name: str | None
    street: str | None
    town: Town
    cells: tuple[Cell, ...]
    inline: bool = False
    to_person: bool = False

    @property
    def top(self) -> Cell:
        """First cell of the address."""
        return self.cells[0]


def town(text: str) -> Town | None:
    """Return the town in a line, with its postal code and its country if stated.

    Returns None for other lines.
    """
    stripped = re.sub(r"\s+", " ", text).strip(" ,;|·•●")
    match = _TOWN.fullmatch(stripped) or _TOWN_FIRST.fullmatch(stripped) or _AMERICAN.fullmatch(stripped)
    if match is None:
        return None
    city, country = _without_country(match["city"].strip(" ,."))
    land = match.groupdict().get("land")
    if land:
        country = _COUNTRY_PREFIXES.get(land, land if land in _COUNTRIES else None)
        if country is None and len(match["code"]) < 5:
            return None
    words = city.split()
    if match["code"].isdecimal() and _AMERICAN_STREET.search(fold_letters(city)):
        return None
    if not city or len(words) > _MAX_CITY_WORDS or not city.lstrip("'\u2019")[:1].isalpha() or emails(city):
        return None
    if len(match["code"]) == 4 and not land and not city[0].isupper():
        return None
    return Town(match["code"], city, country)


def _without_country(city: str) -> tuple[str, str | None]:
    head, comma, tail = city.rpartition(",")
    code = country(tail)
    return (head.strip(), code) if comma and code else (city, None)


def country(text: str) -> str | None:
    """Return the ISO code for a country's name or code, or None for other texts."""
    for part in re.split(r"[/,]", text):
        words = re.sub(r"[^a-z ]", " ", fold_letters(part)).strip()
        if code := _COUNTRY_OF.get(re.sub(r"\s+", " ", words)):
            return code
    stripped = text.strip(" ,.()")
    return stripped if stripped in _COUNTRIES else None


def find(layout: Layout) -> list[Address]:
    """Return all addresses of a document, page by page from top to bottom."""
    addresses: list[Address] = []
    used_cells: set[Cell] = set()
    for line in layout.lines:
        inline = _with_company_above(layout, _inline(line)) or _below_name(layout, line)
        if inline is not None:
            addresses.append(inline)
            used_cells.update(inline.cells)
    towns = (
        (cell, place)
        for cell in layout.cells
        if cell not in used_cells and (place := _town_of(layout, cell)) is not None
    )
    for cell, place in islice(towns, _MAX_TOWNS):
        cells_above = list(_cells_above(layout, cell, used_cells))
        if cells_above and (not _may_be_a_year(place) or _is_street(cells_above[0].text)):
            addresses.append(_block(layout, cell, place, cells_above))
    return sorted(addresses, key=lambda address: (address.top.page, address.top.top))


def _town_of(layout: Layout, cell: Cell) -> Town | None:
    """Return the town in a cell.

    British addresses may have the postal code on the line below the town.
    """
    if _CODE_ALONE.fullmatch(cell.text.strip(" ,.")) is None:
        return town(cell.text)
    cell_above = _nearest_over(layout, cell)
    if cell_above is None or _CITY_ALONE.fullmatch(cell_above.text.strip(" ,.")) is None or is_address_end(cell_above):
        return None
    return Town(cell.text.strip(" ,."), cell_above.text.strip(" ,."), None)


def _nearest_over(layout: Layout, cell: Cell) -> Cell | None:
    column = [other for other in layout.over(cell, 2 * cell.height) if is_left_aligned(other, cell)]
    return column[-1] if column else None


def is_left_aligned(a: Cell, b: Cell) -> bool:
    """Return whether two cells share their left or right edge, as lines of a block."""
    return abs(a.left - b.left) < b.height or abs(a.right - b.right) < _SAME_END * b.height


def _may_be_a_year(place: Town) -> bool:
    return place.country is None and place.code.isdecimal() and 1900 <= int(place.code) <= 2100


def _inline(line: Sequence[Cell]) -> Address | None:
    """Return an address on one line, as above an address window or in a letterhead."""
    text = "\x1f".join(cell.text for cell in line)
    parts = [part for part in _SEPARATOR.split(text) if part.strip()]
    for index in range(2, min(len(parts), 6)):
        place = town(parts[index])
        if (
            place is None
            or len(text) > _MAX_INLINE
            or not _is_street(parts[index - 1])
            or len(parts[0]) > 60
            or ":" in parts[0]
        ):
            continue
        next_part = parts[index + 1] if index + 1 < len(parts) else ""
        country_code = place.country or country(next_part)
        end = text.find(parts[index]) + len(parts[index])
        cells, length = [], 0
        for cell in line:
            if length < end:
                cells.append(cell)
            length += len(cell.text) + 1
        return Address(
            parts[0].strip(),
            parts[index - 1].strip(),
            Town(place.code, place.city, country_code),
            tuple(cells),
            inline=True,
        )
    return None


def _with_company_above(layout: Layout, inline: Address | None) -> Address | None:
    """Return an inline address, with the company name from above if necessary.

    The name is above if the address starts with an owner or a place.
    """
    if inline is None:
        return None
    name, street = inline.name or "", inline.street or ""
    firm = _nearest_over(layout, inline.top)
    if firm is None or is_address_end(firm):
        return inline
    if _OWNER.match(fold_letters(name)):
        return replace(inline, name=firm.text)
    is_place = not _LEGAL_FORM.search(fold_letters(name)) and f"{name}, {street}" in inline.top.text
    # `Mercamurcia, módulo 14 - 30120 Murcia` below a company name is its location, not another company.
    return replace(inline, name=firm.text, street=f"{name}, {street}") if is_place and has_legal_form(firm) else inline


def _below_name(layout: Layout, line: Sequence[Cell]) -> Address | None:
    """Return an address with street and town in one cell and the name above.

    Letterheads have this form.
    """
    for cell in line:
        parts = [part.strip() for part in _SEPARATOR.split(cell.text) if part.strip()]
        place = town(parts[1]) if len(parts) > 1 else None
        street = parts[0] if parts else ""
        if place is None or not _is_street(street) or len(cell.text) > _MAX_INLINE:
            continue
        name = _nearest_over(layout, cell)
        if name is not None and _OWNER.match(name.plain):
            name = _nearest_over(layout, name)
        if name is None or is_address_end(name) or not any(map(str.isalpha, name.text)):
            continue
        country_code = place.country or (country(parts[2]) if len(parts) > 2 else None)
        return Address(name.text, street, Town(place.code, place.city, country_code), (name, cell))
    return None


def _is_street(text: str) -> bool:
    words = fold_letters(text).strip()
    return bool(_STREET_WORDS.search(words) or _HOUSE_NUMBER.search(words)) and not _NOT_OF_ADDRESS.search(words)


def _cells_above(layout: Layout, bottom: Cell, used_cells: set[Cell]) -> Iterator[Cell]:
    """Yield the cells above a town that may be in its address, from bottom to top."""
    cells_above = layout.over(bottom, _MAX_HEIGHT * bottom.height)
    column = [cell for cell in cells_above if abs(cell.left - bottom.left) < bottom.height]
    if not column:
        column = [cell for cell in cells_above if is_left_aligned(cell, bottom)]
    is_window = any(cell in used_cells and bottom.top - cell.bottom < _WINDOW * bottom.height for cell in cells_above)
    below, count = bottom, 0
    for cell in reversed(column):
        label = _label_of(layout, cell)
        is_wide = is_window or label is not None or _label_of(layout, below) is not None
        reach = (_REACH_IN_WINDOW if is_wide else _REACH) - 1
        if below.top - cell.bottom > reach * bottom.height or count >= _MAX_LINES or cell in used_cells:
            return
        if (label == "other" and _CONTACT.search(layout.left_of(cell)[-1].plain)) or _names_contact(cell):
            below = cell
            continue
        if label == "other" or is_address_end(cell):
            return
        yield cell
        below, count = cell, count + 1


_CONTACT = READER.pattern("labels.contact")
_ATTENTION = re.compile(
    r"(?:z\.? ?h(?:d|dn)?\.|zu handen|att(?:n|ention)?[.:]|t\.?a\.?v\.?\b|ter attentie|a l'attention"
    r"|c\.?a\.?:|alla c(?:ortese)?\.? ?a(?:ttenzione)?\b|a la atencion|a/a\b|f\.?a\.?o\.?\b)"
)
"""Words before the name of a person, with or without a colon."""
_NAME = READER.pattern("labels.address", "name")
_ADDRESS = READER.pattern("labels.address_label")


_TITLES = re.compile(
    "|".join(term for kind, terms in READER.meanings("titles.title").items() for term in terms if kind != "statement")
)
"""Document titles, matched against whole lines."""


def _label_of(layout: Layout, cell: Cell) -> str | None:
    """Return "name", "address" or "other" for the label left of a cell, if any."""
    left = layout.left_of(cell)
    if not left or not left[-1].text.rstrip().endswith(":"):
        return None
    label = left[-1].plain
    return "name" if _NAME.search(label) else "address" if _ADDRESS.search(label) else "other"


def _names_contact(cell: Cell) -> bool:
    """Return whether a line is a labeled contact person: `Attention: Fiona Baird`."""
    words = cell.plain.strip(" *.")
    return _ATTENTION.match(words) is not None or (":" in words and _CONTACT.match(words) is not None)


def is_address_end(cell: Cell) -> bool:
    """Return whether a cell cannot be an address line.

    Examples are labels, phone numbers and headings.
    """
    words = cell.plain.strip()
    return (
        words.endswith(":")
        or words.startswith(":")
        or _LABEL_BEHIND.match(words) is not None
        or _NOT_OF_ADDRESS.search(words) is not None
        or is_heading(cell)
        or _TITLES.fullmatch(words.strip(" .:*")) is not None
        or any(True for _ in find_dates(cell.text, "day first"))
        or not any(map(str.isalpha, words))
        or len(words) > 70
    )


_HEADINGS = re.compile(
    "|".join(rf"(?P<{role}>{labels.pattern})" for role, labels in READER.patterns("labels.party").items())
)


_ABOUT_ADDRESS = re.compile(
    r"(?:^(?:adresse|indirizzo|direccion|coordonnees|dati|datos)(?: (?:del?|du|della?))? )|\s*\([a-z ]{3,30}\)$"
    r"|[ -](?:addres{1,2}|adresse?|anschrift|indirizzo|direccion|details|data|daten|gegevens|information)$"
)
"""Words around the role in a heading: `Vendor address`, `Adresse du client`, `Cedente (fornitore)`."""


def heading(cell: Cell) -> str | None:
    """Return the role that a heading assigns to the address below it.

    Returns None for other cells. Roles: `seller`, `buyer`, `invoiced` (billing address), `addressed` (recipient of the
    document), `delivered` (delivery address), `elsewhere` (any other address).
    """
    words = cell.plain.strip(" :.*")
    match = _HEADINGS.fullmatch(words) or _HEADINGS.fullmatch(_ABOUT_ADDRESS.sub("", words))
    if match is not None:
        return match.lastgroup
    parts = [_HEADINGS.fullmatch(part.strip()) for part in words.split("/")]
    roles = {part.lastgroup if part else None for part in parts}
    return roles.pop() if len(roles) == 1 else None  # the same role in two languages


def is_heading(cell: Cell) -> bool:
    """Return whether a cell is the heading of an address."""
    return heading(cell) is not None


def _block(layout: Layout, bottom: Cell, place: Town, upward_cells: Sequence[Cell]) -> Address:
    lines = list(reversed(upward_cells))
    if lines and fold_letters(lines[-1].text.strip(" ,.")) == fold_letters(place.city):
        lines.pop()  # the town on the line above its postal code
    # The first line is the name, unless it is the only line and lacks a legal form.
    street_candidates = lines[1:] if len(lines) != 1 or _LEGAL_FORM.search(lines[0].plain) else lines
    streets = [cell for cell in street_candidates if _is_street(cell.text)] or [
        cell for cell in lines[1:] if _label_of(layout, cell) == "address"
    ]
    if not streets and len(lines) == 2 and _CODE_ALONE.fullmatch(bottom.text.strip(" ,.")):
        # British village addresses may have a house name instead of a street.
        streets = [cell for cell in lines[1:] if not _DEPARTMENT.search(cell.plain)]
    street = streets[0] if streets else None
    name_cells = [cell for cell in lines if street is None or cell.top < street.top]
    cell_below = layout.below(bottom)
    country_code = place.country or (country(cell_below.text) if cell_below is not None else None)
    cells = (*lines, bottom)
    name = _name([cell.text for cell in name_cells]) if name_cells else None
    cells_between = layout.over(bottom, bottom.top - cells[0].top)
    to_person = any(_names_contact(cell) for cell in cells_between if is_left_aligned(cell, bottom))
    return Address(
        name, street.text if street else None, Town(place.code, place.city, country_code), cells, False, to_person
    )


def _name(lines: Sequence[str]) -> str:
    """Return the first line, plus the second if the name continues there.

    It continues after a salutation, or with the legal form.
    """
    first, *rest = lines
    if rest and _SALUTATION.fullmatch(fold_letters(first)):
        return f"{first} {rest[0]}"
    is_form = bool(rest) and _LEGAL_FORM.search(fold_letters(rest[0])) and not any(map(str.isdigit, rest[0]))
    if is_form and not _LEGAL_FORM.search(fold_letters(first)):
        return f"{first} {rest[0]}"
    return first


def has_legal_form(cell: Cell) -> bool:
    """Return whether a cell contains the legal form of a company."""
    return _LEGAL_FORM.search(cell.plain) is not None


def is_po_box(address: Address) -> bool:
    """Return whether an address has a post office box instead of a street."""
    return _PO_BOX.match(fold_letters(address.street or "")) is not None


_LABEL = re.compile(
    "|".join(rf"(?P<{part}>{label.pattern})\s*:" for part, label in READER.patterns("labels.address").items())
)
_CODE = re.compile(r"(?:[A-Z]{1,2}-)?(\d{4,5}(?: ?[A-Z]{2})?|[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|\d{3} \d{2})")
_MAX_LINE_GAP = 2.5  # maximum gap between lines of one block, in text heights
_LONGEST = 120


def labeled(layout: Layout) -> dict[str, Address]:
    """Return addresses with labeled lines, by the role in their heading.

    Each must have a name and a town with its postal code.
    """
    by_role: dict[str, Address] = {}
    for cell in layout.cells:
        role = heading(cell)
        if role is None or role in by_role:
            continue
        values, cells = _labeled_values(layout, cell)
        code = _CODE.fullmatch(values.get("code", ""))
        if "name" in values and "city" in values and code is not None:
            town = Town(code[1], values["city"], country(values.get("country", "")))
            by_role[role] = Address(values["name"], values.get("street"), town, cells)
    return by_role


def _labeled_values(layout: Layout, top: Cell) -> tuple[Mapping[str, str], tuple[Cell, ...]]:
    """Return the labeled values below a heading, and the cells of its block."""
    values: dict[str, str] = {}
    cells: list[Cell] = []
    previous = top
    for cell in layout.under(top):
        if abs(cell.left - top.left) > 2 * top.height:
            continue
        if cell.top - previous.bottom > _MAX_LINE_GAP * top.height or heading(cell) is not None:
            break
        previous = cell
        cells.append(cell)
        for name, value in _labeled_parts(cell):
            values.setdefault(name, value)
    return values, tuple(cells)


def _labeled_parts(cell: Cell) -> Iterator[tuple[str, str]]:
    """Yield the labels of a line with their values: `Cap: 22100 Nazione: IT`."""
    if len(cell.text) > _LONGEST or _LABEL.match(cell.plain) is None:
        return
    for match, next_match in pairwise((*_LABEL.finditer(cell.plain), None)):
        end = len(cell.text) if next_match is None else next_match.start()
        if match is not None and (value := cell.text[match.end() : end].strip(" ,;")):
            yield match.lastgroup or "", value
