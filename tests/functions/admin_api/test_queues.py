"""`/api/admin/queues`: whoever may look sees what is his, and an admin of all tenants pauses and resumes."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database, keeper
from counterfoil.queues import firing_alarms, record_depths
from counterfoil.settings import settings
from functions.admin_api.api import queues as routes
from functions.admin_api.api.queues import Kept
from tests.delivery.harness import FakeSqs
from tests.factories import make_task
from tests.functions.admin_api.conftest import EVENT, Answer, Ask
from tests.functions.mappings import MAPPING, OTHER, FakeLambda, refusal

PATH = "/api/admin/queues"
ADMIN, OPERATOR, VIEWER = (f"[{role} tenant:*]" for role in ("admin", "operator", "viewer"))
OURS = "[admin tenant:acme]"
USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
QUEUES = {
    "tasks": {"urls": ["q/tasks", "q/tasks-retry"], "mappings": [str(MAPPING), str(OTHER)], "gate": 24},
    "matching": {"urls": ["q/matching"], "mappings": [str(UUID(int=1))], "gate": 100},
}
SINCE = datetime(2026, 3, 2, 12, tzinfo=UTC)
Switch = Callable[..., Answer]


class FakeCloudWatch:
    """Alarms that have gone off, or no answer."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.is_away = False
        self.asked = 0

    def describe_alarms(self, **asked: Any) -> dict[str, Any]:
        self.asked += 1
        if self.is_away:
            raise refusal("AccessDenied", "DescribeAlarms", 403)
        assert (asked["AlarmNamePrefix"], asked["StateValue"]) == ("counterfoil-", "ALARM")
        return {"MetricAlarms": [{"AlarmName": name, "StateUpdatedTimestamp": SINCE} for name in self.names]}


@pytest.fixture
def lambda_() -> FakeLambda:
    return FakeLambda()


@pytest.fixture
def cloudwatch() -> FakeCloudWatch:
    return FakeCloudWatch()


