"""Tasks in the console: states, results and attempts."""

import pytest
from playwright.sync_api import expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.console_users import ConsoleUsers
from tests.e2e.console.locators import rows, timeline_entries
from tests.e2e.console.page_checks import check_page

pytestmark = pytest.mark.e2e


def test_tasks_are_filtered_by_state(console: Console, failed_tenant: Tenant) -> None:
    page = console.open("admin", failed_tenant, "tasks")
    expect(rows(page, "Tasks")).to_have_count(2)
    check_page(page, "tasks")

    page.get_by_label("Status").select_option("succeeded")
    expect(page.get_by_role("heading", name="No results")).to_be_visible()
    check_page(page, "tasks-nothing-found")
    page.get_by_label("Status").select_option("failed")
    expect(rows(page, "Tasks")).to_have_count(2)
    page.get_by_label("Type").fill("Echo")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("heading", name="No results")).to_be_visible()
    page.get_by_label("Type").fill("Chat completion")
    page.get_by_role("button", name="Search").click()
    expect(rows(page, "Tasks")).to_have_count(2)
    expect(page.get_by_label("Type")).to_have_value("Chat completion")


def test_new_task_appears_on_open_page(console: Console, users: ConsoleUsers, tenant: Tenant) -> None:
    """The page shows the new task and its result without a reload."""
    page = console.open("admin", tenant, "tasks")
    expect(page.get_by_role("heading", name="No tasks")).to_be_visible()
    with users.api("operator") as api:
        submission = {"task_type": "echo", "payload": {"text": "grüß"}, "tenant": tenant.slug}
        assert api.post("tasks", json=submission).status_code == 202

    expect(rows(page, "Tasks")).to_have_count(1)
    expect(rows(page, "Tasks")).to_contain_text("Succeeded")
    rows(page, "Tasks").get_by_role("link").click()
    expect(page.get_by_label("Result as JSON")).to_contain_text('"text": "grüß"')
    expect(timeline_entries(page)).to_have_count(1)
    check_page(page, "task")
