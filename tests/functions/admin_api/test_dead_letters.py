"""`/api/admin/dlq`: dead letter lists, details, timelines and permissions."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.delivery.dead_letter import audit
from functions.admin_api.api.dead_letters import MAX_EVENTS, MAX_PAGED, MAX_PREVIOUS_FAILURES
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter, dead_letter_factory
from tests.functions.admin_api.conftest import ApiResponse, CallApi
from tests.functions.admin_api.dead_letter_requests import ADMIN, PATH, VIEWER, get, ids, listed_ids

SECRET = "hunter2-hunter2"


# Lists


def test_list_is_newest_first_with_summary_fields(call_api: CallApi, add_dead_letter: MakeDeadLetter) -> None:
    first, second = (
        add_dead_letter("Reading timed out after 30 s", task_type="echo"),
        add_dead_letter("The disk is full", minute=1),
    )

    response = get(call_api)

    assert listed_ids(response) == ids([second, first])
    assert response.body["next_cursor"] is None
    item = response.body["dead_letters"][1]
    assert (
        item
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
        == item
    )
    assert (item["metadata"]["retry_count"], item["metadata"]["max_retry"]) == (2, 2)
    assert item["metadata"]["last_error"] == {
        "type": "TimeoutError",
        "code": None,
        "message": "Reading timed out after 30 s",
        "timestamp": "2026-03-02T12:00:00Z",
        "context": {"worker": "ingestion", "attempt": 3},
    }
    assert not item.keys() & {"payload", "previous_failures"}


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
        ({"search": "order"}, [3]),
        ({"search": "TIMED out, page"}, [2, 1, 0]),
        ({"search": "timed out", "status": "pending"}, [2]),
        ({"search": "nothing of this"}, []),
        ({"search": "!"}, []),
    ],
)
def test_list_is_filtered(
    query: dict[str, str],
    expected: list[int],
    call_api: CallApi,
    add_dead_letter: MakeDeadLetter,
    set_status: Callable[[UUID, str], None],
) -> None:
    dead_letters = [
        add_dead_letter(f"Page {number} timed out", minute=number, task_type="echo" if number == 2 else None)
        for number in range(3)
    ]
    dead_letters.append(add_dead_letter("The disk is full", minute=3, file_name="order.pdf"))
    set_status(dead_letters[0], "resolved")
    set_status(dead_letters[1], "ignored")

    assert listed_ids(get(call_api, **query)) == ids([dead_letters[number] for number in expected])


def test_search_finds_job_id_work_id_and_fingerprint(call_api: CallApi, add_dead_letter: MakeDeadLetter) -> None:
    work_id = uuid4()
    job_id, similar = (
        add_dead_letter("Page 1 timed out", work_id=work_id),
        add_dead_letter("Page 2 timed out", minute=1),
    )
    add_dead_letter("The disk is full")

    assert (
        listed_ids(get(call_api, search=str(job_id))) == listed_ids(get(call_api, search=str(work_id))) == ids([job_id])
    )
    fingerprint = get(call_api, f"/{job_id}").body["fingerprint"]
    assert listed_ids(get(call_api, fingerprint=fingerprint)) == ids([similar, job_id])
    assert listed_ids(get(call_api, fingerprint=fingerprint, search="1")) == ids([job_id])


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
        {"search": ""},
        {"search": "x" * 201},
        {"search": "a\x00b"},
        {"fingerprint": "0123"},
        {"fingerprint": "' OR true; --    "},
        {"tenant": "Acme"},
        {"page": "0"},
        {"page": "-1"},
        {"page": "1e3"},
        {"page": str(MAX_PAGED + 1)},
        {"page": "101", "limit": "100"},
        {"page": "2", "search": "timed"},
        {"page": "2", "cursor": "MjAyNi0wMy0wMlQxMjowMDowMCswMDowMHwwMDAwMDAwMC0wMDAwLTAwMDAtMDAwMC0wMDAwMDAwMDAwMDA="},
        {"limit": "0"},
        {"limit": "101"},
        {"cursor": "nonsense"},
        {"cursor": "\ud800"},
        {"state": "pending"},
    ],
)
def test_invalid_parameter_is_rejected(
    query: dict[str, str], call_api: CallApi, add_dead_letter: MakeDeadLetter
) -> None:
    add_dead_letter()
    response = get(call_api, **query)
    assert (response.status, response.headers["Content-Type"]) == (422, "application/problem+json")


@pytest.mark.parametrize("text", ["\x00", "\ud800", "\ufffe", "\U0001f600", "a,b", "%", "'"])
@pytest.mark.parametrize(
    "name", ["tenant", "status", "task_type", "from_date", "search", "fingerprint", "page", "cursor"]
)
def test_unusual_character_causes_no_server_error(
    text: str, name: str, call_api: CallApi, add_dead_letter: MakeDeadLetter
) -> None:
    add_dead_letter()
    assert get(call_api, **{name: text}).status in {200, 403, 422}


def fill(admin: Connection, tenant_id: UUID, number: int) -> list[str]:
    """Create dead letters in every status, three per second.

    Return their ids, newest first.
    """
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


def test_pages_cover_thousands_of_dead_letters(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    created = fill(admin, acme, 2345)
    listed: list[str] = []
    query: dict[str, str] = {"limit": "100"}
    while True:
        page = get(call_api, **query)
        listed += listed_ids(page)
        if page.body["next_cursor"] is None:
            break
        query["cursor"] = page.body["next_cursor"]

    assert listed == created
    numbered = [listed_ids(get(call_api, page=str(number), limit="100")) for number in range(1, 26)]
    assert [job_id for page in numbered for job_id in page] == created
    assert numbered[-2:] == [created[2300:], []]


def test_numbered_page_supports_filters_and_cursors(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    created = fill(admin, acme, 40)
    pending = [job_id for job_id in created if get(call_api, f"/{job_id}").body["status"] == "pending"]

    second = get(call_api, page="2", limit="4", status="pending")

    assert listed_ids(second) == pending[4:8]
    assert listed_ids(get(call_api, cursor=second.body["next_cursor"], limit="4", status="pending")) == pending[8:]
    assert get(call_api, page="100", limit="100").body == {"dead_letters": [], "next_cursor": None}


# Details of one dead letter


def test_details_include_payload_and_earlier_failures(call_api: CallApi, add_dead_letter: MakeDeadLetter) -> None:
    work_id = uuid4()
    add_dead_letter("The disk is full", work_id=work_id)
    job_id = add_dead_letter("Reading timed out", work_id=work_id, revision=2, minute=5)

    response = get(call_api, f"/{job_id}")

    assert (response.status, response.body["job_id"], response.body["work_id"]) == (200, str(job_id), str(work_id))
    assert response.body["payload"]["file"] == {"file_name": "invoice.pdf"}
    (failure,) = response.body["previous_failures"]
    assert (failure["revision"], failure["dlq_timestamp"], failure["status"], failure["last_error"]["message"]) == (
        *(1, "2026-03-02T12:00:00Z", "pending", "The disk is full"),
    )


def test_unchanged_dead_letter_returns_304(call_api: CallApi, add_dead_letter: MakeDeadLetter) -> None:
    work_id = uuid4()
    job_id = add_dead_letter(work_id=work_id)

    def get_conditionally(tag: str) -> ApiResponse:
        return call_api("", method="GET", path=f"{PATH}/{job_id}", groups=VIEWER, headers={"If-None-Match": tag})

    first = get(call_api, f"/{job_id}")
    assert (first.headers["ETag"], first.headers["Vary"]) == ('"1"', "Authorization")
    for tag in ('"1"', 'W/"1"', '"0", "1"', "*"):
        unchanged = get_conditionally(tag)
        assert (tag, unchanged.status, unchanged.text, unchanged.headers["ETag"]) == (tag, 304, "", '"1"')
    for tag in ('"11"', '"0"', "1", "", '"'):
        assert (tag, get_conditionally(tag).status) == (tag, 200)

    add_dead_letter("It failed again", work_id=work_id, revision=2)
    after_change = get_conditionally('"1"')
    assert (after_change.status, after_change.headers["ETag"], after_change.body["version"]) == (200, '"2"', 2)


def test_secrets_are_hidden_below_admin(call_api: CallApi, add_dead_letter: MakeDeadLetter, admin: Connection) -> None:
    work_id = uuid4()
    add_dead_letter(f"Bearer {SECRET} was refused", work_id=work_id)
    job_id = add_dead_letter(f"password={SECRET} was refused", work_id=work_id, revision=2, minute=1)
    payload = {"a/b": {"Api-Key": [SECRET]}, "account": "DE89 3704 0044 0532 0130 00", "size": 3}
    resolution = {"action": "retried", "notes": f"Paid with token={SECRET}"}
    admin.execute(
        "UPDATE dead_letter SET payload = %s, resolution = %s WHERE job_id = %s",
        [Jsonb(payload), Jsonb(resolution), job_id],
    )

    for groups in (VIEWER, "[operator tenant:acme]"):
        details = get(call_api, f"/{job_id}", groups=groups)
        assert details.body["payload"] == {
            "a/b": {"Api-Key": ["[hidden]"]},
            "account": "[hidden] 3000",
            "size": 3,
        }
        assert details.body["redacted_paths"] == [
            "/payload/a~1b/Api-Key/0",
            "/payload/account",
            "/metadata/last_error/message",
            "/resolution/notes",
            "/previous_failures/0/last_error/message",
        ]
        listed, timeline = get(call_api, groups=groups), get(call_api, f"/{job_id}/timeline", groups=groups)
        grouped = get(call_api, "/groups", groups=groups)
        assert listed.body["dead_letters"][0]["redacted_paths"] == ["/metadata/last_error/message", "/resolution/notes"]
        assert timeline.body["redacted_paths"] == ["/events/0/error/message", "/events/1/error/message"]
        for response in (details, listed, timeline, grouped):
            assert SECRET not in response.text

    unredacted = get(call_api, f"/{job_id}", groups=ADMIN)
    assert (unredacted.body["payload"], unredacted.body["redacted_paths"]) == (payload, [])
    assert SECRET in get(call_api, f"/{job_id}/timeline", groups=ADMIN).text


def test_tracebacks_require_admin(call_api: CallApi, add_dead_letter: MakeDeadLetter, admin: Connection) -> None:
    job_id = add_dead_letter("Unexpected ValueError")
    error = {"type": "E", "message": "x", "timestamp": NOON.isoformat()}
    traced = {**error, "context": {"worker": "ingestion", "traceback": "functions.ingestion.work:7 in ingest"}}
    previous = {"revision": 1, "dlq_reason": "r", "status": "retried", "dlq_timestamp": NOON.isoformat()}
    admin.execute(
        """UPDATE dead_letter SET metadata = jsonb_set(metadata, '{last_error}', %s), previous_failures = %s
        WHERE job_id = %s""",
        [Jsonb(traced), Jsonb([{**previous, "last_error": traced}]), job_id],
    )

    for groups in (VIEWER, "[operator tenant:acme]"):
        responses = (
            get(call_api, f"/{job_id}", groups=groups),
            get(call_api, groups=groups),
            get(call_api, "/groups", groups=groups),
        )
        for response in (*responses, get(call_api, f"/{job_id}/timeline", groups=groups)):
            assert response.status == 200
            assert "traceback" not in response.text
        assert responses[0].body["metadata"]["last_error"]["context"] == {"worker": "ingestion"}
    unredacted = get(call_api, f"/{job_id}", groups=ADMIN).body
    assert [
        failure["last_error"]["context"] for failure in (unredacted["metadata"], unredacted["previous_failures"][0])
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
    call_api: CallApi, add_dead_letter: MakeDeadLetter, admin: Connection, acme: UUID, database: Database
) -> None:
    work_id = uuid4()
    add_attempt(admin, acme, work_id, at=NOON, again=NOON + timedelta(seconds=30))
    add_attempt(admin, acme, work_id, at=NOON + timedelta(minutes=1), number=2, outcome="failed")
    admin.execute("UPDATE work_attempt SET trace_id = %s WHERE number = 1", [TRACE])
    job_id = add_dead_letter("The disk is full", work_id=work_id, minute=1)
    with database.tenant(acme) as connection:
        audit(connection, job_id, acme, "retried", "ann", {"revision": 2}, NOON + timedelta(minutes=2))
    add_attempt(admin, acme, work_id, at=NOON + timedelta(minutes=3), revision=2, outcome="failed", error="timed out")
    add_dead_letter("Reading timed out", work_id=work_id, revision=2, minute=3)

    response = get(call_api, f"/{job_id}/timeline")

    assert (response.status, response.body["job_id"], response.body["tenant"]) == (200, str(job_id), "acme")
    assert [
        (
            event["at"][11:19],
            event["kind"],
            event["outcome"],
            event["actor"],
            (event["error"] or {}).get("message"),
            event["revision"],
        )
        for event in response.body["events"]
    ] == [
        ("12:00:00", "attempt", "retry", "ingestion", "away", 1),
        ("12:01:00", "attempt", "failed", "ingestion", "away", 1),
        ("12:01:00", "dead_lettered", "max_retries_exceeded", "ingestion", "The disk is full", 1),
        ("12:02:00", "change", "retried", "ann", None, None),
        ("12:03:00", "attempt", "failed", "ingestion", "timed out", 2),
        ("12:03:00", "dead_lettered", "max_retries_exceeded", "ingestion", "Reading timed out", 2),
    ]
    first = response.body["events"][0]
    assert (first["started_at"], first["next_attempt_at"]) == ("2026-03-02T11:59:59Z", "2026-03-02T12:00:30Z")
    assert response.body["events"][3]["detail"] == {"revision": 2}
    assert [event["log"] for event in response.body["events"] if event["kind"] != "attempt"] == [None] * 3
    assert first["log"] == {
        "group": "/aws/lambda/counterfoil-ingestion",
        "filter": f'{{ $.work_id = "{work_id}" && $.revision = 1 }}',
        "since": "2026-03-02T11:58:59Z",
        "until": "2026-03-02T12:01:00Z",
        "url": None,
    }
    assert [event["trace_id"] for event in response.body["events"]] == [TRACE, None, None, None, None, None]
    assert {event["trace_url"] for event in response.body["events"]} == {None}  # links require a region


def test_attempts_link_to_log_and_trace(
    call_api: CallApi, add_dead_letter: MakeDeadLetter, admin: Connection, acme: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_id = uuid4()
    add_attempt(admin, acme, work_id, at=NOON, outcome="failed")
    admin.execute("UPDATE work_attempt SET trace_id = %s", [TRACE])
    job_id = add_dead_letter("The disk is full", work_id=work_id)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)

    first, failure = get(call_api, f"/{job_id}/timeline").body["events"]

    console_url = "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1#"
    assert first["log"]["url"].startswith(f"{console_url}logsV2:log-groups/log-group/$252Faws$252Flambda$252F")
    assert first["trace_url"] == f"{console_url}xray:traces/{TRACE}"
    assert (failure["log"], failure["trace_url"]) == (None, None)


def test_timeline_is_limited_to_latest_events(
    call_api: CallApi, add_dead_letter: MakeDeadLetter, admin: Connection, acme: UUID
) -> None:
    work_id = uuid4()
    admin.execute(
        "INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome, error) "
        "SELECT %s, 'ingestion', %s, 1, n, at, at, 'deferred', repeat('\U0001f600', 2000) "
        "FROM generate_series(1, 1500) AS n, LATERAL (SELECT %s + n * interval '1 s' AS at) t",
        [acme, work_id, NOON],
    )
    for revision in range(1, MAX_EVENTS + 3):
        job_id = add_dead_letter("\U0001f600" * 2000, work_id=work_id, revision=revision, minute=60 + revision)

    timeline, details = get(call_api, f"/{job_id}/timeline"), get(call_api, f"/{job_id}")

    numbers = [event["attempt"] for event in timeline.body["events"] if event["kind"] == "attempt"]
    assert numbers == list(range(1501 - MAX_EVENTS, 1501))
    assert [event["revision"] for event in timeline.body["events"] if event["kind"] == "dead_lettered"] == list(
        range(3, MAX_EVENTS + 3)
    )
    assert [failure["revision"] for failure in details.body["previous_failures"]] == list(
        range(MAX_EVENTS + 2 - MAX_PREVIOUS_FAILURES, MAX_EVENTS + 2)
    )
    for response in (timeline, details):
        assert len(json.dumps({"body": response.text})) < 6 * 1024 * 1024


# Permissions


@pytest.mark.parametrize(
    ("groups", "query", "status"),
    [
        ("[viewer tenant:acme]", {}, 200),
        ("[operator tenant:acme]", {"tenant": "acme"}, 200),
        ("[admin tenant:*]", {"tenant": "acme"}, 200),
        ("[admin tenant:*]", {"tenant": "missing"}, 404),
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
def test_lists_require_viewer_role_for_tenant(
    path: str,
    groups: str,
    query: dict[str, str],
    status: int,
    call_api: CallApi,
    add_dead_letter: MakeDeadLetter,
    make_tenant: Callable[..., UUID],
) -> None:
    make_tenant("other")
    add_dead_letter()
    assert get(call_api, path, groups=groups, **query).status == status


@pytest.mark.parametrize("path", ["", "/timeline"])
def test_other_tenants_dead_letter_is_not_found(
    path: str, call_api: CallApi, add_dead_letter: MakeDeadLetter, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("other")
    job_id = add_dead_letter()

    unknown = get(call_api, f"/{uuid4()}{path}")

    assert unknown.status == 404
    for groups in ("[admin tenant:other]", "[tenant:acme]", "[admin]"):
        assert get(call_api, f"/{job_id}{path}", groups=groups).body == unknown.body
    assert [get(call_api, f"/{id_}{path}").status for id_ in ("7", "x" * 40, "%00", "statistics")] == [404] * 4
    assert get(call_api, f"/{job_id}{path}", groups="[viewer tenant:*]").status == 200


def test_lists_exclude_other_tenants_and_unassigned(
    call_api: CallApi,
    add_dead_letter: MakeDeadLetter,
    make_tenant: Callable[..., UUID],
    database: Database,
    admin: Connection,
) -> None:
    other = make_tenant("other")
    job_id, foreign = add_dead_letter("Page 1 timed out"), dead_letter_factory(database, other)("Page 2 timed out")
    admin.execute("UPDATE dead_letter SET tenant_id = NULL WHERE job_id = %s", [add_dead_letter("Page 3 timed out")])

    for query in ({}, {"search": "timed"}, {"search": "page 2 timed"}, {"page": "1"}):
        assert str(foreign) not in listed_ids(get(call_api, **query))
    assert listed_ids(get(call_api)) == ids([job_id])
    assert (get(call_api, "/stats").body["count"], get(call_api, "/groups").body["groups"][0]["count"]) == (1, 1)


def test_purged_dead_letter_is_hidden(call_api: CallApi, add_dead_letter: MakeDeadLetter, admin: Connection) -> None:
    job_id = add_dead_letter()
    admin.execute("UPDATE dead_letter SET purged_at = now()")

    assert [get(call_api, f"/{job_id}{path}").status for path in ("", "/timeline")] == [404, 404]
    assert (
        listed_ids(get(call_api)),
        listed_ids(get(call_api, search="timed")),
        listed_ids(get(call_api, search=str(job_id))),
    ) == (
        [],
        [],
        [],
    )
    assert get(call_api, "/stats").body["count"] == 0


@pytest.mark.parametrize("path", ["", "/stats", "/groups", "/7", "/7/timeline"])
def test_other_methods_are_not_allowed(path: str, call_api: CallApi) -> None:
    response = call_api("", method="PUT", path=f"{PATH}{path}", groups=ADMIN)
    assert (response.status, "GET" in response.headers["Allow"]) == (405, True)
