"""A dead letter's version grows with whatever changes it, so that nobody decides about what he has not seen."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

from counterfoil.db import Connection, Database
from counterfoil.documents.renewal import settle_letters
from tests.dead_letters.letters import NOON, Die


def version(admin: Connection, job_id: UUID) -> int:
    [(found,)] = admin.execute("SELECT version FROM dead_letter WHERE job_id = %s", [job_id]).fetchall()
    return int(found)


def test_a_letter_that_a_worker_settles_has_another_version(
    database: Database, tenant_id: UUID, die: Die, admin: Connection
):
    work_id = uuid4()
    job_id = die(worker="matching", work_id=work_id)
    later = NOON + timedelta(hours=1)
    with database.tenant(tenant_id) as connection:
        settle_letters(connection, "matching", [work_id], "retried", later, actor="matching", notes="Read anew.")
    assert version(admin, job_id) == 2


def test_a_change_that_names_its_version_counts_once(die: Die, admin: Connection, settle: Callable[[UUID, str], None]):
    job_id = die()
    admin.execute("UPDATE dead_letter SET status = 'resolved', version = version + 1 WHERE job_id = %s", [job_id])
    assert version(admin, job_id) == 2
    settle(job_id, "ignored")
    assert version(admin, job_id) == 3
