"""What the schema promises: the columns of work, tenants kept apart, and what each role may see and change."""

from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from counterfoil.db import Connection, Database
from counterfoil.work import KINDS, LIFE_CYCLE, Kind
from tests import factories
from tests.factories import NOW

JOB = """INSERT INTO {} (id, tenant_id, bucket, key, sequencer, size, created_at)
         VALUES (%(id)s, %(tenant)s, 'uploads', %(id)s::text, '00', 1, now())"""
MESSAGE = "(tenant_id, worker, work_id, revision, {}) VALUES (%(tenant)s, 'matching', %(id)s, 1, {})"
ROWS = {
    "acquisition_job": JOB,
    "source": """INSERT INTO {} (tenant_id, job_id, kind, bucket, key, received_at)
                 VALUES (%(tenant)s, %(job)s, 'upload', 'uploads', 'key', now())""",
    "document": """INSERT INTO {} (tenant_id, source_id, bucket, key, file_name, size, content_hash,
                                   received_at, last_seen_at)
                   VALUES (%(tenant)s, %(source)s, 'uploads', 'key', 'name', 1, sha256(%(id)s::text::bytea),
                           now(), now())""",
    "ingestion_job": "INSERT INTO {} (id, tenant_id, created_at) VALUES (%(a)s, %(tenant)s, now())",
    "document_key": """INSERT INTO {} (tenant_id, document_id, type, key)
                       VALUES (%(tenant)s, %(a)s, 'number', %(id)s::text)""",
    "key_loss": "INSERT INTO {} (tenant_id) VALUES (%(tenant)s)",
    "document_embedding": """INSERT INTO {} (tenant_id, document_id, text_hash, model, signature, vector)
                             VALUES (%(tenant)s, CASE WHEN EXISTS (SELECT FROM document_embedding
                                                                   WHERE document_id = %(a)s)
                                                      THEN %(b)s ELSE %(a)s END,
                                     sha256('text'), 'openai/m', '\\x00', '[0.6, 0.8]')""",
    "document_match": """INSERT INTO {} (tenant_id, a, b, score, confidence, evidence,
                                         decided_by, reasoning, decided_at)
                         VALUES (%(tenant)s, %(a)s, %(b)s, 1, 'high', '{{}}', 'rules', '', now())""",
    "match_decision": """INSERT INTO {} (tenant_id, a, b, verdict, decided_by, decided_at)
                         VALUES (%(tenant)s, %(a)s, %(b)s, 'rejected', 'somebody', now())""",
    "variance_decision": """INSERT INTO {} (tenant_id, document_id, code, expected, actual, verdict, decided_by,
                                                decided_at)
                            VALUES (%(tenant)s, %(a)s, 'price_mismatch', 1, 2, 'accepted', 'somebody', now())""",
    "document_review": """INSERT INTO {} (document_id, tenant_id, type, doubts, chance, weights, opened_at, changed_at)
                          VALUES (%(a)s, %(tenant)s, 'invoice', '[]', 0.5, 'w', now(), now())""",
    "llm_call": """INSERT INTO {} (id, tenant_id, work_id, purpose, provider, model, outcome, latency_ms, created_at)
                   VALUES (%(id)s, %(tenant)s, %(a)s, 'matching', 'openai', 'm', 'answered', 1, now())""",
    "judgement": """INSERT INTO {} (tenant_id, document_id, question, answer, model, judged_at)
                    VALUES (%(tenant)s, %(a)s, uuid_send(%(id)s), '{{}}', 'm', now())""",
    "judgement_candidate": """WITH made AS (
                                  INSERT INTO judgement (tenant_id, document_id, question, answer, model, judged_at)
                                  VALUES (%(tenant)s, %(a)s, uuid_send(%(id)s), '{{}}', 'm', now())
                                  RETURNING tenant_id, document_id, question)
                              INSERT INTO {} (tenant_id, document_id, question, label, candidate_id, says)
                              SELECT tenant_id, document_id, question, 'A1', %(b)s, '{{}}' FROM made""",
    "llm_day": """INSERT INTO {} (tenant_id, day, calls)
                  VALUES (%(tenant)s, now()::date + (SELECT count(*)::int FROM llm_day), 1)""",
    "reading": """INSERT INTO {} (tenant_id, document_id, question, answer, read_by, read_at)
                  VALUES (%(tenant)s, %(a)s, uuid_send(%(id)s), '{{}}', 'm', now())""",
    "outbox": "INSERT INTO {} " + MESSAGE.format("send_number, not_before, created_at", "0, now(), now()"),
    "dead_letter": """INSERT INTO {} (job_id, task_type, payload, metadata, attempts, fingerprint,
                                      dlq_reason, dlq_timestamp, tenant_id, worker, work_id, revision)
                      VALUES (%(id)s, 'matching', '{{}}', '{{}}', 3, 'f',
                              'max_retries_exceeded', now(), %(tenant)s, 'matching', %(id)s, 1)""",
    "dead_letter_audit": """INSERT INTO {} (tenant_id, job_id, action, actor, recorded_at)
                            VALUES (%(tenant)s, %(id)s, 'retry', 'somebody', now())""",
    "notification": """INSERT INTO {} (tenant_id, worker, job_id, revision, fingerprint, payload, created_at)
                       VALUES (%(tenant)s, 'matching', %(id)s, 1, 'f', '{{}}', now())""",
    "tenant_admin": "INSERT INTO {} (tenant_id, email) VALUES (%(tenant)s, %(id)s::text || '@example.com')",
    "tenant_address": "INSERT INTO {} (tenant_id, address) VALUES (%(tenant)s, %(id)s::text || '@example.com')",
    "notice": "INSERT INTO {} (id, tenant_id, fingerprint, created_at) VALUES (%(id)s, %(tenant)s, 'f', now())",
    "notice_delivery": """WITH made AS (
                              INSERT INTO notice (id, tenant_id, fingerprint, created_at)
                              VALUES (%(id)s, %(tenant)s, 'f', now()) RETURNING id, tenant_id)
                          INSERT INTO {} (notice_id, tenant_id, channel, recipient, next_attempt_at)
                          SELECT id, tenant_id, 'email', 'them@example.com', now() FROM made""",
    "document_removal": """INSERT INTO {} (document_id, tenant_id, source_id, bucket, key, file_name, content_hash,
                                           received_at, removed_at, removed_by)
                           VALUES (%(id)s, %(tenant)s, %(source)s, 'uploads', 'key', 'name',
                                   sha256(%(id)s::text::bytea), now(), now(), 'somebody')""",
    "document_replacement": """INSERT INTO {} (tenant_id, bucket, key, document_id, requested_by, requested_at)
                               VALUES (%(tenant)s, 'uploads', %(id)s::text, %(a)s, 'somebody', now())""",
    "document_copy": """INSERT INTO {} (tenant_id, document_id, source_id, bucket, key, file_name)
                        VALUES (%(tenant)s, %(id)s, %(source)s, 'uploads', 'key', 'name')""",
    "idempotency": """INSERT INTO {} (tenant_id, key, status, claim, claimed_at, expires_at)
                      VALUES (%(tenant)s, %(id)s::text, 'INPROGRESS', %(id)s, now(), now())""",
    "operation": """INSERT INTO {} (tenant_id, kind, received_until, rate, requested_by, requested_at, stepped_at)
                    VALUES (%(tenant)s, 'match', now(), 60, 'somebody', now(), now())""",
    "cluster_diagnostics": "INSERT INTO {} (id, tenant_id, created_at) VALUES (%(id)s, %(tenant)s, now())",
    "tolerance": "INSERT INTO {} (tenant_id, key, article) VALUES (%(tenant)s, 'price', %(id)s::text)",
    "destination": """INSERT INTO {} (tenant_id, name, kind, prefix, events, created_at)
                      VALUES (%(tenant)s, %(id)s::text, 's3', 'out', '{{cluster}}', now())""",
    "destination_secret": """INSERT INTO {} (id, tenant_id, destination_id, secret, created_at, expires_at)
                             VALUES (%(id)s, %(tenant)s, %(destination)s, repeat('s', 32), now(),
                                     CASE WHEN EXISTS (SELECT FROM destination_secret
                                                       WHERE destination_id = %(destination)s) THEN now() END)""",
    "output_job": """INSERT INTO {} (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,
                                     requested_at, created_at)
                     VALUES (%(id)s, %(tenant)s, %(destination)s, 'cluster', %(id)s, 1, '{{}}', now(), now())""",
    "task": """INSERT INTO {} (id, tenant_id, task_type, payload, payload_hash, max_retry, created_at)
               VALUES (%(id)s, %(tenant)s, 'echo', '{{}}', sha256('{{}}'), 5, now())""",
    "task_allowance": "INSERT INTO {} (tenant_id, tokens, counted_at) VALUES (%(tenant)s, 1, now())",
    "work_attempt": """INSERT INTO {} (tenant_id, worker, work_id, revision, number, began_at, ended_at, outcome)
                       VALUES (%(tenant)s, 'tasks', %(id)s, 1, 1, now(), now(), 'succeeded')""",
    "chat_session": """INSERT INTO {} (id, tenant_id, user_id, created_at)
                       VALUES (%(id)s, %(tenant)s, 'somebody', now())""",
    "chat_message": """WITH made AS (
                           INSERT INTO chat_session (id, tenant_id, user_id, created_at)
                           VALUES (%(id)s, %(tenant)s, 'somebody', now()) RETURNING id, tenant_id)
                       INSERT INTO {} (session_id, tenant_id, number, role, content, job_id, tokens, created_at)
                       SELECT id, tenant_id, 1, 'user', 'Hello', id, 5, now() FROM made""",
}
"""One row of a tenant in each table that belongs to tenants."""


