"""Reads a document's supplier and buyer. Pure.

Parties have addresses, VAT ids, bank accounts and email addresses. The heading above an address states its role.
Without a heading, the usual layout of a business letter decides. The sender is on one line above the address window or
in the letterhead, and the addressee is in the window. Addresses that match neither are ignored.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from counterfoil.documents.lexicon import READER
from counterfoil.documents.lexicon.folding import fold_letters
from counterfoil.documents.structured import ROLES, DocumentType
from counterfoil.documents.text import addresses
from counterfoil.documents.text.addresses import Address
from counterfoil.documents.text.kind import emails, find_ibans, find_vat_ids, iban, vat_id
from counterfoil.documents.text.layout import BUYER_LABEL, SUPPLIER_LABEL, Cell, Layout, find
from counterfoil.documents.text.page import Evidence

_LETTERHEAD, _WINDOW_TOP, _WINDOW_BOTTOM, _FOOTER = 0.12, 0.08, 0.42, 0.8
_ID_LABELS = READER.patterns("labels.party_id")
_OVER_ADDRESS = (
    8.0  # maximum distance from a heading to its address, in text heights; labeled numbers may be in between
)
_HIGHEST_BLOCK = 40.0  # in text heights
_MAX_IDS = 400
_CLOSE = 2.5  # maximum gap between lines of one block, in text heights
_MIN_NAME_LETTERS = 5  # minimum letters of a name that matches a domain; fewer may match by coincidence
_BUYER_WRITES = frozenset({DocumentType.PURCHASE_ORDER, DocumentType.GOODS_RECEIPT})
_WRITER_DETAILS = re.compile(
    r"\b(?:tel|telefon|telephone|phone|fon|fax|tlf|mobil|iban|bic|siren|siret|rcs|capital|capitale|kvk|hr[ab]|www)\b|@|https?:"
)
_APART = re.compile(r"\s[-\u2013|\u00b7]\s")
_TAX_NUMBER = re.compile(r"[A-Z]{0,2}\d[\dA-Z./ -]{4,20}[\dA-Z]")
_SEAT = r"[A-Z\u00c0-\u00dd][\w'\u2019.-]+(?: [\w'\u2019.-]+){0,2}? (?:[AB] )?"
_REGISTRATION = re.compile(rf"(?:{_SEAT})?(?P<number>(?:[A-Z]{{2}}[- ]?)?\d[\d ]{{4,18}}\d)")
_COMMERCIAL_REGISTER = re.compile(r"\b(HR[AB])(?:\s*Nr\.?)?\s*(\d{1,6}(?: [A-Z]\b)?)")

Parse = Callable[[str], tuple[str, float] | None]


@dataclass(frozen=True)
class Party:
    """Fields that a document states about a party, with their evidence by field name."""

    fields: dict[str, str]
    evidence: dict[str, Evidence]


@dataclass(frozen=True)
class _Id:
    """A number or e-mail address of a party.

    `side` is set if its position or label identifies the owner.
    """

    field: str
    value: str
    confidence: float
    cell: Cell
    label: Cell
    side: str | None


def read(layout: Layout, kind: DocumentType) -> dict[str, Party]:
    """Return seller and buyer by the document type's role names.

    A party without a name is omitted.
    """
    roles, writer = ROLES[kind], "buyer" if kind in _BUYER_WRITES else "seller"
    sides = _sides(layout, kind, writer)
    names = {side: address.name or "" for side, (address, _, _) in sides.items()}
    blocks = _blocks(layout, {side: address for side, (address, _, _) in sides.items()})
    claimed_ids = (_assign_by_block(_assign_by_domain(id_, names), blocks) for id_ in islice(_ids(layout), _MAX_IDS))
    ids = _group_by_side(claimed_ids, writer, layout)
    by_role = {}
    for side, role in (("seller", roles.seller), ("buyer", roles.buyer)):
        party = _party(layout, side, sides.get(side), ids.get(side, []))
        if "name" in party.fields:
            by_role[role] = party
    return by_role


def _sides(layout: Layout, kind: DocumentType, writer: str) -> dict[str, tuple[Address, float, str]]:
    """Return the address of each side, its confidence, and how it was found."""
    headed, unheaded = _by_heading(layout, writer)
    sides: dict[str, tuple[Address, float, str]] = {
        side: (headed[side], 0.95, "heading") for side in ("seller", "buyer") if side in headed
    }
    addressee = "buyer" if writer == "seller" else "seller"
    if writer not in sides and (sender := _sender(layout, unheaded)) is not None:
        sides[writer] = (sender, 0.85, "sender")
    if writer not in sides and (writer_address := _writer_without_letterhead(layout, unheaded, headed)) is not None:
        sides[writer] = (writer_address, 0.7, "place")
    if addressee not in sides:
        writer_side = sides.get(writer)
        window = _addressee(layout, unheaded, writer_side[0] if writer_side else None)
        if window is not None:
            sides[addressee] = (window, 0.85, "address window")
        elif kind is DocumentType.DELIVERY_NOTE and "delivered" in headed:
            sides["buyer"] = (headed["delivered"], 0.6, "delivery address")
    return sides


def _by_heading(layout: Layout, writer: str) -> tuple[dict[str, Address], list[Address]]:
    """Return addresses by the role in their heading, and addresses without a heading."""
    headed: dict[str, Address] = {}
    unheaded: list[Address] = []
    addressed = "invoiced" if writer == "seller" else "seller"
    with_roles = [(_role(layout, address), address) for address in addresses.find(layout)]
    for role, address in (*addresses.labeled(layout).items(), *with_roles):
        if role is None:
            unheaded.append(address)
        else:
            headed.setdefault(addressed if role == "addressed" else role, address)
    if "buyer" not in headed and "invoiced" in headed:
        headed["buyer"] = headed["invoiced"]
    return headed, unheaded


def _role(layout: Layout, address: Address) -> str | None:
    """Return the role from the heading above an address, or from its labels.

    Labels are to the left of the address lines.
    """
    starts = [address.top]
    for cell in address.cells:
        left_cells = layout.left_of(cell)
        if left_cells and left_cells[-1].text.rstrip().endswith(":"):
            if (role := addresses.heading(left_cells[-1])) is not None:
                return role
            starts.append(left_cells[-1])
    return next((role for start in starts if (role := _heading_over(layout, start)) is not None), None)


def _heading_over(layout: Layout, top: Cell) -> str | None:
    """Return the role of the nearest heading above a line.

    Only labeled lines may be in between.
    """
    cells_above = [
        cell
        for cell in layout.over(top, _OVER_ADDRESS * top.height)
        if abs(cell.left - top.left) < 2 * top.height or cell.left < top.left < cell.right
    ]
    for cell in reversed(cells_above):
        role = addresses.heading(cell)
        if role is not None:
            return role
        if not addresses.is_address_end(cell) or addresses.town(cell.text):
            return None
    return None


def _sender(layout: Layout, unheaded: Iterable[Address]) -> Address | None:
    """Return the sender from above the window, the letterhead or the footer.

    Only the first page is searched. If the line above the window has a post office box, another address of the same
    company replaces it.
    """
    first_page = [address for address in unheaded if address.top.page == 1 and not address.to_person]
    height = layout.pages[0].height
    window_line = next(
        (candidate for candidate in first_page if candidate.inline and candidate.top.top < _WINDOW_BOTTOM * height),
        None,
    )
    if window_line is not None and addresses.is_po_box(window_line):
        name = fold_letters(window_line.name or "")
        return next(
            (
                candidate
                for candidate in first_page
                if fold_letters(candidate.name or "") == name and not addresses.is_po_box(candidate)
            ),
            window_line,
        )
    if window_line is not None:
        return window_line
    sender = next((candidate for candidate in first_page if candidate.top.top < _LETTERHEAD * height), None)
    sender = sender or next((candidate for candidate in first_page if candidate.top.top > _FOOTER * height), None)
    if sender is not None and sender.name is None:
        return replace(sender, name=_letterhead(layout, unheaded))
    return sender


def _writer_without_letterhead(
    layout: Layout, unheaded: Iterable[Address], headed: Mapping[str, Address]
) -> Address | None:
    """Return the sender of a document without a letterhead.

    If a heading names another party, the sender has the only address without a heading. Otherwise, it has the only
    address followed by a phone, registration or account number.
    """
    bottom = _WINDOW_BOTTOM * layout.pages[0].height
    upper = [
        candidate
        for candidate in unheaded
        if candidate.top.page == 1 and not candidate.to_person and candidate.top.top < bottom
    ]
    if not headed.keys().isdisjoint({"seller", "buyer"}):
        return upper[0] if len(upper) == 1 else None
    with_details = [
        candidate
        for candidate in upper
        if any(_WRITER_DETAILS.search(cell.plain) for cell in _block(layout, candidate, {}))
    ]
    return with_details[0] if len(with_details) == 1 else None


def _letterhead(layout: Layout, known_addresses: Iterable[Address]) -> str | None:
    """Return the only company name with a legal form in the letterhead.

    The letterhead is the top of the first page. Names in addresses are ignored.
    """
    address_cells = {cell for address in known_addresses for cell in address.cells}
    names = {
        cell.text
        for cell in layout.cells
        if cell.page == 1
        and cell.top < _LETTERHEAD * layout.pages[0].height
        and cell not in address_cells
        and addresses.has_legal_form(cell)
        and not addresses.is_address_end(cell)
    }
    return names.pop() if len(names) == 1 else None


def _addressee(layout: Layout, unheaded: Iterable[Address], sender: Address | None) -> Address | None:
    """Return the first address in the window that differs from the sender's."""
    height = layout.pages[0].height
    for address in sorted(unheaded, key=lambda candidate: not candidate.to_person):
        top = address.top.top
        if address.top.page != 1 or address.inline or not _WINDOW_TOP * height < top < _WINDOW_BOTTOM * height:
            continue
        if address.name is None:
            continue
        if sender is not None and (address is sender or _same_place(address, sender)):
            continue
        return address
    return None


