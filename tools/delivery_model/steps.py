"""All transitions of the model: the rules' steps, and the faults."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tools.delivery_model.states import (
    ACKNOWLEDGING,
    ARCHIVED,
    ATTEMPT_STEPS,
    CURRENT,
    DEAD,
    DELETED,
    ENDED,
    EXHAUSTED,
    FAILED,
    HIDDEN,
    MAX_ATTEMPTS,
    MAX_RECEIVES,
    MAX_RETURNS,
    NEWER,
    OLDER_REVISION,
    OLDER_SEND,
    PENDING,
    PROTECTED,
    RECEIVED,
    RUNNING,
    SENDING,
    SKIPPED,
    SUCCEEDED,
    UNCERTAIN_ACKNOWLEDGE,
    UNCERTAIN_REPORT,
    UNKNOWN,
    UNREGISTERED,
    VISIBLE,
    WORKING,
    Bounds,
    Consumer,
    Message,
    Rules,
    State,
    Step,
    Work,
)

Transitions = Iterator[Step]
ConsumerIndex = tuple[int, int]
"""Position of a consumer: index of its message, and index within the message."""

ACKNOWLEDGED: Final = "acknowledged"
REPORTED: Final = "reported with its own visibility timeout"
SHOWN: Final = "reported, visible immediately"
UNTOUCHED: Final = "reported, visibility unchanged"
SENT_LATER: Final = "acknowledged before a new message is sent"


class Outcome(NamedTuple):
    """A consumer's committed outcome and the disposition of its message."""

    name: str
    disposition: str
    state: State
    """State after the commit. The consumer is still unchanged."""
    is_progress: bool = True
    """See `Step.is_progress`."""


