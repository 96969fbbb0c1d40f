"""Samples of many seeds, made once for all tests here."""

from functools import cache

import pytest

from tools.sample_generator import Sample, generate

SEEDS = tuple(range(20))


@cache
def sample_of(seed: int) -> Sample:
    """The sample of a seed, from memory where a test has asked for it before."""
    return generate(seed)


@pytest.fixture(params=SEEDS, ids="seed{}".format)
def sample(request: pytest.FixtureRequest) -> Sample:
    """The sample of each seed in turn."""
    return sample_of(request.param)


@pytest.fixture
def one_sample() -> Sample:
    """The sample of one seed, where one is enough."""
    return sample_of(7)
