"""Stored ids, the API description, extractions and matches are unchanged."""

import pytest

from tests.golden import values

needs_data = pytest.mark.skipif(not values.FILES, reason="the corpora are not next to the repository")


def test_stored_ids_and_hashes_are_unchanged() -> None:
    assert values.identities() == values.read("identities")


def test_api_description_is_unchanged() -> None:
    assert values.openapi() == values.read("openapi")


@needs_data
def test_extraction_of_real_invoices_is_unchanged() -> None:
    assert dict(values.extraction()) == values.read("extraction")


@needs_data
@pytest.mark.parametrize("name", values.SETS)
def test_matching_of_labeled_sets_is_unchanged(name: str) -> None:
    assert values.matching(name) == values.read("matching")[name]
