"""One large export in a process of its own: `python -m tests.dead_letters.export_once URL WORKER_URL TENANT FORMAT`.

Prints, as JSON, the process's peak in MiB, and how many bytes and parts it wrote. S3 takes them and keeps none.
"""

import argparse
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from counterfoil import aws
from counterfoil.db import Database
from counterfoil.dead_letters import exports
from counterfoil.dead_letters.entries import Wanted
from counterfoil.dead_letters.export import Selection
from counterfoil.dead_letters.export_steps import Bench
from counterfoil.dead_letters.exports import Wish
from tests.memory import peak_megabytes


class _S3:
    """S3, as far as it is used."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    def create_multipart_upload(self, **_: Any) -> dict[str, str]:
        return {"UploadId": "1"}

    def upload_part(self, *, Body: bytes, **_: Any) -> dict[str, str]:  # noqa: N803  # as S3 has it
        self.parts.append(len(Body))
        return {"ETag": "etag"}

    def complete_multipart_upload(self, **_: Any) -> dict[str, str]:
        return {}


def main() -> None:
    """Write one export to its end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("worker_url")
    parser.add_argument("tenant", type=UUID)
    parser.add_argument("format")
    given = parser.parse_args()
    s3 = _S3()
    aws.client = lambda _: s3  # type: ignore[assignment]
    now = datetime.now(UTC)
    asking = Database(given.worker_url)
    with asking.tenant(given.tenant) as connection:
        wish = Wish(given.tenant, Selection(Wanted()), given.format, hides=False, by="ann", now=now)
        exports.request(connection, wish)
    asking.close()
    database = Database(given.url)
    bench = Bench(database, "uploads", lambda: now, lambda: 60.0)
    while bench.step():
        pass
    database.close()
    print(json.dumps({"peak": peak_megabytes(), "bytes": sum(s3.parts), "parts": len(s3.parts)}))  # noqa: T201


if __name__ == "__main__":
    main()
