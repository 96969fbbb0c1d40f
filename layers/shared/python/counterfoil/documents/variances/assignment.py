"""Optimal assignment: which lines of two documents go together, so that the sum of their weights is the largest. Pure.

Kuhn and Munkres' problem on a sparse graph, by successive shortest augmenting paths with potentials (Edmonds and Karp
1972; Jonker and Volgenant 1987): for r rows and e possible pairs, r searches of O(e log e) at most, each of which ends
at the first column that is free. A numerical library would double the layer's size for this.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from math import inf

Pairs = Mapping[tuple[int, int], float]


def assign(weights: Pairs) -> dict[int, int]:
    """Pair rows with columns, each at most once, for the largest sum of `weights`; pairs of weight <= 0 are never made.

    `weights` holds the possible pairs by (row, column); the others are impossible. Returns the column of each row that
    has one. Of several best answers it is always the same one, whatever the order of the mapping.
    """
    costs: dict[int, dict[int, float]] = {}
    for (row, column), weight in sorted(weights.items()):
        if weight > 0:
            costs.setdefault(row, {})[column] = -weight
    alone = 1 + max((column for row in costs.values() for column in row), default=0)
    for row, possible in costs.items():
        possible[alone + row] = 0.0  # a column of its own: the row may stay without a partner, at no gain and no cost
    return {row: column for row, column in _Assignment(costs).rows.items() if column < alone}


class _Assignment:
    """The pairs of the least total cost, row by row. Costs less the potentials of both ends are never negative."""

    def __init__(self, costs: Mapping[int, Mapping[int, float]]) -> None:
        """`costs` of pairs by row and column; every row has a column that no other row has."""
        self.rows: dict[int, int] = {}
        self._costs = costs
        self._columns: dict[int, int] = {}
        self._row_potential = dict.fromkeys(costs, 0.0)
        self._column_potential: dict[int, float] = {}
        for row in costs:
            self._augment(row)

    def _augment(self, start: int) -> None:
        """Give a row its column, and those rows another one whose columns are on the way."""
        settled: dict[int, float] = {}
        reached: dict[int, float] = {}
        before: dict[int, int] = {}
        ahead: list[tuple[float, int]] = []
        row, length = start, 0.0
        while True:
            for column, cost in self._costs[row].items():
                reduced = cost - self._row_potential[row] - self._column_potential.get(column, 0.0)
                if column not in settled and length + reduced < reached.get(column, inf):
                    reached[column], before[column] = length + reduced, row
                    heappush(ahead, (length + reduced, column))
            length, nearest = heappop(ahead)
            while nearest in settled:
                length, nearest = heappop(ahead)
            if nearest not in self._columns:
                break
            settled[nearest] = length
            row = self._columns[nearest]
        self._row_potential[start] += length
        for column, at in settled.items():
            self._row_potential[self._columns[column]] += length - at
            self._column_potential[column] = self._column_potential.get(column, 0.0) - (length - at)
        self._turn_round(start, nearest, before)

    def _turn_round(self, start: int, column: int, before: Mapping[int, int]) -> None:
        while True:
            row = before[column]
            taken = self.rows.get(row)
            self.rows[row], self._columns[column] = column, row
            if row == start or taken is None:
                return
            column = taken
