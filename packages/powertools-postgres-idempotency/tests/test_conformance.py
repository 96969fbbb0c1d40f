"""Powertools' guarantees about persistence layers, for PostgreSQL and DynamoDB.

Each guarantee in the documentation of Powertools Idempotency has a test. Most tests are here, in the order of that
page. Others are in test_cache, test_forms, test_payload and test_records. The DynamoDB layer passes the tests too,
which shows that they interpret the documentation correctly.
"""

import json
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import (
    BasePersistenceLayer,
    IdempotencyConfig,
    idempotent,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyItemNotFoundError,
    IdempotencyKeyError,
    IdempotencyPersistenceLayerError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from harness import ORDER, PLACED, Context, Killed, NewLayer, Orders, Time, kill_during_run

# Results


def test_same_payload_runs_once(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)

    assert [orders.place(order=ORDER) for _ in range(3)] == [PLACED] * 3
    assert orders.runs == 1


def test_other_process_gets_stored_result(new_layer: NewLayer) -> None:
    first, second = Orders(new_layer()), Orders(new_layer())
    first.place(order=ORDER)

    assert second.place(order=ORDER) == PLACED
    assert (first.runs, second.runs) == (1, 0)


def test_another_payload_runs_again(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)
    orders.place(order=ORDER)
    orders.place(order=ORDER | {"total": "148.76"})

    assert orders.runs == 2


def test_field_order_does_not_matter(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)
    orders.place(order=ORDER)
    orders.place(order=dict(reversed(ORDER.items())))

    assert orders.runs == 1


def test_handler_can_be_idempotent(layer: BasePersistenceLayer) -> None:
    runs = []

    @idempotent(persistence_store=layer)
    def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
        runs.append(event)
        return PLACED

    assert handle(ORDER, Context()) == handle(ORDER, Context()) == PLACED
    assert len(runs) == 1


def test_killed_handler_is_repeated_after_its_deadline(layer: BasePersistenceLayer, clock: Time) -> None:
    is_killed = [True, False]

    @idempotent(persistence_store=layer)
    def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
        if is_killed.pop(0):
            raise Killed
        return PLACED

    with pytest.raises(Killed):
        handle(ORDER, Context(seconds_left=10))
    clock.advance(seconds=9)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        handle(ORDER, Context(seconds_left=10))
    clock.advance(seconds=2)

    assert handle(ORDER, Context(seconds_left=10)) == PLACED


def test_idempotency_can_be_disabled(layer: BasePersistenceLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", "true")
    orders = Orders(layer)
    for _ in range(2):
        with pytest.warns(UserWarning, match="Disabling idempotency"):
            orders.place(order=ORDER)

    assert orders.runs == 2


def test_functions_share_layer_but_not_keys(layer: BasePersistenceLayer) -> None:
    ran = []

    def make(name: str) -> Callable[..., Any]:
        def function(*, order: Any) -> str:
            ran.append(name)
            return name

        function.__qualname__ = name
        return idempotent_function(function, data_keyword_argument="order", persistence_store=layer, config=config)  # type: ignore[no-any-return]

    config = IdempotencyConfig(lambda_context=Context())
    place, cancel = make("place"), make("cancel")

    assert [place(order=ORDER), cancel(order=ORDER), place(order=ORDER), cancel(order=ORDER)] == [
        "place",
        "cancel",
        "place",
        "cancel",
    ]
    assert ran == ["place", "cancel"]


def test_prefix_replaces_function_name(layer: BasePersistenceLayer) -> None:
    def function(*, order: Any) -> dict[str, Any]:
        return PLACED

    config = IdempotencyConfig(lambda_context=Context())
    idempotent_function(
        function, data_keyword_argument="order", persistence_store=layer, config=config, key_prefix="orders"
    )(order="PO-1")
    digest = layer._generate_hash("PO-1")

    assert layer._get_record(f"orders#{digest}").response_json_as_dict() == PLACED


# Keys


def test_key_can_be_part_of_payload(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="[order_id, total]")
    orders.place(order=ORDER)
    orders.place(order=ORDER | {"lines": []})
    assert orders.runs == 1

    orders.place(order=ORDER | {"total": "0"})
    assert orders.runs == 2


def test_key_can_be_in_nested_json(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="powertools_json(body).order_id")
    orders.place(order={"body": json.dumps(ORDER), "time": 1})
    orders.place(order={"body": json.dumps(ORDER, indent=2), "time": 2})

    assert orders.runs == 1


def test_call_without_key_stores_nothing(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="customer")
    for _ in range(2):
        with pytest.warns(UserWarning, match="No idempotency key value found"):
            assert orders.place(order=ORDER) == PLACED

    assert orders.runs == 2
    with pytest.warns(UserWarning, match="No idempotency key value found"):
        assert layer.get_record(ORDER) is None


def test_key_can_be_required(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="customer", raise_on_no_idempotency_key=True)
    with pytest.raises(IdempotencyKeyError):
        orders.place(order=ORDER)

    assert orders.runs == 0


@pytest.mark.parametrize("function", ["md5", "sha256", "blake2b"])
def test_hash_function_can_be_chosen(layer: BasePersistenceLayer, function: str) -> None:
    orders = Orders(layer, hash_function=function)
    orders.place(order=ORDER)
    orders.place(order=ORDER)

    assert orders.runs == 1


# Expiry


def test_result_is_returned_until_it_expires(layer: BasePersistenceLayer, clock: Time) -> None:
    orders = Orders(layer, expires_after_seconds=300)
    orders.place(order=ORDER)
    clock.advance(seconds=298)
    orders.place(order=ORDER)
    assert orders.runs == 1

    clock.advance(seconds=4)
    orders.place(order=ORDER)
    assert orders.runs == 2


def test_expiry_counts_from_completion(layer: BasePersistenceLayer, clock: Time) -> None:
    orders = Orders(layer, expires_after_seconds=300)
    orders.during = lambda: clock.advance(seconds=200)
    orders.place(order=ORDER)
    clock.advance(seconds=200)
    orders.place(order=ORDER)

    assert orders.runs == 1


def test_run_after_expiry_is_stored(layer: BasePersistenceLayer, clock: Time) -> None:
    orders = Orders(layer, expires_after_seconds=300)
    orders.place(order=ORDER)
    clock.advance(seconds=302)
    orders.outcome = {"status": 200}
    orders.place(order=ORDER)

    assert orders.place(order=ORDER) == {"status": 200}
    assert orders.runs == 2


# Concurrent calls


def test_concurrent_call_is_rejected(new_layer: NewLayer) -> None:
    first, second = Orders(new_layer()), Orders(new_layer())

    def call_during_run() -> None:
        with pytest.raises(IdempotencyAlreadyInProgressError):
            second.place(order=ORDER)

    first.during = call_during_run
    assert first.place(order=ORDER) == PLACED
    assert second.place(order=ORDER) == PLACED
    assert (first.runs, second.runs) == (1, 0)


def test_rejected_call_does_not_release_key(new_layer: NewLayer) -> None:
    first, second = Orders(new_layer()), Orders(new_layer())

    def call_during_run() -> None:
        for _ in range(3):
            with pytest.raises(IdempotencyAlreadyInProgressError):
                second.place(order=ORDER)

    first.during = call_during_run
    first.place(order=ORDER)

    assert second.runs == 0


def test_lost_run_is_repeated_after_deadline_in_milliseconds(layer: BasePersistenceLayer, clock: Time) -> None:
    orders = Orders(layer, seconds_left=10.5)
    kill_during_run(orders)
    clock.advance(seconds=10, milliseconds=490)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        orders.place(order=ORDER)

    clock.advance(milliseconds=20)
    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 2


def test_run_lost_at_deadline_is_repeated_immediately(layer: BasePersistenceLayer, clock: Time) -> None:
    orders = Orders(layer, seconds_left=0)
    kill_during_run(orders)
    clock.advance(milliseconds=2)

    assert orders.place(order=ORDER) == PLACED


def test_repeated_run_has_its_own_deadline(layer: BasePersistenceLayer, clock: Time) -> None:
    orders = Orders(layer, seconds_left=10)
    kill_during_run(orders)
    clock.advance(seconds=11)
    kill_during_run(orders)
    clock.advance(seconds=9)

    with pytest.raises(IdempotencyAlreadyInProgressError):
        orders.place(order=ORDER)


def test_run_without_deadline_keeps_key_until_expiry(layer: BasePersistenceLayer, clock: Time) -> None:
    orders = Orders(layer, expires_after_seconds=300)
    orders.config.lambda_context = None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Couldn't determine the remaining time left")
        kill_during_run(orders)
        clock.advance(seconds=298)
        with pytest.raises(IdempotencyAlreadyInProgressError):
            orders.place(order=ORDER)
        clock.advance(seconds=4)

        assert orders.place(order=ORDER) == PLACED


def test_result_outlives_deadline_of_its_run(layer: BasePersistenceLayer, clock: Time) -> None:
    orders = Orders(layer, seconds_left=1)
    orders.place(order=ORDER)
    clock.advance(seconds=60)
    orders.place(order=ORDER)

    assert orders.runs == 1


def test_replayed_durable_function_continues_its_record(layer: BasePersistenceLayer) -> None:
    runs = []

    @idempotent(persistence_store=layer)
    def handle(event: dict[str, Any], context: Any) -> Any:
        runs.append(event)
        return outcomes[0]()

    def kill() -> Any:
        raise Killed

    outcomes: list[Callable[[], Any]] = [kill]
    context: Any = SimpleNamespace(lambda_context=Context(), state=SimpleNamespace(operations=[]))
    with pytest.raises(Killed):
        handle(ORDER, context)
    outcomes[:] = [lambda: PLACED]
    context.state.operations = ["begun", "step"]

    assert handle(ORDER, context) == handle(ORDER, Context()) == PLACED
    assert len(runs) == 2


# Failures


def test_failed_function_can_be_called_again(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)
    orders.outcome = ValueError("out of stock")
    with pytest.raises(ValueError, match=r"^out of stock$"):
        orders.place(order=ORDER)
    orders.outcome = PLACED

    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 2


def test_failed_function_leaves_no_record(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)
    orders.outcome = ValueError("out of stock")
    with pytest.raises(ValueError, match="stock"):
        orders.place(order=ORDER)

    with pytest.raises(IdempotencyItemNotFoundError):
        layer.get_record(ORDER)


def test_non_json_result_is_rejected(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)
    orders.outcome = {"when": object()}
    with pytest.raises(IdempotencyPersistenceLayerError, match="Failed to update record state to success") as raised:
        orders.place(order=ORDER)

    assert isinstance(raised.value.__cause__, TypeError)


@pytest.mark.parametrize(
    ("method", "sentence", "runs"),
    [
        ("_put_record", "Failed to save in progress record", 0),
        ("_update_record", "Failed to update record state to success", 1),
        ("_delete_record", "Failed to delete record", 1),
    ],
)
def test_store_error_is_wrapped(
    layer: BasePersistenceLayer, monkeypatch: pytest.MonkeyPatch, method: str, sentence: str, runs: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("the store is unavailable")

    orders = Orders(layer)
    orders.outcome = ValueError("out of stock") if method == "_delete_record" else PLACED
    monkeypatch.setattr(layer, method, fail)
    with pytest.raises(IdempotencyPersistenceLayerError, match=sentence) as raised:
        orders.place(order=ORDER)

    assert isinstance(raised.value.__cause__, OSError)
    assert orders.runs == runs


# Hooks


def test_hook_is_called_only_for_stored_results(layer: BasePersistenceLayer, clock: Time) -> None:
    records: list[DataRecord] = []

    def hook(response: Any, record: DataRecord) -> Any:
        records.append(record)
        return response | {"again": True}

    orders = Orders(layer, response_hook=hook, expires_after_seconds=300)
    assert orders.place(order=ORDER) == PLACED
    assert records == []

    assert orders.place(order=ORDER) == PLACED | {"again": True}
    (record,) = records
    assert record.status == "COMPLETED"
    assert record.response_json_as_dict() == PLACED
    expires_at = record.get_expiration_datetime()
    assert expires_at is not None
    assert abs(expires_at.timestamp() - (clock.seconds() + 300)) <= 1
