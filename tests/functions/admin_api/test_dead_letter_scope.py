"""Unassigned dead letters (tenant `-`), for callers with access to all tenants."""

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
from tests.functions.admin_api.conftest import ApiResponse, CallApi
from tests.functions.admin_api.dead_letter_requests import PATH, get, ids, listed_ids

VIEWER, OPERATOR, ADMIN = (f"[{role} tenant:*]" for role in ("viewer", "operator", "admin"))
OTHERS = ("[admin tenant:acme]", "[admin tenant:-]", "[admin tenant:acme tenant:-]", "[admin]", "[tenant:*]")
BODY = '{"work_id": 7, "password": "hunter2-hunter2"}'
IF_MATCH = {"if-match": '"1"'}
ACTION_BODIES: dict[str, dict[str, str]] = {
    "retry": {},
    "resolve": {"notes": "The sender has fixed it"},
    "ignore": {"reason": "A trial"},
}


@pytest.fixture
def add_unassigned(database: Database) -> Callable[..., UUID]:
    """`add_unassigned(...)` returns the job id of a new unassigned dead letter.

    Its message is unreadable.
    """

    def add_unassigned(error: str = "The message is not a task", encoding: str = "text") -> UUID:
        dead_letter = DeadLetter(
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
            write_dead_letter(connection, dead_letter, NOON)
        return dead_letter.job_id

    return add_unassigned


@pytest.fixture
def change(call_api: CallApi) -> Callable[..., ApiResponse]:
    def change(job_id: UUID, action: str, groups: str = OPERATOR, **options: Any) -> ApiResponse:
        return call_api(
            ACTION_BODIES[action], path=f"{PATH}/{job_id}/{action}", groups=groups, **{"headers": IF_MATCH, **options}
        )

    return change


def test_unassigned_list_excludes_assigned_dead_letters(
    call_api: CallApi, add_dead_letter: MakeDeadLetter, add_unassigned: Callable[..., UUID]
) -> None:
    assigned, unassigned = add_dead_letter("The message is not a task"), add_unassigned()

    assert listed_ids(get(call_api, groups=VIEWER, tenant=UNASSIGNED)) == ids([unassigned])
    assert listed_ids(get(call_api, groups=VIEWER, tenant="acme")) == ids([assigned])
    (dead_letter,) = get(call_api, groups=VIEWER, tenant=UNASSIGNED).body["dead_letters"]
    assert (dead_letter["tenant"], dead_letter["work_id"], dead_letter["revision"]) == (UNASSIGNED, None, None)


def test_unassigned_are_searched_counted_and_grouped(
    call_api: CallApi, add_dead_letter: MakeDeadLetter, add_unassigned: Callable[..., UUID]
) -> None:
    add_dead_letter("The message 4711 is not a task")
    first, second = add_unassigned("The message 4711 is not a task"), add_unassigned("The disk is full")

    def list_unassigned(path: str = "", **query: str) -> ApiResponse:
        return get(call_api, path, groups=VIEWER, tenant=UNASSIGNED, **query)

    for text in ("4711", "message task", "4711 message", str(first)):
        assert listed_ids(list_unassigned(search=text)) == ids([first]), text
    assert set(listed_ids(list_unassigned(task_type="tasks", from_date="2026-03-02T12:00:00Z"))) == set(
        ids([first, second])
    )
    assert listed_ids(list_unassigned(status="resolved")) == []
    assert (list_unassigned("/stats").body["tenant"], list_unassigned("/stats").body["count"]) == (UNASSIGNED, 2)
    groups = list_unassigned("/groups").body["groups"]
    assert sorted((group["count"], sum(group["trend"])) for group in groups) == [(1, 0), (1, 0)]
    fingerprint = get(call_api, f"/{first}", groups=VIEWER).body["fingerprint"]
    assert listed_ids(list_unassigned(fingerprint=fingerprint)) == ids([first])
    page = list_unassigned(limit="1")
    assert listed_ids(page) + listed_ids(list_unassigned(cursor=page.body["next_cursor"])) == sorted(
        ids([first, second]), reverse=True
    )


def test_unassigned_body_is_hidden_below_admin(call_api: CallApi, add_unassigned: Callable[..., UUID]) -> None:
    unassigned = add_unassigned()

    assert get(call_api, f"/{unassigned}", groups=ADMIN).body["payload"]["body"] == BODY
    details = get(call_api, f"/{unassigned}", groups=VIEWER)
    assert (details.body["tenant"], details.body["redacted_paths"]) == (UNASSIGNED, ["/payload/body"])
    assert "hunter2" not in details.text
    (event,) = get(call_api, f"/{unassigned}/timeline", groups=VIEWER).body["events"]
    assert (event["kind"], event["actor"]) == ("dead_lettered", "tasks")


@pytest.mark.parametrize("groups", OTHERS)
def test_unassigned_are_hidden_without_all_tenants(
    groups: str,
    call_api: CallApi,
    acme: UUID,
    add_unassigned: Callable[..., UUID],
    change: Callable[..., ApiResponse],
    admin: Connection,
) -> None:
    unassigned, unknown_id = add_unassigned(), uuid4()

    for path in ("", "/stats", "/groups", "/audit"):
        assert get(call_api, path, groups=groups, tenant=UNASSIGNED).status == 403
    for path in ("", "/timeline", "/payload"):
        responses = [get(call_api, f"/{job_id}{path}", groups=groups) for job_id in (unassigned, unknown_id)]
        assert [(response.status, response.text) for response in responses] == [(404, responses[0].text)] * 2
    for action in ACTION_BODIES:
        responses = [change(job_id, action, groups) for job_id in (unassigned, unknown_id)]
        assert [(response.status, response.text) for response in responses] == [(404, responses[0].text)] * 2
    assert admin.execute("SELECT status, version FROM dead_letter").fetchall() == [("pending", 1)]


def test_group_named_like_unassigned_grants_nothing() -> None:
    for groups in OTHERS:
        caller = Caller.from_claims({"sub": "kim", "cognito:groups": groups})
        assert not caller.has_role(Role.VIEWER, UNASSIGNED)
    assert Caller.from_claims({"sub": "kim", "cognito:groups": VIEWER}).has_role(Role.VIEWER, UNASSIGNED)


def test_retried_message_is_sent_unchanged(
    add_unassigned: Callable[..., UUID], change: Callable[..., ApiResponse], queue: FakeSqs, admin: Connection
) -> None:
    unassigned = add_unassigned()

    response = change(unassigned, "retry")

    assert (response.status, response.headers["ETag"]) == (200, '"2"')
    assert response.body == {"job_id": str(unassigned), "tenant": UNASSIGNED, "status": "retried", "version": 2}
    assert [entry["MessageBody"] for entry in queue.sent["counterfoil-tasks"]] == [BODY]


def test_unassigned_changes_have_their_own_audit_chain(
    call_api: CallApi,
    add_dead_letter: MakeDeadLetter,
    add_unassigned: Callable[..., UUID],
    change: Callable[..., ApiResponse],
    database: Database,
) -> None:
    assigned = add_dead_letter()
    assert change(assigned, "ignore").status == 200
    for action in ACTION_BODIES:
        assert change(add_unassigned(), action).status == 200

    entries = get(call_api, "/audit", groups=VIEWER, tenant=UNASSIGNED).body["entries"]
    assert [entry["action"] for entry in entries] == ["ignored", "resolved", "retried"]
    assert [entry["number"] for entry in entries] == [3, 2, 1]
    assert len(get(call_api, "/audit", groups=VIEWER, tenant="acme").body["entries"]) == 1
    with database.delivery() as connection:
        assert first_broken_entry(connection, None) is None


@pytest.mark.parametrize("action", ACTION_BODIES)
def test_unassigned_is_closed_once_at_its_version(
    action: str, add_unassigned: Callable[..., UUID], change: Callable[..., ApiResponse], admin: Connection
) -> None:
    unassigned = add_unassigned()

    assert change(unassigned, action, VIEWER).status == 403
    assert change(unassigned, action, headers={"if-match": '"2"'}).status == 412
    assert change(unassigned, action, subject="").status == 403
    assert admin.execute("SELECT status, version FROM dead_letter").fetchall() == [("pending", 1)]
    assert change(unassigned, action).status == 200
    assert change(unassigned, action, headers={"if-match": '"2"'}).status == 409


def test_binary_message_cannot_be_retried(
    add_unassigned: Callable[..., UUID], change: Callable[..., ApiResponse]
) -> None:
    assert change(add_unassigned(encoding="hex"), "retry").status == 409


def test_unassigned_have_no_editable_payload(call_api: CallApi, add_unassigned: Callable[..., UUID]) -> None:
    path = f"{PATH}/{add_unassigned()}/payload"

    for method, body in (("GET", ""), ("PATCH", {"payload": {}})):
        assert call_api(body, method=method, path=path, groups=ADMIN, headers=IF_MATCH).status == 409
        assert call_api(body, method=method, path=path, groups=OPERATOR, headers=IF_MATCH).status == 403


def test_unassigned_is_rejected_as_tenant_elsewhere(call_api: CallApi) -> None:
    for path in (
        "/api/tasks",
        "/api/chat/sessions",
        "/api/admin/reviews",
        "/api/admin/operations",
        "/api/admin/queues",
    ):
        assert call_api("", method="GET", path=path, groups=ADMIN, query={"tenant": UNASSIGNED}).status == 422, path
    assert call_api({"tenant": UNASSIGNED, "file_name": "a.pdf"}, groups=ADMIN).status == 422


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", "/export", {"format": "csv"}),
        ("DELETE", "/purge", {"before_date": "2026-04-01T00:00:00Z", "status": "ignored", "confirm": UNASSIGNED}),
    ],
)
def test_unassigned_cannot_be_exported_or_purged(
    method: str,
    path: str,
    query: dict[str, str],
    call_api: CallApi,
    add_unassigned: Callable[..., UUID],
    admin: Connection,
) -> None:
    add_unassigned()

    response = call_api("", method=method, path=PATH + path, groups=ADMIN, query={"tenant": UNASSIGNED, **query})

    assert (response.status, response.body["detail"]) == (
        422,
        "The parameter tenant is invalid: '-' means unassigned dead letters, which must be retried, resolved or "
        "ignored one at a time.",
    )
    assert admin.execute("SELECT purged_at FROM dead_letter").fetchall() == [(None,)]