def _same_place(a: Address, b: Address) -> bool:
    return a.town.code == b.town.code and fold_letters(a.street or "") == fold_letters(b.street or "")


def _blocks(layout: Layout, sides: Mapping[str, Address]) -> dict[Cell, str]:
    """Return the side of each cell in an address or in the block right below it."""
    blocks = {cell: side for side, address in sides.items() if not address.inline for cell in address.cells}
    for side, address in sides.items():
        if not address.inline:
            blocks |= dict.fromkeys(_block(layout, address, blocks), side)
    return blocks


def _block(layout: Layout, address: Address, used_cells: Container[Cell]) -> list[Cell]:
    """Return the cells between an address's lines and directly below it.

    Cells below must be about the same party.
    """
    top, bottom = address.cells[0], address.cells[-1]
    cells = [cell for cell in layout.over(bottom, bottom.top - top.top) if addresses.is_left_aligned(cell, bottom)]
    previous = bottom
    for cell in layout.under(bottom):
        if not addresses.is_left_aligned(cell, bottom):
            continue
        if cell in used_cells or cell.top - previous.bottom > _CLOSE * previous.height or not _continues_block(cell):
            break
        cells.append(cell)
        previous = cell
    return cells


def _continues_block(cell: Cell) -> bool:
    """Return whether a line below an address is about the same party.

    It may be a country or a phone number, for example.
    """
    if addresses.is_heading(cell) or addresses.town(cell.text) is not None:
        return False
    is_number = bool(find_vat_ids(cell.text) or find_ibans(cell.text))
    return is_number or addresses.is_address_end(cell) or addresses.country(cell.text) is not None


