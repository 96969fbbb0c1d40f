"""The same people get the same offers: on another machine, in other shards, in another order, tomorrow."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counterfoil.offers.compute import Pool
from counterfoil.offers.pool import People
from counterfoil.offers.schedule import VERSION
from tests.offers.generated import DAY, POOL, RULES, digest, generated, written

GOLDEN = json.loads((POOL.parent / "offers.json").read_text())
"""For `VERSION`: of a pool that was made once, the offers of some users, and the digest of all."""


@pytest.fixture(scope="module")
def everybody() -> People:
    return People.read(POOL.read_bytes())


def test_offers_are_those_that_they_always_were(everybody: People):
    texts = written(Pool(everybody, DAY), everybody)

    assert GOLDEN["version"] == VERSION
    assert [json.loads(text) for text in texts[: len(GOLDEN["offers"])]] == GOLDEN["offers"]
    assert digest(texts) == GOLDEN["digest"]


@pytest.mark.parametrize("rules", [{"most_offered": 5}, {"candidates": 40}], ids=["capped", "narrow"])
def test_offers_by_other_rules_are_those_that_they_always_were(everybody: People, rules: dict[str, int]):
    (name,) = rules

    assert digest(written(Pool(everybody, DAY), everybody, replace(RULES, **rules))) == GOLDEN[name]


@pytest.mark.parametrize("users", [1, 7, 100, 499])
def test_offers_are_the_same_whatever_shards_the_users_are_in(everybody: People, users: int):
    pool, texts = Pool(everybody, DAY), list[bytes]()
    for start in range(0, len(everybody), users):
        texts += written(pool, People(everybody.rows[start : start + users]))

    assert digest(texts) == GOLDEN["digest"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_offers_are_the_same_in_whatever_order_people_come(everybody: People, seed: int):
    shuffled = np.random.default_rng(seed).permutation(len(everybody))
    pool = Pool(People(everybody.rows[shuffled]), DAY)

    texts = written(pool, People(everybody.rows[shuffled]))

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
def test_offers_are_the_same_in_other_processes_and_on_other_processors(environment: dict[str, str]):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.offers.generated"],
        cwd=root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.returncode) == (GOLDEN["digest"], 0), done.stderr


def test_what_lies_between_is_the_same_for_few_users_and_for_many():
    people = generated(3000)
    pool = Pool(people, DAY)

    together = written(pool, people)

    assert together[:50] == written(pool, People(people.rows[:50]))
    assert together[-1:] == written(pool, People(people.rows[-1:]))