@pytest.mark.parametrize("action", ACTION_BODIES)
def test_unassigned_cannot_be_closed_in_bulk(
    action: str,
    call_api: CallApi,
    add_dead_letter: MakeDeadLetter,
    add_unassigned: Callable[..., UUID],
    admin: Connection,
) -> None:
    unassigned, assigned = add_unassigned(), add_dead_letter()

    def bulk(groups: str = OPERATOR, **selection: object) -> tuple[int, str]:
        response = call_api({**selection, **ACTION_BODIES[action]}, path=f"{PATH}/bulk-{action}", groups=groups)
        return response.status, response.body.get("detail")

    reason = "must be retried, resolved or ignored one at a time."
    assert bulk(filter={"tenant": UNASSIGNED}) == (
        422,
        f"The body is invalid at filter.tenant: '-' means unassigned dead letters, which {reason}",
    )
    assert bulk(job_ids=[str(unassigned)]) == (422, f"Unassigned dead letters {reason}")
    assert bulk(job_ids=[str(unassigned), str(assigned)]) == (
        422,
        "The dead letters belong to several tenants. Send one request per tenant.",
    )
    assert bulk("[operator tenant:acme]", job_ids=[str(unassigned)]) == (404, "There are no such dead letters.")
    assert admin.execute("SELECT count(*) FROM operation").fetchone() == (0,)
    assert bulk("[operator tenant:acme]", job_ids=[str(unassigned), str(assigned)])[0] == 202


