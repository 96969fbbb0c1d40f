"""Actions on a dead letter in the console, by button and by keyboard."""

import json
import re
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.failures import UNREACHABLE_URL, FailureFactory
from tests.e2e.console.locators import fact, rows, timeline_entries
from tests.e2e.console.page_checks import check_page
from tests.e2e.polling import wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture
def message() -> str:
    """User message that no other test submits."""
    return f"Where is my order {uuid4().hex[:8]}?"


def dialog(page: Page) -> Locator:
    """Return the open dialog."""
    return page.get_by_role("dialog")


def heading(page: Page) -> Locator:
    """Return the heading of the dead letter's page.

    It begins with the dead letter's state.
    """
    return page.get_by_role("heading", level=1)


def run_action(page: Page, action: str, note: str) -> None:
    """Press a button on the dead letter's page.

    Fill in and submit the dialog that opens.
    """
    page.get_by_role("button", name=f"{action}…", exact=True).click()
    dialog(page).get_by_role("textbox").fill(note)
    dialog(page).get_by_role("button", name=action, exact=True).click()
    expect(dialog(page)).to_have_count(0)


def test_retry_runs_the_task_again(console: Console, failures: FailureFactory, tenant: Tenant, message: str) -> None:
    (task,) = failures.fail_messages(tenant, [message])
    (job_id,) = failures.wait_for_dead_letters([task])
    failures.recover(message)
    page = console.open("admin", tenant, f"dead-letters/{job_id}")
    page.get_by_role("button", name="Retry…", exact=True).click()
    expect(dialog(page).get_by_role("textbox")).to_be_focused()
    check_page(page, "dead-letter-retry")
    dialog(page).get_by_role("button", name="Retry", exact=True).click()

    expect(heading(page)).to_contain_text("Retried")
    wait_until(lambda: failures.count_attempts(task) == 2)
    page.goto(f"{console.url}/tasks/{task}?tenant={tenant.slug}")
    expect(heading(page)).to_contain_text("Succeeded")
    expect(timeline_entries(page)).to_have_count(2)
    expect(timeline_entries(page).last).to_contain_text("Succeeded")


def test_failed_retry_is_listed_with_previous_failures(
    console: Console, failures: FailureFactory, tenant: Tenant, message: str
) -> None:
    (task,) = failures.fail_messages(tenant, [message])
    (job_id,) = failures.wait_for_dead_letters([task])
    page = console.open("operator", tenant, f"dead-letters/{job_id}")
    run_action(page, "Retry", "Once more, please")

    wait_until(lambda: failures.count_attempts(task) == 2)
    expect(rows(page, "Previous failures")).to_have_count(1)
    expect(rows(page, "Previous failures")).to_contain_text("Retried")
    expect(heading(page)).to_contain_text("Pending")
    expect(page.get_by_text("The retry was requested.")).to_have_count(0)
    check_page(page, "dead-letter-failed-again")


def test_resolving_requires_and_stores_a_note(
    console: Console, failures: FailureFactory, tenant: Tenant, message: str
) -> None:
    (job_id,) = failures.wait_for_dead_letters(failures.fail_messages(tenant, [message]))
    page = console.open("operator", tenant, f"dead-letters/{job_id}")
    page.get_by_role("button", name="Resolve…", exact=True).click()
    dialog(page).get_by_role("button", name="Resolve", exact=True).click()
    expect(dialog(page).get_by_role("alert")).to_contain_text("Write a note")
    dialog(page).get_by_role("textbox").fill("Answered by telephone")
    dialog(page).get_by_role("button", name="Resolve", exact=True).click()

    expect(heading(page)).to_contain_text("Resolved")
    expect(fact(page, "Note")).to_have_text("Answered by telephone")
    expect(page.get_by_role("button", name="Retry…", exact=True)).to_have_count(0)
    check_page(page, "dead-letter-resolved")
    page.goto(f"{console.url}/audit?tenant={tenant.slug}")
    expect(rows(page, "Entries")).to_have_count(2)
    expect(rows(page, "Entries").first).to_contain_text("Resolved")
    expect(rows(page, "Entries").last).to_contain_text("Tenant added")
    check_page(page, "audit")


