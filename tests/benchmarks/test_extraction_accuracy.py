"""Text extraction is accurate on real invoices.

Skipped unless the corpus is next to the repository.
"""

import pytest

from tests.benchmarks.extraction.__main__ import DATA, measure

FILES = sorted(DATA.rglob("*.pdf"))


@pytest.mark.skipif(not FILES, reason="the corpus is not next to the repository")
def test_extraction_from_pages_reaches_the_required_accuracy():
    figures = measure(FILES, DATA)
    assert figures.heads.f1 >= 0.95
    assert figures.lines.f1 >= 0.85
    assert figures.exact == figures.hybrids > 0
