"""Rate limits for changes and reads, per tenant and per user."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import bulk, purges
from counterfoil.operations.store import NewOperation
from counterfoil.settings import settings
from functions.admin_api import auth, endpoint
from functions.admin_api.auth import Caller, RateLimitedError, RateLimiter, ReadTokens, Request, Role
from functions.admin_api.handler import document
from tests.dead_letters.dead_letter_factory import dead_letter_factory
from tests.documents.matching.tenant_harness import TenantHarness
from tests.documents.matching.test_judge import TWICE
from tests.factories import NOW, make_held_mail
from tests.functions.admin_api.conftest import ApiResponse, CallApi, begin_session
from tests.functions.admin_api.permissions import PROFILE
from tests.functions.admin_api.user_pool import PEOPLE

BURST_OF_FIVE = RateLimiter(per_second=0.5, burst=5)
"""Rate limit for a tenant. One user gets at most 80% of it: a burst of 4 and 0.4 per second."""
ANN, BOB = "ann", "bob"
ADMIN, ADMIN_OF_ALL = "[admin tenant:acme]", "[admin tenant:*]"
QUEUE, REASON = "/api/admin/queues/{}/{}", {"reason": "The model is being replaced"}


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


def take(database: Database, tenant: UUID | None, at: datetime = NOW, user: str = ANN) -> bool:
    try:
        BURST_OF_FIVE.consume(database, tenant, user, at)
    except RateLimitedError:
        return False
    return True


def rejection(database: Database, tenant: UUID, user: str, at: datetime) -> tuple[int, str]:
    with pytest.raises(RateLimitedError) as error:
        BURST_OF_FIVE.consume(database, tenant, user, at)
    return error.value.retry_after, str(error.value)


def test_exhausted_burst_refills_over_time(database: Database, tenant: UUID) -> None:
    assert [take(database, tenant) for _ in range(5)] == [True] * 4 + [False]
    assert rejection(database, tenant, ANN, NOW + timedelta(seconds=0.5)) == (
        2,
        "You have exceeded the rate limit for changes: 0.4 per second, with bursts of 4.",
    )
    assert take(database, tenant, NOW + timedelta(seconds=2.5))
    assert not take(database, tenant, NOW + timedelta(seconds=2.5))


def test_one_user_cannot_exhaust_the_tenant_limit(database: Database, tenant: UUID) -> None:
    for _ in range(100):
        take(database, tenant)

    for second in range(0, 100, 10):  # Ann makes changes continuously, Bob makes one every 10 seconds
        later = NOW + timedelta(seconds=second)
        while take(database, tenant, later):
            pass
        assert take(database, tenant, later, BOB)


def test_tenant_limit_applies_to_all_users_together(database: Database, tenant: UUID) -> None:
    assert sum(take(database, tenant, user=f"user {number}") for number in range(9)) == 5

    seconds, message = rejection(database, tenant, BOB, NOW)
    assert (seconds, message) == (
        2,
        "Your tenant has exceeded the rate limit for changes: 0.5 per second, with bursts of 5.",
    )


def test_change_rejected_by_limit_costs_no_token(database: Database, tenant: UUID) -> None:
    assert all(take(database, tenant, user=f"user {number}") for number in range(5))

    assert not any(take(database, tenant, user=BOB) for _ in range(4))  # the tenant has no tokens left

    # The tenant has four tokens again. Bob still has four, because the rejected change cost none.
    assert [take(database, tenant, NOW + timedelta(seconds=8), BOB) for _ in range(5)] == [True] * 4 + [False]


def test_idle_bucket_holds_at_most_one_burst(database: Database, tenant: UUID) -> None:
    take(database, tenant)

    later = NOW + timedelta(days=1)
    assert [take(database, tenant, later) for _ in range(5)] == [True] * 4 + [False]


def test_clock_set_back_does_not_add_tokens(database: Database, tenant: UUID) -> None:
    assert [take(database, tenant, NOW - timedelta(hours=number)) for number in range(5)] == [True] * 4 + [False]

    assert not take(database, tenant, NOW - timedelta(hours=3, seconds=-1))
    assert take(database, tenant, NOW - timedelta(hours=3, seconds=-3))


def is_admitted(database: Database, tenant: UUID, limiter: RateLimiter, clock_error: timedelta) -> bool:
    """Return True if a process whose clock is off by `clock_error` admits a change."""
    caller = Caller(ANN, Role.OPERATOR, frozenset({"acme"}))
    request = Request(caller, database, datetime.now(UTC) + clock_error, limiter, lambda: 0)
    try:
        request.admit("Testing", "acme", tenant)
    except RateLimitedError:
        return False
    return True


AHEAD, BEHIND, RIGHT = timedelta(minutes=10), timedelta(minutes=-10), timedelta(0)


@pytest.mark.parametrize("clock_errors", [(AHEAD, RIGHT), (RIGHT, BEHIND), (AHEAD, BEHIND)])
def test_wrong_clock_does_not_delay_refill(database: Database, tenant: UUID, clock_errors: Sequence[timedelta]) -> None:
    """The limiter refills a token between the two requests, so both must be admitted."""
    limiter = RateLimiter(per_second=1e6, burst=1)

    assert [is_admitted(database, tenant, limiter, clock_error) for clock_error in clock_errors] == [True, True]


@pytest.mark.parametrize("clock_errors", [(RIGHT, AHEAD), (BEHIND, RIGHT), (BEHIND, AHEAD)])
def test_wrong_clock_does_not_add_tokens(database: Database, tenant: UUID, clock_errors: Sequence[timedelta]) -> None:
    limiter = RateLimiter(per_second=1 / 60, burst=1)

    assert [is_admitted(database, tenant, limiter, clock_error) for clock_error in clock_errors] == [True, False]


def test_concurrent_changes_take_each_token_once(database: Database, tenant: UUID) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda number: take(database, tenant, user=f"user {number % 3}"), range(24))) == 5


def test_tenants_have_separate_limits(database: Database, tenant: UUID, make_tenant: Callable[..., UUID]) -> None:
    for _ in range(5):
        take(database, tenant)

    assert take(database, make_tenant("other"))


@pytest.mark.parametrize("user", ["", "\x00", "\ud800", "x" * 100_000])
def test_user_with_any_id_is_rate_limited(database: Database, tenant: UUID, user: str) -> None:
    assert [take(database, tenant, user=user) for _ in range(5)] == [True] * 4 + [False]


# Over HTTP


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    """A tenant with an ambiguous match."""
    harness = TenantHarness(database, admin, TWICE)
    harness.match_all()
    admin.execute("UPDATE tenant SET slug = 'acme' WHERE id = %s", [harness.tenant_id])
    return harness


def bulk_bodies(harness: TenantHarness) -> dict[str, tuple[str, Any]]:
    """Return paths and bodies of the requests that start or change bulk operations."""
    operation = bulk_operation(harness)
    path = "/api/admin/dlq"
    return {
        "POST /api/admin/operations": ("/api/admin/operations", {"action": "match"}),
        f"POST {path}/bulk-retry": (f"{path}/bulk-retry", {"filter": {}}),
        f"POST {path}/bulk-resolve": (f"{path}/bulk-resolve", {"filter": {}, "notes": "Mended"}),
        f"POST {path}/bulk-ignore": (f"{path}/bulk-ignore", {"filter": {}, "reason": "A trial"}),
        "PATCH /api/admin/operations/{operation_id}": (f"/api/admin/operations/{operation}", {"rate": 2}),
        **{
            f"POST /api/admin/operations/{{operation_id}}/{action}": (f"/api/admin/operations/{operation}/{action}", {})
            for action in ("pause", "resume", "cancel")
        },
    }


def bulk_operation(harness: TenantHarness) -> UUID:
    new = NewOperation("retry", {}, "kim", NOW, rate=1)
    with harness.database.tenant(harness.tenant_id) as connection:
        return bulk.request(connection, harness.tenant_id, new).id


def purge_of(harness: TenantHarness) -> UUID:
    with harness.database.tenant(harness.tenant_id) as connection:
        return purges.request(connection, harness.tenant_id, NOW, ["resolved"], by=ANN, now=datetime.now(UTC)).id


def user_bodies(user_id: str) -> dict[str, tuple[str, Any]]:
    """Return the path and body of each request that changes a user."""
    path, template = f"/api/users/{user_id}", "/api/users/{user_id}"
    return {
        f"PUT {template}/profile": (f"{path}/profile", PROFILE),
        f"DELETE {template}/profile": (f"{path}/profile", ""),
        **{
            f"{method} {template}/blocks/{{blocked_id}}": (f"{path}/blocks/{uuid4()}", "")
            for method in ("PUT", "DELETE")
        },
    }


def people_bodies(path: str) -> dict[str, tuple[str, Any]]:
    """Return the path and body of each request that changes a person."""
    person = PEOPLE.add(f"{uuid4()}@acme.example", "viewer", "tenant:acme")
    new = {"email": f"{uuid4()}@acme.example", "role": "viewer", "tenants": ["acme"]}
    return {
        f"POST {path}": (path, new),
        f"PATCH {path}/{{person_id}}": (f"{path}/{person}", {"role": "viewer"}),
        f"DELETE {path}/{{person_id}}": (f"{path}/{person}", ""),
    }


def setup_bodies(path: str) -> dict[str, tuple[str, Any]]:
    """Return the path and body of each request that changes a tenant's setup."""
    return {
        f"POST {path}": (path, {"slug": "acme"}),
        f"PATCH {path}/{{tenant}}": (f"{path}/acme", {}),
        **{f"PATCH {path}/{{tenant}}/{kind}": (f"{path}/acme/{kind}", {}) for kind in ("addresses", "admins")},
        f"POST {path}/{{tenant}}/destinations": (
            f"{path}/acme/destinations",
            {"name": "erp", "kind": "s3", "address": "in"},
        ),
        f"PUT {path}/{{tenant}}/tolerances": (f"{path}/acme/tolerances", {"key": "price"}),
        f"DELETE {path}/{{tenant}}/tolerances": (f"{path}/acme/tolerances", ""),
        f"POST {path}/{{tenant}}/tolerances/recompare": (f"{path}/acme/tolerances/recompare", ""),
        f"POST {path}/{{tenant}}/tolerances/suggestions/{{suggestion_id}}/accept": (
            f"{path}/acme/tolerances/suggestions/0a1b2c3d/accept",
            {},
        ),
        f"DELETE {path}/{{tenant}}/destinations/{{name}}": (f"{path}/acme/destinations/erp", ""),
        f"POST {path}/{{tenant}}/destinations/{{name}}/rotate": (f"{path}/acme/destinations/erp/rotate", ""),
    }


