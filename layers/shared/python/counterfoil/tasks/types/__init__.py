"""Every type of task that there is: to import this package is to register them."""

from counterfoil.tasks.chat import completion
from counterfoil.tasks.registry import TYPES
from counterfoil.tasks.types import echo, http_request

__all__ = ["TYPES", "completion", "echo", "http_request"]
