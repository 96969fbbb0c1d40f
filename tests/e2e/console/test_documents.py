"""Documents in the console: list, page images and clusters."""

import re

import pytest
from playwright.sync_api import expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import CLUSTER_FILES, Console, MatchedCluster
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import check_page, size_on_huge_screen

pytestmark = pytest.mark.e2e


def test_document_is_shown_beside_its_page_image(console: Console, matched_cluster: MatchedCluster) -> None:
    page = console.open("viewer", matched_cluster.tenant, "documents")
    expect(rows(page, "Documents")).to_have_count(CLUSTER_FILES)
    check_page(page, "documents")
    page.get_by_label("Type").select_option("Invoice")
    expect(rows(page, "Documents")).to_have_count(1)
    rows(page, "Documents").get_by_role("link").first.click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("Invoice")
    expect(page.get_by_role("img", name="Page 1 of Invoice")).to_be_visible()
    fields = page.get_by_role("region", name="Extracted fields")
    expect(fields).to_contain_text(matched_cluster.order)
    expect(fields.get_by_role("heading", name="Supplier")).to_be_visible()
    expect(fields).to_contain_text(re.compile(r"IBAN[A-Z]{2}\d{2} \d{4} \d{4}"))
    line_items = page.get_by_role("region", name="Table of line items")
    assert line_items.evaluate("(table) => table.scrollWidth <= table.clientWidth")
    expect(page.get_by_role("region", name="History")).to_contain_text("Extraction queued")
    check_page(page, "document")
    assert size_on_huge_screen(page, ".page-scroller")[1] > 60  # nearly the whole page is visible


def test_cluster_shows_graph_evidence_and_line_items(console: Console, matched_cluster: MatchedCluster) -> None:
    page = console.open("operator", matched_cluster.tenant, f"documents?search={matched_cluster.order}")
    cluster_link = rows(page, "Documents").first.get_by_role("link", name="cluster of")
    expect(cluster_link).to_have_text(matched_cluster.order)
    cluster_link.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Purchase order {matched_cluster.order}")
    expect(page.locator(".graph a")).to_have_count(CLUSTER_FILES)
    expect(page.locator(".graph .link")).not_to_have_count(0)
    page.get_by_role("region", name="Documents and matches").get_by_role("button").first.click()
    page.get_by_text("How sure?").click()
    expect(page.get_by_role("table", name="Evidence for")).to_contain_text("Line items: all match")
    expect(page.get_by_role("region", name="Line items", exact=True)).to_contain_text("Ordered")
    expect(page.get_by_role("region", name="Differences")).to_contain_text("Short delivery")
    check_page(page, "cluster")


def test_missing_documents_and_clusters_show_notices(console: Console, tenant: Tenant) -> None:
    page = console.open("viewer", tenant, "documents")
    expect(page.get_by_role("heading", name="No documents yet")).to_be_visible()
    expect(page.get_by_role("button", name="Add documents")).to_have_count(0)
    check_page(page, "documents-none")
    for path, title in (("documents", "Document not found"), ("clusters", "Cluster not found")):
        page.goto(f"{console.url}/{path}/00000000-0000-0000-0000-000000000000?tenant={tenant.slug}")
        expect(page.get_by_role("heading", name=title)).to_be_visible()
