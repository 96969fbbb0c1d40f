"""Test users, packed as the database packs profiles."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid5

import numpy as np

from counterfoil.offers.pool import PACKED_ROW, UNIT, ProfileArrays

WOMAN, MAN, NONBINARY = 1, 2, 4


@dataclass(frozen=True)
class Person:
    """A user with the fields of a packed row. Latitude and longitude are in degrees."""

    id: UUID
    latitude: float = 52.5
    longitude: float = 13.4
    birth_date: int = 1990_01_01
    gender: int = WOMAN
    seeks_genders: int = WOMAN
    min_age: int = 18
    max_age: int = 120
    max_distance_km: int = 100
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


def pack_people(people: Iterable[Person]) -> bytes:
    """Return the concatenated packed rows of these users."""
    rows = [
        (
            p.id.bytes,
            p.external_id.bytes,
            p.place,
            p.birth_date,
            p.gender,
            p.seeks_genders,
            p.min_age,
            p.max_age,
            p.max_distance_km,
            tuple(p.traits),
        )
        for p in people
    ]
    return np.array(rows, PACKED_ROW).tobytes()


def people(*persons: Person) -> ProfileArrays:
    return ProfileArrays.read(pack_people(persons))
