"""Output: what a tenant's destinations are owed, and how it is delivered to them: signed webhooks, exports to S3."""

from counterfoil.documents.output.payload import SCHEMA_VERSION, Job, body
from counterfoil.documents.output.requests import WORKER, request

__all__ = ["SCHEMA_VERSION", "WORKER", "Job", "body", "request"]
