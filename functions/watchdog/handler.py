"""Handler of the watchdog, which runs all steps every minute.

The steps include notifications, recovery, metrics, circuit breakers and retention.
"""

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
from functions.watchdog.backlog_metrics import OfferMetrics, measure, update_queues
from functions.watchdog.breakers import DependentWorker, PauseStep
from functions.watchdog.erasures import erase
from functions.watchdog.recovery import Watchdog
from functions.watchdog.retention import delete_payloads, maintain_dead_letters, purge
from functions.watchdog.steps import run_all
from functions.watchdog.uploads import inventory_readers, is_empty, reconcile_uploads

PROBE_SECONDS = 8.0
"""Timeout for a language model probe."""
KEY_SECONDS = 3.0
"""Timeout for reading the language model's API key."""
MIN_SECONDS_LEFT = 5.0
"""Minimum time left to start a step. Steps with less time are skipped."""
RESERVED_SECONDS: Mapping[str, float] = {
    "notifications": 33.0,
    "recovery": 27.0,
    "metrics": 17.0,
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
    config = settings()
    database = Database.from_settings(config, max_connections=1)
    outbox = Outbox(database, config.queue_urls, config.retry_queue_urls)
    recovery = Watchdog(config, database, outbox, database.now)
    unsent_after = timedelta(seconds=config.outbox_overdue_seconds)
    breakers = Breakers.from_settings(config, database)
    notifier = Notifier.from_settings(config, database, breakers)
    pauses = _pauses(config, database, breakers)
    offers = OfferMetrics(database, database.now)
    uploads_lost_after = timedelta(seconds=config.watchdog_upload_after_seconds)
    inventories = inventory_readers(config.inventory_bucket, config.uploads_bucket)
    dead_letter_retention = timedelta(days=config.dlq_retention_days)
    return {
        "notifications": lambda time_left: asdict(notifier.run(time_left)),
        "recovery": lambda time_left: asdict(recovery.run(time_left)),
        "metrics": lambda _: measure(database, list(config.queue_urls), now=database.now(), unsent_after=unsent_after),
        "breakers": lambda time_left: {name: len(items) for name, items in asdict(pauses.run(time_left)).items()},
        "purge": lambda time_left: run_all(
            {
                "queues": lambda: update_queues(database, config.queues, database.now, time_left),
                "rows": lambda: asdict(purge(database, database.now)),
                "dead_letters": lambda: maintain_dead_letters(database, database.now, dead_letter_retention),
                "payload": lambda: delete_payloads(database, config.uploads_bucket, time_left),  # S3 may be slow
                "offers": lambda: offers.run(time_left),
                "uploads": lambda: reconcile_uploads(
                    database,
                    config.uploads_bucket,
                    database.now,
                    time_left,
                    lost_after=uploads_lost_after,
                    is_queue_empty=lambda: is_empty(config.queue_urls.get("acquisition")),
                    inventories=inventories,
                ),
                "erasures": lambda: erase(database, config.uploads_bucket, database.now, time_left),
            }
        ),
    }


def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001  # Lambda passes both
    """Run all steps once. Return the counts of each step.

    Raises:
        RuntimeError: steps failed, or were skipped because time ran out. The results of all other steps are logged.
    """
    results: dict[str, Any] = {}
    failed: list[str] = []
    for name, step in watchdog().items():
        time_left = partial(_time_left, context, RESERVED_SECONDS[name])
        try:
            if time_left() < MIN_SECONDS_LEFT:
                raise OutOfTimeError("The step was skipped because earlier steps took too long")
            results[name] = step(time_left)
        except Exception as error:  # noqa: BLE001  # any error: the other steps must still run
            logger.error("A step of the run failed", step=name, error=safe_message(error))
            failed.append(name)
    logger.info("The watchdog run ended", **results)
    if failed:
        raise RuntimeError(f"Steps of the watchdog run failed: {', '.join(failed)}")
    return results


def _pauses(config: Settings, database: Database, breakers: Breakers) -> PauseStep:
    """Return the step that pauses queues during an outage of the language model.

    The step also probes the language model.
    """
    probes: dict[str, Callable[[], object]] = {}
    dependents: list[DependentWorker] = []
    if config.llm_provider is not None:
        timeouts = {"llm_total_timeout_seconds": min(PROBE_SECONDS, config.llm_total_timeout_seconds)}
        name = f"llm:{config.llm_provider}"
        probes[name] = partial(_probe, config.model_copy(update=timeouts), database, breakers)
        dependents = [DependentWorker(worker, mapping, name) for worker, mapping in config.mappings.items()]
    pause_after = timedelta(seconds=config.breaker_pause_after_seconds)
    workers = {mapping: worker for worker, queue in config.queues.items() for mapping in queue.mappings}
    return PauseStep(database, breakers, dependents, probes, database.now, pause_after=pause_after, workers=workers)


def _probe(config: Settings, database: Database, breakers: Breakers) -> None:
    """Probe the language model with its current key.

    An invalid key fails only the probe.
    """
    from counterfoil.llm import Llm  # imported here, because many deployments have no language model

    llm = run_with_deadline(KEY_SECONDS, lambda: Llm.from_settings(config, database, breakers))
    assert llm is not None  # LLM_PROVIDER is set
    llm.probe()


def _time_left(context: Any, reserved: float) -> float:
    """Return the seconds left for a step, minus `reserved` for the following steps."""
    seconds: float = context.get_remaining_time_in_millis() / 1000 - reserved
    return seconds
