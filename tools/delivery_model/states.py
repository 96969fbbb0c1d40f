"""Vocabulary of the model: rules, mutants, bounds and states."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

MAX_ATTEMPTS: Final = 3
MAX_RECEIVES: Final = 3
MAX_RETURNS: Final = 2

UNREGISTERED: Final = "unregistered"
"""Status of a work item that an external event refers to, but that has no row yet."""
UNKNOWN: Final = "unknown"
"""Status of a work item that a message refers to, but that has no row."""
PENDING: Final = "pending"
RUNNING: Final = "in-progress"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
ENDED: Final = frozenset((SUCCEEDED, FAILED, SKIPPED))

NEWER: Final = -1
"""Age of a message that is newer than its row, because the database lost a transaction."""
CURRENT: Final = 0
"""Age of a message with the revision and send number of its row."""
OLDER_SEND: Final = 1
OLDER_REVISION: Final = 2

VISIBLE: Final = "visible"
HIDDEN: Final = "hidden"
DEAD: Final = "in the dead-letter queue"
ARCHIVED: Final = "archived"
"""Status of a message that the archiver has settled, but not yet deleted from the dead-letter queue."""

DELETED: Final = "deleted"
"""Status of a deleted message, for which consumers may still have receipt handles."""

RECEIVED: Final = "received"
"""Step before a message is protected. It is a separate step only if `protects_first` is disabled."""
PROTECTED: Final = "protected"
WORKING: Final = "working"
EXHAUSTED: Final = "exhausted"
ACKNOWLEDGING: Final = "acknowledging"
UNCERTAIN_ACKNOWLEDGE: Final = "uncertain about its commit, then acknowledging"
UNCERTAIN_REPORT: Final = "uncertain about its commit, then reporting"
SENDING: Final = "sending the parked message"
UNCLAIMED: Final = frozenset((RECEIVED, PROTECTED, ACKNOWLEDGING))
ATTEMPT_STEPS: Final = frozenset((WORKING, UNCERTAIN_ACKNOWLEDGE, UNCERTAIN_REPORT))


@dataclass(frozen=True)
class Rules:
    """Delivery rules that can be disabled to show their purpose.

    All are enabled by default.
    """

    acknowledges_only_settled: bool = True
    """If disabled, messages are deleted in a `finally`."""
    compares_tokens: bool = True
    """A write has no effect unless its claim token is the latest."""
    tokens_increase: bool = True
    """If disabled, the attempt count is the token and restarts with each revision."""
    revision_takes_token: bool = True
    archiver_takes_token: bool = True
    parking_takes_token: bool = True
    return_compares_tokens: bool = True
    lease_expires: bool = True
    """If disabled, a work item stays in progress until it is settled."""
    lease_protects: bool = True
    """If disabled, a work item in progress can be claimed at any time."""
    rejects_exhausted: bool = True
    rechecks_exhausted: bool = True
    """An exhausted work item fails only if it is still exhausted when it is settled."""
    reports_stale: bool = True
    """If disabled, an attempt that finds a newer token acknowledges its message."""
    has_send_numbers: bool = True
    parks_in_one_transaction: bool = True
    """If disabled, a parked message is acknowledged before the new one is sent."""
    parks_early: bool = True
    """If disabled, an early message is acknowledged and dropped."""
    parks_deferred: bool = True
    """If disabled, a work item deferred by a breaker uses a short visibility timeout."""
    protects_first: bool = True
    """If disabled, a message waits for its permit with the queue's visibility timeout."""
    limits_receives: bool = True
    """If disabled, messages are received without a free permit and then throttled."""
    looks_up_commits: bool = True
    """If disabled, an unconfirmed commit is assumed to have succeeded."""
    notifies_in_transaction: bool = True
    settles_permanent: bool = True
    """If disabled, a permanent failure is retried like any other."""
    archives_before_deleting: bool = True
    resends_to_busy_queues: bool = True
    """If disabled, the watchdog waits until the queue is empty."""
    enqueues_current: bool = True
    """If disabled, a message newer than its row is acknowledged as unknown."""

    @cached_property
    def oldest(self) -> int:
        """Minimum age at which a message is recognized as outdated."""
        return OLDER_SEND if self.has_send_numbers else OLDER_REVISION


