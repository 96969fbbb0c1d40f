"""`/api/tasks`: task submission, lists, details and cancellation."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.errors import DatabaseUnavailableError
from counterfoil.settings import settings
from counterfoil.tasks.payloads import MAX_PAYLOAD_BYTES
from counterfoil.tasks.store import Task
from functions.admin_api import endpoint
from functions.admin_api.api import tasks
from functions.admin_api.auth import Caller
from functions.admin_api.http import MAX_BODY_BYTES
from tests.dead_letters.dead_letter_factory import dead_letter_factory
from tests.delivery.harness import FakeSqs
from tests.factories import NOW
from tests.functions.admin_api.conftest import ApiResponse, CallApi
from tests.tasks.conftest import FakeS3, rows

PATH = "/api/tasks"
ECHO = {"task_type": "echo", "payload": {"text": "hello"}}
ME, OTHER = "b1a2c3d4-0000-4000-8000-1234567890ab", "another-user"


@pytest.fixture(autouse=True)
def acme(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


def submit(call_api: CallApi, task_input: object = ECHO, **options: Any) -> ApiResponse:
    return call_api(task_input, path=PATH, **options)


def get(call_api: CallApi, path: str = "", **options: Any) -> ApiResponse:
    return call_api("", method="GET", path=f"{PATH}{path}", **options)


def cancel(call_api: CallApi, job_id: str, **options: Any) -> ApiResponse:
    return call_api("", path=f"{PATH}/{job_id}/cancel", **options)


# Submission


@pytest.mark.parametrize(
    "text",
    [
        "\ufffe",
        "\uffff",
        "\\\ufffe\\",
        "\U0001ffff",
        "\x01\x1f",
        "\x7f\x85",
        "\u2028",
        "\ue000",
        "\ufdd0",
        "\U0001f600",
    ],
)
def test_accepted_character_reaches_the_message(
    text: str, call_api: CallApi, queue: FakeSqs, admin: Connection
) -> None:
    task_input = {"task_type": "echo", "payload": {text: text, "many": text * 100}}
    responses = [submit(call_api, task_input), submit(call_api, json.dumps(task_input, ensure_ascii=False).encode())]

    assert [response.status for response in responses] == [202, 202]
    bodies = [json.loads(entry["MessageBody"]) for entry in queue.sent["counterfoil-tasks"]]
    assert [body["payload"] for body in bodies] == [task_input["payload"]] * 2
    assert [row["sent_at"] is not None for row in rows(admin, "outbox")] == [True, True]


@pytest.mark.parametrize("text", ["\x00", "\ud800", "a\ud800b", "\udc00\ud800"])
@pytest.mark.parametrize("field", ["task_type", "payload", "name", "idempotency_key", "tenant", "message", "session"])
def test_unstorable_character_is_rejected(
    text: str, field: str, call_api: CallApi, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    settings.cache_clear()
    chat = {"task_type": "chat_completion"}
    orders: dict[str, dict[str, Any]] = {
        "payload": {"payload": {"text": [text]}},
        "name": {"payload": {text: 1}},
        "message": chat | {"payload": {"message": f"Hello{text}"}},
        "session": chat | {"payload": {"message": "Hello", "session_id": text}},
    }
    task_input = ECHO | orders.get(field, {field: text})

    assert submit(call_api, task_input).status in {400, 422}
    assert submit(call_api, json.dumps(task_input, ensure_ascii=False).encode(errors="surrogatepass")).status in {
        400,
        422,
    }
    assert rows(admin, "task") == []


@pytest.mark.parametrize("text", ["\x00", "\ud800", "\ufffe", "\uffff"])
@pytest.mark.parametrize("name", ["tenant", "status", "task_type", "from", "cursor", "limit"])
def test_unusual_character_causes_no_server_error(text: str, name: str, call_api: CallApi) -> None:
    assert get(call_api, query={name: text}).status in {200, 403, 422}


@pytest.mark.parametrize("text", ["\x00", "\ud800"])
@pytest.mark.parametrize("claim", ["sub", "group"])
def test_token_with_unstorable_character_is_rejected(text: str, claim: str, call_api: CallApi) -> None:
    token = {"subject": f"me{text}"} if claim == "sub" else {"groups": f"[operator tenant:ac{text}me]"}
    responses = [
        submit(call_api, ECHO, **token),
        get(call_api, **token),
        get(call_api, f"/{uuid4()}", **token),
        *(
            call_api("", method="GET", path=f"/api/{path}", **token)
            for path in ("chat/sessions", f"chat/sessions/{uuid4()}", "admin/reviews", "admin/dlq")
        ),
    ]

    assert {response.status for response in responses} == {403}
    assert {response.body["detail"].split(":")[0] for response in responses} == {
        "The token's sub or groups contain U+0000 or a lone surrogate."
    }


def test_irrelevant_group_may_contain_any_character(call_api: CallApi) -> None:
    assert get(call_api, groups="[operator tenant:acme other\x00]").status == 200


def test_task_is_accepted_and_its_message_sent(call_api: CallApi, queue: FakeSqs, admin: Connection) -> None:
    response = submit(call_api, ECHO | {"max_retry": 2})

    assert response.status == 202
    assert response.body | {"status": "pending", "tenant": "acme", "attempts": 0, "user_id": ME} == response.body
    (row,) = rows(admin, "task")
    assert (str(row["id"]), row["task_type"], row["max_retry"]) == (response.body["job_id"], "echo", 2)
    (entry,) = queue.sent["counterfoil-tasks"]
    body = json.loads(entry["MessageBody"])
    assert (body["job_id"], body["payload"], body["metadata"]["max_retry"]) == (
        *(response.body["job_id"], ECHO["payload"], 2),
    )
    assert rows(admin, "outbox")[0]["sent_at"] is not None


def test_repeated_idempotency_key_returns_first_task(call_api: CallApi, queue: FakeSqs, admin: Connection) -> None:
    task_input = ECHO | {"idempotency_key": "k"}
    first = submit(call_api, task_input)
    admin.execute("UPDATE task SET status = 'succeeded', result = '{\"said\": 1}', ended_at = %s", [NOW])

    repeated = submit(call_api, task_input)

    assert (first.status, repeated.status) == (202, 200)
    assert (repeated.body["job_id"], repeated.body["status"], repeated.body["result"]) == (
        *(first.body["job_id"], "succeeded", {"said": 1}),
    )
    assert len(queue.sent["counterfoil-tasks"]) == 1


def test_generated_idempotency_key_is_returned_and_reusable(call_api: CallApi, queue: FakeSqs) -> None:
    first = submit(call_api, ECHO)

    repeated = submit(call_api, ECHO | {"idempotency_key": first.body["idempotency_key"]})

    assert (first.status, repeated.status, repeated.body["job_id"]) == (202, 200, first.body["job_id"])
    assert get(call_api, f"/{first.body['job_id']}").body["idempotency_key"] == first.body["idempotency_key"]


def test_idempotency_key_with_other_payload_or_user_conflicts(call_api: CallApi, admin: Connection) -> None:
    submit(call_api, ECHO | {"idempotency_key": "k"})

    assert submit(call_api, {"task_type": "echo", "payload": {}, "idempotency_key": "k"}).status == 409
    assert submit(call_api, ECHO | {"idempotency_key": "k"}, subject=OTHER).status == 409
    assert len(rows(admin, "task")) == 1


def test_unknown_type_is_rejected_with_known_types(call_api: CallApi) -> None:
    response = submit(call_api, ECHO | {"task_type": "mine_bitcoin"})

    assert (response.status, response.headers["Content-Type"]) == (422, "application/problem+json")
    assert response.body["detail"].startswith("There is no such task_type. Valid types: ")
    assert "echo" in response.body["detail"]
    assert (
        "http_request is not enabled here (HTTP_REQUEST_TASKS_ENABLED is not set)"
        in (submit(call_api, ECHO | {"task_type": "http_request"}).body["detail"])
    )


def test_forbidden_url_is_rejected_and_not_stored(
    call_api: CallApi, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_REQUEST_TASKS_ENABLED", "true")
    monkeypatch.setenv("HTTP_REQUEST_ALLOWLIST", '["10.0.0.7/32"]')
    settings.cache_clear()

    def submit_url(url: str) -> ApiResponse:
        return submit(call_api, {"task_type": "http_request", "payload": {"url": url}})

    for url in ("http://example.com/", "https://10.0.0.8/", "ftp://example.com/"):
        response = submit_url(url)
        assert (response.status, response.headers["Content-Type"]) == (422, "application/problem+json")
        assert "payload.url" in response.body["detail"]
    assert rows(admin, "task") == []
    assert [submit_url(url).status for url in ("https://example.com/", "http://10.0.0.7/")] == [202, 202]


@pytest.mark.parametrize(
    ("task_input", "status", "message"),
    [
        ({"task_type": "echo"}, 422, "invalid at payload"),
        ({"task_type": "", "payload": {}}, 422, "invalid at task_type"),
        (ECHO | {"payload": []}, 422, "invalid at payload"),
        (ECHO | {"max_retry": 21}, 422, "invalid at max_retry"),
        (ECHO | {"max_retry": -1}, 422, "invalid at max_retry"),
        (ECHO | {"max_retry": "5"}, 422, "invalid at max_retry"),
        (ECHO | {"max_retry": True}, 422, "invalid at max_retry"),
        (ECHO | {"max_retry": 10**30}, 422, "invalid at max_retry"),
        (ECHO | {"idempotency_key": ""}, 422, "invalid at idempotency_key"),
        (ECHO | {"idempotency_key": "a\nb"}, 422, "invalid at idempotency_key"),
        (ECHO | {"tenant": "Acme"}, 422, "invalid at tenant"),
        (ECHO | {"payload": {"hunter2": "\x00"}}, 422, "U+0000"),
        (ECHO | {"hunter2": 1}, 422, "invalid at a field"),
        (ECHO | {"payload": {"a": "x" * MAX_PAYLOAD_BYTES}}, 413, "the maximum is 262144 (256 KiB)"),
        (ECHO | {"payload": {"a": "x" * MAX_BODY_BYTES}}, 413, "the limit is 1048576 (1 MiB)"),
        ('{"task_type": "echo", "payload": {"a": NaN}}', 400, "must be a JSON object"),
        ('{"task_type": "echo", "payload": ' + '{"a":' * 1000 + "1" + "}" * 1000 + "}", 400, "must be a JSON object"),
        ('{"task_type": "echo", "payload": {"a": ' + "9" * 5000 + "}}", 400, "must be a JSON object"),
    ],
)
def test_invalid_task_is_rejected_with_a_reason(
    call_api: CallApi, admin: Connection, task_input: object, status: int, message: str
) -> None:
    response = submit(call_api, task_input)

    assert (response.status, message in response.body["detail"]) == (status, True), response.body
    assert "hunter2" not in response.body["detail"]
    assert rows(admin, "task") == []


@pytest.mark.parametrize("declared", ["text/xml", "multipart/form-data; boundary=x", "text/plain"])
def test_other_content_type_is_rejected(call_api: CallApi, declared: str) -> None:
    assert submit(call_api, headers={"content-type": declared}).status == 415


def test_default_content_type_of_curl_is_accepted(call_api: CallApi) -> None:
    assert submit(call_api, headers={"content-type": "application/x-www-form-urlencoded"}).status == 202


def test_large_payload_is_stored_outside_the_message(
    call_api: CallApi, queue: FakeSqs, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = FakeS3()
    monkeypatch.setattr(aws, "client", lambda service: {"sqs": queue, "s3": s3}[service])

    response = submit(call_api, ECHO | {"payload": {"a": "x" * (MAX_PAYLOAD_BYTES - len('{"a":""}'))}})

    assert response.status == 202
    (entry,) = queue.sent["counterfoil-tasks"]
    assert len(entry["MessageBody"]) < 1000
    assert len(s3.objects) == 1


@pytest.mark.parametrize(
    ("groups", "task_input", "status"),
    [
        ("[operator tenant:acme]", ECHO, 202),
        ("[operator tenant:acme]", ECHO | {"tenant": "acme"}, 202),
        ("[admin tenant:*]", ECHO | {"tenant": "acme"}, 202),
        ("[admin tenant:*]", ECHO | {"tenant": "missing"}, 404),
        ("[admin tenant:*]", ECHO, 422),
        ("[operator tenant:acme tenant:other]", ECHO, 422),
        ("[operator tenant:other]", ECHO | {"tenant": "acme"}, 403),
        ("[operator tenant:other]", ECHO, 404),
        ("[viewer tenant:acme]", ECHO, 403),
        ("[operator]", ECHO, 422),
        (None, ECHO | {"tenant": "acme"}, 403),
    ],
)
def test_submission_requires_operator_role_for_tenant(
    call_api: CallApi, groups: object, task_input: object, status: int
) -> None:
    assert submit(call_api, task_input, groups=groups).status == status


def test_task_is_accepted_while_sqs_is_unavailable(call_api: CallApi, queue: FakeSqs, admin: Connection) -> None:
    def unavailable(**_: object) -> None:
        raise DatabaseUnavailableError("away")

    queue.send_message_batch = unavailable  # type: ignore[method-assign,assignment]

    assert submit(call_api).status == 202
    assert rows(admin, "outbox")[0]["sent_at"] is None


# Lists and details


def test_only_latest_attempts_are_shown(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    job_id = submit(call_api).body["job_id"]
    admin.execute(
        "INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome, error) "
        "SELECT %(tenant)s, 'tasks', %(job)s, 1, n, at, at, 'deferred', repeat('\U0001f600', 2000) "
        "FROM generate_series(1, 1500) AS n, LATERAL (SELECT %(now)s + n * interval '1 s' AS at) t",
        {"tenant": acme, "job": job_id, "now": NOW},
    )
    admin.execute("UPDATE task SET result = to_jsonb(repeat('\x01', 40000))")

    response = get(call_api, f"/{job_id}")
    assert [item["attempt"] for item in response.body["timeline"]] == list(range(1301, 1501))
    assert len(json.dumps({"body": response.text})) < 6 * 1024 * 1024


def test_task_is_shown_with_result_and_attempts(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    job_id = submit(call_api).body["job_id"]
    admin.execute("UPDATE task SET status = 'succeeded', attempts = 2, result = '[1]', ended_at = %s", [NOW])
    for number, outcome in ((1, "retry"), (2, "succeeded")):
        admin.execute(
            """INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome,
                                         error)
               VALUES (%s, 'tasks', %s, 1, %s, %s, %s, %s, 'away')""",
            [acme, job_id, number, NOW, NOW, outcome],
        )

    response = get(call_api, f"/{job_id}")

    assert (response.status, response.body["status"], response.body["attempts"], response.body["result"]) == (
        *(200, "succeeded", 2, [1]),
    )
    assert [(item["attempt"], item["outcome"], item["error"]) for item in response.body["timeline"]] == [
        (1, "retry", "away"),
        (2, "succeeded", "away"),
    ]


def test_users_access_own_tasks_and_admins_all(call_api: CallApi, make_tenant: Callable[..., UUID]) -> None:
    make_tenant("other")
    job_id = submit(call_api).body["job_id"]

    assert get(call_api, f"/{job_id}", groups="[viewer tenant:acme]").status == 200
    assert get(call_api, f"/{job_id}", groups="[admin tenant:acme]", subject=OTHER).status == 200
    assert get(call_api, groups="[admin tenant:acme]", subject=OTHER).body["tasks"][0]["job_id"] == job_id
    assert get(call_api, groups="[operator tenant:acme]", subject=OTHER).body == {"tasks": [], "next_cursor": None}
    for groups in ("[operator tenant:acme]", "[admin tenant:other]", "[tenant:acme]"):
        assert get(call_api, f"/{job_id}", groups=groups, subject=OTHER).status == 404
        assert cancel(call_api, job_id, groups=groups, subject=OTHER).status == 404
    assert cancel(call_api, job_id, groups="[viewer tenant:acme]").status == 403
    assert cancel(call_api, job_id, groups="[admin tenant:acme]", subject=OTHER).status == 200


@pytest.mark.parametrize(
    ("task_type", "expected"), [("echo", {"a": 1}), ("chat_completion", None), ("taken-away", None)]
)
def test_chat_result_is_visible_only_to_its_user(task_type: str, expected: object) -> None:
    own, foreign = (
        Caller.from_claims({"sub": subject, "cognito:groups": "[admin tenant:acme]"}) for subject in ("caller", OTHER)
    )
    task = Task(uuid4(), "acme", task_type, "succeeded", 5, "k", "caller", NOW, 1, None, None, NOW, {"a": 1})

    assert tasks._visible_task(task, own).result == {"a": 1}
    assert tasks._visible_task(task, foreign).result == expected


def test_unknown_task_is_not_found(call_api: CallApi) -> None:
    for id_ in (str(uuid4()), "nonsense"):
        assert (get(call_api, f"/{id_}").status, cancel(call_api, id_).status) == (404, 404)


def test_pages_have_no_gaps(call_api: CallApi) -> None:
    job_ids = [submit(call_api).body["job_id"] for _ in range(5)]
    listed: list[str] = []
    query = {"limit": "2"}
    for _ in range(3):
        page = get(call_api, query=query).body
        listed += [item["job_id"] for item in page["tasks"]]
        query["cursor"] = page["next_cursor"]

    assert (listed, page["next_cursor"]) == (job_ids[::-1], None)


def test_task_list_is_filtered(call_api: CallApi, admin: Connection) -> None:
    first, second = submit(call_api).body, submit(call_api).body
    cancel(call_api, first["job_id"])
    admin.execute("UPDATE task SET created_at = created_at - interval '1 day' WHERE id = %s", [first["job_id"]])

    def filtered_ids(**query: str) -> list[str]:
        return [item["job_id"] for item in get(call_api, query=query).body["tasks"]]

    assert filtered_ids(status="canceled") == [first["job_id"]]
    assert filtered_ids(status="pending", task_type="echo") == [second["job_id"]]
    assert filtered_ids(task_type="chat_completion") == []
    assert filtered_ids(**{"from": second["created_at"].replace("+00:00", "Z")}) == [second["job_id"]]
    assert filtered_ids(to=second["created_at"].replace("+00:00", "Z")) == [first["job_id"]]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"status": "running"}, "status is invalid"),
        ({"limit": "101"}, "limit is invalid"),
        ({"from": "yesterday"}, "from is invalid"),
        ({"to": "2026-01-32"}, "to is invalid"),
        ({"cursor": "zzz"}, "cursor must be"),
        ({"user": "me"}, "Unknown query parameter: 'user'"),
    ],
)
def test_invalid_query_is_rejected(call_api: CallApi, query: dict[str, str], message: str) -> None:
    response = get(call_api, query=query)

    assert (response.status, message in response.body["detail"]) == (422, True), response.body


def test_failed_task_names_its_dead_letter(call_api: CallApi, acme: UUID, database: Database) -> None:
    failed_task, pending_task = (UUID(submit(call_api).body["job_id"]) for _ in range(2))
    job_id = dead_letter_factory(database, acme)(worker="tasks", work_id=failed_task)

    assert get(call_api, f"/{failed_task}").body["dead_letter"] == str(job_id)
    assert get(call_api, f"/{pending_task}").body["dead_letter"] is None


# Cancellation


def test_cancel_is_idempotent_and_rejected_after_failure(call_api: CallApi, admin: Connection) -> None:
    first, second = submit(call_api).body["job_id"], submit(call_api).body["job_id"]
    admin.execute("UPDATE task SET status = 'failed', failed_at = now() WHERE id = %s", [second])

    assert [cancel(call_api, first).body["status"] for _ in range(2)] == ["canceled", "canceled"]
    response = cancel(call_api, second)
    assert (response.status, response.body["detail"]) == (409, "The task has already failed.")


# General


def test_openapi_description_references_every_schema(call_api: CallApi) -> None:
    response = call_api("", method="GET", path="/api/openapi.json", groups=None)

    assert (response.status, response.body["openapi"]) == (200, "3.1.0")
    text = json.dumps(response.body)
    for name in set(response.body["components"]["schemas"]):
        assert f"#/components/schemas/{name}" in text
    assert "HTTPValidationError" not in text
    assert set(response.body["paths"][PATH]) == {"get", "post"}


def test_unavailable_database_returns_retry_after(call_api: CallApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.db.CONNECT_SECONDS", 0.2)
    unavailable = Database("postgresql://nobody@127.0.0.1:1/nowhere", max_connections=1)
    monkeypatch.setattr(endpoint, "database", lambda: unavailable)

    response = submit(call_api)
    unavailable.close()
    monkeypatch.undo()

    assert (response.status, response.headers["Retry-After"]) == (503, "5")
    assert "nowhere" not in response.body["detail"]


def test_invalid_response_is_an_internal_error(call_api: CallApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "TaskPage", lambda **_: {"tasks": "secret"})

    response = get(call_api)

    assert (response.status, response.body["detail"]) == (500, "Internal error.")
