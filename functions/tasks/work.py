"""One attempt at a task: validates its payload, runs its type, and stores the result."""

from counterfoil.db import Connection
from counterfoil.delivery.attempt import Effects, Outcome, Succeeded, TenantAttempt
from counterfoil.errors import InvalidSettingsError, StaleClaimError
from counterfoil.tasks import payloads, store
from counterfoil.tasks.store import TaskInput
from counterfoil.tasks.task_type import Services, TaskResult, UnknownTypeError
from counterfoil.tasks.types import TYPES


def run_task(attempt: TenantAttempt, services: Services) -> Outcome:
    """Run one task. The transaction that settles the attempt writes the result.

    Raises:
        StaleClaimError: the task was canceled or superseded.
        UnknownTypeError: its type no longer exists.
        InvalidPayloadError: its payload is not valid for its type.
        TooLargeError: its result is too large to store.
        CounterfoilError: raised by the type.
    """
    with attempt.database.tenant(attempt.tenant_id) as connection:
        given = store.load_input(connection, attempt.work_id)
    if given is None:
        raise StaleClaimError(f"The task {attempt.work_id} no longer exists")
    type_ = TYPES.get(given.task_type)
    if type_ is None:
        raise UnknownTypeError(f"The task_type {given.task_type} no longer exists.")
    payload = type_.read(_payload(given, services.bucket))
    attempt.deadline.check()
    found = type_.run(attempt, payload, services)
    result = found if isinstance(found, TaskResult) else TaskResult(found, lambda _connection: Effects())
    content = payloads.validate_size(result.result, "result")
    attempt.deadline.check()

    def effects(connection: Connection) -> Effects:
        done = result.effects(connection)
        store.write_result(connection, attempt.work_id, content, attempt.now())
        return done

    return Succeeded(effects)


def _payload(given: TaskInput, bucket: str | None) -> payloads.Payload:
    if given.payload is not None:
        return given.payload
    if bucket is None:
        raise InvalidSettingsError("UPLOADS_BUCKET is not set. Large payloads require a bucket.")
    assert given.payload_s3_key is not None  # the row has one of the two
    return payloads.read(bucket, given.payload_s3_key)