class Tenant:
    """A tenant with two documents, and what a row in any table needs."""

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


@pytest.fixture
def ours(admin: Connection) -> Tenant:
    return Tenant(admin, "ours")


@pytest.fixture
def theirs(admin: Connection) -> Tenant:
    return Tenant(admin, "theirs")


@pytest.fixture
def worker(database_url: str):
    """A connection as counterfoil_worker, each statement a transaction."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def keeper(keeper_database_url: str):
    """A connection as counterfoil_keeper, each statement a transaction."""
    with psycopg.connect(keeper_database_url, autocommit=True) as connection:
        yield connection


def refused(connection: Connection, statement: str) -> bool:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())
    return True


def rows(admin: Connection, table: str) -> list[tuple[object, ...]]:
    return admin.execute(SQL("SELECT * FROM {} AS t ORDER BY t::text").format(Identifier(table))).fetchall()


# The columns of work


def test_a_document_carries_exactly_the_matching_columns_promised(admin: Connection):
    columns = admin.execute(
        """SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns
           WHERE table_name = 'document' AND column_name IN
                 ('matching_status', 'matching_error', 'matching_attempts', 'matching_failed_at')
           ORDER BY ordinal_position"""
    ).fetchall()
    assert columns == [
        ("matching_status", "text", "YES", None),
        ("matching_error", "text", "YES", None),
        ("matching_attempts", "integer", "NO", "0"),
        ("matching_failed_at", "timestamp with time zone", "YES", None),
    ]


def test_the_partial_index_on_the_matching_status_is_exact(admin: Connection):
    index = admin.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_document_matching_status'").fetchall()
    expected = (
        "CREATE INDEX idx_document_matching_status ON public.document USING btree (matching_status) "
        "WHERE (matching_status IS NOT NULL)"
    )
    assert index == [(expected,)]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_of_work_has_the_life_cycle_in_the_same_form(kind: Kind, admin: Connection):
    found = admin.execute(
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = %s", [kind.table]
    ).fetchall()
    form = {
        name.removeprefix(kind.prefix): (type_, nullable)
        for name, type_, nullable in found
        if name.startswith(kind.prefix)
    }
    assert {name: form.get(name) for name in LIFE_CYCLE} == {
        "status": ("text", "YES"),
        "error": ("text", "YES"),
        "attempts": ("integer", "NO"),
        "failed_at": ("timestamp with time zone", "YES"),
        "revision": ("integer", "NO"),
        "claim_token": ("bigint", "NO"),
        "claimed_at": ("timestamp with time zone", "YES"),
        "lease_expires_at": ("timestamp with time zone", "YES"),
        "next_attempt_at": ("timestamp with time zone", "YES"),
        "send_number": ("integer", "NO"),
        "returns": ("integer", "NO"),
        "reason": ("text", "YES"),
    }


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_states_of_every_kind_of_work_are_those_of_the_design(kind: Kind, admin: Connection, ours: Tenant):
    if kind.table in {"ingestion_job", "output_job", "cluster_diagnostics", "task"}:
        ours.insert(admin, kind.table)
    for state in (None, "pending", "in-progress", "succeeded", "failed"):
        admin.execute(kind.sql("UPDATE {table} SET {status} = %s"), [state])
    for state in ("", "done", "skipped"):
        with pytest.raises(psycopg.errors.CheckViolation):
            admin.execute(kind.sql("UPDATE {table} SET {status} = %s"), [state])


# Tenants apart


def test_every_table_of_tenants_forces_row_level_security_and_has_a_policy(admin: Connection):
    found = admin.execute(
        """SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity,
                  EXISTS (SELECT FROM pg_policy p
                          WHERE p.polrelid = c.oid AND 'counterfoil_worker'::regrole = ANY (p.polroles))
           FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
           WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
             AND a.attname = 'tenant_id' AND NOT a.attisdropped"""
    ).fetchall()
    assert {name: tuple(secured) for name, *secured in found} == dict.fromkeys(ROWS, (True, True, True)), (
        "a new table of tenants: add a row of it to ROWS"
    )


def test_a_table_without_a_tenant_is_closed_to_the_functions_but_for_what_is_everybodys(admin: Connection):
    found = admin.execute(
        """SELECT table_name FROM information_schema.tables t WHERE table_schema = 'public' AND NOT EXISTS
               (SELECT FROM information_schema.columns c
                WHERE c.table_name = t.table_name AND column_name = 'tenant_id')
           ORDER BY 1"""
    ).fetchall()
    open_to = {
        (name, role)
        for (name,) in found
        for role in ("counterfoil_worker", "counterfoil_delivery", "counterfoil_keeper")
        if admin.execute("SELECT has_any_column_privilege(%s, %s, 'SELECT')", [role, name]).fetchone() == (True,)
    }
    assert open_to == {
        *(("tenant", role) for role in ("counterfoil_worker", "counterfoil_delivery", "counterfoil_keeper")),
        # whose id is the tenant: row-level security binds it below
        *(
            (name, role)
            for name in ("breaker", "mapping_pause")
            for role in ("counterfoil_delivery", "counterfoil_keeper")
        ),
        # a service that is away is away for everybody; a worker reads a breaker in a transaction of the delivery role
    }


@pytest.mark.parametrize("table", ROWS)
def test_a_worker_sees_the_rows_of_its_own_tenant_alone(
    table: str, admin: Connection, database: Database, ours: Tenant, theirs: Tenant
):
    ours.insert(admin, table)
    theirs.insert(admin, table)
    for tenant in (ours, theirs):
        with database.tenant(tenant.id) as connection:
            seen = connection.execute(SQL("SELECT DISTINCT tenant_id FROM {}").format(Identifier(table))).fetchall()
        assert seen == [(tenant.id,)]


@pytest.mark.parametrize("table", [*ROWS, "tenant"])
def test_a_worker_that_names_no_tenant_sees_nothing(table: str, admin: Connection, worker: Connection, ours: Tenant):
    if table in ROWS:
        ours.insert(admin, table)
    assert worker.execute(SQL("SELECT count(*) FROM {}").format(Identifier(table))).fetchone() == (0,)


def test_a_worker_sees_its_own_tenant_alone(database: Database, ours: Tenant, theirs: Tenant):
    with database.tenant(ours.id) as connection:
        assert connection.execute("SELECT slug FROM tenant").fetchall() == [("ours",)]


@pytest.mark.parametrize("table", ROWS)
def test_a_worker_writes_no_row_of_another_tenant(
    table: str, admin: Connection, worker: Connection, ours: Tenant, theirs: Tenant
):
    theirs.insert(admin, table)
    before = rows(admin, table)
    worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(ours.id)])
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        theirs.insert(worker, table)
    for statement in ("UPDATE {} SET tenant_id = tenant_id", "DELETE FROM {}"):
        try:
            changed = worker.execute(
                SQL(statement).format(Identifier(table)) + SQL(" WHERE tenant_id = %s"), [theirs.id]
            )
        except psycopg.errors.InsufficientPrivilege:
            continue  # not even of its own tenant
        assert changed.rowcount == 0
    assert rows(admin, table) == before


@pytest.mark.parametrize("table", ROWS)
def test_a_worker_gives_no_row_to_another_tenant(
    table: str, admin: Connection, worker: Connection, ours: Tenant, theirs: Tenant
):
    ours.insert(admin, table)
    worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(ours.id)])
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        worker.execute(SQL("UPDATE {} SET tenant_id = %s").format(Identifier(table)), [theirs.id])


@pytest.mark.parametrize(
    "table",
    [
        "source",
        "document",
        "ingestion_job",
        "document_embedding",
        "document_key",
        "document_match",
        "judgement",
        "judgement_candidate",
        "reading",
    ],
)
def test_a_row_never_joins_two_tenants(table: str, admin: Connection, ours: Tenant, theirs: Tenant):
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        ours.insert(admin, table, tenant=theirs.id)


def test_an_edge_between_documents_of_two_tenants_is_impossible(admin: Connection, ours: Tenant, theirs: Tenant):
    ours.a, ours.b = sorted([ours.a, theirs.a])
    for tenant in (ours, theirs):
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            ours.insert(admin, "document_match", tenant=tenant.id)


# Roles


@pytest.mark.parametrize("role", ["counterfoil_owner", "postgres", "pg_read_all_data"])
def test_a_function_becomes_no_role_that_sees_more(role: str, worker: Connection, keeper: Connection):
    assert refused(worker, f"SET ROLE {role}")
    assert refused(keeper, f"SET ROLE {role}")


def test_no_role_of_ours_is_above_row_level_security(admin: Connection):
    above = admin.execute(
        """SELECT rolname FROM pg_roles WHERE rolname LIKE 'counterfoil%'
           AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication)"""
    ).fetchall()
    assert above == []


def test_the_delivery_role_cannot_sign_in(admin: Connection):
    assert admin.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'counterfoil_delivery'").fetchone() == (
        False,
    )


def test_delivery_sees_the_life_cycle_of_every_tenant_and_no_content(
    database: Database, worker: Connection, ours: Tenant, theirs: Tenant
):
    with database.delivery() as connection:
        found = connection.execute("SELECT DISTINCT tenant_id FROM document").fetchall()
    assert {tenant for (tenant,) in found} == {ours.id, theirs.id}
    worker.execute("SET ROLE counterfoil_delivery")
    for column in ("structured_data", "content_hash", "cluster_id", "type", "*"):
        assert refused(worker, f"SELECT {column} FROM document")
    for table in ("source", "document_key", "document_match", "judgement", "reading", "llm_call", "organization"):
        assert refused(worker, f"SELECT 1 FROM {table}")


def test_delivery_changes_nothing_but_the_life_cycle_and_a_late_tenant(admin: Connection):
    changeable = admin.execute(
        """SELECT table_name, column_name FROM information_schema.column_privileges
           WHERE grantee = 'counterfoil_delivery' AND privilege_type = 'UPDATE' AND table_name = ANY (%s)""",
        [[kind.table for kind in KINDS.values()]],
    ).fetchall()
    life_cycle = {(kind.table, kind.prefix + name) for kind in KINDS.values() for name in LIFE_CYCLE}
    assert set(changeable) == life_cycle | {("acquisition_job", "tenant_id")}  # for files that came before their tenant


def test_the_keeper_works_without_a_tenant(admin: Connection, keeper: Connection, ours: Tenant, theirs: Tenant):
    for table in ("outbox", "dead_letter", "dead_letter_audit", "notification", "ingestion_job"):
        for tenant in (ours, theirs):
            tenant.insert(admin, table)
        assert keeper.execute(f"SELECT count(DISTINCT tenant_id) FROM {table}".encode()).fetchone() == (2,)
    for table in ("outbox", "dead_letter", "dead_letter_audit", "notification"):
        theirs.insert(keeper, table)
    keeper.execute("UPDATE document SET matching_status = 'failed', matching_failed_at = %s", [NOW])
    told = 4  # the documents that have failed, to the destination of each tenant
    assert keeper.execute("DELETE FROM outbox").rowcount == 3 + told
    assert keeper.execute("SELECT nextval('claim_token')").fetchone() is not None


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM acquisition_job",
        "DELETE FROM document",
        "DELETE FROM source",
        "UPDATE document SET content_hash = content_hash",
        "UPDATE document SET key = 'elsewhere'",
        "UPDATE source SET key = 'elsewhere'",
        "UPDATE outbox SET sent_at = now()",
        "UPDATE notification SET notice_id = NULL",
        "UPDATE notice_delivery SET sent_at = now()",
        "INSERT INTO tenant_admin (tenant_id, email) SELECT id, 'me@example.com' FROM tenant",
        "INSERT INTO tenant_address (tenant_id, address) SELECT id, 'me@example.com' FROM tenant",
        "UPDATE source SET message_id = 'another'",
        "INSERT INTO acquisition_job (id) VALUES (gen_random_uuid())",
    ],
)
def test_a_worker_changes_nothing_that_is_not_its_business(worker: Connection, ours: Tenant, statement: str):
    worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(ours.id)])
    assert refused(worker, statement)


def test_whom_a_tenant_s_failures_are_told_to_is_known_to_the_keeper_and_to_no_worker_of_another_tenant(
    admin: Connection, worker: Connection, keeper: Connection, ours: Tenant, theirs: Tenant
):
    for table in ("tenant_admin", "notice_delivery"):
        theirs.insert(admin, table)
    assert len(keeper.execute("SELECT email FROM tenant_admin").fetchall()) == 1
    assert keeper.execute("SELECT recipient FROM notice_delivery").fetchall() == [("them@example.com",)]
    assert len(keeper.execute("SELECT name FROM tenant").fetchall()) == 2
    worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(ours.id)])
    assert worker.execute("SELECT email FROM tenant_admin").fetchall() == []
    assert refused(worker, "SELECT recipient FROM notice_delivery")
    worker.execute("SET ROLE counterfoil_delivery")
    for statement in ("SELECT email FROM tenant_admin", "SELECT 1 FROM notice_delivery", "SELECT name FROM tenant"):
        assert refused(worker, statement)
    assert refused(worker, "SET ROLE counterfoil_keeper")


def test_the_audit_trail_of_dead_letters_is_only_added_to(
    admin: Connection, worker: Connection, keeper: Connection, ours: Tenant
):
    ours.insert(admin, "dead_letter_audit")
    before = rows(admin, "dead_letter_audit")
    worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(ours.id)])
    for connection in (worker, keeper):
        for statement in ("UPDATE {} SET actor = 'nobody'", "DELETE FROM {}", "TRUNCATE {}", "DROP TABLE {}"):
            assert refused(connection, statement.format("dead_letter_audit"))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        worker.execute("SET ROLE counterfoil_delivery; DELETE FROM dead_letter_audit")
    assert rows(admin, "dead_letter_audit") == before


def test_whose_an_address_is_is_known_to_delivery_and_said_by_the_owner_alone(
    admin: Connection, worker: Connection, keeper: Connection, ours: Tenant, theirs: Tenant
):
    for tenant in (ours, theirs):
        tenant.insert(admin, "tenant_address")
    worker.execute("SET ROLE counterfoil_delivery")
    for connection in (worker, keeper):
        assert len(connection.execute("SELECT address, tenant_id FROM tenant_address").fetchall()) == 2
        assert refused(connection, "INSERT INTO tenant_address SELECT 'me@example.com', id FROM tenant")
        assert refused(connection, "DELETE FROM tenant_address")


@pytest.mark.parametrize(
    "address", ["Upper@example.com", "no at", "a b@example.com", "", "@", "x" * 250 + "@example.com"]
)
def test_an_address_that_no_mail_could_name_is_refused(address: str, admin: Connection, ours: Tenant):
    with pytest.raises(psycopg.errors.CheckViolation):
        admin.execute("INSERT INTO tenant_address (address, tenant_id) VALUES (%s, %s)", [address, ours.id])


def test_one_object_is_one_job_of_nobody_and_one_of_each_tenant(admin: Connection, ours: Tenant, theirs: Tenant):
    job = """INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at)
             VALUES (gen_random_uuid(), %s, 'b', 'inbox/1', '0', 1, now())"""
    for owner in (None, ours.id, theirs.id):
        admin.execute(job, [owner])
        with pytest.raises(psycopg.errors.UniqueViolation):
            admin.execute(job, [owner])


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE mine (id int)", "CREATE SCHEMA mine", "ALTER TABLE document DISABLE ROW LEVEL SECURITY"]
)
def test_a_function_changes_no_schema(statement: str, worker: Connection, keeper: Connection):
    assert refused(worker, statement)
    assert refused(keeper, statement)


def test_deleting_a_tenant_deletes_all_it_had_but_the_audit_trail(admin: Connection, ours: Tenant, theirs: Tenant):
    for table in ROWS:
        ours.insert(admin, table)
        theirs.insert(admin, table)
    admin.execute("DELETE FROM tenant WHERE id = %s", [ours.id])
    for table in ROWS:
        left = admin.execute(SQL("SELECT DISTINCT tenant_id FROM {}").format(Identifier(table))).fetchall()
        expected = {ours.id, theirs.id} if table == "dead_letter_audit" else {theirs.id}
        assert {tenant for (tenant,) in left} == expected, table
