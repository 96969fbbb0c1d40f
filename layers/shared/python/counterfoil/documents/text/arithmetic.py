"""Whether the amounts of a document agree with one another: lines, totals, taxes. Pure.

What is printed is rounded, so two amounts agree when rounding explains their difference: half a unit of the last place
of each printed number, carried through the formula. Prices count as printed to two places at least. Amounts are
decimals, rates and discounts percent.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import combinations

_CENT = Decimal("0.01")
_HALF = Decimal("0.5")
_ONE = Decimal(1)
_HUNDRED = Decimal(100)
_SEARCHED_LINES = 14
"""As many lines are tried in all combinations to find those that one tax rate is for: 2^14 sums take milliseconds."""


def line_net(quantity: Decimal, unit_price: Decimal, basis: Decimal = _ONE, discount: Decimal = Decimal(0)) -> Decimal:
    """What a line costs: quantity x price / price basis, less a discount in percent; not rounded."""
    return quantity * unit_price / basis * (_HUNDRED - discount) / _HUNDRED


def line_agrees(
    quantity: Decimal,
    unit_price: Decimal,
    net: Decimal,
    basis: Decimal = _ONE,
    discount: Decimal = Decimal(0),
) -> bool:
    """Tell whether quantity x price / basis is the net amount, within what rounding of price and amount explains."""
    if basis <= 0:
        return False
    slack = _half_place(unit_price) * abs(quantity) / basis + _half_place(net)
    return abs(line_net(quantity, unit_price, basis, discount) - net) <= slack


def sum_agrees(amounts: Iterable[Decimal], total: Decimal) -> bool:
    """Tell whether amounts add up to a total; each may be a rounded one, by less than half a cent."""
    amounts = tuple(amounts)
    finer = sum(1 for amount in amounts if _place(amount) < _CENT)
    return abs(sum(amounts, Decimal(0)) - total) <= (_CENT * _HALF * finer if finer else Decimal(0))


def tax_agrees(base: Decimal, rate: Decimal, tax: Decimal, parts: int = 1) -> bool:
    """Tell whether `rate` percent of `base` is the tax, rounded once or on each of `parts` lines."""
    return abs(base * rate / _HUNDRED - tax) <= _CENT * _HALF * max(parts, 1)


def gross_agrees(net: Decimal, tax: Decimal, gross: Decimal) -> bool:
    """Tell whether net and tax are the gross amount, to the cent."""
    return net + tax == gross


def indices_of_sum(amounts: Sequence[Decimal], total: Decimal) -> tuple[int, ...] | None:
    """Find the one choice of amounts that adds up to a total; None where there is none, or more than one.

    Tries all choices of up to 14 amounts; more are not searched, and give None.
    """
    if len(amounts) > _SEARCHED_LINES:
        return None
    found: list[tuple[int, ...]] = []
    for size in range(1, len(amounts) + 1):
        for chosen in combinations(range(len(amounts)), size):
            if sum((amounts[index] for index in chosen), Decimal(0)) == total:
                found.append(chosen)
                if len(found) > 1:
                    return None
    return found[0] if found else None


def _place(amount: Decimal) -> Decimal:
    """The unit of the last place of a printed number, a cent where it shows fewer places."""
    exponent = amount.as_tuple().exponent
    return Decimal(1).scaleb(min(exponent, -2)) if isinstance(exponent, int) else _CENT


def _half_place(amount: Decimal) -> Decimal:
    return _place(amount) * _HALF
