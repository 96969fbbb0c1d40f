"""Tolerances: limits for differences, by supplier and article. Pure.

Tolerances have the same levels as in common ERP systems. A tolerance has a key (the compared value) and a scope (a
supplier, an article, both or neither). Only the most specific matching tolerance applies: limits from several
tolerances are never combined. Each direction has an absolute and a percent limit. If both are set, a difference must be
within both. An unset limit permits any difference.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

from counterfoil.documents.matching.names import name
from counterfoil.documents.matching.normalize import identifier, normalize_code

_CENT = Decimal("0.01")
_DIGITS_OF_A_NUMBER = 5
"""Minimum number of digits in a VAT id or tax number. A company name may have one or two (`3M`, `A1 Telekom`)."""


class Key(StrEnum):
    """Value to which a tolerance applies."""

    PRICE = "price"
    """Billed unit price, compared with the order."""
    BILLED_QUANTITY = "billed_quantity"
    """Billed quantity, compared with the ordered, the delivered, and the delivered minus rejected quantity."""
    DELIVERED_QUANTITY = "delivered_quantity"
    """Delivered quantity, compared with the order."""
    TOTAL = "total"
    """Totals of an invoice, compared with its own line items and tax, or with the value of its orders."""
    TAX = "tax"
    """Tax rate of a line item in percentage points, compared with the order."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits below and above the expected value. None means no limit."""

    lower_absolute: Decimal | None = None
    lower_percent: Decimal | None = None
    upper_absolute: Decimal | None = None
    upper_percent: Decimal | None = None

    def contains(self, expected: Decimal, actual: Decimal) -> bool:
        """Return whether a difference is within the limits of its direction."""
        difference = actual - expected
        if difference >= 0:
            absolute, percent = self.upper_absolute, self.upper_percent
        else:
            absolute, percent = self.lower_absolute, self.lower_percent
        if absolute is not None and abs(difference) > absolute:
            return False
        return percent is None or abs(difference) * 100 <= percent * abs(expected)

    @property
    def text(self) -> str:
        """Text for users: `1% less, 5% and 2 more`."""
        lower = _words(self.lower_absolute, self.lower_percent)
        upper = _words(self.upper_absolute, self.upper_percent)
        return f"{lower} more or less" if lower == upper else f"{lower} less, {upper} more"


def as_json(value: Any, decimal: Callable[[Decimal], str] = "{:f}".format) -> Any:
    """Return the JSON form of a dataclass by its field names.

    Decimals and ids are strings.
    """
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name), decimal) for field in fields(value)}
    if isinstance(value, tuple):
        return [as_json(item, decimal) for item in value]
    if isinstance(value, Decimal):
        return decimal(value)
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, UUID) else value


def _words(absolute: Decimal | None, percent: Decimal | None) -> str:
    limits = [f"{format(percent.normalize(), 'f')}%"] if percent is not None else []
    limits += [format(absolute.normalize(), "f")] if absolute is not None else []
    return " and ".join(limits) or "any amount"


def symmetric_limits(*, absolute: Decimal | None = None, percent: Decimal | None = None) -> Limits:
    """Return the same limits below and above."""
    return Limits(absolute, percent, absolute, percent)


NO_DIFFERENCE = symmetric_limits(absolute=Decimal(0))
"""Limits that permit no difference."""

DEFAULTS = {
    Key.PRICE: symmetric_limits(percent=Decimal(1)),
    Key.BILLED_QUANTITY: NO_DIFFERENCE,
    Key.DELIVERED_QUANTITY: NO_DIFFERENCE,
    Key.TOTAL: symmetric_limits(absolute=5 * _CENT),
    Key.TAX: NO_DIFFERENCE,
}
"""Default limits: 1% for prices, five cents for totals because of rounding, and zero for quantities and tax."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A tenant's tolerance. Supplier and article are in any spelling; None means all."""

    key: Key
    limits: Limits
    supplier: str | None = None
    """VAT id or name."""
    article: str | None = None
    """Article number of the supplier or the buyer."""

    @property
    def scope(self) -> tuple[str | None, str | None]:
        """Supplier and article in comparable form."""
        return _supplier(self.supplier), normalize_code(self.article) if self.article else None


class Tolerances:
    """A tenant's tolerances by key and scope."""

    def __init__(self, entries: Iterable[Tolerance] = ()) -> None:
        """If entries have the same key and scope, the last entry applies."""
        self._limits = {(entry.key, *entry.scope): entry.limits for entry in entries}

    def limits(self, key: Key, *, suppliers: Iterable[str] = (), articles: Iterable[str] = ()) -> Limits:
        """Return the most specific limits that are set.

        Limits for supplier and article come first, then for the article, the supplier, and all. `suppliers` are the
        supplier's VAT id and name, and `articles` are the article's numbers.
        """
        supplier_keys = [_supplier(one) for one in suppliers]
        article_keys = [normalize_code(one) for one in articles]
        scopes: list[tuple[str | None, str | None]] = [(one, other) for one in supplier_keys for other in article_keys]
        scopes += [(None, article) for article in article_keys]
        scopes += [(supplier, None) for supplier in supplier_keys]
        for supplier, article in (*scopes, (None, None)):
            specific = self._limits.get((key, supplier, article))
            if specific is not None:
                return specific
        return DEFAULTS[key]


def _supplier(text: str | None) -> str | None:
    """Return a supplier's VAT id or name in comparable form."""
    if text is None:
        return None
    has_number = sum(letter.isdigit() for letter in text) >= _DIGITS_OF_A_NUMBER
    return identifier(text) if has_number else name(text).core
