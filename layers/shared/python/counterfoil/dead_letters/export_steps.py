"""Exports are written to S3 in steps, and removed a week later.

A step writes one part of an S3 multipart upload; what S3 answered and where the part ended is in the export's row then:
whatever dies in between, the part is written again under the same number. Two never write at the same time, for the row
is leased to who does. If the parts that S3 has are not those of the row all the same, S3 refuses to put them together,
and the export is begun anew. One that is not ready after a day has failed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from counterfoil import aws
from counterfoil.db import Database, keeper
from counterfoil.dead_letters import export
from counterfoil.dead_letters.export import MEDIA_TYPES
from counterfoil.dead_letters.exports import COLUMNS, Export
from counterfoil.dead_letters.search import DeadLetterCursor, DeadLetterFilter
from counterfoil.errors import ConflictError, RejectedRequestError, ServiceUnavailableError
from counterfoil.http import within

PART_BYTES = 5 * 1024 * 1024
"""The least that S3 takes for a part which is not the last one. It takes 10,000 parts: some 50 GB."""
LONGEST_WRITING = timedelta(days=1)
LEASE = timedelta(seconds=60)
"""Longer than the function lives that takes the steps."""
LEAST_SECONDS = 6.0
"""For a part to be sent once it is read: with less, it is left to the next round."""
CALL_SECONDS = 15.0
"""Longest call to S3."""
REMOVED_AT_ONCE = 100

_LEASE = f"""
UPDATE dead_letter_export SET leased_until = %(until)s
WHERE id = (SELECT id FROM dead_letter_export
            WHERE state = 'writing' AND (leased_until IS NULL OR leased_until <= %(now)s)
            ORDER BY leased_until NULLS FIRST LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING {COLUMNS}
"""  # noqa: S608  # the columns of the dataclass
_MINE = "WHERE id = %(id)s AND state = 'writing' AND leased_until = %(lease)s"
_BEGUN = f"UPDATE dead_letter_export SET upload_id = %(upload)s {_MINE}"  # noqa: S608  # the condition above
_WRITTEN = f"""
UPDATE dead_letter_export
SET parts = %(parts)s, letters = letters + %(letters)s, bytes = bytes + %(bytes)s, after_at = %(at)s,
    after_id = %(after)s, is_read = %(is_read)s
{_MINE}
"""  # noqa: S608
_ANEW = f"""
UPDATE dead_letter_export
SET upload_id = NULL, parts = '{{}}', letters = 0, bytes = 0, after_at = NULL, after_id = NULL, is_read = false
{_MINE}
"""  # noqa: S608
_ENDED = f"UPDATE dead_letter_export SET state = %(state)s {_MINE}"  # noqa: S608
_RELEASED = f"UPDATE dead_letter_export SET leased_until = %(now)s {_MINE}"  # noqa: S608
_SLUG = "SELECT slug FROM tenant WHERE id = %s"


class _Part(NamedTuple):
    content: bytes
    letters: int
    after: DeadLetterCursor | None
    is_last: bool


@dataclass(frozen=True)
class Bench:
    """Where exports are written; signed in as counterfoil_keeper."""

    database: Database
    bucket: str
    clock: Callable[[], datetime]
    time_left: Callable[[], float]
    """Seconds that there are still for steps."""

    def step(self) -> bool:
        """Write a part of the export that has waited longest. False where none waits, or no time was left for it.

        Raises:
            ServiceUnavailableError, ConflictError, DatabaseUnavailableError: the step is taken again when the lease is
                over.
            RejectedRequestError: S3 refuses something. The export is begun anew, when the lease is over.
        """
        now = self.clock()
        with self.database.delivery() as connection:
            row = connection.execute(_LEASE.encode(), {"now": now, "until": now + LEASE}).fetchone()
        if row is None:
            return False
        mine = Export(*row)
        if now - mine.requested_at > LONGEST_WRITING:
            self._set(mine, _ENDED, state="failed")
            self._abort(mine)
            return True
        try:
            written = self._go_on(mine, mine.upload_id or self._begin(mine))
        except RejectedRequestError:
            self._set(mine, _ANEW)
            raise
        return written

    def _begin(self, mine: Export) -> str:
        begun = self._call("create_multipart_upload", mine, ContentType=MEDIA_TYPES[mine.format])
        upload_id: str = begun["UploadId"]
        self._set(mine, _BEGUN, upload=upload_id)
        return upload_id

    def _go_on(self, mine: Export, upload_id: str) -> bool:
        """Write the next part, and put all together behind the last one. False: there was no time for it."""
        if mine.is_read:  # whoever wrote the last part died before he put it to the others
            self._complete(mine, upload_id, mine.parts)
            return True
        part = self._read(mine)
        if part is None:
            self._set(mine, _RELEASED, now=self.clock())
            return False
        etags = list(mine.parts)
        if part.content or not etags:
            number = len(etags) + 1
            sent = self._call("upload_part", mine, UploadId=upload_id, PartNumber=number, Body=part.content)
            etags.append(sent["ETag"])
        at, after = part.after or (None, None)
        told = {"letters": part.letters, "bytes": len(part.content), "at": at, "after": after, "is_read": part.is_last}
        self._set(mine, _WRITTEN, parts=etags, **told)
        if part.is_last:
            self._complete(mine, upload_id, etags)
        else:
            self._set(mine, _RELEASED, now=self.clock())
        return True

    def _read(self, mine: Export) -> _Part | None:
        """What the next part is; None where it cannot be read and sent in time."""
        with self.database.delivery() as connection:
            ((slug,),) = connection.execute(_SLUG, [mine.tenant_id]).fetchall()
        content = bytearray() if mine.parts else bytearray(export.head(mine.format))
        letters, after = 0, mine.after
        selection = DeadLetterFilter(**mine.selection)
        for batch in export.batches(self.database.delivery, mine.tenant_id, selection, after):
            if self.time_left() < LEAST_SECONDS:
                return None
            content += export.encoded(batch.letters, slug, mine.format, hides=mine.hides)
            letters, after = letters + len(batch.letters), batch.after
            if len(content) >= PART_BYTES:
                return _Part(bytes(content), letters, after, is_last=False)
        return _Part(bytes(content), letters, after, is_last=True)

    def _complete(self, mine: Export, upload_id: str, etags: Sequence[str]) -> None:
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, start=1)]
        self._call("complete_multipart_upload", mine, UploadId=upload_id, MultipartUpload={"Parts": parts})
        self._set(mine, _ENDED, state="ready")

    def _abort(self, of: Export) -> None:
        """Give up an upload that is not ready. One that is gone is no trouble, and S3's own rule ends any other."""
        if of.upload_id is not None and of.state != "ready":
            try:
                self._call("abort_multipart_upload", of, UploadId=of.upload_id)
            except RejectedRequestError:
                return

    def _call(self, operation: str, of: Export, **asked: Any) -> dict[str, Any]:
        call = getattr(aws.client("s3"), operation)
        with aws.errors_mapped():
            answer: dict[str, Any] = within(
                min(CALL_SECONDS, self.time_left()), partial(call, Bucket=self.bucket, Key=of.key, **asked)
            )
        return answer

    def _set(self, mine: Export, statement: str, **values: Any) -> None:
        with self.database.delivery() as connection:
            told = {"id": mine.id, "lease": mine.leased_until, **values}
            if connection.execute(statement.encode(), told).rowcount != 1:
                raise ConflictError("An export is written by somebody else, or is gone")

    def remove(self) -> int:
        """Remove exports that are past keeping, with their files. Returns how many.

        Raises:
            ServiceUnavailableError, RejectedRequestError: S3 did not delete all. The others are tried again.
            DatabaseUnavailableError: what was removed is removed again later.
        """
        with keeper(self.database) as connection:
            found = [Export(*row) for row in connection.execute(_PAST_KEEPING.encode(), [REMOVED_AT_ONCE])]
        if not found:
            return 0
        for one in found:
            self._abort(one)
        wanted = {"Objects": [{"Key": one.key} for one in found], "Quiet": True}
        with aws.errors_mapped():
            delete = partial(aws.client("s3").delete_objects, Bucket=self.bucket, Delete=wanted)
            answer = within(min(CALL_SECONDS, self.time_left()), delete)
        refused = {failure["Key"]: failure.get("Code", "unknown") for failure in answer.get("Errors", ())}
        gone = [one.id for one in found if one.key not in refused]
        with keeper(self.database) as connection:
            connection.execute("DELETE FROM dead_letter_export WHERE id = ANY(%s)", [gone])
        if refused:
            codes = ", ".join(sorted(set(refused.values())))
            raise ServiceUnavailableError(f"S3 did not delete {len(refused)} of {len(found)} exports: {codes}")
        return len(gone)


_PAST_KEEPING = f"SELECT {COLUMNS} FROM dead_letter_export WHERE expires_at < now() ORDER BY expires_at LIMIT %s"  # noqa: S608
