"""Malformed and unusual message bodies, for tests of consumers and the archiver."""

import json
from typing import Any
from uuid import uuid4

WORK_ID = str(uuid4())


def work_message(
    work_id: str = json.dumps(WORK_ID), version: str = "1", revision: str = "1", send_number: str = "0"
) -> str:
    """Return a message body. The arguments are JSON texts."""
    return (
        f'{{"schema_version": {version}, "work_id": {work_id}, "revision": {revision}, "send_number": {send_number}}}'
    )


UNREADABLE = {
    "empty": "",
    "whitespace": " \n\t",
    "not JSON": "finally: delete",
    "truncated": work_message()[:-1],
    "trailing text": f"{work_message()} x",
    "two messages": work_message() * 2,
    "a byte order mark": f"\ufeff{work_message()}",
    "a comment": f"/**/{work_message()}",
    "single quotes": work_message().replace('"', "'"),
    "XML": "<message/>",
    "a list": "[]",
    "a list of one": f"[{work_message()}]",
    "a number": "1",
    "a text": json.dumps(work_message()),
    "null": "null",
    "true": "true",
    "NaN": "NaN",
    "an empty object": "{}",
    "no work_id": '{"schema_version": 1, "revision": 1, "send_number": 0}',
    "an invalid work_id": work_message('"x"'),
    "a null work_id": work_message("null"),
    "a numeric work_id": work_message("1"),
    "an id with a space": work_message(f'" {WORK_ID}"'),
    "a truncated id": work_message(f'"{WORK_ID[:-1]}"'),
    "an id with NUL": work_message(f'"{WORK_ID}\\u0000"'),
    "a nested work_id": work_message("[" * 100 + "]" * 100),
    "revision zero": work_message(revision="0"),
    "a negative revision": work_message(revision="-1"),
    "a revision as text": work_message(revision='"1"'),
    "a Boolean revision": work_message(revision="true"),
    "a revision with a decimal point": work_message(revision="1.0"),
    "a revision with an exponent": work_message(revision="1e0"),
    "a NaN revision": work_message(revision="NaN"),
    "an infinite revision": work_message(revision="1e999"),
    "a revision beyond integers": work_message(revision=str(2**31)),
    "a revision beyond bigints": work_message(revision=str(2**64)),
    "a revision of thousands of digits": work_message(revision="9" * 4300),
    "a revision of too many digits": work_message(revision="9" * 100_000),
    "a negative send number": work_message(send_number="-1"),
    "a Boolean send number": work_message(send_number="false"),
    "an unknown field": work_message()[:-1] + ', "x": 1}',
    "a field name with NUL": work_message()[:-1] + ', "a\\u0000b": 1}',
    "a field name with a lone surrogate": work_message()[:-1] + ', "\\ud800": 1}',
    "an old schema": work_message(version="0"),
    "a schema as text": work_message(version='"2"'),
    "a fractional schema": work_message(version="2.5"),
    "a Boolean schema": work_message(version="true"),
    "a schema with a decimal point": work_message(version="1.0"),
    "a newer schema with a decimal point": work_message(version="2.0"),
    "an infinite schema": work_message(version="1e999"),
    "a schema of too many digits": work_message(version="9" * 100_000),
    "NUL": '{"a": "\\u0000"}\x00',
    "a lone surrogate": '"\ud800"',
    "a lone surrogate in a message": work_message('"\udfff"'),
    "invalid UTF-8 as decoded by Lambda": "\ufffd\ufffd{",
    "1 MiB": "x" * 1024 * 1024,
    "1 MiB of fields": json.dumps({f"field {n}": n for n in range(50_000)})[: 1024 * 1024 - 9] + '":1}',
    "nested lists": "[" * 100_000,
    "nested objects": '{"work_id":' * 100_000,
}

UNUSUAL_ENCODINGS = {
    "capitals": lambda id_: work_message(json.dumps(str(id_).upper())),
    "no hyphens": lambda id_: work_message(json.dumps(id_.hex)),
    "braces": lambda id_: work_message(f'"{{{id_}}}"'),
    "a URN": lambda id_: work_message(json.dumps(id_.urn)),
    "escaped names": lambda id_: work_message(json.dumps(str(id_))).replace("work_id", "work\\u005fid"),
    "surrounding whitespace": lambda id_: f"\n {work_message(json.dumps(str(id_)))}\t\r\n",
    "no version": lambda id_: work_message(json.dumps(str(id_))).replace('"schema_version": 1, ', ""),
    "a duplicate field": lambda id_: work_message()[:-1] + f', "work_id": "{id_}"}}',
}
"""Functions that return an unusual but valid message for a work id."""

NEWER_VERSIONS = {"the next": "2", "far ahead": str(2**70), "of thousands of digits": "9" * 4300}


def s3_event(*records: Any) -> str:
    """Return an S3 event notification with `records`."""
    return json.dumps({"Records": list(records)})


def object_created(
    key: Any, *, name: Any = "ObjectCreated:Put", bucket: Any = "uploads", **attributes: Any
) -> dict[str, Any]:
    """Return an S3 event record, by default for a created object."""
    return {
        "eventName": name,
        "s3": {"bucket": {"name": bucket}, "object": {"key": key, "size": 3, "sequencer": "01"} | attributes},
    }


