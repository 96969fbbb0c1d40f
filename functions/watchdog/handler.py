"""Watchdog: runs notifications, recovery, metrics, circuit breakers and retention every minute."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import cache, partial
from typing import Any

from aws_lambda_powertools import Logger

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.errors import TransientError, safe_message
from counterfoil.http import run_with_deadline
from counterfoil.notifications.notifier import Notifier
from counterfoil.settings import Settings, settings
from functions.watchdog.breakers import DependentWorker, Pauses
from functions.watchdog.erasures import erase
from functions.watchdog.measures import OffersWatch, measure, update_queues
from functions.watchdog.parts import run_all
from functions.watchdog.recovery import Watchdog
from functions.watchdog.retention import delete_payloads, maintain_dead_letters, purge
from functions.watchdog.uploads import inventories_of, is_empty, reconcile_uploads

PROBE_SECONDS = 8.0
"""Timeout of a language model probe."""
KEY_SECONDS = 3.0
"""Timeout for reading the API key of the language model."""
MIN_SECONDS_LEFT = 5.0
"""Steps with less remaining time are skipped."""
KEPT: Mapping[str, float] = {
    "notifications": 33.0,
    "recovery": 27.0,
    "measures": 17.0,
    "breakers": 2.0,
    "purge": 1.0,
}
"""Seconds that each step must leave for the following steps."""

TimeLeft = Callable[[], float]
Step = Callable[[TimeLeft], Mapping[str, Any]]

logger = Logger()


class OutOfTimeError(TransientError):
    """The run is about to end."""


@cache
def watchdog() -> dict[str, Step]:
    """Return the steps of a run in order, created at the first invocation.

    Notifications come first, before calls to services that may not respond. Metrics follow recovery, so that they show
    only the remaining problems.
    """
    chosen = settings()
    database = Database.from_settings(chosen, max_connections=1)
    outbox = Outbox(database, chosen.queue_urls, chosen.retry_queue_urls)
    recovery = Watchdog(chosen, database, outbox, database.now)
    unsent_after = timedelta(seconds=chosen.outbox_overdue_seconds)
    breakers = Breakers.from_settings(chosen, database)
    notifier = Notifier.from_settings(chosen, database, breakers)
    pauses = _pauses(chosen, database, breakers)
    offers = OffersWatch(database, database.now)
    uploads_lost_after = timedelta(seconds=chosen.watchdog_upload_after_seconds)
    inventories = inventories_of(chosen.inventory_bucket, chosen.uploads_bucket)
    letters_kept = timedelta(days=chosen.dlq_retention_days)
    return {
        "notifications": lambda time_left: asdict(notifier.run(time_left)),
        "recovery": lambda time_left: asdict(recovery.run(time_left)),
        "measures": lambda _: measure(database, list(chosen.queue_urls), now=database.now(), unsent_after=unsent_after),
        "breakers": lambda time_left: {name: len(found) for name, found in asdict(pauses.run(time_left)).items()},
        "purge": lambda time_left: run_all(
            {
                "queues": lambda: update_queues(database, chosen.queues, database.now, time_left),
                "rows": lambda: asdict(purge(database, database.now)),
                "dead_letters": lambda: maintain_dead_letters(database, database.now, letters_kept),
                "payload": lambda: delete_payloads(database, chosen.uploads_bucket, time_left),  # S3 may be slow
                "offers": lambda: offers.run(time_left),
                "uploads": lambda: reconcile_uploads(
                    database,
                    chosen.uploads_bucket,
                    database.now,
                    time_left,
                    lost_after=uploads_lost_after,
                    is_queue_empty=lambda: is_empty(chosen.queue_urls.get("acquisition")),
                    inventories=inventories,
                ),
                "erasures": lambda: erase(database, chosen.uploads_bucket, database.now, time_left),
            }
        ),
    }


def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001  # Lambda passes both
    """Run all steps once. Return the counts of each step.

    Raises:
        RuntimeError: steps failed, or were skipped because time ran out. The others ran, and their results are logged.
    """
    done: dict[str, Any] = {}
    failed: list[str] = []
    for name, step in watchdog().items():
        time_left = partial(_time_left, context, KEPT[name])
        try:
            if time_left() < MIN_SECONDS_LEFT:
                raise OutOfTimeError("It was skipped because earlier steps took too long")
            done[name] = step(time_left)
        except Exception as error:  # noqa: BLE001  # any error: the other steps must still run
            logger.error("A step of the run failed", step=name, error=safe_message(error))
            failed.append(name)
    logger.info("round", **done)
    if failed:
        raise RuntimeError(f"Steps of the watchdog run failed: {', '.join(failed)}")
    return done


def _pauses(chosen: Settings, database: Database, breakers: Breakers) -> Pauses:
    """Return the step that probes the language model, and pauses dependent queues during an outage."""
    probes: dict[str, Callable[[], object]] = {}
    dependents: list[DependentWorker] = []
    if chosen.llm_provider is not None:
        quick = {"llm_total_timeout_seconds": min(PROBE_SECONDS, chosen.llm_total_timeout_seconds)}
        name = f"llm:{chosen.llm_provider}"
        probes[name] = partial(_probe, chosen.model_copy(update=quick), database, breakers)
        dependents = [DependentWorker(worker, mapping, name) for worker, mapping in chosen.mappings.items()]
    after = timedelta(seconds=chosen.breaker_pause_after_seconds)
    workers = {mapping: worker for worker, queue in chosen.queues.items() for mapping in queue.mappings}
    return Pauses(database, breakers, dependents, probes, database.now, pause_after=after, workers=workers)


def _probe(chosen: Settings, database: Database, breakers: Breakers) -> None:
    """Probe the language model with its current key. An invalid key fails only the probe."""
    from counterfoil.llm import Llm  # many deployments have no language model

    llm = run_with_deadline(KEY_SECONDS, lambda: Llm.from_settings(chosen, database, breakers))
    assert llm is not None  # LLM_PROVIDER is set
    llm.probe()


def _time_left(context: Any, kept: float) -> float:
    """Return the remaining seconds of a step, minus those reserved for the following steps."""
    left: float = context.get_remaining_time_in_millis() / 1000 - kept
    return left
