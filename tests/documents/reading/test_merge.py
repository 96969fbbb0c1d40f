"""Of what rules and a model read, the sure is kept, the open is filled, and amounts are taken together."""

from typing import Any

from counterfoil.documents.reading.merge import Read, merge_fields
from counterfoil.documents.reading.model import Answer
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.text.page import Evidence

INVOICE = DocumentType.INVOICE


def read(sure: float = 0.9, type_: DocumentType = INVOICE, **fields: Any) -> Read:
    return Read(type_, fields, _evidence("label", sure, fields))


def answer(type_: DocumentType = INVOICE, **fields: Any) -> Answer:
    return Answer(type_, fields, _evidence("model", 0.8, fields), ("A remark.",))


def _evidence(source: str, confidence: float, fields: dict[str, Any]) -> dict[str, Evidence]:
    paths = list[str]()
    for name, value in fields.items():
        if isinstance(value, dict):
            paths += [f"{name}.{part}" for part in value]
        elif isinstance(value, list):
            paths += [f"{name}.{place}.{part}" for place, line in enumerate(value) for part in line]
        else:
            paths.append(name)
    return {path: Evidence(source, confidence, 1) for path in paths}


LINES: list[dict[str, str]] = [{"net_amount": "60.00"}, {"net_amount": "40.00"}]
TOTALS: dict[str, Any] = {"total_net": "100.00", "total_tax": "19.00", "total_gross": "119.00"}


def test_without_rules_the_model_s_word_stands():
    found = merge_fields(None, answer(invoice_number="1"))
    assert (found.fields, found.remarks) == ({"invoice_number": "1"}, ("A remark.",))


def test_what_rules_are_sure_of_stays_and_what_they_left_open_is_filled():
    rules = read(invoice_number="1", issuer={"name": "Nordwind"})
    found = merge_fields(
        rules, answer(invoice_number="2", po_reference="P", issuer={"name": "NORDWIND", "city": "Bonn"})
    )
    assert found.fields == {"invoice_number": "1", "po_reference": "P", "issuer": {"name": "Nordwind", "city": "Bonn"}}
    assert {path: one.source for path, one in found.evidence.items()} == {
        "invoice_number": "label",
        "po_reference": "model",
        "issuer.name": "label",
        "issuer.city": "model",
    }


def test_what_a_model_says_of_another_firm_fills_no_gaps():
    rules = read(issuer={"name": "Nordwind GmbH"}, recipient={"name": "Acme"})
    swapped = answer(issuer={"name": "Acme", "city": "Bonn"}, recipient={"name": "Nordwind", "city": "Kiel"})
    assert merge_fields(rules, swapped).fields == rules.fields
    same = answer(issuer={"name": "NORDWIND", "city": "Kiel"})
    assert merge_fields(rules, same).fields["issuer"] == {"name": "Nordwind GmbH", "city": "Kiel"}


def test_what_rules_are_unsure_of_the_model_may_change():
    found = merge_fields(read(0.5, invoice_number="1", invoice_date="2026-01-02"), answer(invoice_number="2"))
    assert found.fields == {"invoice_number": "2", "invoice_date": "2026-01-02"}


def test_two_who_read_the_same_confirm_each_other():
    found = merge_fields(read(0.5, invoice_number="1"), answer(invoice_number="1"))
    assert found.evidence["invoice_number"] == Evidence("label", 0.9, 1)


def test_totals_are_taken_from_whoever_s_agree():
    wrong = {**TOTALS, "total_tax": "20.00"}
    assert merge_fields(read(0.5, **wrong), answer(**TOTALS)).fields == TOTALS
    assert merge_fields(read(0.5, **TOTALS), answer(**wrong)).fields == TOTALS
    assert merge_fields(read(0.5, total_gross="119.00"), answer(**TOTALS)).fields == TOTALS


def test_a_sure_total_is_not_exchanged_for_others_that_agree():
    others: dict[str, Any] = {"total_net": "50.00", "total_tax": "9.50", "total_gross": "59.50"}
    found = merge_fields(read(total_gross="119.00"), answer(**others))
    assert found.fields["total_gross"] == "119.00"


def test_lines_are_taken_from_whoever_s_make_the_total():
    short = LINES[:1]
    assert merge_fields(read(**TOTALS, line_items=short), answer(line_items=LINES)).fields["line_items"] == LINES
    assert merge_fields(read(**TOTALS, line_items=LINES), answer(line_items=short)).fields["line_items"] == LINES
    assert merge_fields(read(line_items=short), answer(line_items=LINES)).fields["line_items"] == short


def test_the_evidence_of_lines_is_that_of_whose_they_are():
    found = merge_fields(read(**TOTALS, line_items=[{"net_amount": "60.00"}]), answer(line_items=LINES))
    assert found.evidence["line_items.1.net_amount"].source == "model"
    assert "line_items.2.net_amount" not in found.evidence


def test_rules_that_are_sure_of_the_number_are_sure_of_the_type():
    sure, unsure = read(invoice_number="1"), read(0.5, invoice_number="1")
    other = answer(DocumentType.CREDIT_NOTE, credit_note_number="1")
    assert merge_fields(sure, other) == sure
    assert merge_fields(unsure, other).type is DocumentType.CREDIT_NOTE
    assert merge_fields(unsure, answer(DocumentType.OTHER)) == unsure
