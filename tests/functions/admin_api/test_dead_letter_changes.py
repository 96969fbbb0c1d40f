"""`/api/admin/dlq/{job_id}/...`: who may change a dead letter changes what he has seen, once, and it is told."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from functions.admin_api.auth import Caller
from tests.dead_letters.letters import NOON, dying
from tests.dead_letters.trail import broken
from tests.delivery.harness import FakeSqs, rows
from tests.factories import make_task
from tests.functions.admin_api.conftest import EVENT, Answer, Ask

PATH = "/api/admin/dlq"
VIEWER, OPERATOR, ADMIN = (f"[{role} tenant:acme]" for role in ("viewer", "operator", "admin"))
EDITOR = "[operator tenant:acme edit-payloads]"
USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
SEEN = '"1"'
BODIES: dict[str, dict[str, Any]] = {
    "retry": {"notes": "It is mended"},
    "resolve": {"notes": "Booked by hand"},
    "ignore": {"reason": "A trial"},
}
Change = Callable[..., Answer]


@pytest.fixture
def letter(admin: Connection, database: Database, acme: UUID) -> UUID:
    """The letter of a task that has failed."""
    task = make_task(admin, acme, status="failed", attempts=6, failed_at=NOON, error="It failed")
    return dying(database, acme)(worker="tasks", task_type="echo", work_id=task)


@pytest.fixture
def change(ask: Ask, letter: UUID) -> Change:
    def send(
        what: str, body: Any = None, *, seen: str | None = SEEN, groups: str = OPERATOR, of: object = None, **how: Any
    ) -> Answer:
        headers = {} if seen is None else {"if-match": seen}
        method = "PATCH" if what == "payload" else "POST"
        wanted = BODIES.get(what) if body is None else body
        return ask(wanted, method=method, path=f"{PATH}/{of or letter}/{what}", groups=groups, headers=headers, **how)

    return send


def edit(change: Change, **how: Any) -> Answer:
    return change("payload", {"payload": {"say": "bye"}}, **{"groups": EDITOR, **how})


def test_a_letter_is_tried_again_and_its_message_sent_at_once(
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


def test_a_letter_may_be_tried_again_without_a_body(change: Change) -> None:
    assert change("retry", "").status == 200


@pytest.mark.parametrize(
    ("what", "status", "note"), [("resolve", "resolved", "Booked by hand"), ("ignore", "ignored", "A trial")]
)
def test_a_letter_is_settled_with_a_note(
    what: str, status: str, note: str, change: Change, letter: UUID, ask: Ask, queue: FakeSqs
) -> None:
    assert change(what).body["status"] == status
    shown = ask("", method="GET", path=f"{PATH}/{letter}", groups=VIEWER)
    assert shown.body["resolution"] == {"action": status, "notes": note}
    assert not queue.sent


@pytest.mark.parametrize(
    ("what", "body"), [("resolve", {}), ("ignore", {}), ("resolve", {"notes": ""}), ("ignore", {"reason": " "})]
)
def test_a_letter_is_not_settled_without_a_word(what: str, body: dict[str, str], change: Change) -> None:
    assert change(what, body).status == 422


@pytest.mark.parametrize("body", ["", {}, {"reason": "A trial"}])
def test_the_address_may_say_why_a_letter_is_ignored(body: object, change: Change, letter: UUID, ask: Ask) -> None:
    answer = change("ignore", body, query={"reason": "A trial"})

    assert (answer.status, answer.body["status"]) == (200, "ignored"), answer.body
    shown = ask("", method="GET", path=f"{PATH}/{letter}", groups=VIEWER)
    assert shown.body["resolution"] == {"action": "ignored", "notes": "A trial"}


@pytest.mark.parametrize(
    ("body", "reason", "says"),
    [
        ({"reason": "A trial"}, "Another", "two reasons"),
        ("", " ", "reason is wrong"),
        ("", "a\nb", "reason is wrong: it must be one line"),
        ("", None, "A note is needed: say why."),
    ],
)
def test_a_letter_is_ignored_for_one_reason(
    body: object, reason: str | None, says: str, change: Change, admin: Connection
) -> None:
    answer = change("ignore", body, query={} if reason is None else {"reason": reason})

    assert (answer.status, says in answer.body["detail"]) == (422, True), answer.body
    assert [one["status"] for one in rows(admin, "dead_letter")] == ["pending"]


@pytest.mark.parametrize("what", [*BODIES, "payload"])
@pytest.mark.parametrize("seen", ['"2"', 'W/"1"', "1", '"one"', f'"{10**30}"'])
def test_change_of_another_version_is_refused(seen: str, what: str, change: Change, admin: Connection) -> None:
    answer = edit(change, seen=seen) if what == "payload" else change(what, seen=seen)
    assert answer.status == 412
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert [one["version"] for one in rows(admin, "dead_letter")] == [1]


@pytest.mark.parametrize("seen", [None, "*", ""])
def test_edit_needs_the_version_that_it_replaces(seen: str | None, change: Change, admin: Connection) -> None:
    assert edit(change, seen=seen).status == 428
    assert [one["version"] for one in rows(admin, "dead_letter")] == [1]


@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("seen", [None, "*", ""])
def test_change_without_a_version_is_made_once(seen: str | None, what: str, change: Change, admin: Connection) -> None:
    answer = change(what, seen=seen)
    assert (answer.status, answer.body["version"], answer.headers["ETag"]) == (200, 2, '"2"')
    assert change(what, seen=seen).status == 409
    (entry,) = rows(admin, "audit_entry")
    assert (entry["version_before"], entry["version_after"]) == (1, 2)


def test_of_several_versions_the_newest_counts(change: Change) -> None:
    assert change("resolve", seen='"0", "1"').status == 200


@pytest.mark.parametrize("second", BODIES)
@pytest.mark.parametrize("first", BODIES)
def test_who_comes_second_changes_nothing(first: str, second: str, change: Change, admin: Connection) -> None:
    change(first)
    assert change(second).status == 412
    answer = change(second, seen='"2"')
    assert answer.status == 409
    assert "already" in answer.body["detail"]
    assert [one["version"] for one in rows(admin, "dead_letter")] == [2]
    assert len(rows(admin, "audit_entry")) == 1


def test_work_that_has_succeeded_meanwhile_is_not_tried_again(change: Change, admin: Connection) -> None:
    admin.execute("UPDATE task SET status = 'succeeded'")
    answer = change("retry")
    assert (answer.status, answer.body["detail"]) == (409, "The work has succeeded meanwhile: resolve the dead letter.")


@pytest.mark.parametrize("what", [*BODIES, "payload"])
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
def test_who_may_change_a_letter(groups: str, status: int, what: str, change: Change, admin: Connection) -> None:
    answer = edit(change, groups=groups) if what == "payload" else change(what, groups=groups)
    assert answer.status == status, answer.body
    assert (rows(admin, "audit_entry") != []) == (status == 200)


@pytest.mark.parametrize("what", BODIES)
def test_what_does_not_exist_is_not_changed(what: str, change: Change) -> None:
    assert change(what, of=uuid4()).status == 404
    assert change(what, of="no-id").status == 404


def test_nobody_changes_a_letter_without_a_name(change: Change) -> None:
    assert change("resolve", subject="").status == 403


# -- payloads ---------------------------------------------------------------------------------------------------------


def test_a_payload_is_edited_by_who_may_and_tried(
    change: Change, letter: UUID, ask: Ask, queue: FakeSqs, admin: Connection
) -> None:
    assert edit(change, groups=OPERATOR).status == 403
    answer = edit(change)
    assert (answer.status, answer.body["status"], answer.headers["ETag"]) == (200, "pending", '"2"')

    found = ask("", method="GET", path=f"{PATH}/{letter}/payload", groups=EDITOR)
    assert (found.body["original"], found.body["edited"]) == ({"say": "hello"}, {"say": "bye"})
    assert (found.body["task_type"], found.headers["ETag"]) == ("echo", '"2"')

    (made,) = found.body["edits"]
    assert (made["before"], made["after"]) == ({"say": "hello"}, {"say": "bye"})

    assert change("retry", seen='"2"').status == 200
    after = ask("", method="GET", path=f"{PATH}/{letter}/payload", groups=EDITOR)
    assert (after.body["original"], after.body["edited"], after.body["edits"]) == ({"say": "bye"}, None, [made])
    assert '"say":"bye"' in queue.sent["counterfoil-tasks"][0]["MessageBody"]
    assert [task["payload"] for task in rows(admin, "task")] == [{"say": "bye"}]


@pytest.mark.parametrize(
    ("groups", "status"), [(VIEWER, 403), (OPERATOR, 403), (EDITOR, 200), (ADMIN, 200), ("[admin]", 404)]
)
def test_a_whole_payload_is_seen_by_who_may_edit_it(groups: str, status: int, letter: UUID, ask: Ask) -> None:
    assert ask("", method="GET", path=f"{PATH}/{letter}/payload", groups=groups).status == status


def test_what_the_type_does_not_take_is_no_payload(change: Change, admin: Connection, acme: UUID) -> None:
    admin.execute("UPDATE task SET task_type = 'http_request'")
    answer = edit(change)
    assert answer.status == 422
    assert "bye" not in answer.text
    assert change("payload", {"payload": [1]}, groups=ADMIN).status == 422
    assert change("payload", {"payload": {}, "status": "retried"}, groups=ADMIN).status == 422


def test_what_is_no_task_has_no_payload_to_edit(change: Change, database: Database, acme: UUID, ask: Ask) -> None:
    document = dying(database, acme)()
    assert edit(change, of=document).status == 409
    assert ask("", method="GET", path=f"{PATH}/{document}/payload", groups=ADMIN).status == 409


# -- the trail --------------------------------------------------------------------------------------------------------


def test_who_changed_what_is_told(change: Change, letter: UUID, ask: Ask, database: Database, acme: UUID) -> None:
    edit(change)
    change("resolve", seen='"2"')

    newest = ask("", method="GET", path=f"{PATH}/audit", groups=VIEWER, query={"limit": "1"})
    assert newest.status == 200, newest.body
    [entry] = newest.body["entries"]
    assert (entry["number"], entry["actor"], entry["action"]) == (2, USER, "resolved")
    assert (entry["targets"], entry["version_before"], entry["version_after"]) == ([str(letter)], 2, 3)
    assert "Booked" not in newest.text
    cursor = str(newest.body["next"])
    older = ask("", method="GET", path=f"{PATH}/audit", groups=VIEWER, query={"cursor": cursor})
    assert [one["action"] for one in older.body["entries"]] == ["edited"]
    assert older.body["next"] is None
    [before] = older.body["entries"]
    assert (before["previous_hash"], entry["previous_hash"]) == (None, before["hash"])
    assert older.body["tenant_id"] == str(acme)
    assert older.body["head"] == {"number": 2, "hash": entry["hash"]}
    assert "bye" not in older.text
    with database.tenant(acme) as connection:
        assert broken(connection, acme) is None


def test_the_trail_of_one_letter_is_told(change: Change, letter: UUID, ask: Ask) -> None:
    change("resolve")

    def told(target: str) -> Any:
        return ask("", method="GET", path=f"{PATH}/audit", groups=VIEWER, query={"target": target})

    assert [entry["action"] for entry in told(str(letter)).body["entries"]] == ["resolved"]
    assert told(str(UUID(int=1))).body["entries"] == []
    assert told("1").status == 422


@pytest.mark.parametrize(("groups", "status"), [("[tenant:acme]", 403), ("[viewer tenant:other]", 403), (VIEWER, 200)])
def test_the_trail_is_for_who_may_look(groups: str, status: int, ask: Ask, acme: UUID) -> None:
    answer = ask("", method="GET", path=f"{PATH}/audit", groups=groups, query={"tenant": "acme"})
    assert answer.status == status


def test_a_group_that_is_called_almost_so_lets_nobody_edit() -> None:
    for group in ("edit-payload", "tenant:edit-payloads", "edit-payloads-too"):
        assert not Caller.of({"sub": "kim", "cognito:groups": f"[operator tenant:acme {group}]"}).edits_payloads
