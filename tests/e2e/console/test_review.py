"""What matching left in doubt, decided in the console by people: by keys alone, and where two decide at once."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from cli.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.doubt import Ingest, doubtful
from tests.e2e.console.looks import looks
from tests.e2e.console.people import People
from tests.e2e.console.reading import rows

pytestmark = pytest.mark.e2e


def candidates(page: Page) -> list[str]:
    """The ids of what a document may belong to, as its page shows them."""
    links = page.locator(".candidate h2 a")
    expect(links).to_have_count(2)
    return [str(link.get_attribute("href")).split("?")[0].rsplit("/", 1)[-1] for link in links.all()]


def test_a_document_is_decided_by_keys_alone(console: Console, tenant: Tenant, ingest: Ingest, tmp_path: Path) -> None:
    first, second = doubtful(ingest, tmp_path, 2)
    page = console.opened("operator", tenant, "reviews")
    expect(rows(page, "Documents in doubt")).to_have_count(2)
    looks(page, "reviews")

    page.keyboard.press("j")
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("RE-")
    candidates(page)
    looks(page, "review")
    chosen = str(heading.text_content())
    page.keyboard.press("2")
    page.keyboard.press("c")
    expect(page.get_by_role("dialog", name="They belong together")).to_be_visible()
    looks(page, "review-confirm")
    page.keyboard.type("The driver's note says so.")
    page.keyboard.press("Control+Enter")

    expect(page.locator(".told")).to_contain_text("confirmed")
    expect(heading).not_to_have_text(chosen)
    page.keyboard.press("u")
    expect(rows(page, "Documents in doubt")).to_have_count(1)
    page.get_by_label("State").select_option("decided by a person")
    expect(rows(page, "Documents in doubt")).to_have_count(1)
    assert {first in chosen, second in chosen} == {True, False}


def test_who_is_late_is_told_and_decides_otherwise_only_knowingly(
    console: Console, people: People, tenant: Tenant, ingest: Ingest, tmp_path: Path
) -> None:
    doubtful(ingest, tmp_path, 1)
    page = console.opened("operator", tenant, "reviews")
    rows(page, "Documents in doubt").get_by_role("link").click()
    other, _ = candidates(page)
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    with people.api("operator", tenant) as api:
        review = page.url.split("?")[0].rsplit("/", 1)[-1]
        answer = api.post(f"admin/reviews/{review}/reject", json={"documents": [other], "reason": "Not ours."})
        assert answer.status_code == 200

    dialog.get_by_role("button", name="Confirm").click()
    expect(dialog.get_by_role("alert")).to_contain_text("rejected this pair")
    looks(page, "review-conflict")
    dialog.get_by_role("button", name="Confirm all the same").click()
    expect(page.locator(".told")).to_contain_text("confirmed")

    page.get_by_role("link", name="Look at it, or decide otherwise").click()
    expect(page.locator("ol.timeline > li")).to_have_count(2)
    looks(page, "review-decided")


def test_a_viewer_looks_and_is_offered_nothing_to_decide(
    console: Console, tenant: Tenant, ingest: Ingest, tmp_path: Path
) -> None:
    doubtful(ingest, tmp_path, 1)
    page = console.opened("viewer", tenant, "reviews")
    rows(page, "Documents in doubt").get_by_role("link").click()
    candidates(page)

    expect(page.get_by_text("Deciding takes the role operator.")).to_be_visible()
    expect(page.get_by_role("button", name="Confirm")).to_have_count(0)


def test_where_nothing_is_in_doubt_that_is_said(console: Console, tenant: Tenant) -> None:
    page = console.opened("viewer", tenant, "reviews")

    expect(page.get_by_role("heading", name="Nothing is in doubt")).to_be_visible()
    looks(page, "reviews-none")
    page.goto(f"{console.url}/reviews/00000000-0000-0000-0000-000000000000?tenant={tenant.slug}")
    expect(page.get_by_role("heading", name="This document was never in doubt")).to_be_visible()
