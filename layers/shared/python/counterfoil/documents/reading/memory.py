"""What services said about a document's pages, kept: who asks the same again pays nothing."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Database

_KEPT = "SELECT question, answer FROM reading WHERE document_id = %(id)s AND question = ANY(%(questions)s)"

_KEEP = """
INSERT INTO reading (tenant_id, document_id, question, answer, read_by, read_at)
VALUES (%(tenant)s, %(id)s, %(question)s, %(answer)s, %(by)s, %(now)s)
ON CONFLICT (document_id, question) DO NOTHING
"""


class Memory:
    """The answers about one document, each in a transaction of its own."""

    def __init__(self, database: Database, tenant_id: UUID, document_id: UUID, now: Callable[[], datetime]) -> None:
        self._database = database
        self._tenant_id = tenant_id
        self._document_id = document_id
        self._now = now
        self.added = 0
        """Answers that were kept since: what a next try need not ask for."""

    def find(self, questions: Iterable[bytes]) -> dict[bytes, Any]:
        """The answers to these questions, where there are any. Raises as `Database.tenant`."""
        with self._database.tenant(self._tenant_id) as connection:
            found = connection.execute(_KEPT, {"id": self._document_id, "questions": list(questions)})
            return dict(found.fetchall())

    def keep(self, question: bytes, answer: Any, by: str) -> None:
        """Keep an answer, unless the question has one. Raises as `Database.tenant`."""
        values = {
            "tenant": self._tenant_id,
            "id": self._document_id,
            "question": question,
            "answer": Jsonb(answer),
            "by": by,
            "now": self._now(),
        }
        with self._database.tenant(self._tenant_id) as connection:
            connection.execute(_KEEP, values)
        self.added += 1
