"""The answers of a language model that are kept, and what it was asked: the SQL of `judgement`.

A question quotes documents, and any of them may be removed. So it is kept in parts: what a candidate says goes with
that candidate, the rest with the document in question. Put together again it is the very text that was asked, as its
hash says.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection

_ANSWERS = """
SELECT j.document_id, j.answer
FROM unnest(%(ids)s::uuid[], %(questions)s::bytea[]) AS asked (id, question)
JOIN judgement j ON j.document_id = asked.id AND j.question = asked.question
"""

# The first answer stands. Who asked at the same time and comes second finds it when it looks again. A document that was
# removed while the model was asked has no answers: what is there is locked, in the order that all take.
_KEEP = """
WITH here AS (
    SELECT id FROM document WHERE id = %(id)s OR id = ANY(%(candidates)s::uuid[]) ORDER BY id FOR KEY SHARE
),
kept AS (
    INSERT INTO judgement (tenant_id, document_id, question, answer, model, judged_at, prompt, system, asked,
                           temperature, input_tokens, output_tokens)
    SELECT %(tenant)s, id, %(question)s, %(answer)s, %(model)s, %(now)s, %(prompt)s, %(system)s, %(asked)s,
           %(temperature)s, %(input_tokens)s, %(output_tokens)s
    FROM here WHERE id = %(id)s
    ON CONFLICT (document_id, question) DO NOTHING
    RETURNING document_id
)
INSERT INTO judgement_candidate (tenant_id, document_id, question, label, candidate_id, says)
SELECT %(tenant)s, kept.document_id, %(question)s, offered.label, here.id, offered.says
FROM kept, unnest(%(labels)s::text[], %(candidates)s::uuid[], %(says)s::text[]) AS offered (label, id, says)
JOIN here ON here.id = offered.id
"""

_ASKED = """
SELECT j.document_id, j.question, j.answer, j.model, j.judged_at, j.prompt, j.system, j.asked, j.temperature,
       j.input_tokens, j.output_tokens, offered.labels, offered.ids, offered.says
FROM judgement j
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(label ORDER BY label), '{}') AS labels,
           coalesce(array_agg(candidate_id ORDER BY label), '{}') AS ids,
           coalesce(array_agg(says ORDER BY label), '{}') AS says
    FROM judgement_candidate c WHERE c.document_id = j.document_id AND c.question = j.question
) AS offered
WHERE j.document_id = %(id)s ORDER BY j.judged_at, j.question
"""


@dataclass(frozen=True)
class Said:
    """An answer, with all that it takes to ask again. `question` is the hash that it is kept under."""

    child: UUID
    question: bytes
    answer: Any
    model: str
    at: datetime
    prompt: str | None
    """The version of the instructions; None where the question was not kept yet."""
    system: str | None = field(repr=False)
    asked: str | None = field(repr=False)
    """The case as JSON, in which labels stand for the candidates."""
    temperature: float | None
    """None: the model's own."""
    input_tokens: int | None
    output_tokens: int | None
    offered: Mapping[str, tuple[UUID, str]] = field(repr=False)
    """Candidate, and what it says as JSON, by label; without those that were removed since."""

    @property
    def user(self) -> str | None:
        """The text that was asked; None where it was not kept, or quoted a document that was removed since."""
        if self.system is None or self.asked is None:
            return None
        text = _together(self.asked, {label: says for label, (_, says) in self.offered.items()})
        return text if hash_of(self.system, text) == self.question else None


def hash_of(system: str, user: str) -> bytes:
    """What the answer to a question is kept under."""
    return sha256(f"{system}\n{user}".encode()).digest()


def told(case: Mapping[str, Any]) -> str:
    """The text of a question. Nothing in a document can end the case: < is written as JSON writes any character."""
    return f"<case>\n{_json(case).replace('<', chr(92) + 'u003c')}\n</case>"


def apart(case: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """A case as it is kept, as JSON: with labels for the candidates; and what they say, by label."""
    groups = [
        {**group, "candidates": [candidate["candidate"] for candidate in group["candidates"]]}
        for group in case["groups"]
    ]
    says = {candidate["candidate"]: _json(candidate) for group in case["groups"] for candidate in group["candidates"]}
    return _json({**case, "groups": groups}), says


def _together(asked: str, says: Mapping[str, str]) -> str:
    """The text of a question that was taken apart. Labels without words stay labels."""
    case = json.loads(asked)
    for group in case["groups"]:
        group["candidates"] = [json.loads(says[label]) if label in says else label for label in group["candidates"]]
    return told(case)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def answers(connection: Connection, questions: Mapping[UUID, bytes]) -> dict[UUID, Any]:
    """The answers kept to questions, each about one document."""
    rows = connection.execute(_ANSWERS, {"ids": list(questions), "questions": list(questions.values())})
    return dict(rows.fetchall())


def keep(connection: Connection, tenant_id: UUID, said: Said) -> None:
    """Keep an answer, unless the question has one or its document is gone."""
    values = {
        "tenant": tenant_id,
        "id": said.child,
        "question": said.question,
        "answer": Jsonb(said.answer),
        "model": said.model,
        "now": said.at,
        "prompt": said.prompt,
        "system": said.system,
        "asked": said.asked,
        "temperature": said.temperature,
        "input_tokens": said.input_tokens,
        "output_tokens": said.output_tokens,
        "labels": list(said.offered),
        "candidates": [id_ for id_, _ in said.offered.values()],
        "says": [says for _, says in said.offered.values()],
    }
    connection.execute(_KEEP, values)


def about(connection: Connection, document_id: UUID) -> Sequence[Said]:
    """All that was asked about a document and is kept, the first question first."""
    rows = connection.execute(_ASKED, {"id": document_id}).fetchall()
    return [
        Said(*(*row[:11], {label: (id_, says) for label, id_, says in zip(*row[11:], strict=True)})) for row in rows
    ]


def candidates(said: Collection[Said]) -> frozenset[UUID]:
    """The documents that were offered, of those still there."""
    return frozenset(id_ for one in said for id_, _ in one.offered.values())
