"""Freight, surcharges, discounts and down payments need no order.

They cause a warning at most.
"""

import pytest

from counterfoil.documents.matching.normalize import words
from counterfoil.documents.three_way_match import ThreeWayMatchStatus
from counterfoil.documents.three_way_match.model import is_charge
from tests.documents.three_way_match.samples import TWO, codes, delivery, invoice, order, receipt, result


def charge(description: str, amount: str = "50.00", quantity: str = "1") -> dict[str, str]:
    """Return a charge as a line item with a unit, as EN 16931 requires."""
    net = f"{float(quantity) * float(amount):.2f}"
    line = {"position": "3", "description": description, "quantity": quantity, "unit": "C62"}
    return {**line, "unit_price": amount, "net_amount": net}


@pytest.mark.parametrize(
    "description",
    [
        "Versandkosten (Paket bis 31,5 kg)",
        "Mindermengenzuschlag",
        "LKW-Maut",
        "Bearbeitungsgebühr",
        "Verpackungspauschale",
        "Palettentausch",
        "Fuel surcharge",
        "Small order surcharge",
        "Delivery charge zone 2",
        "Frais de transport",
        "Supplément carburant",
        "Spese bancarie",
        "Recargo por pedido pequeño",
        "Brandstoftoeslag",
        "Miljøtillæg",
        "Rundungsdifferenz",
        "Frais de dossier",
        "Arrondi de caisse",
        "Portes debidos",
        "Gastos de portes",
        "Bonus 2026",
    ],
)
def test_charge_with_unit_causes_only_a_warning(description: str):
    match_result = result(order(), delivery(), receipt(), invoice(lines=[*TWO, charge(description)]))
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)
    assert match_result.warnings == (f"Invoice R-100 bills 50.00 EUR that was not ordered: “{description}”.",)


@pytest.mark.parametrize(
    "description",
    ["Anzahlung 30 % auf Bestellung 4711", "Down payment 30 % on order", "Acompte 30 %", "Acconto 30 % su ordine"],
)
def test_down_payment_and_final_invoice_agree(description: str):
    first = invoice("A-1", 1, lines=[charge(description, "31.35")])
    last = invoice("R-100", 10, lines=[*TWO, charge(description, "31.35", "-1")])
    assert codes(result(order(), first)) == []
    match_result = result(order(), first, delivery(), last)
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)


@pytest.mark.parametrize(
    "goods_lines",
    [
        "Monitor 27 Zoll",
        "Transport box",
        "Charge controller 12V",
        "Versandtasche C4",
        "Verpackungsfolie",
        "Packing tape PVC",
        "Shipping container 20 ft",
        "Kostenstellenschild",
        "Armoire 2 portes",
        "Portes coupe-feu EI30",
        "Fromage frais de chèvre",
        "Burin à bout arrondi",
        "Magnesium supplement 400 mg",
        "Bonus pack AA batteries",
        "4711",
        "",
    ],
)
def test_goods_and_empty_descriptions_are_not_charges(goods_lines: str):
    assert not is_charge(words(goods_lines))


def test_french_doors_are_not_a_spanish_charge():
    """`Portes` means carriage in Spanish and doors in French."""
    match_result = result(order(), delivery(), receipt(), invoice(lines=[*TWO, charge("Armoire 2 portes")]))
    assert (codes(match_result), match_result.outcome) == (["billed_beyond_order"], ThreeWayMatchStatus.EXCEPTION)