def _assign_by_block(id_: _Id, blocks: Mapping[Cell, str]) -> _Id:
    """Assign a number without an owner to the side whose block contains it."""
    side = None if id_.side is not None or SUPPLIER_LABEL.search(id_.label.plain) else blocks.get(id_.label)
    return id_ if side is None else replace(id_, side=side)


def _ids(layout: Layout) -> Iterator[_Id]:
    parsers: Mapping[str, Parse] = {
        "vat_id": vat_id,
        "tax_number": _tax_number,
        "iban": iban,
        "registration_id": _registration,
    }
    for field, parse in parsers.items():
        labels = _ID_LABELS[field]
        for labeled in find(layout, labels, parse, anywhere=True):
            yield _Id(
                field, labeled.value, labeled.confidence, labeled.cell, labeled.label, _side_of(layout, labeled.label)
            )
    for cell in layout.cells:
        for match in _COMMERCIAL_REGISTER.finditer(cell.text):
            yield _Id("registration_id", f"{match[1]} {match[2]}", 0.9, cell, cell, _side_of(layout, cell))
        for email in emails(cell.text):
            yield _Id("email", email, 0.8, cell, cell, _side_of(layout, cell))
        for number in find_vat_ids(cell.text):
            yield _Id("vat_id", number, 0.8, cell, cell, _side_of(layout, cell))
        for number in find_ibans(cell.text):
            yield _Id("iban", number, 0.8, cell, cell, _side_of(layout, cell))


def _tax_number(text: str) -> tuple[str, float] | None:
    match = _TAX_NUMBER.match(_APART.split(text.strip(" .:#-"))[0])
    return (match[0], 1.0) if match else None


def _registration(text: str) -> tuple[str, float] | None:
    """Return a registration number and its confidence.

    The register's town may precede the number.
    """
    match = _REGISTRATION.match(text.strip(" .:#"))
    return (match["number"].replace(" ", ""), 1.0) if match else None


