"""The verdict on what became of documents: what is wrong with it, if each was to end once and right."""

from collections import Counter
from collections.abc import Collection, Iterator

from tests.e2e.found import ENDS, Found
from tests.e2e.load import Truth

ATTEMPTS = 3
"""Tries of any piece of work, at most; and of any that has failed, exactly."""
FAILURE = "max_retries_exceeded"
"""Why work may end in failure where nothing is wrong with the documents."""


def faults(found: Found, uploaded: Collection[str], truth: Truth, *, spoilt_at_most: int) -> list[str]:
    """What is wrong, a sentence each; nothing, if all have ended, none is lost, none was done twice, and all is right.

    `uploaded` are the files' names. Up to `spoilt_at_most` of them may have failed, each after three tries and told
    once; what could be told to belong together with one of these is not looked at.
    """
    return [
        *_unfinished(found, uploaded),
        *_lost_and_doubled(found, uploaded),
        *_wrongly_failed(found, spoilt_at_most),
        *_wrongly_matched(found, truth.without(found.spoilt)),
    ]


def _unfinished(found: Found, uploaded: Collection[str]) -> Iterator[str]:
    for states, count in found.states.items():
        if states not in ENDS:
            yield f"{count} uploads have not ended, their states are {states}."
    if found.states.total() != len(uploaded):
        yield f"There are states of {found.states.total()} uploads, and there were {len(uploaded)}."
    if found.unsent:
        yield f"{found.unsent} messages are still owed."


def _lost_and_doubled(found: Found, uploaded: Collection[str]) -> Iterator[str]:
    names = Counter(uploaded)
    for name in sorted((names - found.documents).keys() - found.spoilt):
        yield f"{name} is lost."
    for name in sorted(found.documents - names):
        yield f"{name} is there {found.documents[name]} times."


def _wrongly_failed(found: Found, spoilt_at_most: int) -> Iterator[str]:
    for worker, most in found.attempts.items():
        if most > ATTEMPTS:
            yield f"Something was tried {most} times by {worker}."
    for work, count in found.failed.items():
        if found.letters[work, FAILURE, ATTEMPTS] != count:
            yield f"{work} has failed, and has no dead letter of {ATTEMPTS} tries."
        if found.notified[work] != count:
            yield f"{work} has failed, and {found.notified[work]} notifications tell of it."
    for letter, count in found.letters.items():
        if letter[0] not in found.failed or letter[1:] != (FAILURE, ATTEMPTS) or count > 1:
            yield f"{count} dead letters are wrong: {letter}."
    for work in found.notified.keys() - found.failed.keys():
        yield f"{work} has not failed, and a notification tells that it has."
    if len(found.spoilt) > spoilt_at_most:
        yield f"{len(found.spoilt)} documents have failed, more than {spoilt_at_most}."


def _wrongly_matched(found: Found, expected: Truth) -> Iterator[str]:
    """What is wrong with the documents that `expected` is about; an edge or cluster counts where it touches them."""
    kept = {name for deal in expected.deals for name in deal}
    edges = Counter({edge: count for edge, count in found.edges.items() if not kept.isdisjoint(edge[:2])})
    wanted = Counter(expected.edges)
    for edge in sorted((wanted - edges).keys()):
        yield f"There is no edge {edge}."
    for edge in sorted((edges - wanted).keys()):
        yield f"There is an edge too many: {edge}."
    clusters = {cluster for cluster in found.clusters if not kept.isdisjoint(cluster)}
    for cluster in sorted(map(sorted, clusters ^ expected.clusters)):
        yield f"The cluster {cluster} is {'missing' if frozenset(cluster) in expected.clusters else 'wrong'}."
    if {decided_by for _, _, decided_by in expected.edges} != {"rules", "llm"}:
        yield "Too few are left to judge by: nothing that the rules decide, or nothing that the model does."
