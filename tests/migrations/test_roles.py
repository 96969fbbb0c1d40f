"""Each database role has exactly the required privileges."""

import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import LIFECYCLE_COLUMNS
from counterfoil.kinds import WORK_KINDS
from tests.factories import NOW
from tests.migrations.tenants import Tenant, is_refused, rows


def test_functions_cannot_assume_stronger_roles(worker: Connection, maintenance: Connection):
    for role in ("counterfoil_owner", "postgres", "pg_read_all_data"):
        assert is_refused(worker, f"SET ROLE {role}")
        assert is_refused(maintenance, f"SET ROLE {role}")


def test_no_role_bypasses_row_level_security(admin: Connection):
    bypassing_roles = admin.execute(
        """SELECT rolname FROM pg_roles WHERE rolname LIKE 'counterfoil%'
           AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication)"""
    ).fetchall()
    assert bypassing_roles == []


def test_delivery_role_cannot_sign_in(admin: Connection):
    assert admin.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'counterfoil_delivery'").fetchone() == (
        False,
    )


def test_delivery_sees_life_cycles_but_no_content(
    database: Database, worker: Connection, own_tenant: Tenant, other_tenant: Tenant
):
    with database.delivery() as connection:
        tenant_ids = connection.execute("SELECT DISTINCT tenant_id FROM document").fetchall()
    assert {tenant for (tenant,) in tenant_ids} == {own_tenant.id, other_tenant.id}
    worker.execute("SET ROLE counterfoil_delivery")
    for column in ("structured_data", "content_hash", "cluster_id", "type", "*"):
        assert is_refused(worker, f"SELECT {column} FROM document")
    for column in (
        "sender",
        "subject",
        "key",
        "*",
    ):  # delivery reads only id and tenant of held mail
        assert is_refused(worker, f"SELECT {column} FROM source")
    for table in ("document_key", "document_match", "llm_judgment", "page_reading_cache", "llm_call", "organization"):
        assert is_refused(worker, f"SELECT 1 FROM {table}")


def test_delivery_updates_only_life_cycle_tenant_and_sequencer(admin: Connection):
    updatable_columns = admin.execute(
        """SELECT table_name, column_name FROM information_schema.column_privileges
           WHERE grantee = 'counterfoil_delivery' AND privilege_type = 'UPDATE' AND table_name = ANY (%s)""",
        [[kind.table for kind in WORK_KINDS.values()]],
    ).fetchall()
    lifecycle_columns = {(kind.table, kind.prefix + name) for kind in WORK_KINDS.values() for name in LIFECYCLE_COLUMNS}
    # Delivery sets the tenant of a file that arrived before the tenant was added, and the sequencer of an event that
    # arrived after its object was listed.
    assert set(updatable_columns) == lifecycle_columns | {
        ("acquisition_job", "tenant_id"),
        ("acquisition_job", "sequencer"),
    }


def test_maintenance_accesses_rows_of_every_tenant(
    admin: Connection, maintenance: Connection, own_tenant: Tenant, other_tenant: Tenant
):
    for table in ("outbox", "dead_letter", "dead_letter_audit", "failure_event", "ingestion_job"):
        for tenant in (own_tenant, other_tenant):
            tenant.insert(admin, table)
        assert maintenance.execute(f"SELECT count(DISTINCT tenant_id) FROM {table}".encode()).fetchone() == (2,)
    for table in ("outbox", "dead_letter", "dead_letter_audit", "failure_event"):
        other_tenant.insert(maintenance, table)
    maintenance.execute("UPDATE document SET matching_status = 'failed', matching_failed_at = %s", [NOW])
    outputs = 4  # two failed documents per tenant, each delivered to the tenant's destination
    assert maintenance.execute("DELETE FROM outbox").rowcount == 3 + outputs
    assert maintenance.execute("SELECT nextval('claim_token')").fetchone() is not None


FORBIDDEN_TO_WORKERS = (
    "DELETE FROM acquisition_job",
    "DELETE FROM document",
    "DELETE FROM source",
    "UPDATE document SET content_hash = content_hash",
    "UPDATE document SET key = 'elsewhere'",
    "UPDATE source SET key = 'elsewhere'",
    "UPDATE outbox SET sent_at = now()",
    "UPDATE failure_event SET digest_id = NULL",
    "UPDATE notification_delivery SET sent_at = now()",
    "INSERT INTO tenant_admin (tenant_id, email) SELECT id, 'me@example.com' FROM tenant",
    "INSERT INTO tenant_address (tenant_id, address) SELECT id, 'me@example.com' FROM tenant",
    "UPDATE source SET message_id = 'another'",
    "INSERT INTO acquisition_job (id) VALUES (gen_random_uuid())",
)


def test_worker_cannot_change_protected_rows_or_columns(worker: Connection, own_tenant: Tenant):
    worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(own_tenant.id)])
    for statement in FORBIDDEN_TO_WORKERS:
        assert is_refused(worker, statement), statement


