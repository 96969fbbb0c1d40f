"""Reads line items from a document's pages. Pure.

Tables are found by their headings, and read by the positions of the words below. If there is no heading, arithmetic
identifies the line items: rows with quantity * price = amount in the same columns, or rows with one amount each that
add up to the row below. Values proven by such products and sums have a higher confidence than stated values.
Contradicted values have a low confidence. Values that the document neither states nor implies are omitted.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice, pairwise, permutations

from counterfoil.documents.text import totals
from counterfoil.documents.text.page import Evidence, Page
from counterfoil.documents.text.table_fields import (
    LineFields,
    count_pieces,
    format_number,
    is_collapsed,
    make_positive,
    read_fields,
)
from counterfoil.documents.text.table_headings import Column, Heading, Kind, headings, is_carried, is_section, is_total
from counterfoil.documents.text.table_layout import (
    NumberFormat,
    RawLine,
    Row,
    Stretch,
    Token,
    is_position,
    is_sum_or_title,
    number_format,
    read_tokens,
    split_rows,
)
from counterfoil.documents.text.totals import Charge, charges, reconcile, tax_codes, tax_rates

_ALIGNED = 5.0
_SAME_EDGE = 4.0
_NEAR = 1.6
"""Alignment tolerances in points, and the maximum gap in text heights between rows that are added up."""
_MAX_NUMBERS = 6
_MOST_PRODUCTS = 1000
_FIRST_POSITION = 100
"""Maximum position number of a table's first line item."""


@dataclass(frozen=True)
class _Product:
    """A row with two factors and their product.

    `is_telling` is true if neither factor is 1.
    """

    row: Row
    quantity: Token
    price: Token
    net: Token
    is_telling: bool


def lines_by_multiplication(pages: Sequence[Sequence[Row]]) -> list[Stretch]:
    """Return the table in which quantity times price equals the amount, by page.

    The result is empty if fewer than two rows share columns, or if every row has a factor of 1.
    """
    candidates = (product for rows in pages for row in rows if not is_sum_or_title(row) for product in _products(row))
    products = list(islice(candidates, _MOST_PRODUCTS))
    best: list[_Product] = []
    for product in products:
        aligned = _aligned_products(product, products)
        if len(aligned) > len(best):
            best = aligned
    if len(best) < 2 or not any(product.is_telling for product in best):
        return []
    columns = _columns(best)
    stretches = []
    for rows in pages:
        page_rows = [product.row for product in best if rows and product.row.page == rows[0].page]
        if page_rows:
            top = min(row.top for row in page_rows)
            rows_below = tuple(row for row in rows if row.top >= top - 1)
            stretches.append(Stretch(page_rows[0].page, Heading(columns, top - 1, top - 1), rows_below))
    return stretches


def _products(row: Row) -> Iterator[_Product]:
    numbers = [token for token in row.tokens if token.value is not None and not token.is_percent][-_MAX_NUMBERS:]
    for quantity, price, net in permutations(numbers, 3):
        if not (quantity.value and price.value and net.value and net.left > max(quantity.right, price.right)):
            continue
        if "." not in str(net.value) or abs(quantity.value) == abs(price.value) == 1:
            continue
        # The quantity is the factor with fewer decimal places, or the first factor.
        is_swapped = _decimal_places(quantity) > _decimal_places(price) or (
            _decimal_places(quantity) == _decimal_places(price) and quantity.left > price.left
        )
        if not is_swapped and totals.line_agrees(quantity.value, price.value, net.value):
            yield _Product(row, quantity, price, net, Decimal(1) not in {quantity.value, price.value})


def _decimal_places(token: Token) -> int:
    exponent = (token.value or Decimal(0)).as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _aligned_products(product: _Product, products: Sequence[_Product]) -> list[_Product]:
    """Return the products whose numbers are in the same columns, at most one per row."""
    by_row: dict[int, _Product] = {}
    for other in products:
        pairs = ((product.net, other.net), (product.price, other.price), (product.quantity, other.quantity))
        if all(_are_aligned(a, b) for a, b in pairs):
            by_row.setdefault(id(other.row), other)
    return list(by_row.values())


