"""Each simulation invariant detects a world that was changed to violate it."""

from collections.abc import Callable

import pytest

from counterfoil.errors import DatabaseUnavailableError, DeferredError, InvalidDocumentError
from tools.simulation import history, invariants
from tools.simulation.database import Store
from tools.simulation.ledger import ledger
from tools.simulation.scheduler import ViolationError
from tools.simulation.world import World

SEEDS = range(1, 200)
"""Seeds to try. For each change, at least one of them produces a history that can be changed."""

Change = Callable[[World], bool]
"""Changes a world if possible. Returns True if it did."""


def statement(sql: str) -> Change:
    def change(world: World) -> bool:
        return world.store.admin.execute(sql.encode()).rowcount > 0

    return change


def delete_a_dead_letter(world: World) -> bool:
    last = {(entry.worker, entry.id): entry for entry in ledger(world)}.values()
    failed = [entry.id for entry in last if entry.new["status"] == "failed"]
    return world.store.admin.execute("DELETE FROM dead_letter WHERE work_id = ANY(%s)", [failed]).rowcount > 0


def make_a_retried_error_permanent(world: World) -> bool:
    retried = [
        simulated
        for simulated in world.attempts
        for entry in ledger(world)
        if entry.task == simulated.task and entry.id == simulated.attempt.work_id and entry.changed_to("pending")
        if entry.worker == simulated.worker
        and simulated.exception is not None
        and not isinstance(simulated.exception, DeferredError)
    ]
    for simulated in retried[:1]:
        simulated.exception = InvalidDocumentError("It is damaged", code="damaged_pdf")
    return bool(retried)


def delay_the_first_attempt(world: World) -> bool:
    if world.stalls or not world.attempts:
        return False
    world.attempts[0].started_at += 100
    return True


def lower_a_limit(world: World) -> bool:
    retried = [entry.id for entry in ledger(world) if entry.worker == "tasks" and entry.new["attempts"] == 2]
    world.attempt_limits |= dict.fromkeys(retried, 1)
    return bool(retried)


def forget_second_runs(world: World) -> bool:
    rerun = [
        simulated
        for simulated in world.attempts
        if isinstance(simulated.exception, DatabaseUnavailableError) and simulated.runs > 1
    ]
    for simulated in rerun:
        simulated.runs, simulated.could_run = 1, True
    return bool(rerun)


