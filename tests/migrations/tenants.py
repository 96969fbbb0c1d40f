"""Sample rows for every tenant table, and helpers for the schema tests."""

from uuid import UUID, uuid4

import psycopg
from psycopg.sql import SQL, Identifier

from counterfoil.db import Connection
from tests import factories

JOB = """INSERT INTO {} (id, tenant_id, bucket, key, sequencer, size, created_at)
         VALUES (%(id)s, %(tenant)s, 'uploads', %(id)s::text, '00', 1, now())"""
MESSAGE = "(tenant_id, worker, work_id, revision, {}) VALUES (%(tenant)s, 'matching', %(id)s, 1, {})"
PROFILE = """(user_id, external_id, tenant_id, timezone, birth_date, gender, seeks_genders, min_age, max_age, latitude,
              longitude, max_distance_km, updated_at)
             VALUES (%(id)s, %(id)s, %(tenant)s, 'Europe/Berlin', '1990-01-01', 'woman', '{{man}}', 18, 40, 52.5, 13.4,
                     50, now())"""
POOL = """(id, tenant_id, date, timezone, offered_at, expires_at, algorithm_version, rules, user_count, profiles_hash,
pinned_at)
          VALUES (%(id)s, %(tenant)s, '2026-01-01', %(id)s::text, now(), now() + '1 day', 1, '{{}}', 1, sha256('a'),
                  now())"""