def _are_aligned(a: Token, b: Token) -> bool:
    return (
        abs(a.right - b.right) <= _ALIGNED
        or abs(a.left - b.left) <= _ALIGNED
        or abs(a.left + a.right - b.left - b.right) <= 2 * _ALIGNED
    )


def _columns(products: Sequence[_Product]) -> tuple[Column, ...]:
    """Return the columns of a table found by its products.

    Besides the products' numbers, rows may have tax rates, descriptions, positions and article numbers.
    """
    columns = [
        _column(Kind.QUANTITY, [product.quantity for product in products]),
        _column(Kind.PRICE, [product.price for product in products]),
        _column(Kind.NET, [product.net for product in products]),
    ]
    rates = [token for product in products for token in product.row.tokens if token.is_percent]
    if len(rates) == len(products) and all(_are_aligned(rates[0], rate) for rate in rates):
        columns.append(_column(Kind.TAX_RATE, rates))
    number_tokens = {token for product in products for token in (product.quantity, product.price, product.net)} | set(
        rates
    )
    runs = [_runs([token for token in product.row.tokens if token not in number_tokens]) for product in products]
    widest_run = max(
        (run for row_runs in runs for run in row_runs), key=lambda run: run[-1].right - run[0].left, default=None
    )
    if widest_run is not None:
        aligned = [run for row_runs in runs for run in row_runs if abs(run[0].left - widest_run[0].left) <= _SAME_EDGE]
        columns.append(_column(Kind.DESCRIPTION, [token for run in aligned for token in run]))
        first_runs = [row_runs[0] for row_runs in runs if row_runs and row_runs[0][-1].right < widest_run[0].left]
        if len(first_runs) == len(products) and _are_positions([run[0].text for run in first_runs]):
            columns.append(_column(Kind.POSITION, [token for run in first_runs for token in run]))
            second_runs = [
                row_runs[1] for row_runs in runs if len(row_runs) > 2 and row_runs[1][-1].right < widest_run[0].left
            ]
        else:
            second_runs = first_runs
        if second_runs and all(any(map(str.isdigit, run[0].text)) for run in second_runs):
            columns.append(_column(Kind.ARTICLE, [token for run in second_runs for token in run]))
    return tuple(sorted(columns, key=lambda column: column.left))


def _are_positions(texts: Sequence[str]) -> bool:
    """Return whether words are consecutive position numbers: 1, 2, 3 or 10, 20, 30."""
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
    """Return rows with one amount each that add up to the row below.

    Each result has the form (words, amount, row). Sums, taxes and rows after a table are excluded. Requires two amounts
    other than zero, or one if the row below is labeled as a sum.
    """
    for index, row in enumerate(rows):
        total = _amount(row)
        if total is None or index == 0:
            continue
        items: list[tuple[str, Token, Row]] = []
        for other in reversed(rows[:index]):
            row_below = items[-1][2] if items else row
            amount = _amount(other)
            if amount is None or row_below.top - other.bottom > _NEAR * other.height or other.page != row.page:
                break
            if is_sum_or_title(other) or not _are_aligned(amount, total):
                break
            items.append((_words(other), amount, other))
        amounts = [amount.value or Decimal(0) for _, amount, _ in items]
        nonzero_count = sum(1 for amount in amounts if amount)
        is_rollup = is_total(row.label) and not is_section(row.label)
        if (nonzero_count >= 2 or (is_rollup and items and nonzero_count)) and sum(amounts, Decimal(0)) == total.value:
            return items[::-1]
    return []


def _amount(row: Row) -> Token | None:
    """Return the amount that ends a row after words or a wide gap, if any."""
    last = row.tokens[-1]
    if last.value is None or last.is_percent or "." not in str(last.value) or len(row.tokens) < 2:
        return None
    previous = row.tokens[-2]
    return last if previous.value is None or last.left - previous.right > row.height else None


def _words(row: Row) -> str:
    return " ".join(token.text for token in row.tokens[:-1])


