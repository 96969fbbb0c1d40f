"""How sentences name items and quantities. Pure."""

from decimal import Decimal

from counterfoil.documents.variances.ledger import Item
from counterfoil.documents.variances.model import plain, short
from counterfoil.documents.variances.units import spoken


def naming(item: Item) -> str:
    """An item as a sentence names it."""
    line = item.line
    what = line.description or line.article_text
    return f"'{short(what)}'" if what else f"line {line.label} of {item.document.title}"


def measured(quantity: Decimal, item: Item) -> str:
    """A quantity with its unit."""
    return f"{plain(quantity)} {spoken(item.unit, quantity)}".rstrip()


def verb(quantity: Decimal) -> str:
    """Was, or were."""
    return "was" if abs(quantity) == 1 else "were"