ROWS = {
    "acquisition_job": JOB,
    "source": """INSERT INTO {} (tenant_id, job_id, kind, bucket, key, received_at)
                 VALUES (%(tenant)s, %(job)s, 'upload', 'uploads', 'key', now())""",
    "document": """INSERT INTO {} (tenant_id, source_id, bucket, key, file_name, size, content_hash,
                                   received_at, last_duplicate_at)
                   VALUES (%(tenant)s, %(source)s, 'uploads', 'key', 'name', 1, sha256(%(id)s::text::bytea),
                           now(), now())""",
    "ingestion_job": "INSERT INTO {} (id, tenant_id, created_at) VALUES (%(a)s, %(tenant)s, now())",
    "document_key": """INSERT INTO {} (tenant_id, document_id, type, value)
                       VALUES (%(tenant)s, %(a)s, 'number', %(id)s::text)""",
    "document_word": """INSERT INTO {} (tenant_id, document_id, word, received_at)
                        VALUES (%(tenant)s, %(a)s, %(id)s::text, now())""",
    "key_deletion": "INSERT INTO {} (tenant_id) VALUES (%(tenant)s)",
    "document_embedding": """INSERT INTO {} (tenant_id, document_id, text_hash, model, signature, vector)
                             VALUES (%(tenant)s, CASE WHEN EXISTS (SELECT FROM document_embedding
                                                                   WHERE document_id = %(a)s)
                                                      THEN %(b)s ELSE %(a)s END,
                                     sha256('text'), 'openai/m', '\\x00', '[0.6, 0.8]')""",
    "document_match": """INSERT INTO {} (tenant_id, document_a_id, document_b_id, score, confidence, evidence,
                                         decided_by, reasoning, decided_at)
                         VALUES (%(tenant)s, %(a)s, %(b)s, 1, 'high', '{{}}', 'rules', '', now())""",
    "match_decision": """INSERT INTO {} (tenant_id, document_a_id, document_b_id, decision, decided_by, decided_at)
                         VALUES (%(tenant)s, %(a)s, %(b)s, 'rejected', 'clerk', now())""",
    "variance_decision": """INSERT INTO {} (tenant_id, document_id, code, expected, actual, decision, decided_by,
                                                decided_at)
                            VALUES (%(tenant)s, %(a)s, 'price_mismatch', 1, 2, 'accepted', 'clerk', now())""",
    "document_review": """INSERT INTO {}
        (document_id, tenant_id, type, ambiguous_matches, probability, weights_version, opened_at, changed_at)
                          VALUES (%(a)s, %(tenant)s, 'invoice', '[]', 0.5, 'w', now(), now())""",
    "llm_call": """INSERT INTO {} (id, tenant_id, work_id, purpose, provider, model, outcome, latency_ms, created_at)
                   VALUES (%(id)s, %(tenant)s, %(a)s, 'matching', 'openai', 'm', 'answered', 1, now())""",
    "llm_judgment": """INSERT INTO {} (tenant_id, document_id, question, answer, model, answered_at)
                    VALUES (%(tenant)s, %(a)s, uuid_send(%(id)s), '{{}}', 'm', now())""",
    "llm_judgment_candidate": """WITH made AS (
                                  INSERT INTO llm_judgment (tenant_id, document_id, question, answer, model,
                                      answered_at)
                                  VALUES (%(tenant)s, %(a)s, uuid_send(%(id)s), '{{}}', 'm', now())
                                  RETURNING tenant_id, document_id, question)
                              INSERT INTO {} (tenant_id, document_id, question, label, candidate_id, document_text)
                              SELECT tenant_id, document_id, question, 'A1', %(b)s, '{{}}' FROM made""",
    "llm_daily_usage": """INSERT INTO {} (tenant_id, day, calls)
                  VALUES (%(tenant)s, now()::date + (SELECT count(*)::int FROM llm_daily_usage), 1)""",
    "page_reading_cache": """INSERT INTO {} (tenant_id, document_id, cache_key, answer, provider, created_at)
                  VALUES (%(tenant)s, %(a)s, uuid_send(%(id)s), '{{}}', 'm', now())""",
    "outbox": "INSERT INTO {} " + MESSAGE.format("send_number, scheduled_at, created_at", "0, now(), now()"),
    "dead_letter": """INSERT INTO {} (job_id, task_type, payload, metadata, attempts, fingerprint,
                                      dlq_reason, dlq_timestamp, tenant_id, worker, work_id, revision)
                      VALUES (%(id)s, 'matching', '{{}}', '{{}}', 3, 'f',
                              'max_retries_exceeded', now(), %(tenant)s, 'matching', %(id)s, 1)""",
    "dead_letter_group": """INSERT INTO {} (tenant_id, fingerprint, worker, error_type, message, words, first_seen)
                            VALUES (%(tenant)s, %(id)s::text, 'matching', 'Error', '', '{{}}', now())""",
    "dead_letter_word": """WITH made AS (
                               INSERT INTO dead_letter (job_id, task_type, payload, metadata, attempts, fingerprint,
                                                        dlq_reason, dlq_timestamp, tenant_id, worker)
                               VALUES (%(id)s, 'matching', '{{}}', '{{}}', 3, 'f', 'max_retries_exceeded', now(),
                                       %(tenant)s, 'matching') RETURNING job_id, tenant_id)
                           INSERT INTO {} (job_id, tenant_id, word, dlq_timestamp)
                           SELECT job_id, tenant_id, 'word', now() FROM made""",
    "dead_letter_count": """INSERT INTO {} (tenant_id, fingerprint, task_type, status, delta, last_at)
                            VALUES (%(tenant)s, 'f', 'matching', 'pending', 1, now())""",
    "operation": """INSERT INTO {} (tenant_id, action, rate, requested_by, requested_at, last_step_at)
                                VALUES (%(tenant)s, 'retry', 1, 'clerk', now(), now())""",
    "operation_item": """WITH made AS (
                                         INSERT INTO operation (tenant_id, action, rate, requested_by,
                                                                            requested_at, last_step_at)
                                         VALUES (%(tenant)s, 'retry', 1, 'clerk', now(), now())
                                         RETURNING id, tenant_id)
                                     INSERT INTO {} (operation_id, number, tenant_id, job_id)
                                     SELECT id, 1, tenant_id, id FROM made""",
    "dead_letter_audit": """INSERT INTO {} (tenant_id, job_id, action, actor, recorded_at)
                            VALUES (%(tenant)s, %(id)s, 'retry', 'clerk', now())""",
    "audit_entry": """INSERT INTO {} (tenant_id, number, recorded_at, actor, action, targets, previous_hash, hash)
                      SELECT %(tenant)s, coalesce(max(number), 0) + 1, now(), 'clerk', 'resolved', '{{}}', max(hash),
                             sha256('entry')
                      FROM (SELECT number, hash FROM audit_entry WHERE tenant_id = %(tenant)s
                            ORDER BY number DESC LIMIT 1) AS last""",
    "audit_head": """INSERT INTO {} (tenant_id, number, hash) VALUES (%(tenant)s, 1, sha256('entry'))
                     ON CONFLICT DO NOTHING""",
    "failure_event": """INSERT INTO {} (tenant_id, worker, job_id, revision, fingerprint, payload, created_at)
                       VALUES (%(tenant)s, 'matching', %(id)s, 1, 'f', '{{}}', now())""",
    "tenant_admin": "INSERT INTO {} (tenant_id, email) VALUES (%(tenant)s, %(id)s::text || '@example.com')",
    "person": """INSERT INTO {} (tenant_id, subject, email)
                 VALUES (%(tenant)s, %(id)s::text, %(id)s::text || '@example.com')""",
    "tenant_address": "INSERT INTO {} (tenant_id, address) VALUES (%(tenant)s, %(id)s::text || '@example.com')",
    "notification_digest": """INSERT INTO {} (id, tenant_id, fingerprint, created_at)
                              VALUES (%(id)s, %(tenant)s, 'f', now())""",
    "notification_delivery": """WITH made AS (
                              INSERT INTO notification_digest (id, tenant_id, fingerprint, created_at)
                              VALUES (%(id)s, %(tenant)s, 'f', now()) RETURNING id, tenant_id)
                          INSERT INTO {} (digest_id, tenant_id, channel, recipient, next_attempt_at)
                          SELECT id, tenant_id, 'email', 'them@example.com', now() FROM made""",
    "document_deletion": """INSERT INTO {} (document_id, tenant_id, source_id, bucket, key, file_name, content_hash,
                                           received_at, deleted_at, deleted_by)
                           VALUES (%(id)s, %(tenant)s, %(source)s, 'uploads', 'key', 'name',
                                   sha256(%(id)s::text::bytea), now(), now(), 'clerk')""",
    "document_replacement": """INSERT INTO {} (tenant_id, bucket, key, document_id, requested_by, requested_at)
                               VALUES (%(tenant)s, 'uploads', %(id)s::text, %(a)s, 'clerk', now())""",
    "document_duplicate_file": """INSERT INTO {} (tenant_id, document_id, source_id, bucket, key, file_name)
                        VALUES (%(tenant)s, %(id)s, %(source)s, 'uploads', 'key', 'name')""",
    "cluster_diagnostics": "INSERT INTO {} (id, tenant_id, created_at) VALUES (%(id)s, %(tenant)s, now())",
    "tolerance": "INSERT INTO {} (tenant_id, variance_type, article) VALUES (%(tenant)s, 'price', %(id)s::text)",
    "destination": """INSERT INTO {} (tenant_id, name, kind, prefix, events, created_at)
                      VALUES (%(tenant)s, %(id)s::text, 's3', 'out', '{{cluster}}', now())""",
    "destination_secret": """INSERT INTO {} (id, tenant_id, destination_id, secret, created_at, expires_at)
                             VALUES (%(id)s, %(tenant)s, %(destination)s, repeat('s', 32), now(),
                                     CASE WHEN EXISTS (SELECT FROM destination_secret
                                                       WHERE destination_id = %(destination)s) THEN now() END)""",
    "output_job": """INSERT INTO {} (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                                     requested_at, created_at)
                     VALUES (%(id)s, %(tenant)s, %(destination)s, 'cluster', %(id)s, 1, '{{}}', now(), now())""",
    "task": """INSERT INTO {} (id, tenant_id, task_type, payload, payload_hash, max_retry, idempotency_key,
                               created_at)
               VALUES (%(id)s, %(tenant)s, 'echo', '{{}}', sha256('{{}}'), 5, %(id)s::text, now())""",
    "payload_deletion": """INSERT INTO {} (key, tenant_id, due_at)
                          VALUES ('tasks/' || %(tenant)s || '/' || %(id)s, %(tenant)s, now())""",
    "finished_work": """INSERT INTO {} (tenant_id, worker, outcome, ended_at)
                     VALUES (%(tenant)s, 'tasks', 'succeeded', now())""",
    "queue_minute_stats": """INSERT INTO {} (tenant_id, worker, minute, pending)
                       SELECT %(tenant)s, 'tasks', coalesce(max(minute), '2026-01-01'::timestamptz) + '1 minute', 1
                       FROM queue_minute_stats WHERE tenant_id = %(tenant)s""",
    "rate_limit_bucket": "INSERT INTO {} (tenant_id, tokens, refilled_at) VALUES (%(tenant)s, 1, now())",
    "work_attempt": """INSERT INTO {} (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome)
                       VALUES (%(tenant)s, 'tasks', %(id)s, 1, 1, now(), now(), 'succeeded')""",
    "profile": "INSERT INTO {} " + PROFILE,
    "user_block": f"""WITH made AS (INSERT INTO profile {PROFILE} RETURNING user_id)
                         INSERT INTO {{}} (user_id, blocked_id, blocked_external_id, tenant_id, created_at)
                         SELECT user_id, %(a)s, %(a)s, %(tenant)s, now() FROM made""",
    "offer_pool": "INSERT INTO {} " + POOL,
    "offer_shard": f"""WITH made AS (INSERT INTO offer_pool {POOL} RETURNING id, date, timezone)
                       INSERT INTO {{}} (id, tenant_id, pool_id, name, date, timezone, created_at, users)
                       SELECT id, %(tenant)s, id, '0', date, timezone, now(), ARRAY[id] FROM made""",
    "matchmaking_jobs": f"""WITH made AS (INSERT INTO profile {PROFILE} RETURNING user_id)
                            INSERT INTO {{}} (date, timezone, user_id, status, tenant_id, shard_id)
                            SELECT '2026-01-01', 'Europe/Berlin', user_id, 'pending', %(tenant)s, user_id FROM made""",
    "offers": f"""WITH made AS (INSERT INTO profile {PROFILE} RETURNING user_id),
                       job AS (INSERT INTO matchmaking_jobs (date, timezone, user_id, status, tenant_id, shard_id)
                               SELECT '2026-01-01', 'Europe/Berlin', user_id, 'pending', %(tenant)s, user_id FROM made)
                  INSERT INTO {{}} (date, user_id, candidate_id, tenant_id, id, rank, score, offered_at, expires_at)
                  SELECT '2026-01-01', user_id, %(a)s, %(tenant)s, %(id)s, 1, 1, now(), now() FROM made""",
    "chat_session": """INSERT INTO {} (id, tenant_id, user_id, created_at)
                       VALUES (%(id)s, %(tenant)s, 'clerk', now())""",
    "chat_message": """WITH made AS (
                           INSERT INTO chat_session (id, tenant_id, user_id, created_at)
                           VALUES (%(id)s, %(tenant)s, 'clerk', now()) RETURNING id, tenant_id)
                       INSERT INTO {} (session_id, tenant_id, number, role, content, job_id, tokens, created_at)
                       SELECT id, tenant_id, 1, 'user', 'Hello', id, 5, now() FROM made""",
}
"""INSERT statement for a sample row, by tenant table."""


class Tenant:
    """A tenant with two documents and everything that sample rows reference."""

    def __init__(self, admin: Connection, slug: str) -> None:
        self.id = factories.make_tenant(admin, slug)
        self.source = factories.make_source(admin, self.id)
        self.a, self.b = sorted(factories.make_document(admin, self.id, {"number": slug}) for _ in range(2))
        self.job: UUID = uuid4()
        admin.execute(SQL(JOB).format(Identifier("acquisition_job")), {"id": self.job, "tenant": self.id})
        self.destination = factories.make_destination(admin, self.id)

    def insert(self, connection: Connection, table: str, tenant: UUID | None = None) -> None:
        values = {
            "id": uuid4(),
            "tenant": tenant or self.id,
            "job": self.job,
            "source": self.source,
            "a": self.a,
            "b": self.b,
            "destination": self.destination,
        }
        connection.execute(SQL(ROWS[table]).format(Identifier(table)), values)


def is_refused(connection: Connection, statement: str) -> bool:
    try:
        connection.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege:
        return True
    return False


def rows(admin: Connection, table: str) -> list[tuple[object, ...]]:
    return admin.execute(SQL("SELECT * FROM {} AS t ORDER BY t::text").format(Identifier(table))).fetchall()
