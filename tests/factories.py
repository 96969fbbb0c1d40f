"""Create rows for tests: tenants, documents, tasks, profiles and offers."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from counterfoil.db import Connection
from counterfoil.offers.profiles import internal_id

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def make_tenant(connection: Connection, slug: str = "acme") -> UUID:
    """Create a tenant with its own organization and return the tenant id."""
    row = connection.execute(
        """
        WITH made AS (INSERT INTO organization (name) VALUES (%(slug)s) RETURNING id)
        INSERT INTO tenant (organization_id, slug, name) SELECT id, %(slug)s, %(slug)s FROM made RETURNING id
        """,
        {"slug": slug},
    ).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def make_source(connection: Connection, tenant_id: UUID) -> UUID:
    """Create a source with its acquisition job, and return the source's id."""
    job_id = uuid4()
    connection.execute(
        """
        INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status)
        VALUES (%(id)s, %(tenant)s, 'uploads', %(key)s, '00', 1, %(now)s, 'succeeded')
        """,
        {"id": job_id, "tenant": tenant_id, "key": f"uploads/{job_id}", "now": NOW},
    )
    row = connection.execute(
        """
        INSERT INTO source (tenant_id, job_id, kind, bucket, key, received_at)
        VALUES (%(tenant)s, %(job)s, 'upload', 'uploads', %(key)s, %(now)s) RETURNING id
        """,
        {"tenant": tenant_id, "job": job_id, "key": f"uploads/{job_id}", "now": NOW},
    ).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def make_document(
    connection: Connection,
    tenant_id: UUID,
    structured_data: dict[str, Any] | None = None,
    *,
    type: str | None = None,  # noqa: A002  # named like the column
    received_at: datetime = NOW,
    **columns: Any,
) -> UUID:
    """Create a document with its own source and unique content; return its id.

    `columns` sets other columns by name, for example `matching_status="pending"`, `matching_revision=1`.
    """
    document_id: UUID = columns.pop("id", None) or uuid4()
    values = {
        "id": document_id,
        "tenant_id": tenant_id,
        "source_id": make_source(connection, tenant_id),
        "bucket": "uploads",
        "key": f"uploads/{document_id}.xml",
        "file_name": f"{document_id}.xml",
        "size": 1,
        "content_hash": hashlib.sha256(document_id.bytes).digest(),
        "received_at": received_at,
        "last_duplicate_at": received_at,
        "type": type,
        "structured_data": None if structured_data is None else json.dumps(structured_data),
        **columns,
    }
    names, placeholders = ", ".join(values), ", ".join(f"%({name})s" for name in values)
    connection.execute(f"INSERT INTO document ({names}) VALUES ({placeholders})".encode(), values)
    return document_id


def make_destination(
    connection: Connection, tenant_id: UUID, name: str = "office", *, url: str | None = None, **columns: Any
) -> UUID:
    """Create a destination for clusters and documents, and return its id.

    With `url`, the destination is a webhook without a secret. Otherwise, it is an export to S3.
    """
    values = {
        "id": uuid4(),
        "tenant_id": tenant_id,
        "name": name,
        "kind": "s3" if url is None else "webhook",
        "url": url,
        "prefix": name if url is None else None,
        "events": ["cluster", "document"],
        "created_at": NOW,
        **columns,
    }
    names, placeholders = ", ".join(values), ", ".join(f"%({name})s" for name in values)
    connection.execute(f"INSERT INTO destination ({names}) VALUES ({placeholders})".encode(), values)
    return UUID(str(values["id"]))


def make_task(connection: Connection, tenant_id: UUID, **columns: Any) -> UUID:
    """Create a pending task of revision 1 without a message, and return its id."""
    values = {
        "id": uuid4(),
        "tenant_id": tenant_id,
        "task_type": "echo",
        "payload": '{"say": "hello"}',
        "payload_hash": bytes(32),
        "max_retry": 5,
        "idempotency_key": str(uuid4()),
        "created_at": NOW,
        "revision": 1,
        **columns,
    }
    names, placeholders = ", ".join(values), ", ".join(f"%({name})s" for name in values)
    connection.execute(f"INSERT INTO task ({names}) VALUES ({placeholders})".encode(), values)
    return UUID(str(values["id"]))


