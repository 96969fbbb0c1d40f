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
from tests.functions.admin_api.conftest import EVENT, Answer, Ask

PATH = "/api/admin/dlq"
VIEWER, OPERATOR, ADMIN = (f"[{role} tenant:acme]" for role in ("viewer", "operator", "admin"))
EDITOR = "[operator tenant:acme edit-payloads]"
USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
VERSION_1 = '"1"'
BODIES: dict[str, dict[str, Any]] = {
    "retry": {"notes": "It is mended"},
    "resolve": {"notes": "Booked by hand"},
    "ignore": {"reason": "A trial"},
}
Change = Callable[..., Answer]


@pytest.fixture
def letter(admin: Connection, database: Database, acme: UUID) -> UUID:
    """Dead letter of a failed task."""
    task = make_task(admin, acme, status="failed", attempts=6, failed_at=NOON, error="It failed")
    return dead_letter_factory(database, acme)(worker="tasks", task_type="echo", work_id=task)


@pytest.fixture
def change(ask: Ask, letter: UUID) -> Change:
    def send(
        action: str,
        body: Any = None,
        *,
        if_match: str | None = VERSION_1,
        groups: str = OPERATOR,
        of: object = None,
        **options: Any,
    ) -> Answer:
        headers = {} if if_match is None else {"if-match": if_match}
        method = "PATCH" if action == "payload" else "POST"
        content = BODIES.get(action) if body is None else body
        return ask(
            content, method=method, path=f"{PATH}/{of or letter}/{action}", groups=groups, headers=headers, **options
        )

    return send


def edit(change: Change, **options: Any) -> Answer:
    return change("payload", {"payload": {"say": "bye"}}, **{"groups": EDITOR, **options})


def test_retry_resets_the_task_and_sends_immediately(
    change: Change, letter: UUID, ask: Ask, queue: FakeSqs, admin: Connection
) -> None:
    answer = change("retry")

    assert answer.status == 200, answer.body
    assert answer.body == {"job_id": str(letter), "tenant": "acme", "status": "retried", "version": 2}
    assert answer.headers["ETag"] == '"2"'
    assert len(queue.sent["counterfoil-tasks"]) == 1
    assert [(task["status"], task["revision"]) for task in rows(admin, "task")] == [("pending", 2)]
    shown = ask("", method="GET", path=f"{PATH}/{letter}", groups=VIEWER)
    assert (shown.headers["ETag"], shown.body["status"], shown.body["resolved_by"]) == ('"2"', "retried", USER)
    assert shown.body["resolution"] == {"action": "retried", "notes": "It is mended"}


def test_retry_requires_no_body(change: Change) -> None:
    assert change("retry", "").status == 200


@pytest.mark.parametrize(
    ("action", "status", "note"), [("resolve", "resolved", "Booked by hand"), ("ignore", "ignored", "A trial")]
)
def test_dead_letter_is_closed_with_a_note(
    action: str, status: str, note: str, change: Change, letter: UUID, ask: Ask, queue: FakeSqs
) -> None:
    assert change(action).body["status"] == status
    shown = ask("", method="GET", path=f"{PATH}/{letter}", groups=VIEWER)
    assert shown.body["resolution"] == {"action": status, "notes": note}
    assert not queue.sent


@pytest.mark.parametrize(
    ("action", "body"), [("resolve", {}), ("ignore", {}), ("resolve", {"notes": ""}), ("ignore", {"reason": " "})]
)
def test_closing_requires_a_note(action: str, body: dict[str, str], change: Change) -> None:
    assert change(action, body).status == 422


@pytest.mark.parametrize("body", ["", {}, {"reason": "A trial"}])
def test_ignore_accepts_the_reason_as_parameter(body: object, change: Change, letter: UUID, ask: Ask) -> None:
    answer = change("ignore", body, query={"reason": "A trial"})

    assert (answer.status, answer.body["status"]) == (200, "ignored"), answer.body
    shown = ask("", method="GET", path=f"{PATH}/{letter}", groups=VIEWER)
    assert shown.body["resolution"] == {"action": "ignored", "notes": "A trial"}


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        ({"reason": "A trial"}, "Another", "two reasons"),
        ("", " ", "reason is wrong"),
        ("", "a\nb", "reason is wrong: it must be one line"),
        ("", None, "A note is required: give a reason."),
    ],
)
def test_ignore_requires_exactly_one_reason(
    body: object, reason: str | None, message: str, change: Change, admin: Connection
) -> None:
    answer = change("ignore", body, query={} if reason is None else {"reason": reason})

    assert (answer.status, message in answer.body["detail"]) == (422, True), answer.body
    assert [row["status"] for row in rows(admin, "dead_letter")] == ["pending"]


