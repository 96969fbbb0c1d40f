"""Work that died and was tried again by a person: its letter stays settled, or is open again with its history."""

from uuid import UUID

import pytest

from counterfoil import audit
from counterfoil.db import Connection, Database
from counterfoil.dead_letters import actions, search
from counterfoil.dead_letters.actions import NotRetriableError, Wish
from counterfoil.dead_letters.search import Details
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message, begin
from counterfoil.errors import InvalidDocumentError
from counterfoil.kinds import KINDS
from counterfoil.settings import Settings
from counterfoil.tasks.task_type import Services
from functions.tasks.work import run_task
from tests.dead_letters.trail import broken
from tests.delivery.harness import Clock, FakeSqs, done
from tests.delivery.requeued import QUEUE, Run, Task, row, sent


def breaks(attempt: TenantAttempt) -> Outcome:
    raise InvalidDocumentError("It is damaged", code="damaged_pdf")


def letter_of(database: Database, tenant: UUID, message: Message) -> Details:
    with database.tenant(tenant) as connection:
        found = search.show(connection, tenant, KINDS["tasks"].job_id(message.work_id))
    assert found is not None
    return found


def retry(database: Database, tenant: UUID, outbox: Outbox, letter: Details, clock: Clock) -> None:
    wish = Wish(letter.job_id, letter.version, "kim", clock(), "It is mended")
    outbox.send(actions.retry(database, tenant, wish, bucket=None).sends)


def test_work_that_succeeds_then_leaves_its_letter_retried(
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
    run(breaks, message)
    retry(database, tenant, outbox, letter_of(database, tenant, message), clock)
    [(again, _)] = sent(sqs, QUEUE)
    assert (again.work_id, again.revision, again.send_number) == (message.work_id, 2, 0)

    assert run(done, message) == []  # an older copy, which does nothing
    assert row(admin, message)["status"] == "pending"
    assert run(done, again) == []

    assert row(admin, message)["status"] == "succeeded"
    letter = letter_of(database, tenant, message)
    assert (letter.status, letter.resolved_by, letter.lineage) == ("retried", "kim", [])


def test_work_that_dies_again_opens_the_same_letter_with_its_history(
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
    run(breaks, message)
    first = letter_of(database, tenant, message)
    retry(database, tenant, outbox, first, clock)
    [(again, _)] = sent(sqs, QUEUE)
    run(breaks, again)

    letter = letter_of(database, tenant, message)
    assert (letter.job_id, letter.status, letter.revision, letter.resolution) == (first.job_id, "pending", 2, None)
    assert letter.version > first.version + 1
    [before] = letter.lineage
    assert (before["revision"], before["status"]) == (1, "retried")
    assert before["resolution"] == {"action": "retried", "notes": "It is mended"}
    retry(database, tenant, outbox, letter, clock)
    assert sent(sqs, QUEUE)[1][0].revision == 3
    with database.tenant(tenant) as connection:
        assert broken(connection, tenant) is None
        assert len(audit.page(connection, tenant, limit=20)) == 2


def test_work_that_was_begun_anew_in_another_way_and_succeeded_is_not_begun_again(
    run: Run, task: Task, sqs: FakeSqs, clock: Clock, database: Database, tenant: UUID, outbox: Outbox
):
    message = task()
    run(breaks, message)
    with database.tenant(tenant) as connection:
        sends = begin(connection, "tasks", [message.work_id], clock())
    letter = letter_of(database, tenant, message)
    for step in ("waits", "succeeded"):
        with pytest.raises(NotRetriableError, match=step):
            retry(database, tenant, outbox, letter, clock)
        run(done, sends[0].message)


def test_an_edited_payload_is_what_is_tried(
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
    run(breaks, message)
    letter = letter_of(database, tenant, message)
    wish = Wish(letter.job_id, letter.version, "kim", clock(), "A typing error")
    actions.edit_payload(database, tenant, wish, {"say": "bye"}, bucket=None, settings=Settings())
    assert row(admin, message)["payload"] == {"say": "hello"}

    retry(database, tenant, outbox, letter_of(database, tenant, message), clock)
    [(again, _)] = sent(sqs, QUEUE)
    assert '"say":"bye"' in sqs.sent[QUEUE][0]["MessageBody"]
    run(lambda attempt: run_task(attempt, Services()), again)

    found = row(admin, message)
    assert (found["status"], found["payload"], found["result"]) == ("succeeded", {"say": "bye"}, {"say": "bye"})


def test_an_edit_is_applied_once_and_not_at_a_later_retry(
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
    run(breaks, message)
    letter = letter_of(database, tenant, message)
    wish = Wish(letter.job_id, letter.version, "kim", clock(), "A typing error")
    actions.edit_payload(database, tenant, wish, {"say": "bye"}, bucket=None, settings=Settings())
    retry(database, tenant, outbox, letter_of(database, tenant, message), clock)
    run(breaks, sent(sqs, QUEUE)[0][0])
    again = letter_of(database, tenant, message)
    assert actions.show_payload(database, tenant, again.job_id, bucket=None).edited is None
    admin.execute("UPDATE task SET payload = '{}'")
    retry(database, tenant, outbox, again, clock)
    assert row(admin, message)["payload"] == {}
