"""Optimal assignment: which lines of two documents go together, so that the sum of their weights is the largest. Pure.

Kuhn and Munkres' problem by shortest augmenting paths with potentials (Jonker and Volgenant 1987; Crouse 2016), O(n^3)
for n nodes of one connected part. Most lines have few possible partners, so that the parts are small; that is why no
numerical library, which would double the layer's size, is needed.
"""

from collections import defaultdict
from collections.abc import Mapping
from math import inf

Pairs = Mapping[tuple[int, int], float]


def assign(weights: Pairs) -> dict[int, int]:
    """Pair rows with columns, each at most once, for the largest sum of `weights`; pairs of weight <= 0 are never made.

    `weights` holds the possible pairs by (row, column); the others are impossible. Returns the column of each row that
    has one. Of several best answers it is always the same one, whatever the order of the mapping.
    """
    possible = {pair: weights[pair] for pair in sorted(weights) if weights[pair] > 0}
    found: dict[int, int] = {}
    for part in _parts(possible):
        found |= _assign_part(part)
    return found


def _parts(weights: Pairs) -> list[dict[tuple[int, int], float]]:
    """The connected parts of the graph of possible pairs, each with its pairs."""
    leader: dict[tuple[str, int], tuple[str, int]] = {}

    def find(node: tuple[str, int]) -> tuple[str, int]:
        while leader.setdefault(node, node) != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for row, column in weights:
        leader[find(("row", row))] = find(("column", column))
    parts: dict[tuple[str, int], dict[tuple[int, int], float]] = defaultdict(dict)
    for pair, weight in weights.items():
        parts[find(("row", pair[0]))][pair] = weight
    return list(parts.values())


def _assign_part(weights: Pairs) -> dict[int, int]:
    rows = sorted({row for row, _ in weights})
    columns = sorted({column for _, column in weights})
    if len(rows) == 1 or len(columns) == 1:
        row, column = max(weights, key=lambda pair: (weights[pair], -pair[0], -pair[1]))
        return {row: column}
    # A row may stay without a partner: it then takes a column of its own, at no gain and no cost.
    costs = [
        [-weights.get((row, column), -inf) for column in columns] + [0.0 if other == row else inf for other in rows]
        for row in rows
    ]
    chosen = _shortest_paths(costs)
    return {rows[place]: columns[column] for place, column in enumerate(chosen) if column < len(columns)}


def _shortest_paths(costs: list[list[float]]) -> list[int]:
    """The column of each row, at the least total cost; there are enough columns for all rows."""
    width = len(costs[0])
    of_row, of_column = [-1] * len(costs), [-1] * width
    row_potential, column_potential = [0.0] * len(costs), [0.0] * width
    for start in range(len(costs)):
        shortest, before = [inf] * width, [-1] * width
        seen_columns: list[int] = []
        is_seen = [False] * width
        row, reached = start, 0.0
        while True:
            best = -1
            for column in range(width):
                if is_seen[column]:
                    continue
                length = reached + costs[row][column] - row_potential[row] - column_potential[column]
                if length < shortest[column]:
                    shortest[column], before[column] = length, row
                if best < 0 or shortest[column] < shortest[best]:
                    best = column
            reached = shortest[best]
            is_seen[best] = True
            seen_columns.append(best)
            if of_column[best] < 0:
                break
            row = of_column[best]
        row_potential[start] += reached
        for column in seen_columns[:-1]:
            row_potential[of_column[column]] += reached - shortest[column]
            column_potential[column] -= reached - shortest[column]
        while True:  # turn the pairs on the path round
            row = before[best]
            of_column[best] = row
            of_row[row], best = best, of_row[row]
            if row == start:
                break
    return of_row
