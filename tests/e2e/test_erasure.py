"""Erasure of a tenant with data of every kind on the local cloud."""

import io
import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg.sql import SQL, Identifier

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant, add_tenant
from cli.local.uploads import upload
from counterfoil import aws, tenant_erasure
from counterfoil.db import Connection, Database
from counterfoil.documents.erasure import MAX_ATTEMPT_DURATION
from counterfoil.documents.upload_list import Upload
from counterfoil.webhooks.destinations import NewDestination
from tests.e2e.chaos import watchdog_running
from tests.e2e.conftest import CommandLine, SignIn
from tests.e2e.polling import wait_until
from tests.factories import make_jobs, make_pool, make_profile, make_shard
from tests.functions.test_documents import INVOICE
from tests.mail_factory import PDF, mail, received_mail
from tools.sample_generator.bulk import orders_with_invoices
from tools.sample_generator.bundle import write_bundle

pytestmark = pytest.mark.e2e

FILLED_TABLES = frozenset(
    {
        "acquisition_job",
        "audit_entry",
        "audit_head",
        "rate_limit_bucket",
        "chat_message",
        "chat_session",
        "cluster_diagnostics",
        "dead_letter",
        "dead_letter_audit",
        "dead_letter_count",
        "dead_letter_group",
        "dead_letter_word",
        "destination",
        "document",
        "document_key",
        "document_word",
        "ingestion_job",
        "matchmaking_jobs",
        "failure_event",
        "offer_pool",
        "offer_shard",
        "offers",
        "outbox",
        "output_job",
        "profile",
        "source",
        "task",
        "tenant_address",
        "work_attempt",
        "finished_work",
    }
)
"""Tables in which the tenant has rows before the erasure. tests/functions/test_tenant_erasure.py fills every table."""

_SESSION = """
WITH begun AS (
    INSERT INTO chat_session (id, tenant_id, user_id, created_at, last_number)
    VALUES (gen_random_uuid(), %(tenant)s, 'ann', now(), 1) RETURNING id, tenant_id
)
INSERT INTO chat_message (tenant_id, session_id, number, role, content, job_id, tokens, created_at)
SELECT tenant_id, id, 1, 'user', 'Hello', gen_random_uuid(), 1, now() FROM begun
"""

_OFFER = """
INSERT INTO offers (date, user_id, candidate_id, tenant_id, id, rank, score, offered_at, expires_at)
VALUES (%(date)s, %(user)s, %(candidate)s, %(tenant)s, gen_random_uuid(), 1, 1, now(), now())
"""

_IS_CLEARED = "SELECT cleared_at IS NOT NULL FROM tenant_erasure WHERE id = %s"


def row_counts(admin: Connection, tenant: Tenant) -> dict[str, int]:
    """Return the number of a tenant's rows by table."""
    tables = admin.execute(
        """SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
           WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')"""
    ).fetchall()
    counts = {}
    for (table,) in sorted(tables):
        count = SQL("SELECT count(*) FROM {} WHERE tenant_id = %s").format(Identifier(table))
        ((counts[table],),) = admin.execute(count, [tenant.id]).fetchall()
    return counts


def missing_rows(admin: Connection, tenant: Tenant) -> set[str]:
    """Return the FILLED_TABLES without a row of the tenant."""
    return {table for table, number in row_counts(admin, tenant).items() if table in FILLED_TABLES and not number}


def rows_mentioning(admin: Connection, *texts: str) -> dict[str, int]:
    """Return the number of rows that contain one of `texts`, by table.

    Tables without such rows are omitted.
    """
    tables = admin.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
    ).fetchall()
    counts = {}
    for (table,) in tables:
        count = SQL("SELECT count(*) FROM {} AS t WHERE t::text LIKE ANY(%s)").format(Identifier(table))
        ((number,),) = admin.execute(count, [[f"%{text}%" for text in texts]]).fetchall()
        if number:
            counts[table] = number
    return counts


def versions(cloud: Cloud, prefix: str) -> int:
    """Return the number of versions and delete markers below a prefix."""
    response = cloud.client("s3").list_object_versions(Bucket=cloud.outputs["UploadsBucketName"], Prefix=prefix)
    return len(response.get("Versions", [])) + len(response.get("DeleteMarkers", []))


