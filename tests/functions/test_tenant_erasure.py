"""An erased tenant leaves no row in any table and no object under any prefix."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from counterfoil import audit, aws, objects, tenant_erasure
from counterfoil.db import Connection, Database
from counterfoil.documents.erasure import MAX_ATTEMPT_DURATION
from counterfoil.errors import ServiceUnavailableError
from functions.watchdog.erasures import RUN_SECONDS, erase
from functions.watchdog.steps import StepsFailedError
from tests.dead_letters.audit_trail import first_broken_entry
from tests.delivery.harness import Clock, rows
from tests.functions.test_documents import BUCKET, INVOICE, Pipeline, pipeline, s3_event
from tests.migrations.tenants import ROWS, Tenant

__all__ = ["pipeline"]

DONE: dict[str, Any] = {"batchItemFailures": []}
SHARED_MAIL, OWN_MAIL = "inbox/shared", "inbox/own"
PURGE_DEAD_LETTERS = "UPDATE dead_letter l SET purge_id = p.id FROM operation p WHERE l.tenant_id = p.tenant_id"


class ErasureHarness:
    """Two tenants with a row in every table and objects under every prefix.

    Tests erase `tenant`.
    """

    def __init__(self, pipeline: Pipeline, admin: Connection, maintenance: Database, clock: Clock) -> None:
        self.s3, self.admin, self.maintenance = pipeline.s3, admin, maintenance
        self.now = clock.now = datetime.now(UTC) + timedelta(hours=1)  # later than the date of any S3 object
        self.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        self.tenant, self.other_tenant = Tenant(admin, "ours"), Tenant(admin, "theirs")
        for tenant in (self.tenant, self.other_tenant):
            for table in ROWS:
                tenant.insert(admin, table)
            admin.execute("INSERT INTO breaker (name) VALUES ('destination:' || %s::text)", [tenant.destination])
        for prefix in self.prefixes(self.tenant, "ours") + self.prefixes(self.other_tenant, "theirs"):
            self.put(f"{prefix}a b.pdf")
        for key, owners in ((SHARED_MAIL, [self.tenant, self.other_tenant]), (OWN_MAIL, [self.tenant])):
            self.put(key)
            for owner in (None, *[tenant.id for tenant in owners]):
                self.mail_job(key, owner)

    def mail_job(self, key: str, tenant_id: UUID | None) -> None:
        self.admin.execute(
            """INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status)
               VALUES (gen_random_uuid(), %s, %s, %s, '00', 1, now(), 'succeeded')""",
            [tenant_id, BUCKET, key],
        )

    @staticmethod
    def prefixes(tenant: Tenant, slug: str) -> list[str]:
        return [prefix.format(slug=slug, id=tenant.id) for prefix in tenant_erasure.PREFIXES]

    def put(self, key: str) -> None:
        """Store an object with two versions, a delete marker and a multipart upload.

        The upload is incomplete.
        """
        for _ in range(2):
            self.s3.put_object(Bucket=BUCKET, Key=key, Body=b"content")
        self.s3.delete_object(Bucket=BUCKET, Key=key)
        self.s3.create_multipart_upload(Bucket=BUCKET, Key=key)

    def request(self) -> None:
        with self.maintenance.delivery() as connection:
            assert tenant_erasure.request(connection, "ours", self.now, by="ann") is not None

    def run(self) -> dict[str, int]:
        return erase(self.maintenance, BUCKET, lambda: self.now, lambda: 60.0)

    def finish(self) -> None:
        self.run()
        self.now += MAX_ATTEMPT_DURATION
        assert self.run()["tenant_erasure"] == 1

    def remaining_rows(self, tenant: Tenant) -> dict[str, int]:
        """Return the tenant's row count in every table with a `tenant_id` column."""
        tables = self.admin.execute(
            """SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
               WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')"""
        ).fetchall()
        counts = {}
        for (table,) in tables:
            count = SQL("SELECT count(*) FROM {} WHERE tenant_id = %s").format(Identifier(table))
            ((counts[table],),) = self.admin.execute(count, [tenant.id]).fetchall()
        assert counts.keys() >= ROWS.keys()
        return counts

    def rows_mentioning(self, *texts: str) -> dict[str, int]:
        """Return the number of rows with one of `texts`, by table.

        Tables without such rows are omitted.
        """
        tables = self.admin.execute(
            """SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
               AND relname <> 'applied_migration'"""
        ).fetchall()
        counts = {}
        for (table,) in tables:
            count = SQL(
                "SELECT count(*) FROM {} AS t WHERE EXISTS (SELECT FROM unnest(%s::text[]) x WHERE t::text LIKE x)"
            )
            patterns = [[f"%{text}%" for text in texts]]
            ((number,),) = self.admin.execute(count.format(Identifier(table)), patterns).fetchall()
            if number:
                counts[table] = number
        return counts

    def objects(self, prefix: str = "") -> int:
        """Return the number of versions, delete markers and uploads below a prefix.

        Uploads are incomplete multipart uploads.
        """
        listing = self.s3.list_object_versions(Bucket=BUCKET, Prefix=prefix)
        uploads = self.s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        prefix_uploads = [upload for upload in uploads if upload["Key"].startswith(prefix)]
        return len(listing.get("Versions", [])) + len(listing.get("DeleteMarkers", [])) + len(prefix_uploads)


