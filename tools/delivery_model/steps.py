"""Every transition of the model: what may happen next in a state, by the rules or to them."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tools.delivery_model.states import (
    ACKNOWLEDGING,
    ARCHIVED,
    CURRENT,
    DEAD,
    DELETED,
    DOUBTING_TO_ACKNOWLEDGE,
    DOUBTING_TO_REPORT,
    ENDED,
    FAILED,
    HIDDEN,
    LAST,
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
    TRYING,
    UNBORN,
    UNKNOWN,
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

Moves = Iterator[Step]
At = tuple[int, int]
"""Where a consumer is: the index of its message, and its index there."""

ACKNOWLEDGED: Final = "acknowledged"
REPORTED: Final = "reported, with a visibility of its own"
SHOWN: Final = "reported, visible at once"
UNTOUCHED: Final = "reported, visibility untouched"
SENT_LATER: Final = "acknowledged at once, a new message sent then"


class Outcome(NamedTuple):
    """What a consumer has committed, and means to do with its message then."""

    name: str
    verdict: str
    state: State
    """With the consumer where it was."""
    goes_on: bool = True
    """As in `Step`."""


class Steps:
    """The transitions under one set of rules."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self._rules = rules
        self._bounds = bounds

    def after(self, state: State) -> Moves:
        """Each transition that is possible in `state`, whoever makes it."""
        yield from self._time(state)
        yield from self._outbox(state)
        yield from self._watchdog(state)
        yield from self._revision(state)
        yield from self._restore(state)
        for index, message in enumerate(state.messages):
            yield from self._queue(state, index, message)
            if message.place in {DEAD, ARCHIVED}:
                yield from self._archiver(state, index, message)
            for position, consumer in enumerate(message.consumers):
                yield from self._consumer(state, (index, position), consumer)

    # -- time, the outbox, the watchdog, people ------------------------------------------------------------------------

    def _time(self, state: State) -> Moves:
        work = state.work
        if work.status == PENDING and not work.due:
            yield Step("the wait is over", True, state._replace(work=work._replace(due=True)))
        if work.leased and self._rules.lease_ends:
            over = state._replace(work=work._replace(leased=False))
            if not _tried(state):
                yield Step("the lease of a lost try ends", True, over)
            elif state.crashes:
                yield Step("the lease of a stalled try ends", False, over._replace(crashes=state.crashes - 1))
        elif work.status == RUNNING and not work.leased and _tried(state):
            yield Step("a stalled try renews its lease", True, state._replace(work=work._replace(leased=True)))

    def _outbox(self, state: State) -> Moves:
        for age in set(state.unsent):
            waits = age == CURRENT and state.work.status == PENDING and not state.work.due
            if waits or len(state.messages) >= self._bounds.messages:
                continue
            rest = list(state.unsent)
            rest.remove(age)
            sent = state._replace(messages=(*state.messages, Message(VISIBLE, age, 0)))
            yield Step("the outbox's message is sent", True, sent._replace(unsent=tuple(rest)))
            if state.copies:
                copies = state.copies - 1
                yield Step("the outbox's message is sent and not marked as sent", False, sent._replace(copies=copies))

    def _watchdog(self, state: State) -> Moves:
        """Resend the message of due work. One that its queue still holds is resent too, as a duplicate."""
        work = state.work
        owed = (work.status == PENDING and work.due) or (work.status == RUNNING and not work.leased)
        queued = [one.age for one in state.messages if one.place in {VISIBLE, HIDDEN}]
        if owed and not state.unsent and (self._rules.resends_to_busy_queues or not (queued or self._bounds.busy)):
            resent = state._replace(unsent=(CURRENT,))
            if CURRENT not in queued:
                yield Step("the watchdog resends the message", True, resent)
            elif state.copies:
                name = "the watchdog resends a message that the queue holds"
                yield Step(name, False, resent._replace(copies=state.copies - 1))
        if state.purges and work.status != UNBORN:  # an event that is lost before anybody read it is out of reach
            for index, message in enumerate(state.messages):
                if message.place in {VISIBLE, HIDDEN}:
                    lost = _removed(state, index)._replace(purges=state.purges - 1)
                    yield Step("the queue loses a message", False, lost)

    def _revision(self, state: State) -> Moves:
        if state.revisions and state.work.status not in {UNBORN, UNKNOWN}:
            name = (
                "a redrive begins a new revision" if state.work.status == FAILED else "new data begins a new revision"
            )
            begun = self._aged(state, OLDER_REVISION)
            begun = self._superseded(begun, takes_token=self._rules.revision_takes_token)
            begun = begun._replace(work=Work(PENDING), unsent=(*begun.unsent, CURRENT), revisions=state.revisions - 1)
            yield Step(name, False, begun)

    def _restore(self, state: State) -> Moves:
        """The database loses the transaction that sent a message, so its row is older."""
        if state.restores and state.work.status in {PENDING, RUNNING}:
            for index, message in enumerate(state.messages):
                if message.place in {VISIBLE, DEAD} and message.age == CURRENT and not message.consumers:
                    newer = _changed(state, index, message._replace(age=NEWER))
                    name = "the database loses the transaction that sent the message"
                    yield Step(name, False, newer._replace(restores=state.restores - 1))

    # -- the queue ----------------------------------------------------------------------------------------------------

    def _queue(self, state: State, index: int, message: Message) -> Moves:
        if message.place == VISIBLE:
            yield from self._receipt(state, index, message)
        elif message.place == HIDDEN:
            yield from self._lapse(state, index, message)

    def _receipt(self, state: State, index: int, message: Message) -> Moves:
        if message.receives == MAX_RECEIVES:
            moved = _changed(state, index, _away(message, DEAD))
            yield Step("the queue moves the message to the dead-letter queue", True, moved)
            return
        receives = message.receives + 1
        if not self._rules.gate_is_outside:
            thrown_back = message._replace(place=HIDDEN, receives=receives)
            yield Step("the message is received, and throttled", True, _changed(state, index, thrown_back))
        older = tuple(one._replace(newest=False) for one in message.consumers)
        step = PROTECTED if self._rules.protects_first else RECEIVED
        consumers = (*older, Consumer(step, newest=True, third=receives == MAX_RECEIVES))
        received = Message(HIDDEN, message.age, receives, consumers)
        yield Step(f"the message is {step}", True, _changed(state, index, received))
        if state.copies:
            twice = _changed(state, index, received._replace(place=VISIBLE))
            name = f"the message is {step}, and may be received again"
            yield Step(name, False, twice._replace(copies=state.copies - 1))

    def _lapse(self, state: State, index: int, message: Message) -> Moves:
        lapsed = _changed(state, index, message._replace(place=VISIBLE))
        holder = next((one for one in message.consumers if one.newest), None)
        if holder is None:
            yield Step("the visibility ends", True, lapsed)
        elif holder.step == RECEIVED and not self._rules.protects_first:
            yield Step("the visibility ends before there is a permit", True, lapsed)
        elif state.crashes and not (state.work.leased and holder.step in TRYING and holder.rightful):
            name = "the visibility ends under a living consumer"
            yield Step(name, False, lapsed._replace(crashes=state.crashes - 1))

    # -- the archiver -------------------------------------------------------------------------------------------------

    def _archiver(self, state: State, index: int, message: Message) -> Moves:
        if message.place == ARCHIVED:
            if self._rules.archives_before_deleting:
                yield Step("the archiver deletes the message", True, _removed(state, index))
            else:
                yield from self._archive(_removed(state, index), message)
            if state.crashes:
                name = "the archiver is lost before it deletes the message"
                back = _changed(state, index, message._replace(place=DEAD))
                yield Step(name, False, back._replace(crashes=state.crashes - 1))
        elif self._rules.archives_before_deleting:
            yield from self._archive(_changed(state, index, message._replace(place=ARCHIVED)), message)
        else:
            gone = _changed(state, index, message._replace(place=ARCHIVED))
            yield Step("the archiver deletes the message, and is about to write", True, gone)

    def _archive(self, state: State, message: Message) -> Moves:
        """`state` is the one in which the fate of the message is decided, and that of its work is not."""
        work = state.work
        if work.status == UNKNOWN:
            yield Step("the archiver drops a message of unknown work", True, state)
        elif message.age == NEWER and work.status not in ENDED:
            yield Step("the archiver enqueues the current message", True, self._current_enqueued(state))
        elif message.age >= self._rules.oldest or work.status in ENDED:
            yield Step("the archiver joins or drops a message of ended work", True, state)
        elif not work.leased:
            taken = self._superseded(state, takes_token=self._rules.archiver_takes_token)
            if work.attempts >= MAX_ATTEMPTS:
                yield Step("the archiver settles a lost last attempt", True, self._failed(taken))
            elif work.returns >= MAX_RETURNS:
                yield Step("the archiver fails work that was returned twice", True, self._failed(taken))
            else:
                back = work._replace(status=PENDING, due=False, returns=work.returns + 1, leased=False)
                yield Step("the archiver returns the work", True, self._owing(taken._replace(work=back)))

    # -- a consumer ---------------------------------------------------------------------------------------------------

    def _consumer(self, state: State, at: At, consumer: Consumer) -> Moves:
        if state.crashes:
            lost = _placed(state, at, None)._replace(crashes=state.crashes - 1)
            yield Step(f"a consumer is lost: {consumer.step}", False, lost)
        if consumer.step == RECEIVED:
            yield Step("there is a permit", True, _placed(state, at, consumer._replace(step=PROTECTED)))
        elif consumer.step == PROTECTED:
            yield from self._claim(state, at, consumer)
        elif consumer.step == WORKING:
            yield from self._work(state, at, consumer)
        elif consumer.step == LAST:
            yield from self._settle_exhausted(state, at, consumer)
        elif consumer.step == ACKNOWLEDGING:
            yield from self._acknowledge(state, at, consumer)
        elif consumer.step == SENDING:
            sent = _placed(state, at, None)
            message = Message(VISIBLE, CURRENT, 0)
            yield Step("the parked message is sent", True, sent._replace(messages=(*sent.messages, message)))
        else:
            yield from self._look_up(state, at, consumer)

    def _claim(self, state: State, at: At, consumer: Consumer) -> Moves:
        """The six answers, and parking for want of time."""
        work = state.work
        outdated = state.messages[at[0]].age >= self._rules.oldest
        if work.status == UNKNOWN:
            yield from self._concluded(Outcome("claim: unknown", ACKNOWLEDGED, state), at, consumer)
        elif state.messages[at[0]].age == NEWER and work.status not in ENDED:
            enqueued = self._current_enqueued(state)
            yield from self._concluded(Outcome("claim: newer than its row", ACKNOWLEDGED, enqueued), at, consumer)
        elif work.status in ENDED or outdated:
            yield from self._concluded(Outcome("claim: ended", ACKNOWLEDGED, state), at, consumer)
        elif work.leased and self._rules.lease_protects:
            yield from self._concluded(Outcome("claim: running", UNTOUCHED, state), at, consumer)
        elif work.attempts >= MAX_ATTEMPTS and self._rules.answers_exhausted:
            last = Consumer(LAST, newest=consumer.newest, holds=True)
            yield Step("claim: exhausted", True, _placed(state, at, last))
        elif not work.due and not self._rules.parks_early:
            yield from self._concluded(Outcome("claim: early, and skipped", ACKNOWLEDGED, state), at, consumer)
        else:
            if work.due:
                yield Step("claim: mine", True, self._claimed(state, at, consumer))
            name = "no time to start" if work.due else "claim: early"
            taken = self._superseded(state, takes_token=self._rules.parking_takes_token)
            parked = self._replaced(name, taken, work)._replace(goes_on=not work.due)
            yield from self._concluded(parked, at, consumer)

    def _claimed(self, state: State, at: At, consumer: Consumer) -> State:
        work = state.work
        breach = "failed work is tried again in the same revision" if work.refused or work.failures else ""
        if work.leased:
            breach = "work is claimed while its try is alive"
        taken = self._superseded(state, takes_token=True)
        attempts = work.attempts + 1
        mine = consumer._replace(step=WORKING, holds=True, rightful=True)
        if not self._rules.tokens_only_grow:
            mine = mine._replace(attempt=attempts)
        begun = work._replace(
            status=RUNNING, attempts=attempts, claims=work.claims + 1, leased=True, due=True, breach=breach
        )
        return _placed(taken, at, mine)._replace(work=begun)

    def _replaced(self, name: str, state: State, work: Work) -> Outcome:
        """The work waits, and a new message takes the place of the consumer's own."""
        waiting = state._replace(work=work._replace(status=PENDING, due=False, leased=False))
        if self._rules.parks_in_one_transaction:
            return Outcome(f"{name}: parked", ACKNOWLEDGED, self._owing(waiting))
        return Outcome(
            f"{name}: parked, and acknowledged before it is sent", SENT_LATER, self._aged(waiting, OLDER_SEND)
        )

    # -- settlement ---------------------------------------------------------------------------------------------------

    def _work(self, state: State, at: At, consumer: Consumer) -> Moves:
        """Every way in which a try may end; each commit may also be made, or not, without anybody hearing of it."""
        work = state.work
        if not self._may_write(work, consumer):
            verdict = UNTOUCHED if self._rules.reports_stale else ACKNOWLEDGED
            yield from self._concluded(Outcome("stale: nothing written", verdict, state), at, consumer)
            if not self._rules.giving_back_compares_tokens and work.attempts:
                given_back = state._replace(work=work._replace(attempts=work.attempts - 1))
                yield from self._concluded(
                    Outcome("stale, but gives its attempt back", UNTOUCHED, given_back), at, consumer
                )
            return
        if not consumer.rightful:
            state = state._replace(work=work._replace(breach="a stale try writes"))
        for outcome in self._outcomes(state, consumer):
            yield from self._concluded(outcome, at, consumer)
            if state.crashes:
                step = DOUBTING_TO_ACKNOWLEDGE if outcome.verdict == ACKNOWLEDGED else DOUBTING_TO_REPORT
                doubting = _placed(outcome.state, at, consumer._replace(step=step, rightful=False))
                name = f"{outcome.name}: committed, and nobody hears of it"
                yield Step(name, False, doubting._replace(crashes=state.crashes - 1))
        if state.crashes:
            doubting = _placed(state, at, consumer._replace(step=DOUBTING_TO_ACKNOWLEDGE))
            yield Step("not committed, and nobody hears of it", False, doubting._replace(crashes=state.crashes - 1))

    def _outcomes(self, state: State, consumer: Consumer) -> Iterator[Outcome]:
        work = state.work
        done = work._replace(leased=False, due=True)
        yield Outcome(
            "success", ACKNOWLEDGED, state._replace(work=done._replace(status=SUCCEEDED, effects=work.effects + 1))
        )
        yield Outcome("skip", ACKNOWLEDGED, state._replace(work=done._replace(status=SKIPPED)))
        if self._rules.settles_permanent:
            yield Outcome("permanent failure", ACKNOWLEDGED, self._failed(state, permanent=True))
        else:
            yield self._failed_try("permanent failure", state, work._replace(refused=True), consumer)
        yield self._failed_try("transient failure", state, work, consumer)
        back = work._replace(attempts=work.attempts - 1, claims=work.claims - 1)
        if self._rules.parks_deferred:
            yield self._replaced("deferral, attempt given back", state, back)._replace(goes_on=False)
        else:
            waiting = back._replace(status=PENDING, due=False, leased=False)
            yield Outcome("deferral by a short visibility", REPORTED, state._replace(work=waiting), goes_on=False)

    def _failed_try(self, name: str, state: State, work: Work, consumer: Consumer) -> Outcome:
        """A failure that a later try may cure, where there is one."""
        if work.attempts >= MAX_ATTEMPTS:
            return Outcome(f"{name}, the last attempt", SHOWN, self._failed(state._replace(work=work)))
        if consumer.third:
            return self._replaced(f"{name} at the third receive", state, work)
        waiting = work._replace(status=PENDING, due=False, leased=False)
        return Outcome(f"{name}: backoff", REPORTED, state._replace(work=waiting))

    def _failed(self, state: State, *, permanent: bool = False) -> State:
        """The work has failed, with its dead letter and its notification."""
        work = state.work
        breach = work.breach
        if not permanent and work.attempts < MAX_ATTEMPTS and work.returns < MAX_RETURNS:
            breach = "a dead letter for work with attempts left"
        return state._replace(
            work=work._replace(
                status=FAILED,
                leased=False,
                due=True,
                failures=work.failures + 1,
                notices=work.notices + self._rules.notifies_in_the_transaction,
                breach=breach,
            )
        )

    def _settle_exhausted(self, state: State, at: At, consumer: Consumer) -> Moves:
        work = state.work
        abandoned = work.status == PENDING or (work.status == RUNNING and not work.leased)
        if self._rules.settles_what_is_exhausted and work.attempts < MAX_ATTEMPTS:
            abandoned = False
        if consumer.holds and abandoned:
            failed = self._failed(self._superseded(state, takes_token=True))
            outcome = Outcome("the lost last attempt is settled", ACKNOWLEDGED, failed)
        else:
            outcome = Outcome("stale: nothing to settle", UNTOUCHED, state)
        yield from self._concluded(outcome, at, consumer)

    def _look_up(self, state: State, at: At, consumer: Consumer) -> Moves:
        """What became of the commit is asked for by the token."""
        verdict = ACKNOWLEDGED if consumer.step == DOUBTING_TO_ACKNOWLEDGE else REPORTED
        if not self._rules.looks_up_commits:
            outcome = Outcome("the commit is taken for made", verdict, state)
        elif not consumer.holds:
            outcome = Outcome("looked up, a newer token", UNTOUCHED, state)
        elif state.work.status == RUNNING:
            yield Step("looked up, not committed", True, _placed(state, at, consumer._replace(step=WORKING)))
            return
        else:
            outcome = Outcome("looked up, committed", verdict, state)
        yield from self._concluded(outcome, at, consumer)

    # -- what becomes of a message ------------------------------------------------------------------------------------

    def _concluded(self, outcome: Outcome, at: At, consumer: Consumer) -> Moves:
        """What is committed is carried out: the consumer acknowledges its message, or reports it and is done.

        An old receipt may still change the visibility of a message that somebody has received since, or not.
        """
        name, verdict, state, goes_on = outcome
        if verdict == ACKNOWLEDGED or (verdict != SENT_LATER and not self._rules.acknowledges_only_the_settled):
            acknowledging = Consumer(ACKNOWLEDGING, newest=consumer.newest)
            yield Step(name, goes_on, _placed(state, at, acknowledging))
            return
        if verdict == SENT_LATER:
            yield Step(name, goes_on, _removed(_placed(state, at, Consumer(SENDING, newest=True)), at[0]))
            return
        left = _placed(state, at, None)
        message = left.messages[at[0]]
        hidden = message.place == HIDDEN
        if not hidden or verdict != SHOWN or not consumer.newest:
            yield Step(name, goes_on, left)
        if hidden and (verdict == SHOWN or (verdict == REPORTED and not consumer.newest)):
            shown = _changed(left, at[0], message._replace(place=VISIBLE))
            yield Step(f"{name}, visible at once", goes_on, shown)

    @staticmethod
    def _acknowledge(state: State, at: At, consumer: Consumer) -> Moves:
        left = _placed(state, at, None)
        if state.messages[at[0]].place in {DEAD, ARCHIVED, DELETED}:
            yield Step("acknowledged, but the message is not there", True, left)
            return
        yield Step("acknowledged", True, _removed(left, at[0]))
        if not consumer.newest:
            yield Step("acknowledged by an old receipt, in vain", True, left)

    # -- the whole state ----------------------------------------------------------------------------------------------

    def _may_write(self, work: Work, consumer: Consumer) -> bool:
        if not self._rules.compares_tokens:
            return True
        if not self._rules.tokens_only_grow:
            return consumer.attempt == work.attempts
        return consumer.holds

    @staticmethod
    def _superseded(state: State, *, takes_token: bool) -> State:
        """Nobody's claim stands any more; whether they can tell is another question."""
        messages = tuple(
            message._replace(consumers=tuple(_without_claim(one, takes_token) for one in message.consumers))
            if any(one.holds or one.rightful for one in message.consumers)
            else message
            for message in state.messages
        )
        return state._replace(messages=messages)

    def _aged(self, state: State, age: int) -> State:
        """Every message, sent or not, is older than the row by now."""
        age = min(age, self._rules.oldest)
        messages = tuple(
            Message(one.place, _older(one.age, age), one.receives, one.consumers) for one in state.messages
        )
        return state._replace(messages=messages, unsent=tuple(max(one, age) for one in state.unsent))

    def _current_enqueued(self, state: State) -> State:
        """The outbox sends the row's current message again."""
        if not self._rules.enqueues_current or CURRENT in state.unsent:
            return state
        return state._replace(unsent=(*state.unsent, CURRENT))

    def _owing(self, state: State) -> State:
        """The send number is raised, and a row of the outbox owes the message that has it."""
        aged = self._aged(state, OLDER_SEND)
        return aged._replace(unsent=(*aged.unsent, CURRENT))


