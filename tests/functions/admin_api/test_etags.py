"""If-None-Match, as clients and the caches between may write it."""

import pytest

from functions.admin_api.etags import etag, names


@pytest.mark.parametrize("condition", ['"3"', 'W/"3"', '"1","3"', '"1" , W/"3"', "*", " * ", '"a,b", "3"'])
def test_a_condition_that_names_the_version_is_met(condition: str) -> None:
    assert names(condition, 3)


@pytest.mark.parametrize("condition", [None, "", "3", '"33"', '"13"', "'3'", '"', '"3', "**"])
def test_any_other_is_not(condition: str | None) -> None:
    assert not names(condition, 3)


def test_a_tag_is_strong() -> None:
    assert etag(3) == '"3"'
