"""`/api/chat/sessions`: conversations, which only their user can see."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection
from counterfoil.settings import settings
from counterfoil.tasks.chat import MAX_TRANSCRIPT_BYTES
from tests.dead_letters.audit_trail import verified_changes
from tests.functions.admin_api.conftest import ApiResponse, CallApi
from tests.tasks.conftest import rows

PATH = "/api/chat/sessions"
OTHER = "another-user"


@pytest.fixture(autouse=True)
def acme(make_tenant: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch) -> UUID:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    return make_tenant("acme")


def send_message(
    call_api: CallApi, text: str, session: str | None = None, idempotency_key: str | None = None, **options: Any
) -> ApiResponse:
    payload = {"message": text} | ({} if session is None else {"session_id": session})
    task = {"task_type": "chat_completion", "payload": payload, "idempotency_key": idempotency_key}
    return call_api(task, path="/api/tasks", **options)


def get(call_api: CallApi, path: str = "", **options: Any) -> ApiResponse:
    return call_api("", method="GET", path=f"{PATH}{path}", **options)


def test_conversation_is_started_continued_and_read(call_api: CallApi) -> None:
    started = send_message(call_api, "Hello")
    session = started.body["job_id"]
    second = send_message(call_api, "Anybody there?", session)

    assert (started.status, second.status) == (202, 202)
    details = get(call_api, f"/{session}")
    assert (details.status, details.body["tenant"], details.body["next_cursor"]) == (200, "acme", None)
    assert [(item["number"], item["role"], item["content"], item["status"]) for item in details.body["messages"]] == [
        (1, "user", "Hello", "pending"),
        (2, "user", "Anybody there?", "pending"),
    ]
    assert [item["job_id"] for item in details.body["messages"]] == [session, second.body["job_id"]]
    listed = get(call_api).body
    assert [(item["session_id"], item["messages"], item["preview"]) for item in listed["sessions"]] == [
        (session, 2, "Hello")
    ]


def spend(admin: Connection, acme: UUID, chat_calls: int, days_ago: int = 0) -> None:
    """Set the number of LLM calls that conversations made on a day."""
    day = datetime.now(UTC).date() - timedelta(days=days_ago)
    values = [acme, day, chat_calls, chat_calls]
    admin.execute(
        "INSERT INTO llm_daily_usage (tenant_id, day, calls, chat_calls) VALUES (%s, %s, 0, %s) "
        "ON CONFLICT (tenant_id, day) DO UPDATE SET chat_calls = %s",
        values,
    )


def test_exhausted_daily_budget_rejects_messages(
    call_api: CallApi, acme: UUID, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_CALLS_PER_DAY", "2")
    settings.cache_clear()
    spend(admin, acme, 2, days_ago=1)
    spend(admin, acme, 1)
    started = send_message(call_api, "Hello", idempotency_key="1")
    assert started.status == 202

    spend(admin, acme, 2)
    rejections = [send_message(call_api, "Hello?", session) for session in (None, started.body["job_id"])]

    today, now = datetime.now(UTC).date(), datetime.now(UTC)
    midnight = datetime.combine(today + timedelta(days=1), time(), UTC)
    for response in rejections:
        assert (response.status, response.headers["Content-Type"]) == (429, "application/problem+json")
        assert response.body["detail"] == (
            "The language model was not called: today's call budget of 2 in conversations is used up "
            f"({today}, UTC). Send the message again after midnight UTC."
        )
        assert 0 <= int(response.headers["Retry-After"]) - (midnight - now).total_seconds() < 60
    repeated = send_message(call_api, "Hello", idempotency_key="1")
    assert (repeated.status, repeated.body["job_id"]) == (200, started.body["job_id"])
    assert [len(rows(admin, table)) for table in ("task", "chat_session", "chat_message", "outbox")] == [1] * 4
    assert (rows(admin, "dead_letter"), rows(admin, "failure_event")) == ([], [])
    assert call_api({"task_type": "echo", "payload": {}}, path="/api/tasks").status == 202


def test_zero_budget_rejects_messages(call_api: CallApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_CALLS_PER_DAY", "0")
    settings.cache_clear()

    assert send_message(call_api, "Hello").status == 429


def test_messages_and_conversations_are_paged(call_api: CallApi) -> None:
    session = send_message(call_api, "0").body["job_id"]
    for number in range(1, 5):
        send_message(call_api, str(number), session)

    first = get(call_api, f"/{session}", query={"limit": "3"}).body
    second_page = get(call_api, f"/{session}", query={"after": str(first["next_cursor"])}).body

    assert [item["content"] for item in first["messages"] + second_page["messages"]] == ["0", "1", "2", "3", "4"]
    assert (first["next_cursor"], second_page["next_cursor"]) == (3, None)
    pages = get(call_api, query={"limit": "1"}).body
    assert pages["next_cursor"] is None
    send_message(call_api, "Another one")
    pages = get(call_api, query={"limit": "1"}).body
    assert [item["session_id"] for item in get(call_api, query={"cursor": pages["next_cursor"]}).body["sessions"]] == [
        session
    ]


@pytest.fixture
def fill_conversation(admin: Connection) -> Callable[[str, str, int], None]:
    """`fill_conversation(session, text, count)` adds `count` messages with this text."""

    def add_messages(session: str, text: str, count: int) -> None:
        admin.execute(
            "INSERT INTO chat_message (tenant_id, session_id, number, role, content, job_id, tokens, created_at) "
            "SELECT tenant_id, id, n + 1, 'user', %s, gen_random_uuid(), 1, created_at "
            "FROM chat_session, generate_series(1, %s) AS n WHERE id = %s",
            [text, count, session],
        )
        admin.execute("UPDATE chat_session SET last_number = %s WHERE id = %s", [count + 1, session])

    return add_messages


@pytest.mark.parametrize("character", ["x", '"', "\x01", "é", "\u6587", "\U0001f600"])
def test_page_of_long_messages_fits_a_lambda_response(
    character: str, call_api: CallApi, fill_conversation: Callable[[str, str, int], None]
) -> None:
    session = send_message(call_api, "0").body["job_id"]
    fill_conversation(session, character * 100_000, 30)

    numbers: list[int] = []
    after: int | None = 0
    while after is not None:
        page = get(call_api, f"/{session}", query={"after": str(after)})
        assert len(page.text.encode()) < MAX_TRANSCRIPT_BYTES + 1000
        # Lambda encodes the body as JSON again, and some runtimes escape every non-ASCII character.
        assert len(json.dumps({"body": page.text})) < 6 * 1024 * 1024
        numbers += [item["number"] for item in page.body["messages"]]
        after = page.body["next_cursor"]

    assert numbers == list(range(1, 32))


def test_response_does_not_escape_unicode(call_api: CallApi) -> None:
    session = send_message(call_api, "Grüß Gott").body["job_id"]

    assert '"content":"Grüß Gott"' in get(call_api, f"/{session}").text


def test_single_oversized_message_is_returned(
    call_api: CallApi, fill_conversation: Callable[[str, str, int], None]
) -> None:
    session = send_message(call_api, "0").body["job_id"]
    fill_conversation(session, "\x01" * 400_000, 2)  # 2.4 MB each when escaped, longer than any model's reply

    numbers = [
        [item["number"] for item in get(call_api, f"/{session}", query={"after": after}).body["messages"]]
        for after in ("0", "1", "2", "3", "2147483647")
    ]
    assert numbers == [[1], [2], [3], [], []]


@pytest.mark.parametrize("groups", ["[operator tenant:acme]", "[admin tenant:acme]", "[admin tenant:*]"])
def test_conversation_of_another_user_is_not_found(groups: str, call_api: CallApi, admin: Connection) -> None:
    session = send_message(call_api, "My secret").body["job_id"]
    other_user = {"groups": groups, "subject": OTHER}

    unknown = get(call_api, f"/{uuid4()}", **other_user)
    listed = get(call_api, f"/{session}", **other_user)
    response = call_api(
        {
            "task_type": "chat_completion",
            "payload": {"message": "Let me in", "session_id": session},
            "tenant": "acme",
        },
        path="/api/tasks",
        **other_user,
    )

    assert (unknown.status, listed.status, response.status) == (404, 404, 404)
    assert listed.body == unknown.body == response.body
    assert get(call_api, query={"tenant": "acme"}, **other_user).body == {"sessions": [], "next_cursor": None}
    assert len(rows(admin, "task")) == len(rows(admin, "chat_message")) == 1


def test_other_tenants_operator_sees_no_conversation(call_api: CallApi, make_tenant: Callable[..., UUID]) -> None:
    make_tenant("other")
    session = send_message(call_api, "Ours").body["job_id"]

    assert get(call_api, f"/{session}", groups="[operator tenant:other]").status == 404
    assert get(call_api, groups="[operator tenant:other]").body["sessions"] == []
    assert get(call_api, groups="[operator tenant:other]", query={"tenant": "acme"}).status == 403
    assert send_message(call_api, "Theirs", session, groups="[operator tenant:other]").status == 404


def test_token_without_subject_sees_no_conversations(call_api: CallApi, admin: Connection) -> None:
    session = send_message(call_api, "Hello").body["job_id"]
    admin.execute("UPDATE chat_session SET user_id = NULL")  # as if created by the CLI

    assert get(call_api, f"/{session}", subject="").status == 404
    assert get(call_api, subject="").status == 403
    assert send_message(call_api, "Hello", session, subject="").status == 403
    assert send_message(call_api, "Hello", subject="").status == 403


def delete(call_api: CallApi, session: str, body: object = "", **options: Any) -> ApiResponse:
    return call_api(body, method="DELETE", path=f"{PATH}/{session}", **options)


def test_deleted_conversation_cancels_its_pending_task(call_api: CallApi, acme: UUID, admin: Connection) -> None:
    session = send_message(call_api, "Hello").body["job_id"]

    deleted = delete(call_api, session)

    assert (deleted.status, deleted.text) == (204, "")
    assert [get(call_api, f"/{session}").status, send_message(call_api, "Still there?", session).status] == [404, 404]
    assert get(call_api).body["sessions"] == []
    task = call_api("", method="GET", path=f"/api/tasks/{session}").body
    assert (task["status"], task["result"]) == ("canceled", None)
    assert delete(call_api, session).status == 404
    assert rows(admin, "chat_message") == []
    ((_, action, targets),) = verified_changes(admin, acme)
    assert (action, targets) == ("conversation deleted", [session])


@pytest.mark.parametrize(
    ("caller", "status"),
    [
        ({"groups": "[admin tenant:*]", "subject": OTHER}, 404),
        ({"groups": "[viewer tenant:acme]", "subject": OTHER}, 404),
        ({"groups": "[operator tenant:other]"}, 404),
        ({"subject": ""}, 404),
        ({"groups": "[viewer tenant:acme]"}, 403),
    ],
)
def test_deletion_requires_own_conversation_and_operator_role(
    caller: dict[str, str], status: int, call_api: CallApi, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("other")
    session = send_message(call_api, "Mine").body["job_id"]

    assert delete(call_api, session, **caller).status == status
    assert get(call_api, f"/{session}").body["messages"][0]["content"] == "Mine"


def test_delete_of_unknown_conversation_returns_404(call_api: CallApi) -> None:
    assert [delete(call_api, id_).status for id_ in ("7", "%00", str(uuid4()))] == [404, 404, 404]


@pytest.mark.parametrize("id_", ["7", "x" * 40, "%00"])
def test_invalid_conversation_id_returns_404(id_: str, call_api: CallApi) -> None:
    assert get(call_api, f"/{id_}").status == 404


@pytest.mark.parametrize(
    "query", [{"after": "-1"}, {"after": "9" * 30}, {"after": "x"}, {"limit": "0"}, {"limit": "1001"}, {"behind": "1"}]
)
def test_invalid_parameter_is_rejected(query: dict[str, str], call_api: CallApi) -> None:
    session = send_message(call_api, "Hello").body["job_id"]
    assert get(call_api, f"/{session}", query=query).status == 422


def test_chat_requires_a_language_model(call_api: CallApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_PROVIDER")
    settings.cache_clear()

    response = send_message(call_api, "Hello")
    assert (response.status, "LLM_PROVIDER is not set" in response.body["detail"]) == (422, True)


def test_empty_message_is_rejected_with_its_field(call_api: CallApi) -> None:
    response = send_message(call_api, " \t ")
    assert (response.status, "payload.message" in response.body["detail"]) == (422, True)
