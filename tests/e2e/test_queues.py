"""A queue paused over HTTP keeps its messages, and delivers them when resumed."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from counterfoil.db import Connection
from tests.e2e.chaos import watchdog_running
from tests.e2e.conftest import SignIn
from tests.e2e.polling import wait_until
from tests.e2e.test_api import TIMEOUT_SECONDS, post

pytestmark = pytest.mark.e2e

REASON = {"reason": "Its model is being replaced"}


@pytest.fixture
def admin_token(cloud: Cloud, sign_in: SignIn) -> Iterator[dict[str, str]]:
    """Token of an admin of all tenants. The fixture resumes the queue at the end."""
    token = sign_in("admin", "tenant:*")
    yield token
    state = queue_state(cloud, token)
    if state["is_paused"]:
        resumed = switch(cloud, token, "resume", state["version"])
        assert resumed.status_code == 200, resumed.text


def queue_state(cloud: Cloud, token: dict[str, str], worker: str = "tasks") -> dict[str, Any]:
    """Return the state of a worker's queue, as the API lists it."""
    response = httpx.get(f"{cloud.api_url}/api/admin/queues", headers=token, timeout=TIMEOUT_SECONDS)
    assert response.status_code == 200, response.text
    (match,) = [queue for queue in response.json()["queues"] if queue["worker"] == worker]
    return dict(match)


def switch(cloud: Cloud, token: dict[str, str], action: str, version: int) -> httpx.Response:
    return post(
        f"{cloud.api_url}/api/admin/queues/tasks/{action}", json=REASON, headers=token | {"If-Match": f'"{version}"'}
    )


def mappings(cloud: Cloud) -> set[str]:
    """Return the states of the tasks worker's event source mappings."""
    response = cloud.client("lambda").list_event_source_mappings(FunctionName=cloud.outputs["TasksFunctionName"])
    return {mapping["State"] for mapping in response["EventSourceMappings"]}


def test_paused_queue_delays_tasks_until_resumed(
    cloud: Cloud, sign_in: SignIn, admin_token: dict[str, str], tenant: Tenant, admin: Connection
) -> None:
    operator = sign_in("operator", f"tenant:{tenant.slug}")
    tasks = f"{cloud.api_url}/api/tasks"
    assert switch(cloud, operator, "pause", 0).status_code == 403
    state_before = queue_state(cloud, admin_token)

    paused = switch(cloud, admin_token, "pause", state_before["version"])

    assert paused.status_code == 200, paused.text
    assert (paused.json()["is_applied"], mappings(cloud)) == (True, {"Disabled"})
    submitted = post(tasks, json={"task_type": "echo", "payload": {"say": "hello"}}, headers=operator)
    job = f"{tasks}/{submitted.json()['job_id']}"
    wait_until(lambda: queue_state(cloud, admin_token)["approximate_visible"])
    state = queue_state(cloud, admin_token)
    assert state["paused"]["reason"] == REASON["reason"]
    assert (state["running"], state["approximate_in_flight"]) == (0, 0)
    banner = httpx.get(f"{cloud.api_url}/api/admin/queues/paused", headers=operator, timeout=TIMEOUT_SECONDS).json()
    assert [queue["worker"] for queue in banner["queues"]] == ["tasks"]
    assert httpx.get(job, headers=operator, timeout=TIMEOUT_SECONDS).json()["status"] == "pending"

    resumed = switch(cloud, admin_token, "resume", paused.json()["version"])

    assert (resumed.status_code, mappings(cloud)) == (200, {"Enabled"}), resumed.text
    wait_until(lambda: httpx.get(job, headers=operator, timeout=TIMEOUT_SECONDS).json()["status"] == "succeeded")
    with watchdog_running(cloud):
        wait_until(lambda: _count_succeeded(admin))
    trail = admin.execute("SELECT action, targets FROM audit_entry WHERE tenant_id IS NULL ORDER BY number").fetchall()
    assert trail[-2:] == [("queue-paused", ["tasks"]), ("queue-resumed", ["tasks"])]


def test_watchdog_disables_a_paused_queues_mapping(cloud: Cloud, admin_token: dict[str, str]) -> None:
    switch(cloud, admin_token, "pause", queue_state(cloud, admin_token)["version"])
    aws_lambda = cloud.client("lambda")

    aws_lambda.update_event_source_mapping(UUID=cloud.outputs["TasksMappingId"], Enabled=True)

    with watchdog_running(cloud):
        wait_until(lambda: mappings(cloud) == {"Disabled"})


def _count_succeeded(admin: Connection) -> int:
    row = admin.execute("SELECT sum(succeeded) FROM queue_minute_stats WHERE worker = 'tasks' AND tenant_id IS NULL")
    ((count,),) = row.fetchall()
    return int(count or 0)
