"""Offers in the console: progress by date and time zone, shards and failed users."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from cli.local.tenants import Tenant
from counterfoil.db import Connection
from tests.e2e.console.conftest import Console
from tests.e2e.console.locators import fact, rows
from tests.e2e.console.offer_factory import SHARD_ERROR, complete_pool, make_offer_day, make_running_pool
from tests.e2e.console.page_checks import check_page

pytestmark = pytest.mark.e2e

SECOND_DAY = datetime.now(UTC).date() - timedelta(days=1)
FIRST_DAY = SECOND_DAY - timedelta(days=1)


def test_pools_are_listed_with_progress_and_filtered(console: Console, tenant: Tenant, admin: Connection) -> None:
    make_offer_day(admin, tenant, FIRST_DAY)
    make_running_pool(admin, tenant, SECOND_DAY, "Asia/Kathmandu", [1200, 300, 700])
    complete_pool(admin, make_running_pool(admin, tenant, FIRST_DAY, "America/Argentina/ComodRivadavia", [40]))

    page = console.open("viewer", tenant, "offers")

    pool_rows = rows(page, "Offers")
    expect(pool_rows).to_have_count(3)
    expect(pool_rows.nth(0)).to_contain_text("Asia/Kathmandu")
    expect(pool_rows.nth(0)).to_contain_text("1,000 late")
    expect(pool_rows.nth(1)).to_contain_text("Failed")
    check_page(page, "offers")
    page.keyboard.press("/")
    page.keyboard.type("Europe/Berlin")
    page.keyboard.press("Enter")
    expect(pool_rows).to_have_count(1)
    page.get_by_label("Status").select_option("completed")
    expect(page.get_by_role("heading", name="No results")).to_be_visible()
    check_page(page, "offers-nothing-found")


def test_tenant_without_offers_shows_a_notice(console: Console, tenant: Tenant) -> None:
    page = console.open("viewer", tenant, "offers")

    expect(page.get_by_role("heading", name="No offers yet")).to_be_visible()
    check_page(page, "offers-none")


def test_running_pool_page_updates_automatically(console: Console, tenant: Tenant, admin: Connection) -> None:
    pool = make_running_pool(admin, tenant, FIRST_DAY, "Asia/Kathmandu", [1200, 300, 700])
    page = console.open("viewer", tenant, f"offers/{pool}")
    expect(rows(page, "Shards")).to_have_count(3)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Running")
    check_page(page, "offers-pool-running")

    complete_pool(admin, pool)

    expect(page.get_by_role("heading", level=1)).to_contain_text("Completed")
    expect(page.locator("dl.counts div").filter(has_text="completed").locator("dd")).to_have_text("2,200")


def test_failed_user_links_to_reason_and_dead_letter(console: Console, tenant: Tenant, admin: Connection) -> None:
    offer_day = make_offer_day(admin, tenant, FIRST_DAY)
    page = console.open("viewer", tenant, "offers")
    expect(rows(page, "Offers")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")

    expect(rows(page, "Failed users")).to_have_count(1)
    expect(rows(page, "Failed users")).to_contain_text(SHARD_ERROR)
    expect(rows(page, "Shards").nth(0)).to_contain_text("quarantined")
    expect(rows(page, "Shards")).to_have_count(3)
    check_page(page, "offers-pool-failed")

    rows(page, "Failed users").get_by_role("link", name=str(offer_day.failed)).click()
    expect(fact(page, "User").get_by_title(str(offer_day.failed))).to_be_visible()
    check_page(page, "offers-user-failed")
    page.get_by_role("link", name="View the shard").click()
    expect(page.get_by_text(SHARD_ERROR).first).to_be_visible()


def test_withdrawn_offers_are_marked(console: Console, tenant: Tenant, admin: Connection) -> None:
    offer_day = make_offer_day(admin, tenant, FIRST_DAY)
    page = console.open("viewer", tenant, f"offers/{offer_day.pool}")
    page.get_by_role("search", name="User").get_by_role("searchbox").fill(str(offer_day.served))
    page.keyboard.press("Enter")

    expect(rows(page, "Offered users")).to_have_count(2)
    expect(rows(page, "Offered users").filter(has_text=str(offer_day.inactive))).to_contain_text("Withdrawn")
    expect(rows(page, "Offered users").first).to_contain_text("87%")
    check_page(page, "offers-user")


def test_missing_pool_shows_a_notice(console: Console, tenant: Tenant) -> None:
    page = console.open("viewer", tenant, "offers/11111111-1111-4111-8111-111111111111")

    expect(page.get_by_role("heading", name="Offers not found")).to_be_visible()
