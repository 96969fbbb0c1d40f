"""Compares the actual and the expected results of a replay, without side effects."""

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
    """Ingestion status, or None for a cover page, which is not ingested."""
    matching: str | None
    attempts: int
    """Total attempts of ingestion and matching."""


@dataclass(frozen=True)
class ReplayData:
    """Results of a replay."""

    documents: Sequence[Document]
    records: Sequence[Record]
    """Log records from ingestion and matching."""
    dead_letters: int
    notifications: int
    queued: Mapping[str, int]
    """Number of messages by queue, including dead-letter queues."""
    max_concurrent_downloads: int


@dataclass(frozen=True)
class ExpectedDocuments:
    """Documents that the file contains."""

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
    passed: bool

    @classmethod
    def equal(cls, name: str, expected: object, found: object) -> "Check":
        """Return a check that passes if both values are equal as strings."""
        return cls(name, str(expected), str(found), str(expected) == str(found))

    @classmethod
    def at_most(cls, name: str, bound: int, found: int) -> "Check":
        """Return a check that passes if `found` is at most `bound`."""
        return cls(name, f"at most {bound}", str(found), found <= bound)

    @property
    def record(self) -> dict[str, Any]:
        """The check as a JSON object."""
        return {"name": self.name, "expected": self.expected, "found": self.found, "passed": self.passed}


def run_checks(data: ReplayData, expected: ExpectedDocuments, concurrency_limit: int) -> list[Check]:
    """Run all checks."""
    return [
        *_documents(data, expected),
        *_messages(data, len(expected.invoices)),
        *_concurrency(data, concurrency_limit),
    ]


def _documents(data: ReplayData, expected: ExpectedDocuments) -> Iterator[Check]:
    numbers = list(expected.invoices)
    count = len(numbers)
    parents = [document for document in data.documents if not document.is_child]
    parts = [document for document in data.documents if document.is_child]
    children = [document for document in parts if document.ingestion is not None]
    finished = sum(document.ingestion == document.matching == "succeeded" for document in children)
    yield Check.equal(
        "documents",
        f"1 parent, {count} children, {expected.covers} cover pages",
        f"{len(parents)} parent, {len(children)} children, {len(parts) - len(children)} cover pages",
    )
    yield Check.equal("parent ingested", "succeeded", ", ".join(str(document.ingestion) for document in parents))
    yield Check.equal("children ingested and matched", count, finished)
    yield Check.equal(
        "each invoice number once",
        _count_expected(numbers, numbers),
        _count_expected([child.number for child in children], numbers),
    )
    correct = sum((child.first_page, child.last_page) == expected.invoices.get(str(child.number)) for child in children)
    yield Check.equal("each invoice with its own pages", f"{count} of {count}", f"{correct} of {count}")


def _messages(data: ReplayData, count: int) -> Iterator[Check]:
    records_by_item = Counter((record.worker, record.work_id) for record in data.records)
    received = Counter(record.receives for record in data.records)
    waiting = {name: number for name, number in data.queued.items() if number}
    total = 2 * count + 1
    yield Check.equal("messages of ingestion and matching", total, len(data.records))
    yield Check.equal("receives of each message", f"1 ({total})", _format_counts(received))
    yield Check.equal(
        "outcomes", f"succeeded ({total})", _format_counts(Counter(record.outcome for record in data.records))
    )
    yield Check.equal(
        "work items processed twice",
        "none",
        _joined_or_none([f"{worker} {work_id}" for (worker, work_id), number in records_by_item.items() if number > 1]),
    )
    started = sum(document.attempts for document in data.documents)
    yield Check.equal("attempts started", total, started)
    yield Check.equal(
        "messages left in queues and dead-letter queues",
        "none",
        _joined_or_none([f"{number} in {queue}" for queue, number in waiting.items()]),
    )
    yield Check.equal("dead letters", 0, data.dead_letters)
    yield Check.equal("failure notifications", 0, data.notifications)


def _concurrency(data: ReplayData, concurrency_limit: int) -> Iterator[Check]:
    ingested = [record for record in data.records if record.worker == "ingestion"]
    out_of_order = [record.message_id for record in data.records if not record.is_in_order]
    max_ingestions = max_concurrent(ingested)
    yield Check.equal("protected, permitted, claimed, finished in order", "every message", _all_but(out_of_order))
    yield Check.at_most("concurrent ingestions in the workers' logs", concurrency_limit, max_ingestions)
    yield Check.at_most("concurrent downloads in S3", concurrency_limit, data.max_concurrent_downloads)
    expected_ingestions = min(concurrency_limit, len(ingested))
    yield Check(
        "concurrency limit reached, so messages waited",
        f"{expected_ingestions} concurrent",
        f"{max_ingestions} concurrent",
        max_ingestions >= expected_ingestions,
    )


def _format_counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{value} ({count})" for value, count in sorted(counts.items(), key=str)) or "none"


def _joined_or_none(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _all_but(exceptions: Sequence[str]) -> str:
    return f"all but {', '.join(exceptions)}" if exceptions else "every message"


def _count_expected(numbers: Sequence[str | None], expected: Sequence[str]) -> str:
    """Describe how many expected and how many unexpected numbers were found."""
    actual, required = Counter(map(str, numbers)), Counter(expected)
    missing, extra = (required - actual).total(), (actual - required).total()
    return f"{len(expected) - missing} of {len(expected)}" + (f", and {extra} unexpected" if extra else "")
