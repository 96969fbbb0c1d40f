"""Webhook signatures, verified by an independent receiver."""

import hashlib
import hmac

import pytest

from counterfoil.webhooks.payload import sign
from tools.demo.webhook_receiver import TOLERANCE_SECONDS, is_signature_valid

BODY, AT = b'{"a": 1}', 1_767_323_045
OLD, NEW = "whsec_old", "whsec_new"


def test_signature_is_an_hmac_over_time_and_body():
    digest = hmac.new(b"whsec_old", b'1767323045.{"a": 1}', hashlib.sha256).hexdigest()
    assert sign(BODY, [OLD], AT) == f"t=1767323045,v1={digest}"


def test_signature_contains_one_value_per_active_secret():
    header = sign(BODY, [NEW, OLD], AT)
    assert header.count("v1=") == 2
    for secret in (OLD, NEW):
        assert is_signature_valid(header, BODY, [secret], AT)
        assert is_signature_valid(sign(BODY, [secret], AT), BODY, [OLD, NEW], AT)
    assert not is_signature_valid(header, BODY, ["whsec_other"], AT)
    assert not is_signature_valid(header, BODY, [], AT)


@pytest.mark.parametrize("seconds_late", [-TOLERANCE_SECONDS, 0, TOLERANCE_SECONDS])
def test_signature_is_valid_within_five_minutes(seconds_late: float):
    assert is_signature_valid(sign(BODY, [OLD], AT), BODY, [OLD], AT + seconds_late)


@pytest.mark.parametrize("seconds_late", [-TOLERANCE_SECONDS - 1, TOLERANCE_SECONDS + 1, 86_400])
def test_signature_outside_tolerance_is_rejected(seconds_late: float):
    assert not is_signature_valid(sign(BODY, [OLD], AT), BODY, [OLD], AT + seconds_late)


def test_changed_body_or_time_is_rejected():
    header = sign(BODY, [OLD], AT)
    assert not is_signature_valid(header, BODY + b" ", [OLD], AT)
    assert not is_signature_valid(header.replace(f"t={AT}", f"t={AT + 1}"), BODY, [OLD], AT)


@pytest.mark.parametrize(
    "header",
    ["", "t=", "v1=00", f"t={AT}", f"t={AT},v1=", f"t={AT},v1=ü", "t=x,v1=00", "t=-1,v1=0", "t=" + "9" * 5000, ",,=,="],
)
def test_malformed_signature_is_rejected(header: str):
    assert not is_signature_valid(header, BODY, [OLD], AT)


def test_signature_with_two_times_is_rejected():
    assert not is_signature_valid(f"t={AT},{sign(BODY, [OLD], AT)}", BODY, [OLD], AT)