def _tried(state: State) -> bool:
    """Whether the consumer whose lease it is still lives."""
    return any(one.step in TRYING and one.rightful for message in state.messages for one in message.consumers)


def _older(message: int, age: int) -> int:
    """Age of a message after the row becomes newer. One step newer than the row becomes current."""
    return CURRENT if (message, age) == (NEWER, OLDER_SEND) else max(message, age)


def _without_claim(consumer: Consumer, takes_token: bool) -> Consumer:
    if not consumer.holds and not consumer.rightful:
        return consumer
    return consumer._replace(rightful=False, holds=consumer.holds and not takes_token)


def _changed(state: State, index: int, message: Message) -> State:
    """Another message in the place of one."""
    messages = (*state.messages[:index], message, *state.messages[index + 1 :])
    return State(state.work, messages, *state[2:])


def _away(message: Message, place: str) -> Message:
    """The message where no receipt reaches it."""
    return Message(place, message.age, 0, tuple(one._replace(newest=True) for one in message.consumers))


def _removed(state: State, index: int) -> State:
    """The message is gone, but not those who still have a receipt of it."""
    return _changed(state, index, _away(state.messages[index], DELETED))


def _placed(state: State, at: At, consumer: Consumer | None) -> State:
    """Another consumer in the place of one, or none."""
    index, position = at
    message = state.messages[index]
    new = () if consumer is None else (consumer,)
    consumers = (*message.consumers[:position], *new, *message.consumers[position + 1 :])
    return _changed(state, index, Message(message.place, message.age, message.receives, consumers))
