"""The watchdog: each minute one round of recovery, measuring, notifications, and a look at circuit breakers."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

from aws_lambda_powertools import Logger

from counterfoil.breaker import Breakers
from counterfoil.db import Database
from counterfoil.errors import sentence
from counterfoil.notify import Notifier
from counterfoil.outbox import Outbox
from counterfoil.settings import Settings, settings
from functions.watchdog.breakers import Dependent, Pauses
from functions.watchdog.measures import measure
from functions.watchdog.recovery import Watchdog

PROBE_SECONDS = 15.0
"""Longest probe of a language model: a round has a minute in all."""
KEPT_FROM_NOTIFICATIONS = 20.0
"""Seconds that telling people of failures leaves to the steps behind it."""

TimeLeft = Callable[[], float]
Step = Callable[[TimeLeft], Mapping[str, Any]]

logger = Logger()


@cache
def watchdog() -> dict[str, Step]:
    """The steps of a round in their order, the quick ones first, made at the first invocation."""
    chosen = settings()
    database = Database.from_settings(chosen, max_connections=1)
    recovery = Watchdog(chosen, database, Outbox(database, chosen.queue_urls), _now)
    unsent_after = timedelta(seconds=chosen.watchdog_unsent_after_seconds)
    breakers = Breakers.from_settings(chosen, database)
    notifier = Notifier.from_settings(chosen, database, breakers)
    pauses = _pauses(chosen, database, breakers)
    return {
        "recovery": lambda _: asdict(recovery.run()),
        "measures": lambda _: measure(database, list(chosen.queue_urls), now=_now(), unsent_after=unsent_after),
        "notifications": lambda time_left: asdict(notifier.run(lambda: time_left() - KEPT_FROM_NOTIFICATIONS)),
        "breakers": lambda _: {name: len(found) for name, found in asdict(pauses.run()).items()},
    }


def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001  # Lambda passes both
    """Run one round. Returns what each step did, in numbers.

    Raises:
        RuntimeError: steps failed. The others ran, and what they did is in the log.
    """
    done: dict[str, Any] = {}
    failed: list[str] = []
    for name, step in watchdog().items():
        try:
            done[name] = step(lambda: context.get_remaining_time_in_millis() / 1000)
        except Exception as error:  # noqa: BLE001  # whatever it is, the other steps are needed all the more
            logger.error("A step of the round failed", step=name, error=sentence(error))
            failed.append(name)
    logger.info("round", **done)
    if failed:
        raise RuntimeError(f"A round of the watchdog failed in part: {', '.join(failed)}")
    return done


def _pauses(chosen: Settings, database: Database, breakers: Breakers) -> Pauses:
    """The step that pauses queues for a language model that is away, and probes it."""
    probes: dict[str, Callable[[], object]] = {}
    dependents: list[Dependent] = []
    if chosen.llm_provider is not None:
        quick = {"llm_total_timeout_seconds": min(PROBE_SECONDS, chosen.llm_total_timeout_seconds)}
        name = f"llm:{chosen.llm_provider}"
        probes[name] = partial(_probe, chosen.model_copy(update=quick), database, breakers)
        dependents = [Dependent(worker, mapping, name) for worker, mapping in chosen.mappings.items()]
    after = timedelta(seconds=chosen.breaker_pause_after_seconds)
    return Pauses(database, breakers, dependents, probes, _now, pause_after=after)


def _probe(chosen: Settings, database: Database, breakers: Breakers) -> None:
    """Try the language model, with its key as it is now: one that cannot be used is the probe's failure alone."""
    from counterfoil.llm import Llm  # many deployments have none

    llm = Llm.from_settings(chosen, database, breakers)
    assert llm is not None  # LLM_PROVIDER is set
    llm.probe()


def _now() -> datetime:
    return datetime.now(UTC)
