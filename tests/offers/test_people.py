"""Packed profiles are parsed into arrays."""

from datetime import date
from uuid import UUID

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.offers.pool import PACKED_ROW, UNIT, ProfileArrays
from tests.offers.people import Person, pack_people, people


def test_packed_row_is_read_field_by_field(admin: psycopg.Connection):
    user, external_id = UUID("ffeeddcc-bbaa-9988-7766-554433221100"), UUID(int=1 << 120)
    row = admin.execute(
        "SELECT pack_profile(%s, %s, '1988-02-29', 'nonbinary', '{woman,nonbinary}', 25, 40, 0, 90, 300,"
        " '{1,-1,0.5,NULL,NaN,-7}'::real[])",
        [user, external_id],
    ).fetchone()
    assert row

    read = ProfileArrays.read(row[0])

    assert PACKED_ROW.itemsize == 76 == len(row[0])
    assert (read.ids.tobytes(), read.external_ids.tobytes()) == (user.bytes, external_id.bytes)
    assert len(read) == 1
    assert read.rows["place"].tolist() == [[0, UNIT, 0]]
    assert read.rows[["birth_date", "gender", "seeks_genders", "min_age", "max_age", "max_distance_km"]].tolist() == [
        (1988_02_29, 4, 5, 25, 40, 300)
    ]
    assert read.rows["traits"].tolist() == [[127, -127, 64, 0, -128, -127] + [0] * 10]
    assert read.rows.tobytes() == row[0]


def test_user_fixture_is_packed_like_database_rows(admin: psycopg.Connection):
    person = Person(UUID(int=7), 52.5, -13.4, 1990_06_05, 2, 3, 20, 50, 80)

    row = admin.execute(
        "SELECT pack_profile(%s, %s, '1990-06-05', 'man', '{woman,man}', 20, 50, 52.5, -13.4, 80, '{}')",
        [person.id, person.external_id],
    ).fetchone()

    assert row == (pack_people([person]),)


def test_ids_sort_by_uuid_value():
    ids = [UUID(int=0), UUID(int=1), UUID(int=256), UUID(int=1 << 127), UUID(int=(1 << 128) - 1)]

    read = people(*map(Person, ids))

    assert (read.ids[1:] > read.ids[:-1]).all()


def test_invalid_trait_is_reported_for_its_user():
    read = people(Person(UUID(int=1)), Person(UUID(int=2), traits=(0,) * 15 + (-128,)))

    assert read.faults == {1: "A trait of the profile is not a number"}


def test_truncated_rows_raise_value_error():
    with pytest.raises(ValueError, match="buffer size"):
        ProfileArrays.read(pack_people([Person(UUID(int=1))])[:-1])


@pytest.mark.parametrize(
    ("birth_date", "day", "age"),
    [
        (date(2000, 6, 15), date(2026, 6, 14), 25),
        (date(2000, 6, 15), date(2026, 6, 15), 26),
        (date(2008, 2, 29), date(2026, 2, 28), 17),
        (date(2008, 2, 29), date(2026, 3, 1), 18),
        (date(2008, 2, 29), date(2028, 2, 29), 20),
        (date(2026, 1, 2), date(2026, 1, 1), -1),
    ],
)
def test_age_changes_on_the_birthday(birth_date: date, day: date, age: int):
    person = Person(UUID(int=1), birth_date=int(birth_date.strftime("%Y%m%d")))

    assert people(person).ages(day).tolist() == [age]


@settings(deadline=None)
@given(st.sets(st.integers(0, 20) | st.integers(1 << 100, (1 << 100) + 9)), st.lists(st.integers(0, 20)))
def test_users_are_found_among_similar_ids(numbers: set[int], wanted: list[int]):
    people_ = people(*(Person(UUID(int=number)) for number in sorted(numbers))).find(
        people(*(Person(UUID(int=number)) for number in wanted)).ids
    )

    present = sorted(numbers)
    assert people_.tolist() == [present.index(number) if number in present else -1 for number in wanted]
