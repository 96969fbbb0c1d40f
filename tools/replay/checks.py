"""Compares the results of a replay with the expected ones. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tools.replay.log_records import Record, max_concurrent


@dataclass(frozen=True)
class Document:
    """State of a document in the database after a replay."""

    id: UUID
    is_child: bool
    first_page: int | None
    last_page: int | None
    number: str | None
    ingestion: str | None
    """Status of its ingestion, or None for a cover page, which is not ingested."""
    matching: str | None
    attempts: int
    """Attempts of ingestion and matching."""


@dataclass(frozen=True)
class ReplayData:
    """Results of a replay."""

    documents: Sequence[Document]
    records: Sequence[Record]
    """Log records of ingestion and matching."""
    dead_letters: int
    notifications: int
    queued: Mapping[str, int]
    """Messages in each queue and dead-letter queue."""
    downloads_at_once: int


@dataclass(frozen=True)
class ExpectedDocuments:
    """Documents in the file."""

    invoices: Mapping[str, tuple[int, int]]
    """First and last page of each invoice, by number."""
    covers: int
    """Number of cover pages."""


@dataclass(frozen=True)
class Check:
    """One check with its result."""

    name: str
    expected: str
    found: str
    holds: bool

    @classmethod
    def equal(cls, name: str, expected: object, found: object) -> "Check":
        """Return a check that passes if both values have the same text."""
        return cls(name, str(expected), str(found), str(expected) == str(found))

    @classmethod
    def at_most(cls, name: str, bound: int, found: int) -> "Check":
        """Return a check that passes if the found number is at most `bound`."""
        return cls(name, f"at most {bound}", str(found), found <= bound)

    @property
    def record(self) -> dict[str, Any]:
        """The check as a JSON object."""
        return {"name": self.name, "expected": self.expected, "found": self.found, "holds": self.holds}


def run_checks(found: ReplayData, expected: ExpectedDocuments, gate: int) -> list[Check]:
    """Run all checks. `gate` is the concurrency limit."""
    return [*_documents(found, expected), *_messages(found, len(expected.invoices)), *_work(found, gate)]


def _documents(found: ReplayData, expected: ExpectedDocuments) -> Iterator[Check]:
    numbers = list(expected.invoices)
    count = len(numbers)
    parents = [document for document in found.documents if not document.is_child]
    parts = [document for document in found.documents if document.is_child]
    children = [document for document in parts if document.ingestion is not None]
    done = sum(document.ingestion == document.matching == "succeeded" for document in children)
    yield Check.equal(
        "documents",
        f"1 parent, {count} children, {expected.covers} cover pages",
        f"{len(parents)} parent, {len(children)} children, {len(parts) - len(children)} cover pages",
    )
    yield Check.equal("parent ingested", "succeeded", ", ".join(str(one.ingestion) for one in parents))
    yield Check.equal("children ingested and matched", count, done)
    yield Check.equal("each invoice number once", _set(numbers, numbers), _set([c.number for c in children], numbers))
    right = sum((c.first_page, c.last_page) == expected.invoices.get(str(c.number)) for c in children)
    yield Check.equal("each invoice with its own pages", f"{count} of {count}", f"{right} of {count}")


def _messages(found: ReplayData, count: int) -> Iterator[Check]:
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
        "work items processed twice",
        "none",
        _none([f"{worker} {work}" for (worker, work), n in lines.items() if n > 1]),
    )
    started = sum(document.attempts for document in found.documents)
    yield Check.equal("attempts started", everything, started)
    yield Check.equal(
        "messages left in queues and dead-letter queues", "none", _none([f"{n} in {q}" for q, n in waiting.items()])
    )
    yield Check.equal("dead letters", 0, found.dead_letters)
    yield Check.equal("failure notifications", 0, found.notifications)


def _work(found: ReplayData, gate: int) -> Iterator[Check]:
    ingested = [record for record in found.records if record.worker == "ingestion"]
    disorder = [record.message_id for record in found.records if not record.is_in_order]
    most = max_concurrent(ingested)
    yield Check.equal("protected, permitted, claimed, finished in order", "every message", _all_but(disorder))
    yield Check.at_most("concurrent ingestions in the workers' logs", gate, most)
    yield Check.at_most("concurrent downloads in S3", gate, found.downloads_at_once)
    full = min(gate, len(ingested))
    yield Check(
        "concurrency limit reached, so messages waited", f"{full} concurrent", f"{most} concurrent", most >= full
    )


def _words(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{value} ({count})" for value, count in sorted(counts.items(), key=str)) or "none"


def _none(found: Sequence[str]) -> str:
    return ", ".join(found) or "none"


def _all_but(found: Sequence[str]) -> str:
    return f"all but {', '.join(found)}" if found else "every message"


def _set(found: Sequence[str | None], expected: Sequence[str]) -> str:
    """Count the expected numbers that were found, and the additional ones."""
    actual, required = Counter(map(str, found)), Counter(expected)
    missing, extra = (required - actual).total(), (actual - required).total()
    return f"{len(expected) - missing} of {len(expected)}" + (f", and {extra} more" if extra else "")
