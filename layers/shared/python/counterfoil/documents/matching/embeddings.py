"""The vectors of what documents are about: asked of an embedding model, and kept (table `document_embedding`).

A vector is asked for once for a text and a model, before the document is matched and outside any transaction; documents
of a tenant with the same text share it. The first one stands, until the document says something else or another model
is configured. Matching reads what is kept and asks nobody, whatever is configured: so everyone who decides sees the
same.

A model that fails, or a budget that is used up, fails no document: it is matched by its other keys, and each later
match of it asks again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isfinite
from threading import Event
from typing import Any
from uuid import UUID

from aws_lambda_powertools import Logger

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.documents.matching import meaning, store
from counterfoil.documents.matching.keys import PARENTS
from counterfoil.errors import (
    BreakerOpenError,
    CancelledError,
    InvalidAnswerError,
    RejectedRequestError,
    ServiceUnavailableError,
    sentence,
)
from counterfoil.llm import BudgetSpentError, Consults, Question, Vector
from counterfoil.metrics import Metric, record

_FAILURES = (ServiceUnavailableError, InvalidAnswerError, RejectedRequestError, BreakerOpenError, BudgetSpentError)
_SHARE = 0.5
"""Of the time that a try has: what is left of it is for matching without the model's answer."""

logger = Logger()

# The vector of another document with the same text, else the one given, if any. A document that was removed meanwhile
# has none. Who read this one without the vector has to look again (`key_loss`), but nobody has that could not find it.
_KEEP = """
WITH here AS (
    SELECT id FROM document WHERE id = %(id)s FOR KEY SHARE
),
same AS (
    SELECT signature, vector FROM document_embedding
    WHERE tenant_id = %(tenant)s AND text_hash = %(text_hash)s AND model = %(model)s
    ORDER BY document_id LIMIT 1
),
vectors AS (
    SELECT * FROM same
    UNION ALL
    SELECT %(signature)s::bytea, %(vector)s::halfvec
    WHERE %(signature)s::bytea IS NOT NULL AND NOT EXISTS (SELECT FROM same)
),
kept AS (
    INSERT INTO document_embedding (tenant_id, document_id, text_hash, model, signature, vector)
    SELECT %(tenant)s, here.id, %(text_hash)s, %(model)s, vectors.signature, vectors.vector FROM here, vectors
    ON CONFLICT (document_id) DO UPDATE
    SET text_hash = excluded.text_hash, model = excluded.model, signature = excluded.signature, vector = excluded.vector
    WHERE (document_embedding.text_hash, document_embedding.model) <> (excluded.text_hash, excluded.model)
    RETURNING document_id
),
noted AS (
    INSERT INTO key_loss (tenant_id)
    SELECT %(tenant)s FROM kept
    WHERE EXISTS (SELECT FROM document_key k WHERE k.document_id = kept.document_id)
       OR EXISTS (SELECT FROM match_decision d WHERE d.a = kept.document_id)
       OR EXISTS (SELECT FROM match_decision d WHERE d.b = kept.document_id)
    ON CONFLICT (tenant_id) DO UPDATE SET written_by = pg_current_xact_id()
)
SELECT EXISTS (SELECT FROM vectors)
"""


@dataclass(frozen=True)
class Embedder:
    """The embedding model as one try at one document uses it."""

    model: str
    """Its name, with its provider's: what vectors are kept under."""
    make: Callable[[], Consults]
    """Makes what is asked, where somebody is to be asked."""
    time_left: Callable[[], float]
    cancelled: Event
    check: Callable[[], None] = lambda: None
    """Raises where the try must not go on."""

    def embed(self, database: Database, tenant_id: UUID, document_id: UUID) -> None:
        """See to it that the vector of what a document says is kept, if it can be had.

        Raises:
            CancelledError: the try was stopped.
            CounterfoilError: mapped from psycopg's errors, or what `check` raises. A model that fails raises nothing.
        """
        text = retry_conflicts(partial(_text_without_vector, database, tenant_id, document_id, self.model))
        if not text:
            return
        try:
            vector = self._ask(Question("", text, "embedding", tenant_id, document_id))
        except (*_FAILURES, CancelledError) as error:
            if isinstance(error, CancelledError) and self.cancelled.is_set():
                raise
            record({Metric.UNEMBEDDED: 1})
            logger.warning(
                "A document is matched without a vector", work_id=str(document_id), error=sentence(error, for_log=True)
            )
            return
        retry_conflicts(partial(_keep_new, database, tenant_id, document_id, text, self.model, vector))

    def _ask(self, question: Question) -> Vector:
        """The vector of a text, in the share of the time left that is there for it."""
        left = self.time_left()
        reserved = left * (1 - _SHARE) if isfinite(left) else 0.0
        model = self.make()
        return model.consult(
            question,
            Vector,
            time_left=lambda: self.time_left() - reserved,
            cancelled=self.cancelled,
            check=self.check,
        ).said


def _text_without_vector(database: Database, tenant_id: UUID, document_id: UUID, model: str) -> str:
    """The text that a vector has to be asked for; empty where there is nothing to ask."""
    with database.tenant(tenant_id, by_index=True) as connection:
        content = store.begin(connection, [document_id])[1].get(document_id)
        if content is None:
            return ""
        kind, _, data, kept = content
        text = meaning.text(data) if data and kind in PARENTS else ""
        if kept is not None and kept[:2] == (meaning.text_hash(text), model):
            return ""
        return "" if text and _keep(connection, tenant_id, document_id, text, model) else text


def _keep_new(database: Database, tenant_id: UUID, document_id: UUID, text: str, model: str, vector: Vector) -> None:
    with database.tenant(tenant_id) as connection:
        _keep(connection, tenant_id, document_id, text, model, vector)


def _keep(
    connection: Connection, tenant_id: UUID, document_id: UUID, text: str, model: str, vector: Vector | None = None
) -> bool:
    """Keep the vector of a text, or the one that another document has of it. False where there is none."""
    unit = None if vector is None else vector.unit()
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "id": document_id,
        "text_hash": meaning.text_hash(text),
        "model": model,
        "signature": None if unit is None else meaning.signature(unit),
        "vector": None if unit is None else str(unit),
    }
    return bool(connection.execute(_KEEP, values).fetchall()[0][0])
