"""Requests for output: which destinations of a tenant are owed something, in the transaction that makes it so."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid5

from counterfoil.db import Connection
from counterfoil.delivery.letters import settle
from counterfoil.documents.output.payload import SCHEMA_VERSION
from counterfoil.documents.output.subjects import cluster
from counterfoil.work import JOB_NAMESPACE, KINDS, Send, begin

WORKER = "document_output"
CHANGED = "There is something newer to tell, which is delivered instead."
Subject = Literal["cluster", "document", "offers"]

_DESTINATIONS = "SELECT id FROM destination WHERE tenant_id = %s AND disabled_at IS NULL AND %s = ANY(events)"

# The jobs in the order of their ids, as claims lock them. One whose payload is what it was is left alone.
_REQUEST = """
INSERT INTO output_job AS job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                               requested_at, created_at)
SELECT wanted.id, %(tenant)s, wanted.destination_id, %(subject)s, %(subject_id)s, %(version)s, %(payload)s::jsonb,
       %(now)s, %(now)s
FROM unnest(%(ids)s::uuid[], %(destinations)s::uuid[]) AS wanted (id, destination_id)
WHERE %(payload)s::jsonb <> 'null' OR EXISTS (
    SELECT FROM output_job told WHERE (told.destination_id, told.subject, told.subject_id)
        = (wanted.destination_id, %(subject)s, %(subject_id)s)
)
ORDER BY wanted.id
ON CONFLICT (destination_id, subject, subject_id) DO UPDATE SET schema_version = excluded.schema_version,
    payload = excluded.payload, requested_at = excluded.requested_at, delivered_at = NULL, response_status = NULL
WHERE job.payload <> excluded.payload
RETURNING id, coalesce(old.status = 'failed', false)
"""


def job_id(destination_id: UUID, subject: Subject, subject_id: UUID) -> UUID:
    """The id of a new job that delivers a subject to a destination. It stays the same for ever.

    Jobs of documents are inserted by a trigger, with other ids (migrations/0013.webhooks.sql).
    """
    return uuid5(JOB_NAMESPACE, f"{WORKER}/{destination_id}/{subject}/{subject_id}")


def request(  # who is told what about whom
    connection: Connection,
    tenant_id: UUID,
    subject: Subject,
    subject_id: UUID,
    payload: Mapping[str, Any] | None,
    now: datetime,
) -> list[Send]:
    """Owe `payload` to every active destination of the tenant that wants this event, in the caller's transaction.

    Returns the messages that are owed now. Where a destination was last owed the same, nothing is: so a request may be
    repeated. `payload` is the `data` of the body, for offers (whose subject is a shard of users) how many were served,
    for a cluster what was found out about it: its documents and matches are added here, as they are. None, or a cluster
    without documents, says that the subject exists no more, which only those are told who were told of it before.
    """
    found = connection.execute(_DESTINATIONS, [tenant_id, subject]).fetchall()
    destinations: list[UUID] = [row[0] for row in found]
    if not destinations:
        return []
    if subject == "cluster" and payload is not None:
        told = cluster(connection, tenant_id, subject_id, payload)
    else:
        told = None if payload is None else json.dumps(payload, allow_nan=False)
    changed = connection.execute(
        _REQUEST,
        {
            "tenant": tenant_id,
            "subject": subject,
            "subject_id": subject_id,
            "version": SCHEMA_VERSION,
            "payload": told or "null",
            "now": now,
            "ids": [job_id(destination, subject, subject_id) for destination in destinations],
            "destinations": destinations,
        },
    ).fetchall()
    failed = [id_ for id_, had_failed in changed if had_failed]
    if failed:
        settle(connection, [KINDS[WORKER].job_id(id_) for id_ in failed], "retried", now, actor=WORKER, note=CHANGED)
    return begin(connection, WORKER, [row[0] for row in changed], now) if changed else []
