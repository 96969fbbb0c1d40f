"""Daily offers are asked for on the command line, of the local cloud or of AWS."""

import io
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from cli.commands.offers import PATIENCE, app
from cli.failures import CommandError, UsageError
from cli.local.cloud import Cloud
from infra.worker_table import WORKERS

ASKED = ("run", "--date", "2026-01-05", "--timezone", "Europe/Berlin", "--by", "ada")


class Function:
    """Lambda with a scheduler that answers as it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answer: dict[str, Any] = {"date": "2026-01-05", "pools": 1, "shards": 2, "people": 12_000}
        self.failure: dict[str, str] = {}
        self.error: Exception | None = None

    def invoke(self, *, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803  # boto's names
        self.calls.append((FunctionName, json.loads(Payload)))
        if self.error is not None:
            raise self.error
        return {"Payload": io.BytesIO(json.dumps(self.answer).encode()), **self.failure}


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Function:
    function = Function()

    def client(service: str, *, patience: int) -> Function:
        assert (service, patience) == ("lambda", PATIENCE)
        return function

    monkeypatch.setattr(Cloud, "at", lambda _: SimpleNamespace(client=client))
    return function


@pytest.fixture
def call(function: Function) -> Callable[..., str]:
    def call(*words: str) -> str:
        result = CliRunner().invoke(app, words)
        if result.exception is not None:
            raise result.exception
        return " ".join(result.output.split())

    return call


def test_the_scheduler_is_asked_for_a_date_and_a_zone(function: Function, call: Callable[..., str]):
    assert call(*ASKED) == "12,000 people of Europe/Berlin will have their offers of 2026-01-05, in 2 shards."
    asked = {"date": "2026-01-05", "timezone": "Europe/Berlin", "by": "ada"}
    assert json.loads(call(*ASKED, "--tenant", "acme", "--json")) == {
        **asked,
        "tenant": "acme",
        "pools": 1,
        "shards": 2,
        "people": 12_000,
    }
    (name,) = (row.resource_name for row in WORKERS if row.name == "offers_scheduler")
    assert function.calls == [(name, asked), (name, {**asked, "tenant": "acme"})]


def test_scheduler_chooses_the_default_date(function: Function, call: Callable[..., str]):
    assert "offers of 2026-01-05" in call("run", "--timezone", "Pacific/Kiritimati", "--by", "ada")
    assert function.calls[0][1] == {"timezone": "Pacific/Kiritimati", "by": "ada"}


def test_who_asks_again_is_told_that_nothing_was_added(function: Function, call: Callable[..., str]):
    function.answer = {"date": "2026-01-05", "pools": 0, "shards": 0, "people": 0}
    assert call(*ASKED).startswith("Nothing to add: ")


def test_a_refusal_is_a_wrong_call(function: Function, call: Callable[..., str]):
    function.answer = {"refused": "2026-01-05 is not due yet in Europe/Berlin"}
    with pytest.raises(UsageError, match=r"^2026-01-05 is not due yet in Europe/Berlin$"):
        call(*ASKED)


def test_a_failure_of_the_scheduler_is_a_sentence(function: Function, call: Callable[..., str]):
    function.failure, function.answer = {"FunctionError": "Unhandled"}, {"errorMessage": "1 pools failed"}
    with pytest.raises(CommandError, match=r"^The scheduler failed, see its log: 1 pools failed$"):
        call(*ASKED)


@pytest.mark.parametrize(
    ("code", "status", "hint"),
    [("TooManyRequestsException", 429, "It may be running"), ("ResourceNotFoundException", 404, "$")],
)
def test_a_scheduler_that_is_busy_or_not_there_is_a_sentence(
    function: Function, call: Callable[..., str], code: str, status: int, hint: str
):
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    function.error = ClientError(answer, "Invoke")
    with pytest.raises(CommandError, match=f"{code}.*{hint}"):
        call(*ASKED)


def test_on_aws_it_is_asked_with_the_credentials_of_the_environment(
    function: Function, call: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    made: list[Any] = []

    def client(service: str, *, config: Any) -> Function:
        made.append((service, config))
        return function

    monkeypatch.setattr(boto3, "client", client)
    monkeypatch.delattr(Cloud, "at")
    assert "12,000 people" in call(*ASKED, "--aws")
    ((service, config),) = made
    assert (service, config.read_timeout) == ("lambda", PATIENCE)


def test_an_answer_is_waited_for_longer_than_the_function_may_take():
    (row,) = (row for row in WORKERS if row.name == "offers_scheduler")
    assert row.timeout < PATIENCE
