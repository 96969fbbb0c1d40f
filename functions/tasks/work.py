"""One attempt to validate a task's payload, run the task, and store the result."""

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
        UnknownTypeError: the task type no longer exists.
        InvalidPayloadError: the payload is not valid for the task type.
        TooLargeError: the result is too large to store.
        CounterfoilError: raised by the task type.
    """
    with attempt.database.tenant(attempt.tenant_id) as connection:
        task_input = store.load_input(connection, attempt.work_id)
    if task_input is None:
        raise StaleClaimError(f"The task {attempt.work_id} no longer exists")
    type_ = TYPES.get(task_input.task_type)
    if type_ is None:
        raise UnknownTypeError(f"The task_type {task_input.task_type} no longer exists.")
    payload = type_.read(_payload(task_input, services.bucket))
    attempt.deadline.check()
    output = type_.run(attempt, payload, services)
    result = output if isinstance(output, TaskResult) else TaskResult(output, lambda _connection: Effects())
    content = payloads.validate_size(result.result, "result")
    attempt.deadline.check()

    def effects(connection: Connection) -> Effects:
        task_effects = result.effects(connection)
        store.write_result(connection, attempt.work_id, content, attempt.now())
        return task_effects

    return Succeeded(effects)


def _payload(task_input: TaskInput, bucket: str | None) -> payloads.Payload:
    if task_input.payload is not None:
        return task_input.payload
    if bucket is None:
        raise InvalidSettingsError("UPLOADS_BUCKET is not set. Large payloads require a bucket.")
    assert task_input.payload_s3_key is not None  # every row has a payload or a key
    return payloads.read(bucket, task_input.payload_s3_key)
