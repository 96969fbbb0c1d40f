"""Generate pools of users around cities of different sizes.

`python -m tests.offers.profile_generator` prints the digest of the golden pool's offers.
"""

import hashlib
import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np

from counterfoil.offers.compute import Pool, compute
from counterfoil.offers.pool import PACKED_EXCLUSION, PACKED_ROW, UNIT, ProfileArrays, documents
from counterfoil.offers.schedule import Rules
from tests.offers.people import MAN, NONBINARY, WOMAN

DAY = date(2026, 11, 23)
RULES = Rules(max_offers=5, max_candidates=1000, max_exposure=None, repeat_interval_days=30)
NINE = datetime(2026, 11, 23, 8, tzinfo=UTC)
POOL = Path(__file__).parent / "golden" / "pool.bin"


def generate_profiles(count: int, *, seed: int = 1, cities: int = 60, away_km: float = 15) -> ProfileArrays:
    """Return users ordered by id.

    About a fifth of all neighboring pairs are compatible.

    `away_km` is the mean distance of users from the city center.
    """
    random = np.random.default_rng(seed)
    rows = np.zeros(count, PACKED_ROW)
    ids = random.integers(0, 256, (count, 16), dtype=np.uint8)
    rows["id"] = rows["external_id"] = np.sort(ids.view("S16").ravel())
    sizes = 1 / np.arange(1, cities + 1)
    city = random.choice(cities, count, p=sizes / sizes.sum())
    distances, towards = random.exponential(away_km / 111, count), random.uniform(0, 2 * np.pi, count)
    latitude = random.uniform(36, 60, cities)[city] + distances * np.sin(towards)
    longitude = random.uniform(-9, 25, cities)[city] + distances * np.cos(towards) / np.cos(np.radians(latitude))
    latitude, longitude = np.radians(latitude), np.radians(longitude)
    sphere = np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)
    rows["place"] = np.rint(UNIT * np.stack(sphere, axis=1))
    age = np.minimum(18 + random.gamma(2.2, 7, count).astype(int), 85)
    rows["birth_date"] = (DAY.year - age) * 10_000 + random.integers(1, 13, count) * 100 + random.integers(1, 29, count)
    gender = random.choice([WOMAN, MAN, NONBINARY], count, p=[0.48, 0.49, 0.03])
    other = np.where(gender == WOMAN, MAN, np.where(gender == MAN, WOMAN, random.choice([WOMAN, MAN], count)))
    kind = random.random(count)
    rows["gender"] = gender
    rows["seeks_genders"] = np.select([kind < 0.88, kind < 0.93, kind < 0.97], [other, gender, WOMAN | MAN], 7)
    rows["min_age"] = np.maximum(18, age - random.integers(3, 12, count))
    rows["max_age"] = age + random.integers(3, 12, count)
    rows["max_distance_km"] = random.choice([10, 25, 50, 100, 300, 20_100], count, p=[0.15, 0.3, 0.3, 0.15, 0.08, 0.02])
    rows["traits"] = np.rint(random.normal(0, 50, (count, 16))).clip(-127, 127)
    return ProfileArrays(rows)


def no_exclusions() -> np.ndarray:
    """Return an empty array of exclusions."""
    return np.empty(0, PACKED_EXCLUSION)


def offer_texts(pool: Pool, users: ProfileArrays, rules: Rules = RULES) -> list[bytes]:
    """Return each user's offers with ids, as the stored JSON."""
    computed_ = compute(pool, users, no_exclusions(), rules)
    candidates = pool.people.ids[computed_.candidates]
    external_ids = pool.people.external_ids[computed_.candidates]
    times = NINE, NINE + timedelta(days=1)
    return list(documents(DAY, users.ids, candidates, external_ids, computed_.counts, computed_.scores, *times)[1])


def digest(texts: Iterable[bytes]) -> str:
    """Return one SHA-256 hash of all texts."""
    return hashlib.sha256(b"\n".join(texts)).hexdigest()


if __name__ == "__main__":
    golden_people = ProfileArrays.read(POOL.read_bytes())
    sys.stdout.write(digest(offer_texts(Pool(golden_people, DAY), golden_people)))
