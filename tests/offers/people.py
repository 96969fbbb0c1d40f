"""Test people, packed as the database packs them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid5

import numpy as np

from counterfoil.offers.pool import ROW, UNIT, People

WOMAN, MAN, NONBINARY = 1, 2, 4


@dataclass(frozen=True)
class Person:
    """A person with the fields of the packed row; places in degrees."""

    id: UUID
    latitude: float = 52.5
    longitude: float = 13.4
    born: int = 1990_01_01
    gender: int = WOMAN
    seeks: int = WOMAN
    min_age: int = 18
    max_age: int = 120
    reach_km: int = 100
    traits: Sequence[int] = field(default=(0,) * 16)

    @property
    def external_id(self) -> UUID:
        return uuid5(self.id, "external")

    @property
    def place(self) -> tuple[int, int, int]:
        latitude, longitude = math.radians(self.latitude), math.radians(self.longitude)
        return (
            round(UNIT * math.cos(latitude) * math.cos(longitude)),
            round(UNIT * math.cos(latitude) * math.sin(longitude)),
            round(UNIT * math.sin(latitude)),
        )


def packed(people: Iterable[Person]) -> bytes:
    """Return the packed rows of people."""
    rows = [
        (
            p.id.bytes,
            p.external_id.bytes,
            p.place,
            p.born,
            p.gender,
            p.seeks,
            p.min_age,
            p.max_age,
            p.reach_km,
            tuple(p.traits),
        )
        for p in people
    ]
    return np.array(rows, ROW).tobytes()


def people(*persons: Person) -> People:
    return People.read(packed(persons))
