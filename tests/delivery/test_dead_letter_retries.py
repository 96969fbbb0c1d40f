"""Retried dead letters stay closed after a success, and reopen after a failure."""

from uuid import UUID

import pytest

from counterfoil import audit
from counterfoil.db import Connection, Database
from counterfoil.dead_letters import actions, search
from counterfoil.dead_letters.actions import ChangeRequest, NotRetryableError
from counterfoil.dead_letters.search import DeadLetterDetails
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message, start_revision
from counterfoil.errors import InvalidDocumentError
from counterfoil.kinds import WORK_KINDS
from counterfoil.settings import Settings
from counterfoil.tasks.task_type import Services
from functions.tasks.work import run_task
from tests.dead_letters.audit_trail import first_broken_entry
from tests.delivery.harness import Clock, FakeSqs, succeed
from tests.delivery.requeue_harness import QUEUE, Run, Task, sent_messages, task_row


def fail_permanently(attempt: TenantAttempt) -> Outcome:
    raise InvalidDocumentError("It is damaged", code="damaged_pdf")


def dead_letter_of(database: Database, tenant: UUID, message: Message) -> DeadLetterDetails:
    with database.tenant(tenant) as connection:
        stored = search.show(connection, tenant, WORK_KINDS["tasks"].job_id(message.work_id))
    assert stored is not None
    return stored


def retry(database: Database, tenant: UUID, outbox: Outbox, dead_letter: DeadLetterDetails, clock: Clock) -> None:
    change = ChangeRequest(dead_letter.job_id, dead_letter.version, "kim", clock(), "The cause is fixed")
    outbox.send(actions.retry(database, tenant, change, bucket=None).messages)


def test_successful_retry_leaves_dead_letter_retried(
    run: Run,
    task: Task,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    database: Database,
    tenant: UUID,
    outbox: Outbox,
):
    message = task()
    run(fail_permanently, message)
    retry(database, tenant, outbox, dead_letter_of(database, tenant, message), clock)
    [(retry_message, _)] = sent_messages(sqs, QUEUE)
    assert (retry_message.work_id, retry_message.revision, retry_message.send_number) == (message.work_id, 2, 0)

    assert run(succeed, message) == []  # an older message, which is dropped
    assert task_row(admin, message)["status"] == "pending"
    assert run(succeed, retry_message) == []

    assert task_row(admin, message)["status"] == "succeeded"
    dead_letter = dead_letter_of(database, tenant, message)
    assert (dead_letter.status, dead_letter.resolved_by, dead_letter.previous_failures) == ("retried", "kim", [])


def test_failed_retry_reopens_dead_letter_with_history(
    run: Run,
    task: Task,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    database: Database,
    tenant: UUID,
    outbox: Outbox,
):
    message = task()
    run(fail_permanently, message)
    first = dead_letter_of(database, tenant, message)
    retry(database, tenant, outbox, first, clock)
    [(retry_message, _)] = sent_messages(sqs, QUEUE)
    run(fail_permanently, retry_message)

    dead_letter = dead_letter_of(database, tenant, message)
    assert (dead_letter.job_id, dead_letter.status, dead_letter.revision, dead_letter.resolution) == (
        first.job_id,
        "pending",
        2,
        None,
    )
    assert dead_letter.version > first.version + 1
    [previous] = dead_letter.previous_failures
    assert (previous["revision"], previous["status"]) == (1, "retried")
    assert previous["resolution"] == {"action": "retried", "notes": "The cause is fixed"}
    retry(database, tenant, outbox, dead_letter, clock)
    assert sent_messages(sqs, QUEUE)[1][0].revision == 3
    with database.tenant(tenant) as connection:
        assert first_broken_entry(connection, tenant) is None
        assert len(audit.page(connection, tenant, limit=20)) == 2


def test_retry_rejects_pending_and_succeeded_work_items(
    run: Run, task: Task, sqs: FakeSqs, clock: Clock, database: Database, tenant: UUID, outbox: Outbox
):
    message = task()
    run(fail_permanently, message)
    with database.tenant(tenant) as connection:
        messages = start_revision(connection, "tasks", [message.work_id], clock())
    dead_letter = dead_letter_of(database, tenant, message)
    for step in ("pending", "succeeded"):
        with pytest.raises(NotRetryableError, match=step):
            retry(database, tenant, outbox, dead_letter, clock)
        run(succeed, messages[0].message)


def test_retry_uses_edited_payload(
    run: Run,
    task: Task,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    database: Database,
    tenant: UUID,
    outbox: Outbox,
):
    message = task()
    run(fail_permanently, message)
    dead_letter = dead_letter_of(database, tenant, message)
    change = ChangeRequest(dead_letter.job_id, dead_letter.version, "kim", clock(), "A typo")
    actions.edit_payload(database, tenant, change, {"say": "bye"}, bucket=None, settings=Settings())
    assert task_row(admin, message)["payload"] == {"say": "hello"}

    retry(database, tenant, outbox, dead_letter_of(database, tenant, message), clock)
    [(retry_message, _)] = sent_messages(sqs, QUEUE)
    assert '"say":"bye"' in sqs.sent[QUEUE][0]["MessageBody"]
    run(lambda attempt: run_task(attempt, Services()), retry_message)

    stored = task_row(admin, message)
    assert (stored["status"], stored["payload"], stored["result"]) == ("succeeded", {"say": "bye"}, {"say": "bye"})


def test_edit_applies_to_one_retry_only(
    run: Run,
    task: Task,
    admin: Connection,
    clock: Clock,
    database: Database,
    tenant: UUID,
    outbox: Outbox,
    sqs: FakeSqs,
):
    message = task()
    run(fail_permanently, message)
    dead_letter = dead_letter_of(database, tenant, message)
    change = ChangeRequest(dead_letter.job_id, dead_letter.version, "kim", clock(), "A typo")
    actions.edit_payload(database, tenant, change, {"say": "bye"}, bucket=None, settings=Settings())
    retry(database, tenant, outbox, dead_letter_of(database, tenant, message), clock)
    run(fail_permanently, sent_messages(sqs, QUEUE)[0][0])
    dead_letter_after_retry = dead_letter_of(database, tenant, message)
    assert actions.show_payload(database, tenant, dead_letter_after_retry.job_id, bucket=None).edited is None
    admin.execute("UPDATE task SET payload = '{}'")
    retry(database, tenant, outbox, dead_letter_after_retry, clock)
    assert task_row(admin, message)["payload"] == {}
