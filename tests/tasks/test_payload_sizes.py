"""Payload size is measured as PostgreSQL stores the payload.

Numbers are written out in full.
"""

import json

import pytest
from pydantic import JsonValue

from counterfoil.db import Connection
from counterfoil.tasks import payloads
from counterfoil.tasks.payloads import INLINE_BYTES, MAX_PAYLOAD_BYTES, TooLargeError


def test_numbers_count_at_their_stored_length(admin: Connection) -> None:
    payload: dict[str, JsonValue] = {"a": [1e300, -2.5e-20, 1e16, 7, 0.25], "b": {"c": 1.5e22}}
    ((stored,),) = admin.execute("SELECT %s::jsonb::text", [json.dumps(payload)]).fetchall()

    assert len(json.dumps(payload)) + payloads._expanded_chars(payload) >= len(stored)


def test_large_numbers_count_toward_payload_limits() -> None:
    few, many = (int(limit / 300) for limit in (INLINE_BYTES, MAX_PAYLOAD_BYTES))

    assert payloads.fits_inline({"a": [1e300] * (few // 2)})
    assert not payloads.fits_inline({"a": [1e300] * (few + 10)})
    with pytest.raises(TooLargeError):
        payloads.validate_size({"a": [1e300] * (many + 10)})
