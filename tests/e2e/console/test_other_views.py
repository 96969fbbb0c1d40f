"""The views beside letters and tasks: the queues of all tenants and of one, and what is said where there is nothing."""

import re

import pytest
from playwright.sync_api import expect

from cli.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.looks import looks
from tests.e2e.console.reading import rows

pytestmark = pytest.mark.e2e
WATCHDOG_MILLISECONDS = 150_000
"""Within which the watchdog has counted: it comes round every minute."""


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("purges", "Nothing was purged"),
        ("audit", "No entries"),
    ],
)
def test_a_view_without_anything_says_so(console: Console, tenant: Tenant, at: str, says: str) -> None:
    page = console.opened("admin", tenant, at)
    expect(page.get_by_role("heading", name=says)).to_be_visible()
    looks(page, f"{at}-none")


def test_the_queues_are_shown_for_all_tenants_and_for_one(console: Console, shown: Tenant) -> None:
    page = console.opened("admin", shown, "overview")
    expect(rows(page, "Queues").filter(has_text="tasks")).to_have_count(1)
    looks(page, "overview")

    page.get_by_role("navigation", name="Whose work").get_by_role("link", name=f"Only {shown.slug}").click()
    expect(page).to_have_url(re.compile("of=tenant"))
    dead = rows(page, "Queues").filter(has_text="tasks").get_by_role("link", name="2")
    expect(dead).to_have_count(1, timeout=WATCHDOG_MILLISECONDS)
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    looks(page, "overview-of-a-tenant")
