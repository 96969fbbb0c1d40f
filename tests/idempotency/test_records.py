"""What Powertools asks of a layer of one's own, held against ours and against its layer for DynamoDB."""

from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from tests.idempotency.conftest import Time


def in_progress(time_told: Time, **columns: Any) -> DataRecord:
    ends = int(time_told.seconds())
    values: dict[str, Any] = {
        "expiry_timestamp": ends + 300,
        "in_progress_expiry_timestamp": (ends + 60) * 1000,
        "status": "INPROGRESS",
    } | columns
    return DataRecord("f#1", **values)


def test_a_record_that_does_not_exist_is_not_found(layer: BasePersistenceLayer) -> None:
    with pytest.raises(IdempotencyItemNotFoundError):
        layer._get_record("f#1")


def test_a_record_is_read_as_it_was_put(layer: BasePersistenceLayer, time_told: Time) -> None:
    put = in_progress(time_told)
    layer._put_record(put)
    read = layer._get_record("f#1")

    assert (read.idempotency_key, read.status, read.sort_key) == ("f#1", "INPROGRESS", None)
    assert not read.response_data
    assert not read.payload_hash
    assert read.response_json_as_dict() is None
    assert read.expiry_timestamp is not None
    assert read.in_progress_expiry_timestamp is not None
    assert put.expiry_timestamp is not None
    assert put.in_progress_expiry_timestamp is not None
    assert abs(read.expiry_timestamp - put.expiry_timestamp) <= 1
    assert abs(read.in_progress_expiry_timestamp - put.in_progress_expiry_timestamp) <= 1


def test_a_record_that_is_taken_over_has_the_payload_of_the_new_run(
    layer: BasePersistenceLayer, time_told: Time
) -> None:
    layer.payload_validation_enabled = True
    layer._put_record(in_progress(time_told, payload_hash="first"))
    time_told.pass_(seconds=61)
    layer._put_record(in_progress(time_told, payload_hash="second"))

    assert layer._get_record("f#1").payload_hash == "second"


def test_a_put_that_fails_brings_the_record_that_is_there(layer: BasePersistenceLayer, time_told: Time) -> None:
    layer._put_record(in_progress(time_told))
    layer._update_record(in_progress(time_told, status="COMPLETED", response_data='{"status": 201}'))
    with pytest.raises(IdempotencyItemAlreadyExistsError) as raised:
        layer._put_record(in_progress(time_told))

    held = raised.value.old_data_record
    assert held is not None
    assert (held.status, held.response_data) == ("COMPLETED", '{"status": 201}')


def test_a_success_of_which_nothing_was_known_is_kept(layer: BasePersistenceLayer, time_told: Time) -> None:
    layer._update_record(in_progress(time_told, status="COMPLETED", response_data='{"status": 201}'))

    assert layer._get_record("f#1").status == "COMPLETED"


def test_a_record_that_has_expired_is_read_as_expired(layer: BasePersistenceLayer, time_told: Time) -> None:
    layer._put_record(in_progress(time_told))
    time_told.pass_(seconds=400)

    assert layer._get_record("f#1").status == "EXPIRED"


def test_what_is_deleted_is_gone_and_may_be_deleted_again(layer: BasePersistenceLayer, time_told: Time) -> None:
    layer._put_record(in_progress(time_told))
    for _ in range(2):
        layer._delete_record(DataRecord("f#1"))

    with pytest.raises(IdempotencyItemNotFoundError):
        layer._get_record("f#1")
