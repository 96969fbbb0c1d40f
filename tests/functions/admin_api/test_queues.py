"""`/api/admin/queues`: status for viewers, pause and resume by platform admins."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database, maintenance_connection
from counterfoil.queues import firing_alarms, record_depths
from counterfoil.settings import settings
from functions.admin_api.api import queues as routes
from functions.admin_api.api.queues import CachedValue
from tests.delivery.harness import FakeSqs
from tests.factories import make_task
from tests.functions.admin_api.conftest import EVENT, ApiResponse, CallApi
from tests.functions.fake_lambda import MAPPING, OTHER, FakeLambda, refusal

PATH = "/api/admin/queues"
ADMIN, OPERATOR, VIEWER = (f"[{role} tenant:*]" for role in ("admin", "operator", "viewer"))
OURS = "[admin tenant:acme]"
USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
QUEUES = {
    "tasks": {"urls": ["q/tasks", "q/tasks-retry"], "mappings": [str(MAPPING), str(OTHER)], "limit": 24},
    "matching": {"urls": ["q/matching"], "mappings": [str(UUID(int=1))], "limit": 100},
}
SINCE = datetime(2026, 3, 2, 12, tzinfo=UTC)
Switch = Callable[..., ApiResponse]


class FakeCloudWatch:
    """Fake CloudWatch that returns firing alarms or an error."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.is_unavailable = False
        self.calls = 0

    def describe_alarms(self, **request: Any) -> dict[str, Any]:
        self.calls += 1
        if self.is_unavailable:
            raise refusal("AccessDenied", "DescribeAlarms", 403)
        assert (request["AlarmNamePrefix"], request["StateValue"]) == ("counterfoil-", "ALARM")
        return {"MetricAlarms": [{"AlarmName": name, "StateUpdatedTimestamp": SINCE} for name in self.names]}


@pytest.fixture
def lambda_() -> FakeLambda:
    return FakeLambda()


@pytest.fixture
def cloudwatch() -> FakeCloudWatch:
    return FakeCloudWatch()