@pytest.mark.parametrize("action", [*BODIES, "payload"])
@pytest.mark.parametrize("if_match", ['"2"', 'W/"1"', "1", '"one"', f'"{10**30}"'])
def test_stale_or_invalid_version_is_rejected(if_match: str, action: str, change: Change, admin: Connection) -> None:
    answer = edit(change, if_match=if_match) if action == "payload" else change(action, if_match=if_match)
    assert answer.status == 412
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert [row["version"] for row in rows(admin, "dead_letter")] == [1]


@pytest.mark.parametrize("if_match", [None, "*", ""])
def test_edit_requires_a_version(if_match: str | None, change: Change, admin: Connection) -> None:
    assert edit(change, if_match=if_match).status == 428
    assert [row["version"] for row in rows(admin, "dead_letter")] == [1]


@pytest.mark.parametrize("action", BODIES)
@pytest.mark.parametrize("if_match", [None, "*", ""])
def test_unversioned_change_is_applied_once(
    if_match: str | None, action: str, change: Change, admin: Connection
) -> None:
    answer = change(action, if_match=if_match)
    assert (answer.status, answer.body["version"], answer.headers["ETag"]) == (200, 2, '"2"')
    assert change(action, if_match=if_match).status == 409
    (entry,) = rows(admin, "audit_entry")
    assert (entry["version_before"], entry["version_after"]) == (1, 2)


def test_newest_of_several_versions_is_used(change: Change) -> None:
    assert change("resolve", if_match='"0", "1"').status == 200


@pytest.mark.parametrize("second", BODIES)
@pytest.mark.parametrize("first", BODIES)
def test_second_change_is_rejected(first: str, second: str, change: Change, admin: Connection) -> None:
    change(first)
    assert change(second).status == 412
    answer = change(second, if_match='"2"')
    assert answer.status == 409
    assert "already" in answer.body["detail"]
    assert [row["version"] for row in rows(admin, "dead_letter")] == [2]
    assert len(rows(admin, "audit_entry")) == 1


def test_succeeded_work_is_not_retried(change: Change, admin: Connection) -> None:
    admin.execute("UPDATE task SET status = 'succeeded'")
    answer = change("retry")
    assert (answer.status, answer.body["detail"]) == (409, "The work item has succeeded. Resolve the dead letter.")


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
def test_changes_require_operator_of_the_tenant(
    groups: str, status: int, action: str, change: Change, admin: Connection
) -> None:
    answer = edit(change, groups=groups) if action == "payload" else change(action, groups=groups)
    assert answer.status == status, answer.body
    assert (rows(admin, "audit_entry") != []) == (status == 200)


@pytest.mark.parametrize("action", BODIES)
def test_change_of_unknown_dead_letter_returns_404(action: str, change: Change) -> None:
    assert change(action, of=uuid4()).status == 404
    assert change(action, of="no-id").status == 404


def test_token_without_subject_changes_nothing(change: Change) -> None:
    assert change("resolve", subject="").status == 403


# -- payloads ---------------------------------------------------------------------------------------------------------


def test_retry_uses_the_edited_payload(
    change: Change, letter: UUID, ask: Ask, queue: FakeSqs, admin: Connection
) -> None:
    assert edit(change, groups=OPERATOR).status == 403
    answer = edit(change)
    assert (answer.status, answer.body["status"], answer.headers["ETag"]) == (200, "pending", '"2"')

    stored = ask("", method="GET", path=f"{PATH}/{letter}/payload", groups=EDITOR)
    assert (stored.body["original"], stored.body["edited"]) == ({"say": "hello"}, {"say": "bye"})
    assert (stored.body["task_type"], stored.headers["ETag"]) == ("echo", '"2"')

    (made,) = stored.body["edits"]
    assert (made["before"], made["after"]) == ({"say": "hello"}, {"say": "bye"})

    assert change("retry", if_match='"2"').status == 200
    after = ask("", method="GET", path=f"{PATH}/{letter}/payload", groups=EDITOR)
    assert (after.body["original"], after.body["edited"], after.body["edits"]) == ({"say": "bye"}, None, [made])
    assert '"say":"bye"' in queue.sent["counterfoil-tasks"][0]["MessageBody"]
    assert [task["payload"] for task in rows(admin, "task")] == [{"say": "bye"}]


