"""Unassigned dead letters (tenant `-`) are visible to and changed by callers of all tenants only."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.delivery.dead_letter import DeadLetter, Failure, write_dead_letter
from counterfoil.delivery.work import Message
from counterfoil.kinds import KINDS
from counterfoil.validation import UNASSIGNED
from functions.admin_api import handler
from functions.admin_api.auth import Caller, Role
from functions.admin_api.handler import described
from tests.dead_letters.letters import NOON, Die
from tests.dead_letters.trail import broken
from tests.delivery.harness import FakeSqs
from tests.functions.admin_api.conftest import Answer, Ask
from tests.functions.admin_api.letters import PATH, found, get, ids

VIEWER, OPERATOR, ADMIN = (f"[{role} tenant:*]" for role in ("viewer", "operator", "admin"))
OTHERS = ("[admin tenant:acme]", "[admin tenant:-]", "[admin tenant:acme tenant:-]", "[admin]", "[tenant:*]")
BODY = '{"work_id": 7, "password": "hunter2-hunter2"}'
SEEN = {"if-match": '"1"'}
SETTLED: dict[str, dict[str, str]] = {
    "retry": {},
    "resolve": {"notes": "The sender has mended it"},
    "ignore": {"reason": "A trial"},
}


@pytest.fixture
def lose(database: Database) -> Callable[..., UUID]:
    """Let a message come that nobody can read; its letter's job_id."""

    def lose(error: str = "The message is no task", encoding: str = "text") -> UUID:
        letter = DeadLetter(
            job_id=uuid4(),
            tenant_id=None,
            worker="tasks",
            message=None,
            payload={"body": BODY, "encoding": encoding},
            attempts=0,
            failure=Failure("non_retriable_error", "InvalidMessageError", error, 0, "tasks"),
            created_at=NOON,
        )
        with database.delivery() as connection:
            write_dead_letter(connection, letter, NOON)
        return letter.job_id

    return lose


@pytest.fixture
def change(ask: Ask) -> Callable[..., Answer]:
    def change(job_id: UUID, what: str, groups: str = OPERATOR, **how: Any) -> Answer:
        return ask(SETTLED[what], path=f"{PATH}/{job_id}/{what}", groups=groups, **{"headers": SEEN, **how})

    return change


def test_they_are_those_of_no_tenant_and_no_tenant_s_are_among_them(
    ask: Ask, die: Die, lose: Callable[..., UUID]
) -> None:
    theirs, lost = die("The message is no task"), lose()

    assert found(get(ask, groups=VIEWER, tenant=UNASSIGNED)) == ids([lost])
    assert found(get(ask, groups=VIEWER, tenant="acme")) == ids([theirs])
    (letter,) = get(ask, groups=VIEWER, tenant=UNASSIGNED).body["letters"]
    assert (letter["tenant"], letter["work_id"], letter["revision"]) == (UNASSIGNED, None, None)


def test_they_are_found_counted_and_grouped(ask: Ask, die: Die, lose: Callable[..., UUID]) -> None:
    die("The message 4711 is no task")
    first, second = lose("The message 4711 is no task"), lose("The disk is full")

    def asked(path: str = "", **query: str) -> Answer:
        return get(ask, path, groups=VIEWER, tenant=UNASSIGNED, **query)

    for text in ("4711", "message task", "4711 message", str(first)):
        assert found(asked(text=text)) == ids([first]), text
    assert set(found(asked(task_type="tasks", from_date="2026-03-02T12:00:00Z"))) == set(ids([first, second]))
    assert found(asked(status="resolved")) == []
    assert (asked("/stats").body["tenant"], asked("/stats").body["count"]) == (UNASSIGNED, 2)
    groups = asked("/groups").body["groups"]
    assert sorted((group["count"], sum(group["trend"])) for group in groups) == [(1, 0), (1, 0)]
    fingerprint = get(ask, f"/{first}", groups=VIEWER).body["fingerprint"]
    assert found(asked(fingerprint=fingerprint)) == ids([first])
    page = asked(limit="1")
    assert found(page) + found(asked(cursor=page.body["next"])) == sorted(ids([first, second]), reverse=True)


def test_one_is_shown_with_its_body_to_admins_and_what_happened_to_it(ask: Ask, lose: Callable[..., UUID]) -> None:
    lost = lose()

    assert get(ask, f"/{lost}", groups=ADMIN).body["payload"]["body"] == BODY
    shown = get(ask, f"/{lost}", groups=VIEWER)
    assert (shown.body["tenant"], shown.body["redacted"]) == (UNASSIGNED, ["/payload/body"])
    assert "hunter2" not in shown.text
    (event,) = get(ask, f"/{lost}/timeline", groups=VIEWER).body["events"]
    assert (event["kind"], event["who"]) == ("death", "tasks")


