"""The match weights: what each level of each feature says, in bits, for each kind of pair. Data, with a version.

`weights.json` holds for every level a weight that counts for all kinds of pairs, and by kind of pair what it says more
or less there. `counterfoil train` writes such a file.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from counterfoil.documents.matching.compare import Level

PRIOR = Level("prior", "candidates of these kinds")
"""The level that every pair has: how often a candidate is a partner."""


FOUND = {True: "by number", False: "by content"}
"""How a child comes to a candidate, by whether it names its number."""


class Evidence(NamedTuple):
    """What one feature says: bits, positive for a match."""

    feature: str
    level: str
    weight: float


class Table(dict[Level, Evidence]):
    """What each level says about one kind of pairs, to a hundredth of a bit. A level without bits says nothing."""

    def __missing__(self, level: Level) -> Evidence:
        self[level] = found = Evidence(*level, 0.0)
        return found


@dataclass(frozen=True, eq=False)
class Weights:
    """Bits by level. What was never seen says nothing."""

    version: str
    general: Mapping[bool, Mapping[Level, float]]
    """By whether the child names the parent's number: dates and lines say less about whom a number points at."""
    particular: Mapping[tuple[bool, str, str], Mapping[Level, float]]
    """By that and by kinds of child and parent, what is added there."""
    calibration: Mapping[bool, tuple[float, float]]
    """By that: what to add to the bits of the best of several candidates, and what to multiply them by before, for the
    odds that any of them is a partner (Platt, Probabilistic Outputs for Support Vector Machines, 1999)."""
    _tables: dict[tuple[bool, str, str], Table] = field(default_factory=dict, init=False, repr=False)
    """Those that were asked for."""

    def table(self, child: str, parent: str, *, named: bool) -> Table:
        """What levels say about a pair of these kinds."""
        found = self._tables.get((named, child, parent))
        if found is None:
            general, particular = self.general[named], self.particular.get((named, child, parent), {})
            found = self._tables[named, child, parent] = Table(
                (level, Evidence(*level, round(general.get(level, 0.0) + particular.get(level, 0.0), 2)))
                for level in {*general, *particular}
            )
        return found


def parse(data: Mapping[str, Any]) -> Weights:
    """Read the contents of a file of weights."""
    return Weights(
        data["version"],
        {named: _levels(data[found]["general"]) for named, found in FOUND.items()},
        {
            (named, *kinds.split(">", 1)): _levels(levels)
            for named, found in FOUND.items()
            for kinds, levels in data[found]["particular"].items()
        },
        {named: tuple(data[found]["calibration"]) for named, found in FOUND.items()},
    )


def _levels(found: Mapping[str, Mapping[str, float]]) -> dict[Level, float]:
    return {Level(feature, level): bits for feature, levels in found.items() for level, bits in levels.items()}


@cache
def _shipped() -> Weights:
    return parse(json.loads(resources.files(__package__).joinpath("weights.json").read_text(encoding="utf-8")))


_others: list[Weights] = []


def current() -> Weights:
    """The weights that come with the package, where `using` names no others."""
    return _others[-1] if _others else _shipped()


@contextmanager
def using(weights: Weights) -> Iterator[None]:
    """Weigh with other weights for a while, in all threads: to measure them."""
    _others.append(weights)
    try:
        yield
    finally:
        _others.pop()
