"""Bulk operations over HTTP: dry run, submission, progress and permissions."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import bulk
from counterfoil.dead_letters.bulk import BulkSteps
from counterfoil.operations import engine
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter, dead_letter_factory
from tests.delivery.harness import rows
from tests.factories import make_task
from tests.functions.admin_api.conftest import ApiResponse, CallApi
from tests.functions.admin_api.dead_letter_requests import ADMIN, PATH, VIEWER, ids

ROOT = "/api/admin"
OPERATOR = "[operator tenant:acme]"
ALL: dict[str, Any] = {"filter": {}}


@pytest.fixture
def fail(admin: Connection, acme: UUID, add_dead_letter: MakeDeadLetter) -> Callable[..., list[UUID]]:
    """`fail(number)` creates failed acme tasks and returns their dead letters' ids."""

    def make(number: int, **options: Any) -> list[UUID]:
        tasks = [make_task(admin, acme, status="failed", error="It failed", failed_at=NOON) for _ in range(number)]
        return [
            add_dead_letter(worker="tasks", task_type="echo", work_id=task, minute=minute, **options)
            for minute, task in enumerate(tasks)
        ]

    return make


def get(call_api: CallApi, path: str, *, groups: str = VIEWER, **query: str) -> ApiResponse:
    return call_api("", method="GET", path=f"{ROOT}{path}", groups=groups, query=query)


def post(
    call_api: CallApi, path: str, body: object = None, *, groups: str = OPERATOR, version: int | None = None
) -> ApiResponse:
    headers = {} if version is None else {"if-match": f'"{version}"'}
    return call_api({} if body is None else body, method="POST", path=f"{ROOT}{path}", groups=groups, headers=headers)


def patch(
    call_api: CallApi, path: str, body: object, *, groups: str = OPERATOR, version: int | None = None
) -> ApiResponse:
    headers = {} if version is None else {"if-match": f'"{version}"'}
    return call_api(body, method="PATCH", path=f"{ROOT}{path}", groups=groups, headers=headers)


def run_steps(database: Database, operation: dict[str, Any], acme: UUID, admin: Connection) -> None:
    """Run the worker's pending steps, once in each of eight minutes."""
    ((now,),) = admin.execute("SELECT now()").fetchall()
    for minute in range(1, 9):
        later = now + timedelta(minutes=minute)
        id_ = UUID(operation["operation_id"])
        while (step := engine.run_step(database, BulkSteps(None), id_, acme, later)) and step.is_busy:
            pass


def test_dry_run_returns_only_count_and_sample(call_api: CallApi, fail: Callable[..., list[UUID]], admin: Connection):
    job_ids = fail(12)
    response = post(call_api, "/dlq/bulk-retry", {**ALL, "dry_run": True})
    assert response.status == 200
    assert (response.body["tenant"], response.body["count"], response.body["is_exact"]) == ("acme", 12, True)
    assert [dead_letter["job_id"] for dead_letter in response.body["sample"]] == ids(job_ids[:1:-1])
    assert rows(admin, "operation") == []
    resolution = post(call_api, "/dlq/bulk-resolve", {"job_ids": ids(job_ids[:3]), "dry_run": True})
    assert (resolution.status, resolution.body["count"]) == (200, 3)


def test_sample_hides_secrets_below_admin(call_api: CallApi, add_dead_letter: MakeDeadLetter):
    add_dead_letter("It came with Bearer abcdefghijklmnopqrstuvwxyz0123456789")
    for groups, is_seen in ((OPERATOR, False), (ADMIN, True)):
        (dead_letter,) = post(call_api, "/dlq/bulk-retry", {**ALL, "dry_run": True}, groups=groups).body["sample"]
        assert ("abcdefghijklmnop" in str(dead_letter), dead_letter["redacted_paths"] == []) == (is_seen, is_seen)


def test_operation_hides_secrets_below_admin(call_api: CallApi, acme: UUID):
    body = {"filter": {"search": "token=hunter2"}, "notes": "Paid to DE89370400440532013000"}
    submitted = post(call_api, "/dlq/bulk-retry", body)
    path = f"/operations/{submitted.body['operation_id']}"

    hidden = [submitted.body, get(call_api, path).body, *get(call_api, "/operations").body["operations"]]
    hidden.append(post(call_api, f"{path}/cancel", version=submitted.body["version"]).body)

    for reported in hidden:
        assert (reported["notes"], reported["filter"]["search"]) == ("Paid to [hidden] 3000", "token=[hidden]")
        assert reported["redacted_paths"] == ["/filter/search", "/notes"]
    unredacted = get(call_api, path, groups=ADMIN).body
    assert (unredacted["notes"], unredacted["filter"]["search"]) == (body["notes"], "token=hunter2")
    assert unredacted["redacted_paths"] == []


