"""All kinds of work items, for code that covers every worker."""

from counterfoil.delivery.work import WORK_KINDS
from counterfoil.documents import kinds as _documents  # noqa: F401  # each import registers its kinds
from counterfoil.offers import kinds as _offers  # noqa: F401
from counterfoil.tasks import kinds as _tasks  # noqa: F401
from counterfoil.webhooks import kinds as _webhooks  # noqa: F401

__all__ = ["WORK_KINDS"]
