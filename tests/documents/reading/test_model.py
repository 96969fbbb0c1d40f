"""Prompts contain the pages, and the model's answers are validated against them."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from counterfoil.documents.reading import model
from counterfoil.documents.reading.grounding import Grounding
from counterfoil.documents.reading.model import LlmExtraction, answer_schema, grounded_fields, question
from counterfoil.documents.structured import MODELS, ROLES, DocumentType
from counterfoil.documents.text import page
from counterfoil.llm import LlmRequest
from tests.documents.reading.samples import LASKU, READ, text_pdf

PAGES = page.pages(text_pdf(LASKU))


def question_content(inquiry: LlmRequest) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(inquiry.user.removeprefix("<document>\n").removesuffix("\n</document>"))
    return content


def test_model_schema_covers_every_field():
    roles = {name for role in ROLES.values() for name in (role.number, role.date, role.seller, role.buyer)}
    fields = {name for kind, form_ in MODELS.items() if kind is not DocumentType.OTHER for name in form_.model_fields}
    assert fields - roles <= set(LlmExtraction.model_fields)


def test_prompt_keeps_columns_apart():
    assert "Ruuvi M8x40   1 200   0,85   1 020,00" in question_content(question(PAGES, lines=True))["pages"][0]["text"]


def test_same_pages_yield_the_same_prompt():
    assert question(PAGES, lines=True) == question(page.pages(text_pdf(LASKU)), lines=True)
    assert question(PAGES, lines=True) != question(PAGES, lines=False)


def test_prompt_for_long_document_omits_middle_pages(monkeypatch: pytest.MonkeyPatch):
    pages = page.pages(text_pdf(*([f"Page {number} " + "x" * 90] for number in range(1, 10))))
    monkeypatch.setattr(model, "MAX_CHARACTERS", 350)
    content_ = question_content(question(pages, lines=True))
    assert [page_["page"] for page_ in content_["pages"]] == [1, 2, 3, 9]
    assert content_["omitted_pages"] == [4, 5, 6, 7, 8]
    assert sum(len(page_["text"]) for page_ in content_["pages"]) == 350


def test_json_numbers_become_strings():
    extraction_ = LlmExtraction.model_validate(
        {"type": "invoice", "total_gross": 1506.5, "line_items": [{"quantity": 3}], "buyer": {}}
    )
    assert extraction_.data() == {"type": "invoice", "total_gross": "1506.5", "line_items": [{"quantity": "3"}]}


@pytest.mark.parametrize("currency", ["\u20ac", "EURO", "12"])
def test_currency_must_be_a_code(currency: str):
    with pytest.raises(ValidationError):
        LlmExtraction.model_validate({"type": "invoice", "currency": currency})
    assert LlmExtraction.model_validate({"type": "invoice", "currency": "eur"}).currency == "EUR"


@pytest.mark.parametrize("changes", [{"number": "L-2026"}, {"date": "2026-03-15"}, {"total_gross": "1506.01"}])
def test_essential_value_absent_from_pages_is_rejected(changes: dict[str, str]):
    grounded = answer_schema(Grounding(PAGES))
    grounded.model_validate(READ)
    with pytest.raises(ValidationError, match="not on the pages"):
        grounded.model_validate(READ | changes)


def count(pages: Any = PAGES, **changes: Any) -> model.GroundedExtraction:
    return grounded_fields(LlmExtraction.model_validate(READ | changes), Grounding(pages))


def test_field_names_depend_on_the_type():
    assert count().fields["issuer"]["name"] == "Kuusela Oy"
    order = count(type="purchase_order")
    assert (order.fields["po_number"], order.fields["order_date"]) == ("L-2026/118", "2026-03-14")
    assert (order.fields["supplier"]["city"], order.fields["buyer"]["city"]) == ("Tampere", "Hamburg")


def test_party_with_invented_name_is_dropped():
    grounded_result = count(seller=READ["seller"] | {"name": "Acme Corporation"})
    assert "issuer" not in grounded_result.fields
    assert not [path for path in grounded_result.evidence if path.startswith("issuer")]


def test_invented_line_item_is_dropped_and_others_renumbered():
    invented = {"description": "Vasara", "quantity": "77", "net_amount": "88.00"}
    grounded_result = count(line_items=[invented, READ["line_items"][1]])
    assert grounded_result.fields["line_items"] == [READ["line_items"][1]]
    assert {path for path in grounded_result.evidence if path.startswith("line_items")} == {
        f"line_items.0.{name}" for name in READ["line_items"][1]
    }


def test_references_absent_from_pages_are_dropped():
    grounded_result = count(po_reference=["PO 4711-22", "PO 9999"])
    assert grounded_result.fields["po_reference"] == ["PO 4711-22"]
    assert grounded_result.warnings == (
        "po_reference is not on the pages as the language model returned it, and was omitted.",
    )


def test_tax_and_bank_ids_are_normalized_and_checked():
    pages = page.pages(text_pdf([*LASKU, "DE 136 695 976", "FI21 1234 5600 0007 85", "Y-tunnus 1234567-8"]))
    seller = READ["seller"] | {"vat_id": "DE 136 695 976", "iban": "FI21 1234 5600 0007 85"}
    grounded_result = count(pages, seller=seller, buyer=READ["buyer"] | {"vat_id": "1234567-8"})
    assert (grounded_result.fields["issuer"]["vat_id"], grounded_result.fields["issuer"]["iban"]) == (
        "DE136695976",
        "FI2112345600000785",
    )
    assert grounded_result.evidence["issuer.vat_id"].confidence == 0.8
    assert grounded_result.evidence["recipient.vat_id"].confidence == 0.4


def test_known_units_become_codes():
    pages = page.pages(text_pdf([*LASKU, "kg kpl"]))
    lines = [READ["line_items"][0] | {"unit": "kg"}, READ["line_items"][1] | {"unit": "kpl"}]
    assert [line["unit"] for line in count(pages, line_items=lines).fields["line_items"]] == ["KGM", "kpl"]
