"""The unit of a line item is read from its description if stated there."""

from counterfoil.documents.text.table_fields import unit_in_description


def test_unit_is_read_from_the_description():
    assert unit_in_description("Design (hours): Of a sample") == "HUR"
    assert unit_in_description("Heiße Luft pro Liter") == "LTR"
    assert unit_in_description("Tisch (Eiche)") is None