_MARGIN = 0.14
"""Height of the margins with running titles and page numbers, as a share of the page height."""
_PAGE_NUMBER = re.compile(
    r"\b(?:seite|page|pagina|página|blad|blatt|side|p\.)\s*:?\s*\d+|^\W*\d+\s*(?:/|von|of|de|di|van|af)\s*\d+\W*$|^\W*\d+\W*$",
    re.IGNORECASE,
)
_MOST_ROWS = 400
_MOST_WORDS = 150
_LONGEST_WORD = 200
"""Maximum rows per page, words per row and characters per word. Real documents have fewer."""
_PAGES_WEIGHED = 3
"""Number of a table's pages that decide the interpretation of its heading."""
_WITH_TAX = frozenset({"net_amount", "unit_price", "price_basis_quantity"})
_TAX_CODES = frozenset(map(Decimal, (1, 2, 3)))
_PERCENT = 0.9
"""Numbers in a tax column that may be tax codes, and the confidence below which a rate may be one."""
_IN_SUM = 0.97
_FROM_SUM = 0.75
_FROM_TABLE = 0.6
"""Confidence in an amount that is part of a stated sum, in an amount found only by its sum, and in a value from a tax
or charge table."""


@dataclass(frozen=True)
class LineItem:
    """A line item with its fields, evidence and position.

    `fields` uses the names of structured data. Pages count from 1. `box` is the left, top, right and bottom edge of its
    text in points.
    """

    fields: dict[str, str]
    evidence: dict[str, Evidence]
    page: int
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Lines:
    """A document's line items in page order; empty if no table was found.

    `net` is the sum of the net amounts, or None if an amount is missing. `is_proven` is true if a page states this sum.
    """

    items: tuple[LineItem, ...] = ()
    net: Decimal | None = None
    is_proven: bool = False


def read_lines(
    pages: Sequence[Page],
    *,
    is_credit_note: bool = False,
    total_net: Decimal | None = None,
    total_gross: Decimal | None = None,
) -> Lines:
    """Read a document's line items, with the evidence for each field.

    Document-level discounts and charges become line items with a description and an amount; discounts are negative. A
    credit note's amounts are positive, as in e-invoices, even if printed as negative. `total_net` and `total_gross`
    show whether line amounts include tax. Such amounts are omitted along with their prices, because they are not net
    amounts. Ambiguous values are omitted. Page content never causes an exception.
    """
    pages = [_drop_long_words(page) for page in pages]
    form = number_format(word for page in pages for word in page.words)
    rows = [_rows(number, page, form) for number, page in enumerate(pages, start=1)]
    tables = list(_tables(pages, rows, _running_rows(pages, rows)))
    priced_tables = [table for table in tables if table[0].heading.has_prices]
    items = [item for table in priced_tables or tables for item in _read_table(table, form)]
    if not items and (stretches := lines_by_multiplication(rows)):
        items = _read_table(stretches, form)
    count_pieces([fields for _, fields in items])
    lines = _reconcile(items, rows, is_credit_note=is_credit_note) if items else _lines_of_sum(rows)
    if lines.net is not None and lines.net == total_gross != total_net and total_net is not None:
        return _without_amounts(lines)
    return lines


def _drop_long_words(page: Page) -> Page:
    """Return the page without words of more than 200 characters."""
    words = tuple(word for word in page.words if len(word.text) <= _LONGEST_WORD)
    return page if len(words) == len(page.words) else Page(page.width, page.height, words)


def _rows(number: int, page: Page, form: NumberFormat) -> list[Row]:
    rows = (Row(number, tuple(read_tokens(line.words[:_MOST_WORDS], form))) for line in page.lines()[:_MOST_ROWS])
    return [row for row in rows if row.tokens]


