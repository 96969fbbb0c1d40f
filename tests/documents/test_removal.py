"""Removal deletes a document, leaves a record, and rematches affected documents."""

from collections.abc import Callable, Sequence
from random import Random
from threading import Event, Thread
from typing import Any
from uuid import UUID

import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents import matching, removal
from counterfoil.documents.removal import DeletionResult
from counterfoil.errors import PermanentError, StaleClaimError
from counterfoil.kinds import WORK_KINDS
from counterfoil.webhooks.destinations import enqueue
from tests.documents.matching.samples import SampleDocument, contract, credit, delivery, invoice, order, random_samples
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.factories import make_destination, make_document

CASE = [
    order(),
    delivery(po_reference="4711"),
    invoice(po_reference="4711", delivery_note_reference="LS-500"),
    credit(invoice_reference="R-81"),
]


@pytest.fixture
def make_harness(database: Database, admin: Connection) -> Callable[[Sequence[SampleDocument]], TenantHarness]:
    """`make_harness(documents)` returns a tenant whose documents are matched."""

    def make_harness(documents: Sequence[SampleDocument]) -> TenantHarness:
        harness = TenantHarness(database, admin, documents)
        harness.match_all()
        return harness

    return make_harness


def remove(harness: TenantHarness, position: int, **fields: Any) -> DeletionResult:
    with harness.database.tenant(harness.tenant_id) as connection:
        result = removal.delete_document(
            connection, harness.tenant_id, harness.ids[position], NOW, **{"by": "ann", **fields}
        )
    assert result is not None
    return result


def match_pending(harness: TenantHarness) -> list[int]:
    """Match the pending documents. Return their positions."""
    rows = harness.admin.execute(
        "SELECT id FROM document WHERE tenant_id = %s AND matching_status = 'pending' ORDER BY id", [harness.tenant_id]
    ).fetchall()
    pending = [harness.ids.index(id_) for (id_,) in rows]
    for position in pending:
        harness.match(position)
    return pending


def clusters(harness: TenantHarness) -> dict[int, int]:
    names = {id_: position for position, id_ in enumerate(harness.ids)}
    rows = harness.admin.execute("SELECT id, cluster_id FROM document WHERE tenant_id = %s", [harness.tenant_id])
    return {names[id_]: names[cluster] for id_, cluster in rows}


# -- deleted and recorded data --------------------------------------------------------------------------------------


def test_removal_deletes_keys_edges_and_jobs(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness], admin: Connection
):
    harness = make_harness(CASE)
    admin.execute(
        "INSERT INTO ingestion_job (id, tenant_id, created_at) VALUES (%s, %s, now())",
        [harness.ids[0], harness.tenant_id],
    )
    admin.execute("UPDATE document_match SET decided_by = 'reviewer' WHERE document_a_id = %s", [harness.ids[0]])
    assert {pair for pair in harness.links() if 0 in pair} == {(0, 1), (0, 2)}
    remove(harness, 0)
    assert admin.execute("SELECT FROM document WHERE id = %s", [harness.ids[0]]).fetchone() is None
    assert {pair for pair in harness.links() if 0 in pair} == set()
    for table, column in (("document_key", "document_id"), ("ingestion_job", "id"), ("llm_judgment", "document_id")):
        record = admin.execute(f"SELECT FROM {table} WHERE {column} = %s".encode(), [harness.ids[0]]).fetchone()
        assert record is None


def test_removal_record_contains_source_author_and_reason(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness], admin: Connection
):
    harness = make_harness(CASE)
    before = admin.execute(
        "SELECT source_id, bucket, key, file_name, content_hash, type FROM document WHERE id = %s", [harness.ids[2]]
    ).fetchone()
    remove(harness, 2, by="ann@acme.example", reason="wrong tenant")
    record = admin.execute(
        "SELECT source_id, bucket, key, file_name, content_hash, type FROM document_deletion WHERE document_id = %s",
        [harness.ids[2]],
    ).fetchone()
    removals = admin.execute("SELECT deleted_by, reason, deleted_at, replaced_by FROM document_deletion").fetchall()
    assert record == before
    assert removals == [("ann@acme.example", "wrong tenant", NOW, None)]


