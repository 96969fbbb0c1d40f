"""All task types. To add a type, add it to `TYPES`."""

from pydantic import BaseModel, ConfigDict, JsonValue

from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.settings import Settings
from counterfoil.tasks.chat import CHAT_COMPLETION
from counterfoil.tasks.http_request import HTTP_REQUEST
from counterfoil.tasks.task_type import Services, TaskType, UnknownTypeError


class Echo(BaseModel):
    """Payload of `echo` tasks: any JSON object."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    __pydantic_extra__: dict[str, JsonValue]


def echo(_attempt: TenantAttempt, payload: Echo, _services: Services) -> JsonValue:
    """Return the payload, to test the API, queue and worker without other services."""
    return dict(payload.__pydantic_extra__)


ECHO = TaskType("echo", Echo, echo)
TYPES = {type_.name: type_ for type_ in (ECHO, HTTP_REQUEST, CHAT_COMPLETION)}
"""All task types by name, including disabled ones. If a type is disabled, its accepted tasks still run."""


def enabled_types(settings: Settings) -> list[str]:
    """Return the names of the enabled task types in alphabetical order."""
    return sorted(type_.name for type_ in TYPES.values() if type_.is_enabled(settings))


def enabled_type(name: str, settings: Settings) -> TaskType:
    """Return an enabled task type by name.

    Raises:
        UnknownTypeError: the type does not exist or is not enabled.
    """
    type_ = TYPES.get(name)
    valid_types = ", ".join(enabled_types(settings))
    if type_ is None:
        raise UnknownTypeError(f"There is no such task_type. Valid types: {valid_types}.")
    if not type_.is_enabled(settings):
        setting = str(type_.enabled_by).upper()
        raise UnknownTypeError(
            f"The task_type {name} is not enabled here ({setting} is not set). Valid: {valid_types}."
        )
    return type_
