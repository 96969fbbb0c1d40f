"""Settings are read once, and a wrong one is named."""

import json

import pytest
from pydantic import ValidationError

from counterfoil.errors import InvalidSettingsError
from counterfoil.settings import Settings


def test_settings_come_from_variables_of_the_same_name() -> None:
    settings = Settings.from_environment(
        {
            "WORKER": json.dumps({"name": "matching", "timeout": 120, "permits": 4, "start_margin": 30}),
            "QUEUE_URLS": '{"matching": "http://127.0.0.1/matching"}',
            "RETRY_REDELIVER_DELAYS_SECONDS": "[0.5, 2]",
            "LEASE_SECONDS": "60",
            "PATH": "/bin",
        }
    )

    assert settings.require_worker().permits == 4
    assert settings.queue_urls == {"matching": "http://127.0.0.1/matching"}
    assert list(settings.retry_redeliver_delays_seconds) == [0.5, 2]
    assert settings.lease_seconds == 60


@pytest.mark.parametrize(
    ("variable", "value"),
    [("LEASE_SECONDS", "300"), ("LEASE_SECONDS", "soon"), ("RETRY_MAX_ATTEMPTS", "0"), ("DATABASE_PORT", "x")],
)
def test_a_wrong_setting_is_named(variable: str, value: str) -> None:
    with pytest.raises(InvalidSettingsError, match=f"^{variable} is wrong"):
        Settings.from_environment({variable: value})


def test_broken_json_is_named_without_its_content() -> None:
    with pytest.raises(InvalidSettingsError, match="QUEUE_URLS") as caught:
        Settings.from_environment({"QUEUE_URLS": '{"secret'})
    assert "secret" not in str(caught.value)


def test_a_function_without_its_row_says_so() -> None:
    with pytest.raises(InvalidSettingsError, match="WORKER is not set"):
        Settings.from_environment({}).require_worker()


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().lease_seconds = 1  # type: ignore[misc]