@pytest.fixture
def harness(pipeline: Pipeline, admin: Connection, maintenance_database: Database, clock: Clock) -> ErasureHarness:
    return ErasureHarness(pipeline, admin, maintenance_database, clock)


def test_erased_tenant_leaves_no_row_and_no_object(harness: ErasureHarness) -> None:
    before = harness.remaining_rows(harness.other_tenant)
    assert min(harness.remaining_rows(harness.tenant).values()) > 0, "the test needs a row of the tenant in every table"
    organizations = harness.admin.execute("SELECT count(*) FROM organization").fetchone()

    harness.request()
    harness.finish()

    assert harness.remaining_rows(harness.tenant) == dict.fromkeys(before, 0)
    assert harness.rows_mentioning(str(harness.tenant.id), str(harness.tenant.destination), "ours") == {}
    assert harness.admin.execute("SELECT count(*) + 1 FROM organization").fetchone() == organizations
    assert {prefix: harness.objects(prefix) for prefix in harness.prefixes(harness.tenant, "ours")} == dict.fromkeys(
        harness.prefixes(harness.tenant, "ours"), 0
    )
    assert harness.objects(OWN_MAIL) == 0
    assert harness.remaining_rows(harness.other_tenant) == before
    assert all(harness.objects(prefix) == 4 for prefix in harness.prefixes(harness.other_tenant, "theirs"))
    assert harness.objects(SHARED_MAIL) == 4


def test_table_without_erasing_policy_stops_the_erasure(harness: ErasureHarness) -> None:
    harness.admin.execute("CREATE TABLE added_later (tenant_id uuid)")
    harness.admin.execute("INSERT INTO added_later VALUES (%s)", [harness.tenant.id])
    harness.request()

    with pytest.raises(StepsFailedError):
        harness.run()

    assert harness.rows_mentioning("ours")["tenant_erasure"] == 1


def test_shared_mail_is_erased_with_its_last_tenant(harness: ErasureHarness) -> None:
    harness.request()
    harness.finish()
    with harness.maintenance.delivery() as connection:
        tenant_erasure.request(connection, "theirs", harness.now, by="ann")
    harness.finish()
    harness.run()

    assert harness.objects() == 0
    assert [job["key"].split("/")[0] for job in rows(harness.admin, "acquisition_job")] == ["(erased)"] * 2


def test_job_of_erased_file_does_not_retain_mail(harness: ErasureHarness) -> None:
    """The other tenant erased its document while the mail was still referenced.

    The erased tenant's document referenced it.
    """
    harness.admin.execute(
        "UPDATE acquisition_job SET status = NULL, skip_reason = 'The file was erased.' "
        "WHERE tenant_id = %s AND key = %s",
        [harness.other_tenant.id, SHARED_MAIL],
    )
    harness.request()

    harness.finish()
    harness.run()

    assert harness.objects(SHARED_MAIL) == 0


