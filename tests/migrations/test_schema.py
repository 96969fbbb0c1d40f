"""What the schema promises: the columns of work, its states, and what a row may hold."""

import psycopg
import pytest

from counterfoil.db import Connection
from counterfoil.work import KINDS, LIFE_CYCLE, Kind
from tests.migrations.tenants import Tenant


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
    if kind.table in {"ingestion_job", "output_job", "cluster_diagnostics", "task", "offer_shard"}:
        ours.insert(admin, kind.table)
    for state in (None, "pending", "in-progress", "succeeded", "failed"):
        admin.execute(kind.sql("UPDATE {table} SET {status} = %s"), [state])
    for state in ("", "done", "skipped"):
        with pytest.raises(psycopg.errors.CheckViolation):
            admin.execute(kind.sql("UPDATE {table} SET {status} = %s"), [state])


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
