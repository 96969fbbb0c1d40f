"""The types of tasks: each is a function and the form of its payload, registered under a name.

    class Echo(BaseModel):
        text: str

    @task("echo", Echo)
    def echo(context: TaskContext, payload: Echo) -> JsonValue:
        return {"text": payload.text}

The module of a type is imported by `counterfoil.tasks.types`, or nobody knows of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, JsonValue

from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.delivery.work import Send
from counterfoil.egress import Egress
from counterfoil.errors import PermanentError, RejectedRequestError
from counterfoil.llm import Llm
from counterfoil.settings import Settings
from counterfoil.validation import Problem, validate


class UnknownTypeError(RejectedRequestError):
    """There is no such type of task, or it is not enabled here. The sentence lists those that can be asked for."""


class NotBeforeError(RejectedRequestError):
    """The type takes no such task for a while: so much was asked for already. The sentence says until when."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds."""


class InvalidPayloadError(PermanentError):
    """A payload is not in the form of its type. The sentence says where; it quotes nothing of the payload."""


@dataclass(frozen=True)
class TaskContext:
    """What a type sees of the try that it is in, and what it may use."""

    job_id: UUID
    tenant_id: UUID
    user_id: str | None
    """Who handed the task in: the subject of the token. None: the command line."""
    number: int
    """Tries begun, this one included."""
    database: Database
    now: Callable[[], datetime]
    deadline: Deadline = field(default_factory=Deadline)
    llm: Callable[[], Llm] | None = None
    """Makes the language model, anew for each try; None: this deployment has none."""
    egress: Egress | None = None
    """The way to the internet; None: this deployment has none."""
    settings: Settings = field(default_factory=Settings)
    """Those of the process."""


@dataclass(frozen=True)
class TaskResult:
    """Result of a task that also changes PostgreSQL."""

    result: JsonValue
    effects: Callable[[Connection], Sequence[Send]]
    """Written in the transaction that marks the task succeeded, with the messages that are owed then. It may be called
    again after a lost transaction, so it must not change anything else."""


@dataclass(frozen=True)
class Accepted:
    """A task at the moment in which it is accepted."""

    job_id: UUID
    tenant_id: UUID
    user_id: str | None
    now: datetime
    settings: Settings
    """Those of the deployment."""


Payload = TypeVar("Payload", bound=BaseModel)
Run = Callable[[TaskContext, Payload], JsonValue | TaskResult]
Check = Callable[[Payload, Settings], None]
"""Looks at a task before it is accepted, without asking anybody: what can never be carried out here is refused to who
asks for it, and makes no dead letter. It raises RejectedRequestError, with a sentence that says what to do."""
OnAccept = Callable[[Connection, Accepted, Payload], None]
"""Runs in the transaction that accepts a task, once; what it raises (RejectedRequestError, such as NotBeforeError)
refuses the task."""
OnCancel = Callable[[Connection, UUID, datetime], Sequence[Send]]
"""Runs in the transaction that cancels a task, with its id; returns the messages that are owed then."""


@dataclass(frozen=True)
class TaskType:
    """One type of task."""

    name: str
    payload: type[BaseModel]
    run: Callable[[TaskContext, Any], JsonValue | TaskResult]
    check: Callable[[Any, Settings], None] | None = None
    on_accept: Callable[[Connection, Accepted, Any], None] | None = None
    on_cancel: OnCancel | None = None
    enabled_by: str | None = None
    """The setting, true or false, without which the type cannot be asked for; None: it always can."""
    private: bool = False
    """Whether the result is for who handed the task in, and for nobody else, whatever his role."""

    def read(self, payload: Mapping[str, JsonValue]) -> BaseModel:
        """The payload in the form of this type.

        Raises:
            InvalidPayloadError: it is not in that form.
        """

        def wrong(problem: Problem) -> InvalidPayloadError:
            # Only a field that the form has may be quoted: any other is the sender's text.
            known = [str(part) for part in problem.place if part in self.payload.model_fields]
            place = ".".join(("payload", *known))
            return InvalidPayloadError(f"The task is wrong at {place}: {problem.message}")

        return validate(self.payload, payload, wrong)


class Registry:
    """Types by their names."""

    def __init__(self) -> None:
        self._types: dict[str, TaskType] = {}

    def register(
        self,
        name: str,
        payload: type[Payload],
        *,
        check: Check[Payload] | None = None,
        on_accept: OnAccept[Payload] | None = None,
        on_cancel: OnCancel | None = None,
        enabled_by: str | None = None,
        private: bool = False,
    ) -> Callable[[Run[Payload]], Run[Payload]]:
        """Put the decorated function under a name; see the module's own words.

        Raises:
            ValueError: the name is taken, or `enabled_by` is no setting.
        """

        def put(run: Run[Payload]) -> Run[Payload]:
            if name in self._types:
                raise ValueError(f"There are two types of task called {name!r}: give one of them another name.")
            if enabled_by is not None and enabled_by not in Settings.model_fields:
                raise ValueError(f"The type of task {name!r} is enabled by {enabled_by!r}, which is no setting.")
            self._types[name] = TaskType(name, payload, run, check, on_accept, on_cancel, enabled_by, private)
            return run

        return put

    def names(self, settings: Settings) -> list[str]:
        """The types that can be asked for here, in the order of the alphabet."""
        return sorted(name for name, one in self._types.items() if _is_enabled(one, settings))

    def get(self, name: str) -> TaskType | None:
        """A type, enabled or not: a task that was accepted is carried out, or fails by itself."""
        return self._types.get(name)

    def enabled(self, name: str, settings: Settings) -> TaskType:
        """A type that can be asked for here.

        Raises:
            UnknownTypeError: there is none of that name, or not here.
        """
        found = self._types.get(name)
        listed = ", ".join(self.names(settings))
        if found is None:
            raise UnknownTypeError(f"There is no such task_type; known are {listed}.")
        if not _is_enabled(found, settings):
            setting = str(found.enabled_by).upper()
            raise UnknownTypeError(
                f"The task_type {name} is not enabled here ({setting} is not set); known are {listed}."
            )
        return found


def _is_enabled(type_: TaskType, settings: Settings) -> bool:
    return type_.enabled_by is None or bool(getattr(settings, type_.enabled_by))


TYPES = Registry()
"""Those of this code, once `counterfoil.tasks.types` is imported."""
task = TYPES.register
"""The decorator."""
