"""An order of places on the earth in which those that are near one another mostly stand together: a Hilbert curve.

The curve runs through the cube around the globe, not over a map: there is no seam, no pole and nothing but integers.
D. Hilbert, Ueber die stetige Abbildung einer Linie auf ein Flaechenstueck, 1891; in three dimensions as J. Skilling,
Programming the Hilbert curve, 2004, computes it: the turns of each finer cube undone, then a Gray code.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterfoil.offers.people import UNIT

BITS = 16
"""Halvings of each side of the cube: its smallest cubes are 194 m wide."""
_COARSER = 7
"""What a place's coordinates, of 23 bits, lose in them."""


def along(places: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where places of people, shape (n, 3), lie on the curve, shape (n,)."""
    cells = (places.astype(np.int64) + UNIT) >> _COARSER
    return position(np.minimum(cells, (1 << BITS) - 1).T, BITS)


def position(cell: ArrayLike, bits: int) -> NDArray[np.int64]:
    """Where cells, shape (3, ...), each coordinate below `1 << bits`, come on the curve, shape (...)."""
    x, y, z = np.array(cell, np.int64)
    for level in range(bits - 1, 0, -1):
        half, lower = 1 << level, (1 << level) - 1
        x ^= np.where(x & half, lower, 0)
        for other in (y, z):
            swapped = np.where(other & half, 0, (x ^ other) & lower)
            x ^= np.where(other & half, lower, swapped)
            other ^= swapped  # noqa: PLW2901 - in place
    y ^= x
    z ^= y
    turned = np.zeros_like(z)
    for level in range(bits - 1, 0, -1):
        turned ^= np.where(z & (1 << level), (1 << level) - 1, 0)
    order: NDArray[np.int64] = np.zeros_like(z)
    for level in range(bits - 1, -1, -1):
        for axis in (x, y, z):
            order = order << 1 | ((axis ^ turned) >> level & 1)
    return order
