"""The workers' tests use delivery's fake queue, clock and documents."""

from tests.delivery.conftest import clock, pending, sqs, tenant

__all__ = ["clock", "pending", "sqs", "tenant"]
