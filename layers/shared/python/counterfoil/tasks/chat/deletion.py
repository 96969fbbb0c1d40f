"""A conversation is deleted by its user: nothing of what was said stays, neither in it nor in its tasks."""

from datetime import datetime
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import Operation
from counterfoil.db import Connection
from counterfoil.tasks import store
from counterfoil.tasks.chat import sessions


def delete(connection: Connection, session_id: UUID, user_id: str | None, now: datetime, *, by: str) -> None:
    """Delete a conversation of this user, in a transaction of its tenant.

    Messages that wait for an answer are cancelled: a try under way finds its claim gone, and changes nothing any more.
    Tasks stay without their payloads and results, which a trigger of chat_session deletes (migrations/0012.tasks.sql).

    Raises:
        NoSessionError: there is no such conversation of this user.
    """
    jobs = sessions.lock(connection, session_id, user_id)
    store.withdraw(connection, jobs, now, "Its session was deleted.")
    # Its messages are deleted with it.
    row = connection.execute("DELETE FROM chat_session WHERE id = %s RETURNING tenant_id", [session_id]).fetchone()
    if row is not None:
        audit.record(connection, row[0], Operation(by, "conversation deleted", [str(session_id)], now))
