"""Broken twins of the engine, each without one of its rules: a simulation that is worth its name catches every one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from unittest import mock

from cli.simulation.faults import Fault
from cli.simulation.world import World
from counterfoil import work
from counterfoil.delivery import batch, consumer, settlement, store
from counterfoil.delivery.received import Received
from counterfoil.delivery.settlement import Verdict
from counterfoil.delivery.store import Claim
from counterfoil.delivery.visibility import Visibility
from counterfoil.documents.matching import matcher
from counterfoil.errors import CounterfoilError, DeferredError, StaleClaimError


@dataclass(frozen=True)
class Twin:
    """One rule broken."""

    name: str
    caught_by: str
    """What the simulation says when it catches it."""
    broken: Callable[[], Any] = ExitStack
    """A context in which the engine is broken."""
    prepare: Callable[[World], None] = lambda _world: None
    """What is broken about the world around it."""


def _without(module: Any, name: str, *changes: tuple[str, str]) -> Any:
    """A statement of a module, changed; every change must find its text."""
    statement = getattr(module, name)
    for old, new in changes:
        if old not in statement:
            message = f"{module.__name__}.{name} does not say {old!r} any more"
            raise AssertionError(message)
        statement = statement.replace(old, new)
    return mock.patch.object(module, name, statement)


@contextmanager
def _all(*contexts: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


# -- batches ----------------------------------------------------------------------------------------------------------


class _NotYet(Visibility):
    """Protects nothing until a record is about to start."""

    def __init__(self, real: Visibility) -> None:
        self._real = real
        self._batch = True

    def protect(self, records: Sequence[Received], seconds: int, now: Any) -> set[Received]:
        if self._batch:
            self._batch = False
            return set()
        return self._real.protect(records, seconds, now)

    def back_off(self, record: Received, seconds: float, now: Any) -> None:
        self._real.back_off(record, seconds, now)


class _PermitFirst(batch.Batch):
    """A message is protected when its permit has come."""

    def process(self) -> list[tuple[Any, ...]]:
        real = self._consumer.visibility
        self._consumer.visibility = _NotYet(real)
        try:
            return super().process()
        finally:
            self._consumer.visibility = real

    def _start(self, records: Sequence[Received], *, take_over: bool) -> None:
        if records:
            self._consumer.visibility.protect(records, self._protection_seconds(), self._consumer.clock())
        super()._start(records, take_over=take_over)


class _DeletesAll(batch.Batch):
    """Whatever became of a message, it is deleted in the end."""

    def _conclude(self, record: Received, verdict: Verdict, claim: Claim | None = None) -> Any:
        return super()._conclude(record, replace(verdict, acknowledged=True), claim)


class _AcknowledgesStale(batch.Batch):
    """A stale try takes its message along."""

    def _conclude(self, record: Received, verdict: Verdict, claim: Claim | None = None) -> Any:
        if verdict.outcome == "stale":
            verdict = replace(verdict, acknowledged=True)
        return super()._conclude(record, verdict, claim)


def _batches(broken: type[batch.Batch]) -> Callable[[], Any]:
    return lambda: mock.patch.object(consumer, "Batch", broken)


# -- statements -------------------------------------------------------------------------------------------------------

_IF_OURS = " AND {claim_token} = %(token)s"
_DRAWN = "nextval('claim_token')"


def _no_claim_token() -> Any:
    statements = ("_END", "_WAIT", "_PARK_FAILED", "_DEFER", "_FAIL")
    return _all(*(_without(store, name, (_IF_OURS, "")) for name in statements))


def _no_lease() -> Any:
    return _without(store, "_CLAIM", ("WHEN f.status = 'in-progress' AND f.lease > %(now)s THEN 'running'", ""))


def _attempts_as_token() -> Any:
    others = ("_PARK_UNCLAIMED", "_TAKE_ABANDONED", "_RETURN")
    return _all(
        _without(store, "_CLAIM", (_DRAWN, "t.{attempts} + 1")),
        *(_without(store, name, (_DRAWN, "{attempts}")) for name in others),
        _without(work, "_BEGIN", (_DRAWN, "0")),
    )


def _no_send_number() -> Any:
    """A message names its work and revision: whatever puts work behind a new message owes the one that was sent."""
    raised = ("{send_number} = {send_number} + 1", "{send_number} = {send_number}")
    return _all(*(_without(store, name, raised) for name in ("_PARK_FAILED", "_DEFER", "_PARK_UNCLAIMED", "_RETURN")))


# -- the rest ---------------------------------------------------------------------------------------------------------

_SHORT_SECONDS = 30


class _ShortVisibility(settlement.Settlement):
    """While a breaker is open, the same message comes again and again."""

    def _deferred(self, record: Received, claim: Claim, error: DeferredError) -> Verdict:
        due = self._clock() + timedelta(seconds=_SHORT_SECONDS)

        def wait(connection: Any) -> Sequence[Any]:
            row = {"id": claim.message.work_id, "token": claim.token, "error": str(error), "due": due}
            given_back = store._WAIT.replace("{error} =", "{attempts} = {attempts} - 1, {error} =")
            if connection.execute(self._kind.sql(given_back), row).rowcount == 0:
                raise StaleClaimError("A newer claim exists")
            return ()

        try:
            self._commit(record, claim, wait)
        except StaleClaimError as stale:
            return Verdict("stale", acknowledged=False, error=str(stale))
        except CounterfoilError as away:
            return self.away(record, away)
        return Verdict("deferred", acknowledged=False, visible_in=_SHORT_SECONDS, error=str(error))


def _throttles(world: World) -> None:
    """The gate is the reserved concurrency, and what is received beyond it is thrown back."""
    for worker, function in world.functions.items():
        if worker in world.rows:
            function.reserved = 1
    for mapping in world.mappings:
        mapping.maximum_concurrency = 8
        mapping.batch_size = 1


def _no_second_search() -> Any:
    real = matcher._standing

    def blind(connection: Any, decided: Any) -> Any:
        real(connection, decided)
        return decided

    return mock.patch.object(matcher, "_standing", blind)


def _no_look_at_one_another() -> Any:
    return mock.patch.object(matcher, "_disturbs", return_value=False)


TWINS = (
    Twin("permit before protection", "waits before it has protected", _batches(_PermitFirst)),
    Twin("delete in finally", "lost", _batches(_DeletesAll)),
    Twin("no claim token", "overwrites a newer one", _no_claim_token),
    Twin("no lease", "claimed over a live lease", _no_lease),
    Twin("attempts used as the token and reset", "overwrites a newer one", _attempts_as_token),
    Twin("throttling gate", "for nothing", prepare=_throttles),
    Twin(
        "breaker by short visibility",
        "for nothing",
        lambda: mock.patch.object(consumer, "Settlement", _ShortVisibility),
    ),
    Twin("edge deletion without the search again", "linked", _no_second_search),
    Twin("written together without a look at one another", "linked", _no_look_at_one_another),
    Twin(
        "stale try acknowledged",
        "lost",
        _batches(_AcknowledgesStale),
        lambda world: world.faults.ensure(Fault.PAUSE, 8),
    ),
    Twin("no send number", "lost", _no_send_number),
)