@pytest.fixture(autouse=True)
def configure_queues(
    call_api: CallApi, queue: FakeSqs, lambda_: FakeLambda, cloudwatch: FakeCloudWatch, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Configure the queues of two workers."""
    clients = {"sqs": queue, "lambda": lambda_, "cloudwatch": cloudwatch}
    monkeypatch.setattr(aws, "client", lambda service: clients[service])
    monkeypatch.setenv("QUEUES", json.dumps(QUEUES))
    settings.cache_clear()
    clear_caches()
    yield
    clear_caches()


def clear_caches() -> None:
    """Clear cached AWS responses."""
    routes._cached_depths.cache_clear()
    routes._cached_alarms.cache_clear()


@pytest.fixture
def get_queues(call_api: CallApi) -> Callable[..., ApiResponse]:
    def get_queues(
        groups: str = VIEWER, path: str = "", tenant: str | None = None, etag: str | None = None
    ) -> ApiResponse:
        return call_api(
            "",
            method="GET",
            path=f"{PATH}{path}",
            groups=groups,
            query={"tenant": tenant} if tenant else None,
            headers={} if etag is None else {"if-none-match": etag},
        )

    return get_queues


@pytest.fixture
def switch(call_api: CallApi) -> Switch:
    def switch(
        action: str = "pause",
        *,
        if_match: str | None = '"0"',
        groups: str = ADMIN,
        worker: str = "tasks",
        body: Any = None,
        **options: Any,
    ) -> ApiResponse:
        return call_api(
            {"reason": "The model is being replaced"} if body is None else body,
            path=f"{PATH}/{worker}/{action}",
            groups=groups,
            headers={} if if_match is None else {"if-match": if_match},
            **options,
        )

    return switch


@pytest.fixture
def watchdog(maintenance_database: Database) -> Callable[[], datetime]:
    """`watchdog()` records queue depths as a watchdog run does, and returns the time."""

    def run() -> datetime:
        now = datetime.now(UTC)
        with maintenance_connection(maintenance_database) as connection:
            record_depths(connection, list(QUEUES), {"tasks": 9}, now)
        return now

    return run


def queue_status(response: ApiResponse, worker: str = "tasks") -> dict[str, Any]:
    assert response.status == 200, response.body
    (row,) = [queue for queue in response.body["queues"] if queue["worker"] == worker]
    return dict(row)


# -- status


def test_viewer_of_all_tenants_sees_full_status(
    get_queues: Callable[..., ApiResponse],
    queue: FakeSqs,
    cloudwatch: FakeCloudWatch,
    admin: Connection,
    acme: UUID,
    watchdog: Callable[[], datetime],
) -> None:
    for status in ("in-progress", "in-progress", "pending"):
        make_task(admin, acme, status=status)
    queue.depths["q/tasks"], queue.depths["q/tasks-retry"] = 2, 1
    cloudwatch.names = ["counterfoil-tasks-queue-depth", "counterfoil-breaker-open"]
    admin.execute(
        """INSERT INTO breaker (name, open_count, opened_at, open_until)
           VALUES ('llm:openai', 1, now(), now() + interval '1 minute'),
                  ('destination:x', 1, now(), now() + interval '1 minute')"""
    )
    watchdog()

    response = get_queues()

    tasks = queue_status(response)
    assert (tasks["running"], tasks["concurrency_limit"], tasks["pending"], tasks["dead_letters"]) == (2, 24, 1, 0)
    assert [tasks[f"approximate_{name}"] for name in ("visible", "in_flight", "delayed")] == [3, 3, 3]
    assert (tasks["is_paused"], tasks["paused"], tasks["version"], tasks["is_applied"]) == (False, None, 0, True)
    assert {name: len(series) for name, series in tasks["minutes"].items() if name != "begins_at"} == {
        "succeeded": 60,
        "skipped": 60,
        "failed": 60,
        "depth": 60,
    }
    assert [breaker["name"] for breaker in response.body["breakers"]] == ["llm:openai"]
    assert [alarm["name"] for alarm in response.body["alarms"]] == ["breaker-open", "tasks-queue-depth"]
    assert (response.body["tenant"], queue_status(response, "matching")["running"]) == (None, 0)
    assert response.body["measured_at"] is not None


def test_tenant_viewer_sees_only_own_counts(
    get_queues: Callable[..., ApiResponse],
    switch: Switch,
    admin: Connection,
    acme: UUID,
    make_tenant: Callable[..., UUID],
    watchdog: Callable[[], datetime],
) -> None:
    other_tenant = make_tenant("other")
    for tenant, count in ((acme, 2), (other_tenant, 3)):
        for _ in range(count):
            make_task(admin, tenant, status="in-progress")
            make_task(admin, tenant)
    watchdog()
    switch()

    for response in (get_queues("[viewer tenant:acme]"), get_queues(VIEWER, tenant="acme")):
        tasks = queue_status(response)
        assert (tasks["running"], tasks["pending"], tasks["is_paused"]) == (2, 2, True)
        hidden = ("paused", "concurrency_limit", "version", "is_applied", "approximate_visible")
        assert [tasks[name] for name in hidden] == [None] * len(hidden)
        assert set(tasks["minutes"]["depth"]) == {None}
        assert (response.body["tenant"], response.body["breakers"], response.body["alarms"]) == ("acme", None, None)
        assert "The model is being replaced" not in response.text
        assert USER not in response.text


@pytest.mark.usefixtures("acme")
def test_status_requires_viewer_role_for_tenant(get_queues: Callable[..., ApiResponse]) -> None:
    assert get_queues("[viewer tenant:other]", tenant="acme").status == 403
    assert get_queues("[viewer tenant:acme tenant:other]").status == 422
    assert get_queues("[tenant:*]").status in {403, 422}
    assert get_queues("[tenant:*]", path="/paused").status == 403
    assert get_queues("[viewer]", path="/paused").status == 403


def test_unchanged_status_returns_304(get_queues: Callable[..., ApiResponse], switch: Switch) -> None:
    first = get_queues()
    repeated = get_queues(etag=first.headers["ETag"])
    assert (repeated.status, repeated.body) == (304, None)
    switch()
    assert get_queues(etag=first.headers["ETag"]).status == 200
    banner = get_queues(path="/paused")
    assert get_queues(path="/paused", etag=banner.headers["ETag"]).status == 304


def test_aws_responses_are_cached(get_queues: Callable[..., ApiResponse], cloudwatch: FakeCloudWatch) -> None:
    for _ in range(5):
        get_queues()
    assert cloudwatch.calls == 1


def test_cached_value_expires() -> None:
    now, responses = [0.0], iter("abc")
    cached = CachedValue(lambda: next(responses), 3, lambda: now[0])
    assert [cached.get(), cached.get()] == ["a", "a"]
    now[0] = 3
    assert cached.get() == "b"


def test_failed_aws_call_leaves_values_unknown(
    get_queues: Callable[..., ApiResponse], queue: FakeSqs, cloudwatch: FakeCloudWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*, QueueUrl: str, AttributeNames: list[str]) -> dict[str, Any]:  # noqa: N803
        if QueueUrl == "q/tasks-retry":
            raise refusal("InternalError", "GetQueueAttributes", 500)
        return {"Attributes": dict.fromkeys(AttributeNames, "0")}

    monkeypatch.setattr(queue, "get_queue_attributes", unavailable)
    cloudwatch.is_unavailable = True

    response = get_queues()

    assert response.body["alarms"] is None
    assert queue_status(response)["approximate_visible"] is None  # one of two queues failed, so the sum is unknown
    assert queue_status(response, "matching")["approximate_visible"] == 0


def test_slow_aws_call_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    released = Event()
    monkeypatch.setattr("counterfoil.queues.REQUEST_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(
        aws, "client", lambda _: type("Silent", (), {"describe_alarms": lambda *_, **__: released.wait(5)})()
    )
    assert firing_alarms() is None
    released.set()


def test_oldest_age_comes_from_the_last_watchdog_run(
    get_queues: Callable[..., ApiResponse], watchdog: Callable[[], datetime], admin: Connection, acme: UUID
) -> None:
    task = make_task(admin, acme)
    admin.execute(
        """INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at)
           VALUES (%s, 'tasks', %s, 1, 0, now(), %s)""",
        [acme, task, datetime.now(UTC) - timedelta(seconds=500)],
    )
    watchdog()
    assert 500 <= queue_status(get_queues())["oldest_seconds"] < 560


# -- pausing and resuming


def test_platform_admin_pauses_a_queue_with_a_reason(
    switch: Switch, get_queues: Callable[..., ApiResponse], lambda_: FakeLambda, admin: Connection
) -> None:
    response = switch()

    assert response.status == 200, response.body
    assert (response.body["is_paused"], response.body["is_applied"], response.body["version"]) == (True, True, 1)
    assert response.headers["ETag"] == '"1"'
    assert lambda_.calls == [(MAPPING, False), (OTHER, False)]
    tasks = queue_status(get_queues())
    assert (tasks["is_paused"], tasks["version"]) == (True, 1)
    assert (tasks["paused"]["by"], tasks["paused"]["reason"]) == (USER, "The model is being replaced")
    assert not queue_status(get_queues(), "matching")["is_paused"]
    assert admin.execute("SELECT tenant_id, actor, action, targets FROM audit_entry").fetchall() == [
        (None, USER, "queue-paused", ["tasks"])
    ]


def test_platform_admin_resumes_a_queue(
    switch: Switch, get_queues: Callable[..., ApiResponse], lambda_: FakeLambda
) -> None:
    switch()
    lambda_.settle()
    response = switch("resume", if_match='"1"')
    lambda_.settle()
    assert (response.status, response.body["is_paused"], response.body["paused"], response.body["version"]) == (
        200,
        False,
        None,
        2,
    )
    assert set(lambda_.states.values()) == {"Enabled"}
    assert not queue_status(get_queues())["is_paused"]


def test_only_platform_viewers_see_author_of_pause(switch: Switch, get_queues: Callable[..., ApiResponse]) -> None:
    assert get_queues(path="/paused").body == {"queues": []}
    switch()
    response = get_queues("[viewer tenant:acme]", "/paused")
    (own_queue,) = response.body["queues"]
    assert (own_queue["worker"], own_queue["reason"], own_queue["paused"]) == (
        "tasks",
        "The model is being replaced",
        None,
    )
    assert USER not in response.text
    (queue_,) = get_queues(path="/paused").body["queues"]
    assert (queue_["paused"]["by"], queue_["since"]) == (USER, own_queue["since"])


@pytest.mark.parametrize("groups", [OPERATOR, VIEWER, OURS, "[]", "[admin]", "[tenant:*]", "[operator tenant:acme]"])
@pytest.mark.parametrize("action", ["pause", "resume"])
def test_pause_and_resume_require_platform_admin(
    groups: str, action: str, switch: Switch, lambda_: FakeLambda, admin: Connection
) -> None:
    assert switch(action, groups=groups).status == 403
    assert switch(action, groups=groups, worker="nothing").status == 403
    assert lambda_.calls == []
    assert admin.execute("SELECT count(*) FROM rate_limit_bucket").fetchone() == (0,)


def test_token_without_subject_cannot_pause(switch: Switch) -> None:
    assert switch(subject="").status == 403


def test_repeated_pause_is_reapplied_without_new_version(
    switch: Switch, lambda_: FakeLambda, admin: Connection
) -> None:
    first = switch()
    lambda_.settle()
    repeated = switch(body={"reason": "Once more"})
    assert (repeated.status, repeated.body["version"]) == (200, 1)
    assert repeated.body["paused"] == first.body["paused"]
    assert len(lambda_.calls) == 4
    assert admin.execute("SELECT count(*) FROM audit_entry").fetchone() == (1,)


def test_resume_without_pause_changes_nothing(switch: Switch, lambda_: FakeLambda) -> None:
    response = switch("resume")
    assert (response.status, response.body["is_paused"], response.headers["ETag"]) == (200, False, '"0"')
    assert lambda_.calls == []


@pytest.mark.parametrize(("if_match", "status"), [(None, 428), ("*", 428), ('"7"', 412), ('W/"0"', 412), ("0", 412)])
def test_change_requires_the_current_version(if_match: str | None, status: int, switch: Switch) -> None:
    response = switch(if_match=if_match)
    assert response.status == status
    assert "letter" not in response.body["detail"]


def test_change_of_outdated_version_is_rejected(switch: Switch) -> None:
    switch()
    switch("resume", if_match='"1"')
    stale = switch(if_match='"1"')
    assert (stale.status, stale.body["detail"]) == (412, "The queue was paused or resumed after you read its state.")


@pytest.mark.parametrize(
    "body",
    [{}, {"reason": ""}, {"reason": " "}, {"reason": "x" * 2001}, {"reason": "a\nb"}, {"reason": "x", "by": "me"}],
)
def test_reason_is_a_required_single_line(body: dict[str, str], switch: Switch, lambda_: FakeLambda) -> None:
    assert switch(body=body).status == 422
    assert lambda_.calls == []


@pytest.mark.parametrize("worker", ["nothing", "watchdog", "dead_letters", "%00", "Tasks"])
def test_unknown_queue_returns_404(worker: str, switch: Switch) -> None:
    assert switch(worker=worker).status == 404


def test_pause_of_updating_mapping_is_applied_on_retry(
    switch: Switch, get_queues: Callable[..., ApiResponse], lambda_: FakeLambda
) -> None:
    lambda_.states[OTHER] = "Updating"
    response = switch()
    assert (response.status, response.body["is_paused"], response.body["is_applied"]) == (200, True, False)
    assert queue_status(get_queues())["is_applied"] is False
    lambda_.settle()
    assert switch().body["is_applied"] is True
