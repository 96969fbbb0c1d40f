"""How firms lay out their papers: what stands on every page, and what on the first alone."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from tools.sample_generator.model import Firm

PageNumbers = Literal["none", "place", "place of count"]


@dataclass(frozen=True)
class Layout:
    """What a firm's papers of several pages look like. Numbers of papers stand on the first page in any case."""

    page_numbers: PageNumbers = "none"
    letterhead_on_every_page: bool = True
    names_itself_on_every_page: bool = False
    """Whether later pages state the number of the paper."""
    carries_sums: bool = False
    """Whether a sum is carried from page to page."""


PLAIN = Layout()


def layout_of(firm: Firm) -> Layout:
    """The layout of a firm: always the same for its name."""
    rng = Random(f"layout {firm.name}")  # noqa: S311 - repeatable on purpose, nothing is secret
    return Layout(
        page_numbers=rng.choice(("none", "place", "place of count")),
        letterhead_on_every_page=rng.random() < 0.5,
        names_itself_on_every_page=rng.random() < 0.4,
        carries_sums=rng.random() < 0.4,
    )