def bodies(harness: TenantHarness, job_id: str, session: str) -> dict[str, tuple[str, Any]]:
    """Return the path and a valid body for each operation that changes something."""
    first, second, third = map(str, harness.ids[:3])
    review = f"/api/admin/reviews/{third}"
    difference = {"cluster": third, "document": second, "code": "price_mismatch", "expected": "1", "actual": "2"}
    dead_letter = dead_letter_factory(harness.database, harness.tenant_id)()
    mail = make_held_mail(harness.admin, harness.tenant_id)
    return {
        "DELETE /api/admin/documents/{document_id}": (f"/api/admin/documents/{first}", ""),
        "DELETE /api/admin/tenants/{tenant}": ("/api/admin/tenants/acme", ""),
        **setup_bodies("/api/admin/tenants"),
        **people_bodies("/api/admin/people"),
        "DELETE /api/admin/dlq/purge": ("/api/admin/dlq/purge", ""),
        "POST /api/admin/operations/{operation_id}/restore": (
            f"/api/admin/operations/{purge_of(harness)}/restore",
            "",
        ),
        "POST /api/admin/dlq/{job_id}/retry": (f"/api/admin/dlq/{dead_letter}/retry", {}),
        "POST /api/admin/dlq/{job_id}/resolve": (f"/api/admin/dlq/{dead_letter}/resolve", {"notes": "Mended"}),
        "POST /api/admin/dlq/{job_id}/ignore": (f"/api/admin/dlq/{dead_letter}/ignore", {"reason": "A trial"}),
        **bulk_bodies(harness),
        "PATCH /api/admin/dlq/{job_id}/payload": (f"/api/admin/dlq/{dead_letter}/payload", {"payload": {}}),
        **{
            f"POST {QUEUE.format('{worker}', action)}": (QUEUE.format("tasks", action), REASON)
            for action in ("pause", "resume")
        },
        **user_bodies(str(uuid4())),
        **{
            f"POST /api/admin/mail/{{mail_id}}/{action}": (f"/api/admin/mail/{mail}/{action}", {})
            for action in ("release", "reject")
        },
        "PUT /api/admin/mail/policy": (
            "/api/admin/mail/policy",
            {"dmarc_policy": "hold", "previous": "hold"},
        ),
        "POST /api/admin/offers": ("/api/admin/offers", {"timezone": "UTC", "tenant": "acme"}),
        "POST /api/uploads": ("/api/uploads", {"tenant": "acme", "file_name": "a.pdf"}),
        "POST /api/tasks": ("/api/tasks", {"task_type": "echo", "payload": {}}),
        "POST /api/tasks/{job_id}/cancel": (f"/api/tasks/{job_id}/cancel", {}),
        "DELETE /api/chat/sessions/{session_id}": (f"/api/chat/sessions/{session}", ""),
        "POST /api/admin/reviews/merge": ("/api/admin/reviews/merge", {"documents": [first, third]}),
        "POST /api/admin/reviews/split": ("/api/admin/reviews/split", {"document": third}),
        "POST /api/admin/variances/accept": ("/api/admin/variances/accept", difference),
        "POST /api/admin/variances/dispute": ("/api/admin/variances/dispute", difference),
        "POST /api/admin/reviews/{document_id}/confirm": (f"{review}/confirm", {"document": first}),
        "POST /api/admin/reviews/{document_id}/reject": (f"{review}/reject", {"documents": [first]}),
    }