def _running_rows(pages: Sequence[Page], rows: Sequence[Sequence[Row]]) -> set[tuple[int, int]]:
    """Return running titles and page numbers at the page edges, as (page, row index).

    Their text is the same on several pages, except for page numbers. Other numbers must not differ, because table rows
    at the same position may also differ only in a number.
    """
    pages_by_key: dict[tuple[str, int], set[int]] = {}
    keys: dict[tuple[int, int], tuple[str, int]] = {}
    for page, page_rows in zip(pages, rows, strict=True):
        for index, row in enumerate(page_rows):
            if row.bottom < _MARGIN * page.height or row.top > (1 - _MARGIN) * page.height:
                text = " ".join(token.text for token in row.tokens)
                if _PAGE_NUMBER.search(text):
                    text = re.sub(r"\d+", "0", text)
                key = (text, round(row.top / 4))
                keys[row.page, index] = key
                pages_by_key.setdefault(key, set()).add(row.page)
    return {position for position, key in keys.items() if len(pages_by_key[key]) > 1}


def _tables(
    pages: Sequence[Page], rows: Sequence[Sequence[Row]], running: set[tuple[int, int]]
) -> Iterator[list[Stretch]]:
    """Yield the line item tables, split by page.

    Each ends at the next table or the document's end.
    """
    table: list[Stretch] = []
    for number, page in enumerate(pages, start=1):
        page_rows = [row for index, row in enumerate(rows[number - 1]) if (number, index) not in running]
        page_headings = list(headings(page.lines()))
        first_top = page_headings[0].top if page_headings else float("inf")
        continues = bool(table) and not (page_headings and _is_same(table[-1].heading, page_headings[0]))
        rows_above = (
            _rows_below_carried([row for row in page_rows if row.bottom <= first_top + 1], page) if continues else ()
        )
        if rows_above:
            table.append(Stretch(number, table[-1].heading, rows_above))
        for index, heading in enumerate(page_headings):
            next_top = page_headings[index + 1].top if index + 1 < len(page_headings) else float("inf")
            rows_below = tuple(row for row in page_rows if row.top >= heading.bottom - 2 and row.bottom <= next_top + 1)
            if table and _is_same(table[-1].heading, heading):
                table.append(Stretch(number, heading, rows_below))
                continue
            if table and not (heading.is_of_goods and not heading.has_prices and table[-1].heading.has_prices):
                yield table
                table = []
            elif table:
                # A parts list within a line item has its own heading, after which the table continues.
                table.append(Stretch(number, table[-1].heading, ()))
                continue
            if heading.is_of_goods:
                table = [Stretch(number, heading, rows_below)]
    if table:
        yield table


def _rows_below_carried(rows: Sequence[Row], page: Page) -> tuple[Row, ...]:
    """Return the rows below a sum carried over from the previous page.

    Returns all rows if there is no carried sum.
    """
    carried = [row.bottom for row in rows if is_carried(row.label) and row.bottom < page.height / 2]
    return tuple(row for row in rows if not carried or row.top >= carried[0] - 1)


def _is_same(a: Heading, b: Heading) -> bool:
    return a.kinds == b.kinds


def _read_table(table: Sequence[Stretch], form: NumberFormat) -> list[tuple[RawLine, LineFields]]:
    """Read a table with the heading interpretation that arithmetic supports best."""
    readings = list(table[0].heading.readings())
    if len(readings) == 1:
        return _read_as(table, readings[0], form)
    scores = []
    for number, reading in enumerate(readings):
        items = _read_as(table[:_PAGES_WEIGHED], reading, form)
        scores.append(100 * sum(_score(item) for _, item in items) + 10 * _count_increasing(items) - number)
    return _read_as(table, readings[scores.index(max(scores))], form)


def _read_as(table: Sequence[Stretch], reading: Heading, form: NumberFormat) -> list[tuple[RawLine, LineFields]]:
    lines = split_rows([_apply_reading(stretch, reading) for stretch in table])
    collapsed = is_collapsed(lines, reading)
    items = ((line, read_fields(line, reading, form, collapsed=collapsed)) for line in lines)
    return [(line, item) for line, item in items if _is_line(line, item)]