@pytest.mark.parametrize(
    ("groups", "status"), [(VIEWER, 403), (OPERATOR, 403), (EDITOR, 200), (ADMIN, 200), ("[admin]", 404)]
)
def test_full_payload_requires_permission_to_edit(groups: str, status: int, letter: UUID, ask: Ask) -> None:
    assert ask("", method="GET", path=f"{PATH}/{letter}/payload", groups=groups).status == status


def test_edited_payload_must_match_the_task_type(change: Change, admin: Connection, acme: UUID) -> None:
    admin.execute("UPDATE task SET task_type = 'http_request'")
    answer = edit(change)
    assert answer.status == 422
    assert "bye" not in answer.text
    assert change("payload", {"payload": [1]}, groups=ADMIN).status == 422
    assert change("payload", {"payload": {}, "status": "retried"}, groups=ADMIN).status == 422


def test_only_tasks_have_an_editable_payload(change: Change, database: Database, acme: UUID, ask: Ask) -> None:
    document = dead_letter_factory(database, acme)()
    assert edit(change, of=document).status == 409
    assert ask("", method="GET", path=f"{PATH}/{document}/payload", groups=ADMIN).status == 409


# -- audit trail ------------------------------------------------------------------------------------------------------


def test_audit_trail_records_actor_and_change(
    change: Change, letter: UUID, ask: Ask, database: Database, acme: UUID
) -> None:
    edit(change)
    change("resolve", if_match='"2"')

    newest = ask("", method="GET", path=f"{PATH}/audit", groups=VIEWER, query={"limit": "1"})
    assert newest.status == 200, newest.body
    [entry] = newest.body["entries"]
    assert (entry["number"], entry["actor"], entry["action"]) == (2, USER, "resolved")
    assert (entry["targets"], entry["version_before"], entry["version_after"]) == ([str(letter)], 2, 3)
    assert "Booked" not in newest.text
    cursor = str(newest.body["next_cursor"])
    older = ask("", method="GET", path=f"{PATH}/audit", groups=VIEWER, query={"cursor": cursor})
    assert [row["action"] for row in older.body["entries"]] == ["edited"]
    assert older.body["next_cursor"] is None
    [before] = older.body["entries"]
    assert (before["previous_hash"], entry["previous_hash"]) == (None, before["hash"])
    assert older.body["tenant_id"] == str(acme)
    assert older.body["head"] == {"number": 2, "hash": entry["hash"]}
    assert "bye" not in older.text
    with database.tenant(acme) as connection:
        assert first_broken_entry(connection, acme) is None


def test_audit_trail_is_filtered_by_target(change: Change, letter: UUID, ask: Ask) -> None:
    change("resolve")

    def audit_trail(target: str) -> Any:
        return ask("", method="GET", path=f"{PATH}/audit", groups=VIEWER, query={"target": target})

    assert [entry["action"] for entry in audit_trail(str(letter)).body["entries"]] == ["resolved"]
    assert audit_trail(str(UUID(int=1))).body["entries"] == []
    assert audit_trail("1").status == 422


@pytest.mark.parametrize(("groups", "status"), [("[tenant:acme]", 403), ("[viewer tenant:other]", 403), (VIEWER, 200)])
def test_audit_trail_requires_viewer(groups: str, status: int, ask: Ask, acme: UUID) -> None:
    answer = ask("", method="GET", path=f"{PATH}/audit", groups=groups, query={"tenant": "acme"})
    assert answer.status == status


def test_similar_group_name_grants_no_edits() -> None:
    for group in ("edit-payload", "tenant:edit-payloads", "edit-payloads-too"):
        assert not Caller.from_claims(
            {"sub": "kim", "cognito:groups": f"[operator tenant:acme {group}]"}
        ).edits_payloads
