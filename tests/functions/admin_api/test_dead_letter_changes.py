"""`/api/admin/dlq/{job_id}/...`: changes, versions, payloads and audit trail."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from functions.admin_api.auth import Caller
from tests.dead_letters.audit_trail import first_broken_entry
from tests.dead_letters.dead_letter_factory import NOON, dead_letter_factory
from tests.delivery.harness import FakeSqs, rows
from tests.factories import make_task
from tests.functions.admin_api.conftest import EVENT, ApiResponse, CallApi

PATH = "/api/admin/dlq"
VIEWER, OPERATOR, ADMIN = (f"[{role} tenant:acme]" for role in ("viewer", "operator", "admin"))
EDITOR = "[operator tenant:acme edit-payloads]"
USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
VERSION_1 = '"1"'
BODIES: dict[str, dict[str, Any]] = {
    "retry": {"notes": "It was fixed"},
    "resolve": {"notes": "Booked by hand"},
    "ignore": {"reason": "A trial"},
}
Change = Callable[..., ApiResponse]


@pytest.fixture
def job_id(admin: Connection, database: Database, acme: UUID) -> UUID:
    """Job id of a failed task's dead letter."""
    task = make_task(admin, acme, status="failed", attempts=6, failed_at=NOON, error="It failed")
    return dead_letter_factory(database, acme)(worker="tasks", task_type="echo", work_id=task)


@pytest.fixture
def change(call_api: CallApi, job_id: UUID) -> Change:
    def send(
        action: str,
        body: Any = None,
        *,
        if_match: str | None = VERSION_1,
        groups: str = OPERATOR,
        other_id: object = None,
        **options: Any,
    ) -> ApiResponse:
        headers = {} if if_match is None else {"if-match": if_match}
        method = "PATCH" if action == "payload" else "POST"
        content = BODIES.get(action) if body is None else body
        return call_api(
            content,
            method=method,
            path=f"{PATH}/{other_id or job_id}/{action}",
            groups=groups,
            headers=headers,
            **options,
        )

    return send


def edit(change: Change, **options: Any) -> ApiResponse:
    return change("payload", {"payload": {"say": "bye"}}, **{"groups": EDITOR, **options})


def test_retry_resets_task_and_sends_its_message(
    change: Change, job_id: UUID, call_api: CallApi, queue: FakeSqs, admin: Connection
) -> None:
    response = change("retry")

    assert response.status == 200, response.body
    assert response.body == {"job_id": str(job_id), "tenant": "acme", "status": "retried", "version": 2}
    assert response.headers["ETag"] == '"2"'
    assert len(queue.sent["counterfoil-tasks"]) == 1
    assert [(task["status"], task["revision"]) for task in rows(admin, "task")] == [("pending", 2)]
    details = call_api("", method="GET", path=f"{PATH}/{job_id}", groups=VIEWER)
    assert (details.headers["ETag"], details.body["status"], details.body["resolved_by"]) == ('"2"', "retried", USER)
    assert details.body["resolution"] == {"action": "retried", "notes": "It was fixed"}


def test_retry_requires_no_body(change: Change) -> None:
    assert change("retry", "").status == 200


@pytest.mark.parametrize(
    ("action", "status", "note"), [("resolve", "resolved", "Booked by hand"), ("ignore", "ignored", "A trial")]
)
def test_dead_letter_is_closed_with_a_note(
    action: str, status: str, note: str, change: Change, job_id: UUID, call_api: CallApi, queue: FakeSqs
) -> None:
    assert change(action).body["status"] == status
    response = call_api("", method="GET", path=f"{PATH}/{job_id}", groups=VIEWER)
    assert response.body["resolution"] == {"action": status, "notes": note}
    assert not queue.sent


@pytest.mark.parametrize(
    ("action", "body"), [("resolve", {}), ("ignore", {}), ("resolve", {"notes": ""}), ("ignore", {"reason": " "})]
)
def test_closing_requires_a_note(action: str, body: dict[str, str], change: Change) -> None:
    assert change(action, body).status == 422


@pytest.mark.parametrize("body", ["", {}, {"reason": "A trial"}])
def test_ignore_accepts_reason_in_query(body: object, change: Change, job_id: UUID, call_api: CallApi) -> None:
    response = change("ignore", body, query={"reason": "A trial"})

    assert (response.status, response.body["status"]) == (200, "ignored"), response.body
    details = call_api("", method="GET", path=f"{PATH}/{job_id}", groups=VIEWER)
    assert details.body["resolution"] == {"action": "ignored", "notes": "A trial"}


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        ({"reason": "A trial"}, "Another", "different reasons"),
        ("", " ", "reason is invalid"),
        ("", "a\nb", "reason is invalid: it must be one line"),
        ("", None, "A note is required: give a reason."),
    ],
)
def test_ignore_requires_exactly_one_valid_reason(
    body: object, reason: str | None, message: str, change: Change, admin: Connection
) -> None:
    response = change("ignore", body, query={} if reason is None else {"reason": reason})

    assert (response.status, message in response.body["detail"]) == (422, True), response.body
    assert [row["status"] for row in rows(admin, "dead_letter")] == ["pending"]