@pytest.fixture(autouse=True)
def world(
    ask: Ask, queue: FakeSqs, lambda_: FakeLambda, cloudwatch: FakeCloudWatch, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The queues of two workers."""
    clients = {"sqs": queue, "lambda": lambda_, "cloudwatch": cloudwatch}
    monkeypatch.setattr(aws, "client", lambda service: clients[service])
    monkeypatch.setenv("QUEUES", json.dumps(QUEUES))
    settings.cache_clear()
    forget()
    yield
    forget()


def forget() -> None:
    """What AWS has said is asked for anew."""
    routes._depths.cache_clear()
    routes._alarms.cache_clear()


@pytest.fixture
def look(ask: Ask) -> Callable[..., Answer]:
    def look(groups: str = VIEWER, path: str = "", tenant: str | None = None, known: str | None = None) -> Answer:
        return ask(
            "",
            method="GET",
            path=f"{PATH}{path}",
            groups=groups,
            query={"tenant": tenant} if tenant else None,
            headers={} if known is None else {"if-none-match": known},
        )

    return look


@pytest.fixture
def switch(ask: Ask) -> Switch:
    def switch(
        what: str = "pause",
        *,
        seen: str | None = '"0"',
        groups: str = ADMIN,
        worker: str = "tasks",
        body: Any = None,
        **how: Any,
    ) -> Answer:
        return ask(
            {"reason": "The model is being exchanged"} if body is None else body,
            path=f"{PATH}/{worker}/{what}",
            groups=groups,
            headers={} if seen is None else {"if-match": seen},
            **how,
        )

    return switch


@pytest.fixture
def watchdog(keeper_database: Database) -> Callable[[], datetime]:
    """The watchdog's round, some seconds ago."""

    def round_() -> datetime:
        now = datetime.now(UTC)
        with keeper(keeper_database) as connection:
            record_depths(connection, list(QUEUES), {"tasks": 9}, now)
        return now

    return round_


def one(answer: Answer, worker: str = "tasks") -> dict[str, Any]:
    assert answer.status == 200, answer.body
    (found,) = [queue for queue in answer.body["queues"] if queue["worker"] == worker]
    return dict(found)


# -- looking


def test_who_may_look_for_all_tenants_sees_queues_whole(
    look: Callable[..., Answer],
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
        """INSERT INTO breaker (name, openings, opened_at, open_until)
           VALUES ('llm:openai', 1, now(), now() + interval '1 minute'),
                  ('destination:x', 1, now(), now() + interval '1 minute')"""
    )
    watchdog()

    answer = look()

    found = one(answer)
    assert (found["running"], found["gate"], found["pending"], found["dead"]) == (2, 24, 1, 0)
    assert [found[f"approximate_{name}"] for name in ("visible", "in_flight", "delayed")] == [3, 3, 3]
    assert (found["is_paused"], found["paused"], found["version"], found["in_effect"]) == (False, None, 0, True)
    assert {name: len(series) for name, series in found["minutes"].items() if name != "begins_at"} == {
        "succeeded": 60,
        "skipped": 60,
        "failed": 60,
        "depth": 60,
    }
    assert [breaker["name"] for breaker in answer.body["breakers"]] == ["llm:openai"]
    assert [alarm["name"] for alarm in answer.body["alarms"]] == ["breaker-open", "tasks-queue-depth"]
    assert (answer.body["tenant"], one(answer, "matching")["running"]) == (None, 0)
    assert answer.body["measured_at"] is not None


def test_a_tenant_s_viewer_sees_his_own_work_and_nothing_of_the_deployment(
    look: Callable[..., Answer],
    switch: Switch,
    admin: Connection,
    acme: UUID,
    make_tenant: Callable[..., UUID],
    watchdog: Callable[[], datetime],
) -> None:
    other = make_tenant("other")
    for tenant, times in ((acme, 2), (other, 3)):
        for _ in range(times):
            make_task(admin, tenant, status="in-progress")
            make_task(admin, tenant)
    watchdog()
    switch()

    for answer in (look("[viewer tenant:acme]"), look(VIEWER, tenant="acme")):
        found = one(answer)
        assert (found["running"], found["pending"], found["is_paused"]) == (2, 2, True)
        hidden = ("paused", "gate", "version", "in_effect", "approximate_visible")
        assert [found[name] for name in hidden] == [None] * len(hidden)
        assert set(found["minutes"]["depth"]) == {None}
        assert (answer.body["tenant"], answer.body["breakers"], answer.body["alarms"]) == ("acme", None, None)
        assert "exchanged" not in answer.text
        assert USER not in answer.text


@pytest.mark.usefixtures("acme")
def test_nobody_sees_what_another_tenant_does(look: Callable[..., Answer]) -> None:
    assert look("[viewer tenant:other]", tenant="acme").status == 403
    assert look("[viewer tenant:acme tenant:other]").status == 422
    assert look("[tenant:*]").status in {403, 422}
    assert look("[tenant:*]", path="/paused").status == 403
    assert look("[viewer]", path="/paused").status == 403


def test_what_has_not_changed_is_not_sent_again(look: Callable[..., Answer], switch: Switch) -> None:
    first = look()
    again = look(known=first.headers["ETag"])
    assert (again.status, again.body) == (304, None)
    switch()
    assert look(known=first.headers["ETag"]).status == 200
    banner = look(path="/paused")
    assert look(path="/paused", known=banner.headers["ETag"]).status == 304


def test_aws_is_asked_now_and_then_however_many_look(look: Callable[..., Answer], cloudwatch: FakeCloudWatch) -> None:
    for _ in range(5):
        look()
    assert cloudwatch.asked == 1


def test_what_was_found_out_is_asked_for_anew_when_it_is_old() -> None:
    now, answers = [0.0], iter("abc")
    kept = Kept(lambda: next(answers), 3, lambda: now[0])
    assert [kept.get(), kept.get()] == ["a", "a"]
    now[0] = 3
    assert kept.get() == "b"


def test_what_aws_does_not_say_is_unknown_and_no_failure(
    look: Callable[..., Answer], queue: FakeSqs, cloudwatch: FakeCloudWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*, QueueUrl: str, AttributeNames: list[str]) -> dict[str, Any]:  # noqa: N803
        if QueueUrl == "q/tasks-retry":
            raise refusal("InternalError", "GetQueueAttributes", 500)
        return {"Attributes": dict.fromkeys(AttributeNames, "0")}

    monkeypatch.setattr(queue, "get_queue_attributes", away)
    cloudwatch.is_away = True

    answer = look()

    assert answer.body["alarms"] is None
    assert one(answer)["approximate_visible"] is None  # half of a number is none
    assert one(answer, "matching")["approximate_visible"] == 0


def test_an_aws_that_does_not_answer_at_all_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    held = Event()
    monkeypatch.setattr("counterfoil.queues.REQUEST_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(
        aws, "client", lambda _: type("Silent", (), {"describe_alarms": lambda *_, **__: held.wait(5)})()
    )
    assert firing_alarms() is None
    held.set()


def test_the_age_of_the_oldest_work_is_that_of_the_watchdog_s_last_look(
    look: Callable[..., Answer], watchdog: Callable[[], datetime], admin: Connection, acme: UUID
) -> None:
    task = make_task(admin, acme)
    admin.execute(
        """INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, not_before, created_at)
           VALUES (%s, 'tasks', %s, 1, 0, now(), %s)""",
        [acme, task, datetime.now(UTC) - timedelta(seconds=500)],
    )
    watchdog()
    assert 500 <= one(look())["oldest_seconds"] < 560


# -- pausing and resuming


def test_a_queue_is_paused_by_an_admin_who_says_why(
    switch: Switch, look: Callable[..., Answer], lambda_: FakeLambda, admin: Connection
) -> None:
    answer = switch()

    assert answer.status == 200, answer.body
    assert (answer.body["is_paused"], answer.body["in_effect"], answer.body["version"]) == (True, True, 1)
    assert answer.headers["ETag"] == '"1"'
    assert lambda_.calls == [(MAPPING, False), (OTHER, False)]
    found = one(look())
    assert (found["is_paused"], found["version"]) == (True, 1)
    assert (found["paused"]["by"], found["paused"]["reason"]) == (USER, "The model is being exchanged")
    assert not one(look(), "matching")["is_paused"]
    assert admin.execute("SELECT tenant_id, actor, action, targets FROM audit_entry").fetchall() == [
        (None, USER, "queue-paused", ["tasks"])
    ]


def test_it_is_resumed_likewise(switch: Switch, look: Callable[..., Answer], lambda_: FakeLambda) -> None:
    switch()
    lambda_.settle()
    answer = switch("resume", seen='"1"')
    lambda_.settle()
    assert (answer.status, answer.body["is_paused"], answer.body["paused"], answer.body["version"]) == (
        200,
        False,
        None,
        2,
    )
    assert set(lambda_.states.values()) == {"Enabled"}
    assert not one(look())["is_paused"]


def test_everybody_sees_what_is_paused_since_when_and_why_and_some_by_whom(
    switch: Switch, look: Callable[..., Answer]
) -> None:
    assert look(path="/paused").body == {"queues": []}
    switch()
    told = look("[viewer tenant:acme]", "/paused")
    (ours,) = told.body["queues"]
    assert (ours["worker"], ours["reason"], ours["paused"]) == ("tasks", "The model is being exchanged", None)
    assert USER not in told.text
    (all_,) = look(path="/paused").body["queues"]
    assert (all_["paused"]["by"], all_["since"]) == (USER, ours["since"])


@pytest.mark.parametrize("groups", [OPERATOR, VIEWER, OURS, "[]", "[admin]", "[tenant:*]", "[operator tenant:acme]"])
@pytest.mark.parametrize("what", ["pause", "resume"])
def test_nobody_else_pauses_or_resumes_anything(
    groups: str, what: str, switch: Switch, lambda_: FakeLambda, admin: Connection
) -> None:
    assert switch(what, groups=groups).status == 403
    assert switch(what, groups=groups, worker="nothing").status == 403
    assert lambda_.calls == []
    assert admin.execute("SELECT count(*) FROM change_allowance").fetchone() == (0,)


def test_a_token_that_names_nobody_pauses_nothing(switch: Switch) -> None:
    assert switch(subject="").status == 403


def test_to_pause_what_is_paused_is_no_change_and_tells_lambda_again(
    switch: Switch, lambda_: FakeLambda, admin: Connection
) -> None:
    first = switch()
    lambda_.settle()
    again = switch(body={"reason": "Once more"})
    assert (again.status, again.body["version"]) == (200, 1)
    assert again.body["paused"] == first.body["paused"]
    assert len(lambda_.calls) == 4
    assert admin.execute("SELECT count(*) FROM audit_entry").fetchone() == (1,)


def test_to_resume_what_never_was_paused_is_no_change(switch: Switch, lambda_: FakeLambda) -> None:
    answer = switch("resume")
    assert (answer.status, answer.body["is_paused"], answer.headers["ETag"]) == (200, False, '"0"')
    assert lambda_.calls == []


@pytest.mark.parametrize(("seen", "status"), [(None, 428), ("*", 428), ('"7"', 412), ('W/"0"', 412), ("0", 412)])
def test_a_change_says_which_version_it_is_a_change_of(seen: str | None, status: int, switch: Switch) -> None:
    answer = switch(seen=seen)
    assert answer.status == status
    assert "letter" not in answer.body["detail"]


def test_who_comes_second_is_told(switch: Switch) -> None:
    switch()
    switch("resume", seen='"1"')
    late = switch(seen='"1"')
    assert (late.status, late.body["detail"]) == (412, "The queue was paused or resumed after you read its state.")


@pytest.mark.parametrize(
    "body",
    [{}, {"reason": ""}, {"reason": " "}, {"reason": "x" * 2001}, {"reason": "a\nb"}, {"reason": "x", "by": "me"}],
)
def test_a_reason_is_one_line_and_needed(body: dict[str, str], switch: Switch, lambda_: FakeLambda) -> None:
    assert switch(body=body).status == 422
    assert lambda_.calls == []


@pytest.mark.parametrize("worker", ["nothing", "watchdog", "dead_letters", "%00", "Tasks"])
def test_there_is_no_queue_of_another_name(worker: str, switch: Switch) -> None:
    assert switch(worker=worker).status == 404


def test_what_lambda_refuses_stays_wished_and_is_told(
    switch: Switch, look: Callable[..., Answer], lambda_: FakeLambda
) -> None:
    lambda_.states[OTHER] = "Updating"
    answer = switch()
    assert (answer.status, answer.body["is_paused"], answer.body["in_effect"]) == (200, True, False)
    assert one(look())["in_effect"] is False
    lambda_.settle()
    assert switch().body["in_effect"] is True
