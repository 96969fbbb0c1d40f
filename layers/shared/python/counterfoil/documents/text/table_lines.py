"""Reads the line items from the pages of a document. Pure.

Tables are found by their headings, and read by the positions of the words below. Without a heading, arithmetic
identifies the columns: rows in which quantity * price = amount in the same columns form a table, as do rows with one
amount each that add up to the row below. Values proven by such products and sums have a higher confidence than stated
values, and contradictions a low one. Values that the page does not state are never completed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice, pairwise, permutations

from counterfoil.documents.text import totals
from counterfoil.documents.text.page import Evidence, Page
from counterfoil.documents.text.table_fields import LineFields, count_pieces, credit, is_collapsed, plain, read_fields
from counterfoil.documents.text.table_headings import Column, Heading, Kind, headings, is_carried, is_section, is_total
from counterfoil.documents.text.table_layout import (
    NumberFormat,
    RawLine,
    Row,
    Stretch,
    Token,
    is_aside,
    is_position,
    number_format,
    read_tokens,
    split_rows,
)
from counterfoil.documents.text.totals import Charge, charges, settle, tax_codes, tax_rates

_ALIGNED = 5.0
_SAME_EDGE = 4.0
_NEAR = 1.6
"""Two distances in points, and in text heights the blank between rows that are added up."""
_MAX_NUMBERS = 6
_MOST_PRODUCTS = 1000
_FIRST_POSITION = 100
"""Exclusive maximum of the first position in a table."""


@dataclass(frozen=True)
class _Product:
    """A row with two factors and their product. `is_telling` is true unless a factor is one or zero."""

    row: Row
    quantity: Token
    price: Token
    net: Token
    is_telling: bool


def lines_by_multiplication(pages: Sequence[Sequence[Row]]) -> list[Stretch]:
    """Return the table whose rows multiply, by page; empty if fewer than two rows share columns."""
    every = (found for rows in pages for row in rows if not is_aside(row) for found in _products(row))
    products = list(islice(every, _MOST_PRODUCTS))
    best: list[_Product] = []
    for one in products:
        alike = _alike(one, products)
        if len(alike) > len(best):
            best = alike
    if len(best) < 2 or not any(found.is_telling for found in best):
        return []
    columns = _columns(best)
    stretches = []
    for rows in pages:
        own = [found.row for found in best if rows and found.row.page == rows[0].page]
        if own:
            top = min(row.top for row in own)
            below = tuple(row for row in rows if row.top >= top - 1)
            stretches.append(Stretch(own[0].page, Heading(columns, top - 1, top - 1), below))
    return stretches


def _products(row: Row) -> Iterator[_Product]:
    numbers = [token for token in row.tokens if token.value is not None and not token.is_percent][-_MAX_NUMBERS:]
    for quantity, price, net in permutations(numbers, 3):
        if not (quantity.value and price.value and net.value and net.left > max(quantity.right, price.right)):
            continue
        if "." not in str(net.value) or abs(quantity.value) == abs(price.value) == 1:
            continue
        # The quantity is the factor with fewer decimals, or the first one.
        is_swapped = _places(quantity) > _places(price) or (
            _places(quantity) == _places(price) and quantity.left > price.left
        )
        if not is_swapped and totals.line_agrees(quantity.value, price.value, net.value):
            yield _Product(row, quantity, price, net, Decimal(1) not in {quantity.value, price.value})


def _places(token: Token) -> int:
    exponent = (token.value or Decimal(0)).as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _alike(one: _Product, products: Sequence[_Product]) -> list[_Product]:
    """Return the rows with numbers in the same columns, one each."""
    alike: dict[int, _Product] = {}
    for other in products:
        pairs = ((one.net, other.net), (one.price, other.price), (one.quantity, other.quantity))
        if all(_stand_alike(a, b) for a, b in pairs):
            alike.setdefault(id(other.row), other)
    return list(alike.values())


def _stand_alike(a: Token, b: Token) -> bool:
    return (
        abs(a.right - b.right) <= _ALIGNED
        or abs(a.left - b.left) <= _ALIGNED
        or abs(a.left + a.right - b.left - b.right) <= 2 * _ALIGNED
    )


def _columns(found: Sequence[_Product]) -> tuple[Column, ...]:
    """Return columns for the numbers, for tax rates, and for the words before them."""
    columns = [
        _column(Kind.QUANTITY, [one.quantity for one in found]),
        _column(Kind.PRICE, [one.price for one in found]),
        _column(Kind.NET, [one.net for one in found]),
    ]
    rates = [token for one in found for token in one.row.tokens if token.is_percent]
    if len(rates) == len(found) and all(_stand_alike(rates[0], rate) for rate in rates):
        columns.append(_column(Kind.TAX_RATE, rates))
    taken = {token for one in found for token in (one.quantity, one.price, one.net)} | set(rates)
    runs = [_runs([token for token in one.row.tokens if token not in taken]) for one in found]
    named = max((run for own in runs for run in own), key=lambda run: run[-1].right - run[0].left, default=None)
    if named is not None:
        alike = [run for own in runs for run in own if abs(run[0].left - named[0].left) <= _SAME_EDGE]
        columns.append(_column(Kind.DESCRIPTION, [token for run in alike for token in run]))
        first = [own[0] for own in runs if own and own[0][-1].right < named[0].left]
        if len(first) == len(found) and _are_positions([run[0].text for run in first]):
            columns.append(_column(Kind.POSITION, [token for run in first for token in run]))
            second = [own[1] for own in runs if len(own) > 2 and own[1][-1].right < named[0].left]
        else:
            second = first
        if second and all(any(map(str.isdigit, run[0].text)) for run in second):
            columns.append(_column(Kind.ARTICLE, [token for run in second for token in run]))
    return tuple(sorted(columns, key=lambda column: column.left))


def _are_positions(texts: Sequence[str]) -> bool:
    """Return whether words number line items: 1, 2, 3 or 10, 20, 30."""
    if not all(is_position(text) and text.strip(".").isdecimal() for text in texts):
        return False
    numbers = [int(text.strip(".")) for text in texts]
    return numbers[0] <= _FIRST_POSITION and len({b - a for a, b in pairwise(numbers)}) == 1


def _column(kind: Kind, tokens: Sequence[Token]) -> Column:
    left, right = min(token.left for token in tokens), max(token.right for token in tokens)
    return Column(left, right, ((kind,),))


def _runs(tokens: Sequence[Token]) -> list[list[Token]]:
    runs: list[list[Token]] = []
    for token in tokens:
        if runs and token.left - runs[-1][-1].right <= 0.9 * (token.bottom - token.top):
            runs[-1].append(token)
        else:
            runs.append([token])
    return runs


def lines_by_addition(rows: Sequence[Row]) -> list[tuple[str, Token, Row]]:
    """Return rows of words and one amount each that add up to the row below: words, amount, row.

    Sums, taxes and rows after a table are excluded. Requires two rows with an amount, or a row below that is labeled as
    a sum.
    """
    for index, row in enumerate(rows):
        total = _amount(row)
        if total is None or index == 0:
            continue
        found: list[tuple[str, Token, Row]] = []
        for other in reversed(rows[:index]):
            below = found[-1][2] if found else row
            amount = _amount(other)
            if amount is None or below.top - other.bottom > _NEAR * other.height or other.page != row.page:
                break
            if is_aside(other) or not _stand_alike(amount, total):
                break
            found.append((_words(other), amount, other))
        amounts = [amount.value or Decimal(0) for _, amount, _ in found]
        telling = sum(1 for amount in amounts if amount)
        is_rollup = is_total(row.label) and not is_section(row.label)
        if (telling >= 2 or (is_rollup and found and telling)) and sum(amounts, Decimal(0)) == total.value:
            return found[::-1]
    return []


def _amount(row: Row) -> Token | None:
    """Return the only amount, at the end of a row after words; None for other rows."""
    last = row.tokens[-1]
    if last.value is None or last.is_percent or "." not in str(last.value) or len(row.tokens) < 2:
        return None
    before = row.tokens[-2]
    return last if before.value is None or last.left - before.right > row.height else None


def _words(row: Row) -> str:
    return " ".join(token.text for token in row.tokens[:-1])


_MARGIN = 0.14
"""Share of the page height with running titles and page numbers, at top and bottom."""
_PAGE_NUMBER = re.compile(
    r"\b(?:seite|page|pagina|página|blad|blatt|side|p\.)\s*:?\s*\d+|^\W*\d+\s*(?:/|von|of|de|di|van|af)\s*\d+\W*$|^\W*\d+\W*$",
    re.IGNORECASE,
)
_MOST_ROWS = 400
_MOST_WORDS = 150
_LONGEST_WORD = 200
"""Limits per page, per row and per word. Documents for people do not exceed them."""
_PAGES_WEIGHED = 3
"""Number of pages on which the interpretation of a heading is decided."""
_WITH_TAX = frozenset({"net_amount", "unit_price", "price_basis_quantity"})
_TAX_CODES = frozenset(map(Decimal, (1, 2, 3)))
_PERCENT = 0.9
"""Numbers in a tax column that may be tax codes, and the minimum confidence in a rate with a percent sign."""
_SUMMED = 0.97
_ADDED = 0.75
_TABLED = 0.6
"""Confidence of the amount of a line item in a stated sum, of one known only from a sum, and of a charge in a table."""


@dataclass(frozen=True)
class LineItem:
    """A line item: its fields by structured data names, their evidence, and its position.

    Pages count from 1. `box` is left, top, right and bottom of its text in points.
    """

    fields: dict[str, str]
    evidence: dict[str, Evidence]
    page: int
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Lines:
    """Line items of a document in page order; empty if no table was found.

    `net` is the sum of their net amounts, None if one is missing. `proven` is true if a page states this sum.
    """

    items: tuple[LineItem, ...] = ()
    net: Decimal | None = None
    proven: bool = False


def read_lines(
    pages: Sequence[Page],
    *,
    is_credit_note: bool = False,
    total_net: Decimal | None = None,
    total_gross: Decimal | None = None,
) -> Lines:
    """Read the line items of a document, with the evidence for each field.

    Discounts and charges of the whole document become line items with a description and an amount; discounts are
    negative. Amounts of a credit note are positive, as in e-invoices, even if printed as negative. The document's
    totals show whether line amounts include tax. Such amounts are omitted along with their prices, because they are not
    net amounts. Ambiguous values are omitted. Never raises because of page content.
    """
    pages = [_readable(page) for page in pages]
    form = number_format(word for page in pages for word in page.words)
    rows = [_rows(number, page, form) for number, page in enumerate(pages, start=1)]
    tables = list(_tables(pages, rows, _running(pages, rows)))
    priced = [table for table in tables if table[0].heading.has_prices]
    items = [item for table in priced or tables for item in _read(table, form)]
    if not items and (stretches := lines_by_multiplication(rows)):
        items = _read(stretches, form)
    count_pieces([found for _, found in items])
    lines = _settled(items, rows, is_credit_note=is_credit_note) if items else _added(rows)
    if lines.net is not None and lines.net == total_gross != total_net and total_net is not None:
        return _without_amounts(lines)
    return lines


def _readable(page: Page) -> Page:
    """Return the page without overlong words."""
    words = tuple(word for word in page.words if len(word.text) <= _LONGEST_WORD)
    return page if len(words) == len(page.words) else Page(page.width, page.height, words)


def _rows(number: int, page: Page, form: NumberFormat) -> list[Row]:
    rows = (Row(number, tuple(read_tokens(line.words[:_MOST_WORDS], form))) for line in page.lines()[:_MOST_ROWS])
    return [row for row in rows if row.tokens]


def _running(pages: Sequence[Page], rows: Sequence[Sequence[Row]]) -> set[tuple[int, int]]:
    """Return repeated titles and page numbers at page edges, as (page, index of the row).

    Only page numbers may differ, because rows of a table that differ in a single number may be at the same position
    too.
    """
    places: dict[tuple[str, int], set[int]] = {}
    at: dict[tuple[int, int], tuple[str, int]] = {}
    for page, own in zip(pages, rows, strict=True):
        for index, row in enumerate(own):
            if row.bottom < _MARGIN * page.height or row.top > (1 - _MARGIN) * page.height:
                text = " ".join(token.text for token in row.tokens)
                if _PAGE_NUMBER.search(text):
                    text = re.sub(r"\d+", "0", text)
                key = (text, round(row.top / 4))
                at[row.page, index] = key
                places.setdefault(key, set()).add(row.page)
    return {place for place, key in at.items() if len(places[key]) > 1}


def _tables(
    pages: Sequence[Page], rows: Sequence[Sequence[Row]], running: set[tuple[int, int]]
) -> Iterator[list[Stretch]]:
    """Yield the tables of line items, split by page: from a heading to the next one or the end."""
    table: list[Stretch] = []
    for number, page in enumerate(pages, start=1):
        own = [row for index, row in enumerate(rows[number - 1]) if (number, index) not in running]
        found = list(headings(page.lines()))
        first = found[0].top if found else float("inf")
        goes_on = bool(table) and not (found and _is_same(table[-1].heading, found[0]))
        above = _below_carried([row for row in own if row.bottom <= first + 1], page) if goes_on else ()
        if above:
            table.append(Stretch(number, table[-1].heading, above))
        for index, heading in enumerate(found):
            last = found[index + 1].top if index + 1 < len(found) else float("inf")
            below = tuple(row for row in own if row.top >= heading.bottom - 2 and row.bottom <= last + 1)
            if table and _is_same(table[-1].heading, heading):
                table.append(Stretch(number, heading, below))
                continue
            if table and not (heading.is_of_goods and not heading.has_prices and table[-1].heading.has_prices):
                yield table
                table = []
            elif table:
                # A parts list within a line item has its own heading, after which the table continues.
                table.append(Stretch(number, table[-1].heading, ()))
                continue
            if heading.is_of_goods:
                table = [Stretch(number, heading, below)]
    if table:
        yield table


def _below_carried(rows: Sequence[Row], page: Page) -> tuple[Row, ...]:
    """Return the rows below a sum carried over from the previous page, without the page header above."""
    carried = [row.bottom for row in rows if is_carried(row.label) and row.bottom < page.height / 2]
    return tuple(row for row in rows if not carried or row.top >= carried[0] - 1)


def _is_same(a: Heading, b: Heading) -> bool:
    return a.kinds == b.kinds


def _read(table: Sequence[Stretch], form: NumberFormat) -> list[tuple[RawLine, LineFields]]:
    """Read a table with the interpretation of its heading that arithmetic supports best."""
    readings = list(table[0].heading.readings())
    if len(readings) == 1:
        return _read_as(table, readings[0], form)
    scores = []
    for number, reading in enumerate(readings):
        items = _read_as(table[:_PAGES_WEIGHED], reading, form)
        scores.append(100 * sum(_worth(found) for _, found in items) + 10 * _counted(items) - number)
    return _read_as(table, readings[scores.index(max(scores))], form)


def _read_as(table: Sequence[Stretch], reading: Heading, form: NumberFormat) -> list[tuple[RawLine, LineFields]]:
    lines = split_rows([_understood(stretch, reading) for stretch in table])
    collapsed = is_collapsed(lines, reading)
    items = ((line, read_fields(line, reading, form, collapsed=collapsed)) for line in lines)
    return [(line, found) for line, found in items if _is_line(line, found)]


def _understood(stretch: Stretch, reading: Heading) -> Stretch:
    """Return a page of a table with its heading interpreted as on the first page."""
    kinds = iter(name for column in reading.columns for name in column.names)
    if len(stretch.heading.columns) != len(reading.columns):
        return Stretch(stretch.page, reading, stretch.rows)
    columns = tuple(
        replace(column, names=tuple(next(kinds) for _ in column.names)) for column in stretch.heading.columns
    )
    return Stretch(stretch.page, Heading(columns, stretch.heading.top, stretch.heading.bottom), stretch.rows)


def _worth(found: LineFields) -> int:
    """Return a score for how much of a line item was read and proven."""
    has_word = re.search(r"\b[^\W\d_]{3,}\b", found.fields.get("description", "")) is not None
    return len(found.fields) + has_word + 3 * sum(1 for confidence in found.confidence.values() if confidence > 0.95)


def _counted(items: Sequence[tuple[RawLine, LineFields]]) -> int:
    """Return how many positions exceed the previous one. Real positions increase from a small number."""
    positions = [found.fields.get("position", "") for _, found in items]
    if positions and positions[0].isdecimal() and int(positions[0]) > _FIRST_POSITION:
        return -len(positions)
    return sum(1 for a, b in pairwise(positions) if a.isdecimal() and b.isdecimal() and int(a) < int(b))


def _is_line(line: RawLine, found: LineFields) -> bool:
    """Return whether a row is a line item. Below a sum, arithmetic must prove it.

    A line item has a name or a quantity.
    """
    names = {"description", "article_number", "buyer_article_number"} & found.fields.keys()
    counts = {"quantity", "net_amount"} & found.fields.keys()
    if line.closed:
        return bool(names) and found.confidence.get("quantity", 0.0) > 0.95
    is_doubtful = any(token.is_doubtful for token in line.values.values())
    return (bool(counts) and (bool(names) or len(found.fields) > 2)) or (is_doubtful and bool(names))


def _added(rows: Sequence[Sequence[Row]]) -> Lines:
    """Return line items of a document without a heading: words and amounts that add up to a sum below."""
    found = [one for page in rows for one in lines_by_addition(page)]
    items = []
    for words, amount, row in found:
        line = RawLine(row.page, row.top, {Kind.NET: amount})
        item = LineFields()
        item.put("description", words, _ADDED)
        item.put("net_amount", plain(amount.value or Decimal(0)), _ADDED)
        items.append(_item(line, item, "sum"))
    return Lines(tuple(items), _sum(items), proven=bool(items))


def _settled(
    items: Sequence[tuple[RawLine, LineFields]], rows: Sequence[Sequence[Row]], *, is_credit_note: bool
) -> Lines:
    """Choose the line items and charges that add up to a stated sum, and rate their confidence."""
    used = {(line.page, token) for line, _ in items for token in line.values.values()}
    used |= {
        (piece.page, token)
        for line, _ in items
        for pieces in line.cells.values()
        for piece in pieces
        for token in piece.tokens
    }
    start = (items[0][0].page, items[0][0].top)
    rest = [
        row
        for page in rows
        for row in page
        if (row.page, row.top) >= start and not any((row.page, token) in used for token in row.tokens)
    ]
    net = next((line.values[Kind.NET] for line, _ in items if Kind.NET in line.values), None)
    billed = [charge for charge in charges(rest, None if net is None else net.right) if net is not None]
    stated = frozenset(
        token.value for row in rest for token in row.tokens if token.value is not None and "." in str(token.value)
    )
    nets = [fields.number("net_amount") for _, fields in items]
    weak = [fields.number("quantity") is None and fields.number("unit_price") is None for _, fields in items]
    settlement = settle(nets, weak, billed, stated)
    lines = [items[index] for index in settlement.lines]
    apart = [pair for pair in settlement.charges if not _is_taken_up(*pair, lines)]
    found = [fields for _, fields in lines]
    _put_rates(found, [amount for _, amount in apart], rest)
    if is_credit_note and not apart:
        credit(found)
    kept = [_item(line, fields, "table") for line, fields in lines]
    kept += [_charged(charge, amount, is_proven=settlement.is_proven) for charge, amount in apart]
    if settlement.is_proven:
        kept = [_proven(item) for item in kept]
    return Lines(tuple(kept), _sum(kept), settlement.is_proven)


def _is_taken_up(charge: Charge, amount: Decimal, lines: Sequence[tuple[RawLine, LineFields]]) -> bool:
    """Add a discount to the line item above it if another one follows. Return True if added."""
    place = charge.row.page, charge.row.top
    above = [found for line, found in lines if (line.page, line.top) < place]
    if charge.is_tabled or not above or len(above) == len(lines) or (net := above[-1].number("net_amount")) is None:
        return False
    above[-1].fields["net_amount"] = plain(net + amount)
    above[-1].sources["net_amount"] = "arithmetic"
    return True


def _put_rates(lines: Sequence[LineFields], charged: Sequence[Decimal], rows: Sequence[Row]) -> None:
    """Set the tax rates that line items do not state, from the taxes of the document."""
    _put_rates_of_codes(lines, rows)
    if any("tax_rate" in found.fields for found in lines):
        return
    nets = [*(found.number("net_amount") for found in lines), *charged]
    for found, rate in zip(lines, tax_rates(rows, nets), strict=False):
        found.put("tax_rate", None if rate is None else plain(rate), _TABLED, "taxes")


def _put_rates_of_codes(lines: Sequence[LineFields], rows: Sequence[Row]) -> None:
    """Replace tax codes by the rates in a table of taxes.

    Without one, omit values that cannot be rates.
    """
    coded = [
        found
        for found in lines
        if found.confidence.get("tax_rate", 1.0) < _PERCENT and found.number("tax_rate") in _TAX_CODES
    ]
    codes = tax_codes(rows) if coded else {}
    for found in coded:
        rate = codes.get(found.number("tax_rate") or Decimal(0))
        for part in (found.fields, found.confidence, found.sources):
            part.pop("tax_rate", None)
        found.put("tax_rate", None if rate is None else plain(rate), _TABLED, "taxes")


def _without_amounts(lines: Lines) -> Lines:
    """Return line items without amounts and prices, because these include tax."""
    items = []
    for item in lines.items:
        fields = {name: text for name, text in item.fields.items() if name not in _WITH_TAX}
        evidence = {name: item.evidence[name] for name in fields}
        items.append(LineItem(fields, evidence, item.page, item.box))
    return Lines(tuple(items))


def _sum(items: Sequence[LineItem]) -> Decimal | None:
    amounts = [item.fields.get("net_amount") for item in items]
    return sum((Decimal(amount) for amount in amounts if amount), Decimal(0)) if items and all(amounts) else None


def _charged(charge: Charge, amount: Decimal, *, is_proven: bool) -> LineItem:
    confidence = _ADDED if is_proven else _TABLED
    found = LineFields()
    found.put("description", charge.description, confidence)
    found.put("net_amount", plain(amount), confidence)
    line = RawLine(charge.row.page, charge.row.top, {Kind.NET: charge.token})
    return _item(line, found, "charge")


def _proven(item: LineItem) -> LineItem:
    """Return a line item of a stated sum with higher confidence, unless its own numbers contradict it."""
    amount = item.evidence.get("net_amount")
    if amount is None or amount.confidence < _TABLED:
        return item
    sure = Evidence(amount.source, max(amount.confidence, _SUMMED), amount.page)
    return LineItem(item.fields, {**item.evidence, "net_amount": sure}, item.page, item.box)


def _item(line: RawLine, found: LineFields, source: str) -> LineItem:
    evidence = {
        name: Evidence(found.sources.get(name, source), found.confidence[name], line.page) for name in found.fields
    }
    words = list(line.values.values())
    words += [
        token for pieces in line.cells.values() for piece in pieces if piece.page == line.page for token in piece.tokens
    ]
    box = (
        min(word.left for word in words),
        min(word.top for word in words),
        max(word.right for word in words),
        max(word.bottom for word in words),
    )
    return LineItem(found.fields, evidence, line.page, box)
