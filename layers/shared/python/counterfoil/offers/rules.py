"""The rules of a pool: what its offers are computed by, pinned with it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

VERSION = 1
"""Of the algorithm that computes offers: another one is another version."""


@dataclass(frozen=True)
class Rules:
    """How many are offered, among how many, how often, and after how many days again."""

    offers: int
    """Offers for each user, at most."""
    candidates: int
    """People that are looked at for each user, at most."""
    most_offered: int | None
    """To how many users one may be offered on a date; None: to any number."""
    repeat_days: int
    """For so many days nobody is offered to the same user again."""

    def as_json(self) -> dict[str, int | None]:
        """As the pool keeps them."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Rules":
        """What a pool keeps."""
        return cls(**kept)
