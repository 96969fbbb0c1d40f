"""The schema file, the columns and states of work items, and constraints on rows."""

import psycopg
import pytest

from counterfoil.db import Connection
from counterfoil.delivery.work import LIFECYCLE_COLUMNS, WorkKind
from counterfoil.kinds import WORK_KINDS
from tests.migrations.tenants import Tenant
from tools.schema import HEADER, SCHEMA, schema


def test_schema_file_matches_the_migrations(admin_database_url: str):
    assert HEADER + schema(admin_database_url) == SCHEMA.read_text(), "run: python -m tools.schema"


def test_everything_belongs_to_the_owner(admin: Connection):
    owners = admin.execute(
        "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    ).fetchall()
    assert owners == [("counterfoil_owner",)]


def test_document_has_the_required_matching_columns(admin: Connection):
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


def test_matching_status_index_has_the_required_definition(admin: Connection):
    index = admin.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_document_matching_status'").fetchall()
    expected = (
        "CREATE INDEX idx_document_matching_status ON public.document USING btree (matching_status) "
        "WHERE (matching_status IS NOT NULL)"
    )
    assert index == [(expected,)]


@pytest.mark.parametrize("kind", WORK_KINDS.values(), ids=WORK_KINDS)
def test_work_kinds_have_the_same_life_cycle_columns(kind: WorkKind, admin: Connection):
    columns = admin.execute(
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = %s", [kind.table]
    ).fetchall()
    form = {
        name.removeprefix(kind.prefix): (type_, nullable)
        for name, type_, nullable in columns
        if name.startswith(kind.prefix)
    }
    assert {name: form.get(name) for name in LIFECYCLE_COLUMNS} == {
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
        "dlq_returns": ("integer", "NO"),
        "skip_reason": ("text", "YES"),
    }


@pytest.mark.parametrize("kind", WORK_KINDS.values(), ids=WORK_KINDS)
def test_work_kinds_have_the_same_states(kind: WorkKind, admin: Connection, own_tenant: Tenant):
    if kind.table in {"ingestion_job", "output_job", "cluster_diagnostics", "task", "offer_shard"}:
        own_tenant.insert(admin, kind.table)
    for state in (None, "pending", "in-progress", "succeeded", "failed"):
        admin.execute(kind.sql("UPDATE {table} SET {status} = %s"), [state])
    for state in ("", "done", "skipped"):
        with pytest.raises(psycopg.errors.CheckViolation):
            admin.execute(kind.sql("UPDATE {table} SET {status} = %s"), [state])


@pytest.mark.parametrize(
    "address", ["Upper@example.com", "no at", "a b@example.com", "", "@", "x" * 250 + "@example.com"]
)
def test_invalid_mail_address_is_refused(address: str, admin: Connection, own_tenant: Tenant):
    with pytest.raises(psycopg.errors.CheckViolation):
        admin.execute("INSERT INTO tenant_address (address, tenant_id) VALUES (%s, %s)", [address, own_tenant.id])


def test_object_has_one_acquisition_job_per_tenant(admin: Connection, own_tenant: Tenant, other_tenant: Tenant):
    job = """INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at)
             VALUES (gen_random_uuid(), %s, 'b', 'inbox/1', '0', 1, now())"""
    for owner in (None, own_tenant.id, other_tenant.id):
        admin.execute(job, [owner])
        with pytest.raises(psycopg.errors.UniqueViolation):
            admin.execute(job, [owner])
