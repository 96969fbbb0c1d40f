"""Every type of task that there is: to import this package is to register them."""

from counterfoil.tasks.registry import TYPES
from counterfoil.tasks.types import echo, http_request

__all__ = ["TYPES", "echo", "http_request"]
