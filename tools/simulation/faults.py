"""Faults in a history. The seed determines their kinds and number."""

from collections import Counter
from enum import StrEnum
from math import inf

from tools.simulation.scheduler import Scheduler


class Fault(StrEnum):
    """Kind of fault, injected at random."""

    KILL = "a process is killed"
    STALL = "a thread stalls"
    PAUSE = "a process is paused"
    NO_THREAD = "a thread cannot be started"
    NO_CONNECTION = "no connection to the database"
    CONNECTION_LOST = "the connection is lost during a statement"
    LOST_BEFORE_COMMIT = "the connection is lost before a commit"
    LOST_AFTER_COMMIT = "the connection is lost after a commit"
    DEADLOCK = "deadlock"
    SERIALIZATION = "serialization failure"
    FAIL_OVER = "the database fails over"
    CALL_REFUSED = "an SQS call fails before its effect"
    RESPONSE_LOST = "the response of an SQS call is lost after its effect"
    ENTRY_REFUSED = "an entry of an SQS batch call fails"
    EARLY = "a delayed message becomes visible early"
    DELIVERED_TWICE = "a message in flight is delivered again"
    RESURRECTED = "a deleted message reappears"
    WASTED_RECEIVE = "a received batch never reaches a function"
    THROTTLED = "the account has no concurrency left"
    SLOW_START = "a process starts slowly"
    RECYCLED = "an idle process is ended"
    NOT_DELETED = "acknowledged messages are not deleted"
    STORAGE = "S3 fails"
    DEPTH_WRONG = "a queue seems empty"
    MESSAGE_LOST = "a queue loses a message"
    CRASHES_AT_START = "a release crashes at start"
    TRANSACTION_LOST = "the database loses the transaction that sent a message"
    HUNG = "the database hangs"


RATES = {
    Fault.KILL: 0.02,
    Fault.STALL: 0.02,
    Fault.PAUSE: 0.02,
    Fault.NO_THREAD: 0.05,
    Fault.NO_CONNECTION: 0.05,
    Fault.CONNECTION_LOST: 0.03,
    Fault.LOST_BEFORE_COMMIT: 0.06,
    Fault.LOST_AFTER_COMMIT: 0.06,
    Fault.DEADLOCK: 0.03,
    Fault.SERIALIZATION: 0.03,
    Fault.FAIL_OVER: 0.004,
    Fault.CALL_REFUSED: 0.06,
    Fault.RESPONSE_LOST: 0.06,
    Fault.ENTRY_REFUSED: 0.08,
    Fault.EARLY: 0.3,
    Fault.DELIVERED_TWICE: 0.1,
    Fault.RESURRECTED: 0.1,
    Fault.WASTED_RECEIVE: 0.1,
    Fault.THROTTLED: 0.1,
    Fault.SLOW_START: 0.3,
    Fault.RECYCLED: 0.1,
    Fault.NOT_DELETED: 0.08,
    Fault.STORAGE: 0.1,
    Fault.DEPTH_WRONG: 0.3,
    Fault.MESSAGE_LOST: 0.05,
    Fault.TRANSACTION_LOST: 0.05,
    Fault.CRASHES_AT_START: 0.02,
    Fault.HUNG: 0.03,
}
"""Probability at each point where the fault can occur, if the history has this kind of fault.

Each history multiplies its probabilities by 0.5, 1 or 3.
"""
KIND_SHARE = 0.3
"""Probability that a history has a kind of fault."""
MAX_FAULTS = 12
"""Maximum number of faults in one history."""


class Faults:
    """The faults in one history."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        random = scheduler.random
        # The world draws HUNG separately, so that older seeds still give the same histories.
        self._kinds: set[Fault] = {fault for fault in Fault if fault is not Fault.HUNG and random.random() < KIND_SHARE}
        self._remaining = random.randint(0, MAX_FAULTS)
        self._factor = random.choice((0.5, 1, 3))
        self.injected: Counter[Fault] = Counter()
        self.failover_until = -inf
        """End of the failover in progress, in virtual seconds."""
        self.locked_until = -inf
        """Latest virtual time at which a stalled process may still hold its transactions' locks."""

    def ensure(self, fault: Fault, minimum: int) -> None:
        """Enable this kind of fault, and allow at least `minimum` more faults in total."""
        self._kinds.add(fault)
        self._remaining = max(self._remaining, minimum)

    def end(self) -> None:
        """Stop injecting faults."""
        self._remaining = 0
        self.failover_until = -inf

    def inject(self, fault: Fault) -> bool:
        """Decide whether to inject the fault now, and record it. Returns the decision."""
        if (
            self._remaining <= 0
            or fault not in self._kinds
            or self._scheduler.random.random() >= RATES[fault] * self._factor
        ):
            return False
        self._remaining -= 1
        self.injected[fault] += 1
        self._scheduler.log(f"FAULT: {fault}")
        return True
