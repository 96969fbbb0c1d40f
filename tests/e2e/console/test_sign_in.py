"""Sign-in and sign-out in the console, expired sessions, roles and tenants."""

import re

import pytest
from playwright.sync_api import Page, expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.console_users import SESSION, ConsoleUsers, sign_in
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import check_page

pytestmark = pytest.mark.e2e

SET_EXPIRY = """(name) => {
    const kept = JSON.parse(sessionStorage[name]);
    kept.claims.exp = Math.floor(Date.now() / 1000) + %d;
    kept.refresh = %s;
    sessionStorage[name] = JSON.stringify(kept);
}"""


IS_RENEWED = "(name) => JSON.parse(sessionStorage[name]).claims.exp > Date.now() / 1000 + 600"


def expire(page: Page, *, seconds: int, refresh: str = "kept.refresh") -> None:
    """Set the token's remaining lifetime in this tab, and reload the page."""
    page.evaluate(SET_EXPIRY % (seconds, refresh), SESSION)
    page.reload()


def test_sign_in_returns_to_the_deep_link(console: Console, users: ConsoleUsers, failed_tenant: Tenant) -> None:
    deep_link = f"dead-letters?tenant={failed_tenant.slug}&status=all&search=broken-1"
    page = console.open_signed_out(deep_link)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("button", name="Sign in")).to_be_focused()
    check_page(page, "sign-in")

    sign_in(page, users.user("viewer", failed_tenant.slug))

    expect(page).to_have_url(f"{console.url}/{deep_link}")
    expect(rows(page, "Dead letters")).to_have_count(1)
    expect(page.get_by_text(users.user("viewer", failed_tenant.slug).email)).to_be_visible()


def test_wrong_password_is_refused(console: Console) -> None:
    page = console.open_signed_out()
    page.get_by_role("button", name="Sign in").click()
    page.locator("input[name=username]").fill("nobody@example.com")
    page.locator("input[name=password]").fill("Aa1!wrong-password")
    page.locator("button[type=submit], input[type=submit]").first.click()
    page.wait_for_load_state()

    assert not page.url.startswith(console.url)
    page.goto(console.url)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_sign_out_clears_the_tab(console: Console, users: ConsoleUsers, failed_tenant: Tenant) -> None:
    page = console.open_signed_out("dead-letters")
    sign_in(page, users.user("viewer", failed_tenant.slug))
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
    assert page.evaluate(f"sessionStorage.getItem('{SESSION}')") is None
    check_page(page, "signed-out")
    page.go_back()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_expiring_token_is_renewed_silently(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant)
    with page.expect_response(re.compile("/oauth2/token$")) as response:
        expire(page, seconds=60)

    assert response.value.ok
    expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
    # Rows are not checked, because the emulator omits the groups from renewed tokens.
    page.wait_for_function(IS_RENEWED, arg=SESSION)


def test_sign_in_after_expired_session_returns_to_page(
    console: Console, users: ConsoleUsers, failed_tenant: Tenant
) -> None:
    page = console.open("viewer", failed_tenant, "dead-letters?status=all")
    url = page.url
    expire(page, seconds=-60, refresh="null")
    expect(page.get_by_role("heading", name="Your session has ended")).to_be_visible()
    check_page(page, "session-ended")

    sign_in(page, users.user("viewer", failed_tenant.slug))
    expect(page).to_have_url(url)
    expect(rows(page, "Dead letters").first).to_be_visible()


def test_forged_sign_in_response_is_refused(console: Console) -> None:
    page = console.open_signed_out("signed-in?code=forged&state=forged")
    expect(page.get_by_role("alert")).to_contain_text("was not started in this tab")
    check_page(page, "sign-in-forged")


def test_user_of_another_tenant_sees_no_dead_letters(console: Console, tenant: Tenant, failed_tenant: Tenant) -> None:
    page = console.open("admin", tenant, own_context=True)
    expect(page.get_by_text("No pending dead letters")).to_be_visible()

    page.goto(f"{console.url}/dead-letters?tenant={failed_tenant.slug}")
    alert = page.get_by_role("alert").first
    expect(alert).to_be_visible()
    expect(rows(page, "Dead letters")).to_have_count(0)
    check_page(page, "another-tenant")


def test_user_with_all_tenants_chooses_one(console: Console, users: ConsoleUsers, failed_tenant: Tenant) -> None:
    page = console.open_signed_out("dead-letters")
    sign_in(page, users.user("viewer", "*"))
    expect(page.get_by_role("heading", name="Choose a tenant")).to_be_visible()
    check_page(page, "which-tenant")

    page.get_by_label("Tenant").select_option(failed_tenant.slug)
    expect(page).to_have_url(re.compile(f"tenant={failed_tenant.slug}"))
    expect(rows(page, "Dead letters").first).to_be_visible()


def test_unknown_url_shows_a_notice(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant, "dead-letters")
    page.goto(f"{console.url}/nowhere")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    check_page(page, "no-such-page")