def test_notification_recipients_are_hidden_from_other_tenants(
    admin: Connection, worker: Connection, maintenance: Connection, own_tenant: Tenant, other_tenant: Tenant
):
    for table in ("tenant_admin", "notification_delivery"):
        other_tenant.insert(admin, table)
    assert len(maintenance.execute("SELECT email FROM tenant_admin").fetchall()) == 1
    assert maintenance.execute("SELECT recipient FROM notification_delivery").fetchall() == [("them@example.com",)]
    assert len(maintenance.execute("SELECT name FROM tenant").fetchall()) == 2
    worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(own_tenant.id)])
    assert worker.execute("SELECT email FROM tenant_admin").fetchall() == []
    assert is_refused(worker, "SELECT recipient FROM notification_delivery")
    worker.execute("SET ROLE counterfoil_delivery")
    for statement in (
        "SELECT email FROM tenant_admin",
        "SELECT 1 FROM notification_delivery",
        "SELECT name FROM tenant",
    ):
        assert is_refused(worker, statement)
    assert is_refused(worker, "SET ROLE counterfoil_maintenance")


def test_dead_letter_audit_trail_is_append_only(
    admin: Connection, worker: Connection, maintenance: Connection, own_tenant: Tenant
):
    own_tenant.insert(admin, "dead_letter_audit")
    rows_before = rows(admin, "dead_letter_audit")
    worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(own_tenant.id)])
    for connection in (worker, maintenance):
        for statement in ("UPDATE {} SET actor = 'mallory'", "DELETE FROM {}", "TRUNCATE {}", "DROP TABLE {}"):
            assert is_refused(connection, statement.format("dead_letter_audit"))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        worker.execute("SET ROLE counterfoil_delivery; DELETE FROM dead_letter_audit")
    assert rows(admin, "dead_letter_audit") == rows_before


def test_delivery_reads_but_cannot_change_tenant_addresses(
    admin: Connection, worker: Connection, maintenance: Connection, own_tenant: Tenant, other_tenant: Tenant
):
    for tenant in (own_tenant, other_tenant):
        tenant.insert(admin, "tenant_address")
    worker.execute("SET ROLE counterfoil_delivery")
    for connection in (worker, maintenance):
        assert len(connection.execute("SELECT address, tenant_id FROM tenant_address").fetchall()) == 2
        assert is_refused(connection, "INSERT INTO tenant_address SELECT 'me@example.com', id FROM tenant")
        assert is_refused(connection, "DELETE FROM tenant_address")


SETUP = (
    "INSERT INTO tenant_admin (tenant_id, email) VALUES (%(tenant)s, 'me@example.com')",
    "INSERT INTO tenant_address (tenant_id, address) VALUES (%(tenant)s, 'me@example.com')",
    "INSERT INTO tolerance (tenant_id, variance_type, supplier, upper_percent) "
    "VALUES (%(tenant)s, 'price', 'Nordwind', 2)",
    "INSERT INTO destination (tenant_id, name, kind, prefix, events, created_at)"
    " VALUES (%(tenant)s, 'files', 's3', 'out', ARRAY['cluster'], now())",
)


def test_api_configures_only_the_current_tenant(api: Connection, own_tenant: Tenant, other_tenant: Tenant):
    for statement in SETUP:
        assert is_refused(api, statement.replace("%(tenant)s", f"'{own_tenant.id}'")), statement
    api.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(own_tenant.id)])
    for statement in SETUP:
        api.execute(statement, {"tenant": str(own_tenant.id)})
        assert is_refused(api, statement.replace("%(tenant)s", f"'{other_tenant.id}'")), statement
    assert api.execute("SELECT slug FROM tenant").fetchall() == [("ours",)]
    assert api.execute("UPDATE tenant SET name = 'Ours'").rowcount == 1
    assert is_refused(api, "UPDATE tenant SET slug = 'theirs-2'")
    assert is_refused(api, "SET ROLE counterfoil_maintenance")


def test_functions_cannot_change_the_schema(worker: Connection, maintenance: Connection):
    for statement in (
        "CREATE TABLE mine (id int)",
        "CREATE SCHEMA mine",
        "ALTER TABLE document DISABLE ROW LEVEL SECURITY",
    ):
        assert is_refused(worker, statement)
        assert is_refused(maintenance, statement)


def test_definer_functions_are_not_executable_by_public(admin: Connection):
    functions = admin.execute(
        """SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
           WHERE n.nspname = 'public' AND p.prosecdef
             AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
                         WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE')"""
    ).fetchall()
    assert functions == []


@pytest.mark.parametrize(
    "role",
    [
        *("public", "counterfoil_owner", "counterfoil_worker", "counterfoil_delivery", "counterfoil_maintenance"),
        "counterfoil_api",
    ],
)
def test_temporary_tables_are_refused(admin: Connection, migrated_template: str, role: str):
    # Migrations run in the template database. Its copies have PostgreSQL's default privileges.
    privilege = admin.execute("SELECT has_database_privilege(%s, %s, 'TEMP')", [role, migrated_template]).fetchone()
    assert privilege == (False,)


@pytest.mark.parametrize("function", ["on_ingestion_status_change", "on_matching_status_change"])
def test_temporary_table_trigger_cannot_forge_a_delivery(maintenance: Connection, function: str):
    maintenance.execute("CREATE TEMPORARY TABLE forged (tenant_id uuid, id uuid, status text)")
    create_trigger = f"CREATE TRIGGER forge AFTER INSERT ON forged FOR EACH ROW EXECUTE FUNCTION public.{function}()"
    assert is_refused(maintenance, create_trigger)
