"""Reference implementation of offers that compares one pair of users at a time."""

import math
from collections.abc import Collection, Iterable
from datetime import date
from functools import cache
from uuid import UUID

from counterfoil.offers.compute import curve_positions, squared_line
from counterfoil.offers.schedule import Rules
from tests.offers.people import Person, people


def offers(
    pool: Iterable[Person], user: Person, excluded: Collection[UUID], rules: Rules, day: date
) -> list[tuple[UUID, int]]:
    """Return the candidates offered to a user, with their scores, best first."""
    if has_invalid_trait(user):
        return []
    near = sorted((p for p in pool if not has_invalid_trait(p) and may_suit(p, user, day)), key=curve_order)
    before = sum(curve_order(p) < curve_order(user) for p in near)
    first = max(0, min(before - rules.max_candidates // 2, len(near) - rules.max_candidates))
    scored = [
        (-score(user, p, day), p.id)
        for p in near[first : first + rules.max_candidates]
        if p.id != user.id
        and p.id not in excluded
        and suits(p, user, day)
        and suits(user, p, day)
        and are_within_reach(user, p)
    ]
    return [(candidate, -score) for score, candidate in sorted(scored)[: rules.max_offers]]


def has_invalid_trait(person: Person) -> bool:
    return -128 in person.traits


@cache
def curve_order(person: Person) -> tuple[int, bytes]:
    return int(curve_positions(people(person).rows["place"])[0]), person.id.bytes


def may_suit(candidate: Person, user: Person, day: date) -> bool:
    years = age(user, day) // 5 * 5
    genders = candidate.gender & user.seeks_genders and user.gender & candidate.seeks_genders
    return bool(genders) and candidate.min_age <= years + 4 and candidate.max_age >= years


def suits(first: Person, second: Person, day: date) -> bool:
    return bool(first.seeks_genders & second.gender) and first.min_age <= age(second, day) <= first.max_age


def age(person: Person, day: date) -> int:
    year, month_day = divmod(person.birth_date, 10_000)
    return day.year - year - ((day.month, day.day) < divmod(month_day, 100))


def squared_distance(first: Person, second: Person) -> int:
    return sum((a - b) ** 2 for a, b in zip(first.place, second.place, strict=True))


def are_within_reach(first: Person, second: Person) -> bool:
    return squared_distance(first, second) <= squared_line(min(first.max_distance_km, second.max_distance_km))


def score(first: Person, second: Person, day: date) -> int:
    lengths = math.sqrt(sum(t * t for t in first.traits)) * math.sqrt(sum(t * t for t in second.traits))
    similarity = sum(a * b for a, b in zip(first.traits, second.traits, strict=True)) / lengths if lengths else 0.0
    distance = math.sqrt(
        squared_distance(first, second) / squared_line(min(first.max_distance_km, second.max_distance_km))
    )
    years = min(abs(age(first, day) - age(second, day)), 20)
    return int(3000.0 * similarity - 2500.0 * distance + (7000.5 - 75.0 * years))