def test_worker_role_cannot_delete_documents_or_records(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness], database_url: str
):
    harness = make_harness(CASE[:1])
    with psycopg.connect(database_url, autocommit=True) as worker:
        worker.execute("SELECT set_config('counterfoil.tenant', %s, false)", [str(harness.tenant_id)])
        for statement in (
            "DELETE FROM document",
            "DELETE FROM document_deletion",
            "UPDATE document_deletion SET key = ''",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                worker.execute(statement.encode())


def test_other_tenants_document_cannot_be_removed(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness], admin: Connection
):
    own, foreign = make_harness(CASE), make_harness(CASE)
    with own.database.tenant(own.tenant_id) as connection:
        assert removal.delete_document(connection, own.tenant_id, foreign.ids[0], NOW, by="ann") is None
        connection.execute("SELECT delete_documents(%s, 'ann', NULL, NULL, now())", [foreign.ids])
    with own.database.tenant(own.tenant_id) as connection:
        assert removal.delete_document(connection, foreign.tenant_id, foreign.ids[0], NOW, by="ann") is None
    assert admin.execute("SELECT FROM document_deletion").fetchall() == []
    assert len(foreign.links()) == len(own.links()) == 4


def test_removing_a_bundle_removes_its_parts(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness], admin: Connection
):
    harness = make_harness(CASE)
    bundle = make_document(admin, harness.tenant_id, type="other")
    for page, position in enumerate((1, 2, 3), 1):
        admin.execute(
            "UPDATE document SET parent_id = %s, first_page = %s, last_page = %s WHERE id = %s",
            [bundle, page, page, harness.ids[position]],
        )
    assert remove(harness, 3).documents == (harness.ids[3],)
    harness.ids.append(bundle)
    assert remove(harness, 4).documents == (bundle, harness.ids[1], harness.ids[2])
    records = admin.execute("SELECT parent_id, first_page FROM document_deletion ORDER BY first_page").fetchall()
    assert records == [(bundle, 1), (bundle, 2), (bundle, 3), (None, None)]
    assert match_pending(harness) == [0]
    assert (harness.links(), clusters(harness)) == (set(), {0: 0})


def test_removal_resolves_pending_dead_letters(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness], admin: Connection
):
    harness = make_harness(CASE)
    dead_letters = [make_dead_letter(admin, harness, worker, 0) for worker in ("ingestion", "matching")]
    other = make_dead_letter(admin, harness, "matching", 3)
    remove(harness, 0, reason="twice")
    records = admin.execute("SELECT job_id, status, resolved_by, resolution ->> 'notes' FROM dead_letter").fetchall()
    assert set(records) == {
        (dead_letters[0], "resolved", "ann", "The document was removed: twice"),
        (dead_letters[1], "resolved", "ann", "The document was removed: twice"),
        (other, "pending", None, None),
    }
    audit = admin.execute("SELECT job_id, action, actor FROM dead_letter_audit").fetchall()
    assert set(audit) == {(job_id, "resolved", "ann") for job_id in dead_letters}


def make_dead_letter(admin: Connection, harness: TenantHarness, worker: str, position: int) -> UUID:
    job_id = WORK_KINDS[worker].job_id(harness.ids[position])
    admin.execute(
        """
        INSERT INTO dead_letter (job_id, tenant_id, worker, work_id, revision, task_type, payload, metadata, attempts,
                                 fingerprint, dlq_reason, dlq_timestamp)
        VALUES (%s, %s, %s, %s, 1, %s, '{}', '{}', 3, 'f', 'max_retries_exceeded', now())
        """,
        [job_id, harness.tenant_id, worker, harness.ids[position], worker],
    )
    return job_id


# -- affected documents ----------------------------------------------------------------------------------------------


def test_removal_rematches_linked_and_referencing_documents(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness],
):
    unrelated = [order("9000", 200), contract("RV-1", 300)]
    harness = make_harness([*CASE, *unrelated])
    assert remove(harness, 0).rematched == 2
    assert match_pending(harness) == [1, 2]
    assert harness.links() == {(1, 2), (2, 3)}
    harness.admin.execute("UPDATE document SET matching_status = 'succeeded'")
    assert remove(harness, 2).rematched == 2  # the delivery note and the credit note
    assert match_pending(harness) == [1, 3]
    assert harness.links() == set()


def test_rematch_closes_dead_letter_of_failed_match(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness], admin: Connection
):
    harness = make_harness(CASE)
    make_dead_letter(admin, harness, "matching", 2)
    admin.execute("UPDATE document SET matching_status = 'failed' WHERE id = %s", [harness.ids[2]])
    remove(harness, 0)
    assert admin.execute("SELECT status, resolved_by, resolution FROM dead_letter").fetchall() == [
        ("retried", "ann", {"action": "retried", "notes": removal.REASON})
    ]


def test_next_duplicate_replaces_the_removed_original(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness],
):
    harness = make_harness([order(), invoice(po_reference="4711"), invoice(po_reference="4711", received=14)])
    assert harness.links() == {(0, 1), (1, 2)}
    remove(harness, 1)
    match_pending(harness)
    assert harness.links() == {(0, 2)}


