"""What Powertools promises of its persistence layers, held against ours on PostgreSQL and against its own for DynamoDB.

The promises are those of its documentation of Idempotency: each is a test here, in the order of that page. That its own
layer passes shows that they are asked for rightly.
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

from tests.delivery.harness import Context
from tests.idempotency.conftest import NewLayer, Time
from tests.idempotency.orders import ORDER, PLACED, Killed, Orders, lose

# The same key, the same result


def test_the_same_payload_runs_once_and_gets_the_same_result(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)

    assert [orders.place(order=ORDER) for _ in range(3)] == [PLACED] * 3
    assert orders.runs == 1


def test_another_process_gets_the_result_too(new_layer: NewLayer) -> None:
    one, other = Orders(new_layer()), Orders(new_layer())
    one.place(order=ORDER)

    assert other.place(order=ORDER) == PLACED
    assert (one.runs, other.runs) == (1, 0)


def test_another_payload_is_another_run(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)
    orders.place(order=ORDER)
    orders.place(order=ORDER | {"total": "148.76"})

    assert orders.runs == 2


def test_the_order_of_a_payload_s_fields_is_no_difference(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)
    orders.place(order=ORDER)
    orders.place(order=dict(reversed(ORDER.items())))

    assert orders.runs == 1


def test_a_handler_may_be_idempotent_as_a_whole(layer: BasePersistenceLayer) -> None:
    runs = []

    @idempotent(persistence_store=layer)
    def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
        runs.append(event)
        return PLACED

    assert handle(ORDER, Context()) == handle(ORDER, Context()) == PLACED
    assert len(runs) == 1


def test_a_handler_that_dies_is_repeated_when_the_time_of_its_own_invocation_is_over(
    layer: BasePersistenceLayer, time_told: Time
) -> None:
    is_killed = [True, False]

    @idempotent(persistence_store=layer)
    def handle(event: dict[str, Any], context: Any) -> dict[str, Any]:
        if is_killed.pop(0):
            raise Killed
        return PLACED

    with pytest.raises(Killed):
        handle(ORDER, Context(left=10))
    time_told.pass_(seconds=9)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        handle(ORDER, Context(left=10))
    time_told.pass_(seconds=2)

    assert handle(ORDER, Context(left=10)) == PLACED


def test_it_may_be_switched_off_while_developing(layer: BasePersistenceLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", "true")
    orders = Orders(layer)
    for _ in range(2):
        with pytest.warns(UserWarning, match="Disabling idempotency"):
            orders.place(order=ORDER)

    assert orders.runs == 2


def test_two_functions_share_a_layer_and_no_keys(layer: BasePersistenceLayer) -> None:
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


def test_a_prefix_stands_for_the_functions_name(layer: BasePersistenceLayer) -> None:
    def function(*, order: Any) -> dict[str, Any]:
        return PLACED

    config = IdempotencyConfig(lambda_context=Context())
    idempotent_function(
        function, data_keyword_argument="order", persistence_store=layer, config=config, key_prefix="orders"
    )(order="PO-1")
    digest = layer._generate_hash("PO-1")

    assert layer._get_record(f"orders#{digest}").response_json_as_dict() == PLACED


# Which part of the payload is the key


def test_a_part_of_the_payload_may_be_the_key(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="[order_id, total]")
    orders.place(order=ORDER)
    orders.place(order=ORDER | {"lines": []})
    assert orders.runs == 1

    orders.place(order=ORDER | {"total": "0"})
    assert orders.runs == 2


def test_the_key_may_be_in_json_within_json(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="powertools_json(body).order_id")
    orders.place(order={"body": json.dumps(ORDER), "time": 1})
    orders.place(order={"body": json.dumps(ORDER, indent=2), "time": 2})

    assert orders.runs == 1


def test_without_a_key_it_runs_each_time_and_nothing_is_kept(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="customer")
    for _ in range(2):
        with pytest.warns(UserWarning, match="No idempotency key value found"):
            assert orders.place(order=ORDER) == PLACED

    assert orders.runs == 2
    with pytest.warns(UserWarning, match="No idempotency key value found"):
        assert layer.get_record(ORDER) is None


def test_a_key_may_be_required(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="customer", raise_on_no_idempotency_key=True)
    with pytest.raises(IdempotencyKeyError):
        orders.place(order=ORDER)

    assert orders.runs == 0


@pytest.mark.parametrize("function", ["md5", "sha256", "blake2b"])
def test_the_hash_of_a_key_may_be_chosen(layer: BasePersistenceLayer, function: str) -> None:
    orders = Orders(layer, hash_function=function)
    orders.place(order=ORDER)
    orders.place(order=ORDER)

    assert orders.runs == 1


# How long


def test_a_result_is_returned_until_it_expires(layer: BasePersistenceLayer, time_told: Time) -> None:
    orders = Orders(layer, expires_after_seconds=300)
    orders.place(order=ORDER)
    time_told.pass_(seconds=298)
    orders.place(order=ORDER)
    assert orders.runs == 1

    time_told.pass_(seconds=4)
    orders.place(order=ORDER)
    assert orders.runs == 2


def test_it_expires_so_long_after_it_was_known(layer: BasePersistenceLayer, time_told: Time) -> None:
    orders = Orders(layer, expires_after_seconds=300)
    orders.during = lambda: time_told.pass_(seconds=200)
    orders.place(order=ORDER)
    time_told.pass_(seconds=200)
    orders.place(order=ORDER)

    assert orders.runs == 1


def test_the_run_after_it_expired_is_the_one_remembered(layer: BasePersistenceLayer, time_told: Time) -> None:
    orders = Orders(layer, expires_after_seconds=300)
    orders.place(order=ORDER)
    time_told.pass_(seconds=302)
    orders.answer = {"status": 200}
    orders.place(order=ORDER)

    assert orders.place(order=ORDER) == {"status": 200}
    assert orders.runs == 2


# At the same time


def test_who_comes_while_it_runs_is_told_so(new_layer: NewLayer) -> None:
    one, other = Orders(new_layer()), Orders(new_layer())

    def while_it_runs() -> None:
        with pytest.raises(IdempotencyAlreadyInProgressError):
            other.place(order=ORDER)

    one.during = while_it_runs
    assert one.place(order=ORDER) == PLACED
    assert other.place(order=ORDER) == PLACED
    assert (one.runs, other.runs) == (1, 0)


def test_who_was_told_so_has_taken_nothing_away(new_layer: NewLayer) -> None:
    one, other = Orders(new_layer()), Orders(new_layer())

    def while_it_runs() -> None:
        for _ in range(3):
            with pytest.raises(IdempotencyAlreadyInProgressError):
                other.place(order=ORDER)

    one.during = while_it_runs
    one.place(order=ORDER)

    assert other.runs == 0


def test_a_run_that_died_is_repeated_once_its_time_is_over_to_the_millisecond(
    layer: BasePersistenceLayer, time_told: Time
) -> None:
    orders = Orders(layer, left=10.5)
    lose(orders)
    time_told.pass_(seconds=10, milliseconds=490)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        orders.place(order=ORDER)

    time_told.pass_(milliseconds=20)
    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 2


def test_a_run_that_died_at_the_last_moment_is_repeated_at_once(layer: BasePersistenceLayer, time_told: Time) -> None:
    orders = Orders(layer, left=0)
    lose(orders)
    time_told.pass_(milliseconds=2)

    assert orders.place(order=ORDER) == PLACED


def test_the_repetition_has_a_time_of_its_own(layer: BasePersistenceLayer, time_told: Time) -> None:
    orders = Orders(layer, left=10)
    lose(orders)
    time_told.pass_(seconds=11)
    lose(orders)
    time_told.pass_(seconds=9)

    with pytest.raises(IdempotencyAlreadyInProgressError):
        orders.place(order=ORDER)


def test_a_run_whose_time_nobody_knows_keeps_its_key_until_the_record_expires(
    layer: BasePersistenceLayer, time_told: Time
) -> None:
    orders = Orders(layer, expires_after_seconds=300)
    orders.config.lambda_context = None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Couldn't determine the remaining time left")
        lose(orders)
        time_told.pass_(seconds=298)
        with pytest.raises(IdempotencyAlreadyInProgressError):
            orders.place(order=ORDER)
        time_told.pass_(seconds=4)

        assert orders.place(order=ORDER) == PLACED


def test_a_result_stays_when_the_time_of_its_run_is_over(layer: BasePersistenceLayer, time_told: Time) -> None:
    orders = Orders(layer, left=1)
    orders.place(order=ORDER)
    time_told.pass_(seconds=60)
    orders.place(order=ORDER)

    assert orders.runs == 1


def test_a_durable_function_that_is_replayed_goes_on_under_its_own_record(layer: BasePersistenceLayer) -> None:
    runs = []

    @idempotent(persistence_store=layer)
    def handle(event: dict[str, Any], context: Any) -> Any:
        runs.append(event)
        return ended[0]()

    def killed() -> Any:
        raise Killed

    ended: list[Callable[[], Any]] = [killed]
    context: Any = SimpleNamespace(lambda_context=Context(), state=SimpleNamespace(operations=[]))
    with pytest.raises(Killed):
        handle(ORDER, context)
    ended[:] = [lambda: PLACED]
    context.state.operations = ["begun", "step"]

    assert handle(ORDER, context) == handle(ORDER, Context()) == PLACED
    assert len(runs) == 2


# Failures


def test_a_function_that_raises_may_be_called_again(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)
    orders.answer = ValueError("out of stock")
    with pytest.raises(ValueError, match=r"^out of stock$"):
        orders.place(order=ORDER)
    orders.answer = PLACED

    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 2


def test_nothing_is_left_of_a_function_that_raised(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)
    orders.answer = ValueError("out of stock")
    with pytest.raises(ValueError, match="stock"):
        orders.place(order=ORDER)

    with pytest.raises(IdempotencyItemNotFoundError):
        layer.get_record(ORDER)


def test_a_result_that_is_no_json_is_an_error_of_keeping_it(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)
    orders.answer = {"when": object()}
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
def test_an_error_of_the_store_is_told_as_one(
    layer: BasePersistenceLayer, monkeypatch: pytest.MonkeyPatch, method: str, sentence: str, runs: int
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError("the store is away")

    orders = Orders(layer)
    orders.answer = ValueError("out of stock") if method == "_delete_record" else PLACED
    monkeypatch.setattr(layer, method, fails)
    with pytest.raises(IdempotencyPersistenceLayerError, match=sentence) as raised:
        orders.place(order=ORDER)

    assert isinstance(raised.value.__cause__, OSError)
    assert orders.runs == runs


# A word on what is returned again


def test_a_hook_sees_what_is_returned_again_and_only_that(layer: BasePersistenceLayer, time_told: Time) -> None:
    seen: list[DataRecord] = []

    def hook(response: Any, record: DataRecord) -> Any:
        seen.append(record)
        return response | {"again": True}

    orders = Orders(layer, response_hook=hook, expires_after_seconds=300)
    assert orders.place(order=ORDER) == PLACED
    assert seen == []

    assert orders.place(order=ORDER) == PLACED | {"again": True}
    (record,) = seen
    assert record.status == "COMPLETED"
    assert record.response_json_as_dict() == PLACED
    expires = record.get_expiration_datetime()
    assert expires is not None
    assert abs(expires.timestamp() - (time_told.seconds() + 300)) <= 1
