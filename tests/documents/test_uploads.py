"""What an S3 notification means: keys as S3 writes them, test events, and bodies that only look like one."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from counterfoil.documents.uploads import Upload, read
from counterfoil.errors import InvalidMessageError
from counterfoil.messages import Message

EVENT = Path(__file__).parent.parent / "events" / "s3_object_created.json"


def notification(key: str, **changes: Any) -> str:
    event = json.loads(EVENT.read_text())
    event["Records"][0]["s3"]["object"]["key"] = key
    event["Records"][0] |= changes
    return json.dumps(event)


def test_an_upload_names_the_same_job_at_every_delivery() -> None:
    body = notification("uploads/acme/invoice.pdf")

    assert read(body).messages == read(body).messages
    assert read(body).messages != read(notification("uploads/acme/other.pdf")).messages


@pytest.mark.parametrize(
    ("written", "key", "tenant"),
    [
        ("uploads/acme/Rechnung+M%C3%BCller+%E2%82%AC.pdf", "uploads/acme/Rechnung Müller €.pdf", "acme"),
        ("uploads/acme/a%2Bb.xml", "uploads/acme/a+b.xml", "acme"),
        ("uploads/acme/2026/11/x.xml", "uploads/acme/2026/11/x.xml", "acme"),
        ("uploads/x.xml", "uploads/x.xml", ""),
        ("elsewhere/acme/x.xml", "elsewhere/acme/x.xml", ""),
    ],
)
def test_keys_arrive_as_html_forms_write_them(written: str, key: str, tenant: str) -> None:
    upload = Upload("uploads", key, "00", 1)

    assert upload.tenant == tenant
    same = Upload(
        "counterfoil-uploads", key, json.loads(EVENT.read_text())["Records"][0]["s3"]["object"]["sequencer"], 1
    )
    assert [message.work_id for message in read(notification(written)).messages] == [same.job_id]


def test_the_test_event_of_s3_names_no_work() -> None:
    body = '{"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2026-01-02T03:04:05.000Z", "Bucket": "uploads"}'

    assert read(body).messages == []


def test_an_event_that_is_no_creation_names_no_work() -> None:
    assert read(notification("uploads/acme/x.xml", eventName="ObjectRemoved:Delete")).messages == []


def test_a_message_of_our_own_is_read_as_such() -> None:
    message = Message(work_id=UUID(int=1), revision=1, send_number=2)

    assert read(message.model_dump_json()).messages == [message]


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
def test_what_cannot_be_read_is_refused(body: str) -> None:
    with pytest.raises(InvalidMessageError):
        read(body)
