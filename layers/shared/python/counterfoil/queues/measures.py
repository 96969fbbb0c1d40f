"""What AWS knows of the queues: how many messages SQS guesses are in them, and which alarms have gone off.

Neither is worth waiting for: who does not answer in time is left out, and said to be unknown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from aws_lambda_powertools import Logger

from counterfoil import aws
from counterfoil.errors import CounterfoilError, sentence
from counterfoil.http import within

T = TypeVar("T")

AT_ONCE = 8
"""Queues that are asked at once."""
ASK_SECONDS = 2.0
"""Longest time that AWS has for an answer."""
ALARMS = "counterfoil-"
"""How the names of our alarms begin."""
MOST_ALARMS = 100
"""One page of CloudWatch's."""
_NUMBERS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)

logger = Logger()


@dataclass(frozen=True)
class Depth:
    """Messages of a worker's queues together. SQS calls all of these approximate."""

    visible: int
    in_flight: int
    delayed: int

    @property
    def all(self) -> int:
        """Every message."""
        return self.visible + self.in_flight + self.delayed


@dataclass(frozen=True)
class Alarm:
    """An alarm that has gone off."""

    name: str
    """Without what all of their names begin with: the worker's name and that of a page of the runbook."""
    since: datetime | None
    says: str | None


def depths(urls: Mapping[str, Sequence[str]]) -> dict[str, Depth]:
    """How full the queues of each worker are, by their URLs. Of which SQS does not tell, there is no number."""
    every = [(worker, url) for worker, of_worker in urls.items() for url in of_worker]
    if not every:
        return {}
    sqs = aws.client("sqs")
    with ThreadPoolExecutor(min(AT_ONCE, len(every))) as pool:
        answers = list(pool.map(lambda one: _asked(lambda: _numbers(sqs, one[1])), every))
    found: dict[str, list[Sequence[int] | None]] = {worker: [] for worker in urls}
    for (worker, _), answer in zip(every, answers, strict=True):
        found[worker].append(answer)
    return {worker: Depth(*map(sum, zip(*known, strict=True))) for worker, known in _whole(found)}


def _whole(found: Mapping[str, list[Sequence[int] | None]]) -> Iterable[tuple[str, list[Sequence[int]]]]:
    for worker, answers in found.items():
        known = [answer for answer in answers if answer is not None]
        if len(known) == len(answers) > 0:
            yield worker, known


def _numbers(client: Any, url: str) -> Sequence[int]:
    answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=list(_NUMBERS))
    return [int(answer["Attributes"][name]) for name in _NUMBERS]


def alarms() -> list[Alarm] | None:
    """Our alarms in state ALARM, by name; None: CloudWatch does not say."""

    def ask() -> list[Alarm]:
        cloudwatch = aws.client("cloudwatch")
        answer = cloudwatch.describe_alarms(AlarmNamePrefix=ALARMS, StateValue="ALARM", MaxRecords=MOST_ALARMS)
        return [
            Alarm(
                str(one["AlarmName"]).removeprefix(ALARMS),
                one.get("StateUpdatedTimestamp"),
                one.get("AlarmDescription"),
            )
            for one in answer["MetricAlarms"]
        ]

    found = _asked(ask)
    return None if found is None else sorted(found, key=lambda alarm: alarm.name)


def _asked(ask: Callable[[], T]) -> T | None:
    try:
        with aws.errors_mapped():
            return within(ASK_SECONDS, ask)
    except CounterfoilError as error:
        logger.warning("AWS does not say how the queues are", error=sentence(error, for_log=True))
        return None
