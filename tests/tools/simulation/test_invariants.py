"""Each invariant of the simulation can be broken: a world at rest is changed in one place, and the check says so."""

from collections.abc import Callable

import pytest

from counterfoil.errors import DatabaseUnavailableError, DeferredError, InvalidDocumentError
from tools.simulation import history, invariants
from tools.simulation.database import Store
from tools.simulation.ledger import ledger
from tools.simulation.scheduler import ViolationError
from tools.simulation.world import World

SEEDS = range(1, 200)
"""Among so many histories there is one that a change can be made to."""

Change = Callable[[World], bool]
"""Changes a world, where it holds what is to be changed. Returns whether it did."""


def statement(sql: str) -> Change:
    def change(world: World) -> bool:
        return world.store.admin.execute(sql.encode()).rowcount > 0

    return change


def a_failure_has_lost_its_dead_letter(world: World) -> bool:
    last = {(entry.worker, entry.id): entry for entry in ledger(world)}.values()
    failed = [entry.id for entry in last if entry.new["status"] == "failed"]
    return world.store.admin.execute("DELETE FROM dead_letter WHERE work_id = ANY(%s)", [failed]).rowcount > 0


def a_try_that_was_made_again_failed_for_good(world: World) -> bool:
    again = [
        one
        for one in world.tries
        for entry in ledger(world)
        if entry.task == one.task and entry.id == one.attempt.work_id and entry.became("pending")
        if entry.worker == one.worker and one.raised is not None and not isinstance(one.raised, DeferredError)
    ]
    for one in again[:1]:
        one.raised = InvalidDocumentError("It is damaged", code="damaged_pdf")
    return bool(again)


def a_try_began_long_after_its_claim(world: World) -> bool:
    if world.stalls or not world.tries:
        return False
    world.tries[0].at += 100
    return True


def a_task_asked_for_fewer_tries(world: World) -> bool:
    again = [entry.id for entry in ledger(world) if entry.worker == "tasks" and entry.new["attempts"] == 2]
    world.bounds |= dict.fromkeys(again, 1)
    return bool(again)


def a_lost_connection_ended_its_first_run(world: World) -> bool:
    again = [one for one in world.tries if isinstance(one.raised, DatabaseUnavailableError) and one.runs > 1]
    for one in again:
        one.runs, one.could_run = 1, True
    return bool(again)


def claims_were_made_with_no_message_in_hand(world: World) -> bool:
    world.transactions.handles.clear()
    return any(entry.claims for entry in ledger(world))


