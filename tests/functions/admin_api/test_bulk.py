"""Operations on many dead letters over HTTP: tried dry, asked for, watched and steered by who may."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import bulk
from counterfoil.dead_letters.bulk import BulkSteps
from counterfoil.operations import engine
from tests.dead_letters.letters import NOON, Die, dying
from tests.delivery.harness import rows
from tests.factories import make_task
from tests.functions.admin_api.conftest import Answer, Ask
from tests.functions.admin_api.letters import ADMIN, PATH, VIEWER, ids

ROOT = "/api/admin"
OPERATOR = "[operator tenant:acme]"
ALL: dict[str, Any] = {"filter": {}}


@pytest.fixture
def fail(admin: Connection, acme: UUID, die: Die) -> Callable[..., list[UUID]]:
    """Tasks of acme that have failed; the ids of their letters."""

    def make(number: int, **letter: Any) -> list[UUID]:
        tasks = [make_task(admin, acme, status="failed", error="It failed", failed_at=NOON) for _ in range(number)]
        return [
            die(worker="tasks", task_type="echo", work_id=task, minute=minute, **letter)
            for minute, task in enumerate(tasks)
        ]

    return make


def get(ask: Ask, path: str, *, groups: str = VIEWER, **query: str) -> Answer:
    return ask("", method="GET", path=f"{ROOT}{path}", groups=groups, query=query)


def post(ask: Ask, path: str, body: object = None, *, groups: str = OPERATOR, version: int | None = None) -> Answer:
    headers = {} if version is None else {"if-match": f'"{version}"'}
    return ask({} if body is None else body, method="POST", path=f"{ROOT}{path}", groups=groups, headers=headers)


def patch(ask: Ask, path: str, body: object, *, groups: str = OPERATOR, version: int | None = None) -> Answer:
    headers = {} if version is None else {"if-match": f'"{version}"'}
    return ask(body, method="PATCH", path=f"{ROOT}{path}", groups=groups, headers=headers)


def carry_out(database: Database, operation: dict[str, Any], acme: UUID, admin: Connection) -> None:
    """What the worker does, minutes later."""
    ((now,),) = admin.execute("SELECT now()").fetchall()
    for minute in range(1, 9):
        later = now + timedelta(minutes=minute)
        id_ = UUID(operation["operation_id"])
        while (step := engine.step(database, BulkSteps(None), id_, acme, later)) and step.is_busy:
            pass


def test_a_dry_run_says_how_many_and_shows_some_and_does_nothing(
    ask: Ask, fail: Callable[..., list[UUID]], admin: Connection
):
    letters = fail(12)
    answer = post(ask, "/dlq/bulk-retry", {**ALL, "dry_run": True})
    assert answer.status == 200
    assert (answer.body["tenant"], answer.body["count"], answer.body["is_exact"]) == ("acme", 12, True)
    assert [letter["job_id"] for letter in answer.body["sample"]] == ids(letters[:1:-1])
    assert rows(admin, "operation") == []
    named = post(ask, "/dlq/bulk-resolve", {"job_ids": ids(letters[:3]), "dry_run": True})
    assert (named.status, named.body["count"]) == (200, 3)


def test_secrets_of_a_sample_are_hidden_from_who_may_not_see_them(ask: Ask, die: Die):
    die("It came with Bearer abcdefghijklmnopqrstuvwxyz0123456789")
    for groups, is_seen in ((OPERATOR, False), (ADMIN, True)):
        (letter,) = post(ask, "/dlq/bulk-retry", {**ALL, "dry_run": True}, groups=groups).body["sample"]
        assert ("abcdefghijklmnop" in str(letter), letter["redacted"] == []) == (is_seen, is_seen)


def test_secrets_of_what_was_asked_for_are_hidden_from_who_may_not_see_them(ask: Ask, acme: UUID):
    body = {"filter": {"text": "token=hunter2"}, "notes": "Paid to DE89370400440532013000"}
    asked = post(ask, "/dlq/bulk-retry", body)
    path = f"/operations/{asked.body['operation_id']}"

    hidden = [asked.body, get(ask, path).body, *get(ask, "/operations").body["operations"]]
    hidden.append(post(ask, f"{path}/cancel", version=asked.body["version"]).body)

    for told in hidden:
        assert (told["notes"], told["filter"]["text"]) == ("Paid to [hidden] 3000", "token=[hidden]")
        assert told["redacted"] == ["/filter/text", "/notes"]
    whole = get(ask, path, groups=ADMIN).body
    assert (whole["notes"], whole["filter"]["text"]) == (body["notes"], "token=hunter2")
    assert whole["redacted"] == []


def test_what_is_asked_for_is_stored_carried_out_and_told(
    ask: Ask, fail: Callable[..., list[UUID]], database: Database, acme: UUID, admin: Connection
):
    letters = fail(3)
    asked = post(ask, "/dlq/bulk-retry", {**ALL, "notes": "It is back", "rate": 100})
    assert (asked.status, asked.headers["ETag"]) == (202, f'"{asked.body["version"]}"')
    assert (asked.body["state"], asked.body["total"], asked.body["left"]) == ("running", 3, 3)
    carry_out(database, asked.body, acme, admin)

    path = f"/operations/{asked.body['operation_id']}"
    shown = get(ask, path)
    assert shown.headers["ETag"] == f'"{shown.body["version"]}"'
    told = {name: shown.body[name] for name in ("state", "total", "done", "failed", "skipped", "left", "notes", "rate")}
    assert told == {
        "state": "done",
        "total": 3,
        "done": 3,
        "failed": 0,
        "skipped": 0,
        "left": 0,
        "notes": "It is back",
        "rate": 100,
    }
    first = get(ask, f"{path}/items", limit="2")
    rest = get(ask, f"{path}/items", limit="2", cursor=str(first.body["next"]))
    items = first.body["items"] + rest.body["items"]
    assert [item["job_id"] for item in items] == ids(letters[::-1])
    assert {(item["result"], item["revision"], item["version"]) for item in items} == {("done", 2, 2)}
    assert rest.body["next"] is None
    assert get(ask, f"{path}/items", result="failed").body["items"] == []
    assert {get(ask, f"/dlq/{letter}").body["status"] for letter in letters} == {"retried"}


def test_letters_are_settled_by_filter_with_a_note_and_their_group_with_them(
    ask: Ask, fail: Callable[..., list[UUID]], database: Database, acme: UUID, admin: Connection
):
    fail(2)
    (group,) = get(ask, "/dlq/groups").body["groups"]
    assert group["state"] == "open"
    body = {"filter": {"fingerprint": group["fingerprint"], "status": ["pending"], "tenant": "acme"}}
    refused = post(ask, "/dlq/bulk-ignore", body)
    assert (refused.status, refused.body["detail"]) == (422, "A note is needed: say why.")
    asked = post(ask, "/dlq/bulk-ignore", {**body, "reason": "Trials"})
    assert (asked.status, asked.body["rate"]) == (202, 500)
    carry_out(database, asked.body, acme, admin)
    (group,) = get(ask, "/dlq/groups").body["groups"]
    assert (group["state"], group["ignored"]) == ("ignored", 2)


def test_a_large_selection_goes_on_after_the_request(
    ask: Ask, fail: Callable[..., list[UUID]], database: Database, acme: UUID, admin: Connection, monkeypatch: Any
):
    monkeypatch.setattr(bulk, "AT_ONCE", 2)
    fail(5)
    asked = post(ask, "/dlq/bulk-resolve", {**ALL, "notes": "Mended"})
    assert (asked.body["state"], asked.body["total"]) == ("waiting", None)
    carry_out(database, asked.body, acme, admin)
    assert get(ask, f"/operations/{asked.body['operation_id']}").body["done"] == 5


def test_an_operation_is_paused_resumed_and_cancelled_at_its_current_version(
    ask: Ask, fail: Callable[..., list[UUID]], database: Database, acme: UUID, admin: Connection
):
    fail(2)
    asked = post(ask, "/dlq/bulk-retry", {**ALL, "canary": 1}).body
    path, version = f"/operations/{asked['operation_id']}", asked["version"]
    assert asked["state"] == "canary"

    assert post(ask, f"{path}/pause").status == 428
    assert post(ask, f"{path}/pause", version=version + 7).status == 412
    paused = post(ask, f"{path}/pause", version=version)
    assert (paused.status, paused.body["state"]) == (200, "paused")
    assert paused.headers["ETag"] == f'"{version + 1}"'
    assert post(ask, f"{path}/pause", version=version + 1).status == 409
    assert post(ask, f"{path}/resume", version=version).status == 412
    assert post(ask, f"{path}/resume", version=version + 1).body["state"] == "canary"
    cancelled = post(ask, f"{path}/cancel", version=version + 2)
    assert (cancelled.body["state"], cancelled.body["left"]) == ("cancelled", 2)
    assert post(ask, f"{path}/cancel", version=version + 3).status == 409
    carry_out(database, asked, acme, admin)
    assert get(ask, path).body["done"] == 0
    actions = [entry["action"] for entry in get(ask, "/dlq/audit").body["entries"]]
    assert actions == ["bulk-cancel", "bulk-resume", "bulk-pause", "bulk-retry"]


def test_the_rate_of_an_operation_is_changed_at_its_current_version(ask: Ask, fail: Callable[..., list[UUID]]):
    fail(2)
    asked = post(ask, "/dlq/bulk-retry", ALL).body
    path, version = f"/operations/{asked['operation_id']}", asked["version"]
    assert patch(ask, path, {"rate": 7}).status == 428
    assert patch(ask, path, {"rate": 7}, version=version + 1).status == 412
    assert patch(ask, path, {"rate": 501}, version=version).status == 422
    assert patch(ask, path, {}, version=version).status == 422
    changed = patch(ask, path, {"rate": 7}, version=version)
    assert (changed.status, changed.body["rate"], changed.headers["ETag"]) == (200, 7, f'"{version + 1}"')
    assert post(ask, f"{path}/cancel", version=version + 1).status == 200
    assert patch(ask, path, {"rate": 8}, version=version + 2).status == 409


def test_operations_are_listed_by_pages_the_newest_first(ask: Ask, acme: UUID):
    asked = [post(ask, "/dlq/bulk-retry", ALL).body["operation_id"] for _ in range(3)]
    first = get(ask, "/operations", limit="2").body
    rest = get(ask, "/operations", limit="2", cursor=first["next"]).body
    assert [one["operation_id"] for one in (*first["operations"], *rest["operations"])] == asked[::-1]
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param({}, 422, id="nothing is meant"),
        pytest.param({"job_ids": [str(uuid4())], **ALL}, 422, id="two things are meant"),
        pytest.param({"job_ids": []}, 422, id="no letters"),
        pytest.param({"job_ids": [str(uuid4())] * 1001}, 422, id="too many letters"),
        pytest.param({"job_ids": ["1"]}, 422, id="no id"),
        pytest.param({"job_ids": [str(uuid4())]}, 404, id="unknown letters"),
        pytest.param({**ALL, "rate": 0}, 422, id="too slow"),
        pytest.param({**ALL, "rate": 501}, 422, id="too fast"),
        pytest.param({**ALL, "canary": 0}, 422, id="no canary"),
        pytest.param({**ALL, "notes": ""}, 422, id="an empty note"),
        pytest.param({**ALL, "notes": "a\x1b[31m"}, 422, id="a note that colours a terminal"),
        pytest.param({**ALL, "state": "done"}, 422, id="a field of ours"),
        pytest.param({"filter": {"statuses": "pending"}}, 422, id="a misspelt filter"),
        pytest.param({"filter": {"status": ["resolved"]}}, 422, id="settled letters"),
        pytest.param({"filter": {"from_date": 5}}, 422, id="a bare number for a time"),
        pytest.param({"filter": {"text": ""}}, 422, id="no words"),
        pytest.param({"filter": {"tenant": "zenith"}}, 403, id="another tenant"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_stored(
    ask: Ask, fail: Callable[..., list[UUID]], admin: Connection, body: dict[str, Any], status: int
):
    fail(1)
    answer = post(ask, "/dlq/bulk-retry", body)
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert rows(admin, "operation") == []


def test_a_filter_takes_dates_and_times_of_utc(ask: Ask, fail: Callable[..., list[UUID]]):
    fail(3)
    times = {"from_date": "2026-03-02", "to_date": "2026-03-02T12:02:00"}
    answer = post(ask, "/dlq/bulk-retry", {"filter": times, "dry_run": True})
    assert (answer.status, answer.body["count"]) == (200, 2), answer.body


def test_a_bare_list_of_letters_is_told_where_it_belongs(ask: Ask, fail: Callable[..., list[UUID]]):
    letters = ids(fail(2))
    answer = post(ask, "/dlq/bulk-retry", letters)
    assert (answer.status, 'its name: {"job_ids": ["..."]}' in answer.body["detail"]) == (400, True)
    assert post(ask, "/dlq/bulk-retry", {"job_ids": letters}).status == 202


@pytest.mark.parametrize("path", ["/dlq/bulk-resolve", "/dlq/bulk-ignore"])
def test_only_what_is_tried_again_has_a_canary(ask: Ask, acme: UUID, path: str):
    assert post(ask, path, {**ALL, "canary": 1, "notes": "n", "reason": "r"}).status == 422


def test_who_looks_may_not_ask_and_who_may_not_look_learns_nothing(ask: Ask, fail: Callable[..., list[UUID]]):
    letters = ids(fail(1))
    assert post(ask, "/dlq/bulk-retry", ALL, groups=VIEWER).status == 403
    assert post(ask, "/dlq/bulk-retry", {**ALL, "dry_run": True}, groups=VIEWER).status == 403
    assert post(ask, "/dlq/bulk-retry", {"job_ids": letters}, groups=VIEWER).status == 403
    assert post(ask, "/dlq/bulk-retry", {"job_ids": letters}, groups="[admin tenant:other]").status == 404
    asked = post(ask, "/dlq/bulk-retry", ALL).body
    path = f"/operations/{asked['operation_id']}"
    assert get(ask, path, groups=VIEWER).status == 200
    assert post(ask, f"{path}/pause", version=asked["version"], groups=VIEWER).status == 403
    for groups in ("[admin tenant:other]", "[]"):
        assert get(ask, path, groups=groups).status == 404
        assert get(ask, f"{path}/items", groups=groups).status == 404
        assert post(ask, f"{path}/cancel", version=asked["version"], groups=groups).status == 404
    assert get(ask, "/operations", groups="[admin tenant:other]", tenant="acme").status == 403
    for wrong in (str(uuid4()), "1"):
        assert get(ask, f"/operations/{wrong}").status == 404


def test_who_has_no_name_changes_nothing(ask: Ask, fail: Callable[..., list[UUID]], admin: Connection):
    fail(1)
    answer = ask(ALL, method="POST", path=f"{PATH}/bulk-retry", groups=OPERATOR, subject="")
    assert answer.status in {401, 403}
    assert rows(admin, "operation") == []


def test_named_letters_are_of_one_tenant(
    ask: Ask, fail: Callable[..., list[UUID]], database: Database, make_tenant: Callable[..., UUID]
):
    (mine,) = fail(1)
    other = dying(database, make_tenant("zenith"))()
    several = post(ask, "/dlq/bulk-retry", {"job_ids": ids([mine, other])}, groups="[operator tenant:*]")
    assert several.status == 422
    assert "several tenants" in several.body["detail"]
    asked = post(ask, "/dlq/bulk-retry", {"job_ids": ids([mine, other])})
    assert (asked.status, asked.body["tenant"], asked.body["total"]) == (202, "acme", 2)


def test_reprocessing_is_requested_by_admins(ask: Ask, acme: UUID, admin: Connection):
    body = {"tenant": "acme", "action": "extract", "received_from": "2026-01-01", "rate": 30}
    assert post(ask, "/operations", body).status == 403
    stored = post(ask, "/operations", body, groups=ADMIN)
    assert (stored.status, stored.body["action"], stored.body["total"]) == (202, "extract", None)
    assert stored.body["filter"]["received_from"] == "2026-01-01T00:00:00+00:00"
    (row,) = rows(admin, "operation")
    assert (row["id"], row["rate"], row["state"]) == (stored.body["operation_id"], 30, "running")
    path = f"/operations/{row['id']}"
    assert get(ask, f"{path}/items").body["items"] == []
    paused = post(ask, f"{path}/pause", version=stored.body["version"])
    assert (paused.status, paused.body["state"]) == (200, "paused")
    version = paused.body["version"]
    assert patch(ask, path, {"rate": 900}, version=version).status == 403
    changed = patch(ask, path, {"rate": 900}, groups=ADMIN, version=version)
    assert (changed.status, changed.body["rate"], changed.body["state"]) == (200, 900, "paused")
    assert get(ask, "/dlq/audit").body["entries"][0]["action"] == "reprocessing rate changed"
    post(ask, "/dlq/bulk-retry", ALL)
    assert [one["action"] for one in get(ask, "/operations", action="extract").body["operations"]] == ["extract"]
    assert len(get(ask, "/operations").body["operations"]) == 2


def test_reprocessing_before_it_begins_is_refused(ask: Ask, acme: UUID):
    body = {"action": "match", "received_from": "2026-02-01", "received_until": "2026-02-01"}
    assert post(ask, "/operations", body, groups="[admin tenant:acme]").status == 422
