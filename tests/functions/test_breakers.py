"""A queue is paused while all that its work needs is away, resumed when it is back, and left to people otherwise."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta

import boto3
import pytest
from botocore.stub import Stubber
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from counterfoil import aws
from counterfoil.breaker import Outage
from counterfoil.db import Connection
from counterfoil.errors import DatabaseUnavailableError, RejectedRequestError, ServiceUnavailableError
from functions.watchdog.breakers import MAPPING_SECONDS, PROBE_SECONDS, Dependent, Pauses, Row, Step, decide
from tests.breakers import LLM, Start, processes
from tests.delivery.harness import Clock
from tests.factories import NOW
from tests.functions.mappings import MAPPING, MATCHING, OTHER, PAUSE_AFTER, FakeLambda, Killed, World, lives_on, refusal


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lambda_(monkeypatch: pytest.MonkeyPatch) -> FakeLambda:
    fake = FakeLambda()
    monkeypatch.setattr(aws, "client", lambda service: {"lambda": fake}[service])
    return fake


@pytest.fixture
def start(keeper_database_url: str, clock: Clock) -> Iterator[Start]:
    with processes(keeper_database_url, clock) as start:
        yield start


@pytest.fixture
def watch(start: Start, clock: Clock, lambda_: FakeLambda) -> Callable[..., World]:
    """`watch(*dependents, probes={})` starts a watchdog."""

    def watch(*dependents: Dependent, probes: dict[str, Callable[[], object]] | None = None) -> World:
        breakers = start()
        pauses = Pauses(breakers.process, breakers, dependents, probes or {}, clock, pause_after=PAUSE_AFTER)
        return World(pauses, breakers, lambda_, clock)

    return watch


@pytest.fixture
def world(watch: Callable[..., World]) -> World:
    return watch(MATCHING)


def paused(world: World) -> World:
    """The world after an outage of some minutes."""
    world.service_fails()
    assert world.minute().paused == ["matching"]
    world.minute()
    world.minute()
    assert world.state() == "Disabled"
    return world


# Pausing


def test_a_queue_is_paused_a_minute_after_the_breaker_opened(world: World, clock: Clock) -> None:
    world.service_fails()
    clock.pass_(seconds=59)
    assert world.pauses.run().paused == []
    clock.pass_(seconds=1)
    assert world.pauses.run().paused == ["matching"]
    assert world.state() == "Disabled"


def test_failed_probes_do_not_begin_the_minute_anew(world: World) -> None:
    world.service_fails()
    world.service_fails()
    assert world.minute().paused == ["matching"]


def test_a_queue_whose_breaker_is_closed_is_not_paused(watch: Callable[..., World]) -> None:
    world = watch(MATCHING, Dependent("tasks", OTHER, "llm:openai"))
    paused(world)
    assert world.state(OTHER) == "Enabled"


def test_a_paused_queue_is_paused_once(world: World, lambda_: FakeLambda) -> None:
    paused(world)
    for _ in range(5):
        assert world.minute().paused == []
    assert lambda_.calls == [(MAPPING, False)]


@pytest.mark.parametrize("state", ["Creating", "Enabling", "Disabling", "Updating", "Deleting"])
def test_a_mapping_in_transition_is_waited_for(state: str, world: World, lambda_: FakeLambda, clock: Clock) -> None:
    world.service_fails()
    clock.pass_(seconds=60)
    lambda_.states[MAPPING] = state
    world.pauses.run()
    assert lambda_.calls == []


def test_a_mapping_that_begins_to_change_under_our_hands_is_waited_for(
    world: World, lambda_: FakeLambda, admin: Connection
) -> None:
    def somebody_updates_it() -> None:
        lambda_.states[MAPPING] = "Updating"

    lambda_.before = somebody_updates_it
    world.service_fails()
    assert world.minute().paused == []
    assert status(admin) == "pausing"
    lambda_.before = lives_on
    assert world.minute().paused == ["matching"]


# Resuming


def test_a_queue_is_resumed_when_the_service_is_back(world: World, admin: Connection) -> None:
    paused(world)
    world.service_is_back()
    assert world.minute().resumed == ["matching"]
    assert world.state() == "Enabled"
    assert status(admin) == "released"
    assert world.minute().resumed == []


def test_a_queue_that_was_resumed_is_paused_in_the_next_outage(world: World) -> None:
    paused(world)
    world.service_is_back()
    world.minute()
    paused(world)


def test_an_outage_that_begins_before_the_queue_was_resumed_keeps_it_paused(world: World, lambda_: FakeLambda) -> None:
    paused(world)
    world.service_is_back()
    world.service_fails()
    world.minute()
    assert world.state() == "Disabled"
    lambda_.a_person_switches(MAPPING, on=True)
    assert [world.minute().paused for _ in range(5)] == [[]] * 5  # this outage is the one that the person overruled


def test_a_worker_that_no_longer_depends_on_the_service_is_resumed(world: World, watch: Callable[..., World]) -> None:
    paused(world)
    assert watch().minute().resumed == [f"a former dependent ({MAPPING})"]
    assert world.state() == "Enabled"
    assert watch(Dependent("matching", MAPPING, "llm:openai")).minute().resumed == []


def test_a_mapping_that_was_deleted_meanwhile_is_forgotten(
    watch: Callable[..., World], lambda_: FakeLambda, admin: Connection
) -> None:
    paused(watch(MATCHING))
    del lambda_.states[MAPPING]
    assert watch().minute().resumed == []
    assert status(admin) == "released"


# People


def test_a_mapping_that_a_person_disabled_is_never_touched(world: World, lambda_: FakeLambda) -> None:
    lambda_.a_person_switches(MAPPING, on=False)
    world.service_fails()
    for _ in range(5):
        world.minute()
    world.service_is_back()
    for _ in range(5):
        world.minute()
    assert lambda_.calls == []
    assert world.state() == "Disabled"


def test_a_mapping_that_a_person_enabled_again_is_theirs_for_this_outage(
    world: World, lambda_: FakeLambda, admin: Connection
) -> None:
    paused(world)
    lambda_.a_person_switches(MAPPING, on=True)
    assert world.minute().paused == []
    assert status(admin) == "released"
    lambda_.a_person_switches(MAPPING, on=False)
    world.service_is_back()
    for _ in range(5):
        world.minute()
    assert world.state() == "Disabled"
    lambda_.a_person_switches(MAPPING, on=True)
    paused(world)


# Crashes, and two watchdogs at once


def status(admin: Connection) -> str | None:
    row = admin.execute("SELECT status FROM mapping_pause").fetchone()
    return None if row is None else str(row[0])


def die() -> None:
    raise Killed


def round_that_dies(world: World, point: str) -> None:
    setattr(world.lambda_, point, die)
    world.clock.pass_(seconds=60)
    world.lambda_.settle()
    with pytest.raises(Killed):
        world.pauses.run()
    setattr(world.lambda_, point, lives_on)


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_watchdog_killed_while_pausing_leaves_a_row_and_the_next_one_goes_on(
    point: str, world: World, admin: Connection
) -> None:
    world.service_fails()
    round_that_dies(world, point)
    assert status(admin) == "pausing"
    world.minute()
    world.minute()
    assert (world.state(), status(admin)) == ("Disabled", "paused")
    world.service_is_back()
    world.minute()
    assert world.state() == "Enabled"


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_service_that_is_back_when_the_killed_watchdogs_successor_comes(
    point: str, world: World, admin: Connection
) -> None:
    world.service_fails()
    round_that_dies(world, point)
    world.service_is_back()
    for _ in range(4):
        world.minute()
    assert (world.state(), status(admin)) == ("Enabled", "released")


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_watchdog_killed_while_resuming_is_followed_by_one_that_resumes(
    point: str, world: World, admin: Connection
) -> None:
    paused(world)
    world.service_is_back()
    round_that_dies(world, point)
    assert status(admin) == "paused"
    world.minute()
    world.minute()
    assert (world.state(), status(admin)) == ("Enabled", "released")


def test_a_crash_while_resuming_is_not_taken_for_a_person_in_the_next_outage(world: World) -> None:
    paused(world)
    world.service_is_back()
    round_that_dies(world, "after")
    world.service_fails()
    assert world.minute().paused == ["matching"]


def test_a_row_outlives_every_call_that_may_still_be_under_way(
    watch: Callable[..., World], lambda_: FakeLambda, admin: Connection
) -> None:
    slow, other = watch(MATCHING), watch(MATCHING)

    def the_service_is_back_and_the_other_makes_a_round() -> None:
        lambda_.before = lives_on
        other.service_is_back()
        other.minute()
        assert status(admin) == "pausing"

    lambda_.before = the_service_is_back_and_the_other_makes_a_round
    slow.service_fails()
    slow.minute()
    assert slow.state() == "Disabled"
    other.minute()
    assert other.state() == "Enabled"


def test_two_watchdogs_at_once_do_what_one_does(watch: Callable[..., World], lambda_: FakeLambda) -> None:
    one, other = watch(MATCHING), watch(MATCHING)

    def the_other_makes_its_round() -> None:
        lambda_.before = lives_on
        other.pauses.run()

    lambda_.before = the_other_makes_its_round
    one.service_fails()
    one.minute()
    assert one.state() == "Disabled"
    one.minute()
    one.service_is_back()
    lambda_.before = the_other_makes_its_round
    one.minute()
    one.minute()
    assert one.state() == "Enabled"
    assert lambda_.calls == [(MAPPING, False), (MAPPING, True)]


def test_what_goes_wrong_with_one_mapping_keeps_no_other_from_being_paused(
    watch: Callable[..., World], lambda_: FakeLambda
) -> None:
    world = watch(MATCHING, Dependent("tasks", OTHER, LLM))
    lambda_.refuse[MAPPING] = refusal("AccessDeniedException", "GetEventSourceMapping", 403)
    world.service_fails()
    with pytest.raises(RejectedRequestError, match="AccessDenied"):
        world.minute()
    assert world.state(OTHER) == "Disabled"
    lambda_.refuse[MAPPING] = refusal("TooManyRequestsException", "GetEventSourceMapping", 429)
    with pytest.raises(ServiceUnavailableError):
        world.minute()


def test_a_round_that_is_about_to_end_reports_and_leaves_the_rest_to_the_next_one(
    watch: Callable[..., World], lambda_: FakeLambda, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    world = watch(MATCHING, probes={LLM: lambda: pytest.fail("it takes too long")})
    world.service_fails()
    clock.pass_(minutes=2)
    with pytest.raises(ServiceUnavailableError, match="No time is left"):
        world.pauses.run(lambda: PROBE_SECONDS - 1)
    assert measured(capsys) == [LLM]
    assert lambda_.calls == []
    assert watch(MATCHING).pauses.run(lambda: MAPPING_SECONDS).paused == ["matching"]


def test_without_the_database_nothing_is_known_and_nothing_done(world: World, lambda_: FakeLambda) -> None:
    world.service_fails()
    world.breakers.process.away = DatabaseUnavailableError("away")
    with pytest.raises(DatabaseUnavailableError):
        world.minute()
    assert lambda_.calls == []


def test_lambda_is_called_by_the_names_that_it_knows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = boto3.client("lambda", region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="b")
    monkeypatch.setattr(aws, "client", lambda service: {"lambda": client}[service])
    state = {"UUID": str(MAPPING), "State": "Enabled"}
    with Stubber(client) as stubber:
        stubber.add_response("get_event_source_mapping", state, {"UUID": str(MAPPING)})
        stubber.add_response("update_event_source_mapping", state, {"UUID": str(MAPPING), "Enabled": False})
        stubber.add_response("get_event_source_mapping", state | {"State": "Disabled"}, {"UUID": str(MAPPING)})
        stubber.add_client_error("update_event_source_mapping", "ResourceInUseException", http_status_code=400)
        stubber.add_client_error("get_event_source_mapping", "ResourceNotFoundException", http_status_code=404)
        world.service_fails()
        assert world.minute().paused == ["matching"]
        world.service_is_back()
        assert world.minute().resumed == []
        assert world.minute().resumed == []
        stubber.assert_no_pending_responses()


# Probes and metrics


def test_the_watchdog_tries_a_service_that_nobody_else_may_call(
    watch: Callable[..., World], start: Start, clock: Clock
) -> None:
    tried = []
    away = [ServiceUnavailableError("503")]
    behind = start()

    def probe() -> None:
        with behind.guard(LLM):
            tried.append(clock())
            for error in away:
                raise error

    world = watch(MATCHING, probes={LLM: probe})
    world.service_fails()
    assert [bool(world.minute().paused) for _ in range(5)] == [True, False, False, False, False]
    assert len(tried) == 3  # after 60, 120 and 240 s: each failure doubles the wait
    away.clear()
    assert [bool(world.minute().resumed) for _ in range(5)].count(True) == 1
    assert len(tried) == 4
    assert world.state() == "Enabled"


def test_a_probe_that_breaks_spoils_no_round(watch: Callable[..., World]) -> None:
    def probe() -> None:
        raise ValueError("a bug")

    world = watch(MATCHING, probes={LLM: probe})
    world.service_fails()
    assert world.minute().paused == ["matching"]


def test_a_service_that_no_queue_depends_on_is_tried_by_its_next_caller_only(watch: Callable[..., World]) -> None:
    def probe() -> None:
        pytest.fail("called")

    world = watch(probes={LLM: probe})
    world.service_fails()
    for _ in range(3):
        world.minute()


def measured(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    return [line["breaker"] for line in lines if "BreakerOpen" in line]


def test_each_round_measures_the_breakers_that_keep_work_waiting(
    watch: Callable[..., World], clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    world = watch()
    assert (world.pauses.run().open, measured(capsys)) == ([], [])
    world.service_fails()
    assert (world.pauses.run().open, measured(capsys)) == ([LLM], [LLM])
    clock.pass_(seconds=30)  # due, and nobody calls: nothing waits
    assert (world.pauses.run().open, measured(capsys)) == ([], [])
    assert (watch(MATCHING).pauses.run().open, measured(capsys)) == ([LLM], [LLM])


# The decision, and every history


@pytest.mark.parametrize("state", ["Creating", "Enabling", "Disabling", "Updating", "Deleting"])
@pytest.mark.parametrize("status", [None, "pausing", "paused", "released"])
@pytest.mark.parametrize("since", [None, 0, 100])
def test_nothing_is_decided_during_a_transition(state: str, status: str | None, since: int | None) -> None:
    row = None if status is None else Row(status, NOW)
    outage = None if since is None else Outage(NOW + timedelta(seconds=since), NOW)
    now = NOW + timedelta(hours=1)
    assert decide(state, row, outage, now=now, pause_after=PAUSE_AFTER) is Step.NOTHING


class History(RuleBasedStateMachine):
    """Outages, people and watchdogs that die anywhere, in any order.

    A person disables the mapping only while no row says that we did: nothing could tell the two apart.
    """

    world: World
    admin: Connection

    def __init__(self) -> None:
        super().__init__()
        lambda_ = self.world.lambda_
        lambda_.states[MAPPING] = "Enabled"
        lambda_.disabled_by.clear()
        if self.world.breakers.outages():
            self.world.service_is_back()
        self.admin.execute("DELETE FROM mapping_pause")

    def ours(self) -> bool:
        return status(self.admin) in {"pausing", "paused"}

    @rule(seconds=st.sampled_from([1, 59, 60, 61, 119, 121, 600]), settled=st.booleans())
    def time_passes(self, seconds: int, settled: bool) -> None:
        self.world.clock.pass_(seconds=seconds)
        if settled:
            self.world.lambda_.settle()

    @rule()
    def service_fails(self) -> None:
        self.world.service_fails()

    @precondition(lambda self: self.world.breakers.outages())
    @rule()
    def service_is_back(self) -> None:
        self.world.service_is_back()

    @rule(point=st.sampled_from(["before", "after", "never"]))
    def a_round(self, point: str) -> None:
        if point != "never":
            setattr(self.world.lambda_, point, die)
        with suppress(Killed):
            self.world.pauses.run()
        self.world.lambda_.before = self.world.lambda_.after = lives_on

    @rule()
    def a_person_enables_it(self) -> None:
        self.world.lambda_.a_person_switches(MAPPING, on=True)

    @precondition(lambda self: not self.ours())
    @rule()
    def a_person_disables_it(self) -> None:
        self.world.lambda_.a_person_switches(MAPPING, on=False)

    @invariant()
    def what_we_disabled_is_on_record(self) -> None:
        if self.world.lambda_.disabled_by.get(MAPPING) == "us":
            assert self.ours()

    def teardown(self) -> None:
        """In the end the service is back, and with it the queue, unless a person wants it otherwise."""
        if self.world.breakers.outages():
            self.world.service_is_back()
        for _ in range(5):
            self.world.minute()
        assert self.world.lambda_.disabled_by.get(MAPPING) != "us"
        assert not self.ours()


def test_no_history_leaves_a_queue_paused_or_overrules_a_person(world: World, admin: Connection) -> None:
    class OfThisWorld(History):
        pass

    OfThisWorld.world, OfThisWorld.admin = world, admin
    run_state_machine_as_test(
        OfThisWorld, settings=settings(max_examples=60, stateful_step_count=30, deadline=None, database=None)
    )
