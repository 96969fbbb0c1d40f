"""What is asked of a model, and what counts of its answer."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from counterfoil.documents.reading import model
from counterfoil.documents.reading.grounding import Grounds
from counterfoil.documents.reading.model import Said, counted, form, question
from counterfoil.documents.structured import MODELS, ROLES, DocumentType
from counterfoil.documents.text import page
from counterfoil.llm import Question
from tests.documents.reading.papers import LASKU, READ, printed

PAGES = page.pages(printed(LASKU))


def asked(inquiry: Question) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(inquiry.user.removeprefix("<document>\n").removesuffix("\n</document>"))
    return found


def test_every_field_of_every_type_can_be_said():
    roles = {name for role in ROLES.values() for name in (role.number, role.date, role.seller, role.buyer)}
    fields = {name for kind, form_ in MODELS.items() if kind is not DocumentType.OTHER for name in form_.model_fields}
    assert fields - roles <= set(Said.model_fields)


def test_columns_stay_apart_in_the_question():
    assert "Ruuvi M8x40   1 200   0,85   1 020,00" in asked(question(PAGES, lines=True))["pages"][0]["text"]


def test_the_same_pages_are_the_same_question():
    assert question(PAGES, lines=True) == question(page.pages(printed(LASKU)), lines=True)
    assert question(PAGES, lines=True) != question(PAGES, lines=False)


def test_of_a_long_document_the_first_pages_and_the_last_are_shown(monkeypatch: pytest.MonkeyPatch):
    pages = page.pages(printed(*([f"Page {number} " + "x" * 90] for number in range(1, 10))))
    monkeypatch.setattr(model, "MAX_CHARACTERS", 350)
    shown = asked(question(pages, lines=True))
    assert [page_["page"] for page_ in shown["pages"]] == [1, 2, 3, 9]
    assert shown["omitted_pages"] == [4, 5, 6, 7, 8]
    assert sum(len(page_["text"]) for page_ in shown["pages"]) == 350


def test_numbers_are_taken_however_json_writes_them():
    said = Said.model_validate({"type": "invoice", "total_gross": 1506.5, "line_items": [{"quantity": 3}], "buyer": {}})
    assert said.data() == {"type": "invoice", "total_gross": "1506.5", "line_items": [{"quantity": "3"}]}


@pytest.mark.parametrize("currency", ["\u20ac", "EURO", "12"])
def test_a_currency_is_a_code(currency: str):
    with pytest.raises(ValidationError):
        Said.model_validate({"type": "invoice", "currency": currency})
    assert Said.model_validate({"type": "invoice", "currency": "eur"}).currency == "EUR"


@pytest.mark.parametrize("changes", [{"number": "L-2026"}, {"date": "2026-03-15"}, {"total_gross": "1506.01"}])
def test_the_form_refuses_essentials_that_are_not_on_the_pages(changes: dict[str, str]):
    grounded = form(Grounds(PAGES))
    grounded.model_validate(READ)
    with pytest.raises(ValidationError, match="not on the pages"):
        grounded.model_validate(READ | changes)


def count(pages: Any = PAGES, **changes: Any) -> model.Answer:
    return counted(Said.model_validate(READ | changes), Grounds(pages))


def test_the_names_of_fields_are_those_of_the_type():
    assert count().fields["issuer"]["name"] == "Kuusela Oy"
    order = count(type="purchase_order")
    assert (order.fields["po_number"], order.fields["order_date"]) == ("L-2026/118", "2026-03-14")
    assert (order.fields["supplier"]["city"], order.fields["buyer"]["city"]) == ("Tampere", "Hamburg")


def test_a_side_whose_name_is_invented_goes_with_all_that_is_said_of_it():
    found = count(seller=READ["seller"] | {"name": "Acme Corporation"})
    assert "issuer" not in found.fields
    assert not [path for path in found.evidence if path.startswith("issuer")]


def test_a_line_of_which_nothing_is_on_the_pages_is_gone_and_the_next_takes_its_place():
    invented = {"description": "Vasara", "quantity": "77", "net_amount": "88.00"}
    found = count(line_items=[invented, READ["line_items"][1]])
    assert found.fields["line_items"] == [READ["line_items"][1]]
    assert {path for path in found.evidence if path.startswith("line_items")} == {
        f"line_items.0.{name}" for name in READ["line_items"][1]
    }


def test_of_several_references_those_on_the_pages_are_kept():
    found = count(po_reference=["PO 4711-22", "PO 9999"])
    assert found.fields["po_reference"] == ["PO 4711-22"]
    assert found.remarks == (
        "po_reference stands nowhere on the pages as the language model gave it, and was left out.",
    )


def test_a_vat_id_and_an_iban_are_written_plainly_and_those_that_look_wrong_are_unsure():
    pages = page.pages(printed([*LASKU, "DE 136 695 976", "FI21 1234 5600 0007 85", "Y-tunnus 1234567-8"]))
    seller = READ["seller"] | {"vat_id": "DE 136 695 976", "iban": "FI21 1234 5600 0007 85"}
    found = count(pages, seller=seller, buyer=READ["buyer"] | {"vat_id": "1234567-8"})
    assert (found.fields["issuer"]["vat_id"], found.fields["issuer"]["iban"]) == ("DE136695976", "FI2112345600000785")
    assert found.evidence["issuer.vat_id"].confidence == 0.8
    assert found.evidence["recipient.vat_id"].confidence == 0.4


def test_units_are_written_as_codes_where_they_are_certain():
    pages = page.pages(printed([*LASKU, "kg kpl"]))
    lines = [READ["line_items"][0] | {"unit": "kg"}, READ["line_items"][1] | {"unit": "kpl"}]
    assert [line["unit"] for line in count(pages, line_items=lines).fields["line_items"]] == ["KGM", "kpl"]
