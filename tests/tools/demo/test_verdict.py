"""The verdict over a sample: it must see what is wrong, and nothing where nothing is."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid5

import pytest

from counterfoil.documents.upload_list import Stage, State, Upload
from tools.demo.verdict import STATE_OF_TRUTH, deviations
from tools.sample_generator import Sample, SampleFile, generate

NAMESPACE = UUID(int=1)
Found = dict[tuple[str, str], Upload]


@pytest.fixture(scope="module")
def sample() -> Sample:
    return generate(1)


def perfect(file: SampleFile) -> Upload:
    """What must become of a file."""
    truth = file.truth
    return Upload(
        tenant=file.tenant,
        file=file.name,
        key=f"uploads/{file.tenant}/{file.name}",
        id=uuid5(NAMESPACE, file.name),
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
        stage=Stage.MATCHING,
        state=STATE_OF_TRUTH[truth.state],
        note=None,
        type=truth.type,
        number=truth.number,
        sha256=file.sha256,
        cluster_id=uuid5(NAMESPACE, f"{file.tenant} {truth.cluster}") if truth.cluster else None,
    )


@pytest.fixture
def found(sample: Sample) -> Found:
    return {(file.tenant, file.name): perfect(file) for file in sample.files}


def first(sample: Sample, state: str) -> SampleFile:
    return next(file for file in sample.files if file.truth.state == state)


def test_what_is_as_the_truth_says_has_no_deviation(sample: Sample, found: Found):
    assert deviations(sample, found) == []


@pytest.mark.parametrize("state", STATE_OF_TRUTH)
def test_a_file_in_another_state_deviates(sample: Sample, found: Found, state: str):
    file = first(sample, state)
    found[file.tenant, file.name] = replace(perfect(file), state=State.WAITING, note="The database was away.")
    (deviation, *_) = deviations(sample, found)
    assert file.name in deviation.files
    assert "waiting" in deviation.found
    assert "The database was away." in deviation.found


def test_a_file_that_never_arrived_deviates(sample: Sample, found: Found):
    file = first(sample, "failed")
    del found[file.tenant, file.name]
    (deviation,) = deviations(sample, found)
    assert (deviation.expected, deviation.found) == ("failed", "nothing")


def test_a_document_read_as_another_number_deviates(sample: Sample, found: Found):
    file = first(sample, "succeeded")
    found[file.tenant, file.name] = replace(perfect(file), number="0")
    (deviation,) = deviations(sample, found)
    assert deviation.found == f"{file.truth.type} 0"


def test_either_of_two_equal_files_may_become_the_document(sample: Sample, found: Found):
    copy = first(sample, "seen-again")
    original = next(f for f in sample.files if (f.tenant, f.name) == (copy.tenant, copy.truth.same_as))
    here, there = (copy.tenant, copy.name), (original.tenant, original.name)
    found[here], found[there] = found[there], found[here]
    assert deviations(sample, found) == []


def test_two_clusters_that_were_made_one_deviate_both(sample: Sample, found: Found):
    tenant = sample.tenants[0]
    names = [key for key, outcome in found.items() if key[0] == tenant and outcome.cluster_id is not None]
    clusters = sorted({outcome.cluster_id for key in names if (outcome := found[key]).cluster_id}, key=str)
    for key in names:
        if found[key].cluster_id == clusters[0]:
            found[key] = replace(found[key], cluster_id=clusters[1])
    assert len(deviations(sample, found)) == 2


def test_a_document_torn_from_its_cluster_deviates(sample: Sample, found: Found):
    tenant = sample.tenants[0]
    large = max(sample.clusters(tenant), key=len)
    found[tenant, large[0]] = replace(found[tenant, large[0]], cluster_id=uuid5(NAMESPACE, "elsewhere"))
    (deviation,) = deviations(sample, found)
    assert list(deviation.files) == large
