"""Tolerances: which limits apply to a supplier's article, and whether a difference is within them. Pure.

They are layered as in the common ERP systems. A tolerance has a key (what it is about) and a scope (a supplier, an
article, both or neither); of those that fit, the most specific one applies, as a whole: limits of several layers are
never mixed. Each direction has an absolute and a percent limit. Where both are set, both must hold; a limit that is not
set limits nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

from counterfoil.documents.matching.names import name
from counterfoil.documents.matching.normalise import code, identifier

_CENT = Decimal("0.01")
_DIGITS_OF_A_NUMBER = 5
"""Every VAT id and tax number has as many; a firm's name may have one or two (`3M`, `A1 Telekom`)."""


class Key(StrEnum):
    """What a tolerance is about."""

    PRICE = "price"
    """The unit price billed, against the order's."""
    BILLED_QUANTITY = "billed_quantity"
    """The quantity billed, against what was ordered, delivered and accepted."""
    DELIVERED_QUANTITY = "delivered_quantity"
    """The quantity delivered, against what was ordered."""
    TOTAL = "total"
    """An invoice's totals, against its own lines and tax."""
    TAX = "tax"
    """A line's tax rate in percentage points, against the order's."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far something may be below and above what is expected. None: no limit of that sort."""

    lower_absolute: Decimal | None = None
    lower_percent: Decimal | None = None
    upper_absolute: Decimal | None = None
    upper_percent: Decimal | None = None

    def allow(self, expected: Decimal, actual: Decimal) -> bool:
        """Whether the difference is within the limits of its direction."""
        difference = actual - expected
        if difference >= 0:
            absolute, percent = self.upper_absolute, self.upper_percent
        else:
            absolute, percent = self.lower_absolute, self.lower_percent
        if absolute is not None and abs(difference) > absolute:
            return False
        return percent is None or abs(difference) * 100 <= percent * abs(expected)

    @property
    def words(self) -> str:
        """For people: `1 % less, 5 % and 2.00 more`."""
        lower = _words(self.lower_absolute, self.lower_percent)
        upper = _words(self.upper_absolute, self.upper_percent)
        return f"{lower} more or less" if lower == upper else f"{lower} less, {upper} more"


def as_json(value: Any, decimal: Callable[[Decimal], str] = "{:f}".format) -> Any:
    """Return the JSON form of a dataclass by its field names. Numbers and ids are strings."""
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name), decimal) for field in fields(value)}
    if isinstance(value, tuple):
        return [as_json(one, decimal) for one in value]
    if isinstance(value, Decimal):
        return decimal(value)
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, UUID) else value


def _words(absolute: Decimal | None, percent: Decimal | None) -> str:
    limits = [f"{format(percent.normalize(), 'f')} %"] if percent is not None else []
    limits += [format(absolute.normalize(), "f")] if absolute is not None else []
    return " and ".join(limits) or "any amount"


def both_ways(*, absolute: Decimal | None = None, percent: Decimal | None = None) -> Limits:
    """The same limits below and above."""
    return Limits(absolute, percent, absolute, percent)


NONE = both_ways(absolute=Decimal(0))
"""Nothing is tolerated."""

DEFAULTS = {
    Key.PRICE: both_ways(percent=Decimal(1)),
    Key.BILLED_QUANTITY: NONE,
    Key.DELIVERED_QUANTITY: NONE,
    Key.TOTAL: both_ways(absolute=5 * _CENT),
    Key.TAX: NONE,
}
"""What applies where a tenant has set nothing: prices by 1 %, totals by five cents of rounding, and no quantity."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """One entry of a tenant's table. Supplier and article as people write them; None: every one."""

    key: Key
    limits: Limits
    supplier: str | None = None
    """A VAT id or a name."""
    article: str | None = None
    """The supplier's or the buyer's article number."""

    @property
    def scope(self) -> tuple[str | None, str | None]:
        """Supplier and article in forms that can be compared."""
        return _supplier(self.supplier), code(self.article) if self.article else None


class Tolerances:
    """A tenant's tolerances, asked for by what they are about."""

    def __init__(self, entries: Iterable[Tolerance] = ()) -> None:
        """Of two entries with one key and scope, the later one applies."""
        self._limits = {(entry.key, *entry.scope): entry.limits for entry in entries}

    def limits(self, key: Key, *, suppliers: Iterable[str] = (), articles: Iterable[str] = ()) -> Limits:
        """The limits of the most specific entry: supplier and article, then article, then supplier, then neither.

        `suppliers` are the ways in which the supplier may be written (VAT id, name), `articles` the article's numbers.
        """
        of_supplier = [_supplier(one) for one in suppliers]
        of_article = [code(one) for one in articles]
        scopes: list[tuple[str | None, str | None]] = [(one, other) for one in of_supplier for other in of_article]
        scopes += [(None, article) for article in of_article]
        scopes += [(supplier, None) for supplier in of_supplier]
        for supplier, article in (*scopes, (None, None)):
            found = self._limits.get((key, supplier, article))
            if found is not None:
                return found
        return DEFAULTS[key]


def _supplier(text: str | None) -> str | None:
    """A supplier's VAT id or name in a form that can be compared."""
    if text is None:
        return None
    has_number = sum(letter.isdigit() for letter in text) >= _DIGITS_OF_A_NUMBER
    return identifier(text) if has_number else name(text).core