def test_erasure_is_recorded_in_unassigned_audit_trail(harness: ErasureHarness) -> None:
    ((number, chain_hash),) = harness.admin.execute(
        "SELECT number, encode(hash, 'hex') FROM audit_head WHERE tenant_id = %s", [harness.tenant.id]
    ).fetchall()
    harness.request()
    harness.finish()

    with harness.maintenance.delivery() as connection:
        entries = audit.page(connection, None, limit=10)
        assert first_broken_entry(connection, None) is None
        erasure = tenant_erasure.find(connection, "ours")
    finished, requested = entries
    assert (requested.actor, requested.action, finished.action) == (
        "ann",
        "tenant erasure requested",
        "tenant erased",
    )
    assert requested.targets == finished.targets
    assert requested.detail == {"chain_number": number, "chain_hash": chain_hash}
    assert erasure is not None
    assert erasure.finished_at == harness.now
    assert finished.detail == {"rows": erasure.rows, "objects": erasure.objects}
    assert min(erasure.rows, erasure.objects) > 0


def test_other_tenants_audit_trail_stays_append_only(harness: ErasureHarness) -> None:
    harness.request()
    for table in ("audit_entry", "audit_head"):
        with pytest.raises(Exception, match="append-only"):
            harness.admin.execute(
                SQL("DELETE FROM {} WHERE tenant_id = %s").format(Identifier(table)), [harness.other_tenant.id]
            )