@pytest.fixture
def failed_upload(database: Database, admin: Connection) -> Callable[[], UUID]:
    """`failed_upload()` creates a failed upload and returns its dead letter's id.

    The upload is unassigned.
    """

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
        dead_letter = DeadLetter(
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
            write_dead_letter(connection, dead_letter, NOON)
        return dead_letter.job_id

    return fail


JOB_ROUTES = [
    (method, path)
    for path, operations in build_openapi(handler.api)["paths"].items()
    if path.startswith(f"{PATH}/{{job_id}}")
    for method in operations
]


def test_unassigned_upload_shows_its_attempts(call_api: CallApi, failed_upload: Callable[[], UUID]) -> None:
    job_id = failed_upload()

    assert get(call_api, f"/{job_id}", groups=VIEWER).body["payload"]["file"]["file_name"] == "invoice.pdf"
    events = get(call_api, f"/{job_id}/timeline", groups=VIEWER).body["events"]
    assert [event["kind"] for event in events] == ["attempt", "dead_lettered"]
    assert {event["error"]["message"] for event in events} == {"Timed out"}


@pytest.mark.parametrize("kind", ["unparsable message", "failed upload"])
@pytest.mark.parametrize(("method", "path"), JOB_ROUTES)
def test_every_route_handles_unassigned_dead_letters(
    method: str,
    path: str,
    kind: str,
    call_api: CallApi,
    add_unassigned: Callable[..., UUID],
    failed_upload: Callable[[], UUID],
) -> None:
    job_id = failed_upload() if kind == "failed upload" else add_unassigned()
    action = path.rpartition("/")[2]
    body = {**ACTION_BODIES, "payload": {"payload": {}}}.get(action, {}) if method != "get" else ""

    response = call_api(body, method=method.upper(), path=path.format(job_id=job_id), groups=ADMIN, headers=IF_MATCH)

    expected = 409 if action == "payload" else 200  # only task payloads can be edited
    assert response.status == expected, response.body


def test_deceptive_file_name_is_neutralized(
    call_api: CallApi, failed_upload: Callable[[], UUID], admin: Connection
) -> None:
    failed_upload()
    admin.execute("UPDATE dead_letter SET payload = %s", [Jsonb({"file": {"key": "inbox/a_\u202efdp.exe"}})])

    (dead_letter,) = get(call_api, groups=VIEWER, tenant=UNASSIGNED).body["dead_letters"]
    assert dead_letter["file_name"] == "a_\N{REPLACEMENT CHARACTER}fdp.exe"


def test_retried_unassigned_upload_is_enqueued(
    failed_upload: Callable[[], UUID], change: Callable[..., ApiResponse], admin: Connection
) -> None:
    assert change(failed_upload(), "retry").status == 200

    assert admin.execute("SELECT status, revision FROM acquisition_job").fetchall() == [("pending", 2)]
    assert admin.execute("SELECT worker, revision FROM outbox").fetchall() == [("acquisition", 2)]