class Steps:
    """Transitions under a set of rules."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self._rules = rules
        self._bounds = bounds

    def after(self, state: State) -> Transitions:
        """Yield every transition that is possible in `state`."""
        yield from self._time(state)
        yield from self._outbox(state)
        yield from self._watchdog(state)
        yield from self._revision(state)
        yield from self._restore(state)
        for index, message in enumerate(state.messages):
            yield from self._queue(state, index, message)
            if message.status in {DEAD, ARCHIVED}:
                yield from self._archiver(state, index, message)
            for position, consumer in enumerate(message.consumers):
                yield from self._consumer(state, (index, position), consumer)

    # -- time, outbox, watchdog, operators -----------------------------------------------------------------------------

    def _time(self, state: State) -> Transitions:
        work = state.work
        if work.status == PENDING and not work.is_due:
            yield Step("the work item becomes due", True, state._replace(work=work._replace(is_due=True)))
        if work.is_leased and self._rules.lease_expires:
            expired = state._replace(work=work._replace(is_leased=False))
            if not _is_running(state):
                yield Step("the lease of a lost attempt expires", True, expired)
            elif state.crashes:
                yield Step("the lease of a stalled attempt expires", False, expired._replace(crashes=state.crashes - 1))
        elif work.status == RUNNING and not work.is_leased and _is_running(state):
            yield Step("a stalled attempt renews its lease", True, state._replace(work=work._replace(is_leased=True)))

    def _outbox(self, state: State) -> Transitions:
        for age in set(state.unsent):
            is_waiting = age == CURRENT and state.work.status == PENDING and not state.work.is_due
            if is_waiting or len(state.messages) >= self._bounds.messages:
                continue
            remaining = list(state.unsent)
            remaining.remove(age)
            sent = state._replace(messages=(*state.messages, Message(VISIBLE, age, 0)))
            yield Step("the outbox sends the message", True, sent._replace(unsent=tuple(remaining)))
            if state.copies:
                copies = state.copies - 1
                yield Step("the outbox sends the message without marking it", False, sent._replace(copies=copies))

    def _watchdog(self, state: State) -> Transitions:
        """Yield the watchdog's resends and the messages that the queue loses.

        The watchdog resends the message of a due work item. If the message is still queued, a resend is a duplicate.
        """
        work = state.work
        is_due = (work.status == PENDING and work.is_due) or (work.status == RUNNING and not work.is_leased)
        queued_ages = [message.age for message in state.messages if message.status in {VISIBLE, HIDDEN}]
        if (
            is_due
            and not state.unsent
            and (self._rules.resends_to_busy_queues or not (queued_ages or self._bounds.busy))
        ):
            resent = state._replace(unsent=(CURRENT,))
            if CURRENT not in queued_ages:
                yield Step("the watchdog resends the message", True, resent)
            elif state.copies:
                name = "the watchdog resends a message that is still queued"
                yield Step(name, False, resent._replace(copies=state.copies - 1))
        if state.purges and work.status != UNREGISTERED:  # a lost event that was never read cannot be recovered
            for index, message in enumerate(state.messages):
                if message.status in {VISIBLE, HIDDEN}:
                    lost = _without_message(state, index)._replace(purges=state.purges - 1)
                    yield Step("the queue loses a message", False, lost)

    def _revision(self, state: State) -> Transitions:
        if state.revisions and state.work.status not in {UNREGISTERED, UNKNOWN}:
            name = "a retry starts a new revision" if state.work.status == FAILED else "new data starts a new revision"
            restarted = self._age_messages(state, OLDER_REVISION)
            restarted = self._superseded(restarted, takes_token=self._rules.revision_takes_token)
            restarted = restarted._replace(
                work=Work(PENDING), unsent=(*restarted.unsent, CURRENT), revisions=state.revisions - 1
            )
            yield Step(name, False, restarted)

    def _restore(self, state: State) -> Transitions:
        """Yield the loss of the transaction that sent a message.

        The row is then older than the message.
        """
        if state.restores and state.work.status in {PENDING, RUNNING}:
            for index, message in enumerate(state.messages):
                if message.status in {VISIBLE, DEAD} and message.age == CURRENT and not message.consumers:
                    newer = _with_message(state, index, message._replace(age=NEWER))
                    name = "the database loses the transaction that sent the message"
                    yield Step(name, False, newer._replace(restores=state.restores - 1))

    # -- the queue -----------------------------------------------------------------------------------------------------

    def _queue(self, state: State, index: int, message: Message) -> Transitions:
        if message.status == VISIBLE:
            yield from self._receive(state, index, message)
        elif message.status == HIDDEN:
            yield from self._visibility_timeout(state, index, message)

    def _receive(self, state: State, index: int, message: Message) -> Transitions:
        if message.receives == MAX_RECEIVES:
            moved = _with_message(state, index, _move(message, DEAD))
            yield Step("the queue moves the message to the dead-letter queue", True, moved)
            return
        receives = message.receives + 1
        if not self._rules.limits_receives:
            throttled = message._replace(status=HIDDEN, receives=receives)
            yield Step("the message is received and throttled", True, _with_message(state, index, throttled))
        older = tuple(consumer._replace(is_newest=False) for consumer in message.consumers)
        step = PROTECTED if self._rules.protects_first else RECEIVED
        consumers = (*older, Consumer(step, is_newest=True, is_last_receive=receives == MAX_RECEIVES))
        received = Message(HIDDEN, message.age, receives, consumers)
        yield Step(f"the message is {step}", True, _with_message(state, index, received))
        if state.copies:
            duplicated = _with_message(state, index, received._replace(status=VISIBLE))
            name = f"the message is {step} and may be received again"
            yield Step(name, False, duplicated._replace(copies=state.copies - 1))

    def _visibility_timeout(self, state: State, index: int, message: Message) -> Transitions:
        expired = _with_message(state, index, message._replace(status=VISIBLE))
        receiver = next((consumer for consumer in message.consumers if consumer.is_newest), None)
        if receiver is None:
            yield Step("the visibility timeout expires", True, expired)
        elif receiver.step == RECEIVED and not self._rules.protects_first:
            yield Step("the visibility timeout expires before a permit is free", True, expired)
        elif state.crashes and not (
            state.work.is_leased and receiver.step in ATTEMPT_STEPS and receiver.has_latest_claim
        ):
            name = "the visibility timeout of a running consumer expires"
            yield Step(name, False, expired._replace(crashes=state.crashes - 1))

    # -- the archiver --------------------------------------------------------------------------------------------------

    def _archiver(self, state: State, index: int, message: Message) -> Transitions:
        if message.status == ARCHIVED:
            if self._rules.archives_before_deleting:
                yield Step("the archiver deletes the message", True, _without_message(state, index))
            else:
                yield from self._archive(_without_message(state, index), message)
            if state.crashes:
                name = "the archiver crashes before it deletes the message"
                reappeared = _with_message(state, index, message._replace(status=DEAD))
                yield Step(name, False, reappeared._replace(crashes=state.crashes - 1))
        elif self._rules.archives_before_deleting:
            yield from self._archive(_with_message(state, index, message._replace(status=ARCHIVED)), message)
        else:
            deleted = _with_message(state, index, message._replace(status=ARCHIVED))
            yield Step("the archiver deletes the message before writing", True, deleted)

    def _archive(self, state: State, message: Message) -> Transitions:
        """Archive a message.

        `state` already has the message's new status, but not the work item's.
        """
        work = state.work
        if work.status == UNKNOWN:
            yield Step("the archiver drops a message for an unknown work item", True, state)
        elif message.age == NEWER and work.status not in ENDED:
            yield Step("the archiver enqueues the current message", True, self._current_enqueued(state))
        elif message.age >= self._rules.oldest or work.status in ENDED:
            yield Step("the archiver merges or drops a message for a finished work item", True, state)
        elif not work.is_leased:
            superseded = self._superseded(state, takes_token=self._rules.archiver_takes_token)
            if work.attempts >= MAX_ATTEMPTS:
                yield Step("the archiver settles a lost last attempt", True, self._failed(superseded))
            elif work.returns >= MAX_RETURNS:
                yield Step("the archiver fails a work item that was returned twice", True, self._failed(superseded))
            else:
                returned = work._replace(status=PENDING, is_due=False, returns=work.returns + 1, is_leased=False)
                yield Step(
                    "the archiver returns the work item",
                    True,
                    self._with_outbox_row(superseded._replace(work=returned)),
                )

    # -- consumers -----------------------------------------------------------------------------------------------------

    def _consumer(self, state: State, target: ConsumerIndex, consumer: Consumer) -> Transitions:
        if state.crashes:
            lost = _with_consumer(state, target, None)._replace(crashes=state.crashes - 1)
            yield Step(f"a consumer crashes: {consumer.step}", False, lost)
        if consumer.step == RECEIVED:
            yield Step("a permit is free", True, _with_consumer(state, target, consumer._replace(step=PROTECTED)))
        elif consumer.step == PROTECTED:
            yield from self._claim(state, target, consumer)
        elif consumer.step == WORKING:
            yield from self._work(state, target, consumer)
        elif consumer.step == EXHAUSTED:
            yield from self._settle_exhausted(state, target, consumer)
        elif consumer.step == ACKNOWLEDGING:
            yield from self._acknowledge(state, target, consumer)
        elif consumer.step == SENDING:
            sent = _with_consumer(state, target, None)
            message = Message(VISIBLE, CURRENT, 0)
            yield Step("the parked message is sent", True, sent._replace(messages=(*sent.messages, message)))
        else:
            yield from self._look_up(state, target, consumer)

    def _claim(self, state: State, target: ConsumerIndex, consumer: Consumer) -> Transitions:
        """Yield a claim's results, including parking if the time is too short to start."""
        work = state.work
        outdated = state.messages[target[0]].age >= self._rules.oldest
        if work.status == UNKNOWN:
            yield from self._finish(Outcome("claim: unknown", ACKNOWLEDGED, state), target, consumer)
        elif state.messages[target[0]].age == NEWER and work.status not in ENDED:
            enqueued = self._current_enqueued(state)
            yield from self._finish(Outcome("claim: newer than its row", ACKNOWLEDGED, enqueued), target, consumer)
        elif work.status in ENDED or outdated:
            yield from self._finish(Outcome("claim: ended", ACKNOWLEDGED, state), target, consumer)
        elif work.is_leased and self._rules.lease_protects:
            yield from self._finish(Outcome("claim: running", UNTOUCHED, state), target, consumer)
        elif work.attempts >= MAX_ATTEMPTS and self._rules.rejects_exhausted:
            exhausted = Consumer(EXHAUSTED, is_newest=consumer.is_newest, knows_latest_token=True)
            yield Step("claim: exhausted", True, _with_consumer(state, target, exhausted))
        elif not work.is_due and not self._rules.parks_early:
            yield from self._finish(Outcome("claim: early, dropped", ACKNOWLEDGED, state), target, consumer)
        else:
            if work.is_due:
                yield Step("claim: claimed", True, self._claimed(state, target, consumer))
            name = "no time to start" if work.is_due else "claim: early"
            superseded = self._superseded(state, takes_token=self._rules.parking_takes_token)
            parked = self._parked(name, superseded, work)._replace(is_progress=not work.is_due)
            yield from self._finish(parked, target, consumer)

    def _claimed(self, state: State, target: ConsumerIndex, consumer: Consumer) -> State:
        work = state.work
        violation = (
            "a failed work item is retried in the same revision" if work.has_unsettled_failure or work.failures else ""
        )
        if work.is_leased:
            violation = "a work item is claimed during its attempt"
        superseded = self._superseded(state, takes_token=True)
        attempts = work.attempts + 1
        claimed = consumer._replace(step=WORKING, knows_latest_token=True, has_latest_claim=True)
        if not self._rules.tokens_increase:
            claimed = claimed._replace(attempt=attempts)
        running = work._replace(
            status=RUNNING, attempts=attempts, claims=work.claims + 1, is_leased=True, is_due=True, violation=violation
        )
        return _with_consumer(superseded, target, claimed)._replace(work=running)

    def _parked(self, name: str, state: State, work: Work) -> Outcome:
        """Park the work item: a new message replaces the consumer's message."""
        waiting = state._replace(work=work._replace(status=PENDING, is_due=False, is_leased=False))
        if self._rules.parks_in_one_transaction:
            return Outcome(f"{name}: parked", ACKNOWLEDGED, self._with_outbox_row(waiting))
        return Outcome(
            f"{name}: parked, acknowledged before sending", SENT_LATER, self._age_messages(waiting, OLDER_SEND)
        )

    # -- settlement ----------------------------------------------------------------------------------------------------

    def _work(self, state: State, target: ConsumerIndex, consumer: Consumer) -> Transitions:
        """Yield every outcome of an attempt.

        A commit may also be unconfirmed, whether or not it succeeded.
        """
        work = state.work
        if not self._may_write(work, consumer):
            disposition = UNTOUCHED if self._rules.reports_stale else ACKNOWLEDGED
            yield from self._finish(Outcome("stale: nothing written", disposition, state), target, consumer)
            if not self._rules.return_compares_tokens and work.attempts:
                returned = state._replace(work=work._replace(attempts=work.attempts - 1))
                yield from self._finish(
                    Outcome("stale, but returns its attempt", UNTOUCHED, returned), target, consumer
                )
            return
        if not consumer.has_latest_claim:
            state = state._replace(work=work._replace(violation="a stale attempt writes"))
        for outcome in self._outcomes(state, consumer):
            yield from self._finish(outcome, target, consumer)
            if state.crashes:
                step = UNCERTAIN_ACKNOWLEDGE if outcome.disposition == ACKNOWLEDGED else UNCERTAIN_REPORT
                uncertain = _with_consumer(outcome.state, target, consumer._replace(step=step, has_latest_claim=False))
                name = f"{outcome.name}: committed, unconfirmed"
                yield Step(name, False, uncertain._replace(crashes=state.crashes - 1))
        if state.crashes:
            uncertain = _with_consumer(state, target, consumer._replace(step=UNCERTAIN_ACKNOWLEDGE))
            yield Step("not committed, unconfirmed", False, uncertain._replace(crashes=state.crashes - 1))

    def _outcomes(self, state: State, consumer: Consumer) -> Iterator[Outcome]:
        work = state.work
        settled = work._replace(is_leased=False, is_due=True)
        yield Outcome(
            "success", ACKNOWLEDGED, state._replace(work=settled._replace(status=SUCCEEDED, effects=work.effects + 1))
        )
        yield Outcome("skip", ACKNOWLEDGED, state._replace(work=settled._replace(status=SKIPPED)))
        if self._rules.settles_permanent:
            yield Outcome("permanent failure", ACKNOWLEDGED, self._failed(state, permanent=True))
        else:
            yield self._failed_attempt("permanent failure", state, work._replace(has_unsettled_failure=True), consumer)
        yield self._failed_attempt("transient failure", state, work, consumer)
        returned = work._replace(attempts=work.attempts - 1, claims=work.claims - 1)
        if self._rules.parks_deferred:
            yield self._parked("deferral, attempt returned", state, returned)._replace(is_progress=False)
        else:
            waiting = returned._replace(status=PENDING, is_due=False, is_leased=False)
            yield Outcome(
                "deferral by a short visibility timeout", REPORTED, state._replace(work=waiting), is_progress=False
            )

    def _failed_attempt(self, name: str, state: State, work: Work, consumer: Consumer) -> Outcome:
        """Return the outcome of an attempt whose failure can be retried."""
        if work.attempts >= MAX_ATTEMPTS:
            return Outcome(f"{name}, the last attempt", SHOWN, self._failed(state._replace(work=work)))
        if consumer.is_last_receive:
            return self._parked(f"{name} at the last receive", state, work)
        waiting = work._replace(status=PENDING, is_due=False, is_leased=False)
        return Outcome(f"{name}: backoff", REPORTED, state._replace(work=waiting))

    def _failed(self, state: State, *, permanent: bool = False) -> State:
        """Return the state after a failure, with its dead letter and notification."""
        work = state.work
        violation = work.violation
        if not permanent and work.attempts < MAX_ATTEMPTS and work.returns < MAX_RETURNS:
            violation = "a dead letter with attempts left"
        return state._replace(
            work=work._replace(
                status=FAILED,
                is_leased=False,
                is_due=True,
                failures=work.failures + 1,
                notifications=work.notifications + self._rules.notifies_in_transaction,
                violation=violation,
            )
        )

    def _settle_exhausted(self, state: State, target: ConsumerIndex, consumer: Consumer) -> Transitions:
        work = state.work
        is_abandoned = work.status == PENDING or (work.status == RUNNING and not work.is_leased)
        if self._rules.rechecks_exhausted and work.attempts < MAX_ATTEMPTS:
            is_abandoned = False
        if consumer.knows_latest_token and is_abandoned:
            failed = self._failed(self._superseded(state, takes_token=True))
            outcome = Outcome("the lost last attempt is settled", ACKNOWLEDGED, failed)
        else:
            outcome = Outcome("stale: nothing to settle", UNTOUCHED, state)
        yield from self._finish(outcome, target, consumer)

    def _look_up(self, state: State, target: ConsumerIndex, consumer: Consumer) -> Transitions:
        """Yield the results of looking up an unconfirmed commit by its token."""
        disposition = ACKNOWLEDGED if consumer.step == UNCERTAIN_ACKNOWLEDGE else REPORTED
        if not self._rules.looks_up_commits:
            outcome = Outcome("the commit is assumed", disposition, state)
        elif not consumer.knows_latest_token:
            outcome = Outcome("looked up: a newer token", UNTOUCHED, state)
        elif state.work.status == RUNNING:
            yield Step("looked up: not committed", True, _with_consumer(state, target, consumer._replace(step=WORKING)))
            return
        else:
            outcome = Outcome("looked up: committed", disposition, state)
        yield from self._finish(outcome, target, consumer)

    # -- message dispositions ------------------------------------------------------------------------------------------

    def _finish(self, outcome: Outcome, target: ConsumerIndex, consumer: Consumer) -> Transitions:
        """Yield the steps that apply the outcome's disposition to the message.

        The message is acknowledged or reported. An outdated receipt handle may or may not change the visibility of a
        message that was received again.
        """
        name, disposition, state, is_progress = outcome
        if disposition == ACKNOWLEDGED or (disposition != SENT_LATER and not self._rules.acknowledges_only_settled):
            acknowledging = Consumer(ACKNOWLEDGING, is_newest=consumer.is_newest)
            yield Step(name, is_progress, _with_consumer(state, target, acknowledging))
            return
        if disposition == SENT_LATER:
            yield Step(
                name,
                is_progress,
                _without_message(_with_consumer(state, target, Consumer(SENDING, is_newest=True)), target[0]),
            )
            return
        released = _with_consumer(state, target, None)
        message = released.messages[target[0]]
        hidden = message.status == HIDDEN
        if not hidden or disposition != SHOWN or not consumer.is_newest:
            yield Step(name, is_progress, released)
        if hidden and (disposition == SHOWN or (disposition == REPORTED and not consumer.is_newest)):
            visible = _with_message(released, target[0], message._replace(status=VISIBLE))
            yield Step(f"{name}, visible immediately", is_progress, visible)

    @staticmethod
    def _acknowledge(state: State, target: ConsumerIndex, consumer: Consumer) -> Transitions:
        released = _with_consumer(state, target, None)
        if state.messages[target[0]].status in {DEAD, ARCHIVED, DELETED}:
            yield Step("acknowledged, but the message is already deleted", True, released)
            return
        yield Step("acknowledged", True, _without_message(released, target[0]))
        if not consumer.is_newest:
            yield Step("acknowledged with an outdated receipt, without effect", True, released)

    # -- states --------------------------------------------------------------------------------------------------------

    def _may_write(self, work: Work, consumer: Consumer) -> bool:
        if not self._rules.compares_tokens:
            return True
        if not self._rules.tokens_increase:
            return consumer.attempt == work.attempts
        return consumer.knows_latest_token

    @staticmethod
    def _superseded(state: State, *, takes_token: bool) -> State:
        """Invalidate all claims. If `takes_token` is true, their consumers can detect it."""
        messages = tuple(
            message._replace(consumers=tuple(_without_claim(consumer, takes_token) for consumer in message.consumers))
            if any(consumer.knows_latest_token or consumer.has_latest_claim for consumer in message.consumers)
            else message
            for message in state.messages
        )
        return state._replace(messages=messages)

    def _age_messages(self, state: State, age: int) -> State:
        """Set the age of every message, sent or unsent, to at least `age`."""
        age = min(age, self._rules.oldest)
        messages = tuple(
            Message(message.status, _older(message.age, age), message.receives, message.consumers)
            for message in state.messages
        )
        return state._replace(messages=messages, unsent=tuple(max(unsent_age, age) for unsent_age in state.unsent))

    def _current_enqueued(self, state: State) -> State:
        """Enqueue the row's current message again."""
        if not self._rules.enqueues_current or CURRENT in state.unsent:
            return state
        return state._replace(unsent=(*state.unsent, CURRENT))

    def _with_outbox_row(self, state: State) -> State:
        """Increase the send number and add an outbox row for its message."""
        aged = self._age_messages(state, OLDER_SEND)
        return aged._replace(unsent=(*aged.unsent, CURRENT))


