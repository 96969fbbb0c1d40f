"""The words of the model: its rules and their broken twins, its bounds, and what a state is made of."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

MAX_ATTEMPTS: Final = 3
MAX_RECEIVES: Final = 3
MAX_RETURNS: Final = 2

UNBORN: Final = "unborn"
"""Named by an event from outside, and not inserted yet."""
UNKNOWN: Final = "unknown"
"""Named by a message, and in no table."""
PENDING: Final = "pending"
RUNNING: Final = "in-progress"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
ENDED: Final = frozenset((SUCCEEDED, FAILED, SKIPPED))

NEWER: Final = -1
"""The age of a message whose row was lost by the database."""
CURRENT: Final = 0
"""The age of a message whose revision and send number are the row's."""
OLDER_SEND: Final = 1
OLDER_REVISION: Final = 2

VISIBLE: Final = "visible"
HIDDEN: Final = "hidden"
DEAD: Final = "in the dead-letter queue"
ARCHIVED: Final = "archived"
"""Settled by the archiver, and about to leave the dead-letter queue."""

DELETED: Final = "deleted"
"""Gone, but for those who have a receipt of it."""

RECEIVED: Final = "received"
"""And not protected: a step of its own only where that is not what happens at once."""
PROTECTED: Final = "protected"
WORKING: Final = "working"
LAST: Final = "told that it is exhausted"
ACKNOWLEDGING: Final = "acknowledging"
DOUBTING_TO_ACKNOWLEDGE: Final = "in doubt about its commit, then acknowledging"
DOUBTING_TO_REPORT: Final = "in doubt about its commit, then reporting"
SENDING: Final = "sending what it owes"
UNCLAIMED: Final = frozenset((RECEIVED, PROTECTED, ACKNOWLEDGING))
TRYING: Final = frozenset((WORKING, DOUBTING_TO_ACKNOWLEDGE, DOUBTING_TO_REPORT))


@dataclass(frozen=True)
class Rules:
    """The rules of delivery that the model can do without, to show what each is for. By default all hold."""

    acknowledges_only_the_settled: bool = True
    """Else messages are deleted in a `finally`."""
    compares_tokens: bool = True
    """A write names its claim's token, and changes nothing when that is not the latest."""
    tokens_only_grow: bool = True
    """Else the count of attempts is the token, and starts again with each revision."""
    revision_takes_token: bool = True
    archiver_takes_token: bool = True
    parking_takes_token: bool = True
    giving_back_compares_tokens: bool = True
    lease_ends: bool = True
    """Else work is in progress until somebody settles it."""
    lease_protects: bool = True
    """Else work in progress may be claimed at any time."""
    answers_exhausted: bool = True
    settles_what_is_exhausted: bool = True
    """Work that is told to be exhausted is failed only if it still is when it is settled."""
    reports_stale: bool = True
    """Else a try that finds a newer token acknowledges its message."""
    has_send_numbers: bool = True
    parks_in_one_transaction: bool = True
    """Else a parked message is acknowledged first, and the new one sent then."""
    parks_early: bool = True
    """Else an early message is acknowledged and done with."""
    parks_deferred: bool = True
    """Else work that a breaker holds up comes back by a short visibility."""
    protects_first: bool = True
    """Else a message waits for its permit in the visibility that the queue gave it."""
    gate_is_outside: bool = True
    """Else messages are received when there is no room for them, and thrown back."""
    looks_up_commits: bool = True
    """Else a commit that nobody heard of is taken for made."""
    notifies_in_the_transaction: bool = True
    settles_permanent: bool = True
    """Else a permanent failure is tried again like any other."""
    archives_before_deleting: bool = True
    resends_to_busy_queues: bool = True
    """Else the watchdog waits until the queue is empty."""
    enqueues_current: bool = True
    """Else a message newer than its row is acknowledged as unknown."""

    @cached_property
    def oldest(self) -> int:
        """The age from which on a message is known for an older copy."""
        return OLDER_SEND if self.has_send_numbers else OLDER_REVISION


