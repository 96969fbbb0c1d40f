"""A description may state the unit of its line."""

from counterfoil.documents.text.table_fields import unit_in_description


def test_description_may_state_the_unit():
    assert unit_in_description("Design (hours): Of a sample") == "HUR"
    assert unit_in_description("Heiße Luft pro Liter") == "LTR"
    assert unit_in_description("Tisch (Eiche)") is None
