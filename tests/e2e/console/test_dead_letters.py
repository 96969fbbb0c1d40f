"""Dead letter list in the console: groups, filters and searches.

Filters and searches are stored in the URL.
"""

import re

import pytest
from playwright.sync_api import expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.failures import FailureFactory
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import check_page

pytestmark = pytest.mark.e2e


def test_groups_and_dead_letters_are_shown(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant)
    expect(rows(page, "Dead letters")).to_have_count(6)
    expect(rows(page, "Groups by error").first).to_be_visible()
    expect(page.get_by_role("navigation", name="By status").get_by_role("link").first).to_contain_text("6")
    check_page(page, "dead-letters")


def test_group_can_be_opened_and_left(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant)
    rows(page, "Groups by error").filter(has_text="answered with HTTP").get_by_role("link").click()

    expect(rows(page, "Dead letters")).to_have_count(2)
    expect(page).to_have_url(re.compile("fingerprint="))
    expect(page.get_by_role("search")).to_contain_text("Only dead letters in the group: ")
    expect(page.get_by_role("search")).to_contain_text("answered with HTTP 400")
    check_page(page, "dead-letters-of-a-group")
    page.get_by_role("link", name="Show all groups").click()
    expect(rows(page, "Dead letters")).to_have_count(6)


def test_search_by_error_text_is_stored_in_url(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant)
    search = page.get_by_label("Error, file or ID")
    search.fill("broken-1")
    search.press("Enter")
    expect(rows(page, "Dead letters")).to_have_count(1)
    expect(page).to_have_url(re.compile("search=broken-1"))

    page.reload()
    expect(rows(page, "Dead letters")).to_have_count(1)
    page.go_back()
    expect(rows(page, "Dead letters")).to_have_count(6)
    expect(search).to_have_value("")


def test_empty_search_result_can_be_cleared(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant, "dead-letters?search=nothinglikethis")
    expect(page.get_by_role("heading", name="No results")).to_be_visible()
    check_page(page, "dead-letters-nothing-found")

    page.get_by_role("link", name="Clear").click()
    expect(rows(page, "Dead letters")).to_have_count(6)


def test_list_is_filtered_by_type_day_and_state(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant)
    page.get_by_label("Type").select_option("chat_completion")
    expect(rows(page, "Dead letters")).to_have_count(2)
    page.get_by_label("Type").select_option("")
    page.get_by_label("To", exact=True).fill("2020-01-01")
    expect(page.get_by_role("heading", name="No results")).to_be_visible()

    page.get_by_role("link", name="Clear").click()
    page.get_by_role("navigation", name="By status").get_by_role("link", name="Resolved").click()
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()
    expect(page).to_have_url(re.compile("status=resolved"))


def test_empty_list_shows_a_notice(console: Console, tenant: Tenant) -> None:
    page = console.open("viewer", tenant)
    expect(page.get_by_role("heading", name="No pending dead letters")).to_be_visible()
    check_page(page, "dead-letters-none")


def test_list_is_navigated_by_keyboard(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant)
    expect(rows(page, "Dead letters").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to main content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()

    rows(page, "Dead letters").first.get_by_role("link").press("Enter")
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    expect(page.locator("main")).to_be_focused()


def test_unassigned_dead_letter_shows_its_timeline(console: Console, failures: FailureFactory, tenant: Tenant) -> None:
    job_id = failures.send_invalid_message(f"word-{tenant.slug}")
    page = console.open("viewer", tenant)

    page.goto(f"{console.url}/dead-letters/{job_id}?tenant=-")

    expect(page.get_by_role("region", name="History").get_by_role("listitem").first).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("The message")


def test_unassigned_dead_letters_have_no_bulk_actions(
    console: Console, failures: FailureFactory, tenant: Tenant
) -> None:
    failures.send_invalid_message(f"word-{tenant.slug}")
    page = console.open("operator", tenant)
    page.get_by_role("link", name=re.compile("^Unassigned")).click()
    expect(page.get_by_text("Close them one by one.")).to_be_visible()
    first = rows(page, "Dead letters").first.get_by_role("link")
    expect(first).to_be_visible()
    for name in ("Operations", "Purges"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    expect(page.get_by_role("button", name="Export…")).to_have_count(0)
    expect(page.get_by_role("group", name="Bulk actions")).to_have_count(0)
    expect(page.get_by_role("checkbox")).to_have_count(0)
    check_page(page, "dead-letters-unassigned")

    first.focus()
    page.keyboard.press("e")
    expect(page.get_by_role("dialog")).to_contain_text("Resolve this dead letter?")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Documents", exact=True).click()
    expect(page.get_by_role("combobox", name="Tenant")).to_have_value(tenant.slug)
