"""What must hold after a replay, held against what was found. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tools.replay.evidence import Record, most_at_once


@dataclass(frozen=True)
class Document:
    """What the database says of one document after a replay."""

    id: UUID
    is_child: bool
    first_page: int | None
    last_page: int | None
    number: str | None
    ingestion: str | None
    """State of its ingestion; None for a cover page, which nobody reads."""
    matching: str | None
    attempts: int
    """Attempts of ingestion and matching together."""


@dataclass(frozen=True)
class Found:
    """Everything that was found after a replay."""

    documents: Sequence[Document]
    records: Sequence[Record]
    """Of ingestion and matching, for these documents."""
    dead_letters: int
    notifications: int
    queued: Mapping[str, int]
    """Messages in each queue and dead-letter queue."""
    downloads_at_once: int


@dataclass(frozen=True)
class Truth:
    """What was in the file."""

    invoices: Mapping[str, tuple[int, int]]
    """The first and the last page of each, by its number."""
    covers: int
    """Pages that belong to none of them."""


@dataclass(frozen=True)
class Check:
    """One thing that must hold."""

    name: str
    expected: str
    found: str
    holds: bool

    @classmethod
    def equal(cls, name: str, expected: object, found: object) -> "Check":
        """It holds when both read the same."""
        return cls(name, str(expected), str(found), str(expected) == str(found))

    @classmethod
    def at_most(cls, name: str, bound: int, found: int) -> "Check":
        """It holds when the number found does not exceed the bound."""
        return cls(name, f"at most {bound}", str(found), found <= bound)

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"name": self.name, "expected": self.expected, "found": self.found, "holds": self.holds}


def checks(found: Found, truth: Truth, gate: int) -> list[Check]:
    """All that must hold after this file went through a gate of this size."""
    return [*_documents(found, truth), *_messages(found, len(truth.invoices)), *_work(found, gate)]


def _documents(found: Found, truth: Truth) -> Iterator[Check]:
    numbers = list(truth.invoices)
    count = len(numbers)
    parents = [document for document in found.documents if not document.is_child]
    parts = [document for document in found.documents if document.is_child]
    children = [document for document in parts if document.ingestion is not None]
    done = sum(document.ingestion == document.matching == "succeeded" for document in children)
    yield Check.equal(
        "documents",
        f"1 parent, {count} children, {truth.covers} cover pages",
        f"{len(parents)} parent, {len(children)} children, {len(parts) - len(children)} cover pages",
    )
    yield Check.equal("parent ingested", "succeeded", ", ".join(str(one.ingestion) for one in parents))
    yield Check.equal("children ingested and matched", count, done)
    yield Check.equal(
        "each invoice once, by its number", _set(numbers, numbers), _set([c.number for c in children], numbers)
    )
    right = sum((c.first_page, c.last_page) == truth.invoices.get(str(c.number)) for c in children)
    yield Check.equal("each with its own pages", f"{count} of {count}", f"{right} of {count}")


def _messages(found: Found, count: int) -> Iterator[Check]:
    lines = Counter((record.worker, record.work_id) for record in found.records)
    received = Counter(record.receives for record in found.records)
    waiting = {name: number for name, number in found.queued.items() if number}
    everything = 2 * count + 1
    yield Check.equal("messages of ingestion and matching", everything, len(found.records))
    yield Check.equal("receives of each message", f"1 ({everything})", _words(received))
    yield Check.equal(
        "outcomes", f"succeeded ({everything})", _words(Counter(record.outcome for record in found.records))
    )
    yield Check.equal(
        "work done twice", "none", _none([f"{worker} {work}" for (worker, work), n in lines.items() if n > 1])
    )
    begun = sum(document.attempts for document in found.documents)
    yield Check.equal("attempts begun", everything, begun)
    yield Check.equal(
        "messages left in queues and dead-letter queues", "none", _none([f"{n} in {q}" for q, n in waiting.items()])
    )
    yield Check.equal("dead letters", 0, found.dead_letters)
    yield Check.equal("notifications of failures", 0, found.notifications)


def _work(found: Found, gate: int) -> Iterator[Check]:
    ingested = [record for record in found.records if record.worker == "ingestion"]
    disorder = [record.message_id for record in found.records if not record.is_in_order]
    most = most_at_once(ingested)
    yield Check.equal("protected, then permitted, then claimed, then done", "every message", _all_but(disorder))
    yield Check.at_most("ingestions at once, by the workers' logs", gate, most)
    yield Check.at_most("downloads at once, by S3", gate, found.downloads_at_once)
    full = min(gate, len(ingested))
    yield Check("the gate was full, so that messages had to wait", f"{full} at once", f"{most} at once", most >= full)


def _words(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{value} ({count})" for value, count in sorted(counts.items(), key=str)) or "none"


def _none(found: Sequence[str]) -> str:
    return ", ".join(found) or "none"


def _all_but(found: Sequence[str]) -> str:
    return f"all but {', '.join(found)}" if found else "every message"


def _set(found: Sequence[str | None], wanted: Sequence[str]) -> str:
    """How many of the wanted there are, and what else."""
    had, want = Counter(map(str, found)), Counter(wanted)
    missing, extra = (want - had).total(), (had - want).total()
    return f"{len(wanted) - missing} of {len(wanted)}" + (f", and {extra} more" if extra else "")
