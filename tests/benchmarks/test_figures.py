"""What is read from real pages stays as good as it was. The corpus lies beside the repository; absent, this skips."""

import pytest

from tests.benchmarks.extraction.__main__ import DATA, measure

FILES = sorted(DATA.rglob("*.pdf"))


@pytest.mark.skipif(not FILES, reason="the corpus is not beside the repository")
def test_the_pages_of_hybrids_give_what_their_xml_states():
    figures = measure(FILES, DATA)
    assert figures.heads.f1 >= 0.95
    assert figures.lines.f1 >= 0.85
    assert figures.exact == figures.hybrids > 0