def _is_running(state: State) -> bool:
    """Return whether the owner of the lease is still running."""
    return any(
        consumer.step in ATTEMPT_STEPS and consumer.has_latest_claim
        for message in state.messages
        for consumer in message.consumers
    )


def _older(message: int, age: int) -> int:
    """Return a message's age after the row becomes newer.

    A message one send ahead becomes current.
    """
    return CURRENT if (message, age) == (NEWER, OLDER_SEND) else max(message, age)


def _without_claim(consumer: Consumer, takes_token: bool) -> Consumer:
    if not consumer.knows_latest_token and not consumer.has_latest_claim:
        return consumer
    return consumer._replace(has_latest_claim=False, knows_latest_token=consumer.knows_latest_token and not takes_token)


def _with_message(state: State, index: int, message: Message) -> State:
    """Replace one message."""
    messages = (*state.messages[:index], message, *state.messages[index + 1 :])
    return State(state.work, messages, *state[2:])


def _move(message: Message, status: str) -> Message:
    """Return the message, moved out of the queue.

    Its receives and receipt handles no longer matter.
    """
    return Message(status, message.age, 0, tuple(consumer._replace(is_newest=True) for consumer in message.consumers))


def _without_message(state: State, index: int) -> State:
    """Delete a message. Its consumers keep their receipt handles."""
    return _with_message(state, index, _move(state.messages[index], DELETED))


def _with_consumer(state: State, target: ConsumerIndex, consumer: Consumer | None) -> State:
    """Replace or remove one consumer."""
    index, position = target
    message = state.messages[index]
    new = () if consumer is None else (consumer,)
    consumers = (*message.consumers[:position], *new, *message.consumers[position + 1 :])
    return _with_message(state, index, Message(message.status, message.age, message.receives, consumers))
