"""Tenants are kept apart: what is one's, no other sees, changes or joins."""

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from counterfoil.db import Connection, Database
from tests.migrations.tenants import ROWS, Tenant, rows


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
            for name in (
                *("audit_salt_of_nobody", "breaker", "mapping_pause", "queue_pause"),
                *("upload_event_check", "upload_inventory", "upload_listing"),
            )
            for role in ("counterfoil_delivery", "counterfoil_keeper")
        ),
        *((name, "counterfoil_keeper") for name in ("object_erasure", "tenant_erasure")),
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
        "document_word",
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


def test_deleting_a_tenant_deletes_all_it_had_but_the_audit_trail_and_what_s3_still_has(
    admin: Connection, ours: Tenant, theirs: Tenant
):
    for table in ROWS:
        ours.insert(admin, table)
        theirs.insert(admin, table)
    admin.execute("DELETE FROM tenant WHERE id = %s", [ours.id])
    for table in ROWS:
        left = admin.execute(SQL("SELECT DISTINCT tenant_id FROM {}").format(Identifier(table))).fetchall()
        # What has just ended is added up and taken away within the minute; it says nothing but that it ended.
        kept = {"dead_letter_audit", "audit_entry", "audit_head", "payload_removal", "work_ended"}
        expected = {ours.id, theirs.id} if table in kept else {theirs.id}
        assert {tenant for (tenant,) in left} == expected, table