def fill_tenant(
    cloud: Cloud, tenant: Tenant, admin: Connection, sign_in: SignIn, folder: Path
) -> tuple[list[Path], str]:
    """Create data of every kind for the tenant.

    Return the files to ingest and the S3 key of an email.
    """
    bucket, s3 = cloud.outputs["UploadsBucketName"], cloud.client("s3")
    export = NewDestination("files", "s3", "results")
    add_tenant(cloud, tenant.slug, addresses=[f"in@{tenant.slug}.example"], new_destinations=[export])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in (7, 8):
            archive.writestr(f"{number}.xml", INVOICE.replace(b"R-1", f"R-{number}".encode()))
    files = {
        "one.xml": INVOICE,
        "two.xml": INVOICE.replace(b"R-1", b"R-2"),
        "packed.zip": packed.getvalue(),
        "bundle.pdf": write_bundle([invoice for _, invoice in orders_with_invoices(1, 3)]),
        "broken.pdf": b"%PDF-1.7 broken",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    mail_path = folder / "letter.eml"
    mail_path.write_bytes(
        received_mail(mail(("a.pdf", PDF), to=f"in@{tenant.slug}.example"), delivered_to=f"in@{tenant.slug}.example")
    )
    (mail_upload,) = upload(cloud, None, [mail_path])
    token = sign_in("operator", f"tenant:{tenant.slug}")
    for payload in ({"say": "hello"}, {"text": "x" * 120_000}):
        task = {"task_type": "echo", "payload": payload}
        httpx.post(f"{cloud.api_url}/api/tasks", json=task, headers=token, timeout=60).raise_for_status()
    admin.execute(_SESSION, {"tenant": tenant.id})
    users = [make_profile(admin, tenant.id) for _ in range(3)]
    today = datetime.now(UTC).date()
    make_jobs(admin, make_shard(admin, tenant.id, users, pool_id=make_pool(admin, tenant.id, date=today)))
    admin.execute(_OFFER, {"tenant": tenant.id, "date": today, "user": users[0], "candidate": users[1]})
    s3.put_object(Bucket=bucket, Key=f"dead-letters/{tenant.id}/export.csv", Body=b"job_id")
    return [folder / name for name in files], mail_upload.key


def test_erased_tenant_leaves_nothing(
    cloud: Cloud,
    tenant: Tenant,
    command_line: CommandLine,
    admin: Connection,
    ingest: Callable[..., list[Upload]],
    sign_in: SignIn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files, mail_key = fill_tenant(cloud, tenant, admin, sign_in, tmp_path)
    prefixes = [*(prefix.format(slug=tenant.slug, id=tenant.id) for prefix in tenant_erasure.PREFIXES), mail_key]
    ingest(files, seconds=300)
    wait_until(lambda: row_counts(admin, tenant)["source"] == len([*files, "letter.eml"]), seconds=300)
    wait_until(lambda: versions(cloud, f"exports/{tenant.slug}/") > 0, seconds=300)
    wait_until(lambda: row_counts(admin, tenant)["dead_letter"] > 0, seconds=300)
    wait_until(lambda: not missing_rows(admin, tenant), seconds=60)
    rows_before, objects_before = row_counts(admin, tenant), {prefix: versions(cloud, prefix) for prefix in prefixes}

    result = command_line.run("tenants", "delete", tenant.slug, "--confirm", tenant.slug, "--by", "ann", "--json")
    assert json.loads(result.stdout)["tenant"] == tenant.slug
    start = datetime.now(UTC)
    with watchdog_running(cloud):
        wait_until(lambda: admin.execute(_IS_CLEARED, [tenant.id]).fetchone() == (True,), seconds=300)
        seconds = (datetime.now(UTC) - start).total_seconds()
        assert not any(row_counts(admin, tenant).values())
        wait_until(lambda: versions(cloud, mail_key) == 0, seconds=300)
    for prefix in prefixes[:-1]:  # as if written by an attempt that ends after the erasure
        cloud.client("s3").put_object(Bucket=cloud.outputs["UploadsBucketName"], Key=f"{prefix}late", Body=b"late")

    monkeypatch.setattr(aws, "client", cloud.client)
    maintenance = Database(cloud.database_url("counterfoil_maintenance"))
    after_longest_attempt = datetime.now(UTC) + MAX_ATTEMPT_DURATION
    wait_until(lambda: rows_mentioning(admin, tenant.slug).keys() <= {"tenant_erasure"}, seconds=60)
    assert (
        tenant_erasure.step(
            maintenance, cloud.outputs["UploadsBucketName"], lambda: after_longest_attempt, lambda: 60.0
        )
        == 1
    )
    maintenance.close()
    rows_after, objects_after = row_counts(admin, tenant), {prefix: versions(cloud, prefix) for prefix in prefixes}
    report: dict[str, Any] = {
        "seconds": round(seconds),
        "rows": {table: [number, rows_after[table]] for table, number in rows_before.items()},
        "objects": {prefix: [number, objects_after[prefix]] for prefix, number in objects_before.items()},
        "mentions": rows_mentioning(admin, tenant.slug, str(tenant.id)),
    }
    (tmp_path / "report.json").write_text(json.dumps(report, indent=1))

    assert all(objects_before[prefix] for prefix in prefixes if "erased-" not in prefix)
    assert set(rows_after.values()) | set(objects_after.values()) == {0}
    assert report["mentions"] == {}
