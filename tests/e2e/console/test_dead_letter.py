"""A dead letter in the console: error, payload by role, and timeline."""

from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from cli.local.console import Role
from cli.local.tenants import Tenant
from tests.e2e.console.conftest import ACCOUNT, Console
from tests.e2e.console.locators import fact, rows, timeline_entries
from tests.e2e.console.page_checks import check_page

pytestmark = pytest.mark.e2e
AWS = "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1"
TRACE = "1-5759e988-bd862e3fe1be46a994272793"


def open_dead_letter(page: Page, words: str) -> None:
    """Open the first dead letter whose row contains `words`."""
    rows(page, "Dead letters").filter(has_text=words).first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    expect(timeline_entries(page).first).to_be_visible()


def test_task_shows_error_payload_and_attempts(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("admin", failed_tenant, "dead-letters?task_type=chat_completion")
    open_dead_letter(page, "answered with HTTP 400")

    expect(page.get_by_role("heading", level=1)).to_contain_text("answered with HTTP 400")
    expect(page.get_by_text("PromptRejectedError", exact=True).first).to_be_visible()
    expect(page.get_by_label("Payload as JSON")).to_contain_text('"work_id": "')
    expect(fact(page, "Type")).to_have_text("Chat completion")
    expect(fact(page, "Tenant")).to_have_text(failed_tenant.slug)
    expect(fact(page, "Reason")).to_have_text("Permanent error")
    expect(timeline_entries(page)).to_have_count(2)
    expect(timeline_entries(page).first).to_contain_text("Attempt 1")
    fact(page, "Work item").get_by_role("link", name="Task").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Chat completion")
    fact(page, "Dead letter").get_by_role("link").click()
    timeline_entries(page).first.get_by_text("Log", exact=True).click()
    expect(page.get_by_role("region", name="Command for the log of attempt 1")).to_contain_text(
        "/aws/lambda/counterfoil-"
    )
    expect(timeline_entries(page).last).to_contain_text("Failure: Permanent error")
    check_page(page, "dead-letter-task")


def test_attempt_links_to_log_and_trace_in_aws(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("admin", failed_tenant, "dead-letters?task_type=chat_completion")

    def link(route: Route) -> None:
        headers = {name: value for name, value in route.request.headers.items() if name != "if-none-match"}
        response = route.fetch(headers=headers)  # a poll would return 304 without a body
        body = response.json()
        body["events"][0]["log"]["url"] = f"{AWS}#logsV2:log-groups"
        body["events"][0] |= {"trace_id": TRACE, "trace_url": f"{AWS}#xray:traces/{TRACE}"}
        route.fulfill(response=response, json=body)

    page.route("**/timeline", link)
    open_dead_letter(page, "answered with HTTP 400")
    for label in ("Log", "Trace"):
        timeline_entries(page).first.get_by_text(label, exact=True).click()

    log = page.get_by_role("link", name="Log of attempt 1 in the AWS console")
    trace = page.get_by_role("link", name="Trace of attempt 1 in the AWS console")
    expect(log).to_have_attribute("href", f"{AWS}#logsV2:log-groups")
    expect(trace).to_have_attribute("href", f"{AWS}#xray:traces/{TRACE}")
    expect(page.get_by_role("button", name="Copy: Command for the trace of attempt 1")).to_be_visible()
    check_page(page, "dead-letter-links")


def test_unreadable_file_shows_its_name(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("admin", failed_tenant, "dead-letters?search=broken-2")
    expect(rows(page, "Dead letters")).to_have_count(1)
    rows(page, "Dead letters").get_by_role("link").click()

    expect(page.get_by_label("Payload as JSON")).to_contain_text("broken-2.pdf")
    expect(fact(page, "Worker")).to_have_text("Ingestion")
    expect(fact(page, "File")).to_have_text("broken-2.pdf")
    fact(page, "Work item").get_by_role("link", name="Document").click()
    expect(fact(page, "File")).to_have_text("broken-2.pdf")
    fact(page, "Dead letter").get_by_role("link").click()
    expect(fact(page, "Worker")).to_have_text("Ingestion")
    check_page(page, "dead-letter-file")


@pytest.mark.parametrize(("role", "is_visible"), [("viewer", False), ("operator", False), ("admin", True)])
def test_account_number_is_visible_to_admins_only(
    console: Console, failed_tenant: Tenant, role: Role, is_visible: bool
) -> None:
    page = console.open(role, failed_tenant, "dead-letters?task_type=ingestion")
    expect(rows(page, "Dead letters")).to_have_count(4)
    rows(page, "Dead letters").filter(has_text="XML").get_by_role("link").click()
    payload = page.get_by_label("Payload as JSON")
    expect(payload).to_contain_text("file_name")

    expect(payload.filter(has_text=ACCOUNT)).to_have_count(int(is_visible))
    expect(page.get_by_text("hidden from your role")).to_have_count(int(not is_visible))


def test_times_are_shown_in_utc_when_selected(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant)
    first = rows(page, "Dead letters").first.locator("time")
    expect(first).not_to_contain_text("UTC")
    page.get_by_label("Times").select_option("utc")

    expect(first).to_contain_text("UTC")
    page.reload()
    expect(first).to_contain_text("UTC")


def test_missing_dead_letter_shows_a_notice(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant, f"dead-letters/{uuid4()}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letter not found")
    check_page(page, "dead-letter-missing")