UNREADABLE_UPLOADS = {
    "null records": '{"Records": null}',
    "an object as records": '{"Records": {}}',
    "a string as records": '{"Records": ""}',
    "an event without a name": s3_event({"s3": {}}),
    "a numeric event name": s3_event(object_created("uploads/acme/a.xml", name=5)),
    "a null record": s3_event(None),
    "a numeric record": s3_event(1),
    "an empty record": s3_event({}),
    "no bucket": s3_event({"eventName": "ObjectCreated:Put", "s3": {"object": {"key": "x", "sequencer": "1"}}}),
    "a numeric bucket": s3_event(object_created("uploads/acme/a.xml", bucket=1)),
    "a bucket with NUL": s3_event(object_created("uploads/acme/a.xml", bucket="a\x00")),
    "a key with invalid UTF-8": s3_event(object_created("uploads/acme/%ff.xml")),
    "a key with a lone surrogate": s3_event(object_created("uploads/acme/%ED%A0%80.xml")),
    "a key with NUL": s3_event(object_created("uploads/acme/a%00.xml")),
    "a list as key": s3_event(object_created(["uploads/acme/a.xml"])),
    "a key of 1 MiB": s3_event(object_created("uploads/acme/" + "".join(f"{n:x}" for n in range(200_000)))),
    "a numeric sequencer": s3_event(object_created("uploads/acme/a.xml", sequencer=1)),
    "a numeric version": s3_event(object_created("uploads/acme/a.xml", versionId=1)),
    "a negative size": s3_event(object_created("uploads/acme/a.xml", size=-1)),
    "a size beyond bigints": s3_event(object_created("uploads/acme/a.xml", size=2**63)),
    "a NaN size": s3_event(object_created("uploads/acme/a.xml", size=float("nan"))),
    "an infinite size": s3_event(object_created("uploads/acme/a.xml", size=float("inf"))),
    "one good and one bad record": s3_event(object_created("uploads/acme/a.xml"), None),
    "an EventBridge event": '{"detail-type": "Object Created", "detail": {"object": {"key": "uploads/acme/a.xml"}}}',
    "an SNS event": json.dumps({"Type": "Notification", "Message": s3_event(object_created("uploads/acme/a.xml"))}),
    "nested records": '{"Records":' + "[" * 100_000,
}

EVENTS_WITHOUT_UPLOAD = {
    "the test event": '{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "uploads"}',
    "no records": s3_event(),
    "a deletion": s3_event(object_created("uploads/acme/a.xml", name="ObjectRemoved:Delete")),
    "a delete marker": s3_event(object_created("uploads/acme/a.xml", name="ObjectRemoved:DeleteMarkerCreated")),
    "an expiry": s3_event(object_created("uploads/acme/a.xml", name="LifecycleExpiration:Delete")),
    "several deletions": s3_event(
        *[object_created(f"uploads/acme/{n}", name="ObjectRemoved:Delete") for n in range(3)]
    ),
}
"""S3 events that do not announce a new object."""

ENCODED_KEYS = {
    "plain": ("uploads/acme/a.xml", "uploads/acme/a.xml"),
    "a plus for a space": ("uploads/acme/a+b.xml", "uploads/acme/a b.xml"),
    "an encoded space": ("uploads/acme/a%20b.xml", "uploads/acme/a b.xml"),
    "an encoded plus": ("uploads/acme/a%2Bb.xml", "uploads/acme/a+b.xml"),
    "umlauts": ("uploads/acme/Rechnung+M%C3%BCller+%E2%82%AC.xml", "uploads/acme/Rechnung Müller €.xml"),
    "beyond the basic plane": ("uploads/acme/%F0%9F%93%84.pdf", "uploads/acme/📄.pdf"),
    "right to left": ("uploads/acme/%E2%80%AEfdp.xml", "uploads/acme/\u202efdp.xml"),
    "a stray percent sign": ("uploads/acme/100%.xml", "uploads/acme/100%.xml"),
    "an encoded percent sign": ("uploads/acme/100%2525.xml", "uploads/acme/100%25.xml"),
    "a line break": ("uploads/acme/a%0Ab.xml", "uploads/acme/a\nb.xml"),
    "a parent directory": ("uploads/acme/../beta/a.xml", "uploads/acme/../beta/a.xml"),
    "a subfolder": ("uploads/acme/2026/01/a.xml", "uploads/acme/2026/01/a.xml"),
    "quotes": ("uploads/acme/a%27%3B--%22.xml", "uploads/acme/a';--\".xml"),
    "the longest key": ("uploads/acme/" + "x" * 1011, "uploads/acme/" + "x" * 1011),
}
"""Object keys as encoded in S3 events, each with its decoded form."""

KEYS_WITHOUT_TENANT = {
    "an unknown tenant": "uploads/missing/a.xml",
    "no tenant": "uploads/a.xml",
    "an empty tenant": "uploads//a.xml",
    "another prefix": "exports/acme/a.xml",
    "another case": "uploads/ACME/a.xml",
    "a space": "uploads/acme+/a.xml",
    "nothing": "",
    "a parent directory": "uploads/../acme/a.xml",
}


def body_of(dead_letter: dict[str, Any]) -> str:
    """Return the message body stored in a dead letter without a work item."""
    body: str = dead_letter["payload"]["body"]
    return bytes.fromhex(body).decode(errors="surrogatepass") if dead_letter["payload"]["encoding"] == "hex" else body
