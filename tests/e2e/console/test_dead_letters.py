"""The list of dead letters: groups, filters, search, and addresses that lead back to what was looked for."""

import re

import pytest
from playwright.sync_api import expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.failing import Failing
from tests.e2e.console.looks import looks
from tests.e2e.console.reading import rows

pytestmark = pytest.mark.e2e


def test_groups_and_letters_are_shown(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown)
    expect(rows(page, "Letters")).to_have_count(6)
    expect(rows(page, "What they died of").first).to_be_visible()
    expect(page.get_by_role("navigation", name="By state").get_by_role("link").first).to_contain_text("6")
    looks(page, "dead-letters")


def test_a_group_leads_to_its_letters_and_back(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown)
    rows(page, "What they died of").filter(has_text="answered with HTTP").get_by_role("link").click()

    expect(rows(page, "Letters")).to_have_count(2)
    expect(page).to_have_url(re.compile("fingerprint="))
    looks(page, "dead-letters-of-a-group")
    page.get_by_role("link", name="Show all groups").click()
    expect(rows(page, "Letters")).to_have_count(6)


def test_letters_are_found_by_words_and_the_address_keeps_them(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown)
    search = page.get_by_label("Words of the error")
    search.fill("broken-1")
    search.press("Enter")
    expect(rows(page, "Letters")).to_have_count(1)
    expect(page).to_have_url(re.compile("text=broken-1"))

    page.reload()
    expect(rows(page, "Letters")).to_have_count(1)
    page.go_back()
    expect(rows(page, "Letters")).to_have_count(6)
    expect(search).to_have_value("")


def test_a_search_without_a_letter_says_what_to_do(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown, "dead-letters?text=nothinglikethis")
    expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()
    looks(page, "dead-letters-nothing-found")

    page.get_by_role("link", name="Clear").click()
    expect(rows(page, "Letters")).to_have_count(6)


def test_letters_are_narrowed_by_type_day_and_state(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown)
    page.get_by_label("Type").select_option("chat_completion")
    expect(rows(page, "Letters")).to_have_count(2)
    page.get_by_label("Type").select_option("")
    page.get_by_label("To", exact=True).fill("2020-01-01")
    expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()

    page.get_by_role("link", name="Clear").click()
    page.get_by_role("navigation", name="By state").get_by_role("link", name="Resolved").click()
    expect(page.get_by_role("heading", name="There are none")).to_be_visible()
    expect(page).to_have_url(re.compile("status=resolved"))


def test_a_tenant_without_failures_is_told_so(console: Console, tenant: Tenant) -> None:
    page = console.opened("viewer", tenant)
    expect(page.get_by_role("heading", name="No work is waiting for a person")).to_be_visible()
    looks(page, "dead-letters-none")


def test_the_list_is_gone_through_by_keyboard(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown)
    expect(rows(page, "Letters").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()

    rows(page, "Letters").first.get_by_role("link").press("Enter")
    expect(page.get_by_role("heading", name="What happened")).to_be_visible()
    expect(page.locator("main")).to_be_focused()


def test_unassigned_letter_is_shown_with_its_timeline(console: Console, failing: Failing, tenant: Tenant) -> None:
    letter = failing.poison(f"word-{tenant.slug}")
    page = console.opened("viewer", tenant)

    page.goto(f"{console.url}/dead-letters/{letter}?tenant=-")

    expect(page.get_by_role("region", name="What happened").get_by_role("listitem").first).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("The message")


def test_nobodys_letters_are_settled_one_by_one_and_stay_apart(
    console: Console, failing: Failing, tenant: Tenant
) -> None:
    failing.poison(f"word-{tenant.slug}")
    page = console.opened("operator", tenant)
    page.get_by_role("link", name=re.compile("^Nobody")).click()
    expect(page.get_by_text("They are looked at and settled one by one.")).to_be_visible()
    first = rows(page, "Letters").first.get_by_role("link")
    expect(first).to_be_visible()
    for name in ("Operations", "Purges"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    expect(page.get_by_role("button", name="Export…")).to_have_count(0)
    expect(page.get_by_role("group", name="Many letters")).to_have_count(0)
    expect(page.get_by_role("checkbox")).to_have_count(0)
    looks(page, "dead-letters-of-nobody")

    first.focus()
    page.keyboard.press("e")
    expect(page.get_by_role("dialog")).to_contain_text("Resolve this dead letter?")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Documents", exact=True).click()
    expect(page.get_by_label("Tenant", exact=True)).to_have_value(tenant.slug)