def test_bulk_retry_is_stored_executed_and_reported(
    call_api: CallApi, fail: Callable[..., list[UUID]], database: Database, acme: UUID, admin: Connection
):
    job_ids = fail(3)
    submitted = post(call_api, "/dlq/bulk-retry", {**ALL, "notes": "It is back", "rate": 100})
    assert (submitted.status, submitted.headers["ETag"]) == (202, f'"{submitted.body["version"]}"')
    assert (submitted.body["state"], submitted.body["selected"], submitted.body["remaining"]) == ("running", 3, 3)
    run_steps(database, submitted.body, acme, admin)

    path = f"/operations/{submitted.body['operation_id']}"
    details = get(call_api, path)
    assert details.headers["ETag"] == f'"{details.body["version"]}"'
    reported = {
        name: details.body[name]
        for name in ("state", "selected", "succeeded", "failed", "skipped", "remaining", "notes", "rate")
    }
    assert reported == {
        "state": "done",
        "selected": 3,
        "succeeded": 3,
        "failed": 0,
        "skipped": 0,
        "remaining": 0,
        "notes": "It is back",
        "rate": 100,
    }
    first = get(call_api, f"{path}/items", limit="2")
    second_page = get(call_api, f"{path}/items", limit="2", cursor=str(first.body["next_cursor"]))
    items = first.body["items"] + second_page.body["items"]
    assert [item["job_id"] for item in items] == ids(job_ids[::-1])
    assert {(item["result"], item["revision"], item["version"]) for item in items} == {("succeeded", 2, 2)}
    assert [item["dead_letter"]["job_id"] for item in items] == [item["job_id"] for item in items]
    assert {item["dead_letter"]["status"] for item in items} == {"retried"}
    assert second_page.body["next_cursor"] is None
    assert get(call_api, f"{path}/items", result="failed").body["items"] == []
    assert {get(call_api, f"/dlq/{job_id}").body["status"] for job_id in job_ids} == {"retried"}


def test_bulk_ignore_by_filter_closes_the_group(
    call_api: CallApi, fail: Callable[..., list[UUID]], database: Database, acme: UUID, admin: Connection
):
    fail(2)
    (group,) = get(call_api, "/dlq/groups").body["groups"]
    assert group["state"] == "open"
    body = {"filter": {"fingerprint": group["fingerprint"], "status": ["pending"], "tenant": "acme"}}
    response = post(call_api, "/dlq/bulk-ignore", body)
    assert (response.status, response.body["detail"]) == (422, "A note is required: give a reason.")
    submitted = post(call_api, "/dlq/bulk-ignore", {**body, "reason": "Trials"})
    assert (submitted.status, submitted.body["rate"]) == (202, 500)
    run_steps(database, submitted.body, acme, admin)
    (group,) = get(call_api, "/dlq/groups").body["groups"]
    assert (group["state"], group["ignored"]) == ("ignored", 2)


def test_large_selection_continues_after_the_request(
    call_api: CallApi,
    fail: Callable[..., list[UUID]],
    database: Database,
    acme: UUID,
    admin: Connection,
    monkeypatch: Any,
):
    monkeypatch.setattr(bulk, "BATCH_SIZE", 2)
    fail(5)
    submitted = post(call_api, "/dlq/bulk-resolve", {**ALL, "notes": "Mended"})
    assert (submitted.body["state"], submitted.body["selected"]) == ("selecting", None)
    run_steps(database, submitted.body, acme, admin)
    assert get(call_api, f"/operations/{submitted.body['operation_id']}").body["succeeded"] == 5


def test_pause_resume_and_cancel_require_the_current_version(
    call_api: CallApi, fail: Callable[..., list[UUID]], database: Database, acme: UUID, admin: Connection
):
    fail(2)
    submitted = post(call_api, "/dlq/bulk-retry", {**ALL, "canary": 1}).body
    path, version = f"/operations/{submitted['operation_id']}", submitted["version"]
    assert submitted["state"] == "canary"

    assert post(call_api, f"{path}/pause").status == 428
    assert post(call_api, f"{path}/pause", version=version + 7).status == 412
    paused = post(call_api, f"{path}/pause", version=version)
    assert (paused.status, paused.body["state"]) == (200, "paused")
    assert paused.headers["ETag"] == f'"{version + 1}"'
    assert post(call_api, f"{path}/pause", version=version + 1).status == 409
    assert post(call_api, f"{path}/resume", version=version).status == 412
    assert post(call_api, f"{path}/resume", version=version + 1).body["state"] == "canary"
    canceled = post(call_api, f"{path}/cancel", version=version + 2)
    assert (canceled.body["state"], canceled.body["remaining"]) == ("canceled", 2)
    assert post(call_api, f"{path}/cancel", version=version + 3).status == 409
    run_steps(database, submitted, acme, admin)
    assert get(call_api, path).body["succeeded"] == 0
    actions = [entry["action"] for entry in get(call_api, "/dlq/audit").body["entries"]]
    assert actions == ["bulk-cancel", "bulk-resume", "bulk-pause", "bulk-retry"]


