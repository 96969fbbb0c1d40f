"""Digest texts: full sentences, escaped for Slack, with one-line email subjects."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from counterfoil.kinds import WORK_KINDS
from counterfoil.notifications import channels
from counterfoil.notifications.digest import SUBJECTS, Failure, NotificationDigest, Tenant, render, to_one_line

DOCUMENT = UUID("0198c0de-0000-7000-8000-000000000001")
JOB = UUID("0198c0de-0000-7000-8000-00000000000b")
ACME = Tenant(UUID("0198c0de-0000-7000-8000-00000000000a"), "acme", "Acme GmbH")
SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UNTIL = datetime(2026, 1, 2, 3, 8, 59, tzinfo=UTC)
CONSOLE = "https://console.example.com/"


def failure(number: int = 1, **changes: Any) -> Failure:
    values: dict[str, Any] = {
        "work_id": UUID(int=DOCUMENT.int - 1 + number),
        "job_id": JOB,
        "worker": "matching",
        "error": "The sum of the lines is not the total",
        "attempts": 3,
    }
    return Failure(**(values | changes))


def digest(*first: Failure, count: int = 1, tenant: Tenant | None = ACME) -> NotificationDigest:
    return NotificationDigest(JOB, tenant, count, first or (failure(),), SINCE, UNTIL if count > 1 else SINCE)


def slack_text(digest_: NotificationDigest, console_url: str | None = CONSOLE) -> str:
    return channels.render_mrkdwn(render(digest_, console_url, 300))


def mail_text(digest_: NotificationDigest, console_url: str | None = CONSOLE) -> str:
    return channels.render_body(render(digest_, console_url, 300))


def test_single_failure_is_formatted_for_slack():
    assert slack_text(digest()) == (
        "*A document for Acme GmbH failed in matching*\n"
        "Error: The sum of the lines is not the total\n"
        "Attempts: 3\n"
        "Tenant: Acme GmbH (acme, 0198c0de-0000-7000-8000-00000000000a)\n"
        "Worker: matching\n"
        "Failed at: 2026-01-02 03:04:05 UTC\n"
        "Document: <https://console.example.com/documents/0198c0de-0000-7000-8000-000000000001?tenant=acme"
        "|0198c0de-0000-7000-8000-000000000001>\n"
        "It will not be retried automatically. "
        "Further failures of this kind are reported in one message every 5 minutes."
    )


def test_halted_bulk_operation_is_reported_on_both_channels():
    reason = "1 of the first 2 retries failed again."
    halted = digest(failure(worker="bulk", work_id=JOB, error=reason, attempts=0))
    assert slack_text(halted) == (
        "*An operation on dead letters for Acme GmbH was stopped*\n"
        "Reason: 1 of the first 2 retries failed again.\n"
        "Tenant: Acme GmbH (acme, 0198c0de-0000-7000-8000-00000000000a)\n"
        "Stopped at: 2026-01-02 03:04:05 UTC\n"
        f"Operation: <https://console.example.com/operations/{JOB}?tenant=acme|{JOB}>\n"
        "Dead letters that it has not processed are unchanged."
    )
    assert f"Progress: counterfoil operations show {JOB}" in " ".join(mail_text(halted, None).split())


def test_digest_is_formatted_as_mail():
    first = [failure(number) for number in range(1, 6)]
    pages = "https://console.example.com/documents/0198c0de-0000-7000-8000-"
    assert mail_text(digest(*first, count=499)) == (
        "499 more documents for Acme GmbH failed in matching.\n"
        "\n"
        "Error (first failure):    The sum of the lines is not the total\n"
        "Attempts (first failure): 3\n"
        "Tenant:                   Acme GmbH (acme, 0198c0de-0000-7000-8000-00000000000a)\n"
        "Worker:                   matching\n"
        "Failed between:           2026-01-02 03:04:05 UTC and 2026-01-02 03:08:59 UTC\n"
        f"Document:                 {pages}000000000001?tenant=acme\n"
        f"Document:                 {pages}000000000002?tenant=acme\n"
        f"Document:                 {pages}000000000003?tenant=acme\n"
        f"Document:                 {pages}000000000004?tenant=acme\n"
        f"Document:                 {pages}000000000005?tenant=acme\n"
        "And:                      494 more\n"
        "\n"
        "They will not be retried automatically. "
        "Further failures of this kind are reported in one message every 5 minutes.\n"
    )


@pytest.mark.parametrize("worker", [worker for worker in SUBJECTS if worker not in ("ingestion", "matching")])
def test_other_failures_link_to_their_dead_letter(worker: str):
    assert f"https://console.example.com/dead-letters/{JOB}?tenant=acme" in mail_text(digest(failure(worker=worker)))


def test_mail_without_console_names_the_command():
    text = mail_text(digest(), None)
    assert "Document:           0198c0de-0000-7000-8000-000000000001\n" in text
    assert "To see what failed: counterfoil dlq list --tenant acme\n" in text
    assert "http" not in text


@pytest.mark.parametrize("layout", [slack_text, mail_text])
def test_unreadable_message_links_to_unassigned_dead_letter(layout: Any):
    text = layout(digest(failure(work_id=None, attempts=0, error="The body is not JSON"), tenant=None))
    assert "A message to matching cannot be read" in text
    assert f"https://console.example.com/dead-letters/{JOB}?tenant=-" in text
    assert "unassigned" in text


def test_upload_is_not_called_a_document():
    text = mail_text(digest(failure(worker="acquisition"), tenant=None), None)
    assert "An upload failed in acquisition." in text
    assert "Upload:" in text
    assert "counterfoil dlq list --tenant -\n" in text


def test_digest_text_is_escaped_in_slack():
    hostile_tenant = Tenant(ACME.id, "acme", "Tom & <!channel> <https://evil.example|Jerry>")
    text = slack_text(digest(failure(error="a < b && c > d <@U123>"), tenant=hostile_tenant))
    assert "Tom &amp; &lt;!channel&gt; &lt;https://evil.example|Jerry&gt;" in text
    assert "Error: a &lt; b &amp;&amp; c &gt; d &lt;@U123&gt;" in text
    assert text.count("<") == text.count(">") == 1  # only the link


def test_long_error_is_truncated_before_escaping():
    text = slack_text(digest(failure(error="&" * 5000)))
    (line,) = [line for line in text.splitlines() if line.startswith("Error")]
    assert line == "Error: " + "&amp;" * 999 + "…"


@pytest.mark.parametrize(
    "name",
    [
        "Acme\r\nBcc: everybody@example.com",
        "Acme\nBcc: everybody@example.com",
        "Acme\u2028Bcc: everybody@example.com",
        "Acme\x85Bcc: everybody@example.com",
        "Acme\x0b\x0c\x1c\x00Bcc: everybody@example.com",
    ],
)
def test_name_cannot_inject_a_mail_header(name: str):
    text = render(digest(tenant=Tenant(ACME.id, "acme", name)), CONSOLE, 300)
    assert channels.render_subject(text) == (
        "Counterfoil: A document for Acme Bcc: everybody@example.com failed in matching"  # prose: ignore
    )
    assert len(channels.render_body(text).splitlines()) == len(mail_text(digest()).splitlines())
    assert len(channels.render_mrkdwn(text).splitlines()) == len(slack_text(digest()).splitlines())


def test_error_cannot_start_a_new_line():
    text = mail_text(digest(failure(error="first\nTenant: another\r\n.\r\nQUIT\u202e")))
    assert "Error:     first Tenant: another . QUIT\n" in text


def test_subject_length_is_limited():
    text = render(digest(tenant=Tenant(ACME.id, "acme", "Ä" * 5000)), CONSOLE, 300)
    assert len(channels.render_subject(text)) <= 150


@pytest.mark.parametrize(
    ("text", "line"), [("", ""), (" a\t\n b ", "a b"), ("abcdefg", "abcde…"), ("Straße 日本", "Straße…")]
)
def test_text_is_reduced_to_one_line(text: str, line: str):
    assert to_one_line(text, len(line) or 1) == line


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(300, "5 minutes"), (60, "minute"), (90, "90 seconds"), (3600, "60 minutes")],
)
def test_closing_names_the_digest_window(seconds: float, expected: str):
    assert f" every {expected}." in render(digest(), None, seconds).closing


def test_closing_omits_zero_window():
    assert render(digest(), None, 0).closing == "It will not be retried automatically."


@pytest.mark.parametrize("worker", WORK_KINDS)
def test_every_worker_has_a_subject(worker: str):
    assert worker in SUBJECTS


def test_unknown_worker_gets_generic_subject():
    first = failure(worker="somersault")
    assert "2 more work items for Acme GmbH failed in somersault" in slack_text(digest(first, failure(2), count=2))
