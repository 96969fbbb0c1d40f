"""Samples for many seeds, generated once for all tests in this folder."""

from functools import cache

import pytest

from tools.sample_generator import Sample, generate

SEEDS = tuple(range(20))


@cache
def sample_of(seed: int) -> Sample:
    """Return the cached sample for a seed."""
    return generate(seed)


@pytest.fixture(params=SEEDS, ids="seed{}".format)
def sample(request: pytest.FixtureRequest) -> Sample:
    """The sample for each seed in turn."""
    return sample_of(request.param)


@pytest.fixture
def one_sample() -> Sample:
    """The sample for one seed."""
    return sample_of(7)
