"""The deployed app processes a complete sample.

The app uses S3, SQS, roles and row-level security.
"""

from collections import Counter

import pytest

from counterfoil.db import Connection
from counterfoil.documents.upload_list import State
from tools.demo.sample_check import mismatches
from tools.demo.sample_run import Run

pytestmark = pytest.mark.e2e


def test_documents_equal_the_ground_truth(run: Run):
    assert [mismatch.record for mismatch in mismatches(run.sample, run.current_uploads())] == []


def test_file_names_with_unicode_are_preserved(run: Run):
    names = {name for (_, name), outcome in run.current_uploads().items() if outcome.file == name}
    assert names == {file.name for file in run.sample.files}
    assert any(" " in name and not name.isascii() for name in names)


def test_failed_file_has_one_dead_letter_with_reason(run: Run, admin: Connection):
    failed = {outcome.key: outcome for outcome in run.current_uploads().values() if outcome.state is State.FAILED}
    dead_letters = admin.execute(
        """
        SELECT payload -> 'file' ->> 'key', metadata -> 'last_error' ->> 'message', dlq_reason, worker FROM dead_letter
        WHERE tenant_id = ANY(%s)
        """,
        [[tenant.id for tenant in run.tenants.values()]],
    ).fetchall()
    expected = {(key, outcome.note, "non_retriable_error", outcome.stage) for key, outcome in failed.items()}
    assert Counter(dead_letters) == Counter(expected)


def test_each_failure_is_notified_once(run: Run, admin: Connection):
    failed = [outcome for outcome in run.current_uploads().values() if outcome.state is State.FAILED]
    notification_count = admin.execute(
        "SELECT count(*) FROM failure_event WHERE tenant_id = ANY(%s)", [[tenant.id for tenant in run.tenants.values()]]
    ).fetchone()
    assert notification_count == (len(failed),)


def test_every_work_item_takes_one_attempt(run: Run, admin: Connection):
    attempts = admin.execute(
        """
        SELECT max(a.attempts), max(i.attempts), max(d.matching_attempts)
        FROM acquisition_job a LEFT JOIN source s ON s.job_id = a.id LEFT JOIN document d ON d.source_id = s.id
        LEFT JOIN ingestion_job i ON i.id = d.id WHERE a.tenant_id = ANY(%s)
        """,
        [[tenant.id for tenant in run.tenants.values()]],
    ).fetchone()
    assert attempts == (1, 1, 1)


def test_no_edge_spans_two_tenants(run: Run, admin: Connection):
    assert admin.execute(
        """
        SELECT count(*) FROM document_match m
        JOIN document a ON a.id = m.document_a_id JOIN document b ON b.id = m.document_b_id
        WHERE a.tenant_id <> b.tenant_id
        """
    ).fetchone() == (0,)
