"""Unassigned dead letters (tenant `-`), for callers of all tenants only."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.delivery.dead_letter import DeadLetter, FailureDetails, write_dead_letter
from counterfoil.delivery.work import Message
from counterfoil.kinds import WORK_KINDS
from counterfoil.validation import UNASSIGNED
from functions.admin_api import handler
from functions.admin_api.auth import Caller, Role
from functions.admin_api.handler import build_openapi
from tests.dead_letters.audit_trail import first_broken_entry
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter
from tests.delivery.harness import FakeSqs
from tests.functions.admin_api.conftest import Answer, Ask
from tests.functions.admin_api.letters import PATH, get, ids, listed_ids

VIEWER, OPERATOR, ADMIN = (f"[{role} tenant:*]" for role in ("viewer", "operator", "admin"))
OTHERS = ("[admin tenant:acme]", "[admin tenant:-]", "[admin tenant:acme tenant:-]", "[admin]", "[tenant:*]")
BODY = '{"work_id": 7, "password": "hunter2-hunter2"}'
IF_MATCH = {"if-match": '"1"'}
ACTION_BODIES: dict[str, dict[str, str]] = {
    "retry": {},
    "resolve": {"notes": "The sender has mended it"},
    "ignore": {"reason": "A trial"},
}


@pytest.fixture
def add_unassigned(database: Database) -> Callable[..., UUID]:
    """Dead-letter an unparsable message. Returns the job_id."""

    def add_unassigned(error: str = "The message is no task", encoding: str = "text") -> UUID:
        letter = DeadLetter(
            job_id=uuid4(),
            tenant_id=None,
            worker="tasks",
            message=None,
            payload={"body": BODY, "encoding": encoding},
            attempts=0,
            failure=FailureDetails("non_retriable_error", "InvalidMessageError", error, 0, "tasks"),
            created_at=NOON,
        )
        with database.delivery() as connection:
            write_dead_letter(connection, letter, NOON)
        return letter.job_id

    return add_unassigned


@pytest.fixture
def change(ask: Ask) -> Callable[..., Answer]:
    def change(job_id: UUID, action: str, groups: str = OPERATOR, **options: Any) -> Answer:
        return ask(
            ACTION_BODIES[action], path=f"{PATH}/{job_id}/{action}", groups=groups, **{"headers": IF_MATCH, **options}
        )

    return change


def test_unassigned_list_excludes_those_of_tenants(
    ask: Ask, die: MakeDeadLetter, add_unassigned: Callable[..., UUID]
) -> None:
    theirs, unassigned = die("The message is no task"), add_unassigned()

    assert listed_ids(get(ask, groups=VIEWER, tenant=UNASSIGNED)) == ids([unassigned])
    assert listed_ids(get(ask, groups=VIEWER, tenant="acme")) == ids([theirs])
    (letter,) = get(ask, groups=VIEWER, tenant=UNASSIGNED).body["dead_letters"]
    assert (letter["tenant"], letter["work_id"], letter["revision"]) == (UNASSIGNED, None, None)


def test_unassigned_are_searched_counted_and_grouped(
    ask: Ask, die: MakeDeadLetter, add_unassigned: Callable[..., UUID]
) -> None:
    die("The message 4711 is no task")
    first, second = add_unassigned("The message 4711 is no task"), add_unassigned("The disk is full")

    def list_unassigned(path: str = "", **query: str) -> Answer:
        return get(ask, path, groups=VIEWER, tenant=UNASSIGNED, **query)

    for text in ("4711", "message task", "4711 message", str(first)):
        assert listed_ids(list_unassigned(text=text)) == ids([first]), text
    assert set(listed_ids(list_unassigned(task_type="tasks", from_date="2026-03-02T12:00:00Z"))) == set(
        ids([first, second])
    )
    assert listed_ids(list_unassigned(status="resolved")) == []
    assert (list_unassigned("/stats").body["tenant"], list_unassigned("/stats").body["count"]) == (UNASSIGNED, 2)
    groups = list_unassigned("/groups").body["groups"]
    assert sorted((group["count"], sum(group["trend"])) for group in groups) == [(1, 0), (1, 0)]
    fingerprint = get(ask, f"/{first}", groups=VIEWER).body["fingerprint"]
    assert listed_ids(list_unassigned(fingerprint=fingerprint)) == ids([first])
    page = list_unassigned(limit="1")
    assert listed_ids(page) + listed_ids(list_unassigned(cursor=page.body["next_cursor"])) == sorted(
        ids([first, second]), reverse=True
    )


def test_unassigned_shows_timeline_and_body_to_admins(ask: Ask, add_unassigned: Callable[..., UUID]) -> None:
    unassigned = add_unassigned()

    assert get(ask, f"/{unassigned}", groups=ADMIN).body["payload"]["body"] == BODY
    shown = get(ask, f"/{unassigned}", groups=VIEWER)
    assert (shown.body["tenant"], shown.body["redacted_paths"]) == (UNASSIGNED, ["/payload/body"])
    assert "hunter2" not in shown.text
    (event,) = get(ask, f"/{unassigned}/timeline", groups=VIEWER).body["events"]
    assert (event["kind"], event["actor"]) == ("dead_lettered", "tasks")


@pytest.mark.parametrize("groups", OTHERS)
def test_unassigned_are_hidden_without_all_tenants(
    groups: str,
    ask: Ask,
    acme: UUID,
    add_unassigned: Callable[..., UUID],
    change: Callable[..., Answer],
    admin: Connection,
) -> None:
    unassigned, gone = add_unassigned(), uuid4()

    for path in ("", "/stats", "/groups", "/audit"):
        assert get(ask, path, groups=groups, tenant=UNASSIGNED).status == 403
    for path in ("", "/timeline", "/payload"):
        answers = [get(ask, f"/{job_id}{path}", groups=groups) for job_id in (unassigned, gone)]
        assert [(answer.status, answer.text) for answer in answers] == [(404, answers[0].text)] * 2
    for action in ACTION_BODIES:
        answers = [change(job_id, action, groups) for job_id in (unassigned, gone)]
        assert [(answer.status, answer.text) for answer in answers] == [(404, answers[0].text)] * 2
    assert admin.execute("SELECT status, version FROM dead_letter").fetchall() == [("pending", 1)]


def test_group_named_like_unassigned_grants_nothing() -> None:
    for groups in OTHERS:
        caller = Caller.from_claims({"sub": "kim", "cognito:groups": groups})
        assert not caller.has_role(Role.VIEWER, UNASSIGNED)
    assert Caller.from_claims({"sub": "kim", "cognito:groups": VIEWER}).has_role(Role.VIEWER, UNASSIGNED)


def test_retried_message_is_sent_unchanged(
    add_unassigned: Callable[..., UUID], change: Callable[..., Answer], queue: FakeSqs, admin: Connection
) -> None:
    unassigned = add_unassigned()

    answer = change(unassigned, "retry")

    assert (answer.status, answer.headers["ETag"]) == (200, '"2"')
    assert answer.body == {"job_id": str(unassigned), "tenant": UNASSIGNED, "status": "retried", "version": 2}
    assert [entry["MessageBody"] for entry in queue.sent["counterfoil-tasks"]] == [BODY]


def test_unassigned_changes_have_their_own_audit_chain(
    ask: Ask,
    die: MakeDeadLetter,
    add_unassigned: Callable[..., UUID],
    change: Callable[..., Answer],
    database: Database,
) -> None:
    theirs = die()
    assert change(theirs, "ignore").status == 200
    for action in ACTION_BODIES:
        assert change(add_unassigned(), action).status == 200

    entries = get(ask, "/audit", groups=VIEWER, tenant=UNASSIGNED).body["entries"]
    assert [entry["action"] for entry in entries] == ["ignored", "resolved", "retried"]
    assert [entry["number"] for entry in entries] == [3, 2, 1]
    assert len(get(ask, "/audit", groups=VIEWER, tenant="acme").body["entries"]) == 1
    with database.delivery() as connection:
        assert first_broken_entry(connection, None) is None


@pytest.mark.parametrize("action", ACTION_BODIES)
def test_unassigned_is_closed_once_at_its_version(
    action: str, add_unassigned: Callable[..., UUID], change: Callable[..., Answer], admin: Connection
) -> None:
    unassigned = add_unassigned()

    assert change(unassigned, action, VIEWER).status == 403
    assert change(unassigned, action, headers={"if-match": '"2"'}).status == 412
    assert change(unassigned, action, subject="").status == 403
    assert admin.execute("SELECT status, version FROM dead_letter").fetchall() == [("pending", 1)]
    assert change(unassigned, action).status == 200
    assert change(unassigned, action, headers={"if-match": '"2"'}).status == 409


def test_binary_message_cannot_be_retried(add_unassigned: Callable[..., UUID], change: Callable[..., Answer]) -> None:
    assert change(add_unassigned(encoding="hex"), "retry").status == 409


def test_unassigned_have_no_editable_payload(ask: Ask, add_unassigned: Callable[..., UUID]) -> None:
    path = f"{PATH}/{add_unassigned()}/payload"

    for method, body in (("GET", ""), ("PATCH", {"payload": {}})):
        assert ask(body, method=method, path=path, groups=ADMIN, headers=IF_MATCH).status == 409
        assert ask(body, method=method, path=path, groups=OPERATOR, headers=IF_MATCH).status == 403


def test_unassigned_is_rejected_as_tenant_elsewhere(ask: Ask) -> None:
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
def test_unassigned_cannot_be_exported_or_purged(
    method: str, path: str, query: dict[str, str], ask: Ask, add_unassigned: Callable[..., UUID], admin: Connection
) -> None:
    add_unassigned()

    answer = ask("", method=method, path=PATH + path, groups=ADMIN, query={"tenant": UNASSIGNED, **query})

    assert (answer.status, answer.body["detail"]) == (
        422,
        "The parameter tenant is wrong: '-' means unassigned dead letters, which must be retried, resolved or ignored "
        "one at a time.",
    )
    assert admin.execute("SELECT purged_at FROM dead_letter").fetchall() == [(None,)]


@pytest.mark.parametrize("action", ACTION_BODIES)
def test_unassigned_cannot_be_closed_in_bulk(
    action: str, ask: Ask, die: MakeDeadLetter, add_unassigned: Callable[..., UUID], admin: Connection
) -> None:
    unassigned, theirs = add_unassigned(), die()

    def bulk(groups: str = OPERATOR, **selection: object) -> tuple[int, str]:
        answer = ask({**selection, **ACTION_BODIES[action]}, path=f"{PATH}/bulk-{action}", groups=groups)
        return answer.status, answer.body.get("detail")

    reason = "must be retried, resolved or ignored one at a time."
    assert bulk(filter={"tenant": UNASSIGNED}) == (
        422,
        f"The body is wrong at filter.tenant: '-' means unassigned dead letters, which {reason}",
    )
    assert bulk(job_ids=[str(unassigned)]) == (422, f"Unassigned dead letters {reason}")
    assert bulk(job_ids=[str(unassigned), str(theirs)]) == (
        422,
        "The dead letters belong to several tenants. Send one request per tenant.",
    )
    assert bulk("[operator tenant:acme]", job_ids=[str(unassigned)]) == (404, "There are no such dead letters.")
    assert admin.execute("SELECT count(*) FROM operation").fetchone() == (0,)
    assert bulk("[operator tenant:acme]", job_ids=[str(unassigned), str(theirs)])[0] == 202


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
            "INSERT INTO work_attempt (worker, work_id, revision, number, started_at, ended_at, outcome,"
            " error_type, error)"
            " VALUES ('acquisition', %(id)s, 1, 3, %(now)s, %(now)s, 'failed', 'TimeoutError', 'Timed out')",
            {"id": work_id, "now": NOON},
        )
        message = Message(work_id=work_id, revision=1, send_number=0)
        letter = DeadLetter(
            job_id=WORK_KINDS["acquisition"].job_id(work_id),
            tenant_id=None,
            worker="acquisition",
            message=message,
            payload={"message": message.model_dump(mode="json"), "file": {"file_name": "invoice.pdf"}},
            attempts=3,
            failure=FailureDetails("max_retries_exceeded", "TimeoutError", "Timed out", 3, "acquisition"),
            created_at=NOON,
        )
        with database.delivery() as connection:
            write_dead_letter(connection, letter, NOON)
        return letter.job_id

    return fail


JOB_ROUTES = [
    (method, path)
    for path, operations in build_openapi(handler.api)["paths"].items()
    if path.startswith(f"{PATH}/{{job_id}}")
    for method in operations
]


def test_unassigned_upload_shows_its_attempts(ask: Ask, failed_upload: Callable[[], UUID]) -> None:
    job_id = failed_upload()

    assert get(ask, f"/{job_id}", groups=VIEWER).body["payload"]["file"]["file_name"] == "invoice.pdf"
    events = get(ask, f"/{job_id}/timeline", groups=VIEWER).body["events"]
    assert [event["kind"] for event in events] == ["attempt", "dead_lettered"]
    assert {event["error"]["message"] for event in events} == {"Timed out"}


@pytest.mark.parametrize("kind", ["unparsable message", "failed upload"])
@pytest.mark.parametrize(("method", "path"), JOB_ROUTES)
def test_every_route_supports_unassigned_dead_letters(
    method: str, path: str, kind: str, ask: Ask, add_unassigned: Callable[..., UUID], failed_upload: Callable[[], UUID]
) -> None:
    job_id = failed_upload() if kind == "failed upload" else add_unassigned()
    action = path.rpartition("/")[2]
    body = {**ACTION_BODIES, "payload": {"payload": {}}}.get(action, {}) if method != "get" else ""

    answer = ask(body, method=method.upper(), path=path.format(job_id=job_id), groups=ADMIN, headers=IF_MATCH)

    expected = 409 if action == "payload" else 200  # only payloads of tasks can be edited
    assert answer.status == expected, answer.body


def test_deceptive_file_name_is_neutralized(ask: Ask, failed_upload: Callable[[], UUID], admin: Connection) -> None:
    failed_upload()
    admin.execute("UPDATE dead_letter SET payload = %s", [Jsonb({"file": {"key": "inbox/a_\u202efdp.exe"}})])

    (letter,) = get(ask, groups=VIEWER, tenant=UNASSIGNED).body["dead_letters"]
    assert letter["file_name"] == "a_\N{REPLACEMENT CHARACTER}fdp.exe"


def test_retried_unassigned_upload_is_enqueued(
    failed_upload: Callable[[], UUID], change: Callable[..., Answer], admin: Connection
) -> None:
    assert change(failed_upload(), "retry").status == 200

    assert admin.execute("SELECT status, revision FROM acquisition_job").fetchall() == [("pending", 2)]
    assert admin.execute("SELECT worker, revision FROM outbox").fetchall() == [("acquisition", 2)]
