"""What was said in conversations that are no more, left behind in tasks and dead letters by earlier versions."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from cli.postgres import Server
from counterfoil.db import Connection
from functions.migrate.runner import apply, roll_back
from tests import factories
from tools.schema import MIGRATIONS

LEFT_OUT = {"payload": {"$left_out": "The task has it."}}
GONE = {"message": "(deleted)"}
SAID = {"message": "My secret"}


def letter(connection: Connection, tenant: UUID | None, worker: str, payload: object, error: str) -> UUID:
    work = None if tenant is None else uuid4()
    id_ = uuid4()
    connection.execute(
        """
        INSERT INTO dead_letter (job_id, tenant_id, worker, work_id, revision, task_type, payload, metadata, attempts,
                                 fingerprint, dlq_reason, dlq_timestamp)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 1, '0123456789abcdef', 'non_retriable_error', now())
        """,
        [id_, tenant, worker, work, work and 1, worker, Jsonb(payload), Jsonb({"last_error": {"type": error}})],
    )
    return id_


def said(connection: Connection, tenant: UUID, task: UUID) -> None:
    """A conversation that has this task's message."""
    connection.execute(
        "INSERT INTO chat_session (id, tenant_id, user_id, created_at) VALUES (%s, %s, 'ada', now())", [task, tenant]
    )
    connection.execute(
        "INSERT INTO chat_message (tenant_id, session_id, number, role, content, job_id, tokens, created_at) "
        "VALUES (%s, %s, 1, 'user', 'My secret', %s, 1, now())",
        [tenant, task, task],
    )


@pytest.fixture
def before(postgres: Server, empty_database: str, tmp_path: Path) -> tuple[str, str]:
    """A database as it was before the migration, by its address, and the last migration that it has."""
    url = postgres.url(empty_database)
    below = copytree(MIGRATIONS, tmp_path / "below")
    for path in below.glob("[0-9]*.sql"):
        if path.name >= "0041":
            path.unlink()
    return url, apply(url, below)[-1]


def test_what_was_left_behind_is_blanked_and_all_else_stays(before: tuple[str, str]) -> None:
    url, last = before
    body = {"job_id": str(uuid4()), "payload": SAID}
    message = {"message": {"revision": 1}, "dead_letter_queue_message": "m"}
    with psycopg.connect(url, autocommit=True) as connection:
        tenant = factories.make_tenant(connection)
        tasks = [
            factories.make_task(connection, tenant, task_type=type_, payload=json.dumps(SAID), result=json.dumps(SAID))
            for type_ in ("chat_completion", "chat_completion", "echo")
        ]
        said(connection, tenant, tasks[0])
        joined = {**message, "dead_letter_queue_body": json.dumps(body)}
        letters = {
            letter(connection, tenant, "tasks", joined, "WorkerLost"): message,
            letter(connection, tenant, "matching", joined, "WorkerLost"): joined,
            letter(connection, None, "tasks", {"body": json.dumps(body)}, "KeyError"): body | LEFT_OUT,
            letter(connection, None, "tasks", {"body": json.dumps(body)}, "InvalidMessageError"): body,
            letter(connection, None, "matching", {"body": json.dumps(body)}, "KeyError"): body,
        }
        cut = letter(connection, None, "tasks", {"body": "{cut", "encoding": "text"}, "RecursionError")
        counted = connection.execute("SELECT count(*), sum(number) FROM dead_letter_count").fetchone()

    apply(url, MIGRATIONS)

    with psycopg.connect(url, autocommit=True) as connection:
        found: dict[UUID, Any] = dict(connection.execute("SELECT job_id, payload FROM dead_letter").fetchall())
        assert found.pop(cut) == {"body": "{cut", "encoding": "text"}
        assert {id_: json.loads(one["body"]) if "body" in one else one for id_, one in found.items()} == letters
        by_id = {id_: rest for id_, *rest in connection.execute("SELECT id, payload, result FROM task").fetchall()}
        assert [by_id[task] for task in tasks] == [[SAID, SAID], [GONE, None], [SAID, SAID]]
        assert connection.execute("SELECT count(*), sum(number) FROM dead_letter_count").fetchone() == counted
        connection.execute("DELETE FROM tenant")  # whose conversations go with their tasks
        assert connection.execute("SELECT FROM chat_session").fetchall() == []
    roll_back(url, MIGRATIONS, to=last)
