"""`/api/chat/sessions`: conversations, which only their user can see."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection
from counterfoil.settings import settings
from counterfoil.tasks.chat import MAX_BYTES
from tests.dead_letters.audit_trail import verified_changes
from tests.functions.admin_api.conftest import Answer, Ask
from tests.tasks.conftest import rows

PATH = "/api/chat/sessions"
OTHER = "somebody-else"


@pytest.fixture(autouse=True)
def acme(make_tenant: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch) -> UUID:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    return make_tenant("acme")


def say(ask: Ask, text: str, session: str | None = None, idempotency_key: str | None = None, **options: Any) -> Answer:
    payload = {"message": text} | ({} if session is None else {"session_id": session})
    task = {"task_type": "chat_completion", "payload": payload, "idempotency_key": idempotency_key}
    return ask(task, path="/api/tasks", **options)


def get(ask: Ask, path: str = "", **options: Any) -> Answer:
    return ask("", method="GET", path=f"{PATH}{path}", **options)


def test_conversation_is_started_continued_and_read(ask: Ask) -> None:
    begun = say(ask, "Hello")
    session = begun.body["job_id"]
    second = say(ask, "Anybody there?", session)

    assert (begun.status, second.status) == (202, 202)
    shown = get(ask, f"/{session}")
    assert (shown.status, shown.body["tenant"], shown.body["next_cursor"]) == (200, "acme", None)
    assert [(item["number"], item["role"], item["content"], item["status"]) for item in shown.body["messages"]] == [
        (1, "user", "Hello", "pending"),
        (2, "user", "Anybody there?", "pending"),
    ]
    assert [item["job_id"] for item in shown.body["messages"]] == [session, second.body["job_id"]]
    listed = get(ask).body
    assert [(item["session_id"], item["messages"], item["begins"]) for item in listed["sessions"]] == [
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
    ask: Ask, acme: UUID, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_CALLS_PER_DAY", "2")
    settings.cache_clear()
    spend(admin, acme, 2, days_ago=1)
    spend(admin, acme, 1)
    begun = say(ask, "Hello", idempotency_key="1")
    assert begun.status == 202

    spend(admin, acme, 2)
    refused = [say(ask, "Hello?", session) for session in (None, begun.body["job_id"])]

    today, now = datetime.now(UTC).date(), datetime.now(UTC)
    midnight = datetime.combine(today + timedelta(days=1), time(), UTC)
    for answer in refused:
        assert (answer.status, answer.headers["Content-Type"]) == (429, "application/problem+json")
        assert answer.body["detail"] == (
            "The language model was not asked: today's budget of 2 questions in conversations is used up "
            f"({today}, UTC). Send the message again after midnight UTC."
        )
        assert 0 <= int(answer.headers["Retry-After"]) - (midnight - now).total_seconds() < 60
    again = say(ask, "Hello", idempotency_key="1")
    assert (again.status, again.body["job_id"]) == (200, begun.body["job_id"])
    assert [len(rows(admin, table)) for table in ("task", "chat_session", "chat_message", "outbox")] == [1] * 4
    assert (rows(admin, "dead_letter"), rows(admin, "failure_event")) == ([], [])
    assert ask({"task_type": "echo", "payload": {}}, path="/api/tasks").status == 202


def test_zero_budget_rejects_messages(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_CALLS_PER_DAY", "0")
    settings.cache_clear()

    assert say(ask, "Hello").status == 429


def test_long_conversation_is_paged(ask: Ask) -> None:
    session = say(ask, "0").body["job_id"]
    for number in range(1, 5):
        say(ask, str(number), session)

    first = get(ask, f"/{session}", query={"limit": "3"}).body
    rest = get(ask, f"/{session}", query={"after": str(first["next_cursor"])}).body

    assert [item["content"] for item in first["messages"] + rest["messages"]] == ["0", "1", "2", "3", "4"]
    assert (first["next_cursor"], rest["next_cursor"]) == (3, None)
    pages = get(ask, query={"limit": "1"}).body
    assert pages["next_cursor"] is None
    say(ask, "Another one")
    pages = get(ask, query={"limit": "1"}).body
    assert [item["session_id"] for item in get(ask, query={"cursor": pages["next_cursor"]}).body["sessions"]] == [
        session
    ]


@pytest.fixture
def fill(admin: Connection) -> Callable[[str, str, int], None]:
    """`fill(session, text, count)` adds `count` messages with this text."""

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
    character: str, ask: Ask, fill: Callable[[str, str, int], None]
) -> None:
    session = say(ask, "0").body["job_id"]
    fill(session, character * 100_000, 30)

    seen: list[int] = []
    after: int | None = 0
    while after is not None:
        page = get(ask, f"/{session}", query={"after": str(after)})
        assert len(page.text.encode()) < MAX_BYTES + 1000
        # Lambda encodes the body as JSON again, and some runtimes escape every character.
        assert len(json.dumps({"body": page.text})) < 6 * 1024 * 1024
        seen += [item["number"] for item in page.body["messages"]]
        after = page.body["next_cursor"]

    assert seen == list(range(1, 32))


def test_response_does_not_escape_unicode(ask: Ask) -> None:
    session = say(ask, "Grüß Gott").body["job_id"]

    assert '"content":"Grüß Gott"' in get(ask, f"/{session}").text


def test_single_oversized_message_is_returned(ask: Ask, fill: Callable[[str, str, int], None]) -> None:
    session = say(ask, "0").body["job_id"]
    fill(session, "\x01" * 400_000, 2)  # 2.4 MB each, more than any reply of a model

    numbers = [
        [item["number"] for item in get(ask, f"/{session}", query={"after": after}).body["messages"]]
        for after in ("0", "1", "2", "3", "2147483647")
    ]
    assert numbers == [[1], [2], [3], [], []]


@pytest.mark.parametrize("groups", ["[operator tenant:acme]", "[admin tenant:acme]", "[admin tenant:*]"])
def test_conversation_of_another_user_is_not_found(groups: str, ask: Ask, admin: Connection) -> None:
    session = say(ask, "My secret").body["job_id"]
    stranger = {"groups": groups, "subject": OTHER}

    unknown = get(ask, f"/{uuid4()}", **stranger)
    seen = get(ask, f"/{session}", **stranger)
    refused = ask(
        {
            "task_type": "chat_completion",
            "payload": {"message": "Let me in", "session_id": session},
            "tenant": "acme",
        },
        path="/api/tasks",
        **stranger,
    )

    assert (unknown.status, seen.status, refused.status) == (404, 404, 404)
    assert seen.body == unknown.body == refused.body
    assert get(ask, query={"tenant": "acme"}, **stranger).body == {"sessions": [], "next_cursor": None}
    assert len(rows(admin, "task")) == len(rows(admin, "chat_message")) == 1


def test_operator_of_another_tenant_sees_no_conversation(ask: Ask, make_tenant: Callable[..., UUID]) -> None:
    make_tenant("other")
    session = say(ask, "Ours").body["job_id"]

    assert get(ask, f"/{session}", groups="[operator tenant:other]").status == 404
    assert get(ask, groups="[operator tenant:other]").body["sessions"] == []
    assert get(ask, groups="[operator tenant:other]", query={"tenant": "acme"}).status == 403
    assert say(ask, "Theirs", session, groups="[operator tenant:other]").status == 404


def test_token_without_subject_sees_no_conversations(ask: Ask, admin: Connection) -> None:
    session = say(ask, "Hello").body["job_id"]
    admin.execute("UPDATE chat_session SET user_id = NULL")  # created by the CLI

    assert get(ask, f"/{session}", subject="").status == 404
    assert get(ask, subject="").status == 403
    assert say(ask, "Hello", session, subject="").status == 403
    assert say(ask, "Hello", subject="").status == 403


def delete(ask: Ask, session: str, body: object = "", **options: Any) -> Answer:
    return ask(body, method="DELETE", path=f"{PATH}/{session}", **options)


def test_deleted_conversation_cancels_its_pending_task(ask: Ask, acme: UUID, admin: Connection) -> None:
    session = say(ask, "Hello").body["job_id"]

    gone = delete(ask, session)

    assert (gone.status, gone.text) == (204, "")
    assert [get(ask, f"/{session}").status, say(ask, "Still there?", session).status] == [404, 404]
    assert get(ask).body["sessions"] == []
    task = ask("", method="GET", path=f"/api/tasks/{session}").body
    assert (task["status"], task["result"]) == ("canceled", None)
    assert delete(ask, session).status == 404
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
def test_conversation_is_deleted_only_by_its_user(
    caller: dict[str, str], status: int, ask: Ask, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("other")
    session = say(ask, "Mine").body["job_id"]

    assert delete(ask, session, **caller).status == status
    assert get(ask, f"/{session}").body["messages"][0]["content"] == "Mine"


def test_delete_of_unknown_conversation_returns_404(ask: Ask) -> None:
    assert [delete(ask, id_).status for id_ in ("7", "%00", str(uuid4()))] == [404, 404, 404]


@pytest.mark.parametrize("id_", ["7", "x" * 40, "%00"])
def test_invalid_conversation_id_returns_404(id_: str, ask: Ask) -> None:
    assert get(ask, f"/{id_}").status == 404


@pytest.mark.parametrize(
    "query", [{"after": "-1"}, {"after": "9" * 30}, {"after": "x"}, {"limit": "0"}, {"limit": "1001"}, {"behind": "1"}]
)
def test_invalid_parameter_is_rejected(query: dict[str, str], ask: Ask) -> None:
    session = say(ask, "Hello").body["job_id"]
    assert get(ask, f"/{session}", query=query).status == 422


def test_chat_requires_a_language_model(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_PROVIDER")
    settings.cache_clear()

    refused = say(ask, "Hello")
    assert (refused.status, "LLM_PROVIDER is not set" in refused.body["detail"]) == (422, True)


def test_empty_message_is_rejected_with_its_field(ask: Ask) -> None:
    refused = say(ask, " \t ")
    assert (refused.status, "payload.message" in refused.body["detail"]) == (422, True)