def forget_held_messages(world: World) -> bool:
    world.transactions.handles.clear()
    return any(entry.is_claim for entry in ledger(world))


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
    "a match committed separately from its settlement": (
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
    "one attempt too many": (
        statement(
            "UPDATE simulation_ledger SET new = jsonb_set(new, '{attempts}', '4') "
            "WHERE number = (SELECT max(number) FROM simulation_ledger)"
        ),
        "counts 4 attempts",
    ),
    "a failure without its dead letter": (delete_a_dead_letter, "has no dead letter for its revision"),
    "a failure without a notification": (statement("DELETE FROM failure_event"), "0 notifications of 1 failures"),
    "a failure notified twice": (
        statement(
            "INSERT INTO failure_event (tenant_id, worker, job_id, revision, fingerprint, payload, created_at) "
            "SELECT tenant_id, worker, job_id, revision + 1, fingerprint, payload, created_at "
            "FROM failure_event LIMIT 1"
        ),
        "1 notifications of 0 failures",
    ),
    "a message never sent": (
        statement("UPDATE outbox SET sent_at = NULL WHERE id = (SELECT id FROM outbox ORDER BY id LIMIT 1)"),
        "are never sent",
    ),
    "an unfinished work item": (
        statement(
            "UPDATE document SET matching_status = 'pending' "
            "WHERE id = (SELECT id FROM document WHERE matching_status = 'succeeded' ORDER BY id LIMIT 1)"
        ),
        "is unfinished",
    ),
    "a dead letter with attempts left": (
        statement(
            "UPDATE dead_letter SET dlq_reason = 'max_retries_exceeded' "
            "WHERE work_id IS NOT NULL AND dlq_reason = 'non_retriable_error' AND attempts = 1"
        ),
        "was dead-lettered after 1 attempts",
    ),
    "a settled attempt reported as lost": (
        statement(
            "UPDATE dead_letter SET metadata = jsonb_set(metadata, '{last_error,type}', '\"WorkerLost\"') "
            "WHERE dlq_reason = 'non_retriable_error' AND work_id IS NOT NULL"
        ),
        "reports a lost worker",
    ),
    "a retry without a new send number": (
        statement(
            "UPDATE simulation_ledger SET new = jsonb_set(new, '{send_number}', old -> 'send_number') "
            "WHERE worker = 'tasks' AND old ->> 'status' = 'in-progress' AND new ->> 'status' = 'pending'"
        ),
        "does not increase",
    ),
    "a decreasing send number": (
        statement(
            "UPDATE simulation_ledger SET new = jsonb_set(new, '{send_number}', '-1') "
            "WHERE number = (SELECT max(number) FROM simulation_ledger WHERE old IS NOT NULL)"
        ),
        "does not increase",
    ),
    "a claim without a message": (forget_held_messages, "claimed without its latest message"),
    "a late retry": (
        statement(
            "UPDATE work_attempt SET next_attempt_at = next_attempt_at + interval '9 s' "
            "WHERE outcome = 'retry' AND number = 1 AND worker = 'tasks'"
        ),
        "instead of 2 to 3",
    ),
    "an early retry": (
        statement("UPDATE work_attempt SET next_attempt_at = ended_at WHERE outcome = 'retry' AND worker = 'tasks'"),
        "waits 0.0 s",
    ),
    "an unrecorded attempt": (statement("DELETE FROM work_attempt WHERE outcome <> 'deferred'"), "0 times"),
    "an attempt recorded twice": (
        statement(
            "INSERT INTO work_attempt (worker, work_id, revision, number, started_at, ended_at, outcome) "
            "SELECT worker, work_id, revision, number, started_at, ended_at, 'worker_lost' FROM work_attempt "
            "WHERE outcome <> 'deferred' LIMIT 1"
        ),
        "is recorded 2 times",
    ),
    "a recorded attempt that never started": (
        statement(
            "INSERT INTO work_attempt (worker, work_id, revision, number, started_at, ended_at, outcome) "
            "SELECT worker, work_id, revision, 9, started_at, ended_at, 'worker_lost' FROM work_attempt LIMIT 1"
        ),
        "attempt 9 of .* never started",
    ),
    "a task with too many attempts": (lower_a_limit, "had 2 attempts"),
    "a message recorded as unknown": (
        statement(
            "INSERT INTO dead_letter_audit (tenant_id, job_id, action, actor, recorded_at) "
            "SELECT tenant_id, id, 'unknown-work', 'tasks', now() FROM task LIMIT 1"
        ),
        "was recorded as a message for an unknown work item",
    ),
    "a permanent failure retried": (make_a_retried_error_permanent, "a permanent failure of"),
    "an attempt counted without a second run": (forget_second_runs, "without a second run"),
    "a lease from a wrong clock": (
        statement(
            "UPDATE simulation_ledger SET new = jsonb_set(new, '{lease_expires_at}', "
            "to_jsonb((new ->> 'lease_expires_at')::timestamptz + interval '1 hour')) WHERE new ->> 'status' = "
            "'in-progress' AND old ->> 'status' = 'pending' AND number = (SELECT max(number) FROM simulation_ledger "
            "WHERE new ->> 'status' = 'in-progress' AND old ->> 'status' = 'pending')"
        ),
        "lasts 3",
    ),
    "a claim without an immediate attempt": (delay_the_first_attempt, "waited 100.0 s"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_world_violates_invariant(store: Store, name: str) -> None:
    change, violation = CHANGES[name]
    for seed in SEEDS:
        world = history.prepare_world(seed, store)
        world.run()
        invariants.check(world)
        if change(world):
            with pytest.raises(ViolationError, match=violation):
                invariants.check(world)
            return
    pytest.fail(f"None of {len(SEEDS)} histories can be changed in this way")
