"""Data is extracted correctly from documents in many layouts."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from counterfoil.documents.structured import to_structured_data
from counterfoil.documents.text import reading
from counterfoil.documents.text.page import pages
from tests.benchmarks.extraction.scoring import Counts, compare, compare_lines, header
from tests.documents.text.drawn_documents import DRAWN_DOCUMENTS, DrawnDocument
from tests.documents.text.drawn_documents.holdout import HOLDOUT
from tests.documents.text.drawn_documents.sheet import Sheet


@pytest.mark.parametrize("draw", DRAWN_DOCUMENTS, ids=lambda draw: draw.__name__.replace("_", " "))
def test_drawn_document_is_extracted_correctly(draw: Callable[[], DrawnDocument]):
    document = draw()
    kind, header_counts, lines = _compare(document)
    assert kind == document.type
    assert header_counts.misses + lines.misses == []


def test_holdout_documents_reach_the_required_score():
    """The first F1 scores were 0.961 for headers and 0.966 for line items.

    Earlier holdout documents scored 0.77 to 0.89.
    """
    header_counts, lines = Counts(), Counts()
    for draw in HOLDOUT:
        document = draw()
        kind, document_header, document_lines = _compare(document)
        assert kind == document.type
        header_counts.add(document_header)
        lines.add(document_lines)
    assert header_counts.f1 >= 0.95
    assert lines.f1 >= 0.85


@pytest.mark.parametrize("draw", [*DRAWN_DOCUMENTS, *HOLDOUT], ids=lambda draw: draw.__name__.replace("_", " "))
def test_expected_totals_of_drawn_documents_add_up(draw: Callable[[], DrawnDocument]):
    expected = draw().expected
    nets = [Decimal(line["net_amount"]) for line in expected["line_items"] if "net_amount" in line]
    if "total_net" in expected and len(nets) == len(expected["line_items"]):
        assert sum(nets) == Decimal(expected["total_net"])
    if {"total_net", "total_tax"} <= expected.keys():
        total = Decimal(expected["total_net"]) + Decimal(expected["total_tax"])
        assert abs(total - Decimal(expected["total_gross"])) <= Decimal("0.01")


def test_payment_reminder_is_not_an_invoice():
    sheet = Sheet()
    sheet.rows(20, 20, "Holzmanufaktur Brandt e.K.", "Dorfstr. 12", "29439 Lüchow")
    sheet.at(20, 60, "Zahlungserinnerung", 14, bold=True)
    sheet.table(75, "20 60 100 150r", "Rechnung|471188|17.07.2024|142,44 EUR")
    assert reading.read(pages(sheet.finish("other", {}).content)) is None


def test_unexplained_tax_code_is_not_a_tax_rate():
    sheet = Sheet()
    sheet.rows(20, 20, "PAPETERIE DU CENTRE", "22 place Bellecour", "69002 LYON")
    sheet.at(20, 60, "Facture n° 4711 du 12/03/2024", 13, bold=True)
    sheet.table(80, "20 110r 140r 170r 190r", "Ramette papier A4|50|4,10|205,00|1", "Toner noir|2|118,00|236,00|2",
                heading="Désignation|Qté|P.U. HT|Montant HT|TVA")  # fmt: skip
    read = reading.read(pages(sheet.finish("invoice", {}).content))
    assert read is not None
    assert [line.get("tax_rate") for line in read.fields["line_items"]] == [None, None]


def _compare(document: DrawnDocument) -> tuple[str | None, Counts, Counts]:
    """Return the extracted type, and agreement counts of headers and line items."""
    reading_ = reading.read(pages(document.content))
    data = {} if reading_ is None else to_structured_data(reading_.type, reading_.fields)[0].data()
    header_counts = compare(header(document.expected), header(data), _shows_all)
    lines = compare_lines(document.expected["line_items"], data.get("line_items", []), _shows_all)
    return None if reading_ is None else reading_.type.value, header_counts, lines


def _shows_all(_name: str, _value: str) -> bool:
    return True
