"""Ambiguous matches are decided in the console, by keyboard and concurrently."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant, add_tenant
from cli.local.uploads import upload, wait_for
from counterfoil.documents.upload_list import Upload
from tests.e2e.console.ambiguous_invoices import ingest_ambiguous
from tests.e2e.console.conftest import Console
from tests.e2e.console.console_users import ConsoleUsers
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import check_page

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class AmbiguousInvoices:
    """A tenant with three ambiguous invoices.

    Two tests decide one invoice each. One invoice remains ambiguous for the other tests.
    """

    tenant: Tenant
    numbers: list[str]


@pytest.fixture(scope="module")
def ambiguous(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> AmbiguousInvoices:
    tenant = add_tenant(cloud, f"ambiguous-{uuid4().hex[:6]}")[0]

    def ingest(paths: Sequence[Path]) -> list[Upload]:
        return wait_for(cloud, list(upload(cloud, tenant, paths)), 120)

    return AmbiguousInvoices(tenant, ingest_ambiguous(ingest, tmp_path_factory.mktemp("ambiguous"), 3))


def candidates(page: Page) -> list[str]:
    """Return the candidates' ids, in the order shown on the page."""
    links = page.locator(".card h2:has(kbd) a")
    expect(links).to_have_count(2)
    return [str(link.get_attribute("href")).split("?")[0].rsplit("/", 1)[-1] for link in links.all()]


def test_match_is_confirmed_by_keyboard(console: Console, ambiguous: AmbiguousInvoices) -> None:
    page = console.open("operator", ambiguous.tenant, "reviews")
    review_rows = rows(page, "Documents to review")
    expect(review_rows.nth(1)).to_be_visible()
    count = review_rows.count()
    check_page(page, "reviews")

    page.keyboard.press("j")
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("RE-")
    candidates(page)
    check_page(page, "review")
    chosen_heading = str(heading.text_content())
    page.keyboard.press("2")
    page.keyboard.press("c")
    expect(page.get_by_role("dialog", name="Confirm the match")).to_be_visible()
    expect(page.get_by_role("dialog")).to_contain_text(re.compile(r"matches purchase order \d+ \(.* EUR\)"))
    check_page(page, "review-confirm")
    page.keyboard.type("The driver's note says so.")
    page.keyboard.press("Control+Enter")

    expect(page.locator(".decision-notice")).to_contain_text("confirmed")
    expect(heading).not_to_have_text(chosen_heading)
    (number,) = [number for number in ambiguous.numbers if number in chosen_heading]
    page.keyboard.press("u")
    expect(review_rows).to_have_count(count - 1)
    expect(review_rows.filter(has_text=number)).to_have_count(0)
    page.get_by_label("Status").select_option("Decided by a reviewer")
    expect(review_rows.filter(has_text=number)).to_have_count(1)


def test_conflicting_decision_requires_confirmation(
    console: Console, users: ConsoleUsers, ambiguous: AmbiguousInvoices
) -> None:
    page = console.open("operator", ambiguous.tenant, "reviews")
    rows(page, "Documents to review").first.get_by_role("link").click()
    other, _ = candidates(page)
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    with users.api("operator", ambiguous.tenant) as api:
        review = page.url.split("?")[0].rsplit("/", 1)[-1]
        response = api.post(f"admin/reviews/{review}/reject", json={"documents": [other], "reason": "Not ours."})
        assert response.status_code == 200

    dialog.get_by_role("button", name="Confirm").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Someone else decided this first.")
    expect(dialog).to_contain_text("rejected this on")
    check_page(page, "review-conflict")
    dialog.get_by_role("button", name="Confirm anyway").click()
    expect(page.locator(".decision-notice")).to_contain_text("confirmed")

    page.get_by_role("link", name="View or change the decision").click()
    expect(page.locator("ol.timeline > li")).to_have_count(2)
    expect(page.locator("ol.timeline > li").first).to_contain_text("Confirmed: purchase order")
    expect(page.locator(".card").filter(has_text="Confirmed").get_by_role("button", name="Reject…")).to_be_visible()
    expect(page.locator("button.primary")).to_have_count(0)
    check_page(page, "review-decided")


def test_viewer_cannot_decide(console: Console, ambiguous: AmbiguousInvoices) -> None:
    page = console.open("viewer", ambiguous.tenant, "reviews")
    rows(page, "Documents to review").first.get_by_role("link").click()
    candidates(page)

    expect(page.get_by_text("Confirming or rejecting a match requires the operator role.")).to_be_visible()
    expect(page.get_by_role("button", name="Confirm")).to_have_count(0)


def test_empty_review_list_shows_a_notice(console: Console, tenant: Tenant) -> None:
    page = console.open("viewer", tenant, "reviews")

    expect(page.get_by_role("heading", name="No documents to review")).to_be_visible()
    check_page(page, "reviews-none")
    page.goto(f"{console.url}/reviews/00000000-0000-0000-0000-000000000000?tenant={tenant.slug}")
    expect(page.get_by_role("heading", name="Document not found in the review queue")).to_be_visible()
