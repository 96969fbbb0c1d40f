"""Handler of the worker `offers_scheduler`, which queues daily offers.

It queues due offers every hour, and offers that an operator requests through the API.
"""

from functools import cache
from typing import Any

from counterfoil.db import Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.offers.schedule import Rules
from counterfoil.settings import settings
from functions.offers_scheduler.scheduler import OffersRequest, Scheduler


@cache
def function() -> Scheduler:
    """Return the scheduler, created at the first invocation."""
    config = settings()
    database = Database.from_settings(config, max_connections=1)
    rules = Rules(
        max_offers=config.offers_per_user,
        max_candidates=config.offers_max_candidates,
        max_exposure=config.offers_max_exposure,
        repeat_interval_days=config.offers_repeat_interval_days,
    )
    outbox = Outbox(database, config.queue_urls, config.retry_queue_urls)
    return Scheduler(database, outbox, database.now, rules, config.offers_shard_size)


def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Queue all due pools, or the pools that `event` requests.

    A request has `timezone`, `by`, and optionally `date` and the slug of a `tenant`; the API has validated it. Returns
    the counts of pools, shards and users, and for a request also the date.

    Raises:
        DatabaseUnavailableError: nothing was done. The next invocation retries.
        UnfinishedError: some pools failed or were not processed. The others are done, and the log has the reasons.
        PermanentError: the request is invalid. See `Scheduler.run_requested`.
    """

    def time_left() -> float:
        return float(context.get_remaining_time_in_millis()) / 1000

    if "timezone" not in event:
        return function().run_due(time_left)
    return function().run_requested(OffersRequest.of(event), time_left)