@pytest.mark.parametrize("seed", range(6))
def test_removal_equals_never_receiving_the_document(seed: int, database: Database, admin: Connection):
    documents, random = random_samples(seed, 24), Random(seed)
    harness, reference = TenantHarness(database, admin, documents), TenantHarness(database, admin, documents)
    harness.match_all(random.sample(range(24), 24))
    removed = random.sample(range(24), 3)
    for position in removed:
        remove(harness, position)
        if random.random() < 0.5:
            match_pending(harness)
            admin.execute("UPDATE document SET matching_status = 'succeeded'")
    match_pending(harness)
    admin.execute("DELETE FROM document WHERE id = ANY(%s)", [[reference.ids[position] for position in removed]])
    reference.match_all(position for position in range(24) if position not in removed)
    assert harness.edges() == reference.edges()
    assert clusters(harness) == clusters(reference)


def test_removal_recomputes_previous_and_new_clusters(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness], admin: Connection
):
    harness = make_harness(CASE)
    admin.execute("DELETE FROM document_match WHERE document_a_id = %s AND document_b_id = %s", harness.ids[1:3])
    messages = remove(harness, 0).messages
    assert clusters(harness) == {1: 1, 2: 2, 3: 2}
    recomputed = {message.message.work_id for message in messages if message.worker == "diagnostics"}
    assert recomputed == {harness.ids[0], harness.ids[1], harness.ids[2]}


def test_removal_is_delivered_to_previous_destinations(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness], admin: Connection
):
    harness = make_harness(CASE)
    make_destination(admin, harness.tenant_id, "erp")
    with harness.database.tenant(harness.tenant_id) as connection:
        enqueue(connection, harness.tenant_id, "document", harness.ids[0], lambda: '{"state": "succeeded"}', NOW)
    messages = [*remove(harness, 0).messages, *remove(harness, 1).messages]
    assert [message.worker for message in messages].count("document_output") == 1
    assert admin.execute("SELECT subject_id, payload FROM output_job").fetchall() == [(harness.ids[0], None)]


# -- concurrent matches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("removed", range(4))
@pytest.mark.parametrize("matched", range(4))
@pytest.mark.parametrize("matched_before", [True, False], ids=["matched before", "new"])
def test_match_searched_before_removal_excludes_removed_document(
    matched: int, removed: int, matched_before: bool, database: Database, admin: Connection
):
    harness, reference = TenantHarness(database, admin, CASE), TenantHarness(database, admin, CASE)
    if matched_before:
        harness.match_all()
    rest = [position for position in range(4) if position != matched]
    harness.match_all(rest)
    pending_match = harness.search(matched)
    remove(harness, removed)
    if removed == matched:
        with pytest.raises(StaleClaimError, match="was removed"):
            harness.write(pending_match)
    else:
        harness.write(pending_match)
    match_pending(harness)
    admin.execute("DELETE FROM document WHERE id = %s", [reference.ids[removed]])
    reference.match_all(position for position in range(4) if position != removed)
    assert (harness.edges(), clusters(harness)) == (reference.edges(), clusters(reference))


def test_match_during_removal_is_decided_again(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness],
):
    """The removal cannot find the new invoice, because the invoice has no keys yet."""
    harness = make_harness([order()])
    new_position = harness.file(invoice(po_reference="4711"))
    with harness.database.tenant(harness.tenant_id) as connection:
        removal.delete_document(connection, harness.tenant_id, harness.ids[0], NOW, by="ann")
        pending_match = harness.search(new_position)
        assert pending_match.outcome.added
    assert harness.write(pending_match).was_repeated
    assert harness.links() == set()


def test_removal_waits_for_concurrent_match_and_deletes_edge(
    make_harness: Callable[[Sequence[SampleDocument]], TenantHarness], database: Database
):
    harness = make_harness([order()])
    new_position = harness.file(invoice(po_reference="4711"))
    pending_match = harness.search(new_position)
    started, finished = Event(), Event()

    def remove_concurrently() -> None:
        started.set()
        remove(harness, 0)
        finished.set()

    other = Thread(target=remove_concurrently)
    with database.tenant(harness.tenant_id) as connection:
        matching.write(connection, pending_match, NOW)
        other.start()
        assert started.wait(10)
        wait_until_blocked(harness.admin)
        assert not finished.is_set()
    other.join()
    assert harness.links() == set()
    assert match_pending(harness) == [new_position]
    assert (harness.links(), clusters(harness)) == (set(), {new_position: new_position})


def wait_until_blocked(admin: Connection) -> None:
    """Return once a session waits for an advisory lock."""
    while admin.execute("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone() is None:
        pass


def test_matching_a_removed_document_fails(make_harness: Callable[[Sequence[SampleDocument]], TenantHarness]):
    harness = make_harness(CASE)
    remove(harness, 0)
    with pytest.raises(PermanentError, match="no longer exists"):
        harness.match(0)