QUERIES = {
    "DELETE /api/admin/dlq/purge": {"before_date": NOW.isoformat(), "status": "resolved"},
    "DELETE /api/admin/tenants/{tenant}/tolerances": {"key": "price"},
}


def test_changes_are_rate_limited_and_reads_are_not(
    call_api: CallApi, admin: Connection, harness: TenantHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = call_api({"task_type": "echo", "payload": {}}, path="/api/tasks").body["job_id"]
    limited_requests, other_requests = (bodies(harness, job_id, begin_session(admin)) for _ in range(2))
    described = {
        f"{method.upper()} {path}": operation
        for path, operations in document()["paths"].items()
        for method, operation in operations.items()
        if method != "get"
    }
    assert limited_requests.keys() == described.keys()
    monkeypatch.setenv("RATE_LIMIT_BURST", "1")
    monkeypatch.setenv("RATE_LIMIT_PER_SECOND", "0.01")
    settings.cache_clear()

    for operation, (path, body) in limited_requests.items():
        admin.execute("DELETE FROM rate_limit_bucket")
        method, _, _ = operation.partition(" ")
        query = QUERIES.get(operation)
        groups = ADMIN_OF_ALL if "/queues/" in path or "/tenants" in path else ADMIN
        first = call_api(body, method=method, path=path, query=query, groups=groups)
        response = call_api(body, method=method, path=other_requests[operation][0], query=query, groups=groups)
        assert (operation, first.status != 429, response.status) == (operation, True, 429)
        assert response.headers["Content-Type"] == "application/problem+json"
        assert "rate limit for changes" in response.body["detail"]
        assert 100 <= int(response.headers["Retry-After"]) <= 125
        assert "429" in described[operation]["responses"]

    for path in (f"/api/tasks/{job_id}", "/api/tasks", "/api/chat/sessions", "/api/admin/reviews"):
        assert call_api("", method="GET", path=path).status == 200


def test_unauthorized_changes_take_no_tokens(
    call_api: CallApi, admin: Connection, harness: TenantHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATE_LIMIT_BURST", "1")
    settings.cache_clear()

    def unauthorized_responses(groups: str) -> list[ApiResponse]:
        requests = bodies(harness, str(uuid4()), begin_session(admin)).items()
        return [
            call_api(body, method=operation.partition(" ")[0], path=path, query=QUERIES.get(operation), groups=groups)
            for operation, (path, body) in requests
        ]

    for groups in ("[viewer tenant:acme]", "[operator tenant:other]"):
        assert {response.status for response in unauthorized_responses(groups)} <= {403, 404}
    assert admin.execute("SELECT count(*) FROM rate_limit_bucket").fetchone() == (0,)


# Reads

READ_LIMIT = RateLimiter(per_second=0.001, burst=100, purpose="read")
"""Rate limit for a tenant's reads. One user may take at most 80 tokens."""


class Readers:
    """Rate-limited reads in one process with a fake clock."""

    def __init__(self, database: Database) -> None:
        self.now = 0.0
        self.reads = ReadTokens(clock=lambda: self.now)
        self.database = database

    def read(self, user: str = ANN, seconds: float = 0.01, tenants: Sequence[str] = ("acme",)) -> bool:
        try:
            with self.reads.admit(Caller(user, Role.VIEWER, frozenset(tenants)), self.database, READ_LIMIT):
                self.now += seconds
        except RateLimitedError:
            return False
        return True


@pytest.fixture
def readers(database: Database, tenant: UUID) -> Readers:
    return Readers(database)


def tokens(admin: Connection) -> list[float]:
    """Return the remaining tokens for reads, first each user's and then the tenant's."""
    rows = admin.execute(
        "SELECT round(tokens) FROM rate_limit_bucket WHERE purpose = 'read' ORDER BY user_hash NULLS LAST"
    )
    return [float(tokens_) for (tokens_,) in rows.fetchall()]


def test_short_reads_take_tokens_in_batches_of_ten(readers: Readers, admin: Connection) -> None:
    assert all(readers.read() for _ in range(10))
    assert tokens(admin) == [70, 90]
    assert readers.read()
    assert tokens(admin) == [60, 80]


def test_read_limit_is_per_user_and_tenant(readers: Readers, admin: Connection) -> None:
    assert [readers.read() for _ in range(81)] == [True] * 80 + [False]
    assert [readers.read(BOB) for _ in range(21)] == [True] * 20 + [False]
    assert [readers.read(user, tenants=("other",)) for user in (ANN, BOB)] == [True] * 2


def test_long_read_costs_tokens_for_its_duration(readers: Readers, admin: Connection) -> None:
    assert readers.read(seconds=3)  # costs 30 tokens, of which 10 are taken in advance
    assert tokens(admin) == [70, 90]
    assert readers.read()
    assert tokens(admin) == [40, 60]


def test_failed_read_costs_a_token(readers: Readers, admin: Connection) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        readers.reads.admit(Caller(ANN, Role.VIEWER, frozenset({"acme"})), readers.database, READ_LIMIT),
    ):
        readers.now += 2 / 0
    assert readers.reads.unspent == {(ANN, "acme"): 9.0}


@pytest.mark.parametrize("tenants", [("acme", "other"), ("*",)])
def test_reads_of_several_tenants_are_limited_per_user(readers: Readers, tenants: Sequence[str]) -> None:
    assert [readers.read(tenants=tenants) for _ in range(81)] == [True] * 80 + [False]
    assert [readers.read(BOB, tenants=tenants) for _ in range(81)] == [True] * 80 + [False]


def test_changes_for_all_tenants_are_limited_per_user(database: Database) -> None:
    def changes(user: str) -> list[bool]:
        return [take(database, None, user=user) for _ in range(5)]

    assert changes(ANN) == changes(BOB) == [True] * 4 + [False]


def test_read_limit_does_not_affect_changes(
    call_api: CallApi, admin: Connection, tenant: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READS_AT_ONCE", "5")
    monkeypatch.setenv("READS_PER_SECOND", "0.01")
    settings.cache_clear()

    monkeypatch.setattr(auth, "TOKEN_SECONDS", 3600)  # otherwise reads on a slow machine would take more tokens
    monkeypatch.setattr(endpoint, "read_tokens", ReadTokens())

    responses = [call_api("", method="GET", path="/api/tasks", groups=ADMIN) for _ in range(5)]

    assert [response.status for response in responses] == [200] * 4 + [429]
    assert "rate limit for reads" in responses[-1].body["detail"]
    assert int(responses[-1].headers["Retry-After"]) > 100
    export = call_api(
        "", method="GET", path="/api/admin/dlq/export", query={"tenant": "acme", "format": "json"}, groups=ADMIN
    )
    assert export.status == 429
    assert call_api({"task_type": "echo", "payload": {}}, path="/api/tasks").status == 202
    assert call_api("", method="GET", path="/api/openapi.json", groups=ADMIN).status == 200
