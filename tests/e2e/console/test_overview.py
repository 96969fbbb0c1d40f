"""Queues in the console: pausing with a reason visible to all, and resuming."""

import pytest
from playwright.sync_api import expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import check_page, size_on_huge_screen

pytestmark = pytest.mark.e2e
WORKER = "diagnostics"


def test_paused_queue_shows_a_banner_on_every_page(console: Console, tenant: Tenant) -> None:
    page = console.open("admin", tenant, "overview")
    page.get_by_role("button", name=f"Pause {WORKER}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Pause").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Write a note")
    dialog.get_by_label("Reason").fill("The rules of variances are being changed.")
    dialog.get_by_role("button", name="Pause").click()
    try:
        expect(page.get_by_role("button", name=f"Resume {WORKER}")).to_be_visible()
        banner = page.locator(".banner")
        expect(banner).to_contain_text("paused by you since")
        expect(banner).to_contain_text("Reason: The rules of variances are being changed.")
        expect(banner.get_by_role("link")).to_have_count(0)
        check_page(page, "overview-paused")
        page.get_by_role("link", name="Tasks").click()
        expect(banner).to_contain_text(WORKER, ignore_case=True)
        expect(banner.get_by_role("link", name="Overview")).to_be_visible()
        viewer = console.open("viewer", tenant, "tasks", own_context=True)
        expect(viewer.locator(".banner")).to_contain_text(WORKER, ignore_case=True)
        expect(viewer.locator(".banner")).to_contain_text("The rules of variances are being changed.")
        expect(viewer.locator(".banner")).not_to_contain_text("paused by")
    finally:
        page.get_by_role("link", name="Overview").first.click()
        page.get_by_role("button", name=f"Resume {WORKER}").click()
        dialog.get_by_label("Reason").fill("They are.")
        dialog.get_by_role("button", name="Resume").click()

    expect(banner).to_have_count(0)
    expect(page.get_by_role("button", name=f"Pause {WORKER}")).to_be_visible()


def test_tenant_viewer_cannot_pause_queues(console: Console, tenant: Tenant) -> None:
    page = console.open("viewer", tenant, "overview", own_context=True)

    expect(rows(page, "Queues").first).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    expect(page.get_by_role("columnheader", name="Messages")).to_have_count(0)
    check_page(page, "overview-tenant")
    assert size_on_huge_screen(page, ".chart")[0] > 20  # size in rem, because the chart grows with the screen
