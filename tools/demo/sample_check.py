"""Compares the results of sample files with their ground truth.

The comparison has no side effects.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from counterfoil.documents.upload_list import State, Upload
from tools.sample_generator import Sample, SampleFile

EXPECTED_STATES = {
    "succeeded": State.SUCCEEDED,
    "skipped": State.IGNORED,
    "failed": State.FAILED,
    "duplicate": State.DUPLICATE,
}
"""Document states by their names in the sample."""

UploadsByFile = Mapping[tuple[str, str], Upload]
"""Uploads by tenant (in the sample) and file name."""


@dataclass(frozen=True)
class Mismatch:
    """One or more files with an unexpected result."""

    tenant: str
    files: Sequence[str]
    expected: str
    found: str

    @property
    def record(self) -> dict[str, Any]:
        """Mismatch as a JSON object."""
        return {"tenant": self.tenant, "files": list(self.files), "expected": self.expected, "found": self.found}


def mismatches(sample: Sample, uploads: UploadsByFile) -> list[Mismatch]:
    """Return all mismatches in states, types, numbers and clusters.

    A tenant's files with the same bytes are compared together, because any of them may become the document.
    """
    files_by_content: dict[tuple[str, str], list[SampleFile]] = defaultdict(list)
    for file in sample.files:
        files_by_content[file.tenant, file.sha256].append(file)
    result = [mismatch for files in files_by_content.values() for mismatch in _file_mismatches(files, uploads)]
    return [
        *result,
        *(mismatch for tenant in sample.tenants for mismatch in _cluster_mismatches(sample, tenant, uploads)),
    ]


def _file_mismatches(files: Sequence[SampleFile], uploads: UploadsByFile) -> Iterator[Mismatch]:
    tenant, names = files[0].tenant, [file.name for file in files]
    expected = Counter(EXPECTED_STATES[file.truth.state] for file in files)
    results = [uploads[tenant, name] for name in names if (tenant, name) in uploads]
    states = Counter(upload.state for upload in results)
    if states != expected:
        notes = "; ".join(upload.note for upload in results if upload.note)
        yield Mismatch(
            tenant, names, _format_states(expected), _format_states(states) + (f" ({notes})" if notes else "")
        )
    for upload in results:
        truth = files[0].truth
        if upload.state is State.SUCCEEDED and (upload.type, upload.number) != (truth.type, truth.number):
            read_as = f"{upload.type} {upload.number}"
            yield Mismatch(tenant, [upload.file], f"{truth.type} {truth.number}", read_as)


def _format_states(states: Counter[State]) -> str:
    is_single = states.total() == 1
    return ", ".join(state if is_single else f"{count} {state}" for state, count in states.items()) or "nothing"


def _cluster_mismatches(sample: Sample, tenant: str, uploads: UploadsByFile) -> Iterator[Mismatch]:
    """Yield the expected clusters that were not found.

    Clusters are compared as sets of content hashes.
    """
    names = {file.sha256: file.name for file in sample.files if file.tenant == tenant and file.truth.same_as is None}
    expected_members: dict[str, set[str]] = defaultdict(set)
    for file in sample.files:
        if file.tenant == tenant and file.truth.cluster is not None:
            expected_members[file.truth.cluster].add(file.sha256)
    clusters: dict[UUID | None, set[str]] = defaultdict(set)
    for (owner, _), upload in uploads.items():
        if owner == tenant and upload.state is State.SUCCEEDED and upload.sha256 is not None:
            clusters[upload.cluster_id].add(upload.sha256)
    expected = {frozenset(members) for members in expected_members.values()}
    for members in sorted(expected - {frozenset(cluster) for cluster in clusters.values()}, key=sorted):
        overlapping = [sorted(names[hash_] for hash_ in cluster) for cluster in clusters.values() if cluster & members]
        yield Mismatch(
            tenant,
            sorted(names[hash_] for hash_ in members),
            "one cluster with exactly these files",
            _format_clusters(overlapping),
        )


def _format_clusters(clusters: Iterable[Sequence[str]]) -> str:
    return " | ".join(", ".join(cluster) for cluster in clusters) or "none of these files is in a cluster"
