"""Payloads are edited as text, validated, and compared before they are saved."""

from contextlib import closing
from uuid import UUID

import pytest
from playwright.sync_api import expect

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.console_users import ConsoleUsers
from tests.e2e.console.failures import FailureFactory
from tests.e2e.console.page_checks import check_page

pytestmark = pytest.mark.e2e


@pytest.fixture
def http_requests_enabled(cloud: Cloud) -> None:
    """Enable HTTP request tasks, the only task type with an editable payload."""
    with closing(cloud.client("lambda")) as functions:
        for worker in ("tasks", "admin_api"):
            name = cloud.outputs["AdminApiFunctionName"].replace("admin_api", worker)
            variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
            if variables.get("HTTP_REQUEST_TASKS_ENABLED") == "true":
                continue
            changed_variables = variables | {"HTTP_REQUEST_TASKS_ENABLED": "true"}
            functions.update_function_configuration(FunctionName=name, Environment={"Variables": changed_variables})
            functions.get_waiter("function_updated_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})


def failed_call(users: ConsoleUsers, failures: FailureFactory, tenant: Tenant) -> UUID:
    """Return the id of the dead letter of a failed HTTP request task."""
    payload = {"url": "https://orders.invalid/1", "method": "POST", "body": "amount=1.50"}
    submission = {"task_type": "http_request", "payload": payload, "max_retry": 0, "tenant": tenant.slug}
    with users.api("operator") as api:
        response = api.post("tasks", json=submission)
    assert response.status_code == 202, response.text
    return failures.wait_for_dead_letters([UUID(response.json()["job_id"])])[0]


@pytest.mark.usefixtures("http_requests_enabled")
def test_payload_difference_is_shown_before_saving(
    console: Console, users: ConsoleUsers, failures: FailureFactory, tenant: Tenant
) -> None:
    page = console.open("admin", tenant, f"dead-letters/{failed_call(users, failures, tenant)}")
    expect(page.get_by_label("Payload as JSON")).to_contain_text("amount=1.50")
    button = page.get_by_role("button", name="Edit")
    button.press("Enter")
    expect(page.get_by_label("Payload (JSON)")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()
    button.click()
    field = page.get_by_label("Payload (JSON)")
    original_text = field.input_value()
    field.fill(original_text.replace('"POST"', "POST"))
    expect(page.get_by_role("dialog")).to_contain_text("not valid JSON")
    expect(page.get_by_role("button", name="Review the change")).to_be_disabled()

    field.fill(original_text.replace('"POST"', '"FETCH"'))
    page.get_by_role("button", name="Review the change").click()
    expect(page.get_by_label("Changes")).to_contain_text("FETCH")
    check_page(page, "dead-letter-editing")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("payload.method")

    field.fill(original_text.replace("1.50", "1.60"))
    page.get_by_role("button", name="Review the change").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_label("Changes")).to_contain_text("amount=1.60")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Pending")
    check_page(page, "dead-letter-edited")


@pytest.mark.usefixtures("http_requests_enabled")
def test_operator_cannot_edit_a_payload(
    console: Console, users: ConsoleUsers, failures: FailureFactory, tenant: Tenant
) -> None:
    page = console.open("operator", tenant, f"dead-letters/{failed_call(users, failures, tenant)}")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    expect(page.get_by_role("button", name="Edit")).to_have_count(0)
