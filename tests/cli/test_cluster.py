"""One cluster on the command line: its status, then the evidence."""

import json
from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from cli.commands.clusters import app
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from tests.documents.matching.samples import SampleDocument as Paper
from tests.documents.matching.samples import contract, delivery, invoice, line, order
from tests.documents.matching.tenant_harness import TenantHarness
from tests.documents.test_differences import compute

CASE = [
    order(contract_reference="RV-60"),
    delivery(po_reference="4711", lines=[line("A-100"), line("A-200", "4", "12.50")]),
    invoice(
        po_reference="4711",
        delivery_note_reference="LS-500",
        lines=[line("A-100", "10", "4.90"), line("A-200", "5", "12.50")],
    ),
    contract(),
]


@pytest.fixture
def office(api: None, database: Database, admin: Connection) -> TenantHarness:
    office = TenantHarness(database, admin, CASE)
    admin.execute("UPDATE tenant SET slug = 'acme'")
    office.match_all()
    return office


def shown(office: TenantHarness, position: int = 0, width: int = 100) -> list[str]:
    page = call(str(office.ids[position]), width=width)
    return [line.rstrip() for line in page.splitlines() if "To decide:" not in line]


def call(*words: str, width: int = 100) -> str:
    result = CliRunner().invoke(app, ["show", *words], env={"COLUMNS": str(width)})
    if result.exception is not None:
        raise result.exception
    return result.output


def find(lines: Sequence[str], *words: str) -> str:
    """Return the only line with all of these words."""
    (match,) = [line for line in lines if all(word in line.split() for word in words)]
    return match


def test_status_is_shown_first_with_its_reasons(office: TenantHarness):
    compute(office)
    lines = shown(office)
    assert lines[0].split()[-2:] == ["acme", "exception"]
    assert lines[1].startswith("  Invoice R-81 bills 5 pieces of 'Bolt A-200'")


def test_quantities_of_a_line_item_share_one_row(office: TenantHarness):
    compute(office)
    lines = shown(office)
    assert find(lines, "line", "price").split() == [
        *("line", "article", "unit", "ordered", "delivered", "billed", "price", "billed", "at")
    ]
    assert find(lines, "A-100", "4.20").split()[-7:] == ["10", "10", "10", "4.20", "EUR", "4.90", "EUR"]
    assert [word for word in find(lines, "A-200", "12.50").split() if word.isdigit()][-3:] == ["5", "4", "5"]


def test_variances_and_links_show_their_reasons(office: TenantHarness):
    compute(office)
    text = "\n".join(shown(office, width=200))
    for code in ("price mismatch", "over billed quantity", "under delivered"):
        assert f"✗ {code}" in text
    assert "invoice R-81 ↔ purchase order 4711  high confidence, decided by rules" in text
    assert "Same order number" in text
    assert "purchase order 4711 ↔ contract RV-60" in text


def test_missing_facts_are_named(office: TenantHarness, admin: Connection):
    assert not any("not read" in line for line in shown(office))
    admin.execute("UPDATE document SET structured_data = structured_data - 'issuer' WHERE id = %s", [office.ids[2]])

    heading, row = find(shown(office), "not", "read"), find(shown(office), "invoice", "2026-03-12")

    assert row[heading.index("not read") :].startswith("supplier ")


def test_variance_awaiting_a_document_is_marked_differently(office: TenantHarness):
    compute(office)
    cluster = office.ids[0]
    office.admin.execute(
        "UPDATE cluster_diagnostics SET result = jsonb_set(result, '{variances,0,awaited_deliveries}', %s::jsonb) "
        "WHERE id = %s",
        ['"It names delivery L2, which has not been received."', cluster],
    )
    page = " ".join(" ".join(shown(office)).split())
    assert "… " in page
    assert page.count("It names delivery L2, which has not been received.") == 1


def test_control_characters_of_documents_are_replaced(office: TenantHarness):
    """The file name clears the screen and writes to the clipboard."""
    office.admin.execute("UPDATE document SET file_name = %s", ["a\x1b[2J\x1b]52;c;eA==\x07\x9b2Jb.pdf"])
    compute(office)
    page = "\n".join(shown(office))
    assert [char for char in page if char != "\n" and not char.isprintable()] == []
    assert "\N{REPLACEMENT CHARACTER}" in page


def test_output_fits_the_terminal(office: TenantHarness):
    compute(office)
    assert max(map(len, shown(office))) <= 100


def test_any_document_id_shows_its_cluster(office: TenantHarness):
    compute(office)
    assert shown(office, 0) == shown(office, 1) == shown(office, 2)


def test_pending_cluster_is_shown_as_being_recomputed(office: TenantHarness):
    compute(office)
    office.admin.execute("UPDATE cluster_diagnostics SET status = 'pending'")
    assert "  It is being recomputed." in shown(office)


def test_uncomputed_cluster_shows_its_documents(office: TenantHarness):
    lines = shown(office)
    assert lines[1] == "  It has not been computed yet."
    assert find(lines, "delivery", "2026-03-09").split()[1:4] == ["delivery", "note", "LS-500"]


def test_json_output_contains_the_api_response(office: TenantHarness):
    compute(office)
    cluster = json.loads(call(str(office.ids[1]), "--json"))
    assert cluster["id"] == str(office.ids[0])
    assert {document["number"] for document in (*cluster["documents"], *cluster["contracts"])} == {
        "4711",
        "LS-500",
        "R-81",
        "RV-60",
    }
    assert len(cluster["matches"]) == 4
    assert cluster["comparison"]["outcome"] == "exception"


def test_unmatched_document_is_rejected(office: TenantHarness):
    documents: list[Paper] = [order("9000", 300)]
    position = office.file(documents[0])
    with pytest.raises(UsageError, match="has no cluster, because it has not been matched"):
        call(str(office.ids[position]))


@pytest.mark.parametrize("text", ["zzzz", "abc", "ffffffff"])
def test_unknown_id_is_refused(office: TenantHarness, text: str):
    with pytest.raises(UsageError, match=f"No document id ends with '{text}'"):
        call(text)


def test_ambiguous_id_suffix_is_rejected(office: TenantHarness):
    with pytest.raises(UsageError, match="More than one document id ends with"):
        call(str(office.ids[0])[-4:])