def test_rate_change_requires_the_current_version(call_api: CallApi, fail: Callable[..., list[UUID]]):
    fail(2)
    submitted = post(call_api, "/dlq/bulk-retry", ALL).body
    path, version = f"/operations/{submitted['operation_id']}", submitted["version"]
    assert patch(call_api, path, {"rate": 7}).status == 428
    assert patch(call_api, path, {"rate": 7}, version=version + 1).status == 412
    assert patch(call_api, path, {"rate": 501}, version=version).status == 422
    assert patch(call_api, path, {}, version=version).status == 422
    updated = patch(call_api, path, {"rate": 7}, version=version)
    assert (updated.status, updated.body["rate"], updated.headers["ETag"]) == (200, 7, f'"{version + 1}"')
    assert post(call_api, f"{path}/cancel", version=version + 1).status == 200
    assert patch(call_api, path, {"rate": 8}, version=version + 2).status == 409


def test_operations_are_paged_newest_first(call_api: CallApi, acme: UUID):
    submitted = [post(call_api, "/dlq/bulk-retry", ALL).body["operation_id"] for _ in range(3)]
    first = get(call_api, "/operations", limit="2").body
    second_page = get(call_api, "/operations", limit="2", cursor=first["next_cursor"]).body
    assert [item["operation_id"] for item in (*first["operations"], *second_page["operations"])] == submitted[::-1]
    assert second_page["next_cursor"] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param({}, 422, id="neither ids nor filter"),
        pytest.param({"job_ids": [str(uuid4())], **ALL}, 422, id="ids and filter"),
        pytest.param({"job_ids": []}, 422, id="empty ids"),
        pytest.param({"job_ids": [str(uuid4())] * 1001}, 422, id="too many ids"),
        pytest.param({"job_ids": ["1"]}, 422, id="invalid id"),
        pytest.param({"job_ids": [str(uuid4())]}, 404, id="unknown ids"),
        pytest.param({**ALL, "rate": 0}, 422, id="too slow"),
        pytest.param({**ALL, "rate": 501}, 422, id="too fast"),
        pytest.param({**ALL, "canary": 0}, 422, id="empty canary"),
        pytest.param({**ALL, "notes": ""}, 422, id="empty note"),
        pytest.param({**ALL, "notes": "a\x1b[31m"}, 422, id="terminal escape in the note"),
        pytest.param({**ALL, "state": "done"}, 422, id="internal field"),
        pytest.param({"filter": {"statuses": "pending"}}, 422, id="misspelled filter"),
        pytest.param({"filter": {"status": ["resolved"]}}, 422, id="closed dead letters"),
        pytest.param({"filter": {"from_date": 5}}, 422, id="number as time"),
        pytest.param({"filter": {"search": ""}}, 422, id="empty search"),
        pytest.param({"filter": {"tenant": "zenith"}}, 403, id="another tenant"),
    ],
)
def test_invalid_request_is_rejected_and_not_stored(
    call_api: CallApi, fail: Callable[..., list[UUID]], admin: Connection, body: dict[str, Any], status: int
):
    fail(1)
    response = post(call_api, "/dlq/bulk-retry", body)
    assert (response.status, response.headers["Content-Type"]) == (status, "application/problem+json")
    assert rows(admin, "operation") == []


def test_filter_accepts_dates_and_utc_times(call_api: CallApi, fail: Callable[..., list[UUID]]):
    fail(3)
    times = {"from_date": "2026-03-02", "to_date": "2026-03-02T12:02:00"}
    response = post(call_api, "/dlq/bulk-retry", {"filter": times, "dry_run": True})
    assert (response.status, response.body["count"]) == (200, 2), response.body


def test_error_for_bare_list_names_the_field(call_api: CallApi, fail: Callable[..., list[UUID]]):
    job_ids = ids(fail(2))
    response = post(call_api, "/dlq/bulk-retry", job_ids)
    assert (response.status, 'in a field, such as {"job_ids": ["..."]}' in response.body["detail"]) == (400, True)
    assert post(call_api, "/dlq/bulk-retry", {"job_ids": job_ids}).status == 202


