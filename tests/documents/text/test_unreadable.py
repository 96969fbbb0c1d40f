"""Amounts in a font without usable characters are named, field by field."""

from counterfoil.documents.extraction import extract
from counterfoil.documents.text import unreadable
from counterfoil.documents.text.page import Page, Word, pages
from tests.documents.reading.papers import LASKU, printed, without_amounts


def test_amounts_are_named_by_field() -> None:
    assert unreadable.unreadable(pages(without_amounts()), {}) == {"line_items": 1, "total_net": 1, "total_gross": 1}


def test_extraction_warns_about_unreadable_amounts() -> None:
    found = extract(without_amounts())

    assert found.structured_data is not None
    assert found.structured_data["invoice_number"] == "R-2026-17"
    assert found.remarks[-1] == (
        "Printed on page 1 in a font without usable characters, so not read: line_items, total_gross, total_net. "
        "Print the document to a new PDF and send that."
    )


def test_readable_amounts_are_not_named() -> None:
    read = {"line_items": [{}], "total_net": "1020.00", "total_gross": "1213.80"}
    assert unreadable.warning(pages(without_amounts()), read) is None
    assert unreadable.warning(pages(printed(LASKU)), {}) is None


def test_symbols_beside_text_are_not_amounts() -> None:
    total, bullet = Word("Gesamtbetrag", 50, 10, 120, 20), Word("\ufffd", 300, 10, 310, 20)
    assert unreadable.warning([Page(595, 842, (total,), 1, (bullet,))], {}) is None
