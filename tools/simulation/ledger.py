"""The ledger of committed changes, and the work items in messages."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from counterfoil.delivery.work import read_message
from counterfoil.errors import CounterfoilError
from functions.dead_letters.archiver import READERS

if TYPE_CHECKING:
    from tools.simulation.world import World

WorkItemRef = tuple[str, UUID, int, int]
"""Worker, id, revision and send number of a work item in a message."""


@cache
def work_items_in(worker: str, body: str) -> tuple[WorkItemRef, ...]:
    """Return the work items in a message; none if it is unreadable."""
    try:
        parsed = READERS.get(worker, read_message)(body)
    except CounterfoilError:
        return ()
    return tuple((worker, message.work_id, message.revision, message.send_number) for message in parsed.messages)


@dataclass(frozen=True)
class Entry:
    """A ledger entry: one transaction's change to one work item."""

    number: int
    task: int
    transaction: int
    worker: str
    id: UUID
    old: dict[str, Any] | None
    new: dict[str, Any]

    def changed_to(self, status: str | None) -> bool:
        """Return whether the entry changed the status to `status`."""
        return self.new["status"] == status and (self.old is None or self.old["status"] != status)

    @property
    def is_claim(self) -> bool:
        """Return whether the entry is a claim."""
        return self.old is not None and self.new["attempts"] > self.old["attempts"]

    @property
    def commits_effects(self) -> bool:
        """Return whether the entry commits the effects of an attempt.

        Only succeeded and skipped attempts have effects.
        """
        # A task is never skipped. A task without a status was canceled.
        return self.old is not None and (
            self.changed_to("succeeded") or (self.changed_to(None) and self.worker != "tasks")
        )

    @property
    def ends_claim(self) -> bool:
        """Return whether the entry ends the previous claim."""
        if self.old is None:
            return True
        return any(self.old[name] != self.new[name] for name in ("claim_token", "revision")) or self.is_claim


def ledger(world: "World") -> list[Entry]:
    """Return all committed changes. Changes to the same work item are in order."""
    rows = world.store.admin.execute(
        "SELECT number, actor, worker, work_id, old, new FROM simulation_ledger ORDER BY number"
    ).fetchall()
    entries = []
    for number, actor, worker, work_id, old, new in rows:
        task, _, transaction = (actor or "0:0").partition(":")
        entries.append(Entry(number, int(task or 0), int(transaction or 0), worker, work_id, old, new))
    return entries


class MatchChange(NamedTuple):
    """A match that was inserted, updated or deleted."""

    transaction: int
    a: UUID
    b: UUID


def match_changes(world: "World") -> list[MatchChange]:
    """Return the committed changes to matches."""
    rows = world.store.admin.execute("SELECT split_part(actor, ':', 2)::int, a, b FROM simulation_match").fetchall()
    return [MatchChange(*row) for row in rows]
