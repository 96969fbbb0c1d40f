"""Powertools' configuration with safer defaults.

Functions can use it with or without a Lambda context.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig
from aws_lambda_powertools.utilities.typing import LambdaContext

RESULT_TTL_SECONDS = 24 * 60 * 60
GRACE_SECONDS = 30.0
"""Seconds after its deadline at which a run counts as lost, because a function may notice its deadline late."""


class Config(IdempotencyConfig):
    """`IdempotencyConfig` that stores results for a day and hashes keys with SHA-256.

    Powertools' default is MD5, for which anyone can construct two payloads with the same hash.
    """

    def __init__(
        self,
        event_key_jmespath: str = "",
        *,
        time_left: Callable[[], float] | None = None,
        expires_after_seconds: int = RESULT_TTL_SECONDS,
        hash_function: str = "sha256",
        **options: Any,
    ) -> None:
        """Pass `options` to Powertools, and set the source of the remaining time.

        `time_left` returns the seconds until the function's deadline. It replaces the Lambda context. If neither is
        given, a crashed run's key stays taken until its record expires.
        """
        super().__init__(
            event_key_jmespath, expires_after_seconds=expires_after_seconds, hash_function=hash_function, **options
        )
        if time_left is not None:
            self.register_lambda_context(cast(LambdaContext, _Deadline(time_left, expires_after_seconds)))


@dataclass(frozen=True)
class _Deadline:
    """The part of a Lambda context that Powertools uses."""

    time_left: Callable[[], float]
    max_seconds: float

    def get_remaining_time_in_millis(self) -> int:
        return int(min(self.time_left() + GRACE_SECONDS, self.max_seconds) * 1000)
