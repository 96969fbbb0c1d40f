"""A conversation is deleted by its user: nothing of what was said stays, neither in it nor in its tasks."""

from datetime import datetime
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.tasks import store
from counterfoil.tasks.chat import sessions


def delete(connection: Connection, session_id: UUID, user_id: str | None, now: datetime) -> None:
    """Delete a conversation of this user, in a transaction of its tenant.

    Messages that wait for an answer are cancelled: a try under way finds its claim gone, and changes nothing any more.
    Tasks stay as they ended, without their payloads and results, which go with any conversation (migration 0041).

    Raises:
        NoSessionError: there is no such conversation of this user.
    """
    jobs = sessions.lock(connection, session_id, user_id)
    store.withdraw(connection, jobs, now, "Its session was deleted.")
    connection.execute("DELETE FROM chat_session WHERE id = %s", [session_id])  # its messages go with it
