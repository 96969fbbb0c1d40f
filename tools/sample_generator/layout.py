"""Layouts of the companies' documents: contents of first and later pages."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from tools.sample_generator.model import Company

PageNumbers = Literal["none", "place", "place of count"]


@dataclass(frozen=True)
class Layout:
    """Layout for documents with several pages.

    The document number is always on the first page.
    """

    page_numbers: PageNumbers = "none"
    letterhead_on_every_page: bool = True
    names_itself_on_every_page: bool = False
    """Whether later pages repeat the document number."""
    carries_subtotals: bool = False
    """Whether a subtotal is carried over to the next page."""


PLAIN = Layout()


def layout_of(company: Company) -> Layout:
    """Return a company's layout, which depends only on its name."""
    rng = Random(f"layout {company.name}")  # noqa: S311 - repeatable on purpose, nothing is secret
    return Layout(
        page_numbers=rng.choice(("none", "place", "place of count")),
        letterhead_on_every_page=rng.random() < 0.5,
        names_itself_on_every_page=rng.random() < 0.4,
        carries_subtotals=rng.random() < 0.4,
    )
