"""PostgreSQL persistence layer for Idempotency in Powertools for AWS Lambda."""

from powertools_postgres_idempotency.config import Config
from powertools_postgres_idempotency.persistence import PostgresPersistence
from powertools_postgres_idempotency.transactions import Connect

__all__ = ["Config", "Connect", "PostgresPersistence"]