@pytest.mark.parametrize("path", ["/dlq/bulk-resolve", "/dlq/bulk-ignore"])
def test_only_retries_accept_a_canary(call_api: CallApi, acme: UUID, path: str):
    assert post(call_api, path, {**ALL, "canary": 1, "notes": "n", "reason": "r"}).status == 422


def test_viewers_get_403_and_other_tenants_get_404(call_api: CallApi, fail: Callable[..., list[UUID]]):
    job_ids = ids(fail(1))
    assert post(call_api, "/dlq/bulk-retry", ALL, groups=VIEWER).status == 403
    assert post(call_api, "/dlq/bulk-retry", {**ALL, "dry_run": True}, groups=VIEWER).status == 403
    assert post(call_api, "/dlq/bulk-retry", {"job_ids": job_ids}, groups=VIEWER).status == 403
    assert post(call_api, "/dlq/bulk-retry", {"job_ids": job_ids}, groups="[admin tenant:other]").status == 404
    submitted = post(call_api, "/dlq/bulk-retry", ALL).body
    path = f"/operations/{submitted['operation_id']}"
    assert get(call_api, path, groups=VIEWER).status == 200
    assert post(call_api, f"{path}/pause", version=submitted["version"], groups=VIEWER).status == 403
    for groups in ("[admin tenant:other]", "[]"):
        assert get(call_api, path, groups=groups).status == 404
        assert get(call_api, f"{path}/items", groups=groups).status == 404
        assert post(call_api, f"{path}/cancel", version=submitted["version"], groups=groups).status == 404
    assert get(call_api, "/operations", groups="[admin tenant:other]", tenant="acme").status == 403
    for unknown_id in (str(uuid4()), "1"):
        assert get(call_api, f"/operations/{unknown_id}").status == 404


def test_token_without_subject_changes_nothing(call_api: CallApi, fail: Callable[..., list[UUID]], admin: Connection):
    fail(1)
    response = call_api(ALL, method="POST", path=f"{PATH}/bulk-retry", groups=OPERATOR, subject="")
    assert response.status in {401, 403}
    assert rows(admin, "operation") == []


def test_ids_must_belong_to_one_tenant(
    call_api: CallApi, fail: Callable[..., list[UUID]], database: Database, make_tenant: Callable[..., UUID]
):
    (own,) = fail(1)
    foreign = dead_letter_factory(database, make_tenant("zenith"))()
    response = post(call_api, "/dlq/bulk-retry", {"job_ids": ids([own, foreign])}, groups="[operator tenant:*]")
    assert response.status == 422
    assert "several tenants" in response.body["detail"]
    submitted = post(call_api, "/dlq/bulk-retry", {"job_ids": ids([own, foreign])})
    assert (submitted.status, submitted.body["tenant"], submitted.body["selected"]) == (202, "acme", 2)


def test_reprocessing_requires_admin(call_api: CallApi, acme: UUID, admin: Connection):
    body = {"tenant": "acme", "action": "extract", "received_from": "2026-01-01", "rate": 30}
    assert post(call_api, "/operations", body).status == 403
    stored = post(call_api, "/operations", body, groups=ADMIN)
    assert (stored.status, stored.body["action"], stored.body["selected"]) == (202, "extract", None)
    assert stored.body["filter"]["received_from"] == "2026-01-01T00:00:00+00:00"
    (row,) = rows(admin, "operation")
    assert (row["id"], row["rate"], row["state"]) == (stored.body["operation_id"], 30, "running")
    path = f"/operations/{row['id']}"
    assert get(call_api, f"{path}/items").body["items"] == []
    paused = post(call_api, f"{path}/pause", version=stored.body["version"])
    assert (paused.status, paused.body["state"]) == (200, "paused")
    version = paused.body["version"]
    assert patch(call_api, path, {"rate": 900}, version=version).status == 403
    updated = patch(call_api, path, {"rate": 900}, groups=ADMIN, version=version)
    assert (updated.status, updated.body["rate"], updated.body["state"]) == (200, 900, "paused")
    assert get(call_api, "/dlq/audit").body["entries"][0]["action"] == "reprocessing rate changed"
    post(call_api, "/dlq/bulk-retry", ALL)
    assert [item["action"] for item in get(call_api, "/operations", action="extract").body["operations"]] == ["extract"]
    assert len(get(call_api, "/operations").body["operations"]) == 2


def test_reprocessing_of_empty_period_is_rejected(call_api: CallApi, acme: UUID):
    body = {"action": "match", "received_from": "2026-02-01", "received_before": "2026-02-01"}
    assert post(call_api, "/operations", body, groups="[admin tenant:acme]").status == 422