def make_profile(connection: Connection, tenant_id: UUID, *, external_id: UUID | None = None, **columns: Any) -> UUID:
    """Create a profile in Berlin and return its internal id.

    It seeks all genders and ages within 100 km.
    """
    external_id = external_id or uuid4()
    values = {
        "user_id": internal_id(tenant_id, external_id),
        "external_id": external_id,
        "tenant_id": tenant_id,
        "timezone": "Europe/Berlin",
        "birth_date": date(1990, 1, 1),
        "gender": "woman",
        "seeks_genders": ["woman", "man", "nonbinary"],
        "min_age": 18,
        "max_age": 120,
        "latitude": 52.5,
        "longitude": 13.4,
        "max_distance_km": 100,
        "updated_at": NOW,
        **columns,
    }
    names, placeholders = ", ".join(values), ", ".join(f"%({name})s" for name in values)
    connection.execute(f"INSERT INTO profile ({names}) VALUES ({placeholders})".encode(), values)
    return UUID(str(values["user_id"]))


def make_held_mail(connection: Connection, tenant_id: UUID, **columns: Any) -> UUID:
    """Create an email that is on hold because it fails DMARC; return its source id.

    Its acquisition job has ended.
    """
    values = {
        "id": uuid4(),
        "tenant_id": tenant_id,
        "job_id": uuid4(),
        "received_at": NOW,
        "sender": "Nordwind GmbH <buchhaltung@nordwind.example>",
        "subject": "Ihre Rechnung 2026-17",
        "hold": "held",
        **columns,
    }
    connection.execute(
        """
        WITH job AS (
            INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status, skip_reason)
            VALUES (%(job_id)s, %(tenant_id)s, 'uploads', 'inbox/' || %(id)s, '00', 1, now(), NULL, 'On hold')
        )
        INSERT INTO source (id, tenant_id, job_id, kind, bucket, key, received_at, sender, subject,
                            rejection_reason, spf, dkim, dmarc, hold)
        VALUES (%(id)s, %(tenant_id)s, %(job_id)s, 'mail', 'uploads', 'inbox/' || %(id)s, %(received_at)s, %(sender)s,
                %(subject)s, 'on_hold', 'fail', 'none', 'fail', %(hold)s)
        """,
        values,
    )
    return UUID(str(values["id"]))


def make_pool(connection: Connection, tenant_id: UUID, **columns: Any) -> UUID:
    """Create a pool without users for the date of NOW, and return its id."""
    rules = {"max_offers": 5, "max_candidates": 1000, "max_exposure": None, "repeat_interval_days": 30}
    values = {
        "id": uuid4(),
        "tenant_id": tenant_id,
        "date": NOW.date(),
        "timezone": f"Nowhere/{uuid4()}",
        "offered_at": NOW,
        "expires_at": NOW + timedelta(days=1),
        "algorithm_version": 1,
        "rules": json.dumps(rules),
        "user_count": 0,
        "profiles_hash": hashlib.sha256().digest(),
        "pinned_at": NOW,
        **columns,
    }
    names, placeholders = ", ".join(values), ", ".join(f"%({name})s" for name in values)
    connection.execute(f"INSERT INTO offer_pool ({names}) VALUES ({placeholders})".encode(), values)
    return UUID(str(values["id"]))


def make_shard(
    connection: Connection,
    tenant_id: UUID,
    users: Sequence[UUID] = (),
    *,
    pool_id: UUID | None = None,
    **columns: Any,
) -> UUID:
    """Create a pending shard of revision 1 and return its id.

    If `pool_id` is None, a new pool is created. If `users` is empty, the shard gets one unknown user.
    """
    values = {
        "id": uuid4(),
        "tenant_id": tenant_id,
        "pool_id": pool_id or make_pool(connection, tenant_id),
        "name": "0",
        "created_at": NOW,
        "users": sorted(users) or [uuid4()],
        "revision": 1,
        **columns,
    }
    names, placeholders = ", ".join(values), ", ".join(f"%({name})s" for name in values)
    connection.execute(
        f"INSERT INTO offer_shard ({names}, date, timezone) SELECT {placeholders}, date, timezone FROM offer_pool "
        "WHERE id = %(pool_id)s".encode(),
        values,
    )
    return UUID(str(values["id"]))


def make_jobs(connection: Connection, shard_id: UUID) -> None:
    """Create pending jobs for a shard's users."""
    connection.execute(
        """
        INSERT INTO matchmaking_jobs (date, timezone, user_id, status, tenant_id, shard_id)
        SELECT date, timezone, unnest(users), 'pending', tenant_id, id FROM offer_shard WHERE id = %s
        """,
        [shard_id],
    )
