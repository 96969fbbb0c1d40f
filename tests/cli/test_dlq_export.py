"""Dead letters are exported to a file, completely or not at all.

The export is audited.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from cli.commands.operations import app as operations_app
from cli.failures import CommandError, UsageError
from counterfoil.db import Connection, Database
from counterfoil.dead_letters import export
from counterfoil.errors import DatabaseUnavailableError
from counterfoil.operations import store
from functions.admin_api.api import exports
from tests.cli.test_dlq_changes import run
from tests.dead_letters.dead_letter_factory import MakeDeadLetter, dead_letter_factory
from tests.delivery.harness import rows


@pytest.fixture
def make_dead_letter(
    make_tenant: Callable[..., UUID],
    api: None,
    database: Database,
) -> MakeDeadLetter:
    """`make_dead_letter(...)` creates a dead letter for the tenant acme.

    A second tenant exists.
    """
    acme = make_tenant("acme")
    make_tenant("zenith")
    return dead_letter_factory(database, acme)


def read_export(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_export_contains_secrets_and_is_audited(
    make_dead_letter: MakeDeadLetter, tmp_path: Path, admin: Connection
) -> None:
    job_ids = [str(make_dead_letter("Bearer abcdefgh12345678 was refused", minute=-minute)) for minute in range(3)]
    file = tmp_path / "dead-letters.jsonl"

    output = run("export", file, "--tenant", "acme", "--by", "kim")

    assert output == f"Wrote 3 dead letters to {file}.\n"
    assert [record["job_id"] for record in read_export(file)] == job_ids
    assert "abcdefgh12345678" in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o777 == 0o600
    (entry,) = rows(admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["detail"]["dead_letters"]) == ("kim", "exported", 3)
    assert entry["detail"]["bytes"] == file.stat().st_size


def test_csv_export_spans_all_tenants(
    make_dead_letter: MakeDeadLetter, tmp_path: Path, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    make_dead_letter("=cmd()")
    make_dead_letter(tenant=make_tenant("third"))
    file = tmp_path / "dead-letters.csv"

    run("export", file)

    names, *records = csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))
    assert [row[names.index("tenant")] for row in records] == ["acme", "third"]
    assert records[0][names.index("metadata.last_error.message")] == "'=cmd()"
    assert len(rows(admin, "audit_entry")) == 3  # zenith has no dead letters, but its export is audited


def test_export_applies_filters(make_dead_letter: MakeDeadLetter, tmp_path: Path, admin: Connection) -> None:
    make_dead_letter("One", minute=0)
    two = str(make_dead_letter("Two", minute=5))
    admin.execute("UPDATE dead_letter SET status = 'ignored' WHERE job_id = %s", [two])
    (group,) = (row["fingerprint"] for row in rows(admin, "dead_letter") if row["job_id"] == two)
    for filters in (
        ("--status", "ignored"),
        ("--search", "two"),
        ("--since", "2026-03-02T12:01"),
        ("--group", group),
        ("--search", two),
    ):
        output = json.loads(run("export", tmp_path / "x", "--format", "json", *filters, "--json"))
        assert [record["job_id"] for record in read_export(tmp_path / "x")] == [two]
        assert (output["dead_letters"], output["bytes"]) == (1, (tmp_path / "x").stat().st_size)
    assert json.loads(run("export", tmp_path / "x.csv", "--until", "2026-03-02T12:01", "--json"))["dead_letters"] == 1


def test_failed_export_keeps_the_existing_file(
    make_dead_letter: MakeDeadLetter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_dead_letter()
    file = tmp_path / "dead-letters.csv"
    file.write_text("before")

    def unavailable(*_: object, **__: object) -> bytes:
        raise DatabaseUnavailableError("PostgreSQL is not available")

    monkeypatch.setattr(export, "encode", unavailable)
    with pytest.raises(CommandError, match="503"):
        run("export", file)
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.usefixtures("make_dead_letter")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("letters",), "--format"),
        (("letters.xlsx",), "--format"),
        (("dead-letters.csv", "--format", "xlsx"), "The format 'xlsx' is unknown"),
        (("dead-letters.csv", "--status", "gone"), "The state 'gone' is unknown"),
        (("no/such/folder/dead-letters.csv",), "cannot be written"),
    ],
)
def test_invalid_export_is_refused(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        run("export", tmp_path / words[0], *words[1:])
    assert list(tmp_path.iterdir()) == []


def end(admin: Connection, state: str) -> None:
    """End all operations in `state`."""
    admin.execute(
        "UPDATE operation SET state = %s, ended_at = now(), selected = 1234, processed = 1234, succeeded = 1234",
        [state],
    )


@pytest.fixture
def export_as_operation(monkeypatch: pytest.MonkeyPatch, admin: Connection) -> Callable[[str], None]:
    """`export_as_operation(state)` makes exports operations that end in `state`."""
    monkeypatch.setattr(exports, "MAX_RESPONSE_BYTES", 0)

    def configure(state: str) -> None:
        monkeypatch.setattr("cli.commands.dead_letter_exports.time.sleep", lambda _: end(admin, state))

    return configure


TWO = b'"job_id"\r\n"a\r\nb"\r\n"c"\r\n'
"""CSV file with two dead letters."""


@pytest.fixture
def s3_requests(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    """Requests to a fake S3, which returns TWO for each request."""
    s3_requests: list[httpx.Request] = []

    @contextmanager
    def stream(method: str, url: str, **_: object) -> Iterator[httpx.Response]:
        s3_requests.append(httpx.Request(method, url))
        yield httpx.Response(200, content=TWO, request=s3_requests[-1])

    monkeypatch.setattr(httpx, "stream", stream)
    return s3_requests


def test_large_export_is_fetched_from_s3(
    make_dead_letter: MakeDeadLetter,
    export_as_operation: Callable[[str], None],
    tmp_path: Path,
    s3_requests: list[httpx.Request],
) -> None:
    make_dead_letter()
    export_as_operation("done")

    output = run("export", tmp_path / "dead-letters.csv", "--tenant", "acme")

    assert output.endswith(f"Wrote 2 dead letters to {tmp_path / 'dead-letters.csv'}.\n")
    assert (tmp_path / "dead-letters.csv").read_bytes() == TWO
    assert ("X-Amz-Signature" in str(s3_requests[0].url), s3_requests[0].headers.get("Authorization")) == (True, None)


def test_export_wait_survives_a_database_outage(
    make_dead_letter: MakeDeadLetter,
    export_as_operation: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_dead_letter()
    export_as_operation("done")
    show, calls = store.show, list[Any]()

    def unavailable_at_first(*words: Any) -> Any:
        calls.append(words)
        if len(calls) == 1:
            raise DatabaseUnavailableError("PostgreSQL is not available")
        return show(*words)

    monkeypatch.setattr(store, "show", unavailable_at_first)

    @contextmanager
    def stream(method: str, url: str, **_: object) -> Iterator[httpx.Response]:
        yield httpx.Response(200, content=b'"job_id"\r\n"a"\r\n', request=httpx.Request(method, url))

    monkeypatch.setattr(httpx, "stream", stream)
    assert "Wrote 1 dead letter to" in run("export", tmp_path / "dead-letters.csv", "--tenant", "acme")
    assert len(calls) == 3  # reads the operation twice, then its file


def test_failed_export_leaves_no_file_and_hides_link(
    make_dead_letter: MakeDeadLetter,
    export_as_operation: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_dead_letter()
    export_as_operation("halted")
    with pytest.raises(CommandError, match="The export of acme is halted"):
        run("export", tmp_path / "dead-letters.csv", "--tenant", "acme")

    def refuse(method: str, url: str, **_: object) -> httpx.Response:
        raise httpx.ConnectError(f"{method} {url}")

    export_as_operation("done")
    monkeypatch.setattr(httpx, "stream", refuse)
    with pytest.raises(CommandError, match="cannot be downloaded from S3") as raised:
        run("export", tmp_path / "dead-letters.csv", "--tenant", "acme")
    assert "Signature" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


# -- earlier exports -------------------------------------------------------------------------------------------------


@pytest.fixture
def earlier_export(
    make_dead_letter: MakeDeadLetter, export_as_operation: Callable[[str], None], tmp_path: Path, admin: Connection
) -> str:
    """Id of a completed export whose file was not fetched."""
    make_dead_letter()
    export_as_operation("canceled")
    with pytest.raises(CommandError, match="canceled"):
        run("export", tmp_path / "dead-letters.csv", "--tenant", "acme", "--by", "kim")
    end(admin, "done")
    [(id_,)] = admin.execute("SELECT id::text FROM operation").fetchall()
    return str(id_)


def test_exports_are_listed_with_operations(earlier_export: str) -> None:
    [listed] = json.loads(run("list", "--json", application=operations_app))
    assert (listed["operation_id"], listed["file"]["format"]) == (earlier_export, "csv")
    assert f"Operation {earlier_export[-8:]} is done: 1,234 dead letters written." in run(
        "show", earlier_export[-8:], application=operations_app
    )
    assert "csv, 0 bytes, until 20" in run("show", earlier_export, application=operations_app)


def test_earlier_export_is_fetched_by_id_suffix(
    earlier_export: str, tmp_path: Path, s3_requests: list[httpx.Request], admin: Connection
) -> None:
    file = tmp_path / "fetched"

    output = json.loads(run("fetch", earlier_export[-8:], file, "--by", "kim", "--json"))

    assert output == {"file": str(file), "format": "csv", "dead_letters": 1234, "bytes": len(TWO)}
    assert file.read_bytes() == TWO
    assert file.stat().st_mode & 0o777 == 0o600
    (entry,) = rows(admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["targets"]) == ("kim", "exported", [earlier_export])
    assert "Wrote 1,234 dead letters to" in run("fetch", earlier_export, file)


def test_fetch_waits_for_an_export_in_progress(
    earlier_export: str,
    export_as_operation: Callable[[str], None],
    tmp_path: Path,
    s3_requests: list[httpx.Request],
    admin: Connection,
) -> None:
    admin.execute("UPDATE operation SET state = 'running', ended_at = NULL")
    export_as_operation("done")
    output = run("fetch", earlier_export, tmp_path / "fetched")
    assert f"dlq fetch {earlier_export[-8:]} FILE" in output
    assert (tmp_path / "fetched").read_bytes() == TWO


def test_fetch_refuses_operations_other_than_exports(
    make_dead_letter: MakeDeadLetter, tmp_path: Path, admin: Connection
) -> None:
    make_dead_letter()
    operation = json.loads(
        run("bulk-ignore", "--tenant", "acme", "--reason", "A trial", "--yes", "--no-wait", "--json")
    )
    with pytest.raises(UsageError, match="is not an export"):
        run("fetch", operation["operation_id"], tmp_path / "fetched")
    assert list(tmp_path.iterdir()) == []
