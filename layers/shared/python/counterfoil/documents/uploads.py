"""Uploads and mail: what an S3 event says about a new file, and the acquisition jobs that it becomes.

An upload names its tenant by its key. A mail names nobody by its key: its job belongs to no tenant, finds out whom the
mail is for, and makes one more job for each tenant of them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote_plus
from uuid import UUID, uuid5

from pydantic_core import from_json

from counterfoil.db import Connection
from counterfoil.delivery.work import JOB_NAMESPACE, Intake, Message, Send, owe, read_message
from counterfoil.documents.kinds import ACQUISITION
from counterfoil.errors import InvalidMessageError

PREFIX = "uploads/"
"""Keys are uploads/{tenant}/...; the last part is the file's name."""
INBOX = "inbox/"
"""Where mail is stored as it came, under any key."""
UNVERSIONED = "null"
"""Version id of every object that was stored while its bucket had no versioning."""
DECEPTIVE = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Control characters for a character class, including those that change the direction of writing (UAX #9)."""
_DECEPTIVE = re.compile(f"[{DECEPTIVE}]")


def file_name(key: str) -> str:
    """Name of an object's file for people: the end of its key, with U+FFFD for control characters.

    Without this, `invoice_\u202efdp.exe` looks like a PDF.
    """
    return _DECEPTIVE.sub("\N{REPLACEMENT CHARACTER}", key.rsplit("/", 1)[-1])


@dataclass(frozen=True)
class Upload:
    """One object in S3, from an event or a listing."""

    bucket: str
    key: str
    sequencer: str | None
    """None if the object was found in the bucket and no event of it was read."""
    size: int
    version: str | None = None

    @property
    def job_id(self) -> UUID:
        """UUIDv5 of bucket, key and version, so that an event and a listing of the object name the same job.

        An object without a version has the event's sequencer instead.
        """
        unique = self.sequencer if self.version in {None, UNVERSIONED} else self.version
        return uuid5(JOB_NAMESPACE, f"acquisition/{self.bucket}/{self.key}/{unique}")

    @property
    def tenant(self) -> str:
        """The tenant that the key names; empty when it names none."""
        rest = self.key.removeprefix(PREFIX)
        return rest.split("/", 1)[0] if rest != self.key and "/" in rest else ""


def read(body: str) -> Intake:
    """Read a message of the queue that S3 and the outbox feed: an S3 notification, or a message of our own.

    Raises:
        InvalidMessageError, NewerSchemaError: as `read_message`.
    """
    try:
        event = from_json(body)
    except (ValueError, TypeError):
        event = None
    if not isinstance(event, dict) or not ("Records" in event or event.get("Event") == "s3:TestEvent"):
        ours = read_message(body)
        works = [message.work_id for message in ours.messages]
        return Intake(ours.messages, lambda connection, _now: find_tenants(connection, works))
    try:
        records = event.get("Records", [])
        if not isinstance(records, list):
            raise TypeError("Records is a list")
        uploads = [_upload(record) for record in records if _created(record)]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InvalidMessageError("The S3 event has no readable bucket, key, sequencer or size") from None
    messages = [Message(work_id=upload.job_id, revision=1, send_number=0) for upload in uploads]
    return Intake(messages, lambda connection, now: register(connection, uploads, now))


def _created(record: dict[str, Any]) -> bool:
    name = record["eventName"]
    if not isinstance(name, str):
        raise TypeError("The name of an event is a text")
    return name.startswith("ObjectCreated:")


def _upload(record: dict[str, Any]) -> Upload:
    entity = record["s3"]
    thing = entity["object"]
    # S3 writes keys as HTML forms do: a plus for a space, UTF-8 in percent signs.
    key = unquote_plus(thing["key"], errors="strict")
    version = thing.get("versionId")
    size = int(thing.get("size", 0))
    texts = [entity["bucket"]["name"], key, thing["sequencer"], *([] if version is None else [version])]
    if not all(isinstance(text, str) and "\x00" not in text for text in texts) or not 0 <= size < 2**63:
        raise ValueError("Not what S3 writes")
    return Upload(entity["bucket"]["name"], key, thing["sequencer"], size, version)


_REGISTER = """
WITH late AS MATERIALIZED (
    SELECT erase_late_uploads(%(buckets)s, %(keys)s, %(tenants)s, %(now)s) AS key
)
INSERT INTO acquisition_job (id, tenant_id, bucket, key, version, sequencer, size, created_at)
SELECT v.id, t.id, v.bucket, v.key, v.version, v.sequencer, v.size, %(now)s
FROM unnest(%(ids)s::uuid[], %(buckets)s::text[], %(keys)s::text[], %(versions)s::text[], %(sequencers)s::text[],
            %(sizes)s::bigint[], %(tenants)s::text[]) AS v (id, bucket, key, version, sequencer, size, tenant)
LEFT JOIN tenant t ON t.slug = v.tenant AND t.disabled_at IS NULL
WHERE v.key NOT IN (SELECT key FROM late)
ORDER BY v.id
ON CONFLICT DO NOTHING
"""

_ADD_SEQUENCERS = """
UPDATE acquisition_job SET sequencer = v.sequencer
FROM unnest(%(ids)s::uuid[], %(sequencers)s::text[]) AS v (id, sequencer)
WHERE acquisition_job.id = v.id AND v.sequencer IS NOT NULL AND acquisition_job.id IN (
    SELECT id FROM acquisition_job WHERE id = ANY(%(ids)s) AND sequencer IS NULL ORDER BY id FOR UPDATE
)
"""


_FIND_TENANTS = """
WITH late AS (
    UPDATE acquisition_job j SET tenant_id = t.id FROM tenant t
    WHERE j.id = ANY(%(ids)s) AND j.tenant_id IS NULL AND t.slug = split_part(j.key, '/', 2) AND j.key LIKE %(pattern)s
      AND t.disabled_at IS NULL
    RETURNING j.id, j.tenant_id
)
UPDATE dead_letter d SET tenant_id = late.tenant_id, version = version + 1
FROM late JOIN unnest(%(ids)s, %(letters)s::uuid[]) AS l (id, letter) ON l.id = late.id
WHERE d.job_id = l.letter AND d.tenant_id IS NULL
"""


def find_tenants(connection: Connection, job_ids: Sequence[UUID]) -> None:
    """Give jobs that were registered before their tenant existed the tenant that their key names by now.

    So does the dead letter of such a job: the tenant's next failure could not open it again otherwise.
    """
    letters = [ACQUISITION.job_id(id_) for id_ in job_ids]
    connection.execute(_FIND_TENANTS, {"ids": list(job_ids), "letters": letters, "pattern": f"{PREFIX}%/%"})


def register(connection: Connection, uploads: Sequence[Upload], now: datetime) -> None:
    """Insert the jobs of `uploads`, as the delivery role.

    An existing job gets its tenant if that was created later, and the sequencer of an event that arrives after a
    listing. Nothing else of it changes. An upload for an erased tenant does not become a job: its object is erased.
    """
    values = {
        "ids": [upload.job_id for upload in uploads],
        "buckets": [upload.bucket for upload in uploads],
        "keys": [upload.key for upload in uploads],
        "versions": [upload.version for upload in uploads],
        "sequencers": [upload.sequencer for upload in uploads],
        "sizes": [upload.size for upload in uploads],
        "tenants": [upload.tenant for upload in uploads],
        "now": now,
    }
    inserted = connection.execute(_REGISTER, values).rowcount
    if inserted < len(uploads):
        connection.execute(_ADD_SEQUENCERS, values)
    find_tenants(connection, [upload.job_id for upload in uploads])


_JOBS_OF_TENANTS = """
INSERT INTO acquisition_job (id, tenant_id, bucket, key, version, sequencer, size, created_at)
SELECT v.id, v.tenant_id, a.bucket, a.key, a.version, a.sequencer, a.size, a.created_at
FROM unnest(%(ids)s::uuid[], %(tenants)s::uuid[]) AS v (id, tenant_id) JOIN acquisition_job a ON a.id = %(mail)s
ORDER BY v.id
ON CONFLICT DO NOTHING
RETURNING id, tenant_id, revision, send_number
"""


def job_of_tenant(mail_job: UUID, tenant_id: UUID) -> UUID:
    """The id of the job by which a tenant gets a mail: UUIDv5 of the mail's own job and the tenant."""
    return uuid5(JOB_NAMESPACE, f"acquisition/{mail_job}/{tenant_id}")


def tenants_of(connection: Connection, addresses: Sequence[str]) -> list[UUID]:
    """Return enabled tenants with one of these addresses (lower case), as the delivery role."""
    rows = connection.execute(
        "SELECT DISTINCT t.id FROM tenant_address a JOIN tenant t ON t.id = a.tenant_id "
        "WHERE a.address = ANY(%s) AND t.disabled_at IS NULL ORDER BY t.id",
        [list(addresses)],
    ).fetchall()
    return [tenant_id for (tenant_id,) in rows]


def pass_on(connection: Connection, mail_job: UUID, tenants: Sequence[UUID], now: datetime) -> list[Send]:
    """Make the job of each tenant of a mail and owe its message, as the delivery role; one that exists stays."""
    ids = [job_of_tenant(mail_job, tenant_id) for tenant_id in tenants]
    rows = connection.execute(_JOBS_OF_TENANTS, {"ids": ids, "tenants": list(tenants), "mail": mail_job}).fetchall()
    return owe(connection, ACQUISITION, rows, now, now)
