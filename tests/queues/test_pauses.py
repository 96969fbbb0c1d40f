"""A queue is paused by whoever says so; its mappings follow, whatever comes between, and others' stay as they are."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from counterfoil import audit, aws
from counterfoil.db import Connection, Database
from counterfoil.queues import (
    PauseConflictError,
    PauseRequest,
    QueuePause,
    apply_pause,
    list_pauses,
    reconcile_pauses,
    request_pause,
)
from tests.dead_letters.trail import broken
from tests.factories import NOW
from tests.queues.conftest import Account

LATER = NOW + timedelta(hours=1)


def pause_request(*, paused: bool = True, seen: int = 0, by: str = "kim", worker: str = "tasks") -> PauseRequest:
    return PauseRequest(worker, paused, "The model is being exchanged", by, NOW, seen)


def on_record(database: Database) -> dict[str, QueuePause]:
    with database.delivery() as connection:
        return list_pauses(connection)


def paused(database: Database, account: Account) -> QueuePause:
    """Tasks are paused, and Lambda knows."""
    pause = request_pause(database, pause_request())
    assert apply_pause(database, "tasks", account.mappings["tasks"])
    assert pause is not None
    return pause


def put_right(database: Database, account: Account) -> list[str]:
    """What the watchdog does, an hour later."""
    return reconcile_pauses(database, account.mappings, LATER)


def test_a_queue_is_paused_with_both_of_its_mappings_and_no_other_s(database: Database, account: Account):
    paused(database, account)
    assert account.states("tasks") == ["Disabled", "Disabled"]
    assert account.states("matching") == ["Enabled"]
    found = on_record(database)["tasks"]
    assert found == QueuePause("tasks", True, "The model is being exchanged", "kim", NOW, True, 1)


def test_it_is_read_again_when_it_is_resumed(database: Database, account: Account):
    paused(database, account)
    request_pause(database, pause_request(paused=False, seen=1, by="ann"))
    assert apply_pause(database, "tasks", account.mappings["tasks"])
    assert account.states("tasks") == ["Enabled", "Enabled"]
    found = on_record(database)["tasks"]
    assert (found.is_paused, found.changed_by, found.is_in_effect, found.version) == (False, "ann", True, 2)


def test_to_pause_what_is_paused_changes_nothing_whatever_was_seen(database: Database, account: Account):
    first = paused(database, account)
    again = request_pause(database, pause_request(by="ann", seen=0))
    assert again is not None
    assert (again.changed_by, again.version) == (first.changed_by, first.version)
    with database.delivery() as connection:
        assert len(audit.page(connection, None, limit=10)) == 1


def test_to_resume_what_never_was_paused_leaves_nothing_behind(database: Database):
    assert request_pause(database, pause_request(paused=False)) is None
    assert on_record(database) == {}


@pytest.mark.parametrize("seen", [0, 1, 3])
def test_who_has_not_seen_the_last_change_changes_nothing(seen: int, database: Database, account: Account):
    paused(database, account)
    request_pause(database, pause_request(paused=False, seen=1))
    with pytest.raises(PauseConflictError):
        request_pause(database, pause_request(seen=seen))
    assert not on_record(database)["tasks"].is_paused


def test_who_did_it_is_in_the_trail_of_what_is_no_tenant_s(database: Database, account: Account):
    paused(database, account)
    request_pause(database, pause_request(paused=False, seen=1, by="ann"))
    with database.delivery() as connection:
        entries = audit.page(connection, None, limit=10)
        assert broken(connection, None) is None
    told = [
        (entry.action, entry.actor, list(entry.targets), entry.version_before, entry.version_after) for entry in entries
    ]
    assert told == [("queue-resumed", "ann", ["tasks"], 1, 2), ("queue-paused", "kim", ["tasks"], 0, 1)]
    assert all(entry.note_hash for entry in entries)


def test_a_process_that_ends_between_the_wish_and_the_switch_is_made_up_for(database: Database, account: Account):
    request_pause(database, pause_request())
    assert account.states("tasks") == ["Enabled", "Enabled"]
    assert put_right(database, account) == ["tasks"]
    assert account.states("tasks") == ["Disabled", "Disabled"]
    assert on_record(database)["tasks"].is_in_effect
    request_pause(database, pause_request(paused=False, seen=1))
    assert put_right(database, account) == ["tasks"]
    assert account.states("tasks") == ["Enabled", "Enabled"]
    assert put_right(database, account) == []


def test_what_a_deployment_enables_is_disabled_again_while_it_is_paused(database: Database, account: Account):
    paused(database, account)
    account.somebody_switches("tasks", on=True)
    assert put_right(database, account) == ["tasks"]
    assert account.states("tasks") == ["Disabled", "Disabled"]
    assert put_right(database, account) == []


def test_what_somebody_disabled_past_us_stays_so(database: Database, account: Account):
    account.somebody_switches("matching", on=False)
    paused(database, account)
    request_pause(database, pause_request(paused=False, seen=1))
    apply_pause(database, "tasks", account.mappings["tasks"])
    account.somebody_switches("tasks", on=False)
    assert put_right(database, account) == []
    assert (account.states("matching"), account.states("tasks")) == (["Disabled"], ["Disabled", "Disabled"])


def test_a_queue_is_looked_after_for_a_while_after_it_was_resumed(database: Database, account: Account):
    """A call to disable it, made by a process that was thought dead, may take effect late."""
    paused(database, account)
    request_pause(database, pause_request(paused=False, seen=1))
    apply_pause(database, "tasks", account.mappings["tasks"])
    account.somebody_switches("tasks", on=False)
    assert reconcile_pauses(database, account.mappings, NOW + timedelta(minutes=1)) == ["tasks"]
    assert account.states("tasks") == ["Enabled", "Enabled"]


def test_a_queue_that_is_no_more_is_passed_over(database: Database, account: Account):
    request_pause(database, pause_request(worker="retired"))
    assert put_right(database, account) == []


def test_what_there_is_no_time_for_is_left_to_the_next_round(database: Database, account: Account):
    request_pause(database, pause_request())
    assert reconcile_pauses(database, account.mappings, LATER, lambda: 20.0) == []  # it has two mappings
    assert account.states("tasks") == ["Enabled", "Enabled"]


class Refusing:
    """Lambda's API, which refuses some changes."""

    def __init__(self, lambda_: Any, refused: int) -> None:
        self.lambda_, self.left = lambda_, refused

    def get_event_source_mapping(self, **asked: Any) -> Any:
        return self.lambda_.get_event_source_mapping(**asked)

    def update_event_source_mapping(self, **asked: Any) -> Any:
        self.left -= 1
        if self.left >= 0:
            raise ClientError(
                {"Error": {"Code": "ResourceInUseException"}, "ResponseMetadata": {"HTTPStatusCode": 400}},  # type: ignore[typeddict-item]
                "UpdateEventSourceMapping",
            )
        return self.lambda_.update_event_source_mapping(**asked)


