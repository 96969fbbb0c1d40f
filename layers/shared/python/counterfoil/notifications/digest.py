"""Notification digests about failures of one kind, and their texts."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from counterfoil.validation import UNASSIGNED

SUBJECTS = {
    "acquisition": ("upload", "uploads"),
    "ingestion": ("document", "documents"),
    "matching": ("document", "documents"),
    "diagnostics": ("cluster", "clusters"),
    "document_output": ("delivery of results", "deliveries of results"),
    "tasks": ("task", "tasks"),
    "offers": ("day of offers", "days of offers"),
}
"""Nouns for work items by worker, singular and plural."""
DOCUMENT_WORKERS = frozenset({"ingestion", "matching"})
"""Workers whose work id is a document's id."""
WORK_ITEM_NOUNS = ("work item", "work items")
OPERATION = "bulk"
"""Replaces the worker's name if an operation was halted or paused automatically."""
MAX_NAME_CHARS = 80
MAX_ERROR_CHARS = 1000
"""Maximum length of an error in a digest."""


@dataclass(frozen=True)
class Tenant:
    """Tenant of the failed work item."""

    id: UUID
    slug: str
    name: str


@dataclass(frozen=True)
class Failure:
    """A work item that failed permanently."""

    work_id: UUID | None
    """None if the message names no work item."""
    job_id: UUID
    worker: str
    error: str
    attempts: int

    @property
    def subject(self) -> tuple[str, str]:
        """Nouns for the work item, singular and plural."""
        return SUBJECTS.get(self.worker, WORK_ITEM_NOUNS)


@dataclass(frozen=True)
class NotificationDigest:
    """A tenant's failures with the same fingerprint.

    A digest contains the first failure alone, or all failures within a digest window.
    """

    id: UUID
    tenant: Tenant | None
    """None for unassigned failures."""
    count: int
    first: tuple[Failure, ...]
    """The first failures, at least one."""
    first_failure_at: datetime
    last_failure_at: datetime


@dataclass(frozen=True)
class NotificationField:
    """A line of a digest. If `url` is set, `value` links to it."""

    label: str
    value: str
    url: str | None = None


@dataclass(frozen=True)
class RenderedNotification:
    """Text of a digest, for a channel to render.

    Every string is one printable line, without escapes.
    """

    headline: str
    fields: tuple[NotificationField, ...]
    closing: str


def render(digest: NotificationDigest, console_url: str | None, digest_seconds: float) -> RenderedNotification:
    """Return the text of a digest.

    `console_url` is the base URL of links. If it is None, the text names a command instead. `digest_seconds` is the
    window in which further failures of the same kind are collected.
    """
    failure = digest.first[0]
    if failure.worker == OPERATION:
        return _render_operation(digest, console_url)
    is_single = digest.count == 1
    suffix = "" if is_single else " (first failure)"
    period = f"{_time(digest.first_failure_at)} and {_time(digest.last_failure_at)}"
    fields = (
        NotificationField(f"Error{suffix}", to_one_line(failure.error, MAX_ERROR_CHARS)),
        NotificationField(f"Attempts{suffix}", str(failure.attempts)),
        NotificationField("Tenant", _tenant(digest.tenant)),
        NotificationField("Worker", failure.worker),
        NotificationField("Failed at", _time(digest.first_failure_at))
        if is_single
        else NotificationField("Failed between", period),
        *_subjects(digest, console_url),
    )
    closing = f"{'It' if is_single else 'They'} will not be retried automatically."
    if digest_seconds:
        interval = _duration(digest_seconds)
        closing += f" Further failures of this kind are reported in one message every {interval}."
    return RenderedNotification(_headline(digest), fields, closing)


def _render_operation(digest: NotificationDigest, console_url: str | None) -> RenderedNotification:
    """Return the text for an operation that was halted or paused automatically.

    Report its latest stop.
    """
    failure = digest.first[-1]
    slug = digest.tenant.slug if digest.tenant else UNASSIGNED
    url = f"{console_url.rstrip('/')}/operations/{failure.job_id}?tenant={slug}" if console_url else None
    fields = [
        NotificationField("Reason", to_one_line(failure.error, MAX_ERROR_CHARS)),
        NotificationField("Tenant", _tenant(digest.tenant)),
        NotificationField("Stopped at", _time(digest.last_failure_at)),
        NotificationField("Operation", str(failure.job_id), url),
    ]
    if url is None:
        fields.append(NotificationField("Progress", f"counterfoil operations show {failure.job_id}"))
    closing = "Dead letters that it has not processed are unchanged."
    return RenderedNotification(
        f"An operation on dead letters{_tenant_suffix(digest)} was stopped", tuple(fields), closing
    )


def _tenant_suffix(digest: NotificationDigest) -> str:
    return f" for {to_one_line(digest.tenant.name, MAX_NAME_CHARS)}" if digest.tenant else ""


def _headline(digest: NotificationDigest) -> str:
    failure = digest.first[0]
    is_plural = digest.count > 1
    if failure.work_id is None:
        subject = f"{digest.count} more messages" if is_plural else "A message"
        return f"{subject} to {failure.worker} cannot be read"
    singular, plural = failure.subject
    subject = f"{digest.count} more {plural}" if is_plural else f"{'An' if singular[0] in 'aeiou' else 'A'} {singular}"
    return f"{subject}{_tenant_suffix(digest)} failed in {failure.worker}"


def _tenant(tenant: Tenant | None) -> str:
    return f"{to_one_line(tenant.name, MAX_NAME_CHARS)} ({tenant.slug}, {tenant.id})" if tenant else "unassigned"


def _subjects(digest: NotificationDigest, console_url: str | None) -> list[NotificationField]:
    """Return a line for each failure, with a link to its document or its dead letter."""
    console = console_url.rstrip("/") if console_url else None
    tenant = digest.tenant.slug if digest.tenant else UNASSIGNED
    fields = []
    for failure in digest.first:
        noun, _ = failure.subject
        target = ("Dead letter", failure.job_id) if failure.work_id is None else (noun.capitalize(), failure.work_id)
        page = (
            f"documents/{failure.work_id}"
            if failure.worker in DOCUMENT_WORKERS and failure.work_id is not None
            else f"dead-letters/{failure.job_id}"
        )
        url = f"{console}/{page}?tenant={tenant}" if console else None
        fields.append(NotificationField(target[0], str(target[1]), url))
    if digest.count > len(digest.first):
        fields.append(NotificationField("And", f"{digest.count - len(digest.first)} more"))
    if console is None:
        fields.append(NotificationField("To see what failed", f"counterfoil dlq list --tenant {tenant}"))
    return fields


def to_one_line(text: str, max_chars: int) -> str:
    """Return a text as one printable line of at most `max_chars` characters.

    It cannot add a header.
    """
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _duration(seconds: float) -> str:
    minutes, remainder = divmod(round(seconds), 60)
    if remainder or not minutes:
        return f"{round(seconds)} seconds"
    return "minute" if minutes == 1 else f"{minutes} minutes"
