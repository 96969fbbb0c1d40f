"""Offers are the same on every machine, regardless of shards and input order."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counterfoil.offers.compute import Pool
from counterfoil.offers.pool import ProfileArrays
from counterfoil.offers.schedule import VERSION
from tests.offers.profile_generator import DAY, POOL, RULES, digest, generate_profiles, offer_texts

GOLDEN = json.loads((POOL.parent / "offers.json").read_text())
"""Offers of the first users of a fixed pool, and digests of all offers, computed with `VERSION`."""


@pytest.fixture(scope="module")
def golden_people() -> ProfileArrays:
    return ProfileArrays.read(POOL.read_bytes())


def test_offers_equal_the_golden_values(golden_people: ProfileArrays):
    texts = offer_texts(Pool(golden_people, DAY), golden_people)

    assert GOLDEN["version"] == VERSION
    assert [json.loads(text) for text in texts[: len(GOLDEN["offers"])]] == GOLDEN["offers"]
    assert digest(texts) == GOLDEN["digest"]


@pytest.mark.parametrize("rules", [{"max_exposure": 5}, {"max_candidates": 40}], ids=["capped", "narrow"])
def test_offers_under_other_rules_equal_golden_values(golden_people: ProfileArrays, rules: dict[str, int]):
    (name,) = rules

    assert digest(offer_texts(Pool(golden_people, DAY), golden_people, replace(RULES, **rules))) == GOLDEN[name]


@pytest.mark.parametrize("users", [1, 7, 100, 499])
def test_offers_do_not_depend_on_shards(golden_people: ProfileArrays, users: int):
    pool, texts = Pool(golden_people, DAY), list[bytes]()
    for start in range(0, len(golden_people), users):
        texts += offer_texts(pool, ProfileArrays(golden_people.rows[start : start + users]))

    assert digest(texts) == GOLDEN["digest"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_offers_do_not_depend_on_input_order(golden_people: ProfileArrays, seed: int):
    shuffled = np.random.default_rng(seed).permutation(len(golden_people))
    pool = Pool(ProfileArrays(golden_people.rows[shuffled]), DAY)

    texts = offer_texts(pool, ProfileArrays(golden_people.rows[shuffled]))

    assert digest(texts[at] for at in np.argsort(shuffled)) == GOLDEN["digest"]


@pytest.mark.parametrize(
    "environment",
    [
        {"OPENBLAS_NUM_THREADS": "1"},
        {"OPENBLAS_NUM_THREADS": "2"},
        {"OPENBLAS_CORETYPE": "Prescott"},
        {"OPENBLAS_CORETYPE": "Haswell"},
        {"NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3"},
        {"PYTHONHASHSEED": "7"},
    ],
    ids=lambda environment: next(iter(environment.items())),
)
def test_offers_do_not_depend_on_process_or_processor(environment: dict[str, str]):
    root = Path(__file__).parents[2]
    completed = subprocess.run(
        [sys.executable, "-m", "tests.offers.profile_generator"],
        cwd=root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (completed.stdout, completed.returncode) == (GOLDEN["digest"], 0), completed.stderr


def test_offers_do_not_depend_on_batch_size():
    people = generate_profiles(3000)
    pool = Pool(people, DAY)

    combined = offer_texts(pool, people)

    assert combined[:50] == offer_texts(pool, ProfileArrays(people.rows[:50]))
    assert combined[-1:] == offer_texts(pool, ProfileArrays(people.rows[-1:]))
