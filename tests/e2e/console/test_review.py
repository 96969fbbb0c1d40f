"""What matching left in doubt, decided in the console by people: by keys alone, and where two decide at once."""

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
from tests.e2e.console.conftest import Console
from tests.e2e.console.doubt import doubtful
from tests.e2e.console.looks import looks
from tests.e2e.console.people import People
from tests.e2e.console.reading import rows

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Doubts:
    """A tenant with three ambiguous invoices.

    Two tests decide one each, so one is left for the others.
    """

    tenant: Tenant
    numbers: list[str]


@pytest.fixture(scope="module")
def doubts(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Doubts:
    tenant = add_tenant(cloud, f"doubts-{uuid4().hex[:6]}")[0]

    def ingest(paths: Sequence[Path]) -> list[Upload]:
        return wait_for(cloud, list(upload(cloud, tenant, paths)), 120)

    return Doubts(tenant, doubtful(ingest, tmp_path_factory.mktemp("doubts"), 3))


def candidates(page: Page) -> list[str]:
    """The ids of what a document may belong to, as its page shows them."""
    links = page.locator(".candidate h2 a")
    expect(links).to_have_count(2)
    return [str(link.get_attribute("href")).split("?")[0].rsplit("/", 1)[-1] for link in links.all()]


def test_a_document_is_decided_by_keys_alone(console: Console, doubts: Doubts) -> None:
    page = console.opened("operator", doubts.tenant, "reviews")
    listed = rows(page, "Documents in doubt")
    expect(listed.nth(1)).to_be_visible()
    count = listed.count()
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
    (number,) = [number for number in doubts.numbers if number in chosen]
    page.keyboard.press("u")
    expect(listed).to_have_count(count - 1)
    expect(listed.filter(has_text=number)).to_have_count(0)
    page.get_by_label("State").select_option("decided by a person")
    expect(listed.filter(has_text=number)).to_have_count(1)


def test_who_is_late_is_told_and_decides_otherwise_only_knowingly(
    console: Console, people: People, doubts: Doubts
) -> None:
    page = console.opened("operator", doubts.tenant, "reviews")
    rows(page, "Documents in doubt").first.get_by_role("link").click()
    other, _ = candidates(page)
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    with people.api("operator", doubts.tenant) as api:
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


def test_a_viewer_looks_and_is_offered_nothing_to_decide(console: Console, doubts: Doubts) -> None:
    page = console.opened("viewer", doubts.tenant, "reviews")
    rows(page, "Documents in doubt").first.get_by_role("link").click()
    candidates(page)

    expect(page.get_by_text("Deciding requires the operator role.")).to_be_visible()
    expect(page.get_by_role("button", name="Confirm")).to_have_count(0)


def test_where_nothing_is_in_doubt_that_is_said(console: Console, tenant: Tenant) -> None:
    page = console.opened("viewer", tenant, "reviews")

    expect(page.get_by_role("heading", name="Nothing is in doubt")).to_be_visible()
    looks(page, "reviews-none")
    page.goto(f"{console.url}/reviews/00000000-0000-0000-0000-000000000000?tenant={tenant.slug}")
    expect(page.get_by_role("heading", name="This document was never in doubt")).to_be_visible()
