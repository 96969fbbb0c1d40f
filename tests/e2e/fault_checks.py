"""Find documents that were lost, processed twice or processed incorrectly."""

from collections import Counter
from collections.abc import Collection, Iterator

from tests.e2e.database_snapshot import FINAL_STATES, Snapshot
from tests.e2e.load import GroundTruth

MAX_ATTEMPTS = 3
"""Maximum attempts per work item. A failed work item must have used all of them."""
DLQ_REASON = "max_retries_exceeded"
"""The only permitted reason in a failed work item's dead letter."""


def find_faults(snapshot: Snapshot, uploaded: Collection[str], truth: GroundTruth, *, max_failed: int) -> list[str]:
    """Return a sentence for each fault.

    Faults are unfinished uploads, lost or duplicate documents, unexpected failures and wrong matches.

    `uploaded` contains the file names. At most `max_failed` of these files may have failed, each after three attempts
    and with one notification. Matches in deals with a failed file are not checked.
    """
    return [
        *_unfinished_uploads(snapshot, uploaded),
        *_lost_and_duplicate_documents(snapshot, uploaded),
        *_unexpected_failures(snapshot, max_failed),
        *_wrong_matches(snapshot, truth.without(snapshot.failed_files)),
    ]


def _unfinished_uploads(snapshot: Snapshot, uploaded: Collection[str]) -> Iterator[str]:
    for states, count in snapshot.states.items():
        if states not in FINAL_STATES:
            yield f"{count} uploads are not in a final state: {states}."
    if snapshot.states.total() != len(uploaded):
        yield f"{snapshot.states.total()} of {len(uploaded)} uploads have states."
    if snapshot.unsent:
        yield f"{snapshot.unsent} messages are unsent."


def _lost_and_duplicate_documents(snapshot: Snapshot, uploaded: Collection[str]) -> Iterator[str]:
    names = Counter(uploaded)
    for name in sorted((names - snapshot.documents).keys() - snapshot.failed_files):
        yield f"{name} is lost."
    for name in sorted(snapshot.documents - names):
        yield f"{name} is stored {snapshot.documents[name]} times."


def _unexpected_failures(snapshot: Snapshot, max_failed: int) -> Iterator[str]:
    for worker, attempts in snapshot.attempts.items():
        if attempts > MAX_ATTEMPTS:
            yield f"{worker} made {attempts} attempts at one work item."
    for work, count in snapshot.failed.items():
        if snapshot.dead_letters[work, DLQ_REASON, MAX_ATTEMPTS] != count:
            yield f"{work} has failed but has no dead letter after {MAX_ATTEMPTS} attempts."
        if snapshot.notified[work] != count:
            yield f"{work} has failed with {snapshot.notified[work]} notifications."
    for dead_letter, count in snapshot.dead_letters.items():
        if dead_letter[0] not in snapshot.failed or dead_letter[1:] != (DLQ_REASON, MAX_ATTEMPTS) or count > 1:
            yield f"{count} dead letters are wrong: {dead_letter}."
    for work in snapshot.notified.keys() - snapshot.failed.keys():
        yield f"{work} has a notification but has not failed."
    if len(snapshot.failed_files) > max_failed:
        yield f"{len(snapshot.failed_files)} documents have failed, more than {max_failed}."


def _wrong_matches(snapshot: Snapshot, expected: GroundTruth) -> Iterator[str]:
    """Yield a fault for each missing or wrong edge or cluster of `expected`.

    It is also a fault if the rules or the model decided none of the expected edges.
    """
    names = {name for deal in expected.deals for name in deal}
    edges = Counter({edge: count for edge, count in snapshot.edges.items() if not names.isdisjoint(edge[:2])})
    expected_edges = Counter(expected.edges)
    for edge in sorted((expected_edges - edges).keys()):
        yield f"The edge {edge} is missing."
    for edge in sorted((edges - expected_edges).keys()):
        yield f"The edge {edge} is not expected."
    clusters = {cluster for cluster in snapshot.clusters if not names.isdisjoint(cluster)}
    for cluster in sorted(map(sorted, clusters ^ expected.clusters)):
        yield f"The cluster {cluster} is {'missing' if frozenset(cluster) in expected.clusters else 'wrong'}."
    if {decided_by for _, _, decided_by in expected.edges} != {"rules", "llm"}:
        yield "Inconclusive: none of the remaining edges was decided by the rules, or none by the model."
