"""A cluster is shown on the command line: its status, then the evidence."""

import json
from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from cli.commands.clusters import app
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from counterfoil.documents import clusters
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
def harness(api: None, database: Database, admin: Connection) -> TenantHarness:
    harness = TenantHarness(database, admin, CASE)
    admin.execute("UPDATE tenant SET slug = 'acme'")
    harness.match_all()
    return harness


def show(harness: TenantHarness, position: int = 0, width: int = 100) -> list[str]:
    page = call(str(harness.ids[position]), width=width)
    return [line.rstrip() for line in page.splitlines() if "To decide:" not in line]


def call(*words: str, width: int = 100) -> str:
    result = CliRunner().invoke(app, ["show", *words], env={"COLUMNS": str(width)})
    if result.exception is not None:
        raise result.exception
    return result.output


def find(lines: Sequence[str], *words: str) -> str:
    """Return the only line that contains all of these words."""
    (match,) = [line for line in lines if all(word in line.split() for word in words)]
    return match


def test_status_is_shown_first_with_its_reasons(harness: TenantHarness):
    compute(harness)
    lines = show(harness)
    assert lines[0].split()[-2:] == ["acme", "exception"]
    assert lines[1].startswith("  Invoice R-81 bills 5 pieces of “Bolt A-200”")


def test_line_item_quantities_share_one_row(harness: TenantHarness):
    compute(harness)
    lines = show(harness)
    assert find(lines, "line", "price").split() == [
        *("line", "article", "unit", "ordered", "delivered", "billed", "price", "billed", "price")
    ]
    assert find(lines, "A-100", "4.20").split()[-7:] == ["10", "10", "10", "4.20", "EUR", "4.90", "EUR"]
    assert [word for word in find(lines, "A-200", "12.50").split() if word.isdigit()][-3:] == ["5", "4", "5"]


def test_variances_and_links_show_their_reasons(harness: TenantHarness):
    compute(harness)
    text = "\n".join(show(harness, width=200))
    for label in ("Price difference", "Quantity billed but not delivered", "Short delivery"):
        assert f"✗ {label}" in text
    assert "invoice R-81 ↔ purchase order 4711  high confidence, decided by rules" in text
    assert "Same order number" in text
    assert "purchase order 4711 ↔ contract RV-60" in text


def test_omitted_line_items_and_differences_are_counted(harness: TenantHarness, monkeypatch: pytest.MonkeyPatch):
    compute(harness)
    monkeypatch.setattr(clusters, "MAX_LINE_ITEMS", 1)
    monkeypatch.setattr(clusters, "MAX_VARIANCES", 1)

    page = " ".join(" ".join(show(harness)).split())

    assert page.endswith("Not shown, because there are too many: 1 line item, 2 differences.")


def test_missing_fields_are_listed(harness: TenantHarness, admin: Connection):
    assert not any("missing" in line for line in show(harness))
    admin.execute("UPDATE document SET structured_data = structured_data - 'issuer' WHERE id = %s", [harness.ids[2]])

    heading, row = find(show(harness), "id", "missing"), find(show(harness), "invoice", "2026-03-12")

    assert row[heading.index("missing") :].startswith("supplier ")


def test_variance_awaiting_a_document_is_marked_differently(harness: TenantHarness):
    compute(harness)
    cluster = harness.ids[0]
    harness.admin.execute(
        "UPDATE cluster_diagnostics SET result = jsonb_set(result, '{variances,0,awaited_deliveries}', %s::jsonb) "
        "WHERE id = %s",
        ['"It names delivery L2, which has not been received."', cluster],
    )
    page = " ".join(" ".join(show(harness)).split())
    assert "… " in page
    assert page.count("It names delivery L2, which has not been received.") == 1


def test_control_characters_in_documents_are_replaced(harness: TenantHarness):
    """The file name clears the screen and writes to the clipboard."""
    harness.admin.execute("UPDATE document SET file_name = %s", ["a\x1b[2J\x1b]52;c;eA==\x07\x9b2Jb.pdf"])
    compute(harness)
    page = "\n".join(show(harness))
    assert [char for char in page if char != "\n" and not char.isprintable()] == []
    assert "\N{REPLACEMENT CHARACTER}" in page


def test_output_fits_the_terminal(harness: TenantHarness):
    compute(harness)
    assert max(map(len, show(harness))) <= 100


def test_any_document_id_shows_its_cluster(harness: TenantHarness):
    compute(harness)
    assert show(harness, 0) == show(harness, 1) == show(harness, 2)


def test_outdated_comparison_is_shown_as_being_updated(harness: TenantHarness):
    compute(harness)
    harness.admin.execute("UPDATE cluster_diagnostics SET status = 'pending'")
    assert "  The comparison is being updated." in show(harness)


def test_cluster_without_comparison_shows_its_documents(harness: TenantHarness):
    lines = show(harness)
    assert lines[1] == "  Not compared yet."
    assert find(lines, "delivery", "2026-03-09").split()[1:4] == ["delivery", "note", "LS-500"]


def test_json_output_contains_the_api_response(harness: TenantHarness):
    compute(harness)
    cluster = json.loads(call(str(harness.ids[1]), "--json"))
    assert cluster["id"] == str(harness.ids[0])
    assert {document["number"] for document in (*cluster["documents"], *cluster["contracts"])} == {
        "4711",
        "LS-500",
        "R-81",
        "RV-60",
    }
    assert len(cluster["matches"]) == 4
    assert cluster["comparison"]["outcome"] == "exception"


def test_unmatched_document_is_rejected(harness: TenantHarness):
    documents: list[Paper] = [order("9000", 300)]
    position = harness.file(documents[0])
    with pytest.raises(UsageError, match="has no cluster, because it has not been matched"):
        call(str(harness.ids[position]))


@pytest.mark.parametrize("text", ["zzzz", "abc", "ffffffff"])
def test_unknown_id_is_refused(harness: TenantHarness, text: str):
    with pytest.raises(UsageError, match=f"No document id ends with '{text}'"):
        call(text)


def test_ambiguous_id_suffix_is_rejected(harness: TenantHarness):
    with pytest.raises(UsageError, match="More than one document id ends with"):
        call(str(harness.ids[0])[-4:])
