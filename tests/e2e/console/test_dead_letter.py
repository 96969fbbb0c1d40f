"""One dead letter: what it died of, what was asked for, what of that a role may see, and what happened."""

from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from cli.local.console import Role
from cli.local.tenants import Tenant
from tests.e2e.console.conftest import ACCOUNT, Console
from tests.e2e.console.looks import looks
from tests.e2e.console.reading import fact, happened, rows

pytestmark = pytest.mark.e2e
AWS = "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1"
TRACE = "1-5759e988-bd862e3fe1be46a994272793"


def follow(page: Page, words: str) -> None:
    """Open the letter whose row has these words."""
    rows(page, "Letters").filter(has_text=words).first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="What happened")).to_be_visible()
    expect(happened(page).first).to_be_visible()


def test_a_task_tells_its_error_its_payload_and_its_tries(console: Console, shown: Tenant) -> None:
    page = console.opened("admin", shown, "dead-letters?task_type=chat_completion")
    follow(page, "answered with HTTP 400")

    expect(page.get_by_role("heading", level=1)).to_contain_text("RefusedQuestionError")
    expect(page.get_by_label("Payload as JSON")).to_contain_text('"work_id": "')
    expect(fact(page, "Type")).to_have_text("chat_completion")
    expect(fact(page, "Tenant")).to_have_text(shown.slug)
    expect(fact(page, "Why")).to_have_text("no further try could help")
    expect(happened(page)).to_have_count(2)
    expect(happened(page).first).to_contain_text("Try 1")
    fact(page, "Work item").get_by_role("link", name="Task").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("chat_completion")
    fact(page, "Dead letter").get_by_role("link").click()
    happened(page).first.get_by_text("Log", exact=True).click()
    expect(page.get_by_role("region", name="Command for the log of Try 1")).to_contain_text("/aws/lambda/counterfoil-")
    expect(happened(page).last).to_contain_text("Death")
    looks(page, "dead-letter-task")


def test_a_try_leads_to_its_log_and_its_trace_where_there_is_an_aws_console(console: Console, shown: Tenant) -> None:
    page = console.opened("admin", shown, "dead-letters?task_type=chat_completion")

    def link(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        told["events"][0]["log"]["url"] = f"{AWS}#logsV2:log-groups"
        told["events"][0] |= {"trace_id": TRACE, "trace_url": f"{AWS}#xray:traces/{TRACE}"}
        route.fulfill(response=answer, json=told)

    page.route("**/timeline", link)
    follow(page, "answered with HTTP 400")
    for what in ("Log", "Trace"):
        happened(page).first.get_by_text(what, exact=True).click()

    log = page.get_by_role("link", name="Log of Try 1 in the AWS console")
    trace = page.get_by_role("link", name="Trace of Try 1 in the AWS console")
    expect(log).to_have_attribute("href", f"{AWS}#logsV2:log-groups")
    expect(trace).to_have_attribute("href", f"{AWS}#xray:traces/{TRACE}")
    looks(page, "dead-letter-links")


def test_a_file_that_cannot_be_read_names_itself(console: Console, shown: Tenant) -> None:
    page = console.opened("admin", shown, "dead-letters?text=broken-2")
    expect(rows(page, "Letters")).to_have_count(1)
    rows(page, "Letters").get_by_role("link").click()

    expect(page.get_by_label("Payload as JSON")).to_contain_text("broken-2.pdf")
    expect(fact(page, "Worker")).to_have_text("ingestion")
    fact(page, "Work item").get_by_role("link", name="Document").click()
    expect(fact(page, "File")).to_have_text("broken-2.pdf")
    fact(page, "Dead letter").get_by_role("link").click()
    expect(fact(page, "Worker")).to_have_text("ingestion")
    looks(page, "dead-letter-file")


@pytest.mark.parametrize(("role", "sees"), [("viewer", False), ("operator", False), ("admin", True)])
def test_an_account_number_is_hidden_from_those_below_admin(
    console: Console, shown: Tenant, role: Role, sees: bool
) -> None:
    page = console.opened(role, shown, "dead-letters?task_type=ingestion")
    expect(rows(page, "Letters")).to_have_count(4)
    rows(page, "Letters").filter(has_text="XML").get_by_role("link").click()
    payload = page.get_by_label("Payload as JSON")
    expect(payload).to_contain_text("file_name")

    expect(payload.filter(has_text=ACCOUNT)).to_have_count(int(sees))
    expect(page.get_by_text("hidden from your role")).to_have_count(int(not sees))


def test_times_are_shown_in_utc_where_that_is_chosen(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown)
    first = rows(page, "Letters").first.locator("time")
    expect(first).not_to_contain_text("UTC")
    page.get_by_label("Times").select_option("utc")

    expect(first).to_contain_text("UTC")
    page.reload()
    expect(first).to_contain_text("UTC")


def test_a_letter_that_is_not_there_says_so(console: Console, shown: Tenant) -> None:
    page = console.opened("viewer", shown, f"dead-letters/{uuid4()}")
    expect(page.get_by_role("heading", name="There is no such dead letter")).to_be_visible()
    looks(page, "dead-letter-missing")
