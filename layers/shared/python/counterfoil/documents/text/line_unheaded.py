"""Finds lines of goods that have no heading above them, where arithmetic shows what their numbers are. Pure.

Rows whose numbers multiply (quantity x price = amount) in the same columns are a table; so are rows with an amount each
that add up to the row below.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, pairwise, permutations

from counterfoil.documents.text import arithmetic
from counterfoil.documents.text.line_columns import Column, Heading
from counterfoil.documents.text.line_numbers import Token
from counterfoil.documents.text.line_rows import Row, Stretch, is_aside, is_position
from counterfoil.documents.text.line_vocabulary import Kind, is_section, is_total

_ALIGNED = 5.0
_SAME_EDGE = 4.0
_NEAR = 1.6
"""Points; points; of the text's height, the blank between rows that are added up."""
_MAX_NUMBERS = 6
_MOST_PRODUCTS = 1000
_FIRST_POSITION = 100


@dataclass(frozen=True)
class _Product:
    """A row in which two numbers multiply to a third; `is_telling` where neither of them is one or zero."""

    row: Row
    quantity: Token
    price: Token
    net: Token
    is_telling: bool


def multiplied(pages: Sequence[Sequence[Row]]) -> list[Stretch]:
    """The table whose rows multiply, a stretch a page: two rows at least in the same columns; empty where none is."""
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
        # Of two factors the quantity is the one with fewer decimals, or the one that stands first.
        is_swapped = _places(quantity) > _places(price) or (
            _places(quantity) == _places(price) and quantity.left > price.left
        )
        if not is_swapped and arithmetic.line_agrees(quantity.value, price.value, net.value):
            yield _Product(row, quantity, price, net, Decimal(1) not in {quantity.value, price.value})


def _places(token: Token) -> int:
    exponent = (token.value or Decimal(0)).as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def _alike(one: _Product, products: Sequence[_Product]) -> list[_Product]:
    """The rows whose numbers stand in the same columns, one a row."""
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
    """Columns as a heading would name them: of the numbers, of tax rates, and of the words before them."""
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
    """Tell whether words count lines: 1, 2, 3 or 10, 20, 30."""
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


def added(rows: Sequence[Row]) -> list[tuple[str, Token, Row]]:
    """Rows of words and one amount each that add up to the row below: the words, the amount, the row.

    Sums, taxes and what follows a table are no such rows. Two rows at least with an amount, or the row below says that
    it is a sum.
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
        is_sum = is_total(row.label) and not is_section(row.label)
        if (telling >= 2 or (is_sum and found and telling)) and sum(amounts, Decimal(0)) == total.value:
            return found[::-1]
    return []


def _amount(row: Row) -> Token | None:
    """The one amount that ends a row after words; None for other rows."""
    last = row.tokens[-1]
    if last.value is None or last.is_percent or "." not in str(last.value) or len(row.tokens) < 2:
        return None
    before = row.tokens[-2]
    return last if before.value is None or last.left - before.right > row.height else None


def _words(row: Row) -> str:
    return " ".join(token.text for token in row.tokens[:-1])
