"""Caches a document's answers from OCR and language models.

Each call is billed. The cache key of a model's answer consists of the provider, the model, the prompt version and the
user message. A different model or prompt version therefore requires a new call.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import BaseModel

from counterfoil.db import Database
from counterfoil.deadline import Deadline
from counterfoil.errors import InvalidLlmResponseError
from counterfoil.llm import BudgetExceededError, Llm, LlmRequest, LlmResponse
from counterfoil.validation import validate

_FIND = "SELECT cache_key, answer FROM page_reading_cache WHERE document_id = %(id)s AND cache_key = ANY(%(questions)s)"

_INSERT = """
INSERT INTO page_reading_cache (tenant_id, document_id, cache_key, answer, provider, created_at)
VALUES (%(tenant)s, %(id)s, %(question)s, %(answer)s, %(by)s, %(now)s)
ON CONFLICT (document_id, cache_key) DO NOTHING
"""


class AnswerCache:
    """Stored answers about one document. Each call is one transaction."""

    def __init__(self, database: Database, tenant_id: UUID, document_id: UUID, now: Callable[[], datetime]) -> None:
        self._database = database
        self._tenant_id = tenant_id
        self._document_id = document_id
        self._now = now
        self.added = 0
        """Number of answers passed to `store`, which a later attempt can use."""

    def find(self, questions: Iterable[bytes]) -> dict[bytes, Any]:
        """Return the stored answers by cache key.

        Raises the same errors as `Database.tenant`.
        """
        with self._database.tenant(self._tenant_id) as connection:
            cursor = connection.execute(_FIND, {"id": self._document_id, "questions": list(questions)})
            return dict(cursor.fetchall())

    def store(self, question: bytes, answer: Any, by: str) -> None:
        """Store an answer, unless its cache key already has one.

        `by` is the service or model that gave it.

        Raises the same errors as `Database.tenant`.
        """
        values = {
            "tenant": self._tenant_id,
            "id": self._document_id,
            "question": question,
            "answer": Jsonb(answer),
            "by": by,
            "now": self._now(),
        }
        with self._database.tenant(self._tenant_id) as connection:
            connection.execute(_INSERT, values)
        self.added += 1


M = TypeVar("M", bound=BaseModel)


class CachedLlm:
    """Language model that caches its answers about one document."""

    def __init__(self, make: Callable[[], Llm], cache: AnswerCache, tenant_id: UUID, document_id: UUID) -> None:
        """`make` creates the configured model.

        Its calls are attributed to the tenant and the document.
        """
        self._make = make
        self._cache = cache
        self._tenant_id = tenant_id
        self._document_id = document_id
        self.skip_reason: str | None = None
        """Sentence for users if the model was not called because the daily budget is spent, else None."""

    def complete_json(self, request: LlmRequest, schema: type[M], deadline: Deadline) -> LlmResponse[M]:
        """Return a cached answer, or call the model like `Llm.complete_json`.

        The call is outside any transaction.
        """
        llm = self._make()
        key_parts = (llm.provider.name, llm.provider.model, request.prompt_version, request.user)
        key = sha256("\n".join(key_parts).encode()).digest()
        cached = self._cache.find([key])
        if key in cached:
            try:
                return LlmResponse(
                    validate(schema, cached[key], lambda _: InvalidLlmResponseError("Cached with an earlier schema"))
                )
            except InvalidLlmResponseError:
                pass  # answer schemas change with the code
        try:
            response = llm.complete_json(
                replace(request, tenant_id=self._tenant_id, work_id=self._document_id), schema, deadline
            )
        except BudgetExceededError as error:
            self.skip_reason = str(error)
            raise
        self._cache.store(key, response.content.model_dump(mode="json", exclude_none=True), llm.provider.model)
        return response
