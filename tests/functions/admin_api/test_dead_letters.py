"""`/api/admin/dlq`: lists, details, timelines and permissions of dead letters."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.delivery.dead_letter import audit
from functions.admin_api.api.dead_letters import DEEPEST, LAST_DEATHS, LAST_EVENTS
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter, dead_letter_factory
from tests.functions.admin_api.conftest import Answer, Ask
from tests.functions.admin_api.letters import ADMIN, PATH, VIEWER, get, ids, listed_ids

SECRET = "hunter2-hunter2"


# Lists


def test_list_is_newest_first_with_key_facts(ask: Ask, die: MakeDeadLetter) -> None:
    first, second = die("Reading timed out after 30 s", task_type="echo"), die("The disk is full", minute=1)

    answer = get(ask)

    assert listed_ids(answer) == ids([second, first])
    assert answer.body["next_cursor"] is None
    letter = answer.body["dead_letters"][1]
    assert (
        letter
        | {
            "tenant": "acme",
            "worker": "ingestion",
            "task_type": "echo",
            "revision": 1,
            "attempts": 3,
            "dlq_reason": "max_retries_exceeded",
            "dlq_timestamp": "2026-03-02T12:00:00Z",
            "status": "pending",
            "resolution": None,
            "resolved_at": None,
            "resolved_by": None,
            "version": 1,
            "redacted_paths": [],
        }
        == letter
    )
    assert (letter["metadata"]["retry_count"], letter["metadata"]["max_retry"]) == (2, 2)
    assert letter["metadata"]["last_error"] == {
        "type": "TimeoutError",
        "code": None,
        "message": "Reading timed out after 30 s",
        "timestamp": "2026-03-02T12:00:00Z",
        "context": {"worker": "ingestion", "attempt": 3},
    }
    assert not letter.keys() & {"payload", "previous_failures"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [3, 2, 1, 0]),
        ({"status": "pending"}, [3, 2]),
        ({"status": "resolved,ignored"}, [1, 0]),
        ({"status": "ignored,ignored"}, [1]),
        ({"task_type": "echo"}, [2]),
        ({"from_date": "2026-03-02T12:02:00Z"}, [3, 2]),
        ({"to_date": "2026-03-02T13:01:00+01:00"}, [0]),
        ({"from_date": "2026-03-02T12:01:00Z", "to_date": "2026-03-02T12:03:00Z"}, [2, 1]),
        ({"from_date": "2026-03-02T12:01:00", "to_date": "2026-03-02 12:02"}, [1]),
        ({"from_date": "2026-03-02", "to_date": "2026-03-03"}, [3, 2, 1, 0]),
        ({"to_date": "2026-03-02"}, []),
        ({"text": "order"}, [3]),
        ({"text": "TIMED out, page"}, [2, 1, 0]),
        ({"text": "timed out", "status": "pending"}, [2]),
        ({"text": "nothing of this"}, []),
        ({"text": "!"}, []),
    ],
)
def test_list_is_filtered(
    query: dict[str, str], expected: list[int], ask: Ask, die: MakeDeadLetter, set_status: Callable[[UUID, str], None]
) -> None:
    dead_letters = [
        die(f"Page {number} timed out", minute=number, task_type="echo" if number == 2 else None) for number in range(3)
    ]
    dead_letters.append(die("The disk is full", minute=3, file_name="order.pdf"))
    set_status(dead_letters[0], "resolved")
    set_status(dead_letters[1], "ignored")

    assert listed_ids(get(ask, **query)) == ids([dead_letters[number] for number in expected])


def test_search_finds_job_id_work_id_and_fingerprint(ask: Ask, die: MakeDeadLetter) -> None:
    work_id = uuid4()
    job_id, alike = die("Page 1 timed out", work_id=work_id), die("Page 2 timed out", minute=1)
    die("The disk is full")

    assert listed_ids(get(ask, text=str(job_id))) == listed_ids(get(ask, text=str(work_id))) == ids([job_id])
    fingerprint = get(ask, f"/{job_id}").body["fingerprint"]
    assert listed_ids(get(ask, fingerprint=fingerprint)) == ids([alike, job_id])
    assert listed_ids(get(ask, fingerprint=fingerprint, text="1")) == ids([job_id])


@pytest.mark.parametrize(
    "query",
    [
        {"status": "dead"},
        {"status": ""},
        {"status": "pending,"},
        {"status": "PENDING"},
        {"task_type": "a\nb"},
        {"task_type": "x" * 101},
        {"from_date": "yesterday"},
        {"from_date": "1767225600"},
        {"from_date": "20260131"},
        {"to_date": "2026-02-30"},
        {"text": ""},
        {"text": "x" * 201},
        {"text": "a\x00b"},
        {"fingerprint": "0123"},
        {"fingerprint": "' OR true; --    "},
        {"tenant": "Acme"},
        {"page": "0"},
        {"page": "-1"},
        {"page": "1e3"},
        {"page": str(DEEPEST + 1)},
        {"page": "101", "limit": "100"},
        {"page": "2", "text": "timed"},
        {"page": "2", "cursor": "MjAyNi0wMy0wMlQxMjowMDowMCswMDowMHwwMDAwMDAwMC0wMDAwLTAwMDAtMDAwMC0wMDAwMDAwMDAwMDA="},
        {"limit": "0"},
        {"limit": "101"},
        {"cursor": "nonsense"},
        {"cursor": "\ud800"},
        {"state": "pending"},
    ],
)
def test_invalid_parameter_is_rejected(query: dict[str, str], ask: Ask, die: MakeDeadLetter) -> None:
    die()
    refused = get(ask, **query)
    assert (refused.status, refused.headers["Content-Type"]) == (422, "application/problem+json")


@pytest.mark.parametrize("text", ["\x00", "\ud800", "\ufffe", "\U0001f600", "a,b", "%", "'"])
@pytest.mark.parametrize(
    "name", ["tenant", "status", "task_type", "from_date", "text", "fingerprint", "page", "cursor"]
)
def test_unusual_character_causes_no_server_error(text: str, name: str, ask: Ask, die: MakeDeadLetter) -> None:
    die()
    assert get(ask, **{name: text}).status in {200, 403, 422}


def fill(admin: Connection, tenant_id: UUID, number: int) -> list[str]:
    """Create dead letters in every status, three per second. Returns ids, newest first."""
    rows = admin.execute(
        """
        INSERT INTO dead_letter (job_id, tenant_id, worker, task_type, payload, metadata, attempts, fingerprint,
                                 dlq_reason, dlq_timestamp, status)
        SELECT gen_random_uuid(), %(tenant)s, 'tasks', 'echo', '{}', %(metadata)s, 3, '0123456789abcdef',
               'max_retries_exceeded', %(noon)s + (n / 3) * interval '1 s',
               (ARRAY['pending', 'retried', 'resolved', 'ignored'])[1 + n %% 4]
        FROM generate_series(1, %(number)s) AS n RETURNING dlq_timestamp, job_id
        """,
        {
            "tenant": tenant_id,
            "noon": NOON,
            "number": number,
            "metadata": Jsonb(
                {
                    "created_at": NOON.isoformat(),
                    "retry_count": 2,
                    "max_retry": 2,
                    "last_error": {"type": "E", "message": "away", "timestamp": NOON.isoformat(), "context": {}},
                }
            ),
        },
    ).fetchall()
    return [str(job_id) for _, job_id in sorted(rows, reverse=True)]


def test_pages_cover_thousands_of_dead_letters(ask: Ask, admin: Connection, acme: UUID) -> None:
    created = fill(admin, acme, 2345)
    seen: list[str] = []
    query: dict[str, str] = {"limit": "100"}
    while True:
        page = get(ask, **query)
        seen += listed_ids(page)
        if page.body["next_cursor"] is None:
            break
        query["cursor"] = page.body["next_cursor"]

    assert seen == created
    numbered = [listed_ids(get(ask, page=str(number), limit="100")) for number in range(1, 26)]
    assert [job_id for page in numbered for job_id in page] == created
    assert numbered[-2:] == [created[2300:], []]


def test_numbered_page_is_filtered_and_has_a_cursor(ask: Ask, admin: Connection, acme: UUID) -> None:
    created = fill(admin, acme, 40)
    pending = [job_id for job_id in created if get(ask, f"/{job_id}").body["status"] == "pending"]

    second = get(ask, page="2", limit="4", status="pending")

    assert listed_ids(second) == pending[4:8]
    assert listed_ids(get(ask, cursor=second.body["next_cursor"], limit="4", status="pending")) == pending[8:]
    assert get(ask, page="100", limit="100").body == {"dead_letters": [], "next_cursor": None}


# One dead letter


def test_details_include_payload_and_earlier_failures(ask: Ask, die: MakeDeadLetter) -> None:
    work_id = uuid4()
    die("The disk is full", work_id=work_id)
    job_id = die("Reading timed out", work_id=work_id, revision=2, minute=5)

    answer = get(ask, f"/{job_id}")

    assert (answer.status, answer.body["job_id"], answer.body["work_id"]) == (200, str(job_id), str(work_id))
    assert answer.body["payload"]["file"] == {"file_name": "invoice.pdf"}
    (death,) = answer.body["previous_failures"]
    assert (death["revision"], death["dlq_timestamp"], death["status"], death["last_error"]["message"]) == (
        *(1, "2026-03-02T12:00:00Z", "pending", "The disk is full"),
    )


def test_unchanged_dead_letter_returns_304(ask: Ask, die: MakeDeadLetter) -> None:
    work_id = uuid4()
    job_id = die(work_id=work_id)

    def again(tag: str) -> Answer:
        return ask("", method="GET", path=f"{PATH}/{job_id}", groups=VIEWER, headers={"If-None-Match": tag})

    first = get(ask, f"/{job_id}")
    assert (first.headers["ETag"], first.headers["Vary"]) == ('"1"', "Authorization")
    for tag in ('"1"', 'W/"1"', '"0", "1"', "*"):
        same = again(tag)
        assert (tag, same.status, same.text, same.headers["ETag"]) == (tag, 304, "", '"1"')
    for tag in ('"11"', '"0"', "1", "", '"'):
        assert (tag, again(tag).status) == (tag, 200)

    die("It died again", work_id=work_id, revision=2)
    changed = again('"1"')
    assert (changed.status, changed.headers["ETag"], changed.body["version"]) == (200, '"2"', 2)


def test_secrets_are_hidden_below_admin(ask: Ask, die: MakeDeadLetter, admin: Connection) -> None:
    work_id = uuid4()
    die(f"Bearer {SECRET} was refused", work_id=work_id)
    job_id = die(f"password={SECRET} was refused", work_id=work_id, revision=2, minute=1)
    payload = {"a/b": {"Api-Key": [SECRET]}, "account": "DE89 3704 0044 0532 0130 00", "size": 3}
    resolution = {"action": "retried", "notes": f"Paid with token={SECRET}"}
    admin.execute(
        "UPDATE dead_letter SET payload = %s, resolution = %s WHERE job_id = %s",
        [Jsonb(payload), Jsonb(resolution), job_id],
    )

    for groups in (VIEWER, "[operator tenant:acme]"):
        answer = get(ask, f"/{job_id}", groups=groups)
        assert answer.body["payload"] == {
            "a/b": {"Api-Key": ["[hidden]"]},
            "account": "[hidden] 3000",
            "size": 3,
        }
        assert answer.body["redacted_paths"] == [
            "/payload/a~1b/Api-Key/0",
            "/payload/account",
            "/metadata/last_error/message",
            "/resolution/notes",
            "/previous_failures/0/last_error/message",
        ]
        listed, timeline = get(ask, groups=groups), get(ask, f"/{job_id}/timeline", groups=groups)
        grouped = get(ask, "/groups", groups=groups)
        assert listed.body["dead_letters"][0]["redacted_paths"] == ["/metadata/last_error/message", "/resolution/notes"]
        assert timeline.body["redacted_paths"] == ["/events/0/error/message", "/events/1/error/message"]
        for response in (answer, listed, timeline, grouped):
            assert SECRET not in response.text

    unredacted = get(ask, f"/{job_id}", groups=ADMIN)
    assert (unredacted.body["payload"], unredacted.body["redacted_paths"]) == (payload, [])
    assert SECRET in get(ask, f"/{job_id}/timeline", groups=ADMIN).text


def test_tracebacks_require_admin(ask: Ask, die: MakeDeadLetter, admin: Connection) -> None:
    job_id = die("Unexpected ValueError")
    error = {"type": "E", "message": "x", "timestamp": NOON.isoformat()}
    traced = {**error, "context": {"worker": "ingestion", "traceback": "functions.ingestion.work:7 in ingest"}}
    earlier = {"revision": 1, "dlq_reason": "r", "status": "retried", "dlq_timestamp": NOON.isoformat()}
    admin.execute(
        """UPDATE dead_letter SET metadata = jsonb_set(metadata, '{last_error}', %s), previous_failures = %s
        WHERE job_id = %s""",
        [Jsonb(traced), Jsonb([{**earlier, "last_error": traced}]), job_id],
    )

    for groups in (VIEWER, "[operator tenant:acme]"):
        answers = get(ask, f"/{job_id}", groups=groups), get(ask, groups=groups), get(ask, "/groups", groups=groups)
        for answer in (*answers, get(ask, f"/{job_id}/timeline", groups=groups)):
            assert answer.status == 200
            assert "traceback" not in answer.text
        assert answers[0].body["metadata"]["last_error"]["context"] == {"worker": "ingestion"}
    unredacted = get(ask, f"/{job_id}", groups=ADMIN).body
    assert [
        death["last_error"]["context"] for death in (unredacted["metadata"], unredacted["previous_failures"][0])
    ] == [traced["context"]] * 2


# Timeline


def add_attempt(admin: Connection, tenant_id: UUID, work_id: UUID, *, at: datetime, **columns: Any) -> None:
    values = {"number": 1, "revision": 1, "outcome": "retry", "error": "away", "again": None} | columns
    admin.execute(
        """INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome,
                                     error_type, error, next_attempt_at)
           VALUES (%(tenant)s, 'ingestion', %(work)s, %(revision)s, %(number)s, %(began)s, %(ended)s, %(outcome)s,
                   'TimeoutError', %(error)s, %(again)s)""",
        values | {"tenant": tenant_id, "work": work_id, "began": at - timedelta(seconds=1), "ended": at},
    )


TRACE = "1-67891233-abcdef012345678912345678"


def test_timeline_orders_attempts_failures_and_changes(
    ask: Ask, die: MakeDeadLetter, admin: Connection, acme: UUID, database: Database
) -> None:
    work_id = uuid4()
    add_attempt(admin, acme, work_id, at=NOON, again=NOON + timedelta(seconds=30))
    add_attempt(admin, acme, work_id, at=NOON + timedelta(minutes=1), number=2, outcome="failed")
    admin.execute("UPDATE work_attempt SET trace_id = %s WHERE number = 1", [TRACE])
    job_id = die("The disk is full", work_id=work_id, minute=1)
    with database.tenant(acme) as connection:
        audit(connection, job_id, acme, "retried", "ann", {"revision": 2}, NOON + timedelta(minutes=2))
    add_attempt(admin, acme, work_id, at=NOON + timedelta(minutes=3), revision=2, outcome="failed", error="timed out")
    die("Reading timed out", work_id=work_id, revision=2, minute=3)

    answer = get(ask, f"/{job_id}/timeline")

    assert (answer.status, answer.body["job_id"], answer.body["tenant"]) == (200, str(job_id), "acme")
    assert [
        (
            event["at"][11:19],
            event["kind"],
            event["outcome"],
            event["actor"],
            (event["error"] or {}).get("message"),
            event["revision"],
        )
        for event in answer.body["events"]
    ] == [
        ("12:00:00", "attempt", "retry", "ingestion", "away", 1),
        ("12:01:00", "attempt", "failed", "ingestion", "away", 1),
        ("12:01:00", "dead_lettered", "max_retries_exceeded", "ingestion", "The disk is full", 1),
        ("12:02:00", "change", "retried", "ann", None, None),
        ("12:03:00", "attempt", "failed", "ingestion", "timed out", 2),
        ("12:03:00", "dead_lettered", "max_retries_exceeded", "ingestion", "Reading timed out", 2),
    ]
    first = answer.body["events"][0]
    assert (first["started_at"], first["next_attempt_at"]) == ("2026-03-02T11:59:59Z", "2026-03-02T12:00:30Z")
    assert answer.body["events"][3]["detail"] == {"revision": 2}
    assert [event["log"] for event in answer.body["events"] if event["kind"] != "attempt"] == [None] * 3
    assert first["log"] == {
        "group": "/aws/lambda/counterfoil-ingestion",
        "filter": f'{{ $.work_id = "{work_id}" && $.revision = 1 }}',
        "since": "2026-03-02T11:58:59Z",
        "until": "2026-03-02T12:01:00Z",
        "url": None,
    }
    assert [event["trace_id"] for event in answer.body["events"]] == [TRACE, None, None, None, None, None]
    assert {event["trace_url"] for event in answer.body["events"]} == {None}  # no region, no console


def test_attempts_link_to_log_and_trace(
    ask: Ask, die: MakeDeadLetter, admin: Connection, acme: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_id = uuid4()
    add_attempt(admin, acme, work_id, at=NOON, outcome="failed")
    admin.execute("UPDATE work_attempt SET trace_id = %s", [TRACE])
    job_id = die("The disk is full", work_id=work_id)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)

    first, death = get(ask, f"/{job_id}/timeline").body["events"]

    console_url = "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1#"
    assert first["log"]["url"].startswith(f"{console_url}logsV2:log-groups/log-group/$252Faws$252Flambda$252F")
    assert first["trace_url"] == f"{console_url}xray:traces/{TRACE}"
    assert (death["log"], death["trace_url"]) == (None, None)


def test_timeline_is_limited_to_the_last_events(ask: Ask, die: MakeDeadLetter, admin: Connection, acme: UUID) -> None:
    work_id = uuid4()
    admin.execute(
        "INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome, error) "
        "SELECT %s, 'ingestion', %s, 1, n, at, at, 'deferred', repeat('\U0001f600', 2000) "
        "FROM generate_series(1, 1500) AS n, LATERAL (SELECT %s + n * interval '1 s' AS at) t",
        [acme, work_id, NOON],
    )
    for revision in range(1, LAST_EVENTS + 3):
        job_id = die("\U0001f600" * 2000, work_id=work_id, revision=revision, minute=60 + revision)

    timeline, letter = get(ask, f"/{job_id}/timeline"), get(ask, f"/{job_id}")

    numbers = [event["attempt"] for event in timeline.body["events"] if event["kind"] == "attempt"]
    assert numbers == list(range(1501 - LAST_EVENTS, 1501))
    assert [event["revision"] for event in timeline.body["events"] if event["kind"] == "dead_lettered"] == list(
        range(3, LAST_EVENTS + 3)
    )
    assert [death["revision"] for death in letter.body["previous_failures"]] == list(
        range(LAST_EVENTS + 2 - LAST_DEATHS, LAST_EVENTS + 2)
    )
    for answer in (timeline, letter):
        assert len(json.dumps({"body": answer.text})) < 6 * 1024 * 1024


# Permissions


@pytest.mark.parametrize(
    ("groups", "query", "status"),
    [
        ("[viewer tenant:acme]", {}, 200),
        ("[operator tenant:acme]", {"tenant": "acme"}, 200),
        ("[admin tenant:*]", {"tenant": "acme"}, 200),
        ("[admin tenant:*]", {"tenant": "nobody"}, 404),
        ("[admin tenant:*]", {}, 422),
        ("[viewer tenant:acme tenant:other]", {}, 422),
        ("[viewer tenant:acme tenant:other]", {"tenant": "acme"}, 200),
        ("[admin tenant:other]", {"tenant": "acme"}, 403),
        ("[tenant:acme]", {}, 403),
        ("[admin]", {}, 422),
        ("[admin]", {"tenant": "acme"}, 403),
    ],
)
@pytest.mark.parametrize("path", ["", "/stats", "/groups"])
def test_lists_require_viewer_of_the_tenant(
    path: str,
    groups: str,
    query: dict[str, str],
    status: int,
    ask: Ask,
    die: MakeDeadLetter,
    make_tenant: Callable[..., UUID],
) -> None:
    make_tenant("other")
    die()
    assert get(ask, path, groups=groups, **query).status == status


@pytest.mark.parametrize("path", ["", "/timeline"])
def test_dead_letter_of_another_tenant_is_not_found(
    path: str, ask: Ask, die: MakeDeadLetter, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("other")
    job_id = die()

    unknown = get(ask, f"/{uuid4()}{path}")

    assert unknown.status == 404
    for groups in ("[admin tenant:other]", "[tenant:acme]", "[admin]"):
        assert get(ask, f"/{job_id}{path}", groups=groups).body == unknown.body
    assert [get(ask, f"/{id_}{path}").status for id_ in ("7", "x" * 40, "%00", "statistics")] == [404] * 4
    assert get(ask, f"/{job_id}{path}", groups="[viewer tenant:*]").status == 200


def test_lists_exclude_other_tenants_and_unassigned(
    ask: Ask, die: MakeDeadLetter, make_tenant: Callable[..., UUID], database: Database, admin: Connection
) -> None:
    other = make_tenant("other")
    job_id, foreign = die("Page 1 timed out"), dead_letter_factory(database, other)("Page 2 timed out")
    admin.execute("UPDATE dead_letter SET tenant_id = NULL WHERE job_id = %s", [die("Page 3 timed out")])

    for query in ({}, {"text": "timed"}, {"text": "page 2 timed"}, {"page": "1"}):
        assert str(foreign) not in listed_ids(get(ask, **query))
    assert listed_ids(get(ask)) == ids([job_id])
    assert (get(ask, "/stats").body["count"], get(ask, "/groups").body["groups"][0]["count"]) == (1, 1)


def test_purged_dead_letter_is_hidden(ask: Ask, die: MakeDeadLetter, admin: Connection) -> None:
    job_id = die()
    admin.execute("UPDATE dead_letter SET purged_at = now()")

    assert [get(ask, f"/{job_id}{path}").status for path in ("", "/timeline")] == [404, 404]
    assert (listed_ids(get(ask)), listed_ids(get(ask, text="timed")), listed_ids(get(ask, text=str(job_id)))) == (
        [],
        [],
        [],
    )
    assert get(ask, "/stats").body["count"] == 0


@pytest.mark.parametrize("path", ["", "/stats", "/groups", "/7", "/7/timeline"])
def test_other_methods_are_not_allowed(path: str, ask: Ask) -> None:
    refused = ask("", method="PUT", path=f"{PATH}{path}", groups=ADMIN)
    assert (refused.status, "GET" in refused.headers["Allow"]) == (405, True)