def _side_of(layout: Layout, label: Cell) -> str | None:
    """Return the owner of a number, from its label or the heading of its block."""
    if BUYER_LABEL.search(label.plain.strip(" :")):
        return "buyer"
    column = [
        cell
        for cell in layout.over(label, _HIGHEST_BLOCK * label.height)
        if abs(cell.left - label.left) < 2 * label.height
    ]
    below, in_address = label, False
    for cell in reversed(column):
        if below.top - cell.bottom > _CLOSE * label.height:
            return None
        role = addresses.heading(cell)
        if role is not None:
            return {"invoiced": "buyer", "addressed": None}.get(role, role)
        in_address = in_address or addresses.town(cell.text) is not None or addresses.country(cell.text) is not None
        if not in_address and not addresses.is_address_end(cell):
            return None  # separated by unrelated text
        below = cell
    return None


def _assign_by_domain(id_: _Id, names: Mapping[str, str]) -> _Id:
    """Assign an e-mail address to the side whose name is in the domain."""
    if id_.field != "email":
        return id_
    domain = re.sub(r"[^a-z0-9]", "", fold_letters(id_.value.partition("@")[2].rpartition(".")[0]))
    for side, name in names.items():
        words = re.findall(r"[a-z0-9]+", fold_letters(name))
        if any(len(part) >= _MIN_NAME_LETTERS and part in domain for part in (*words, "".join(words))) or (
            len(domain) >= _MIN_NAME_LETTERS and domain in "".join(words)
        ):
            return replace(id_, side=side, confidence=0.9)
    return id_


def _group_by_side(ids: Iterable[_Id], writer: str, layout: Layout) -> dict[str, list[_Id]]:
    """Return numbers by side.

    A number without an owner is assigned to the sender, unless the sender already has a number of that kind, another
    party has the same number, or the choice is ambiguous.
    """
    by_side: dict[str, list[_Id]] = {"seller": [], "buyer": []}
    without_side: dict[str, list[_Id]] = {}
    claimed_values = set()
    for id_ in ids:
        if id_.side is None:
            without_side.setdefault(id_.field, []).append(id_)
        else:
            claimed_values.add((id_.field, id_.value))
            by_side.setdefault(id_.side, []).append(id_)
    for field, field_ids in without_side.items():
        candidates = [id_ for id_ in field_ids if (field, id_.value) not in claimed_values]
        if any(id_.field == field for id_ in by_side[writer]):
            continue
        chosen = _choose(candidates, layout, field)
        if chosen is not None:
            by_side[writer].append(chosen)
    return by_side


def _choose(candidates: list[_Id], layout: Layout, field: str) -> _Id | None:
    """Return the only value, the first IBAN, or the only value in a page footer.

    Returns None if the value is ambiguous or absent.
    """
    if not candidates or len({id_.value for id_ in candidates}) == 1 or field == "iban":
        return candidates[0] if candidates else None
    at_foot = [id_ for id_ in candidates if id_.cell.top > _FOOTER * layout.pages[id_.cell.page - 1].height]
    return (
        replace(at_foot[0], confidence=0.7 * at_foot[0].confidence)
        if len({id_.value for id_ in at_foot}) == 1
        else None
    )


def _party(layout: Layout, side: str, located: tuple[Address, float, str] | None, ids: Iterable[_Id]) -> Party:
    fields: dict[str, str] = {}
    evidence: dict[str, Evidence] = {}
    if located is not None:
        address, confidence, source = located
        values = {
            "name": address.name,
            "street": address.street,
            "postal_code": address.town.code,
            "city": address.town.city,
            "country": address.town.country,
        }
        fields = {name: value for name, value in values.items() if value}
        evidence = dict.fromkeys(fields, Evidence(source, confidence, address.top.page))
    elif (name := _name_under_heading(layout, side)) is not None:
        fields, evidence = {"name": name.text}, {"name": Evidence("heading", 0.7, name.page)}
    for id_ in ids:
        if id_.field not in fields:
            fields[id_.field] = id_.value
            evidence[id_.field] = Evidence("label", round(id_.confidence, 2), id_.cell.page)
    return Party(fields, evidence)


def _name_under_heading(layout: Layout, side: str) -> Cell | None:
    """Return the first line below a party's heading, for a party without an address."""
    for cell in layout.cells:
        if addresses.heading(cell) == side:
            below = layout.below(cell)
            if below is not None and not addresses.is_address_end(below):
                return below
    return None
