"""Powertools' requirements for custom layers, for both layers."""

from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from harness import Time


def in_progress(clock: Time, **columns: Any) -> DataRecord:
    now = int(clock.seconds())
    values: dict[str, Any] = {
        "expiry_timestamp": now + 300,
        "in_progress_expiry_timestamp": (now + 60) * 1000,
        "status": "INPROGRESS",
    } | columns
    return DataRecord("f#1", **values)


def test_missing_record_is_not_found(layer: BasePersistenceLayer) -> None:
    with pytest.raises(IdempotencyItemNotFoundError):
        layer._get_record("f#1")


def test_stored_record_is_read_unchanged(layer: BasePersistenceLayer, clock: Time) -> None:
    put = in_progress(clock)
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


def test_reclaimed_record_has_new_payload_hash(layer: BasePersistenceLayer, clock: Time) -> None:
    layer.payload_validation_enabled = True
    layer._put_record(in_progress(clock, payload_hash="first"))
    clock.advance(seconds=61)
    layer._put_record(in_progress(clock, payload_hash="second"))

    assert layer._get_record("f#1").payload_hash == "second"


def test_failed_put_returns_stored_record(layer: BasePersistenceLayer, clock: Time) -> None:
    layer._put_record(in_progress(clock))
    layer._update_record(in_progress(clock, status="COMPLETED", response_data='{"status": 201}'))
    with pytest.raises(IdempotencyItemAlreadyExistsError) as raised:
        layer._put_record(in_progress(clock))

    stored = raised.value.old_data_record
    assert stored is not None
    assert (stored.status, stored.response_data) == ("COMPLETED", '{"status": 201}')


def test_success_without_claim_is_stored(layer: BasePersistenceLayer, clock: Time) -> None:
    layer._update_record(in_progress(clock, status="COMPLETED", response_data='{"status": 201}'))

    assert layer._get_record("f#1").status == "COMPLETED"


def test_expired_record_is_read_as_expired(layer: BasePersistenceLayer, clock: Time) -> None:
    layer._put_record(in_progress(clock))
    clock.advance(seconds=400)

    assert layer._get_record("f#1").status == "EXPIRED"


def test_delete_can_be_repeated(layer: BasePersistenceLayer, clock: Time) -> None:
    layer._put_record(in_progress(clock))
    for _ in range(2):
        layer._delete_record(DataRecord("f#1"))

    with pytest.raises(IdempotencyItemNotFoundError):
        layer._get_record("f#1")
