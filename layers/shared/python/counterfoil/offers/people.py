"""People as a pool holds them: rows of one length, read into arrays at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

UNIT = 1 << 22
"""The radius of the earth in the numbers of a place."""
TRAITS = 16
NOT_A_NUMBER = -128
"""What stands for a trait that is no number; the others lie between -127 and 127."""

ROW = np.dtype(
    [
        ("id", "S16"),
        ("external_id", "S16"),
        ("place", ">i4", 3),
        ("born", ">i4"),
        ("gender", ">i2"),
        ("seeks", ">i2"),
        ("min_age", ">i2"),
        ("max_age", ">i2"),
        ("reach_km", ">i4"),
        ("traits", "i1", TRAITS),
    ]
)
"""What the database's `packed_person` writes, and says what each number means."""

EXCLUSION = np.dtype([("user", ">i4"), ("candidate", "S16")])
"""Somebody whom a user may not be offered, blocked or offered of late: the user's number in a shard, and an id."""


@dataclass(frozen=True, eq=False)
class People:
    """Some people, in the order of their rows. Arrays of one length, which nobody changes."""

    rows: NDArray[Any]
    """Of `ROW`."""

    @classmethod
    def read(cls, packed: bytes) -> Self:
        """Read rows that lie one after another.

        Raises:
            ValueError: the last row is incomplete.
        """
        return cls(np.frombuffer(packed, ROW))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def ids(self) -> NDArray[np.bytes_]:
        """Ids of users, 16 bytes each. They compare as the database compares them; a zero at the end is not shown."""
        return np.ascontiguousarray(self.rows["id"])

    @cached_property
    def external_ids(self) -> NDArray[np.bytes_]:
        """Ids that callers know, 16 bytes each."""
        return np.ascontiguousarray(self.rows["external_id"])

    @cached_property
    def faults(self) -> Mapping[int, str]:
        """By row: what is wrong with a record that nothing can be computed from."""
        broken = (self.rows["traits"] == NOT_A_NUMBER).any(axis=1)
        return {int(row): "A trait of the profile is not a number" for row in np.flatnonzero(broken)}

    def ages(self, day: date) -> NDArray[np.int16]:
        """Ages in years on a day. Who was born on 29 February is a year older on 1 March of other years."""
        today = day.year * 10_000 + day.month * 100 + day.day
        ages: NDArray[np.int16] = ((today - self.rows["born"].astype(np.int32)) // 10_000).astype(np.int16)
        return ages

    def find(self, ids: NDArray[np.bytes_]) -> NDArray[np.intp]:
        """The row of each id, -1 where nobody has it. The rows have to be in the order of their ids."""
        if not len(self):
            return np.full(len(ids), -1)
        last = len(self) - 1
        rows = np.searchsorted(self._halves, _halves(ids)).clip(max=last)
        missed = self.ids[rows] != ids
        rows[missed] = np.searchsorted(self.ids, ids[missed]).clip(max=last)
        rows[self.ids[rows] != ids] = -1
        return rows

    @cached_property
    def _halves(self) -> NDArray[np.uint64]:
        return _halves(self.ids)


def _halves(ids: NDArray[np.bytes_]) -> NDArray[np.uint64]:
    """The first half of ids as numbers: they are found several times as fast, and seldom shared."""
    return np.ascontiguousarray(ids).view(">u8")[::2].astype(np.uint64)