@pytest.mark.parametrize("groups", OTHERS)
def test_who_is_not_of_all_tenants_is_not_told_that_there_are_any(
    groups: str, ask: Ask, acme: UUID, lose: Callable[..., UUID], change: Callable[..., Answer], admin: Connection
) -> None:
    lost, gone = lose(), uuid4()

    for path in ("", "/stats", "/groups", "/audit"):
        assert get(ask, path, groups=groups, tenant=UNASSIGNED).status == 403
    for path in ("", "/timeline", "/payload"):
        answers = [get(ask, f"/{job_id}{path}", groups=groups) for job_id in (lost, gone)]
        assert [(one.status, one.text) for one in answers] == [(404, answers[0].text)] * 2
    for what in SETTLED:
        answers = [change(job_id, what, groups) for job_id in (lost, gone)]
        assert [(one.status, one.text) for one in answers] == [(404, answers[0].text)] * 2
    assert admin.execute("SELECT status, version FROM dead_letter").fetchall() == [("pending", 1)]


def test_a_group_that_is_called_like_nobody_is_of_nobody() -> None:
    for groups in OTHERS:
        caller = Caller.of({"sub": "kim", "cognito:groups": groups})
        assert not caller.may(Role.VIEWER, UNASSIGNED)
    assert Caller.of({"sub": "kim", "cognito:groups": VIEWER}).may(Role.VIEWER, UNASSIGNED)


def test_a_message_is_sent_again_as_it_came(
    lose: Callable[..., UUID], change: Callable[..., Answer], queue: FakeSqs, admin: Connection
) -> None:
    lost = lose()

    answer = change(lost, "retry")

    assert (answer.status, answer.headers["ETag"]) == (200, '"2"')
    assert answer.body == {"job_id": str(lost), "tenant": UNASSIGNED, "status": "retried", "version": 2}
    assert [entry["MessageBody"] for entry in queue.sent["counterfoil-tasks"]] == [BODY]


def test_who_did_what_is_in_a_trail_of_its_own(
    ask: Ask, die: Die, lose: Callable[..., UUID], change: Callable[..., Answer], database: Database
) -> None:
    theirs = die()
    assert change(theirs, "ignore").status == 200
    for what in SETTLED:
        assert change(lose(), what).status == 200

    entries = get(ask, "/audit", groups=VIEWER, tenant=UNASSIGNED).body["entries"]
    assert [entry["action"] for entry in entries] == ["ignored", "resolved", "retried"]
    assert [entry["number"] for entry in entries] == [3, 2, 1]
    assert len(get(ask, "/audit", groups=VIEWER, tenant="acme").body["entries"]) == 1
    with database.delivery() as connection:
        assert broken(connection, None) is None


@pytest.mark.parametrize("what", SETTLED)
def test_one_is_settled_once_by_who_has_seen_it(
    what: str, lose: Callable[..., UUID], change: Callable[..., Answer], admin: Connection
) -> None:
    lost = lose()

    assert change(lost, what, VIEWER).status == 403
    assert change(lost, what, headers={"if-match": '"2"'}).status == 412
    assert change(lost, what, subject="").status == 403
    assert admin.execute("SELECT status, version FROM dead_letter").fetchall() == [("pending", 1)]
    assert change(lost, what).status == 200
    assert change(lost, what, headers={"if-match": '"2"'}).status == 409


def test_what_is_no_text_cannot_be_sent_again(lose: Callable[..., UUID], change: Callable[..., Answer]) -> None:
    assert change(lose(encoding="hex"), "retry").status == 409


def test_there_is_nothing_to_edit(ask: Ask, lose: Callable[..., UUID]) -> None:
    path = f"{PATH}/{lose()}/payload"

    for method, body in (("GET", ""), ("PATCH", {"payload": {}})):
        assert ask(body, method=method, path=path, groups=ADMIN, headers=SEEN).status == 409
        assert ask(body, method=method, path=path, groups=OPERATOR, headers=SEEN).status == 403


def test_what_is_nobody_s_is_no_tenant_elsewhere(ask: Ask) -> None:
    for path in (
        "/api/tasks",
        "/api/chat/sessions",
        "/api/admin/reviews",
        "/api/admin/operations",
        "/api/admin/queues",
    ):
        assert ask("", method="GET", path=path, groups=ADMIN, query={"tenant": UNASSIGNED}).status == 422, path
    assert ask({"tenant": UNASSIGNED, "file_name": "a.pdf"}, groups=ADMIN).status == 422


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", "/export", {"format": "csv"}),
        ("DELETE", "/purge", {"before_date": "2026-04-01T00:00:00Z", "status": "ignored", "confirm": UNASSIGNED}),
    ],
)
def test_they_are_neither_exported_nor_purged_and_it_is_said_why(
    method: str, path: str, query: dict[str, str], ask: Ask, lose: Callable[..., UUID], admin: Connection
) -> None:
    lose()

    answer = ask("", method=method, path=PATH + path, groups=ADMIN, query={"tenant": UNASSIGNED, **query})

    assert (answer.status, answer.body["detail"]) == (
        422,
        "The parameter tenant is wrong: '-' means unassigned dead letters, and these are read and settled one by one.",
    )
    assert admin.execute("SELECT purged_at FROM dead_letter").fetchall() == [(None,)]


