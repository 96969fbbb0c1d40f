"""State reduction: merges states that have the same possible continuations."""

from tools.delivery_model.states import DELETED, ENDED, SENDING, UNCLAIMED, Consumer, Message, Rules, State


class Reduction:
    """Maps each state to a representative of its equivalence class.

    The order of messages and consumers is irrelevant. An outdated message, or a message for a finished work item,
    changes nothing, because every consumer acknowledges it. An attempt that finds a newer token changes nothing either.
    """

    def __init__(self, rules: Rules) -> None:
        self._oldest = rules.oldest
        self._stale_is_idle = (
            rules.compares_tokens
            and rules.tokens_increase
            and rules.reports_stale
            and rules.return_compares_tokens
            and rules.acknowledges_only_settled
            and rules.looks_up_commits
        )

    def __call__(self, state: State) -> State:
        """Return the representative of `state`."""
        is_ended = state.work.status in ENDED
        reduced = [
            self._reduce(message, idle=is_ended or message.age >= self._oldest or message.status == DELETED)
            for message in state.messages
        ]
        messages = tuple(sorted(message for message in reduced if message is not None))
        unsent = tuple(sorted(age for age in state.unsent if age < self._oldest))
        return State(state.work, messages, unsent, *state[3:])

    def _reduce(self, message: Message, *, idle: bool) -> Message | None:
        if not idle and not message.consumers:
            return message
        consumers = [consumer for consumer in message.consumers if self._matters(consumer, idle=idle)]
        if not idle:
            return Message(message.status, message.age, message.receives, tuple(sorted(consumers)))
        if not consumers:
            return None
        return Message(
            DELETED, message.age, 0, tuple(sorted(consumer._replace(is_newest=True) for consumer in consumers))
        )

    def _matters(self, consumer: Consumer, *, idle: bool) -> bool:
        if consumer.step in UNCLAIMED:
            return not idle
        return consumer.step == SENDING or consumer.knows_latest_token or not self._stale_is_idle
