"""Bulk operations, purges and exports of dead letters in the console."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import Page, Route, expect

from cli.local.cloud import Cloud
from cli.local.console import ALL_TENANTS
from cli.local.tenants import Tenant
from counterfoil.dead_letters import export
from counterfoil.dead_letters.export import ExportFile
from counterfoil.dead_letters.search import DeadLetterFilter
from tests.e2e.chaos import watchdog_running
from tests.e2e.console.conftest import Console
from tests.e2e.console.console_users import ConsoleUsers
from tests.e2e.console.failures import FailureFactory
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import check_page

pytestmark = pytest.mark.e2e

OLD_DATE = "2020-01-01"
BULK_TIMEOUT = 150_000
"""Timeout for a bulk operation in milliseconds."""


@pytest.fixture
def messages(tenant: Tenant) -> list[str]:
    """Messages that the model rejects until `failures.recover` is called."""
    return [f"{name} of {tenant.slug}" for name in ("first", "second", "third")]


@pytest.fixture
def dead_letters(failures: FailureFactory, tenant: Tenant, messages: list[str]) -> list[UUID]:
    """Three dead letters in one group."""
    return failures.wait_for_dead_letters(failures.fail_messages(tenant, messages))


def listed_rows(console: Console, tenant: Tenant, count: int = 3) -> Page:
    page = console.open("operator", tenant)
    expect(rows(page, "Dead letters")).to_have_count(count)
    return page


def test_dead_letters_are_selected_by_keyboard(console: Console, failed_tenant: Tenant) -> None:
    page = listed_rows(console, failed_tenant, 6)
    for key in "jxjx":
        page.keyboard.press(key)
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(2)
    expect(page.get_by_text("2 selected")).to_be_visible()
    check_page(page, "dead-letters-chosen")
    page.keyboard.press("k")
    expect(rows(page, "Dead letters").first.get_by_role("link")).to_be_focused()

    page.keyboard.press("/")
    search = page.get_by_role("searchbox")
    expect(search).to_be_focused()
    page.keyboard.type("rejx?")
    expect(search).to_have_value("rejx?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_keyboard_shortcuts_can_be_disabled(console: Console, failed_tenant: Tenant) -> None:
    page = listed_rows(console, failed_tenant, 6)
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
    check_page(page, "keys")
    page.get_by_label("Enable keyboard shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.get_by_role("button", name="Keyboard shortcuts").click()
    page.get_by_label("Enable keyboard shortcuts").check()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(rows(page, "Dead letters").first.get_by_role("link")).to_be_focused()


def test_selected_dead_letters_are_resolved_in_bulk(
    console: Console, cloud: Cloud, tenant: Tenant, dead_letters: list[UUID]
) -> None:
    page = listed_rows(console, tenant)
    for row in (0, 2):
        rows(page, "Dead letters").nth(row).get_by_role("checkbox").check()
    page.get_by_role("button", name="Resolve…").click()
    page.get_by_label("How was it resolved?").fill("Booked by hand")
    page.get_by_role("button", name="Resolve 2").click()

    expect(page.get_by_role("heading", name="Resolve 2 dead letters")).to_be_visible()
    with watchdog_running(cloud, 1, "Bulk"):
        expect(page.get_by_role("heading", level=1)).to_contain_text("Completed", timeout=BULK_TIMEOUT)
    expect(rows(page, "Dead letters")).to_have_count(2)
    expect(rows(page, "Dead letters").first).to_contain_text("Succeeded")
    check_page(page, "operation")
    page.get_by_role("link", name="All operations").click()
    expect(rows(page, "Operations")).to_have_count(1)
    check_page(page, "operations")


def test_filtered_dead_letters_are_counted_and_retried(
    console: Console,
    cloud: Cloud,
    failures: FailureFactory,
    tenant: Tenant,
    messages: list[str],
    dead_letters: list[UUID],
) -> None:
    failures.recover(*messages)
    page = listed_rows(console, tenant)
    page.get_by_role("button", name="Retry…").click()
    expect(page.get_by_role("dialog")).to_contain_text("3 dead letters match now")
    check_page(page, "operation-dialog")
    page.get_by_label("Start with a canary").check()
    page.get_by_label("Canary size").fill("1")
    page.get_by_role("button", name="Retry 3").click()

    with watchdog_running(cloud, 1, "Bulk"):
        expect(page.get_by_role("heading", name="Retry 3 dead letters")).to_contain_text(
            "Completed", timeout=BULK_TIMEOUT
        )
    expect(rows(page, "Dead letters").filter(has_text="Succeeded")).to_have_count(3)


def test_halted_operation_shows_its_reason(
    console: Console, cloud: Cloud, tenant: Tenant, dead_letters: list[UUID]
) -> None:
    page = listed_rows(console, tenant)
    page.get_by_role("button", name="Retry…").click()
    page.get_by_label("Start with a canary").check()
    page.get_by_label("Canary size").fill("1")
    page.get_by_role("button", name="Retry 3").click()

    with watchdog_running(cloud, 1, "Bulk"):
        expect(page.get_by_role("heading", level=1)).to_contain_text("Halted", timeout=BULK_TIMEOUT)
    reason = page.get_by_text("The first retry failed again.")
    expect(reason).to_be_visible()
    expect(page.locator("dl.counts div").filter(has_text="Failed").locator("dd")).to_have_text("1")
    expect(rows(page, "Dead letters").first).to_contain_text("answered with HTTP 400")
    check_page(page, "operation-failed-canary")
    page.get_by_role("link", name="All operations").click()
    expect(rows(page, "Operations").filter(has=reason)).to_have_count(1)
    check_page(page, "operations-halted")


def test_operation_is_paused_resumed_and_canceled(
    console: Console, failures: FailureFactory, tenant: Tenant, messages: list[str]
) -> None:
    failures.fail_messages(tenant, messages * 6)  # at one per second, the operation outlasts this test
    page = listed_rows(console, tenant, 18)
    page.get_by_role("button", name="Ignore…").click()
    page.get_by_label("At most").fill("1")
    page.get_by_role("dialog").get_by_role("textbox").fill("They were a test")
    page.get_by_role("button", name="Ignore 18").click()
    heading = page.get_by_role("heading", level=1)

    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("The operation was paused.")).to_be_focused()
    expect(heading).to_contain_text("Paused")
    page.keyboard.press("p")
    expect(page.get_by_text("The operation was resumed.", exact=True)).to_be_focused()
    expect(heading).not_to_contain_text("Paused")
    page.keyboard.press("p")
    expect(heading).to_contain_text("Paused")
    page.get_by_label("At most").fill("2")
    page.get_by_role("button", name="Change rate").click()
    expect(page.get_by_text("The rate was changed.")).to_be_focused()
    expect(page.get_by_text("at most 2 per second")).to_be_visible()
    page.get_by_role("button", name="Cancel…").click()
    check_page(page, "operation-cancel")
    page.get_by_role("button", name="Keep the operation").click()
    expect(heading).to_contain_text("Paused")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel operation").click()
    expect(heading).to_contain_text("Canceled")
    expect(page.get_by_role("button", name="Cancel…")).to_have_count(0)


def test_group_is_resolved_completely(
    console: Console, cloud: Cloud, failures: FailureFactory, tenant: Tenant, messages: list[str], tmp_path: Path
) -> None:
    failures.fail_messages(tenant, messages[:2])
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\n nothing")
    failures.upload_unreadable(tenant, [tmp_path / "broken.pdf"])
    page = console.open("operator", tenant)
    group = rows(page, "Groups by error").filter(has_text="answered with HTTP")
    expect(group).to_contain_text("Pending")
    group.get_by_role("button", name="Resolve").click()
    page.get_by_label("How was it resolved?").fill("The model is back")
    page.get_by_role("button", name="Resolve 2").click()
    with watchdog_running(cloud, 1, "Bulk"):
        expect(page.get_by_role("heading", level=1)).to_contain_text("Completed", timeout=BULK_TIMEOUT)

    page.get_by_role("link", name="Dead letters", exact=True).click()
    page.get_by_role("navigation", name="By status").get_by_role("link", name="all").click()
    expect(group).to_contain_text("Resolved")


def test_closed_dead_letters_are_purged_and_restored(
    console: Console, users: ConsoleUsers, tenant: Tenant, dead_letters: list[UUID]
) -> None:
    def ignore(*job_ids: UUID) -> None:
        with users.api("operator", tenant) as api:
            for job_id in job_ids:
                response = api.post(f"admin/dlq/{job_id}/ignore", json={"reason": "x"}, headers={"if-match": '"1"'})
                assert response.status_code == 200, response.text

    ignore(dead_letters[0])
    page = console.open("admin", tenant, "operations")
    page.get_by_role("button", name="Purge dead letters…").click()
    day = page.get_by_label("Failed on or before")
    day.fill(OLD_DATE)
    expect(page.get_by_role("dialog")).to_contain_text("0 dead letters")
    day.fill(page.evaluate("new Date().toLocaleDateString('sv')"))
    expect(page.get_by_role("dialog")).to_contain_text("1 dead letter in")
    purge = page.get_by_role("dialog").get_by_role("button", name="Purge")
    page.get_by_label("to confirm").fill(tenant.slug[:-1])
    expect(purge).to_be_disabled()
    page.get_by_label("to confirm").fill(tenant.slug)
    check_page(page, "purge-dialog")
    ignore(dead_letters[1])  # as if another user closed it while the dialog is open
    purge.click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was purged")
    expect(page.get_by_role("dialog")).to_contain_text("2 dead letters in")
    check_page(page, "purge-count-changed")
    purge.click()
    expect(page.get_by_text("2 dead letters were purged. You can undo this for 7 days.")).to_be_focused()
    check_page(page, "purges")

    page.get_by_role("link", name="View the purge").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", name="Restore 2 dead letters")).to_contain_text("Completed")
    page.get_by_role("link", name="All operations").click()
    page.get_by_role("link", name="All dead letters").click()
    expect(page.get_by_role("navigation", name="By status").get_by_role("link", name="Ignored")).to_contain_text("2")


def test_operator_cannot_purge(console: Console, tenant: Tenant) -> None:
    page = console.open("operator", tenant, "operations")
    expect(page.get_by_role("heading", name="Operations", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Purge dead letters…")).to_have_count(0)


def test_filtered_dead_letters_are_exported(
    console: Console, tenant: Tenant, dead_letters: list[UUID], tmp_path: Path
) -> None:
    page = listed_rows(console, tenant)
    page.get_by_role("button", name="Export…").click()
    check_page(page, "export")
    page.keyboard.press("Escape")
    for name in ("CSV", "JSON"):
        page.get_by_role("button", name="Export…").click()
        page.get_by_label(name).check()
        with page.expect_download() as download:
            page.get_by_role("button", name="Export", exact=True).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)

        lines = path.read_text("utf-8-sig").splitlines()
        records = list(csv.DictReader(lines)) if name == "CSV" else [json.loads(line) for line in lines]
        assert {UUID(item["job_id"]) for item in records} == set(dead_letters)
        expect(page.get_by_role("dialog")).to_have_count(0)


def subject(users: ConsoleUsers) -> str:
    """Return the operator's subject (the token's `sub` claim)."""
    user = users.cloud.client("cognito-idp").admin_get_user(
        UserPoolId=users.cloud.outputs["UserPoolId"], Username=users.user("operator", ALL_TENANTS).email
    )
    return next(str(item["Value"]) for item in user["UserAttributes"] if item["Name"] == "sub")


def test_large_export_continues_after_closing_dialog(
    console: Console, users: ConsoleUsers, cloud: Cloud, tenant: Tenant, dead_letters: list[UUID], tmp_path: Path
) -> None:
    page = listed_rows(console, tenant)

    def store(route: Route) -> None:
        """Store an export operation, as the API does for a large export."""
        file, now = ExportFile("csv", redacted=True), datetime.now(UTC)
        with cloud.database.tenant(tenant.id) as connection:
            export.request(connection, tenant.id, DeadLetterFilter(), file, by=subject(users), now=now)
        route.fulfill(status=202, json={})

    page.route("**/api/admin/dlq/export?*", store)
    dialog = page.get_by_role("dialog")
    entry = dialog.get_by_role("listitem")
    page.get_by_role("button", name="Export…").click()
    page.get_by_role("button", name="Export", exact=True).click()
    expect(dialog.get_by_role("status")).to_contain_text("The file is large")
    expect(entry).to_have_count(1)
    page.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)

    page.reload()
    page.get_by_role("button", name="Export…").click()
    with watchdog_running(cloud, 1, "Bulk"):
        expect(entry).to_contain_text("Ready", timeout=BULK_TIMEOUT)
    expect(entry).to_contain_text("CSV, 3 dead letters, without secrets")
    expect(entry).to_contain_text("by you")
    check_page(page, "export-ready")
    with page.expect_download() as download:
        entry.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "dead-letters.csv")

    exported_rows = csv.DictReader((tmp_path / "dead-letters.csv").read_text("utf-8").splitlines())
    assert {UUID(item["job_id"]) for item in exported_rows} == set(dead_letters)
    assert download.value.suggested_filename.startswith(f"dead-letters-{tenant.slug}-")


def test_audit_trail_is_filtered_by_dead_letter(
    console: Console, users: ConsoleUsers, tenant: Tenant, dead_letters: list[UUID]
) -> None:
    with users.api("operator", tenant) as api:
        for job_id in dead_letters[:2]:
            api.post(f"admin/dlq/{job_id}/ignore", json={"reason": "x"}, headers={"if-match": '"1"'})
    page = console.open("viewer", tenant, "audit")
    expect(rows(page, "Entries")).to_have_count(3)  # including the entry for adding the tenant
    check_page(page, "audit")
    page.get_by_label("Changes to one object").fill(str(dead_letters[0]))
    page.keyboard.press("Enter")
    expect(rows(page, "Entries")).to_have_count(1)
    rows(page, "Entries").get_by_role("link").click()
    expect(page.get_by_role("heading", name="Audit trail", exact=True, level=2)).to_be_visible()
