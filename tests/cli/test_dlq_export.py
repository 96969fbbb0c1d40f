"""Dead letters are written to a file on the command line, all or nothing, and the trail knows of it."""

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
from functions.admin_api.api import exporting
from tests.cli.test_dlq_changes import run
from tests.dead_letters.letters import Die, dying
from tests.delivery.harness import rows


@pytest.fixture
def die(
    make_tenant: Callable[..., UUID],
    api: None,  # what commands ask
    database: Database,
) -> Die:
    """Lets work of acme die, the first of two tenants of a cloud."""
    acme = make_tenant("acme")
    make_tenant("zenith")
    return dying(database, acme)


def told(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_all_letters_are_written_with_their_secrets(die: Die, tmp_path: Path, admin: Connection) -> None:
    died = [str(die("Bearer abcdefgh12345678 was refused", minute=-minute)) for minute in range(3)]
    file = tmp_path / "letters.jsonl"

    said = run("export", file, "--tenant", "acme", "--by", "kim")

    assert said == f"3 dead letters are in {file}.\n"
    assert [letter["job_id"] for letter in told(file)] == died
    assert "abcdefgh12345678" in file.read_text()
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o777 == 0o600
    (entry,) = rows(admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["detail"]["letters"]) == ("kim", "exported", 3)
    assert entry["detail"]["bytes"] == file.stat().st_size


def test_the_letters_of_all_tenants_are_one_table(
    die: Die, tmp_path: Path, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    die("=cmd()")
    die(tenant=make_tenant("third"))
    file = tmp_path / "letters.csv"

    run("export", file)

    names, *found = csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))
    assert [row[names.index("tenant")] for row in found] == ["acme", "third"]
    assert found[0][names.index("metadata.last_error.message")] == "'=cmd()"
    assert len(rows(admin, "audit_entry")) == 3  # whoever has none was asked, too


def test_only_what_is_meant_is_written(die: Die, tmp_path: Path, admin: Connection) -> None:
    die("One", minute=0)
    two = str(die("Two", minute=5))
    admin.execute("UPDATE dead_letter SET status = 'ignored' WHERE job_id = %s", [two])
    (group,) = (one["fingerprint"] for one in rows(admin, "dead_letter") if one["job_id"] == two)
    for wanted in (
        ("--status", "ignored"),
        ("--text", "two"),
        ("--from", "2026-03-02T12:01"),
        ("--group", group),
        ("--text", two),
    ):
        said = json.loads(run("export", tmp_path / "x", "--format", "json", *wanted, "--json"))
        assert [letter["job_id"] for letter in told(tmp_path / "x")] == [two]
        assert (said["letters"], said["bytes"]) == (1, (tmp_path / "x").stat().st_size)
    assert json.loads(run("export", tmp_path / "x.csv", "--to", "2026-03-02T12:01", "--json"))["letters"] == 1


def test_what_fails_half_way_leaves_the_file_that_was_there(
    die: Die, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    die()
    file = tmp_path / "letters.csv"
    file.write_text("before")

    def away(*_: object, **__: object) -> bytes:
        raise DatabaseUnavailableError("PostgreSQL is not available")

    monkeypatch.setattr(export, "encoded", away)
    with pytest.raises(CommandError, match="503"):
        run("export", file)
    assert file.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


@pytest.mark.usefixtures("die")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("letters",), "--format"),
        (("letters.xlsx",), "--format"),
        (("letters.csv", "--format", "xlsx"), "The format 'xlsx' is unknown"),
        (("letters.csv", "--status", "gone"), "The state 'gone' is unknown"),
        (("no/such/folder/letters.csv",), "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        run("export", tmp_path / words[0], *words[1:])
    assert list(tmp_path.iterdir()) == []


def end(admin: Connection, state: str) -> None:
    """Let all exports come to their end."""
    admin.execute(
        "UPDATE operation SET state = %s, ended_at = now(), selected = 1234, handled = 1234, done = 1234", [state]
    )


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, admin: Connection) -> Callable[[str], None]:
    """`slow(state)`: every export is an operation, which ends in this state during the first wait."""
    monkeypatch.setattr(exporting, "AT_ONCE_BYTES", 0)

    def comes_to(state: str) -> None:
        monkeypatch.setattr("cli.commands.dead_letter_exports.time.sleep", lambda _: end(admin, state))

    return comes_to