def test_interrupted_erasure_is_resumed(harness: ErasureHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        harness.tenant.insert(harness.admin, "outbox")
    harness.request()
    seconds_left = iter([60.0] * 5)
    step = tenant_erasure.step(
        harness.maintenance, BUCKET, lambda: harness.now, lambda: next(seconds_left, 0.0), at_once=1
    )
    assert step == 0
    assert sum(harness.remaining_rows(harness.tenant).values()) > 0

    error = ServiceUnavailableError("S3 is unavailable")
    with monkeypatch.context() as patch:
        patch.setattr(objects, "erase", lambda *_, **__: (_ for _ in ()).throw(error))
        with pytest.raises(StepsFailedError):
            harness.run()
    assert harness.objects("uploads/ours/") > 0
    assert harness.rows_mentioning("ours")["tenant_erasure"] == 1

    harness.now += timedelta(minutes=2)
    harness.finish()
    assert sum(harness.remaining_rows(harness.tenant).values()) == 0
    assert harness.objects("uploads/ours/") == 0


def test_many_purged_dead_letters_are_erased_in_steps(harness: ErasureHarness) -> None:
    for _ in range(2):
        harness.tenant.insert(harness.admin, "dead_letter")
    harness.admin.execute(PURGE_DEAD_LETTERS)
    harness.request()

    tenant_erasure.step(harness.maintenance, BUCKET, lambda: harness.now, lambda: 60.0, at_once=1)

    assert sum(harness.remaining_rows(harness.tenant).values()) == 0


def test_locked_rows_are_erased_by_the_next_run(harness: ErasureHarness, admin_database_url: str) -> None:
    harness.admin.execute(PURGE_DEAD_LETTERS)
    harness.request()
    with psycopg.connect(admin_database_url) as other:
        other.execute("SELECT FROM dead_letter FOR UPDATE")
        assert harness.run()["tenant_erasure"] == 0
    remaining = harness.remaining_rows(harness.tenant)
    assert min(remaining["dead_letter"], remaining["operation"]) > 0

    harness.run()
    assert sum(harness.remaining_rows(harness.tenant).values()) == 0


def test_transactions_are_time_limited_and_delete_one_table(harness: ErasureHarness) -> None:
    harness.admin.execute("CREATE TABLE deletion (name text, xid xid8, seconds interval)")
    harness.admin.execute("GRANT INSERT ON deletion TO PUBLIC")
    harness.admin.execute(
        """CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO deletion
               VALUES (TG_TABLE_NAME, pg_current_xact_id(), current_setting('transaction_timeout')::interval);
               RETURN NULL;
           END $$"""
    )
    tables = ("outbox", "dead_letter", "task", "profile")
    for table in tables:
        harness.admin.execute(
            SQL("CREATE TRIGGER noted AFTER DELETE ON {} FOR EACH ROW EXECUTE FUNCTION note()").format(
                Identifier(table)
            )
        )
    harness.request()
    harness.run()

    deletions = harness.admin.execute("SELECT name, xid, seconds FROM deletion").fetchall()
    assert {name for name, *_ in deletions} == set(tables)
    assert len({xid for _, xid, _ in deletions}) == len({(name, xid) for name, xid, _ in deletions})
    assert max(seconds.total_seconds() for *_, seconds in deletions) <= tenant_erasure.STEP_SECONDS


def test_erasures_leave_time_for_other_watchdog_steps(harness: ErasureHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_erasure, "step", lambda *arguments: int(arguments[-1]()))
    assert harness.run()["tenant_erasure"] == RUN_SECONDS


def test_steps_are_smaller_after_a_timeout(harness: ErasureHarness) -> None:
    for _ in range(20):
        harness.tenant.insert(harness.admin, "outbox")
    harness.admin.execute(
        """CREATE FUNCTION take_too_long() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               IF (SELECT count(*) FROM gone) > 10 THEN
                   RAISE EXCEPTION 'transaction timeout' USING ERRCODE = '25P04';
               END IF;
               RETURN NULL;
           END $$"""
    )
    harness.admin.execute(
        """CREATE TRIGGER slow AFTER DELETE ON outbox REFERENCING OLD TABLE AS gone
           FOR EACH STATEMENT EXECUTE FUNCTION take_too_long()"""
    )
    harness.request()
    harness.run()
    assert sum(harness.remaining_rows(harness.tenant).values()) == 0


def bound_visits(admin: Connection, table: str, *, rows_visited: int) -> None:
    """Abort erasure transactions that visit too many rows, as a timeout does.

    The limit is `rows_visited` rows of a table.
    """
    admin.execute(
        """CREATE FUNCTION visit(most int) RETURNS boolean LANGUAGE plpgsql COST 0.01 AS $$
           DECLARE
               visited int := coalesce(nullif(current_setting('test.visited', true), '')::int, 0) + 1;
           BEGIN
               IF visited > most THEN
                   RAISE EXCEPTION 'transaction timeout' USING ERRCODE = '25P04';
               END IF;
               PERFORM set_config('test.visited', visited::text, true);
               RETURN true;
           END $$"""
    )
    policy = "CREATE POLICY visited ON {} AS RESTRICTIVE TO counterfoil_owner USING (visit({}))"
    admin.execute(SQL(policy).format(Identifier(table), rows_visited))


def fill_outbox(harness: ErasureHarness) -> None:
    """Insert 3,000 outbox rows for the other tenant, then one for the erased tenant."""
    harness.admin.execute(
        """INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at)
           SELECT %s, 'matching', gen_random_uuid(), 1, 0, now(), now() FROM generate_series(1, 3000)""",
        [harness.other_tenant.id],
    )
    harness.tenant.insert(harness.admin, "outbox")


def test_scan_of_large_table_finishes_despite_timeouts(harness: ErasureHarness) -> None:
    fill_outbox(harness)
    bound_visits(harness.admin, "outbox", rows_visited=1_000)
    harness.request()

    harness.run()

    assert sum(harness.remaining_rows(harness.tenant).values()) == 0
    assert harness.remaining_rows(harness.other_tenant)["outbox"] == 3001


def test_interrupted_scan_is_resumed_by_the_next_run(harness: ErasureHarness) -> None:
    fill_outbox(harness)
    harness.request()

    for _ in range(300):
        seconds_left = iter([60.0] * 4)
        tenant_erasure.step(
            harness.maintenance, BUCKET, lambda: harness.now, partial(next, seconds_left, 0.0), at_once=5
        )

    assert sum(harness.remaining_rows(harness.tenant).values()) == 0


def test_scan_that_always_times_out_fails(harness: ErasureHarness) -> None:
    fill_outbox(harness)
    bound_visits(harness.admin, "outbox", rows_visited=0)
    harness.request()

    with pytest.raises(StepsFailedError):
        harness.run()


def test_tables_referencing_tenants_have_tenant_index(admin: Connection) -> None:
    """Deleting a tenant searches each of these tables for the tenant's rows."""
    missing_indexes = admin.execute(
        """SELECT f.conrelid::regclass::text FROM pg_constraint f
           WHERE f.contype = 'f' AND f.confrelid = 'tenant'::regclass AND NOT EXISTS (
               SELECT FROM pg_index i
               WHERE i.indrelid = f.conrelid AND i.indkey[0] = f.conkey[1] AND i.indpred IS NULL
           )"""
    ).fetchall()
    assert missing_indexes == []


def test_failed_tenant_erasure_does_not_block_others(harness: ErasureHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.request()
    harness.now += timedelta(seconds=1)
    with harness.maintenance.delivery() as connection:
        tenant_erasure.request(connection, "theirs", harness.now, by="ann")
    erase_all = objects.erase

    def fail(bucket: str, key: str, *args: Any, **options: Any) -> int:
        if key.startswith("uploads/ours/"):
            raise ServiceUnavailableError("S3 refused it.")
        return erase_all(bucket, key, *args, **options)

    monkeypatch.setattr(objects, "erase", fail)
    with pytest.raises(StepsFailedError):
        harness.run()

    assert harness.objects("uploads/theirs/") == 0
    assert harness.objects("uploads/ours/") > 0
    harness.run()  # the failed erasure is not due yet
    monkeypatch.undo()
    harness.now += timedelta(minutes=2)
    harness.run()
    assert harness.objects("uploads/ours/") == 0


def test_objects_on_later_pages_are_erased(harness: ErasureHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        harness.s3.put_object(Bucket=BUCKET, Key=f"uploads/ours/{number}", Body=b"x")
    list_versions = harness.s3.list_object_versions
    monkeypatch.setattr(harness.s3, "list_object_versions", lambda **options: list_versions(**options, MaxKeys=3))

    assert objects.erase(BUCKET, "uploads/ours/", lambda: 60.0) == 10
    monkeypatch.undo()
    assert harness.objects("uploads/ours/") == 0


def test_late_writes_of_an_attempt_are_erased(harness: ErasureHarness) -> None:
    harness.request()
    harness.run()
    assert sum(harness.remaining_rows(harness.tenant).values()) == 0
    harness.put(f"children/{harness.tenant.id}/{uuid4()}/1-1.pdf")
    harness.admin.execute(
        "INSERT INTO payload_deletion (key, tenant_id, due_at) VALUES (%s, %s, now())",
        [f"tasks/{harness.tenant.id}/late", harness.tenant.id],
    )

    harness.now += MAX_ATTEMPT_DURATION
    harness.run()
    assert harness.remaining_rows(harness.tenant)["payload_deletion"] == 0
    assert harness.objects(f"children/{harness.tenant.id}/") == 0


def test_message_in_flight_recreates_nothing(harness: ErasureHarness, pipeline: Pipeline) -> None:
    harness.request()
    harness.s3.put_object(Bucket=BUCKET, Key="uploads/ours/late.xml", Body=INVOICE)
    assert pipeline.acquire(s3_event("uploads/ours/late.xml")) == DONE
    harness.finish()
    harness.s3.put_object(Bucket=BUCKET, Key="uploads/ours/later.xml", Body=INVOICE)
    assert pipeline.acquire(s3_event("uploads/ours/later.xml")) == DONE

    harness.run()

    assert sum(harness.remaining_rows(harness.tenant).values()) == 0
    assert harness.objects("uploads/ours/") == 0
    assert harness.rows_mentioning("ours", "later.xml") == {}
    pipeline.upload("uploads/theirs/new.xml", INVOICE, "77")
    assert harness.rows_mentioning("new.xml")["document"] == 1


def test_pending_payload_deletions_are_erased_with_rows(harness: ErasureHarness) -> None:
    """Deleting a payload after the objects were erased would create a delete marker."""
    key = f"tasks/{harness.tenant.id}/{uuid4()}.json"
    harness.admin.execute(
        "UPDATE task SET payload = NULL, payload_s3_key = %s WHERE tenant_id = %s",
        [key, harness.tenant.id],
        prepare=False,
    )
    harness.request()

    harness.run()

    assert harness.remaining_rows(harness.tenant)["payload_deletion"] == 0


def test_slug_hash_is_deleted_after_its_retention(harness: ErasureHarness) -> None:
    harness.request()
    harness.finish()
    with harness.maintenance.delivery() as connection:
        assert tenant_erasure.request(connection, "ours", harness.now, by="ann") is None
        assert tenant_erasure.find(connection, "ours") is not None

    harness.now += tenant_erasure.SLUG_RETENTION + timedelta(seconds=1)
    harness.run()

    with harness.maintenance.delivery() as connection:
        assert tenant_erasure.find(connection, "ours") is None
    assert rows(harness.admin, "tenant_erasure") == []


def test_no_erasure_runs_without_a_bucket(maintenance_database: Database) -> None:
    assert erase(maintenance_database, None, lambda: datetime.now(UTC), lambda: 60.0) == {}


@pytest.fixture(autouse=True)
def check_s3_client(pipeline: Pipeline) -> None:
    """Check that the watchdog and the tests use the same S3 client."""
    assert aws.client("s3") is pipeline.s3