@pytest.fixture
def refusing(account: Account, monkeypatch: pytest.MonkeyPatch) -> Refusing:
    refusing = Refusing(account.lambda_, 1)
    monkeypatch.setattr(aws, "client", lambda _: refusing)
    return refusing


@pytest.mark.usefixtures("refusing")
def test_what_lambda_refuses_is_not_in_effect_and_is_tried_again(database: Database, account: Account):
    request_pause(database, pause_request())
    assert not apply_pause(database, "tasks", account.mappings["tasks"])
    assert account.states("tasks") == ["Enabled", "Disabled"]
    assert not on_record(database)["tasks"].is_in_effect
    assert put_right(database, account) == ["tasks"]
    assert account.states("tasks") == ["Disabled", "Disabled"]
    assert on_record(database)["tasks"].is_in_effect


def test_the_last_switch_is_that_of_the_last_wish_however_many_switch_at_once(
    database: Database, account: Account, admin: Connection
):
    begun = threading.Barrier(4)

    def person(number: int) -> None:
        begun.wait(10)
        for _ in range(5):
            row = on_record(database).get("tasks")
            is_paused, seen = (row.is_paused, row.version) if row else (False, 0)
            try:
                request_pause(database, pause_request(paused=not is_paused, seen=seen, by=f"person {number}"))
            except PauseConflictError:
                continue
            apply_pause(database, "tasks", account.mappings["tasks"])

    with ThreadPoolExecutor(4) as people:
        list(people.map(person, range(4)))

    last = on_record(database)["tasks"]
    assert last.is_in_effect
    assert set(account.states("tasks")) == {"Disabled" if last.is_paused else "Enabled"}
    (changes,) = admin.execute("SELECT count(*) FROM audit_entry").fetchone() or (0,)
    assert changes == last.version
