"""Who may come in, and where he comes to: signing in and out, sessions that ended, roles and tenants."""

import re

import pytest
from playwright.sync_api import Page, expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.looks import looks
from tests.e2e.console.people import SESSION, People, sign_in
from tests.e2e.console.reading import rows

pytestmark = pytest.mark.e2e

END = """(name) => {
    const kept = JSON.parse(sessionStorage[name]);
    kept.claims.exp = Math.floor(Date.now() / 1000) + %d;
    kept.refresh = %s;
    sessionStorage[name] = JSON.stringify(kept);
}"""


HOLDS = "(name) => JSON.parse(sessionStorage[name]).claims.exp > Date.now() / 1000 + 600"


def ends(page: Page, *, seconds: int, refresh: str = "kept.refresh") -> None:
    """Let the token of a tab hold for so many seconds more, and load the page again."""
    page.evaluate(END % (seconds, refresh), SESSION)
    page.reload()


def test_a_deep_link_leads_through_the_sign_in_to_where_it_points(
    console: Console, people: People, shown: Tenant
) -> None:
    deep = f"dead-letters?tenant={shown.slug}&status=all&text=broken-1"
    page = console.stranger(deep)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("button", name="Sign in")).to_be_focused()
    looks(page, "sign-in")

    sign_in(page, people.person("viewer", shown.slug))

    expect(page).to_have_url(f"{console.url}/{deep}")
    expect(rows(page, "Letters")).to_have_count(1)
    expect(page.get_by_text(people.person("viewer", shown.slug).email)).to_be_visible()


def test_a_wrong_password_signs_nobody_in(console: Console) -> None:
    page = console.stranger()
    page.get_by_role("button", name="Sign in").click()
    page.locator("input[name=username]").fill("nobody@example.com")
    page.locator("input[name=password]").fill("Aa1!wrong-password")
    page.locator("button[type=submit], input[type=submit]").first.click()
    page.wait_for_load_state()

    assert not page.url.startswith(console.url)
    page.goto(console.url)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_whoever_signs_out_leaves_nothing_in_the_tab(console: Console, people: People, shown: Tenant) -> None:
    page = console.stranger("dead-letters")
    sign_in(page, people.person("viewer", shown.slug))
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    assert page.evaluate(f"sessionStorage.getItem('{SESSION}')") is None
    looks(page, "signed-out")
    page.go_back()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_token_that_is_about_to_end_is_renewed_without_a_word(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown)
    with page.expect_response(re.compile("/oauth2/token$")) as renewed:
        ends(page, seconds=60)

    assert renewed.value.ok
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    # What a page sees then is no matter here: the emulator leaves a person's groups out of a renewed token.
    page.wait_for_function(HOLDS, arg=SESSION)


def test_a_session_that_ended_says_so_and_leads_back(console: Console, people: People, shown: Tenant) -> None:
    page = console.opened("viewer", shown, "dead-letters?status=all")
    here = page.url
    ends(page, seconds=-60, refresh="null")
    expect(page.get_by_role("heading", name="Your session has ended")).to_be_visible()
    looks(page, "session-ended")

    sign_in(page, people.person("viewer", shown.slug))
    expect(page).to_have_url(here)
    expect(rows(page, "Letters").first).to_be_visible()


def test_an_answer_to_a_sign_in_that_nobody_began_is_refused(console: Console) -> None:
    page = console.stranger("signed-in?code=forged&state=forged")
    expect(page.get_by_role("alert")).to_contain_text("belongs to no sign-in that was begun in this tab")
    looks(page, "sign-in-forged")


def test_somebody_of_another_tenant_sees_nothing_of_this_one(console: Console, tenant: Tenant, shown: Tenant) -> None:
    page = console.opened("admin", tenant, alone=True)
    expect(page.get_by_text("No work is waiting for a person")).to_be_visible()

    page.goto(f"{console.url}/dead-letters?tenant={shown.slug}")
    alert = page.get_by_role("alert").first
    expect(alert).to_be_visible()
    expect(rows(page, "Letters")).to_have_count(0)
    looks(page, "another-tenant")


def test_somebody_of_every_tenant_is_asked_for_one(console: Console, people: People, shown: Tenant) -> None:
    page = console.stranger("dead-letters")
    sign_in(page, people.person("viewer", "*"))
    expect(page.get_by_role("heading", name="Which tenant?")).to_be_visible()
    looks(page, "which-tenant")

    page.get_by_label("Tenant").fill(shown.slug)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"tenant={shown.slug}"))
    expect(rows(page, "Letters").first).to_be_visible()


def test_an_address_that_leads_nowhere_says_so(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown, "dead-letters")
    page.goto(f"{console.url}/nowhere")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    looks(page, "no-such-page")
