"""Bodies that no message of ours has, and ours in odd forms: consumers and the archiver meet them all."""

import json
from typing import Any
from uuid import uuid4

WORK = str(uuid4())


def ours(work_id: str = json.dumps(WORK), version: str = "1", revision: str = "1", send_number: str = "0") -> str:
    """A message with each of its values as JSON text."""
    return (
        f'{{"schema_version": {version}, "work_id": {work_id}, "revision": {revision}, "send_number": {send_number}}}'
    )


UNREADABLE = {
    "empty": "",
    "white space": " \n\t",
    "not JSON": "finally: delete",
    "cut short": ours()[:-1],
    "something after it": f"{ours()} x",
    "two of them": ours() * 2,
    "a byte order mark": f"\ufeff{ours()}",
    "a comment": f"/**/{ours()}",
    "single quotes": ours().replace('"', "'"),
    "XML": "<message/>",
    "a list": "[]",
    "a list of one": f"[{ours()}]",
    "a number": "1",
    "a text": json.dumps(ours()),
    "null": "null",
    "true": "true",
    "NaN": "NaN",
    "nothing": "{}",
    "no work": '{"schema_version": 1, "revision": 1, "send_number": 0}',
    "a work that is no id": ours('"x"'),
    "a work that is null": ours("null"),
    "a work that is a number": ours("1"),
    "an id with a space": ours(f'" {WORK}"'),
    "an id cut short": ours(f'"{WORK[:-1]}"'),
    "an id with NUL": ours(f'"{WORK}\\u0000"'),
    "a deep work": ours("[" * 100 + "]" * 100),
    "revision zero": ours(revision="0"),
    "a negative revision": ours(revision="-1"),
    "a revision as text": ours(revision='"1"'),
    "a revision that is true": ours(revision="true"),
    "a revision with a point": ours(revision="1.0"),
    "a revision with an exponent": ours(revision="1e0"),
    "a revision that is not a number": ours(revision="NaN"),
    "an infinite revision": ours(revision="1e999"),
    "a revision beyond integers": ours(revision=str(2**31)),
    "a revision beyond bigints": ours(revision=str(2**64)),
    "a revision of thousands of digits": ours(revision="9" * 4300),
    "a revision of too many digits": ours(revision="9" * 100_000),
    "a negative send number": ours(send_number="-1"),
    "a send number that is false": ours(send_number="false"),
    "a field too many": ours()[:-1] + ', "x": 1}',
    "a field named by NUL": ours()[:-1] + ', "a\\u0000b": 1}',
    "a field of half a surrogate": ours()[:-1] + ', "\\ud800": 1}',
    "an old schema": ours(version="0"),
    "a schema as text": ours(version='"2"'),
    "a schema and a half": ours(version="2.5"),
    "a schema that is true": ours(version="true"),
    "a schema with a point": ours(version="1.0"),
    "a newer schema with a point": ours(version="2.0"),
    "an infinite schema": ours(version="1e999"),
    "a schema of too many digits": ours(version="9" * 100_000),
    "NUL": '{"a": "\\u0000"}\x00',
    "half a surrogate": '"\ud800"',
    "half a surrogate in a message": ours('"\udfff"'),
    "not UTF-8, as Lambda's decoding leaves it": "\ufffd\ufffd{",
    "a mebibyte": "x" * 1024 * 1024,
    "a mebibyte of fields": json.dumps({f"field {n}": n for n in range(50_000)})[: 1024 * 1024 - 9] + '":1}',
    "deep lists": "[" * 100_000,
    "deep objects": '{"work_id":' * 100_000,
}

ODD_FORMS = {
    "capitals": lambda id_: ours(json.dumps(str(id_).upper())),
    "no hyphens": lambda id_: ours(json.dumps(id_.hex)),
    "braces": lambda id_: ours(f'"{{{id_}}}"'),
    "a URN": lambda id_: ours(json.dumps(id_.urn)),
    "escaped names": lambda id_: ours(json.dumps(str(id_))).replace("work_id", "work\\u005fid"),
    "white space around": lambda id_: f"\n {ours(json.dumps(str(id_)))}\t\r\n",
    "no version": lambda id_: ours(json.dumps(str(id_))).replace('"schema_version": 1, ', ""),
    "a field twice, of which the last counts": lambda id_: ours()[:-1] + f', "work_id": "{id_}"}}',
}
"""Ways to write a message that names the work of an id."""

NEWER = {"the next": "2", "far ahead": str(2**70), "of thousands of digits": "9" * 4300}


def s3_event(*records: Any) -> str:
    """What S3 writes about `records`."""
    return json.dumps({"Records": list(records)})


def created(key: Any, *, name: Any = "ObjectCreated:Put", bucket: Any = "uploads", **thing: Any) -> dict[str, Any]:
    """One record of S3: an object came, or what `name` says."""
    return {
        "eventName": name,
        "s3": {"bucket": {"name": bucket}, "object": {"key": key, "size": 3, "sequencer": "01"} | thing},
    }