def _apply_reading(stretch: Stretch, reading: Heading) -> Stretch:
    """Return a page of a table, with its heading interpreted as in `reading`.

    `reading` is the interpretation of the heading on the table's first page.
    """
    kinds = iter(name for column in reading.columns for name in column.names)
    if len(stretch.heading.columns) != len(reading.columns):
        return Stretch(stretch.page, reading, stretch.rows)
    columns = tuple(
        replace(column, names=tuple(next(kinds) for _ in column.names)) for column in stretch.heading.columns
    )
    return Stretch(stretch.page, Heading(columns, stretch.heading.top, stretch.heading.bottom), stretch.rows)


def _score(item: LineFields) -> int:
    """Return a score for the completeness of a line item.

    The score counts the fields, with more weight for those verified by arithmetic.
    """
    has_word = re.search(r"\b[^\W\d_]{3,}\b", item.fields.get("description", "")) is not None
    return len(item.fields) + has_word + 3 * sum(1 for confidence in item.confidence.values() if confidence > 0.95)


def _count_increasing(items: Sequence[tuple[RawLine, LineFields]]) -> int:
    """Return the number of position numbers that exceed the previous one.

    The result is negative if the first position number is too high.
    """
    positions = [item.fields.get("position", "") for _, item in items]
    if positions and positions[0].isdecimal() and int(positions[0]) > _FIRST_POSITION:
        return -len(positions)
    return sum(1 for a, b in pairwise(positions) if a.isdecimal() and b.isdecimal() and int(a) < int(b))


def _is_line(line: RawLine, item: LineFields) -> bool:
    """Return whether a row is a line item. Below a sum, arithmetic must prove it.

    A line item has a quantity or amount, and a name or several other fields. If a number is ambiguous, a name is
    enough.
    """
    names = {"description", "article_number", "buyer_article_number"} & item.fields.keys()
    counts = {"quantity", "net_amount"} & item.fields.keys()
    if line.is_below_sum:
        return bool(names) and item.confidence.get("quantity", 0.0) > 0.95
    is_ambiguous = any(token.is_ambiguous for token in line.values.values())
    return (bool(counts) and (bool(names) or len(item.fields) > 2)) or (is_ambiguous and bool(names))


def _lines_of_sum(rows: Sequence[Sequence[Row]]) -> Lines:
    """Return the rows that add up to the row below as line items.

    Documents without a table heading are read this way.
    """
    entries = [entry for page in rows for entry in lines_by_addition(page)]
    items = []
    for words, amount, row in entries:
        line = RawLine(row.page, row.top, {Kind.NET: amount})
        item = LineFields()
        item.put("description", words, _FROM_SUM)
        item.put("net_amount", format_number(amount.value or Decimal(0)), _FROM_SUM)
        items.append(_line_item(line, item, "sum"))
    return Lines(tuple(items), _sum(items), is_proven=bool(items))


def _reconcile(
    items: Sequence[tuple[RawLine, LineFields]], rows: Sequence[Sequence[Row]], *, is_credit_note: bool
) -> Lines:
    """Choose the line items and charges that add up to a stated sum.

    If such a sum exists, raise the confidence in the amounts.
    """
    used_tokens = {(line.page, token) for line, _ in items for token in line.values.values()}
    used_tokens |= {
        (piece.page, token)
        for line, _ in items
        for pieces in line.cells.values()
        for piece in pieces
        for token in piece.tokens
    }
    start = (items[0][0].page, items[0][0].top)
    remaining_rows = [
        row
        for page in rows
        for row in page
        if (row.page, row.top) >= start and not any((row.page, token) in used_tokens for token in row.tokens)
    ]
    net = next((line.values[Kind.NET] for line, _ in items if Kind.NET in line.values), None)
    candidate_charges = [
        charge for charge in charges(remaining_rows, None if net is None else net.right) if net is not None
    ]
    stated_amounts = frozenset(
        token.value
        for row in remaining_rows
        for token in row.tokens
        if token.value is not None and "." in str(token.value)
    )
    nets = [fields.number("net_amount") for _, fields in items]
    is_optional = [fields.number("quantity") is None and fields.number("unit_price") is None for _, fields in items]
    reconciliation = reconcile(nets, is_optional, candidate_charges, stated_amounts)
    lines = [items[index] for index in reconciliation.lines]
    separate_charges = [pair for pair in reconciliation.charges if not _add_to_line_above(*pair, lines)]
    line_fields = [fields for _, fields in lines]
    _put_rates(line_fields, [amount for _, amount in separate_charges], remaining_rows)
    if is_credit_note and not separate_charges:
        make_positive(line_fields)
    line_items = [_line_item(line, fields, "table") for line, fields in lines]
    line_items += [
        _charge_item(charge, amount, is_proven=reconciliation.is_proven) for charge, amount in separate_charges
    ]
    if reconciliation.is_proven:
        line_items = [_raise_confidence(item) for item in line_items]
    return Lines(tuple(line_items), _sum(line_items), reconciliation.is_proven)