RULES: Final = Rules()
TWINS: Final[dict[str, Rules]] = {
    "delete in finally": replace(RULES, acknowledges_only_the_settled=False),
    "no claim token": replace(RULES, compares_tokens=False),
    "attempts used as the token, reset by a new revision": replace(RULES, tokens_only_grow=False),
    "no new token with a new revision": replace(RULES, revision_takes_token=False),
    "no new token taken by the archiver": replace(RULES, archiver_takes_token=False),
    "no new token taken by parking": replace(RULES, parking_takes_token=False),
    "attempts given back without the token": replace(RULES, giving_back_compares_tokens=False),
    "no lease: never reclaimed": replace(RULES, lease_ends=False),
    "no lease: claimed while running": replace(RULES, lease_protects=False),
    "exhausted work claimed again": replace(RULES, answers_exhausted=False),
    "exhausted when asked, given back when settled": replace(RULES, settles_what_is_exhausted=False),
    "stale try acknowledged": replace(RULES, reports_stale=False),
    "no send number": replace(RULES, has_send_numbers=False),
    "parked without its outbox row": replace(RULES, parks_in_one_transaction=False),
    "early message skipped": replace(RULES, parks_early=False),
    "breaker by short visibility": replace(RULES, parks_deferred=False),
    "permit before protection": replace(RULES, protects_first=False),
    "throttling gate": replace(RULES, gate_is_outside=False),
    "unheard commit taken for made": replace(RULES, looks_up_commits=False),
    "notification after the transaction": replace(RULES, notifies_in_the_transaction=False),
    "permanent failure tried again": replace(RULES, settles_permanent=False),
    "dead letter deleted before it is written": replace(RULES, archives_before_deleting=False),
    "lost message not resent to a busy queue": replace(RULES, resends_to_busy_queues=False),
    "newer message acknowledged as unknown": replace(RULES, enqueues_current=False),
}
"""The rules with one of them broken, by the name of what is broken."""


@dataclass(frozen=True)
class Bounds:
    """How often each thing that goes wrong may happen in one history."""

    crashes: int = 2
    """Consumers or archivers killed or cut off from the database; leases or visibilities of living ones that lapse."""
    copies: int = 2
    """Messages delivered twice by the queue, or sent twice from the outbox."""
    revisions: int = 1
    """New revisions begun: a redrive of failed work, or new data at any other time."""
    purges: int = 0
    """Messages that a queue loses: purged, or kept beyond its retention."""
    restores: int = 0
    """Transactions that the database loses after their messages were sent."""
    busy: bool = False
    """Whether the queue always holds messages of other work."""
    messages: int = 9
    """How many may exist at once: while there are so many, the outbox waits. The rules alone never need so many."""


class Consumer(NamedTuple):
    """One receipt of one message, in the hands of an invocation."""

    step: str
    newest: bool
    """Whether this is the message's latest receipt."""
    third: bool = False
    """Whether it was the message's last receive."""
    holds: bool = False
    """Whether the token it knows is the row's."""
    rightful: bool = False
    """What `holds` is meant to tell: that nobody has taken the work since. No rule may look at it."""
    attempt: int = 0
    """The attempt that serves as token where `tokens_only_grow` is broken, else 0."""


class Message(NamedTuple):
    """One message of the queue, or of its dead-letter queue."""

    place: str
    age: int
    receives: int
    consumers: tuple[Consumer, ...] = ()


class Work(NamedTuple):
    """The row; and of its revision what nobody keeps, but the model remembers in order to judge."""

    status: str
    attempts: int = 0
    returns: int = 0
    leased: bool = False
    due: bool = True
    claims: int = 0
    """Claims committed and not given back."""
    effects: int = 0
    failures: int = 0
    notices: int = 0
    refused: bool = False
    """A try of this revision has ended in a permanent failure that was not settled."""
    breach: str = ""
    """What has just happened and must not."""


class State(NamedTuple):
    """All there is, at one moment."""

    work: Work
    messages: tuple[Message, ...]
    unsent: tuple[int, ...]
    """Rows of the outbox that are still to be sent, by age."""
    crashes: int
    """How many more may come; likewise the next four."""
    copies: int
    revisions: int
    purges: int
    restores: int


class Step(NamedTuple):
    """One transition."""

    name: str
    goes_on: bool
    """Whether it takes the work nearer to its end: neither one more thing that goes wrong, nor a deferral."""
    state: State
