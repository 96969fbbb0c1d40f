"""S3 notifications are read, including encoded keys.

Invalid bodies are rejected.
"""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from counterfoil.delivery.work import Message
from counterfoil.documents.files import Upload, file_name, read_event
from counterfoil.errors import InvalidMessageError

EVENT = Path(__file__).parent.parent / "events" / "s3_object_created.json"


def notification(key: str, **changes: Any) -> str:
    event = json.loads(EVENT.read_text())
    event["Records"][0]["s3"]["object"]["key"] = key
    event["Records"][0] |= changes
    return json.dumps(event)


def test_redelivered_notification_yields_the_same_messages() -> None:
    body = notification("uploads/acme/invoice.pdf")

    assert read_event(body).messages == read_event(body).messages
    assert read_event(body).messages != read_event(notification("uploads/acme/other.pdf")).messages


@pytest.mark.parametrize(
    ("spelling", "key", "tenant"),
    [
        ("uploads/acme/Rechnung+M%C3%BCller+%E2%82%AC.pdf", "uploads/acme/Rechnung Müller €.pdf", "acme"),
        ("uploads/acme/a%2Bb.xml", "uploads/acme/a+b.xml", "acme"),
        ("uploads/acme/2026/11/x.xml", "uploads/acme/2026/11/x.xml", "acme"),
        ("uploads/x.xml", "uploads/x.xml", ""),
        ("elsewhere/acme/x.xml", "elsewhere/acme/x.xml", ""),
    ],
)
def test_key_and_tenant_are_read_from_notification(spelling: str, key: str, tenant: str) -> None:
    upload = Upload("uploads", key, "00", 1)

    assert upload.tenant == tenant
    stored = json.loads(EVENT.read_text())["Records"][0]["s3"]["object"]
    same = Upload("counterfoil-uploads", key, stored["sequencer"], 1, stored["versionId"])
    assert [message.work_id for message in read_event(notification(spelling)).messages] == [same.job_id]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("uploads/acme/1/Rechnung Müller €.pdf", "Rechnung Müller €.pdf"),
        ("uploads/acme/1/invoice_\u202efdp.exe", "invoice_\ufffdfdp.exe"),
        ("uploads/acme/1/a\u2067b\u2069\u200f\n.pdf", "a\ufffdb\ufffd\ufffd\ufffd.pdf"),
        ("uploads/acme/1/\u0641\u0627\u062a\u0648\u0631\u0629.pdf", "\u0641\u0627\u062a\u0648\u0631\u0629.pdf"),
        ("uploads/acme/1/\u200bx.pdf", "\u200bx.pdf"),
    ],
)
def test_only_direction_and_control_characters_are_replaced(key: str, name: str) -> None:
    assert file_name(key) == name


def test_event_and_listing_share_the_job_id() -> None:
    by_event = Upload("uploads", "uploads/acme/a.xml", "0A", 1, "v1")

    assert by_event.job_id == Upload("uploads", "uploads/acme/a.xml", None, 1, "v1").job_id
    assert by_event.job_id != Upload("uploads", "uploads/acme/a.xml", "0B", 1, "v2").job_id


def test_sequencers_distinguish_objects_without_versions() -> None:
    first, second = (Upload("uploads", "uploads/acme/a.xml", sequencer, 1) for sequencer in ("0A", "0B"))

    assert first.job_id != second.job_id
    assert first.job_id == Upload("uploads", "uploads/acme/a.xml", "0A", 1, "null").job_id


def test_s3_test_event_creates_no_work_item() -> None:
    body = '{"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2026-01-02T03:04:05.000Z", "Bucket": "uploads"}'

    assert read_event(body).messages == []


def test_other_s3_events_create_no_work_item() -> None:
    assert read_event(notification("uploads/acme/x.xml", eventName="ObjectRemoved:Delete")).messages == []


def test_work_item_message_is_read() -> None:
    message = Message(work_id=UUID(int=1), revision=1, send_number=2)

    assert read_event(message.model_dump_json()).messages == [message]


@pytest.mark.parametrize(
    "body",
    [
        '{"Records": [{}]}',
        '{"Records": [1]}',
        '{"Records": "x"}',
        '{"Records": null}',
        '{"Records": {}}',
        '{"Records": ""}',
        '{"Records": [{"eventName": 5}]}',
        notification("uploads/acme/x.xml").replace('"size": ', '"size": 1e999, "was": '),
        notification("uploads/acme/%FF.xml"),
        "",
    ],
)
def test_invalid_body_is_rejected(body: str) -> None:
    with pytest.raises(InvalidMessageError):
        read_event(body)
