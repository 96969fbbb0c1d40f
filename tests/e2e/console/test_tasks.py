"""Tasks in the console: what was handed in, what came of it, and each try."""

import pytest
from playwright.sync_api import expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.looks import looks
from tests.e2e.console.people import People
from tests.e2e.console.reading import happened, rows

pytestmark = pytest.mark.e2e


def test_tasks_are_listed_and_narrowed_by_state(console: Console, shown: Tenant) -> None:
    page = console.opened("admin", shown, "tasks")
    expect(rows(page, "Tasks")).to_have_count(2)
    looks(page, "tasks")

    page.get_by_label("State").select_option("succeeded")
    expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()
    looks(page, "tasks-nothing-found")
    page.get_by_label("State").select_option("failed")
    expect(rows(page, "Tasks")).to_have_count(2)


def test_a_task_that_succeeds_shows_up_and_shows_its_result(console: Console, people: People, tenant: Tenant) -> None:
    """The page is open before: what is new appears by itself."""
    page = console.opened("admin", tenant, "tasks")
    expect(page.get_by_role("heading", name="No tasks")).to_be_visible()
    with people.api("operator") as api:
        order = {"task_type": "echo", "payload": {"text": "grüß"}, "tenant": tenant.slug}
        assert api.post("tasks", json=order).status_code == 202

    expect(rows(page, "Tasks")).to_have_count(1)
    expect(rows(page, "Tasks")).to_contain_text("Succeeded")
    rows(page, "Tasks").get_by_role("link").click()
    expect(page.get_by_label("Result as JSON")).to_contain_text('"text": "grüß"')
    expect(happened(page)).to_have_count(1)
    looks(page, "task")
