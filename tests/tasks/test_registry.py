"""Types of tasks: registered once under a name, asked for where they are enabled, and strict about their payloads."""

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil.errors import RejectedRequestError
from counterfoil.settings import Settings
from counterfoil.tasks.registry import InvalidPayloadError, Registry, TaskContext, UnknownTypeError
from counterfoil.tasks.store import order
from counterfoil.tasks.types import TYPES


class Greeting(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=5)


def greet(_context: TaskContext, payload: Greeting) -> JsonValue:
    return f"Hello, {payload.name}"


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register("greet", Greeting)(greet)
    registry.register("shout", Greeting, enabled_by="webhooks")(greet)
    return registry


def test_a_type_is_found_by_its_name_and_reads_its_payload(registry: Registry) -> None:
    found = registry.enabled("greet", Settings())

    assert (found.run, found.read({"name": "Ada"})) == (greet, Greeting(name="Ada"))


def test_an_unknown_type_is_refused_with_the_known_ones(registry: Registry) -> None:
    with pytest.raises(UnknownTypeError, match=r"There is no such task_type; known are greet\.$"):
        registry.enabled("gr\x00eet", Settings())


def test_a_type_that_is_off_is_refused_with_the_setting_that_enables_it_yet_what_was_accepted_finds_it(
    registry: Registry,
) -> None:
    with pytest.raises(UnknownTypeError, match=r"shout is not enabled here \(WEBHOOKS is not set\); known are greet\."):
        registry.enabled("shout", Settings())
    assert registry.enabled("shout", Settings(webhooks=True)).name == "shout"
    assert registry.get("shout") is not None


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ({}, "payload.name: Field required"),
        ({"name": "Augusta"}, "payload.name: String should have at most 5"),
        ({"name": "Ada", "secret": "hunter2"}, "at payload: Extra inputs"),
    ],
)
def test_a_payload_of_another_form_is_refused_and_not_quoted(
    registry: Registry, payload: dict[str, JsonValue], says: str
) -> None:
    with pytest.raises(InvalidPayloadError) as refused:
        registry.enabled("greet", Settings()).read(payload)

    assert says in str(refused.value)
    assert not any(word in str(refused.value) for word in ("Augusta", "secret", "hunter2"))


def test_a_name_is_given_once_and_by_a_setting_that_there_is(registry: Registry) -> None:
    with pytest.raises(ValueError, match="two types of task called 'greet'"):
        registry.register("greet", Greeting)(greet)
    with pytest.raises(ValueError, match="which is no setting"):
        registry.register("whisper", Greeting, enabled_by="whispering")(greet)


def test_a_type_may_look_at_a_task_before_it_is_accepted(registry: Registry) -> None:
    def check(payload: Greeting, settings: Settings) -> None:
        if payload.name == "Bob" or settings.webhooks:
            raise RejectedRequestError("Nobody greets Bob.")

    registry.register("check", Greeting, check=check)(greet)
    checking = registry.enabled("check", Settings())

    order(checking, {"name": "Ada"})
    for refused in ({"payload": {"name": "Bob"}}, {"payload": {"name": "Ada"}, "settings": Settings(webhooks=True)}):
        with pytest.raises(RejectedRequestError, match="Nobody greets Bob"):
            order(checking, **refused)
    with pytest.raises(InvalidPayloadError):  # what is in no form is looked at by nobody
        order(checking, {"name": "Augusta"})


def test_what_ships_is_registered() -> None:
    assert "echo" in TYPES.names(Settings())