def test_conflict_shows_the_change_and_keeps_the_note(
    console: Console, failures: FailureFactory, tenant: Tenant
) -> None:
    """The payload is edited in another tab while the dialog is open.

    The API therefore returns 412.
    """
    (job_id,) = failures.wait_for_dead_letters([failures.fail_http_request(tenant)])
    page = console.open("admin", tenant, f"dead-letters/{job_id}")
    page.get_by_role("button", name="Ignore…", exact=True).click()
    dialog(page).get_by_role("textbox").fill("No one waits for it")
    other = page.context.new_page()
    other.goto(page.url)
    edit(other, "http://127.0.0.1:9/other")

    with page.expect_response(re.compile("/ignore$")) as response:
        dialog(page).get_by_role("button", name="Ignore", exact=True).click()
    assert response.value.status == 412
    expect(dialog(page)).to_contain_text("You edited the payload")
    expect(dialog(page).get_by_role("alert")).to_contain_text("The dead letter changed after you opened it.")
    expect(dialog(page).get_by_role("textbox")).to_have_value("No one waits for it")
    check_page(page, "dead-letter-conflict")
    dialog(page).get_by_role("button", name="Ignore", exact=True).click()
    expect(heading(page)).to_contain_text("Ignored")


def test_resolved_dead_letter_cannot_be_ignored(
    console: Console, failures: FailureFactory, tenant: Tenant, message: str
) -> None:
    (job_id,) = failures.wait_for_dead_letters(failures.fail_messages(tenant, [message]))
    page = console.open("operator", tenant, f"dead-letters/{job_id}")
    page.get_by_role("button", name="Ignore…", exact=True).click()
    other = page.context.new_page()
    other.goto(page.url)
    run_action(other, "Resolve", "Done by hand")

    expect(dialog(page)).to_contain_text("This dead letter was already resolved.")
    expect(dialog(page).get_by_role("button", name="Ignore", exact=True)).to_be_disabled()


def edit(page: Page, url: str) -> None:
    """Edit the payload so that the task calls another URL."""
    page.get_by_role("button", name="Edit…", exact=True).click()
    text = dialog(page).get_by_label("Payload (JSON)")
    expect(text).to_have_value(re.compile(re.escape(UNREACHABLE_URL)))
    text.fill(json.dumps({"method": "POST", "url": url}))
    dialog(page).get_by_role("button", name="Review the change").click()
    expect(dialog(page).get_by_label("Changes")).to_contain_text(url)
    dialog(page).get_by_role("button", name="Save").click()
    expect(dialog(page)).to_have_count(0)


def test_retry_uses_the_edited_payload(console: Console, failures: FailureFactory, tenant: Tenant) -> None:
    task = failures.fail_http_request(tenant)
    (job_id,) = failures.wait_for_dead_letters([task])
    page = console.open("admin", tenant, f"dead-letters/{job_id}")
    page.get_by_role("button", name="Edit…", exact=True).click()
    expect(dialog(page).get_by_label("Payload (JSON)")).to_have_value(re.compile(re.escape(UNREACHABLE_URL)))
    check_page(page, "dead-letter-edit")
    page.keyboard.press("Escape")
    edit(page, f"{failures.model.url}/here")
    run_action(page, "Retry", "")  # the user's own edit is not a conflict

    wait_until(lambda: failures.count_attempts(task) == 2)
    page.goto(f"{console.url}/tasks/{task}?tenant={tenant.slug}")
    expect(page.get_by_label("Result as JSON")).to_contain_text('"body": "taken"')


def test_viewer_sees_no_action_buttons(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("viewer", failed_tenant)
    expect(rows(page, "Dead letters").first).to_be_visible()
    expect(page.get_by_role("group", name="Bulk actions")).to_have_count(0)
    rows(page, "Dead letters").first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="History")).to_be_visible()

    for action in ("Retry", "Resolve", "Ignore", "Edit"):
        expect(page.get_by_role("button", name=f"{action}…", exact=True)).to_have_count(0)


def test_dead_letters_are_closed_by_keyboard(
    console: Console, failures: FailureFactory, tenant: Tenant, message: str
) -> None:
    failures.fail_messages(tenant, [message, f"{message} Again."])
    page = console.open("operator", tenant)
    expect(rows(page, "Dead letters")).to_have_count(2)
    for key in ("j", "j"):
        page.keyboard.press(key)
    expect(rows(page, "Dead letters").nth(1).get_by_role("link")).to_be_focused()
    page.keyboard.press("e")
    expect(dialog(page).get_by_role("textbox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog(page)).to_have_count(0)
    expect(rows(page, "Dead letters").nth(1).get_by_role("link")).to_be_focused()

    page.keyboard.press("e")
    page.keyboard.type("Settled without a mouse")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("The dead letter was resolved.")).to_be_focused()
    expect(rows(page, "Dead letters")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("i")
    page.keyboard.type("A test")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("The dead letter was ignored.")).to_be_focused()
    expect(rows(page, "Dead letters")).to_have_count(0)
