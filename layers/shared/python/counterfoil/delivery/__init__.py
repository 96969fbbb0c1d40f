"""Delivery: takes every message of a queue to exactly one outcome, and loses none on the way."""

from counterfoil.delivery.attempt import Attempt, Outcome, Settled, Skip, Success, Works
from counterfoil.delivery.consumer import Consumer

__all__ = ["Attempt", "Consumer", "Outcome", "Settled", "Skip", "Success", "Works"]