@pytest.mark.parametrize("action", [*BODIES, "payload"])
@pytest.mark.parametrize("if_match", ['"2"', 'W/"1"', "1", '"one"', f'"{10**30}"'])
def test_wrong_or_invalid_version_is_rejected(if_match: str, action: str, change: Change, admin: Connection) -> None:
    response = edit(change, if_match=if_match) if action == "payload" else change(action, if_match=if_match)
    assert response.status == 412
    assert response.headers["Content-Type"] == "application/problem+json"
    assert [row["version"] for row in rows(admin, "dead_letter")] == [1]


@pytest.mark.parametrize("if_match", [None, "*", ""])
def test_edit_requires_a_version(if_match: str | None, change: Change, admin: Connection) -> None:
    assert edit(change, if_match=if_match).status == 428
    assert [row["version"] for row in rows(admin, "dead_letter")] == [1]


@pytest.mark.parametrize("action", BODIES)
@pytest.mark.parametrize("if_match", [None, "*", ""])
def test_change_without_version_is_applied_once(
    if_match: str | None, action: str, change: Change, admin: Connection
) -> None:
    response = change(action, if_match=if_match)
    assert (response.status, response.body["version"], response.headers["ETag"]) == (200, 2, '"2"')
    assert change(action, if_match=if_match).status == 409
    (entry,) = rows(admin, "audit_entry")
    assert (entry["version_before"], entry["version_after"]) == (1, 2)


def test_newest_version_in_if_match_is_used(change: Change) -> None:
    assert change("resolve", if_match='"0", "1"').status == 200


@pytest.mark.parametrize("second", BODIES)
@pytest.mark.parametrize("first", BODIES)
def test_change_of_closed_dead_letter_is_rejected(first: str, second: str, change: Change, admin: Connection) -> None:
    change(first)
    assert change(second).status == 412
    response = change(second, if_match='"2"')
    assert response.status == 409
    assert "already" in response.body["detail"]
    assert [row["version"] for row in rows(admin, "dead_letter")] == [2]
    assert len(rows(admin, "audit_entry")) == 1


def test_succeeded_work_item_is_not_retried(change: Change, admin: Connection) -> None:
    admin.execute("UPDATE task SET status = 'succeeded'")
    response = change("retry")
    assert (response.status, response.body["detail"]) == (409, "The work item has succeeded. Resolve the dead letter.")


@pytest.mark.parametrize("action", [*BODIES, "payload"])
@pytest.mark.parametrize(
    ("groups", "status"),
    [
        (VIEWER, 403),
        ("[tenant:acme]", 404),
        ("[admin tenant:other]", 404),
        ("[admin]", 404),
        ("[admin tenant:*]", 200),
        (ADMIN, 200),
        (EDITOR, 200),
        ("[edit-payloads tenant:acme]", 404),
        ("[viewer edit-payloads tenant:acme]", 403),
    ],
)
def test_changes_require_operator_role_for_tenant(
    groups: str, status: int, action: str, change: Change, admin: Connection
) -> None:
    response = edit(change, groups=groups) if action == "payload" else change(action, groups=groups)
    assert response.status == status, response.body
    assert (rows(admin, "audit_entry") != []) == (status == 200)


@pytest.mark.parametrize("action", BODIES)
def test_change_of_unknown_dead_letter_returns_404(action: str, change: Change) -> None:
    assert change(action, other_id=uuid4()).status == 404
    assert change(action, other_id="no-id").status == 404


def test_token_without_subject_changes_nothing(change: Change) -> None:
    assert change("resolve", subject="").status == 403


# -- payloads ---------------------------------------------------------------------------------------------------------


