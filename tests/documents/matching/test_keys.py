"""By which keys documents find one another, whatever is misspelled or missing."""

from typing import Any

from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching.keys import Key
from counterfoil.documents.matching.normalise import Document
from tests.documents.matching.papers import BUYER, SELLER, delivery, invoice, line, order, read


def meet(child: Document, parent: Document) -> bool:
    """Whether a search for the child's partners leads to the parent."""
    sought = keyed.numbers_named(child) | keyed.deals(child, ("purchase_order",))
    return bool(sought & keyed.keys(parent))


def misspelled(party: dict[str, str]) -> dict[str, str]:
    return {"name": f"X{party['name'][1:]}"}


def test_a_number_leads_to_its_bearer_as_far_as_it_can_be_read() -> None:
    elsewhere = [line("Z-9")]
    for written in ("4711-22", "PO 47l1/22", "Bestellung 4711 22 vom 3.3.2026"):
        bill = invoice(po_reference=written, when=900, lines=elsewhere)
        assert meet(read(bill), read(order("4711-22"))), written
    assert not meet(read(invoice(po_reference="4711-23", when=900, lines=elsewhere)), read(order("4711-22")))


def test_parties_lead_to_their_deals_of_the_last_quarters() -> None:
    elsewhere = [line("Z-9")]
    assert meet(read(invoice(lines=elsewhere)), read(order()))
    assert meet(read(invoice(seller=SELLER | {"name": "Other"}, lines=elsewhere)), read(order()))  # by the VAT id
    assert not meet(read(invoice(when=900, lines=elsewhere)), read(order()))
    assert not meet(read(invoice(seller=misspelled(SELLER), lines=elsewhere)), read(order()))


def test_a_vat_id_leads_to_its_bearer_with_and_without_its_country() -> None:
    elsewhere = [line("Z-9")]
    written = {"name": "Unlike", "vat_id": "DE136695976"}
    for other in (
        {"name": "Other", "vat_id": "136 695 976"},
        {"name": "Other", "vat_id": "136695976", "country": "DE"},
        {"name": "Other", "vat_id": "DE l36695976"},
    ):
        assert meet(read(invoice(seller=other, lines=elsewhere)), read(order(seller=written))), other
    strange = {"name": "Other", "vat_id": "DE136695977"}
    assert not meet(read(invoice(seller=strange, lines=elsewhere)), read(order(seller=written)))


def test_another_name_leads_to_who_bears_it() -> None:
    elsewhere = [line("Z-9")]
    for one, other in (
        ("Max Mueller t/a Brede Bau", "Brede Bau"),
        ("Brede Bau, Inh. Max Mueller", "Max Müller"),  # codespell:ignore inh
        ("Vossberg KG formerly Tarnow KG", "Tarnow"),
    ):
        bill, sheet = invoice(seller={"name": one}, lines=elsewhere), order(seller={"name": other})
        assert meet(read(bill), read(sheet)), one
        assert meet(read(invoice(seller={"name": other}, lines=elsewhere)), read(order(seller={"name": one}))), one


def test_of_many_other_names_two_are_keys() -> None:
    one = read(order(seller={"name": "Brede (aka Alpha) (aka Gamma) (aka Delta)"}, buyer={"name": "Ulm"}))
    assert {key.value.split("|")[0] for key in keyed.keys(one) if "|ulm|" in key.value} == {"brede", "alpha", "gama"}


def test_articles_lead_to_a_partner_whose_number_and_parties_are_misspelled() -> None:
    damaged: dict[str, Any] = {"po_reference": "1174", "seller": misspelled(SELLER), "buyer": misspelled(BUYER)}
    assert meet(read(invoice(**damaged)), read(order()))
    assert meet(read(delivery(**damaged)), read(order()))
    assert not meet(read(invoice(**damaged, when=900)), read(order()))


def test_without_article_numbers_words_of_the_lines_lead_to_a_partner() -> None:
    def goods(text: str) -> list[dict[str, Any]]:
        return [{name: value for name, value in line("A", description=text).items() if name != "article_number"}]

    damaged: dict[str, Any] = {"po_reference": "1174", "seller": misspelled(SELLER), "buyer": misspelled(BUYER)}
    bought = read(order(lines=goods("Hydraulic coupling, 3/4 in, brass")))
    assert meet(read(invoice(**damaged, lines=goods("Coupling (brass), 3/4 inch"))), bought)
    assert not meet(read(invoice(**damaged, lines=goods("Garden hose 3/4 in"))), bought)


def test_of_many_articles_two_documents_take_the_same() -> None:
    many = [line(f"A-{number}") for number in range(40)]
    backwards = invoice(lines=many[::-1], seller=misspelled(SELLER), buyer=misspelled(BUYER))
    found = {key for key in keyed.keys(read(backwards)) if "#" in key.value}
    assert len(found) == 4
    assert meet(read(backwards), read(order(lines=many)))


def test_whoever_loses_a_key_is_missed_by_those_that_it_led_to() -> None:
    assert Key("names:purchase_order", "4711") in keyed.forsaken(Key("own:purchase_order", "4711"))
    followers = keyed.forsaken(Key("deal:purchase_order", "#A100|8"))
    assert followers == [Key("seeks:purchase_order", f"#A100|{quarter}") for quarter in (8, 9, 10)]


def test_who_seeks_a_parent_is_found_by_it() -> None:
    late, early = read(invoice(when=160)), read(invoice(when=-160))
    assert keyed.seeks(late, ["purchase_order"]) & keyed.seekers(read(order()))
    assert not keyed.seeks(late, ["contract"]) & keyed.seekers(read(order()))
    assert not keyed.seeks(early, ["purchase_order"]) & keyed.seekers(read(order()))
    assert not keyed.seekers(read(delivery()))  # found through its order
