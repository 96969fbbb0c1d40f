"""Claims and parks the work items of a set of messages in one transaction.

The transaction uses the delivery role.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from counterfoil.db import SHORT_TRANSACTION_SECONDS, CommitUnknownError, Connection, Database, retry_on_conflict
from counterfoil.delivery import sql
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import MAX_MESSAGES_PER_REVISION
from counterfoil.delivery.sql import Claim, ClaimStatus
from counterfoil.delivery.work import Message, OutboxMessage, ParsedMessage, WorkKind, enqueue

LOCK_SECONDS = 1
"""Maximum time that a claim waits for a row lock. It is short because the whole batch waits."""
PARKABLE_STATUSES = {ClaimStatus.CLAIMED, ClaimStatus.NOT_DUE, ClaimStatus.LEASE_EXPIRED}
"""Statuses of unclaimed work items that can be claimed now or later."""


class Claims:
    """Claims and parks the work items of one worker."""

    def __init__(
        self,
        kind: WorkKind,
        database: Database,
        outbox: Outbox,
        *,
        lease: timedelta,
        max_attempts: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._kind = kind
        self._database = database
        self._outbox = outbox
        self._lease = lease
        self._max_attempts = max_attempts
        self._clock = clock

    def claim(self, messages: Mapping[Message, ParsedMessage], *, take_over: bool) -> dict[Message, Claim]:
        """Claim work items.

        With `take_over`, include work items whose last attempt was never settled.

        Raises:
            DatabaseUnavailableError, ConflictError: nothing was claimed.
            RejectedStatementError: PostgreSQL rejects a value in a message.
        """
        claims: dict[Message, Claim] = {}

        def run_once() -> None:
            with self._transaction(by_index=True) as connection:
                now = self._register(connection, messages.values())
                claims.update(
                    sql.claim(
                        connection,
                        self._kind,
                        list(messages),
                        now=now,
                        lease=now + self._lease,
                        max_attempts=self._max_attempts,
                        take_over=take_over,
                    )
                )

        try:
            retry_on_conflict(run_once)
        except CommitUnknownError:
            # The tokens are unique, so a row with one of them was claimed by this transaction.
            with self._transaction() as connection:
                for message, claim in claims.items():
                    if claim.status is ClaimStatus.CLAIMED and not sql.is_current_claim(
                        connection, self._kind, message.work_id, claim.token
                    ):
                        raise
        return claims

    def park(self, messages: Mapping[Message, ParsedMessage], wait: timedelta) -> dict[Message, Claim | None]:
        """Schedule new messages for unclaimed work items, after at least `wait`.

        A message is scheduled for its work item's due time if that is later. Returns None for each parked work item.
        For a work item that was not parked, returns the claim with its status. After MAX_MESSAGES_PER_REVISION
        messages, a work item is no longer parked.

        The status is read in the transaction that parks the work item. Otherwise another delivery of the message could
        claim it in between, and the caller would acknowledge the message of a running attempt.

        Raises the same errors as `claim`.
        """
        results: dict[Message, Claim | None] = {}

        def run_once() -> list[OutboxMessage]:
            parked: list[OutboxMessage] = []
            with self._transaction() as connection:
                now = self._register(connection, messages.values())
                due = now + wait
                for message, claim in self._read_status(connection, list(messages), now).items():
                    is_parked = claim.status in PARKABLE_STATUSES and message.send_number < MAX_MESSAGES_PER_REVISION
                    results[message] = None if is_parked else claim
                    if is_parked:
                        parked += sql.park_unclaimed(
                            connection, self._kind, claim, due=max(due, claim.next_attempt_at or due), now=now
                        )
            return parked

        self._outbox.send(retry_on_conflict(run_once))
        return results

    def split_message(self, parsed: ParsedMessage) -> None:
        """Enqueue a separate message for each claimable work item of a message.

        Raises the same errors as `claim`.
        """

        def run_once() -> list[OutboxMessage]:
            with self._transaction() as connection:
                now = self._register(connection, [parsed])
                claims = self._read_status(connection, parsed.messages, now)
                rows = [
                    (message.work_id, claim.tenant_id, message.revision, message.send_number)
                    for message, claim in claims.items()
                    if claim.status is ClaimStatus.CLAIMED
                ]
                return enqueue(connection, self._kind, rows, now, now)

        self._outbox.send(retry_on_conflict(run_once))

    def _transaction(self, *, by_index: bool = False) -> AbstractContextManager[Connection]:
        return self._database.delivery(lock_seconds=LOCK_SECONDS, by_index=by_index, seconds=SHORT_TRANSACTION_SECONDS)

    def _register(self, connection: Connection, parsed_messages: Iterable[ParsedMessage]) -> datetime:
        """Insert the messages' work items in the order in which claims lock them.

        Returns the current time.
        """
        for parsed in sorted(parsed_messages, key=lambda message: message.messages[0].work_id):
            if parsed.register is not None:
                parsed.register(connection, self._clock())
        return self._clock()

    def _read_status(self, connection: Connection, messages: Sequence[Message], now: datetime) -> dict[Message, Claim]:
        return sql.claim(
            connection,
            self._kind,
            messages,
            now=now,
            lease=now,
            max_attempts=self._max_attempts,
            read_only=True,
        )