def test_retry_uses_the_edited_payload(
    change: Change, job_id: UUID, call_api: CallApi, queue: FakeSqs, admin: Connection
) -> None:
    assert edit(change, groups=OPERATOR).status == 403
    response = edit(change)
    assert (response.status, response.body["status"], response.headers["ETag"]) == (200, "pending", '"2"')

    stored = call_api("", method="GET", path=f"{PATH}/{job_id}/payload", groups=EDITOR)
    assert (stored.body["original"], stored.body["edited"]) == ({"say": "hello"}, {"say": "bye"})
    assert (stored.body["task_type"], stored.headers["ETag"]) == ("echo", '"2"')

    (stored_edit,) = stored.body["edits"]
    assert (stored_edit["before"], stored_edit["after"]) == ({"say": "hello"}, {"say": "bye"})

    assert change("retry", if_match='"2"').status == 200
    current = call_api("", method="GET", path=f"{PATH}/{job_id}/payload", groups=EDITOR)
    assert (current.body["original"], current.body["edited"], current.body["edits"]) == (
        {"say": "bye"},
        None,
        [stored_edit],
    )
    assert '"say":"bye"' in queue.sent["counterfoil-tasks"][0]["MessageBody"]
    assert [task["payload"] for task in rows(admin, "task")] == [{"say": "bye"}]


@pytest.mark.parametrize(
    ("groups", "status"), [(VIEWER, 403), (OPERATOR, 403), (EDITOR, 200), (ADMIN, 200), ("[admin]", 404)]
)
def test_full_payload_requires_permission_to_edit(groups: str, status: int, job_id: UUID, call_api: CallApi) -> None:
    assert call_api("", method="GET", path=f"{PATH}/{job_id}/payload", groups=groups).status == status


def test_edited_payload_must_match_the_task_type(change: Change, admin: Connection, acme: UUID) -> None:
    admin.execute("UPDATE task SET task_type = 'http_request'")
    response = edit(change)
    assert response.status == 422
    assert "bye" not in response.text
    assert change("payload", {"payload": [1]}, groups=ADMIN).status == 422
    assert change("payload", {"payload": {}, "status": "retried"}, groups=ADMIN).status == 422


def test_only_tasks_have_an_editable_payload(change: Change, database: Database, acme: UUID, call_api: CallApi) -> None:
    document = dead_letter_factory(database, acme)()
    assert edit(change, other_id=document).status == 409
    assert call_api("", method="GET", path=f"{PATH}/{document}/payload", groups=ADMIN).status == 409


# -- audit trail ------------------------------------------------------------------------------------------------------


def test_audit_trail_records_actor_and_change(
    change: Change, job_id: UUID, call_api: CallApi, database: Database, acme: UUID
) -> None:
    edit(change)
    change("resolve", if_match='"2"')

    newest = call_api("", method="GET", path=f"{PATH}/audit", groups=VIEWER, query={"limit": "1"})
    assert newest.status == 200, newest.body
    [entry] = newest.body["entries"]
    assert (entry["number"], entry["actor"], entry["action"]) == (2, USER, "resolved")
    assert (entry["targets"], entry["version_before"], entry["version_after"]) == ([str(job_id)], 2, 3)
    assert "Booked" not in newest.text
    cursor = str(newest.body["next_cursor"])
    older_page = call_api("", method="GET", path=f"{PATH}/audit", groups=VIEWER, query={"cursor": cursor})
    assert [row["action"] for row in older_page.body["entries"]] == ["edited"]
    assert older_page.body["next_cursor"] is None
    [oldest] = older_page.body["entries"]
    assert (oldest["previous_hash"], entry["previous_hash"]) == (None, oldest["hash"])
    assert older_page.body["tenant_id"] == str(acme)
    assert older_page.body["head"] == {"number": 2, "hash": entry["hash"]}
    assert "bye" not in older_page.text
    with database.tenant(acme) as connection:
        assert first_broken_entry(connection, acme) is None


def test_audit_trail_is_filtered_by_target(change: Change, job_id: UUID, call_api: CallApi) -> None:
    change("resolve")

    def audit_trail(target: str) -> Any:
        return call_api("", method="GET", path=f"{PATH}/audit", groups=VIEWER, query={"target": target})

    assert [entry["action"] for entry in audit_trail(str(job_id)).body["entries"]] == ["resolved"]
    assert audit_trail(str(UUID(int=1))).body["entries"] == []
    assert audit_trail("1").status == 422


@pytest.mark.parametrize(("groups", "status"), [("[tenant:acme]", 403), ("[viewer tenant:other]", 403), (VIEWER, 200)])
def test_audit_trail_requires_viewer(groups: str, status: int, call_api: CallApi, acme: UUID) -> None:
    response = call_api("", method="GET", path=f"{PATH}/audit", groups=groups, query={"tenant": "acme"})
    assert response.status == status


def test_similar_group_name_grants_no_edits() -> None:
    for group in ("edit-payload", "tenant:edit-payloads", "edit-payloads-too"):
        assert not Caller.from_claims(
            {"sub": "kim", "cognito:groups": f"[operator tenant:acme {group}]"}
        ).edits_payloads
