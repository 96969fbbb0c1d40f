"""Priors for all levels of agreement, in bits.

They are rounded estimates of log2(m / u), where m and u are the shares of matching pairs and of other pairs that have a
level.
"""

from collections.abc import Iterator
from itertools import product

from counterfoil.documents.matching.compare import (
    Count,
    Feature,
    FeatureLevel,
    Flag,
    Identity,
    Length,
    Number,
    PartyName,
    Remaining,
    Share,
    Timing,
    Total,
    Values,
)
from counterfoil.documents.matching.score import PRIOR

_PRIOR = -4.0
"""Prior of a match in bits: about one in twenty candidates that share a key is a match."""
_IDENTITY = dict(zip(Identity, (8.0, 3.0, -9.0, 6.0, -3.0), strict=True))
_NAME = dict(zip(PartyName, (5.0, 0.0, 3.0, 2.0, -2.0, -6.0), strict=True))
_MAX_PARTY_BITS = 9.0
_BUYER_SHARE = 0.3
"""Factor for the bits of an agreement on the buyer, because the tenant's own name is on most of its documents."""
_DATE = dict(zip(Timing, (-10.0, -4.0, -3.0, 0.0, 2.0, 1.5, -1.0, -4.0, -7.0, -6.0, 1.0, -2.0), strict=True))
_LINES = {
    Share.NONE: (-5.0, -7.0, -9.0),
    Share.FEW: (None, -2.0, -4.0),
    Share.MOST: (None, None, 0.0),
    Share.ALL: (2.0, 4.0, 6.0),
}
"""Bits for one, two, and more than two line items."""
_REMAINING = dict(zip(Remaining, (4.0, 1.0, -5.0, -8.0), strict=True))
_TOTAL = dict(zip(Total, (5.0, 5.0, 4.0, -2.0, 0.0, 0.0), strict=True))


def bits() -> dict[FeatureLevel, float]:
    """Return the prior of every level that a comparison can produce."""
    return dict(_levels()) | {PRIOR: _PRIOR}


def _levels() -> Iterator[tuple[FeatureLevel, float]]:
    yield from _numbers(Feature.NUMBER, 0.0, same=(8, 10, 12), same_as_read=(7, 9, 11), same_end=(4, 5, 6))
    yield FeatureLevel.of(Feature.CURRENCY, Flag.DIFFERENT), -3.0
    yield from ((FeatureLevel.of(Feature.DATE, timing), value) for timing, value in _DATE.items())
    for share, values in _LINES.items():
        levels = zip(Count, values, strict=True)
        yield from (
            (FeatureLevel.of(Feature.LINES, share, count), value) for count, value in levels if value is not None
        )
    yield FeatureLevel.of(Feature.ARTICLES, Values.NONE_SAME), -3.0
    yield from _counted(Feature.ARTICLES, Values.SOME_SAME, (2.0, 3.0, 4.0))
    yield from _counted(Feature.PRICES, Values.ALL_SAME, (2.0, 4.0, 5.0))
    yield FeatureLevel.of(Feature.PRICES, Values.SOME_SAME), 0.0
    yield FeatureLevel.of(Feature.PRICES, Values.NONE_SAME), -3.0
    yield from _counted(Feature.QUANTITIES, Values.ALL_SAME, (2.0, 3.0, 4.0))
    yield FeatureLevel.of(Feature.QUANTITIES, Values.NONE_MORE), 0.0
    yield FeatureLevel.of(Feature.QUANTITIES, Values.SOME_MORE), -2.0
    yield from (
        (FeatureLevel.of(Feature.REMAINING_QUANTITY, remaining), value) for remaining, value in _REMAINING.items()
    )
    yield FeatureLevel.of(Feature.UNMATCHED_LINES, Flag.PRESENT), -1.0
    yield from ((FeatureLevel.of(Feature.TOTAL, total), value) for total, value in _TOTAL.items())
    yield from _parties()
    for feature in (Feature.SHARED_PURCHASE_ORDER, Feature.SHARED_DELIVERY_NOTE, Feature.SHARED_CONTRACT):
        yield from _numbers(feature, -1.0, same=(6, 6, 6), same_as_read=(5, 5, 5), same_end=(3, 3, 3))


_ByLength = tuple[int, int, int]


def _numbers(
    feature: Feature, one_character: float, *, same: _ByLength, same_as_read: _ByLength, same_end: _ByLength
) -> Iterator[tuple[FeatureLevel, float]]:
    yield FeatureLevel.of(feature, Number.ONE_CHARACTER_DIFFERS), one_character
    yield FeatureLevel.of(feature, Number.DIFFERENT), -6.0
    for agreement, values in ((Number.SAME, same), (Number.SAME_AS_READ, same_as_read), (Number.SAME_END, same_end)):
        for length, value in zip(Length, values, strict=True):
            yield FeatureLevel.of(feature, agreement, length), float(value)


def _counted(
    feature: Feature, level: Values, values: tuple[float, float, float]
) -> Iterator[tuple[FeatureLevel, float]]:
    yield from ((FeatureLevel.of(feature, level, count), value) for count, value in zip(Count, values, strict=True))


def _parties() -> Iterator[tuple[FeatureLevel, float]]:
    for side, identity, name in product((Feature.SELLER, Feature.BUYER), (*Identity, None), (*PartyName, None)):
        if identity or name:
            value = _party(_IDENTITY[identity] if identity else 0.0, _NAME[name] if name else 0.0)
            yield (
                FeatureLevel.of(side, identity, name),
                value * (_BUYER_SHARE if side is Feature.BUYER and value > 0 else 1.0),
            )


def _party(identity: float, name: float) -> float:
    """Combine the bits for identifier and name.

    If the identifiers agree, the name has little influence.
    """
    if identity >= _IDENTITY[Identity.SAME_IDENTIFIER]:
        return min(_MAX_PARTY_BITS, identity + (name / 2 if name > 0 else max(name / 6, -1.0)))
    return min(_MAX_PARTY_BITS, identity + name)
