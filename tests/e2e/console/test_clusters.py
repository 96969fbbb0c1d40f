"""Clusters in the console: start page, filters, and each document's status."""

import pytest
from playwright.sync_api import expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console, MatchedCluster
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import NARROW, WIDE, check_page

pytestmark = pytest.mark.e2e


def test_exception_is_shown_in_clusters_and_documents(console: Console, matched_cluster: MatchedCluster) -> None:
    page = console.open("operator", matched_cluster.tenant, "", own_context=True)
    expect(page).to_have_url(f"{console.url}/clusters")
    expect(rows(page, "Clusters")).to_have_count(1)
    expect(rows(page, "Clusters")).to_contain_text("Exception")
    expect(page.get_by_role("columnheader", name="Ordered (net)")).to_be_visible()
    check_page(page, "clusters")

    page.get_by_label("Purchase order or invoice number").fill("no such number")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No results")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    rows(page, "Clusters").get_by_role("link", name=matched_cluster.order).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Exception")

    page.get_by_role("link", name="Documents", exact=True).click()
    expect(rows(page, "Documents").first).to_contain_text("Exception")


def test_list_is_filtered_by_status(console: Console, matched_cluster: MatchedCluster) -> None:
    page = console.open("viewer", matched_cluster.tenant, "clusters?status=matched")
    expect(page.get_by_role("heading", name="No clusters")).to_be_visible()
    page.get_by_role("navigation", name="Status").get_by_role("link", name="Exception").click()
    expect(rows(page, "Clusters")).to_contain_text(matched_cluster.order)


def test_status_counts_fit_their_boxes(console: Console, tenant: Tenant) -> None:
    page = console.open("viewer", tenant, "clusters")
    boxes = page.get_by_role("navigation", name="Status").get_by_role("link")
    expect(boxes.first).to_be_visible()

    for width in (320, NARROW["width"], 400, 480, 700, WIDE["width"]):
        page.set_viewport_size({"width": width, "height": 740})
        overflowing = boxes.evaluate_all(
            "all => all.filter(a => a.scrollWidth > a.clientWidth).map(a => a.textContent)"
        )
        assert overflowing == [], f"at {width} px"