@pytest.mark.parametrize("what", SETTLED)
def test_many_of_them_are_not_settled_at_once_and_it_is_said_why(
    what: str, ask: Ask, die: Die, lose: Callable[..., UUID], admin: Connection
) -> None:
    lost, theirs = lose(), die()

    def bulk(groups: str = OPERATOR, **meant: object) -> tuple[int, str]:
        answer = ask({**meant, **SETTLED[what]}, path=f"{PATH}/bulk-{what}", groups=groups)
        return answer.status, answer.body.get("detail")

    why = "these are read and settled one by one."
    assert bulk(filter={"tenant": UNASSIGNED}) == (
        422,
        f"The body is wrong at filter.tenant: '-' means unassigned dead letters, and {why}",
    )
    assert bulk(job_ids=[str(lost)]) == (422, f"The dead letters are unassigned: {why}")
    assert bulk(job_ids=[str(lost), str(theirs)]) == (
        422,
        "The dead letters are of several tenants: ask for one tenant's at a time.",
    )
    assert bulk("[operator tenant:acme]", job_ids=[str(lost)]) == (404, "There are no such dead letters.")
    assert admin.execute("SELECT count(*) FROM operation").fetchone() == (0,)
    assert bulk("[operator tenant:acme]", job_ids=[str(lost), str(theirs)])[0] == 202


@pytest.fixture
def failed_upload(database: Database, admin: Connection) -> Callable[[], UUID]:
    """Fail the acquisition job of an unassigned upload. Returns the id of its dead letter."""

    def fail() -> UUID:
        work_id = uuid4()
        admin.execute(
            "INSERT INTO acquisition_job (id, bucket, key, sequencer, size, created_at, status, attempts, failed_at)"
            " VALUES (%(id)s, 'uploads', %(key)s, '00', 1, %(now)s, 'failed', 3, %(now)s)",
            {"id": work_id, "key": f"inbox/{work_id}", "now": NOON},
        )
        admin.execute(
            "INSERT INTO work_attempt (worker, work_id, revision, number, began_at, ended_at, outcome,"
            " error_type, error)"
            " VALUES ('acquisition', %(id)s, 1, 3, %(now)s, %(now)s, 'failed', 'TimeoutError', 'Timed out')",
            {"id": work_id, "now": NOON},
        )
        message = Message(work_id=work_id, revision=1, send_number=0)
        letter = DeadLetter(
            job_id=KINDS["acquisition"].job_id(work_id),
            tenant_id=None,
            worker="acquisition",
            message=message,
            payload={"message": message.model_dump(mode="json"), "file": {"file_name": "invoice.pdf"}},
            attempts=3,
            failure=Failure("max_retries_exceeded", "TimeoutError", "Timed out", 3, "acquisition"),
            created_at=NOON,
        )
        with database.delivery() as connection:
            write_dead_letter(connection, letter, NOON)
        return letter.job_id

    return fail


JOB_ROUTES = [
    (method, path)
    for path, operations in described(handler.api)["paths"].items()
    if path.startswith(f"{PATH}/{{job_id}}")
    for method in operations
]


def test_unassigned_upload_shows_its_attempts(ask: Ask, failed_upload: Callable[[], UUID]) -> None:
    job_id = failed_upload()

    assert get(ask, f"/{job_id}", groups=VIEWER).body["payload"]["file"]["file_name"] == "invoice.pdf"
    events = get(ask, f"/{job_id}/timeline", groups=VIEWER).body["events"]
    assert [event["kind"] for event in events] == ["try", "death"]
    assert {event["error"]["message"] for event in events} == {"Timed out"}


@pytest.mark.parametrize("kind", ["unparsable message", "failed upload"])
@pytest.mark.parametrize(("method", "path"), JOB_ROUTES)
def test_every_route_answers_for_unassigned_letters(
    method: str, path: str, kind: str, ask: Ask, lose: Callable[..., UUID], failed_upload: Callable[[], UUID]
) -> None:
    job_id = failed_upload() if kind == "failed upload" else lose()
    action = path.rpartition("/")[2]
    body = {**SETTLED, "payload": {"payload": {}}}.get(action, {}) if method != "get" else ""

    answer = ask(body, method=method.upper(), path=path.format(job_id=job_id), groups=ADMIN, headers=SEEN)

    expected = 409 if action == "payload" else 200  # only payloads of tasks can be edited
    assert answer.status == expected, answer.body


def test_deceptive_file_name_is_neutralized(ask: Ask, failed_upload: Callable[[], UUID], admin: Connection) -> None:
    failed_upload()
    admin.execute("UPDATE dead_letter SET payload = %s", [Jsonb({"file": {"key": "inbox/a_\u202efdp.exe"}})])

    (letter,) = get(ask, groups=VIEWER, tenant=UNASSIGNED).body["letters"]
    assert letter["file_name"] == "a_\N{REPLACEMENT CHARACTER}fdp.exe"


def test_retried_unassigned_upload_is_enqueued(
    failed_upload: Callable[[], UUID], change: Callable[..., Answer], admin: Connection
) -> None:
    assert change(failed_upload(), "retry").status == 200

    assert admin.execute("SELECT status, revision FROM acquisition_job").fetchall() == [("pending", 2)]
    assert admin.execute("SELECT worker, revision FROM outbox").fetchall() == [("acquisition", 2)]
