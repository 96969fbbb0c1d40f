"""Empty views, and the queues of all tenants or of one."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import expect

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from tests.e2e.chaos import watched
from tests.e2e.console.conftest import Console
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import looks

pytestmark = pytest.mark.e2e
WATCHDOG_MILLISECONDS = 150_000
"""Timeout for the watchdog to count dead letters."""


@pytest.mark.parametrize(
    ("name", "at", "title"),
    [
        ("operations", "operations", "No operations yet"),
        ("audit", f"audit?target={UUID(int=1)}", "No entries"),
    ],
)
def test_empty_view_shows_a_notice(console: Console, tenant: Tenant, name: str, at: str, title: str) -> None:
    page = console.opened("admin", tenant, at)
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    looks(page, f"{name}-none")


def test_queues_are_shown_for_all_or_one_tenant(console: Console, cloud: Cloud, shown: Tenant) -> None:
    page = console.opened("admin", shown, "overview")
    expect(rows(page, "Queues").filter(has_text="tasks")).to_have_count(1)
    looks(page, "overview")

    page.get_by_role("navigation", name="Tenants").get_by_role("link", name=f"Only {shown.slug}").click()
    expect(page).to_have_url(re.compile("of=tenant"))
    dead = rows(page, "Queues").filter(has_text="tasks").get_by_role("link", name="2")
    with watched(cloud):
        expect(dead).to_have_count(1, timeout=WATCHDOG_MILLISECONDS)
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    looks(page, "overview-of-a-tenant")
