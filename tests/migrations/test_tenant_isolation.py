"""Tenant isolation: a tenant sees, changes and references only its own rows."""

from contextlib import suppress

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from counterfoil.db import Connection, Database
from tests.migrations.tenants import ROWS, Tenant, rows


def test_every_tenant_table_forces_row_level_security(admin: Connection):
    tables = admin.execute(
        """SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity,
                  EXISTS (SELECT FROM pg_policy p
                          WHERE p.polrelid = c.oid AND 'counterfoil_worker'::regrole = ANY (p.polroles)),
                  EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'erasure')
           FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
           WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
             AND a.attname = 'tenant_id' AND NOT a.attisdropped"""
    ).fetchall()
    assert {name: tuple(flags) for name, *flags in tables} == dict.fromkeys(ROWS, (True, True, True, True)), (
        "add a sample row of each new tenant table to ROWS"
    )


def test_tables_without_tenant_are_readable_by_few_roles(admin: Connection):
    grants = admin.execute(
        """SELECT table_name FROM information_schema.tables t WHERE table_schema = 'public' AND NOT EXISTS
               (SELECT FROM information_schema.columns c
                WHERE c.table_name = t.table_name AND column_name = 'tenant_id')
           ORDER BY 1"""
    ).fetchall()
    allowed_grants = {
        (name, role)
        for (name,) in grants
        for role in ("counterfoil_worker", "counterfoil_delivery", "counterfoil_maintenance")
        if admin.execute("SELECT has_any_column_privilege(%s, %s, 'SELECT')", [role, name]).fetchone() == (True,)
    }
    assert allowed_grants == {
        *(("tenant", role) for role in ("counterfoil_worker", "counterfoil_delivery", "counterfoil_maintenance")),
        # `tenant` has no column tenant_id. A test below shows that row-level security applies to it.
        *(
            (name, role)
            for name in (
                *("audit_salt_global", "breaker", "breaker_mapping_pause", "queue_pause"),
                *("upload_event_check", "upload_inventory", "upload_listing"),
            )
            for role in ("counterfoil_delivery", "counterfoil_maintenance")
        ),
        *((name, "counterfoil_maintenance") for name in ("object_erasure", "tenant_erasure")),
    }


def test_worker_sees_rows_of_its_tenant_only(
    admin: Connection, database: Database, own_tenant: Tenant, other_tenant: Tenant
):
    for table in ROWS:
        own_tenant.insert(admin, table)
        other_tenant.insert(admin, table)
    for tenant in (own_tenant, other_tenant):
        with database.tenant(tenant.id) as connection:
            for table in ROWS:
                query = SQL("SELECT DISTINCT tenant_id FROM {}").format(Identifier(table))
                assert connection.execute(query).fetchall() == [(tenant.id,)], table


def test_worker_without_tenant_sees_nothing(admin: Connection, worker: Connection, own_tenant: Tenant):
    for table in ROWS:
        own_tenant.insert(admin, table)
    for table in (*ROWS, "tenant"):
        assert worker.execute(SQL("SELECT count(*) FROM {}").format(Identifier(table))).fetchone() == (0,), table


def test_worker_sees_only_its_own_tenant(database: Database, own_tenant: Tenant, other_tenant: Tenant):
    with database.tenant(own_tenant.id) as connection:
        assert connection.execute("SELECT slug FROM tenant").fetchall() == [("ours",)]


def test_worker_cannot_write_rows_of_another_tenant(
    admin: Connection, worker: Connection, own_tenant: Tenant, other_tenant: Tenant
):
    for table in ROWS:
        other_tenant.insert(admin, table)
    rows_before = {table: rows(admin, table) for table in ROWS}
    worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(own_tenant.id)])
    for table in ROWS:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other_tenant.insert(worker, table)
        for statement in ("UPDATE {} SET tenant_id = tenant_id", "DELETE FROM {}"):
            query = SQL(statement).format(Identifier(table)) + SQL(" WHERE tenant_id = %s")
            try:
                changed = worker.execute(query, [other_tenant.id])
            except psycopg.errors.InsufficientPrivilege:
                continue  # the worker cannot change its own rows either
            assert changed.rowcount == 0, table
        assert rows(admin, table) == rows_before[table], table


def test_worker_cannot_move_rows_to_another_tenant(
    admin: Connection, worker: Connection, own_tenant: Tenant, other_tenant: Tenant
):
    for table in ROWS:
        own_tenant.insert(admin, table)
    worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(own_tenant.id)])
    movable_tables = []
    for table in ROWS:
        with suppress(psycopg.errors.InsufficientPrivilege):
            worker.execute(SQL("UPDATE {} SET tenant_id = %s").format(Identifier(table)), [other_tenant.id])
            movable_tables.append(table)
    assert movable_tables == []


@pytest.mark.parametrize(
    "table",
    [
        "source",
        "document",
        "ingestion_job",
        "document_embedding",
        "document_key",
        "document_match",
        "document_word",
        "llm_judgment",
        "llm_judgment_candidate",
        "page_reading_cache",
    ],
)
def test_row_never_references_another_tenant(table: str, admin: Connection, own_tenant: Tenant, other_tenant: Tenant):
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        own_tenant.insert(admin, table, tenant=other_tenant.id)


def test_match_never_spans_two_tenants(admin: Connection, own_tenant: Tenant, other_tenant: Tenant):
    own_tenant.a, own_tenant.b = sorted([own_tenant.a, other_tenant.a])
    for tenant in (own_tenant, other_tenant):
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            own_tenant.insert(admin, "document_match", tenant=tenant.id)


def test_tenant_deletion_retains_only_rows_without_content(admin: Connection, own_tenant: Tenant, other_tenant: Tenant):
    for table in ROWS:
        own_tenant.insert(admin, table)
        other_tenant.insert(admin, table)
    admin.execute("DELETE FROM tenant WHERE id = %s", [own_tenant.id])
    for table in ROWS:
        remaining = admin.execute(SQL("SELECT DISTINCT tenant_id FROM {}").format(Identifier(table))).fetchall()
        # The audit trail and objects in S3 outlive their tenant. Rows of finished_work have no content and are deleted
        # within a minute.
        retained = {"dead_letter_audit", "audit_entry", "audit_head", "payload_deletion", "finished_work"}
        expected = {own_tenant.id, other_tenant.id} if table in retained else {other_tenant.id}
        assert {tenant for (tenant,) in remaining} == expected, table
