"""Definition of a task type: its payload model, run function and hooks."""

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
    """The task type does not exist or is not enabled in this deployment."""


class RetryLaterError(RejectedRequestError):
    """The task type accepts no tasks before a certain time."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds until the type accepts tasks again."""


class InvalidPayloadError(PermanentError):
    """A payload does not match its type's schema.

    The message names the field, but not its value.
    """


@dataclass(frozen=True)
class Services:
    """The deployment's services and settings that tasks can use."""

    llm: Callable[[], Llm] | None = None
    """Creates the language model for one attempt. None if no model is configured."""
    egress: Egress | None = None
    """Client for calls to the internet. None if the deployment has no internet access."""
    bucket: str | None = None
    """Bucket for large payloads."""
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class TaskResult:
    """Result of a task that also writes to PostgreSQL."""

    result: JsonValue
    effects: Write


@dataclass(frozen=True)
class AcceptedTask:
    """A task that is being accepted, for `TaskType.on_accept`."""

    job_id: UUID
    tenant_id: UUID
    user_id: str | None
    """Subject of the caller's token."""
    now: datetime
    settings: Settings


@dataclass(frozen=True)
class TaskType:
    """A registered type of task."""

    name: str
    payload: type[BaseModel]
    run: Callable[[TenantAttempt, Any, Services], JsonValue | TaskResult]
    """Runs one attempt. Every blocking call must end within `attempt.deadline.remaining()` seconds."""
    check: Callable[[Any, Settings], None] | None = None
    """Raises RejectedRequestError if a submitted task could never run in this deployment. It calls no service."""
    on_accept: Callable[[Connection, AcceptedTask, Any], None] | None = None
    """Runs once, in the transaction that accepts a task. A RejectedRequestError, such as RetryLaterError, rejects the
    task."""
    enabled_by: str | None = None
    """Name of the setting that enables the type, or None if the type is always enabled."""
    is_private: bool = False
    """Whether only the user who submitted a task may see its result, whatever roles other users have."""

    def __post_init__(self) -> None:
        """Raise ValueError if `enabled_by` is not a setting."""
        if self.enabled_by is not None and self.enabled_by not in Settings.model_fields:
            raise ValueError(f"The task type {self.name!r} is enabled by {self.enabled_by!r}, which is not a setting.")

    def is_enabled(self, settings: Settings) -> bool:
        """Return True if callers can submit tasks of this type in this deployment."""
        return self.enabled_by is None or bool(getattr(settings, self.enabled_by))

    def read(self, payload: Mapping[str, JsonValue]) -> BaseModel:
        """Validate a payload.

        Raises:
            InvalidPayloadError: the payload does not match this type's schema.
        """

        def invalid(problem: ValidationProblem) -> InvalidPayloadError:
            # Other names come from the sender and must not be quoted.
            fields = [str(part) for part in problem.location if part in self.payload.model_fields]
            path = ".".join(("payload", *fields))
            return InvalidPayloadError(f"The task is invalid at {path}: {problem.message}")

        return validate(self.payload, payload, invalid)
