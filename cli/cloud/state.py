"""What a local cloud knows about itself between two commands: a JSON file that only its owner may read."""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cli.cloud.emulator import Emulator
from cli.cloud.place import Place

VERSION = 1


@dataclass(frozen=True)
class Tuning:
    """What a deployment is told beside what it is made from."""

    settings: Mapping[str, str] = field(default_factory=dict)
    timeout: int | None = None


@dataclass(frozen=True)
class Deployment:
    """What is deployed. Times are seconds since the epoch."""

    fingerprint: str
    """Of everything that it was made from: the same fingerprint needs no new deployment."""
    at: float
    seconds: float
    outputs: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """Environment variables of every function, beside those that the stack gives it. Among them may be a secret."""
    timeout: int | None = None
    """Seconds that shorten the time-out of every worker with a queue."""


@dataclass(frozen=True)
class State:
    """The state of a cloud whose emulator was started."""

    emulator: Emulator
    database_pid: int
    database_port: int
    database_url: str
    """As the server's superuser."""
    deployment: Deployment | None = None

    def deployed(self, fingerprint: str, seconds: float, outputs: dict[str, str], tuning: Tuning) -> "State":
        """The state after a deployment that has just ended."""
        deployment = Deployment(fingerprint, time.time(), seconds, outputs, dict(tuning.settings), tuning.timeout)
        return replace(self, deployment=deployment)

    @property
    def tuning(self) -> Tuning:
        """What the last deployment was told."""
        return Tuning(self.deployment.settings, self.deployment.timeout) if self.deployment else Tuning()

    def save(self, place: Place) -> None:
        """Write it whole or not at all."""
        fresh = place.state.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"version": VERSION, **asdict(self)}, file, indent=1)
        fresh.replace(place.state)

    @classmethod
    def load(cls, place: Place) -> "State | None":
        """The state as it was saved last. None where there is none, or none that this version can read."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            return cls._read(place.state)
        return None

    @classmethod
    def _read(cls, path: Path) -> "State | None":
        saved: dict[str, Any] = json.loads(path.read_text())
        if saved.pop("version") != VERSION:
            return None
        deployment = saved.pop("deployment")
        return cls(
            **(saved | {"emulator": Emulator(**saved["emulator"])}),
            deployment=Deployment(**deployment) if deployment else None,
        )
