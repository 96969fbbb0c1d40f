"""A sample's results are compared with its ground truth."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid5

import pytest

from counterfoil.documents.upload_list import Stage, State, Upload
from tools.demo.sample_check import EXPECTED_STATES, mismatches
from tools.sample_generator import Sample, SampleFile, generate

NAMESPACE = UUID(int=1)
Found = dict[tuple[str, str], Upload]


@pytest.fixture(scope="module")
def sample() -> Sample:
    return generate(1)


def expected_upload(file: SampleFile) -> Upload:
    """Return the expected upload for a file."""
    truth = file.truth
    return Upload(
        tenant=file.tenant,
        file=file.name,
        key=f"uploads/{file.tenant}/{file.name}",
        id=uuid5(NAMESPACE, file.name),
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
        stage=Stage.MATCHING,
        state=EXPECTED_STATES[truth.state],
        note=None,
        type=truth.type,
        number=truth.number,
        sha256=file.sha256,
        cluster_id=uuid5(NAMESPACE, f"{file.tenant} {truth.cluster}") if truth.cluster else None,
    )


@pytest.fixture
def uploads(sample: Sample) -> Found:
    return {(file.tenant, file.name): expected_upload(file) for file in sample.files}


def first(sample: Sample, state: str) -> SampleFile:
    return next(file for file in sample.files if file.truth.state == state)


def test_expected_results_have_no_mismatch(sample: Sample, uploads: Found):
    assert mismatches(sample, uploads) == []


@pytest.mark.parametrize("state", EXPECTED_STATES)
def test_unexpected_state_is_a_mismatch(sample: Sample, uploads: Found, state: str):
    file = first(sample, state)
    uploads[file.tenant, file.name] = replace(
        expected_upload(file), state=State.WAITING, note="The database was unavailable."
    )
    (mismatch, *_) = mismatches(sample, uploads)
    assert file.name in mismatch.files
    assert "waiting" in mismatch.found
    assert "The database was unavailable." in mismatch.found


def test_missing_file_is_a_mismatch(sample: Sample, uploads: Found):
    file = first(sample, "failed")
    del uploads[file.tenant, file.name]
    (mismatch,) = mismatches(sample, uploads)
    assert (mismatch.expected, mismatch.found) == ("failed", "nothing")


def test_incorrect_document_number_is_a_mismatch(sample: Sample, uploads: Found):
    file = first(sample, "succeeded")
    uploads[file.tenant, file.name] = replace(expected_upload(file), number="0")
    (mismatch,) = mismatches(sample, uploads)
    assert mismatch.found == f"{file.truth.type} 0"


def test_either_identical_file_may_become_the_document(sample: Sample, uploads: Found):
    copy = first(sample, "duplicate")
    original = next(f for f in sample.files if (f.tenant, f.name) == (copy.tenant, copy.truth.same_as))
    here, there = (copy.tenant, copy.name), (original.tenant, original.name)
    uploads[here], uploads[there] = uploads[there], uploads[here]
    assert mismatches(sample, uploads) == []


def test_merged_clusters_are_two_mismatches(sample: Sample, uploads: Found):
    tenant = sample.tenants[0]
    names = [key for key, outcome in uploads.items() if key[0] == tenant and outcome.cluster_id is not None]
    clusters = sorted({outcome.cluster_id for key in names if (outcome := uploads[key]).cluster_id}, key=str)
    for key in names:
        if uploads[key].cluster_id == clusters[0]:
            uploads[key] = replace(uploads[key], cluster_id=clusters[1])
    assert len(mismatches(sample, uploads)) == 2


def test_separated_document_is_a_mismatch(sample: Sample, uploads: Found):
    tenant = sample.tenants[0]
    large = max(sample.clusters(tenant), key=len)
    uploads[tenant, large[0]] = replace(uploads[tenant, large[0]], cluster_id=uuid5(NAMESPACE, "elsewhere"))
    (mismatch,) = mismatches(sample, uploads)
    assert list(mismatch.files) == large
