"""What is thought of a level before any pair has been seen, in bits: where learning begins, and what it falls back on.

Estimates of log2(m / u), rounded: how much more often true pairs show a level than other candidates do.
"""

from collections.abc import Iterator
from itertools import product

from counterfoil.documents.matching.compare import IDENTITIES, NAMES, Level
from counterfoil.documents.matching.score import PRIOR

_PRIOR = -4.0
"""Candidates that share a key are partners about once in twenty."""
_IDENTITY = dict(zip(IDENTITIES, (8.0, 3.0, -9.0, 6.0, -3.0), strict=True))
_NAME = dict(zip(NAMES, (5.0, 0.0, 3.0, 2.0, -2.0, -6.0), strict=True))
_MOST = 9.0
_COMMON = 0.3
"""Share of an agreement's bits that the buyer keeps: a tenant's own name is on most of its documents."""
_LEVELS: dict[str, dict[str, float]] = {
    "number": {"one character differs": 0.0, "another": -6.0}
    | {f"same, {length}": bits for length, bits in (("short", 8.0), ("medium", 10.0), ("long", 12.0))}
    | {
        f"same as far as capture can be read, {length}": bits
        for length, bits in (("short", 7.0), ("medium", 9.0), ("long", 11.0))
    }
    | {f"the same end, {length}": bits for length, bits in (("short", 4.0), ("medium", 5.0), ("long", 6.0))},
    "currency": {"differs": -3},
    "date": {
        "more than a month before it": -10, "weeks before it": -4, "days before it": -3, "just before it": 0,
        "within three weeks": 2, "soon after": 1.5, "weeks after": -1, "months after": -4, "years after": -7,
        "before the contract": -6, "while it may run": 1, "years on": -2,
    },
    "lines": {
        "none of one": -5, "none of two": -7, "none of several": -9, "few of two": -2, "few of several": -4,
        "most of several": 0, "all of one": 2, "all of two": 4, "all of several": 6,
    },
    "articles": {"none the same": -3, "one the same": 2, "two the same": 3, "several the same": 4},
    "prices": {
        "all one the same": 2, "all two the same": 4, "all several the same": 5, "some the same": 0, "differ": -3,
    },
    "quantities": {
        "all one the same": 2, "all two the same": 3, "all several the same": 4, "none more": 0, "some more": -2,
    },
    "left": {"just what is left": 4, "no more than is left": 1, "more than is left": -5, "nothing is left": -8},
    "rest": {"lines left over": -1},
    "total": {
        "same": 5, "a line over the whole": 5, "a usual share in advance": 4, "differs, no lines": -2,
        "less": 0, "more": 0,
    },
}  # fmt: skip
_THIRD = {"same": 6.0, "same as far as capture can be read": 5.0, "the same end": 3.0}


def bits() -> dict[Level, float]:
    """Every level that a comparison can come to, with the bits that it begins with."""
    found = {
        Level(feature, level): float(value) for feature, levels in _LEVELS.items() for level, value in levels.items()
    }
    return found | dict(_parties()) | dict(_third_documents()) | {PRIOR: _PRIOR}


def _parties() -> Iterator[tuple[Level, float]]:
    for side, identity, name in product(("seller", "buyer"), (*IDENTITIES, None), (*NAMES, None)):
        if stated := [level for level in (identity, name) if level]:
            value = _party(_IDENTITY.get(identity or "", 0.0), _NAME.get(name or "", 0.0))
            yield Level(side, ", ".join(stated)), value * (_COMMON if side == "buyer" and value > 0 else 1.0)


def _party(identity: float, name: float) -> float:
    """An identifier is the party, whatever its name looks like: the name adds half, and hardly takes away."""
    if identity >= _IDENTITY["same identifier"]:
        return min(_MOST, identity + (name / 2 if name > 0 else max(name / 6, -1.0)))
    return min(_MOST, identity + name)


def _third_documents() -> Iterator[tuple[Level, float]]:
    for kind in ("purchase order", "delivery note", "contract"):
        feature = f"{kind} of both"
        yield Level(feature, "one character differs"), -1.0
        yield Level(feature, "another"), -6.0
        for agreement, value in _THIRD.items():
            for length in ("short", "medium", "long"):
                yield Level(feature, f"{agreement}, {length}"), value
