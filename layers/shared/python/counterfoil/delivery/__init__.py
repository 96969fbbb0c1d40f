"""Delivery: takes every message of a queue to exactly one outcome, and loses none on the way."""

from counterfoil.delivery.attempt import (
    Attempt,
    BatchWorker,
    Effects,
    Outcome,
    RoutingWorker,
    Skipped,
    Succeeded,
    TenantAttempt,
    Worker,
)
from counterfoil.delivery.consumer import Consumer

__all__ = [
    "Attempt",
    "BatchWorker",
    "Consumer",
    "Effects",
    "Outcome",
    "RoutingWorker",
    "Skipped",
    "Succeeded",
    "TenantAttempt",
    "Worker",
]
