"""Definition of a task type: the model of its payload, the function that runs it, and its hooks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, JsonValue

from counterfoil.db import Connection
from counterfoil.delivery.attempt import TenantAttempt, Write
from counterfoil.egress import Egress
from counterfoil.errors import PermanentError, RejectedRequestError
from counterfoil.llm import Llm
from counterfoil.settings import Settings
from counterfoil.validation import ValidationProblem, validate


class UnknownTypeError(RejectedRequestError):
    """The task type does not exist or is not enabled here."""


class RetryLaterError(RejectedRequestError):
    """The type accepts no task before a certain time."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds."""


class InvalidPayloadError(PermanentError):
    """A payload does not match the schema of its type. The message names the field without its value."""


@dataclass(frozen=True)
class Services:
    """Services and settings of the deployment for tasks."""

    llm: Callable[[], Llm] | None = None
    """Creates the language model for one attempt. None: the deployment has none."""
    egress: Egress | None = None
    """Client for the internet. None: the deployment has none."""
    bucket: str | None = None
    """Bucket of large payloads."""
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class TaskResult:
    """Result of a task that also changes PostgreSQL."""

    result: JsonValue
    effects: Write


@dataclass(frozen=True)
class AcceptedTask:
    """A task in the transaction that accepts it."""

    job_id: UUID
    tenant_id: UUID
    user_id: str | None
    """Subject of the caller's token."""
    now: datetime
    settings: Settings


@dataclass(frozen=True)
class TaskType:
    """A task type."""

    name: str
    payload: type[BaseModel]
    run: Callable[[TenantAttempt, Any, Services], JsonValue | TaskResult]
    """Runs one attempt. A call that waits must be bounded by `attempt.deadline.remaining()`."""
    check: Callable[[Any, Settings], None] | None = None
    """Rejects a task that can never run here (RejectedRequestError) before it is accepted. It calls no service."""
    on_accept: Callable[[Connection, AcceptedTask, Any], None] | None = None
    """Runs once in the transaction that accepts a task. A RejectedRequestError, such as RetryLaterError, rejects it."""
    enabled_by: str | None = None
    """Boolean setting that enables the type. None: it is always enabled."""
    is_private: bool = False
    """Whether only the user who submitted the task may see its result, regardless of other users' roles."""

    def __post_init__(self) -> None:
        """Raise ValueError if `enabled_by` is not a setting."""
        if self.enabled_by is not None and self.enabled_by not in Settings.model_fields:
            raise ValueError(f"The task type {self.name!r} is enabled by {self.enabled_by!r}, which is not a setting.")

    def is_enabled(self, settings: Settings) -> bool:
        """Return whether callers may submit this type here."""
        return self.enabled_by is None or bool(getattr(settings, self.enabled_by))

    def read(self, payload: Mapping[str, JsonValue]) -> BaseModel:
        """Validate a payload.

        Raises:
            InvalidPayloadError: it does not match the schema of this type.
        """

        def invalid(problem: ValidationProblem) -> InvalidPayloadError:
            # Other names are the sender's text and must not be quoted.
            fields = [str(part) for part in problem.location if part in self.payload.model_fields]
            path = ".".join(("payload", *fields))
            return InvalidPayloadError(f"The task is wrong at {path}: {problem.message}")

        return validate(self.payload, payload, invalid)