TWO = b'"job_id"\r\n"a\r\nb"\r\n"c"\r\n'
"""A file of two letters."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    """What S3, which answers everything with TWO, is asked for."""
    asked: list[httpx.Request] = []

    @contextmanager
    def stream(method: str, url: str, **_: object) -> Iterator[httpx.Response]:
        asked.append(httpx.Request(method, url))
        yield httpx.Response(200, content=TWO, request=asked[-1])

    monkeypatch.setattr(httpx, "stream", stream)
    return asked


def test_what_is_large_is_fetched_from_s3_once_it_is_there(
    die: Die, slow: Callable[[str], None], tmp_path: Path, asked: list[httpx.Request]
) -> None:
    die()
    slow("done")

    said = run("export", tmp_path / "letters.csv", "--tenant", "acme")

    assert said.endswith(f"2 dead letters are in {tmp_path / 'letters.csv'}.\n")
    assert (tmp_path / "letters.csv").read_bytes() == TWO
    assert ("X-Amz-Signature" in str(asked[0].url), asked[0].headers.get("Authorization")) == (True, None)


def test_who_waits_for_a_large_export_asks_again_while_the_database_is_away(
    die: Die, slow: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    die()
    slow("done")
    known, asked = store.show, list[Any]()

    def unavailable_at_first(*words: Any) -> Any:
        asked.append(words)
        if len(asked) == 1:
            raise DatabaseUnavailableError("PostgreSQL is not available")
        return known(*words)

    monkeypatch.setattr(store, "show", unavailable_at_first)

    @contextmanager
    def stream(method: str, url: str, **_: object) -> Iterator[httpx.Response]:
        yield httpx.Response(200, content=b'"job_id"\r\n"a"\r\n', request=httpx.Request(method, url))

    monkeypatch.setattr(httpx, "stream", stream)
    assert "1 dead letter is in" in run("export", tmp_path / "letters.csv", "--tenant", "acme")
    assert len(asked) == 3  # the operation twice, and its file


def test_an_export_that_fails_leaves_no_file_and_tells_no_link(
    die: Die, slow: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    die()
    slow("stopped")
    with pytest.raises(CommandError, match="The export of acme is stopped"):
        run("export", tmp_path / "letters.csv", "--tenant", "acme")

    def refuse(method: str, url: str, **_: object) -> httpx.Response:
        raise httpx.ConnectError(f"{method} {url}")

    slow("done")
    monkeypatch.setattr(httpx, "stream", refuse)
    with pytest.raises(CommandError, match="cannot be fetched from S3") as told:
        run("export", tmp_path / "letters.csv", "--tenant", "acme")
    assert "Signature" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


# -- earlier exports -------------------------------------------------------------------------------------------------


@pytest.fixture
def left(die: Die, slow: Callable[[str], None], tmp_path: Path, admin: Connection) -> str:
    """Id of an export that was cancelled during the wait, and is done by now."""
    die()
    slow("cancelled")
    with pytest.raises(CommandError, match="cancelled"):
        run("export", tmp_path / "letters.csv", "--tenant", "acme", "--by", "kim")
    end(admin, "done")
    [(id_,)] = admin.execute("SELECT id::text FROM operation").fetchall()
    return str(id_)


def test_exports_are_listed_with_operations(left: str) -> None:
    [listed] = json.loads(run("list", "--json", of=operations_app))
    assert (listed["operation_id"], listed["file"]["format"]) == (left, "csv")
    assert f"Operation {left[-8:]} is done: 1,234 dead letters written." in run("show", left[-8:], of=operations_app)
    assert "csv, 0 bytes, until 20" in run("show", left, of=operations_app)


def test_earlier_export_is_fetched_by_the_end_of_its_id(
    left: str, tmp_path: Path, asked: list[httpx.Request], admin: Connection
) -> None:
    file = tmp_path / "fetched"

    said = json.loads(run("fetch", left[-8:], file, "--by", "kim", "--json"))

    assert said == {"file": str(file), "format": "csv", "letters": 1234, "bytes": len(TWO)}
    assert file.read_bytes() == TWO
    assert file.stat().st_mode & 0o777 == 0o600
    (entry,) = rows(admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["targets"]) == ("kim", "exported", [left])
    assert "1,234 dead letters are in" in run("fetch", left, file)


def test_fetch_waits_for_an_export_in_progress(
    left: str,
    slow: Callable[[str], None],
    tmp_path: Path,
    asked: list[httpx.Request],
    admin: Connection,
) -> None:
    admin.execute("UPDATE operation SET state = 'running', ended_at = NULL")
    slow("done")
    said = run("fetch", left, tmp_path / "fetched")
    assert f"dlq fetch {left[-8:]} FILE" in said
    assert (tmp_path / "fetched").read_bytes() == TWO


def test_fetch_refuses_other_operations(die: Die, tmp_path: Path, admin: Connection) -> None:
    die()
    operation = json.loads(
        run("bulk-ignore", "--tenant", "acme", "--reason", "A trial", "--yes", "--no-wait", "--json")
    )
    with pytest.raises(UsageError, match="is not an export"):
        run("fetch", operation["operation_id"], tmp_path / "fetched")
    assert list(tmp_path.iterdir()) == []