CHANGES: dict[str, tuple[Change, str]] = {
    "effects committed twice": (
        statement(
            "INSERT INTO simulation_effect (actor, worker, work_id, revision) "
            "SELECT actor, worker, work_id, revision FROM simulation_effect LIMIT 1"
        ),
        "were committed 2 times",
    ),
    "effects lost": (
        statement("DELETE FROM simulation_effect WHERE number = (SELECT min(number) FROM simulation_effect)"),
        "were committed 0 times",
    ),
    "a match committed apart from its settlement": (
        statement(
            "INSERT INTO simulation_match SELECT '0:0', document_a_id, document_b_id FROM document_match LIMIT 1"
        ),
        "settles no work item of matching",
    ),
    "a document outside its cluster": (
        statement(
            "UPDATE document SET cluster_id = NULL "
            "WHERE id = (SELECT id FROM document WHERE matching_status = 'succeeded' ORDER BY id LIMIT 1)"
        ),
        "is in cluster None",
    ),
    "an attempt too many": (
        statement(
            "UPDATE simulation_ledger SET new = jsonb_set(new, '{attempts}', '4') "
            "WHERE number = (SELECT max(number) FROM simulation_ledger)"
        ),
        "counts 4 attempts",
    ),
    "a failure without its dead letter": (a_failure_has_lost_its_dead_letter, "has no dead letter of its revision"),
    "a failure that nobody is told of": (statement("DELETE FROM notification"), "0 notifications of 1 failures"),
    "a failure told of twice": (
        statement(
            "INSERT INTO notification (tenant_id, worker, job_id, revision, fingerprint, payload, created_at) "
            "SELECT tenant_id, worker, job_id, revision + 1, fingerprint, payload, created_at FROM notification LIMIT 1"
        ),
        "1 notifications of 0 failures",
    ),
    "a message never sent": (
        statement("UPDATE outbox SET sent_at = NULL WHERE id = (SELECT id FROM outbox ORDER BY id LIMIT 1)"),
        "are never sent",
    ),
    "work that never ends": (
        statement(
            "UPDATE document SET matching_status = 'pending' "
            "WHERE id = (SELECT id FROM document WHERE matching_status = 'succeeded' ORDER BY id LIMIT 1)"
        ),
        "never ends",
    ),
    "dead with attempts left": (
        statement(
            "UPDATE dead_letter SET dlq_reason = 'max_retries_exceeded' "
            "WHERE work_id IS NOT NULL AND dlq_reason = 'non_retriable_error' AND attempts = 1"
        ),
        "is dead with 1 attempts",
    ),
    "a settled attempt reported as lost": (
        statement(
            "UPDATE dead_letter SET metadata = jsonb_set(metadata, '{last_error,type}', '\"WorkerLost\"') "
            "WHERE dlq_reason = 'non_retriable_error' AND work_id IS NOT NULL"
        ),
        "blames a lost worker",
    ),
    "a retry without a number of its own": (
        statement(
            "UPDATE simulation_ledger SET new = jsonb_set(new, '{send_number}', old -> 'send_number') "
            "WHERE worker = 'tasks' AND old ->> 'status' = 'in-progress' AND new ->> 'status' = 'pending'"
        ),
        "does not rise",
    ),
    "a send number that falls": (
        statement(
            "UPDATE simulation_ledger SET new = jsonb_set(new, '{send_number}', '-1') "
            "WHERE number = (SELECT max(number) FROM simulation_ledger WHERE old IS NOT NULL)"
        ),
        "does not rise",
    ),
    "a claim for nobody's message": (claims_were_made_with_no_message_in_hand, "taken for another message"),
    "a retry that comes too late": (
        statement(
            "UPDATE work_attempt SET next_attempt_at = next_attempt_at + interval '9 s' "
            "WHERE outcome = 'retry' AND number = 1 AND worker = 'tasks'"
        ),
        "and not from 2 to 3",
    ),
    "a retry that comes too soon": (
        statement("UPDATE work_attempt SET next_attempt_at = ended_at WHERE outcome = 'retry' AND worker = 'tasks'"),
        "waits 0.0 s",
    ),
    "a try that is not written down": (statement("DELETE FROM work_attempt WHERE outcome <> 'deferred'"), "0 times"),
    "a try written down twice": (
        statement(
            "INSERT INTO work_attempt (worker, work_id, revision, number, began_at, ended_at, outcome) "
            "SELECT worker, work_id, revision, number, began_at, ended_at, 'lost' FROM work_attempt "
            "WHERE outcome <> 'deferred' LIMIT 1"
        ),
        "is written down 2 times",
    ),
    "a try written down that never began": (
        statement(
            "INSERT INTO work_attempt (worker, work_id, revision, number, began_at, ended_at, outcome) "
            "SELECT worker, work_id, revision, 9, began_at, ended_at, 'lost' FROM work_attempt LIMIT 1"
        ),
        "try 9 of .* never began",
    ),
    "a task tried more often than it asked for": (a_task_asked_for_fewer_tries, "was tried 2 times"),
    "a message taken for a stray": (
        statement(
            "INSERT INTO dead_letter_audit (tenant_id, job_id, action, actor, recorded_at) "
            "SELECT tenant_id, id, 'unknown-work', 'tasks', now() FROM task LIMIT 1"
        ),
        "was taken for one of work that does not exist",
    ),
    "a permanent failure retried": (a_try_that_was_made_again_failed_for_good, "a permanent failure of"),
    "an attempt charged without a second run": (a_lost_connection_ended_its_first_run, "without a second run"),
    "a lease by a wrong clock": (
        statement(
            "UPDATE simulation_ledger SET new = jsonb_set(new, '{lease_expires_at}', "
            "to_jsonb((new ->> 'lease_expires_at')::timestamptz + interval '1 hour')) WHERE new ->> 'status' = "
            "'in-progress' AND old ->> 'status' = 'pending' AND number = (SELECT max(number) FROM simulation_ledger "
            "WHERE new ->> 'status' = 'in-progress' AND old ->> 'status' = 'pending')"
        ),
        "lasts 3",
    ),
    "a claim that waits": (a_try_began_long_after_its_claim, "waited 100.0 s"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_world_that_was_changed_breaks_an_invariant(store: Store, name: str) -> None:
    change, finding = CHANGES[name]
    for seed in SEEDS:
        world = history.begun(seed, store)
        world.run()
        invariants.check(world)
        if change(world):
            with pytest.raises(ViolationError, match=finding):
                invariants.check(world)
            return
    pytest.fail(f"No history of {len(SEEDS)} has what is to be changed")
