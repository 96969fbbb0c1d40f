"""Product lines and articles of the invented suppliers, read from `catalog.toml`."""

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

ORDINARY_ARTICLES = 7


@dataclass(frozen=True)
class Article:
    """An article in a price list.

    `price` is per `basis` units; `reduced` selects the reduced tax rate.
    """

    description: str
    unit: str
    price: Decimal
    basis: Decimal
    reduced: bool


@dataclass(frozen=True)
class ProductLine:
    """An industry's articles in one country, with parts of its companies' names."""

    country: str
    prefix: str
    suffix: str
    claim: str
    articles: tuple[Article, ...]


def _article(description: str, unit: str, price: str, basis: int, reduced: bool = False) -> Article:
    return Article(description, unit, Decimal(price), Decimal(basis), reduced)


PRODUCT_LINES = tuple(
    ProductLine(**{**product_line, "articles": tuple(_article(*row) for row in product_line["articles"])})
    for product_line in tomllib.loads(Path(__file__).with_name("catalog.toml").read_text("utf-8"))["trades"]
)
