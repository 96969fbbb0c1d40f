"""One attempt at a task: its payload is put into the form of its type, the type runs, and its result is kept."""

from collections.abc import Callable
from dataclasses import dataclass, field

from counterfoil.db import Connection
from counterfoil.delivery.attempt import Effects, Outcome, Succeeded, TenantAttempt
from counterfoil.egress import Egress
from counterfoil.errors import InvalidSettingsError, StaleClaimError
from counterfoil.llm import Llm
from counterfoil.settings import Settings
from counterfoil.tasks import claim_check, store
from counterfoil.tasks.registry import TaskContext, TaskResult, UnknownTypeError
from counterfoil.tasks.store import Given
from counterfoil.tasks.types import TYPES


@dataclass(frozen=True)
class Means:
    """What tasks may use of this deployment."""

    llm: Callable[[], Llm] | None = None
    """Makes the language model, anew for each try; None: there is none."""
    egress: Egress | None = None
    """None: there is no way to the internet."""
    bucket: str | None = None
    """Of large payloads."""
    settings: Settings = field(default_factory=Settings)


def carry_out(attempt: TenantAttempt, means: Means) -> Outcome:
    """Run one task. Its result is written in the transaction that marks it succeeded.

    Raises:
        StaleClaimError: it was cancelled, or a newer revision has begun.
        UnknownTypeError: a deployment has taken its type away.
        InvalidPayloadError: its payload is not in the form of its type any more.
        TooLargeError: what it came to is larger than is kept.
        CounterfoilError: whatever the type raises.
    """
    with attempt.database.tenant(attempt.tenant_id) as connection:
        given = store.given(connection, attempt.work_id)
    if given is None:
        raise StaleClaimError(f"There is no task {attempt.work_id} any more")
    type_ = TYPES.get(given.task_type)
    if type_ is None:
        raise UnknownTypeError(f"There is no task_type {given.task_type} any more.")
    form = type_.read(_payload(given, means.bucket))
    attempt.deadline.check()
    found = type_.run(_context(attempt, given, means), form)
    done = found if isinstance(found, TaskResult) else TaskResult(found, lambda _connection: ())
    content = claim_check.checked(done.result, "result")
    attempt.deadline.check()

    def effects(connection: Connection) -> Effects:
        messages = done.effects(connection)
        store.write_result(connection, attempt.work_id, content, attempt.now())
        return Effects(messages)

    return Succeeded(effects)


def _payload(given: Given, bucket: str | None) -> claim_check.Payload:
    if given.payload is not None:
        return given.payload
    if bucket is None:
        raise InvalidSettingsError("UPLOADS_BUCKET is not set: it names the bucket that large payloads are in.")
    assert given.payload_key is not None  # the row has one of the two
    return claim_check.read(bucket, given.payload_key)


def _context(attempt: TenantAttempt, given: Given, means: Means) -> TaskContext:
    return TaskContext(
        job_id=attempt.work_id,
        tenant_id=attempt.tenant_id,
        user_id=given.user_id,
        number=attempt.number,
        database=attempt.database,
        now=attempt.now,
        deadline=attempt.deadline,
        llm=means.llm,
        egress=means.egress,
        settings=means.settings,
    )
