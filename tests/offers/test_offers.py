"""Computed offers are stored as JSON, with a hash of their inputs."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID, uuid5

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.offers.pool import MATCHMAKING_NAMESPACE, PACKED_EXCLUSION, ProfileArrays, documents, inputs_hashes
from counterfoil.offers.schedule import Rules
from tests.offers.people import Person, people

DAY = date(2026, 11, 23)
RULES = Rules(max_offers=5, max_candidates=1000, max_exposure=None, repeat_interval_days=30)
ONE, TWO, THREE = UUID(int=1 << 120), UUID(int=2), UUID(int=3 << 64)
FOUR, FIVE, SIX = UUID(int=4), UUID(int=5 << 64), UUID(int=6 << 120)


def ids(*values: UUID) -> np.ndarray:
    return people(*map(Person, values)).ids


def external(user: UUID) -> UUID:
    return uuid5(user, "external")


def offer_id(day: date, user: UUID, candidate: UUID) -> UUID:
    return uuid5(MATCHMAKING_NAMESPACE, f"{day}:{user}:{candidate}")


def test_documents_have_the_documented_format():
    nine = datetime(2026, 11, 23, 9, tzinfo=timezone(timedelta(hours=5, minutes=45)))

    ids_, texts = documents(
        DAY,
        ids(ONE, TWO, THREE),
        ids(TWO, THREE, ONE),
        ids(SIX, FIVE, FOUR),
        np.array([2, 0, 1]),
        np.array([9000, 8000, 7]),
        nine,
        nine + timedelta(days=1),
    )

    times = {"offeredAt": "2026-11-23T03:15:00Z", "expiresAt": "2026-11-24T03:15:00Z"}
    assert [json.loads(text) for text in texts] == [
        [
            {"id": str(offer_id(DAY, ONE, TWO)), "userId": str(SIX), "compatibilityScore": 9000, **times},
            {"id": str(offer_id(DAY, ONE, THREE)), "userId": str(FIVE), "compatibilityScore": 8000, **times},
        ],
        [],
        [{"id": str(offer_id(DAY, THREE, ONE)), "userId": str(FOUR), "compatibilityScore": 7, **times}],
    ]
    expected = [offer_id(DAY, ONE, TWO), offer_id(DAY, ONE, THREE), offer_id(DAY, THREE, ONE)]
    assert ids_.tobytes() == b"".join(item.bytes for item in expected)


@given(st.dates(), st.lists(st.tuples(st.uuids(), st.lists(st.tuples(st.uuids(), st.integers(0, 10_000)), max_size=4))))
def test_documents_contain_every_offer_in_order(day: date, offered: list[tuple[UUID, list[tuple[UUID, int]]]]):
    nine = datetime(2026, 11, 23, 9, tzinfo=UTC)
    all_offers = [offer for _, offers in offered for offer in offers]

    ids_, texts = documents(
        day,
        np.array([user.bytes for user, _ in offered], "S16"),
        np.array([candidate.bytes for candidate, _ in all_offers], "S16"),
        np.array([external(candidate).bytes for candidate, _ in all_offers], "S16"),
        np.array([len(offers) for _, offers in offered], int),
        np.array([score for _, score in all_offers], int),
        nine,
        nine + timedelta(days=1),
    )

    decoded = [
        [(UUID(one["id"]), UUID(one["userId"]), one["compatibilityScore"]) for one in json.loads(t)] for t in texts
    ]
    expected = [
        [(offer_id(day, user, candidate), external(candidate), score) for candidate, score in offers]
        for user, offers in offered
    ]
    assert decoded == expected
    assert ids_.tobytes() == b"".join(id_.bytes for offers in expected for id_, _, _ in offers)


def hashes(
    users: ProfileArrays | None = None,
    *,
    pool: bytes = b"p",
    rules: Rules = RULES,
    excluded: list[tuple[int, UUID]] | None = None,
) -> list[bytes]:
    users = people(Person(ONE), Person(TWO)) if users is None else users
    rows = [(number, candidate.bytes) for number, candidate in excluded or []]
    return inputs_hashes(pool, rules, users, np.array(rows, PACKED_EXCLUSION))


def test_hash_does_not_depend_on_the_shard():
    single = hashes(people(Person(TWO)), excluded=[(0, ONE), (0, THREE)])
    combined = hashes(excluded=[(0, THREE), (1, ONE), (1, THREE)])

    assert single == combined[1:]
    assert len(single[0]) == 32


def test_hash_depends_on_pool_rules_exclusions_and_profile():
    rest = [
        hashes(),
        hashes(pool=b"q"),
        hashes(rules=replace(RULES, max_offers=6)),
        hashes(rules=replace(RULES, max_exposure=9)),
        hashes(excluded=[(0, TWO)]),
        hashes(excluded=[(0, THREE)]),
        hashes(people(Person(ONE, max_distance_km=99))),
    ]

    assert len({item[0] for item in rest}) == len(rest)


def test_exclusion_changes_only_that_users_hash():
    assert hashes(excluded=[(0, THREE)])[1] == hashes()[1]
