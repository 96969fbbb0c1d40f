"""Sign-in and sign-out in the console, expired sessions, roles and tenants."""

import re

import pytest
from playwright.sync_api import Page, expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.console_users import SESSION, People, sign_in
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import looks

pytestmark = pytest.mark.e2e

SET_EXPIRY = """(name) => {
    const kept = JSON.parse(sessionStorage[name]);
    kept.claims.exp = Math.floor(Date.now() / 1000) + %d;
    kept.refresh = %s;
    sessionStorage[name] = JSON.stringify(kept);
}"""


IS_RENEWED = "(name) => JSON.parse(sessionStorage[name]).claims.exp > Date.now() / 1000 + 600"


def expire(page: Page, *, seconds: int, refresh: str = "kept.refresh") -> None:
    """Set the remaining lifetime of the tab's token, and reload the page."""
    page.evaluate(SET_EXPIRY % (seconds, refresh), SESSION)
    page.reload()


def test_sign_in_returns_to_the_deep_link(console: Console, people: People, shown: Tenant) -> None:
    deep = f"dead-letters?tenant={shown.slug}&status=all&text=broken-1"
    page = console.signed_out(deep)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("button", name="Sign in")).to_be_focused()
    looks(page, "sign-in")

    sign_in(page, people.person("viewer", shown.slug))

    expect(page).to_have_url(f"{console.url}/{deep}")
    expect(rows(page, "Dead letters")).to_have_count(1)
    expect(page.get_by_text(people.person("viewer", shown.slug).email)).to_be_visible()


def test_wrong_password_is_refused(console: Console) -> None:
    page = console.signed_out()
    page.get_by_role("button", name="Sign in").click()
    page.locator("input[name=username]").fill("nobody@example.com")
    page.locator("input[name=password]").fill("Aa1!wrong-password")
    page.locator("button[type=submit], input[type=submit]").first.click()
    page.wait_for_load_state()

    assert not page.url.startswith(console.url)
    page.goto(console.url)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_sign_out_clears_the_tab(console: Console, people: People, shown: Tenant) -> None:
    page = console.signed_out("dead-letters")
    sign_in(page, people.person("viewer", shown.slug))
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    assert page.evaluate(f"sessionStorage.getItem('{SESSION}')") is None
    looks(page, "signed-out")
    page.go_back()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_expiring_token_is_renewed_silently(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown)
    with page.expect_response(re.compile("/oauth2/token$")) as renewed:
        expire(page, seconds=60)

    assert renewed.value.ok
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    # Rows are not checked, because the emulator omits the groups from renewed tokens.
    page.wait_for_function(IS_RENEWED, arg=SESSION)


def test_expired_session_returns_after_sign_in(console: Console, people: People, shown: Tenant) -> None:
    page = console.opened("viewer", shown, "dead-letters?status=all")
    here = page.url
    expire(page, seconds=-60, refresh="null")
    expect(page.get_by_role("heading", name="Your session has ended")).to_be_visible()
    looks(page, "session-ended")

    sign_in(page, people.person("viewer", shown.slug))
    expect(page).to_have_url(here)
    expect(rows(page, "Dead letters").first).to_be_visible()


def test_forged_sign_in_response_is_refused(console: Console) -> None:
    page = console.signed_out("signed-in?code=forged&state=forged")
    expect(page.get_by_role("alert")).to_contain_text("was not started in this tab")
    looks(page, "sign-in-forged")


def test_user_of_another_tenant_sees_nothing(console: Console, tenant: Tenant, shown: Tenant) -> None:
    page = console.opened("admin", tenant, alone=True)
    expect(page.get_by_text("No pending dead letters")).to_be_visible()

    page.goto(f"{console.url}/dead-letters?tenant={shown.slug}")
    alert = page.get_by_role("alert").first
    expect(alert).to_be_visible()
    expect(rows(page, "Dead letters")).to_have_count(0)
    looks(page, "another-tenant")


def test_user_of_every_tenant_selects_one(console: Console, people: People, shown: Tenant) -> None:
    page = console.signed_out("dead-letters")
    sign_in(page, people.person("viewer", "*"))
    expect(page.get_by_role("heading", name="Choose a tenant")).to_be_visible()
    looks(page, "which-tenant")

    page.get_by_label("Tenant").select_option(shown.slug)
    expect(page).to_have_url(re.compile(f"tenant={shown.slug}"))
    expect(rows(page, "Dead letters").first).to_be_visible()


def test_unknown_address_shows_a_notice(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown, "dead-letters")
    page.goto(f"{console.url}/nowhere")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    looks(page, "no-such-page")
