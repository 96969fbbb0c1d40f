"""Settings: parsing, validation and error messages."""

import json

import pytest
from pydantic import ValidationError

from counterfoil.errors import InvalidSettingsError
from counterfoil.settings import Settings


def test_settings_come_from_environment_variables() -> None:
    settings = Settings.from_environment(
        {
            "WORKER": json.dumps({"name": "matching", "timeout": 120, "permits": 4, "start_margin": 30}),
            "QUEUE_URLS": '{"matching": "http://127.0.0.1/matching"}',
            "REDELIVERY_DELAYS_SECONDS": "[0.5, 2]",
            "LEASE_SECONDS": "60",
            "PATH": "/bin",
        }
    )

    assert settings.require_worker().permits == 4
    assert settings.queue_urls == {"matching": "http://127.0.0.1/matching"}
    assert list(settings.redelivery_delays_seconds) == [0.5, 2]
    assert settings.lease_seconds == 60


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LEASE_SECONDS", "300"),
        ("LEASE_SECONDS", "soon"),
        ("REDELIVERY_MAX_ATTEMPTS", "0"),
        ("DATABASE_PORT", "x"),
        ("QUEUE_URLS", "[" * 5000),
        ("REDELIVERY_DELAYS_SECONDS", "[]"),
        ("REDELIVERY_DELAYS_SECONDS", "[NaN]"),
        ("REDELIVERY_DELAYS_SECONDS", "[-1]"),
        ("REDELIVERY_DELAYS_SECONDS", "[1e400]"),
        ("REDELIVERY_DELAYS_SECONDS", "[43201]"),
        ("LLM_TOTAL_TIMEOUT_SECONDS", "inf"),
    ],
)
def test_invalid_setting_error_names_the_variable(variable: str, value: str) -> None:
    with pytest.raises(InvalidSettingsError, match=f"^{variable} is invalid"):
        Settings.from_environment({variable: value})


@pytest.mark.parametrize(
    ("lease", "heartbeat", "protection"), [("60", "60", "300"), ("60", "20", "60"), ("61", "20", "60")]
)
def test_conflicting_lease_durations_are_rejected(lease: str, heartbeat: str, protection: str) -> None:
    times = {"LEASE_SECONDS": lease, "HEARTBEAT_INTERVAL_SECONDS": heartbeat, "MIN_VISIBILITY_SECONDS": protection}

    with pytest.raises(InvalidSettingsError, match=r"^Conflicting settings: .*LEASE_SECONDS"):
        Settings.from_environment(times)


def test_invalid_json_setting_is_named_but_not_quoted() -> None:
    with pytest.raises(InvalidSettingsError, match="QUEUE_URLS") as caught:
        Settings.from_environment({"QUEUE_URLS": '{"secret'})
    assert "secret" not in str(caught.value)


def test_missing_worker_setting_raises() -> None:
    with pytest.raises(InvalidSettingsError, match="WORKER is not set"):
        Settings.from_environment({}).require_worker()


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().lease_seconds = 1  # type: ignore[misc]
