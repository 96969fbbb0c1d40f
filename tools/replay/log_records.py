"""The workers' log records about the outcome of each message."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class Record:
    """Log record of a message's outcome, with the times of its stages."""

    worker: str
    message_id: str
    work_id: UUID | None
    """None if the message was never claimed."""
    outcome: str
    receives: int
    protected: datetime | None
    permitted: datetime | None
    claimed: datetime | None
    ended: datetime

    @property
    def is_in_order(self) -> bool:
        """Return whether protection, permit, claim and end happened in this order."""
        moments = [self.protected, self.permitted, self.claimed, self.ended]
        known = [moment for moment in moments if moment is not None]
        return len(known) == len(moments) and known == sorted(known)

    @property
    def permit_wait(self) -> float:
        """Seconds between protection and permit.

        The value is 0 if the message was not protected or had no permit.
        """
        if self.protected is None or self.permitted is None:
            return 0.0
        return (self.permitted - self.protected).total_seconds()


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the log records about outcomes. Other lines are skipped."""
    for line in lines:
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        if isinstance(parsed, dict) and "ended" in (parsed.get("stages") or {}):
            yield _record(parsed)


def _record(parsed: dict[str, Any]) -> Record:
    stages = {name: datetime.fromisoformat(time) for name, time in parsed["stages"].items()}
    return Record(
        worker=parsed["service"],
        message_id=parsed["message_id"],
        work_id=UUID(parsed["work_id"]) if parsed.get("work_id") else None,
        outcome=parsed["message"],
        receives=parsed["receives"],
        protected=stages.get("protected"),
        permitted=stages.get("permitted"),
        claimed=stages.get("claimed"),
        ended=stages["ended"],
    )


def max_concurrent(ended: Sequence[Record]) -> int:
    """Return the maximum number of messages that were processed at the same time.

    Processing lasts from claim to end.
    """
    changes = [(record.claimed, 1) for record in ended if record.claimed is not None]
    changes += [(record.ended, -1) for record in ended if record.claimed is not None]
    maximum = current = 0
    for _, change in sorted(changes):  # at equal times, ends sort before starts
        current += change
        maximum = max(maximum, current)
    return maximum
