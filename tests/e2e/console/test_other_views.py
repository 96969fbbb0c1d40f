"""Empty views, and the queues page for one or all tenants."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import expect

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from tests.e2e.chaos import watchdog_running
from tests.e2e.console.conftest import Console
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import check_page

pytestmark = pytest.mark.e2e
WATCHDOG_MILLISECONDS = 150_000
"""Maximum time until the watchdog has counted dead letters."""


@pytest.mark.parametrize(
    ("name", "path", "title"),
    [
        ("operations", "operations", "No operations yet"),
        ("audit", f"audit?target={UUID(int=1)}", "No entries"),
    ],
)
def test_empty_view_shows_a_notice(console: Console, tenant: Tenant, name: str, path: str, title: str) -> None:
    page = console.open("admin", tenant, path)
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    check_page(page, f"{name}-none")


def test_queues_are_shown_for_all_or_one_tenant(console: Console, cloud: Cloud, failed_tenant: Tenant) -> None:
    page = console.open("admin", failed_tenant, "overview")
    expect(rows(page, "Queues").filter(has_text="tasks")).to_have_count(1)
    check_page(page, "overview")

    page.get_by_role("navigation", name="Tenants").get_by_role("link", name=f"Only {failed_tenant.slug}").click()
    expect(page).to_have_url(re.compile("of=tenant"))
    dead_letter_link = rows(page, "Queues").filter(has_text="tasks").get_by_role("link", name="2")
    with watchdog_running(cloud):
        expect(dead_letter_link).to_have_count(1, timeout=WATCHDOG_MILLISECONDS)
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    check_page(page, "overview-of-a-tenant")
