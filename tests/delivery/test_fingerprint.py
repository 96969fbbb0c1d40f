"""Fingerprints of dead letters with and without an error code."""

from typing import Any
from uuid import uuid4

from counterfoil.delivery.dead_letter import DeadLetter, FailureDetails
from counterfoil.errors import CancelledError, ServiceUnavailableError, UnknownTenantError, code_of
from tests.factories import NOW


def fingerprint(error: str, worker: str = "ingestion", **fields: Any) -> str:
    failure = FailureDetails("non_retriable_error", fields.pop("error_type", "SomeError"), error, 3, worker, **fields)
    return DeadLetter(uuid4(), None, worker, None, {}, 3, failure, NOW).fingerprint


def test_fingerprint_with_code_ignores_wording_and_error_type():
    before = fingerprint("No tenant has this key", code="key_without_tenant")
    assert (
        fingerprint("The key contains no existing tenant", error_type="KeyError", code="key_without_tenant") == before
    )


def test_worker_and_code_change_fingerprint():
    codes = ("worker_lost", "attempts_exhausted")
    assert len({fingerprint("It ended", worker, code=code) for worker in ("tasks", "offers") for code in codes}) == 4


def test_fingerprint_without_code_uses_type_and_normalized_message():
    assert fingerprint("Page 3 of 'a.pdf' is empty") == fingerprint("Page 4 of 'b.pdf' is empty")
    assert fingerprint("Page 3 is empty") != fingerprint("Page 3 is damaged")
    assert fingerprint("It is empty") != fingerprint("It is empty", error_type="OtherError")


def test_code_of_returns_error_code_or_none():
    assert code_of(CancelledError("Stopped")) == "canceled"
    assert code_of(UnknownTenantError("No tenant", code="unknown_recipient")) == "unknown_recipient"
    assert code_of(ServiceUnavailableError("S3 is unavailable")) is None
    assert code_of(SystemExit(3)) is None
