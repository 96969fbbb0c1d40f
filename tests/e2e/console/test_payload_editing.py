"""Payloads are edited as text, validated, and compared before they are saved."""

from contextlib import closing
from uuid import UUID

import pytest
from playwright.sync_api import expect

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.console_users import People
from tests.e2e.console.failures import Failing
from tests.e2e.console.page_checks import looks

pytestmark = pytest.mark.e2e


@pytest.fixture
def calls(cloud: Cloud) -> None:
    """Enable HTTP request tasks, the only type with an editable payload."""
    with closing(cloud.client("lambda")) as functions:
        for worker in ("tasks", "admin_api"):
            name = cloud.outputs["AdminApiFunctionName"].replace("admin_api", worker)
            variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
            if variables.get("HTTP_REQUEST_TASKS_ENABLED") == "true":
                continue
            changed = variables | {"HTTP_REQUEST_TASKS_ENABLED": "true"}
            functions.update_function_configuration(FunctionName=name, Environment={"Variables": changed})
            functions.get_waiter("function_updated_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})


def call(people: People, failing: Failing, tenant: Tenant) -> UUID:
    """Return the dead letter of a request to an unknown host."""
    payload = {"url": "https://orders.invalid/1", "method": "POST", "body": "amount=1.50"}
    submission = {"task_type": "http_request", "payload": payload, "max_retry": 0, "tenant": tenant.slug}
    with people.api("operator") as api:
        answer = api.post("tasks", json=submission)
    assert answer.status_code == 202, answer.text
    return failing.dead_letters([UUID(answer.json()["job_id"])])[0]


@pytest.mark.usefixtures("calls")
def test_edited_payload_shows_a_difference_before_saving(
    console: Console, people: People, failing: Failing, tenant: Tenant
) -> None:
    page = console.opened("admin", tenant, f"dead-letters/{call(people, failing, tenant)}")
    expect(page.get_by_label("Payload as JSON")).to_contain_text("amount=1.50")
    button = page.get_by_role("button", name="Edit")
    button.press("Enter")
    expect(page.get_by_label("Payload, as JSON")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()
    button.click()
    field = page.get_by_label("Payload, as JSON")
    before = field.input_value()
    field.fill(before.replace('"POST"', "POST"))
    expect(page.get_by_role("dialog")).to_contain_text("not valid JSON")
    expect(page.get_by_role("button", name="Review the change")).to_be_disabled()

    field.fill(before.replace('"POST"', '"FETCH"'))
    page.get_by_role("button", name="Review the change").click()
    expect(page.get_by_label("Changes")).to_contain_text("FETCH")
    looks(page, "dead-letter-editing")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("payload.method")

    field.fill(before.replace("1.50", "1.60"))
    page.get_by_role("button", name="Review the change").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_label("Changes")).to_contain_text("amount=1.60")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Pending")
    looks(page, "dead-letter-edited")


@pytest.mark.usefixtures("calls")
def test_operator_cannot_edit_a_payload(console: Console, people: People, failing: Failing, tenant: Tenant) -> None:
    page = console.opened("operator", tenant, f"dead-letters/{call(people, failing, tenant)}")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    expect(page.get_by_role("button", name="Edit")).to_have_count(0)
