"""A description may state the unit of its line."""

from counterfoil.documents.text.table_fields import stated_in


def test_description_may_state_the_unit():
    assert stated_in("Design (hours): Of a sample") == "HUR"
    assert stated_in("Heiße Luft pro Liter") == "LTR"
    assert stated_in("Tisch (Eiche)") is None
