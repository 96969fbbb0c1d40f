"""Model values fill gaps in rule results, and replace only uncertain values."""

from typing import Any

from counterfoil.documents.reading.merge import ReadFields, merge_fields
from counterfoil.documents.reading.model import GroundedExtraction
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.text.page import Evidence

INVOICE = DocumentType.INVOICE


def rule_reading(confidence: float = 0.9, type_: DocumentType = INVOICE, **fields: Any) -> ReadFields:
    return ReadFields(type_, fields, _evidence("label", confidence, fields))


def model_reading(type_: DocumentType = INVOICE, **fields: Any) -> GroundedExtraction:
    return GroundedExtraction(type_, fields, _evidence("model", 0.8, fields), ("A remark.",))


def _evidence(source: str, confidence: float, fields: dict[str, Any]) -> dict[str, Evidence]:
    paths = list[str]()
    for name, value in fields.items():
        if isinstance(value, dict):
            paths += [f"{name}.{part}" for part in value]
        elif isinstance(value, list):
            paths += [f"{name}.{index}.{part}" for index, line in enumerate(value) for part in line]
        else:
            paths.append(name)
    return {path: Evidence(source, confidence, 1) for path in paths}


LINES: list[dict[str, str]] = [{"net_amount": "60.00"}, {"net_amount": "40.00"}]
TOTALS: dict[str, Any] = {"total_net": "100.00", "total_tax": "19.00", "total_gross": "119.00"}


def test_model_answer_is_used_without_rule_results():
    merged = merge_fields(None, model_reading(invoice_number="1"))
    assert (merged.fields, merged.warnings) == ({"invoice_number": "1"}, ("A remark.",))


def test_certain_rule_values_remain_and_gaps_are_filled():
    rules = rule_reading(invoice_number="1", issuer={"name": "Nordwind"})
    merged = merge_fields(
        rules, model_reading(invoice_number="2", po_reference="P", issuer={"name": "NORDWIND", "city": "Bonn"})
    )
    assert merged.fields == {"invoice_number": "1", "po_reference": "P", "issuer": {"name": "Nordwind", "city": "Bonn"}}
    assert {path: evidence.source for path, evidence in merged.evidence.items()} == {
        "invoice_number": "label",
        "po_reference": "model",
        "issuer.name": "label",
        "issuer.city": "model",
    }


def test_model_party_with_another_name_fills_no_gaps():
    rules = rule_reading(issuer={"name": "Nordwind GmbH"}, recipient={"name": "Acme"})
    swapped = model_reading(issuer={"name": "Acme", "city": "Bonn"}, recipient={"name": "Nordwind", "city": "Kiel"})
    assert merge_fields(rules, swapped).fields == rules.fields
    same = model_reading(issuer={"name": "NORDWIND", "city": "Kiel"})
    assert merge_fields(rules, same).fields["issuer"] == {"name": "Nordwind GmbH", "city": "Kiel"}


def test_model_replaces_uncertain_rule_values():
    merged = merge_fields(
        rule_reading(0.5, invoice_number="1", invoice_date="2026-01-02"), model_reading(invoice_number="2")
    )
    assert merged.fields == {"invoice_number": "2", "invoice_date": "2026-01-02"}


def test_agreement_of_rules_and_model_raises_confidence():
    merged = merge_fields(rule_reading(0.5, invoice_number="1"), model_reading(invoice_number="1"))
    assert merged.evidence["invoice_number"] == Evidence("label", 0.9, 1)


def test_consistent_totals_are_preferred():
    wrong = {**TOTALS, "total_tax": "20.00"}
    assert merge_fields(rule_reading(0.5, **wrong), model_reading(**TOTALS)).fields == TOTALS
    assert merge_fields(rule_reading(0.5, **TOTALS), model_reading(**wrong)).fields == TOTALS
    assert merge_fields(rule_reading(0.5, total_gross="119.00"), model_reading(**TOTALS)).fields == TOTALS


def test_certain_total_is_not_replaced_by_consistent_totals():
    other_totals: dict[str, Any] = {"total_net": "50.00", "total_tax": "9.50", "total_gross": "59.50"}
    merged = merge_fields(rule_reading(total_gross="119.00"), model_reading(**other_totals))
    assert merged.fields["total_gross"] == "119.00"


def test_lines_adding_up_to_the_total_are_preferred():
    short = LINES[:1]
    assert (
        merge_fields(rule_reading(**TOTALS, line_items=short), model_reading(line_items=LINES)).fields["line_items"]
        == LINES
    )
    assert (
        merge_fields(rule_reading(**TOTALS, line_items=LINES), model_reading(line_items=short)).fields["line_items"]
        == LINES
    )
    assert merge_fields(rule_reading(line_items=short), model_reading(line_items=LINES)).fields["line_items"] == short


def test_line_evidence_matches_the_chosen_lines():
    merged = merge_fields(rule_reading(**TOTALS, line_items=[{"net_amount": "60.00"}]), model_reading(line_items=LINES))
    assert merged.evidence["line_items.1.net_amount"].source == "model"
    assert "line_items.2.net_amount" not in merged.evidence


def test_certain_document_number_determines_the_type():
    certain, uncertain = rule_reading(invoice_number="1"), rule_reading(0.5, invoice_number="1")
    other = model_reading(DocumentType.CREDIT_NOTE, credit_note_number="1")
    assert merge_fields(certain, other) == certain
    assert merge_fields(uncertain, other).type is DocumentType.CREDIT_NOTE
    assert merge_fields(uncertain, model_reading(DocumentType.OTHER)) == uncertain
