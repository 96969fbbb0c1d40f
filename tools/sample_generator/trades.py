"""Trades and articles of the invented suppliers, read from `trades.toml`."""

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

ORDINARY_ARTICLES = 7


@dataclass(frozen=True)
class Article:
    """One article of a price list; `price` is per `basis` units."""

    description: str
    unit: str
    price: Decimal
    basis: Decimal
    reduced: bool


@dataclass(frozen=True)
class Trade:
    """A branch of business in one country, with the words that its firms' names are made of."""

    country: str
    prefix: str
    suffix: str
    claim: str
    articles: tuple[Article, ...]


def _article(description: str, unit: str, price: str, basis: int, reduced: bool = False) -> Article:
    return Article(description, unit, Decimal(price), Decimal(basis), reduced)


TRADES = tuple(
    Trade(**{**trade, "articles": tuple(_article(*row) for row in trade["articles"])})
    for trade in tomllib.loads(Path(__file__).with_name("trades.toml").read_text("utf-8"))["trades"]
)