def _add_to_line_above(charge: Charge, amount: Decimal, lines: Sequence[tuple[RawLine, LineFields]]) -> bool:
    """Add a charge's amount to the line item above if another line item follows.

    Return True if added.
    """
    position = charge.row.page, charge.row.top
    items_above = [item for line, item in lines if (line.page, line.top) < position]
    if (
        charge.is_in_table
        or not items_above
        or len(items_above) == len(lines)
        or (net := items_above[-1].number("net_amount")) is None
    ):
        return False
    items_above[-1].fields["net_amount"] = format_number(net + amount)
    items_above[-1].sources["net_amount"] = "arithmetic"
    return True


def _put_rates(lines: Sequence[LineFields], charge_amounts: Sequence[Decimal], rows: Sequence[Row]) -> None:
    """Set missing tax rates of line items from the document's stated taxes."""
    _put_rates_of_codes(lines, rows)
    if any("tax_rate" in item.fields for item in lines):
        return
    nets = [*(item.number("net_amount") for item in lines), *charge_amounts]
    for item, rate in zip(lines, tax_rates(rows, nets), strict=False):
        item.put("tax_rate", None if rate is None else format_number(rate), _FROM_TABLE, "taxes")


def _put_rates_of_codes(lines: Sequence[LineFields], rows: Sequence[Row]) -> None:
    """Replace tax codes with the rates from a tax table.

    Remove codes that no tax table explains.
    """
    coded_items = [
        item
        for item in lines
        if item.confidence.get("tax_rate", 1.0) < _PERCENT and item.number("tax_rate") in _TAX_CODES
    ]
    codes = tax_codes(rows) if coded_items else {}
    for item in coded_items:
        rate = codes.get(item.number("tax_rate") or Decimal(0))
        for part in (item.fields, item.confidence, item.sources):
            part.pop("tax_rate", None)
        item.put("tax_rate", None if rate is None else format_number(rate), _FROM_TABLE, "taxes")


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


def _charge_item(charge: Charge, amount: Decimal, *, is_proven: bool) -> LineItem:
    confidence = _FROM_SUM if is_proven else _FROM_TABLE
    item = LineFields()
    item.put("description", charge.description, confidence)
    item.put("net_amount", format_number(amount), confidence)
    line = RawLine(charge.row.page, charge.row.top, {Kind.NET: charge.token})
    return _line_item(line, item, "charge")


def _raise_confidence(item: LineItem) -> LineItem:
    """Return a line item with the confidence of an amount in a stated sum.

    The line item is unchanged if its own numbers contradict the amount.
    """
    amount = item.evidence.get("net_amount")
    if amount is None or amount.confidence < _FROM_TABLE:
        return item
    evidence = Evidence(amount.source, max(amount.confidence, _IN_SUM), amount.page)
    return LineItem(item.fields, {**item.evidence, "net_amount": evidence}, item.page, item.box)


def _line_item(line: RawLine, line_fields: LineFields, source: str) -> LineItem:
    evidence = {
        name: Evidence(line_fields.sources.get(name, source), line_fields.confidence[name], line.page)
        for name in line_fields.fields
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
    return LineItem(line_fields.fields, evidence, line.page, box)
