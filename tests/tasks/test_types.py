"""Task types: names, settings that enable them, and payload validation."""

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.errors import RejectedRequestError
from counterfoil.settings import Settings
from counterfoil.tasks.store import build_request
from counterfoil.tasks.task_type import InvalidPayloadError, Services, TaskType, UnknownTypeError
from counterfoil.tasks.types import TYPES, enabled_type


class Greeting(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=5)


def greet(_attempt: TenantAttempt, payload: Greeting, _services: Services) -> JsonValue:
    return f"Hello, {payload.name}"


GREET = TaskType("greet", Greeting, greet)


def test_valid_payload_is_read() -> None:
    assert GREET.read({"name": "Ada"}) == Greeting(name="Ada")


def test_unknown_type_error_lists_enabled_types() -> None:
    with pytest.raises(UnknownTypeError, match=r"There is no such task_type\. Valid types: echo\.$"):
        enabled_type("gr\x00eet", Settings())


def test_disabled_type_error_names_its_setting() -> None:
    with pytest.raises(
        UnknownTypeError, match=r"http_request is not enabled here \(HTTP_REQUEST_TASKS_ENABLED is not set\)"
    ):
        enabled_type("http_request", Settings())
    assert enabled_type("http_request", Settings(http_request_tasks_enabled=True)).name == "http_request"
    assert "http_request" in TYPES


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({}, "payload.name: Field required"),
        ({"name": "Augusta"}, "payload.name: String should have at most 5"),
        ({"name": "Ada", "secret": "hunter2"}, "at payload: Extra inputs"),
    ],
)
def test_invalid_payload_is_rejected_and_not_quoted(payload: dict[str, JsonValue], message: str) -> None:
    with pytest.raises(InvalidPayloadError) as error:
        GREET.read(payload)

    assert message in str(error.value)
    assert not any(word in str(error.value) for word in ("Augusta", "secret", "hunter2"))


def test_type_requires_an_existing_setting() -> None:
    with pytest.raises(ValueError, match="which is not a setting"):
        TaskType("whisper", Greeting, greet, enabled_by="whispering")


def test_check_runs_before_a_task_is_accepted() -> None:
    def check(payload: Greeting, settings: Settings) -> None:
        if payload.name == "Bob" or settings.webhooks_enabled:
            raise RejectedRequestError("Bob is not greeted.")

    checking = TaskType("check", Greeting, greet, check=check)

    build_request(checking, {"name": "Ada"})
    with pytest.raises(RejectedRequestError, match="Bob is not greeted"):
        build_request(checking, {"name": "Bob"})
    with pytest.raises(RejectedRequestError, match="Bob is not greeted"):
        build_request(checking, {"name": "Ada"}, settings=Settings(webhooks_enabled=True))
    with pytest.raises(InvalidPayloadError):  # raised before `check` runs
        build_request(checking, {"name": "Augusta"})


def test_registry_contains_all_task_types() -> None:
    assert list(TYPES) == ["echo", "http_request", "chat_completion"]