RULES: Final = Rules()
MUTANTS: Final[dict[str, Rules]] = {
    "delete in finally": replace(RULES, acknowledges_only_settled=False),
    "no claim token": replace(RULES, compares_tokens=False),
    "attempts used as the token, reset by a new revision": replace(RULES, tokens_increase=False),
    "no new token with a new revision": replace(RULES, revision_takes_token=False),
    "no new token taken by the archiver": replace(RULES, archiver_takes_token=False),
    "no new token taken by parking": replace(RULES, parking_takes_token=False),
    "attempts returned without the token": replace(RULES, return_compares_tokens=False),
    "no lease: never reclaimed": replace(RULES, lease_expires=False),
    "no lease: claimed while running": replace(RULES, lease_protects=False),
    "exhausted work item claimed again": replace(RULES, rejects_exhausted=False),
    "exhausted when claimed, returned when settled": replace(RULES, rechecks_exhausted=False),
    "stale attempt acknowledged": replace(RULES, reports_stale=False),
    "no send number": replace(RULES, has_send_numbers=False),
    "parked without its outbox row": replace(RULES, parks_in_one_transaction=False),
    "early message skipped": replace(RULES, parks_early=False),
    "breaker by short visibility": replace(RULES, parks_deferred=False),
    "permit before protection": replace(RULES, protects_first=False),
    "throttling limit": replace(RULES, limits_receives=False),
    "unconfirmed commit assumed": replace(RULES, looks_up_commits=False),
    "notification after the transaction": replace(RULES, notifies_in_transaction=False),
    "permanent failure retried": replace(RULES, settles_permanent=False),
    "dead letter deleted before it is written": replace(RULES, archives_before_deleting=False),
    "lost message not resent to a busy queue": replace(RULES, resends_to_busy_queues=False),
    "newer message acknowledged as unknown": replace(RULES, enqueues_current=False),
}
"""Sets of rules with one rule disabled, by mutant name."""


@dataclass(frozen=True)
class Bounds:
    """Limits on faults in one history."""

    crashes: int = 2
    """Maximum number of crashes, lost connections, and leases or visibility timeouts that expire early."""
    copies: int = 2
    """Maximum number of duplicates from the queue, the outbox and the watchdog."""
    revisions: int = 1
    """Maximum number of new revisions: retries of failed work items, or new data at any time."""
    purges: int = 0
    """Maximum number of messages that a queue loses through a purge or the end of their retention."""
    restores: int = 0
    """Maximum number of transactions that the database loses after their messages were sent."""
    busy: bool = False
    """Whether the queue always contains messages for other work items."""
    messages: int = 9
    """Maximum number of messages. At the limit, the outbox waits."""


class Consumer(NamedTuple):
    """One receive of a message by an invocation."""

    step: str
    is_newest: bool
    """Whether this is the message's latest receive."""
    is_last_receive: bool = False
    """Whether this receive uses up the message's receive limit."""
    knows_latest_token: bool = False
    """Whether the consumer's claim token is the row's current token."""
    has_latest_claim: bool = False
    """Whether this consumer's claim is the latest. `knows_latest_token` must imply it. No rule may read it."""
    attempt: int = 0
    """Attempt number that serves as the token if `tokens_increase` is disabled, else 0."""


class Message(NamedTuple):
    """A message in the queue or the dead-letter queue."""

    status: str
    age: int
    receives: int
    consumers: tuple[Consumer, ...] = ()


class Work(NamedTuple):
    """The work item's row, and counters for its revision that only the model records."""

    status: str
    attempts: int = 0
    returns: int = 0
    is_leased: bool = False
    is_due: bool = True
    claims: int = 0
    """Number of claims that were committed and not returned."""
    effects: int = 0
    failures: int = 0
    notifications: int = 0
    has_unsettled_failure: bool = False
    """Whether an attempt of this revision ended in a permanent failure that was not settled."""
    violation: str = ""
    """Violation caused by the last transition, if any."""


class State(NamedTuple):
    """A state of the model."""

    work: Work
    messages: tuple[Message, ...]
    unsent: tuple[int, ...]
    """Outbox rows to send, by age."""
    crashes: int
    """Number of crashes that may still occur. The next four fields are limits of the same kind."""
    copies: int
    revisions: int
    purges: int
    restores: int


class Step(NamedTuple):
    """One transition."""

    name: str
    is_progress: bool
    """Whether the transition brings the work item closer to a final status. False for faults and deferrals."""
    state: State
