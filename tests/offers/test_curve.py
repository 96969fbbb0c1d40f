"""The space-filling curve visits every cell once, in steps to adjacent cells."""

from uuid import UUID

import numpy as np
import pytest

from counterfoil.offers.compute import curve_positions, position
from tests.offers.people import Person, people


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_curve_visits_each_cell_once_in_adjacent_steps(bits: int):
    cells = np.indices((1 << bits,) * 3).reshape(3, -1)

    order = position(cells, bits)

    assert sorted(order.tolist()) == list(range(1 << 3 * bits))
    assert (np.abs(np.diff(cells[:, np.argsort(order)], axis=1)).sum(axis=0) == 1).all()


def test_curve_finishes_each_coarse_cell_before_leaving():
    cells = np.indices((16, 16, 16)).reshape(3, -1)
    order = np.argsort(position(cells, 4))

    coarser = position(cells // 4, 2)[order]

    # The curve leaves each of the 64 coarse cells only after it has visited all fine cells inside.
    assert np.count_nonzero(np.diff(coarser)) == 63


@pytest.mark.parametrize(("latitude", "longitude"), [(0, 0), (90, 0), (-90, 0), (0, 180), (0, -180), (0, 90), (0, -90)])
def test_poles_and_edges_have_a_position(latitude: float, longitude: float):
    (location,) = curve_positions(people(Person(UUID(int=1), latitude, longitude)).rows["place"])

    assert 0 <= location < 1 << 48


def test_longitudes_180_and_minus_180_share_a_position():
    east, west = people(Person(UUID(int=1), 10, 180), Person(UUID(int=2), 10, -180)).rows["place"]

    assert curve_positions(np.array([east])) == curve_positions(np.array([west]))
