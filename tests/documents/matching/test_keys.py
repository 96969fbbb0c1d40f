"""Blocking keys find partners even if fields are misspelled or missing."""

from typing import Any

from counterfoil.documents.matching import keys as keyed
from counterfoil.documents.matching.keys import Key
from counterfoil.documents.matching.normalize import Document
from tests.documents.matching.samples import BUYER, SELLER, delivery, invoice, line, order, read


def finds(child: Document, parent: Document) -> bool:
    """Return True if a search for the child's partners finds the parent."""
    lookup_keys = keyed.referenced_numbers(child) | keyed.transaction_keys(child, ("purchase_order",))
    return bool(lookup_keys & keyed.keys(parent))


def misspell(party: dict[str, str]) -> dict[str, str]:
    return {"name": f"X{party['name'][1:]}"}


def test_number_variants_find_the_order() -> None:
    unmatched_lines = [line("Z-9")]
    for spelling in ("4711-22", "PO 47l1/22", "Bestellung 4711 22 vom 3.3.2026"):
        invoice_ = invoice(po_reference=spelling, when=900, lines=unmatched_lines)
        assert finds(read(invoice_), read(order("4711-22"))), spelling
    assert not finds(read(invoice(po_reference="4711-23", when=900, lines=unmatched_lines)), read(order("4711-22")))


def test_party_keys_find_documents_from_recent_quarters() -> None:
    unmatched_lines = [line("Z-9")]
    assert finds(read(invoice(lines=unmatched_lines)), read(order()))
    assert finds(
        read(invoice(seller=SELLER | {"name": "Other"}, lines=unmatched_lines)), read(order())
    )  # found by the VAT id
    assert not finds(read(invoice(when=900, lines=unmatched_lines)), read(order()))
    assert not finds(read(invoice(seller=misspell(SELLER), lines=unmatched_lines)), read(order()))


def test_vat_id_is_found_with_or_without_country() -> None:
    unmatched_lines = [line("Z-9")]
    seller_ = {"name": "Unlike", "vat_id": "DE136695976"}
    for other in (
        {"name": "Other", "vat_id": "136 695 976"},
        {"name": "Other", "vat_id": "136695976", "country": "DE"},
        {"name": "Other", "vat_id": "DE l36695976"},
    ):
        assert finds(read(invoice(seller=other, lines=unmatched_lines)), read(order(seller=seller_))), other
    other_seller = {"name": "Other", "vat_id": "DE136695977"}
    assert not finds(read(invoice(seller=other_seller, lines=unmatched_lines)), read(order(seller=seller_)))


def test_party_is_found_by_its_aliases() -> None:
    unmatched_lines = [line("Z-9")]
    for first, second in (
        ("Max Mueller t/a Brede Bau", "Brede Bau"),
        ("Brede Bau, Inh. Max Mueller", "Max Müller"),  # codespell:ignore inh
        ("Vossberg KG formerly Tarnow KG", "Tarnow"),
    ):
        invoice_, sheet = invoice(seller={"name": first}, lines=unmatched_lines), order(seller={"name": second})
        assert finds(read(invoice_), read(sheet)), first
        assert finds(
            read(invoice(seller={"name": second}, lines=unmatched_lines)), read(order(seller={"name": first}))
        ), first


def test_keys_include_at_most_two_aliases() -> None:
    document = read(order(seller={"name": "Brede (aka Alpha) (aka Gamma) (aka Delta)"}, buyer={"name": "Ulm"}))
    assert {key.value.split("|")[0] for key in keyed.keys(document) if "|ulm|" in key.value} == {
        "brede",
        "alpha",
        "gama",
    }


def test_articles_find_partner_despite_misspelled_number_and_parties() -> None:
    damaged: dict[str, Any] = {"po_reference": "1174", "seller": misspell(SELLER), "buyer": misspell(BUYER)}
    assert finds(read(invoice(**damaged)), read(order()))
    assert finds(read(delivery(**damaged)), read(order()))
    assert not finds(read(invoice(**damaged, when=900)), read(order()))


def test_description_words_find_partner_without_article_numbers() -> None:
    def goods_lines(text: str) -> list[dict[str, Any]]:
        return [{name: value for name, value in line("A", description=text).items() if name != "article_number"}]

    damaged: dict[str, Any] = {"po_reference": "1174", "seller": misspell(SELLER), "buyer": misspell(BUYER)}
    bought = read(order(lines=goods_lines("Hydraulic coupling, 3/4 in, brass")))
    assert finds(read(invoice(**damaged, lines=goods_lines("Coupling (brass), 3/4 inch"))), bought)
    assert not finds(read(invoice(**damaged, lines=goods_lines("Garden hose 3/4 in"))), bought)


def test_article_keys_ignore_line_order() -> None:
    lines_ = [line(f"A-{number}") for number in range(40)]
    backwards = invoice(lines=lines_[::-1], seller=misspell(SELLER), buyer=misspell(BUYER))
    article_keys = {key for key in keyed.keys(read(backwards)) if "#" in key.value}
    assert len(article_keys) == 4
    assert finds(read(backwards), read(order(lines=lines_)))


def test_removed_key_yields_keys_of_affected_documents() -> None:
    assert Key("names:purchase_order", "4711") in keyed.affected_keys(Key("own:purchase_order", "4711"))
    rematched_keys = keyed.affected_keys(Key("deal:purchase_order", "#A100|8"))
    assert rematched_keys == [Key("seeks:purchase_order", f"#A100|{quarter}") for quarter in (8, 9, 10)]


def test_new_order_finds_invoices_seeking_orders() -> None:
    late, early = read(invoice(when=160)), read(invoice(when=-160))
    assert keyed.search_keys(late, ["purchase_order"]) & keyed.seeker_keys(read(order()))
    assert not keyed.search_keys(late, ["contract"]) & keyed.seeker_keys(read(order()))
    assert not keyed.search_keys(early, ["purchase_order"]) & keyed.seeker_keys(read(order()))
    assert not keyed.seeker_keys(read(delivery()))  # a delivery note is found through its order
