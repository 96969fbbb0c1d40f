"""Papers in layouts that no rule was made for are read as what they state."""

from collections.abc import Callable

import pytest

from counterfoil.documents import text
from counterfoil.documents.structured import structure
from counterfoil.documents.text.page import pages
from tests.benchmarks.extraction.scoring import compare, compare_lines, header
from tests.documents.text.strangers import STRANGERS, Stranger


@pytest.mark.parametrize("draw", STRANGERS, ids=lambda draw: draw.__name__.replace("_", " "))
def test_a_stranger_s_paper_is_read_as_what_it_states(draw: Callable[[], Stranger]):
    paper = draw()
    found = text.read(pages(paper.content))
    assert found is not None
    assert found.type.value == paper.type
    data = structure(found.type, found.fields)[0].data()
    head = compare(header(paper.states), header(data), _shows_all)
    lines = compare_lines(paper.states["line_items"], data.get("line_items", []), _shows_all)
    assert head.misses + lines.misses == []


def _shows_all(_name: str, _value: str) -> bool:
    return True