UNREADABLE_UPLOADS = {
    "records that are null": '{"Records": null}',
    "records that are an object": '{"Records": {}}',
    "records that are a text": '{"Records": ""}',
    "an event without a name": s3_event({"s3": {}}),
    "an event that is named by a number": s3_event(created("uploads/acme/a.xml", name=5)),
    "a record that is null": s3_event(None),
    "a record that is a number": s3_event(1),
    "a record of nothing": s3_event({}),
    "no bucket": s3_event({"eventName": "ObjectCreated:Put", "s3": {"object": {"key": "x", "sequencer": "1"}}}),
    "a bucket that is a number": s3_event(created("uploads/acme/a.xml", bucket=1)),
    "a bucket with NUL": s3_event(created("uploads/acme/a.xml", bucket="a\x00")),
    "a key that is no UTF-8": s3_event(created("uploads/acme/%ff.xml")),
    "a key of half a surrogate": s3_event(created("uploads/acme/%ED%A0%80.xml")),
    "a key with NUL": s3_event(created("uploads/acme/a%00.xml")),
    "a key that is a list": s3_event(created(["uploads/acme/a.xml"])),
    "a key of a mebibyte": s3_event(created("uploads/acme/" + "".join(f"{n:x}" for n in range(200_000)))),
    "a sequencer that is a number": s3_event(created("uploads/acme/a.xml", sequencer=1)),
    "a version that is a number": s3_event(created("uploads/acme/a.xml", versionId=1)),
    "a negative size": s3_event(created("uploads/acme/a.xml", size=-1)),
    "a size beyond bigints": s3_event(created("uploads/acme/a.xml", size=2**63)),
    "a size that is not a number": s3_event(created("uploads/acme/a.xml", size=float("nan"))),
    "an infinite size": s3_event(created("uploads/acme/a.xml", size=float("inf"))),
    "one good and one bad record": s3_event(created("uploads/acme/a.xml"), None),
    "an event of EventBridge": '{"detail-type": "Object Created", "detail": {"object": {"key": "uploads/acme/a.xml"}}}',
    "an event of SNS": json.dumps({"Type": "Notification", "Message": s3_event(created("uploads/acme/a.xml"))}),
    "deep records": '{"Records":' + "[" * 100_000,
}

NO_UPLOAD = {
    "the test event": '{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "uploads"}',
    "no records": s3_event(),
    "a deletion": s3_event(created("uploads/acme/a.xml", name="ObjectRemoved:Delete")),
    "a delete marker": s3_event(created("uploads/acme/a.xml", name="ObjectRemoved:DeleteMarkerCreated")),
    "an expiry": s3_event(created("uploads/acme/a.xml", name="LifecycleExpiration:Delete")),
    "several deletions": s3_event(*[created(f"uploads/acme/{n}", name="ObjectRemoved:Delete") for n in range(3)]),
}
"""Events of S3 that bring nothing."""

KEYS = {
    "plain": ("uploads/acme/a.xml", "uploads/acme/a.xml"),
    "a plus for a space": ("uploads/acme/a+b.xml", "uploads/acme/a b.xml"),
    "a space in percent signs": ("uploads/acme/a%20b.xml", "uploads/acme/a b.xml"),
    "a plus in percent signs": ("uploads/acme/a%2Bb.xml", "uploads/acme/a+b.xml"),
    "umlauts": ("uploads/acme/Rechnung+M%C3%BCller+%E2%82%AC.xml", "uploads/acme/Rechnung Müller €.xml"),
    "beyond the basic plane": ("uploads/acme/%F0%9F%93%84.pdf", "uploads/acme/📄.pdf"),
    "right to left": ("uploads/acme/%E2%80%AEfdp.xml", "uploads/acme/\u202efdp.xml"),
    "percent signs that say nothing": ("uploads/acme/100%.xml", "uploads/acme/100%.xml"),
    "a percent sign in percent signs": ("uploads/acme/100%2525.xml", "uploads/acme/100%25.xml"),
    "a line break": ("uploads/acme/a%0Ab.xml", "uploads/acme/a\nb.xml"),
    "the way up": ("uploads/acme/../beta/a.xml", "uploads/acme/../beta/a.xml"),
    "a folder below": ("uploads/acme/2026/01/a.xml", "uploads/acme/2026/01/a.xml"),
    "quotes": ("uploads/acme/a%27%3B--%22.xml", "uploads/acme/a';--\".xml"),
    "the longest": ("uploads/acme/" + "x" * 1011, "uploads/acme/" + "x" * 1011),
}
"""Keys as S3 writes them into events, and as they are."""

NO_TENANT = {
    "an unknown tenant": "uploads/nobody/a.xml",
    "no tenant": "uploads/a.xml",
    "an empty tenant": "uploads//a.xml",
    "another prefix": "exports/acme/a.xml",
    "another case": "uploads/ACME/a.xml",
    "a space": "uploads/acme+/a.xml",
    "nothing": "",
    "the way up": "uploads/../acme/a.xml",
}


def body_of(letter: dict[str, Any]) -> str:
    """The body that a dead letter of a message without work preserves."""
    body: str = letter["payload"]["body"]
    return bytes.fromhex(body).decode(errors="surrogatepass") if letter["payload"]["encoding"] == "hex" else body
