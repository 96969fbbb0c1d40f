"""What the workers themselves wrote down about each message, read from their logs."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class Record:
    """The line in which a worker said how a message ended, with the moments on its way there."""

    worker: str
    message_id: str
    work_id: UUID | None
    """None where the message was never claimed."""
    outcome: str
    receives: int
    protected: datetime | None
    permitted: datetime | None
    claimed: datetime | None
    ended: datetime

    @property
    def is_in_order(self) -> bool:
        """Protected before its permit, permitted before it was claimed, claimed before it ended."""
        moments = [self.protected, self.permitted, self.claimed, self.ended]
        known = [moment for moment in moments if moment is not None]
        return len(known) == len(moments) and known == sorted(known)

    @property
    def waited(self) -> float:
        """Seconds between protection and permit: how long the message queued inside its invocation."""
        if self.protected is None or self.permitted is None:
            return 0.0
        return (self.permitted - self.protected).total_seconds()


def records(lines: Iterable[str]) -> Iterator[Record]:
    """The lines of a log that tell how a message ended; all others are passed over."""
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and "ended" in (said.get("stages") or {}):
            yield _record(said)


def _record(said: dict[str, Any]) -> Record:
    stages = {name: datetime.fromisoformat(at) for name, at in said["stages"].items()}
    return Record(
        worker=said["service"],
        message_id=said["message_id"],
        work_id=UUID(said["work_id"]) if said.get("work_id") else None,
        outcome=said["message"],
        receives=said["receives"],
        protected=stages.get("protected"),
        permitted=stages.get("permitted"),
        claimed=stages.get("claimed"),
        ended=stages["ended"],
    )


def most_at_once(found: Sequence[Record]) -> int:
    """How many messages were being worked on at the same moment, from claim to end, at the most."""
    changes = [(record.claimed, 1) for record in found if record.claimed is not None]
    changes += [(record.ended, -1) for record in found if record.claimed is not None]
    most = now = 0
    for _, change in sorted(changes):  # what ends at a moment makes room for what begins then
        now += change
        most = max(most, now)
    return most
