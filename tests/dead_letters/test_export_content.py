"""Dead letter exports are complete and contain no duplicates or CSV formulas."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import export, search
from counterfoil.dead_letters.export import COLUMNS, FIELDS
from counterfoil.dead_letters.search import STATUSES, DeadLetterDetails, DeadLetterFilter
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter

NO_FILTER = DeadLetterFilter()
SECRET = "Bearer abcdefgh12345678"
DEAD_LETTER = DeadLetterDetails(
    job_id=UUID(int=1),
    worker="tasks",
    task_type="echo",
    work_id=None,
    revision=2,
    attempts=3,
    fingerprint="0123456789abcdef",
    dlq_reason="max_retries_exceeded",
    dlq_timestamp=NOON,
    status="resolved",
    resolution={"action": "resolved", "notes": "Paid with pin=86420"},
    resolved_at=NOON + timedelta(hours=1),
    resolved_by="ann",
    metadata={
        "created_at": "2026-03-02T11:00:00Z",
        "retry_count": 2,
        "max_retry": 2,
        "last_error": {
            "type": "TimeoutError",
            "message": f"{SECRET} timed out",
            "timestamp": "2026-03-02T12:00:00Z",
            "context": {"worker": "tasks", "attempt": 3},
        },
    },
    version=4,
    file_name=None,
    payload={"password": "hunter2", "text": "größer"},
    previous_failures=[],
)


def read_job_ids(
    database: Database, tenant_id: UUID, selection: DeadLetterFilter = NO_FILTER, **options: Any
) -> list[UUID]:
    begin = partial(database.tenant, tenant_id)
    return [
        dead_letter.job_id
        for batch in export.iter_batches(begin, tenant_id, selection, **options)
        for dead_letter in batch.dead_letters
    ]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE_SIZE", 3)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("text", [None, "timed"])
@pytest.mark.parametrize("number", [0, 1, 3, 7])
def test_every_dead_letter_is_read_once_newest_first(
    number: int, text: str | None, database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter
) -> None:
    job_ids = [make_dead_letter(minute=minute // 2) for minute in range(number)]

    result = read_job_ids(database, tenant_id, DeadLetterFilter(search=text))

    assert sorted(result) == sorted(job_ids)
    with database.tenant(tenant_id) as connection:
        assert result == [
            entry.job_id for entry in search.page(connection, tenant_id, DeadLetterFilter(), limit=100).entries
        ]


@pytest.mark.usefixtures("small_pages")
def test_export_can_resume_after_any_batch(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter
) -> None:
    for minute in range(7):
        make_dead_letter(minute=minute // 3)
    all_dead_letters = read_job_ids(database, tenant_id)

    job_ids_read: list[UUID] = []
    for batch in export.iter_batches(partial(database.tenant, tenant_id), tenant_id, NO_FILTER):
        job_ids_read += [dead_letter.job_id for dead_letter in batch.dead_letters]
        assert job_ids_read + read_job_ids(database, tenant_id, after=batch.after) == all_dead_letters


def test_export_reads_only_matching_dead_letters_of_tenant(
    database: Database,
    maintenance_database: Database,
    tenant_id: UUID,
    make_dead_letter: MakeDeadLetter,
    set_status: Callable[[UUID, str], None],
    make_tenant: Callable[..., UUID],
) -> None:
    too_old, matching, too_late = (make_dead_letter(minute=minute) for minute in (0, 5, 9))
    set_status(matching, "resolved")
    other_tenants = make_dead_letter(minute=5, tenant=make_tenant("other"))
    start, end = NOON + timedelta(minutes=1), NOON + timedelta(minutes=9)

    assert read_job_ids(database, tenant_id, DeadLetterFilter(from_date=start, to_date=end)) == [matching]
    assert read_job_ids(database, tenant_id, DeadLetterFilter(status=("pending",))) == [too_late, too_old]
    assert read_job_ids(database, tenant_id, DeadLetterFilter(search=str(other_tenants))) == []
    # This database role can read all tenants' dead letters, but the export contains only this tenant's dead letters.
    batches = export.iter_batches(maintenance_database.delivery, tenant_id, NO_FILTER)
    assert [dead_letter.job_id for batch in batches for dead_letter in batch.dead_letters] == [
        too_late,
        matching,
        too_old,
    ]


def test_large_dead_letters_are_read_individually(
    database: Database,
    tenant_id: UUID,
    make_dead_letter: MakeDeadLetter,
    admin: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "MAX_BATCH_BYTES", 2_500)
    job_ids = [make_dead_letter(minute=-minute) for minute in range(4)]
    admin.execute(
        "UPDATE dead_letter SET payload = jsonb_build_object('x', repeat('x', 1600)) WHERE job_id <> %s", [job_ids[3]]
    )

    batches = [
        len(batch.dead_letters)
        for batch in export.iter_batches(partial(database.tenant, tenant_id), tenant_id, NO_FILTER)
    ]

    assert batches == [1, 1, 2]
    assert read_job_ids(database, tenant_id) == job_ids


def test_dead_letter_purged_during_reading_is_omitted(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, admin: Connection
) -> None:
    first, second = make_dead_letter(minute=1), make_dead_letter()
    transactions = 0

    def purge_before_transaction() -> AbstractContextManager[Connection]:
        nonlocal transactions
        transactions += 1
        if transactions == 2:  # the cursors have been read, but not the dead letters
            admin.execute("UPDATE dead_letter SET purged_at = now() WHERE job_id = %s", [second])
        return database.tenant(tenant_id)

    assert [
        dead_letter.job_id
        for batch in export.iter_batches(purge_before_transaction, tenant_id, NO_FILTER)
        for dead_letter in batch.dead_letters
    ] == [first]


@pytest.mark.parametrize(
    "selection",
    [
        NO_FILTER,
        DeadLetterFilter(
            status=("pending",),
            task_type="echo",
            fingerprint="0123456789abcdef",
            from_date=NOON,
            to_date=NOON + timedelta(days=1),
            search="timed out",
        ),
    ],
)
def test_stored_filter_is_read_unchanged(selection: DeadLetterFilter) -> None:
    assert DeadLetterFilter(**json.loads(json.dumps(selection.stored_fields))) == selection
    assert len(selection.hash) == 32


def test_different_filters_have_different_hashes() -> None:
    other_filters = [
        DeadLetterFilter(status=("pending",)),
        DeadLetterFilter(task_type="echo"),
        DeadLetterFilter(fingerprint="0123456789abcdef"),
        DeadLetterFilter(from_date=NOON),
        DeadLetterFilter(to_date=NOON),
    ]
    hashes = {NO_FILTER.hash, DeadLetterFilter(search="x").hash, *(filter_.hash for filter_ in other_filters)}
    assert len(hashes) == 7


def test_before_limits_filter_to_earlier_failures() -> None:
    assert NO_FILTER.before(NOON).to_date == NOON
    earlier_filter = DeadLetterFilter(to_date=NOON - timedelta(days=1))
    assert earlier_filter.before(NOON) == earlier_filter


# -- JSON lines ------------------------------------------------------------------------------------------------------


def test_json_line_has_every_field(database: Database, tenant_id: UUID) -> None:
    (line,) = export.encode([DEAD_LETTER], "acme", "json", redacts=False).decode().splitlines()

    record = json.loads(line)

    assert tuple(record) == FIELDS
    assert record["payload"] == DEAD_LETTER.payload
    assert record["metadata"] == DEAD_LETTER.metadata
    assert (record["tenant"], record["job_id"], record["status"]) == ("acme", str(UUID(int=1)), "resolved")
    assert (record["dlq_timestamp"], record["resolved_at"]) == ("2026-03-02T12:00:00Z", "2026-03-02T13:00:00Z")
    assert export.header("json") == b""


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_export_redacts_secrets(format_: export.Format) -> None:
    complete, redacted = (
        export.encode([DEAD_LETTER], "acme", format_, redacts=redacts).decode() for redacts in (False, True)
    )

    assert all(secret in complete for secret in (SECRET, "hunter2", "86420"))
    assert not any(secret in redacted for secret in (SECRET, "hunter2", "86420"))
    assert "/payload/password" in redacted
    assert "/resolution/notes" in redacted
    assert "größer" in redacted


# -- CSV -------------------------------------------------------------------------------------------------------------


def cells(dead_letter: DeadLetterDetails) -> dict[str, str]:
    text = (export.header("csv") + export.encode([dead_letter], "acme", "csv", redacts=False)).decode()
    names, values = csv.reader(io.StringIO(text, newline=""), strict=True)
    return dict(zip(names, values, strict=True))


def test_csv_row_has_every_column_and_unquoted_numbers() -> None:
    result = cells(DEAD_LETTER)

    assert tuple(result) == COLUMNS
    assert result["metadata.last_error.type"] == "TimeoutError"
    assert json.loads(result["metadata.last_error.context"]) == {"worker": "tasks", "attempt": 3}
    assert json.loads(result["payload"]) == DEAD_LETTER.payload
    assert (result["resolution.notes"], result["work_id"], result["previous_failures"]) == (
        "Paid with pin=86420",
        "",
        "[]",
    )
    raw = export.encode([DEAD_LETTER], "acme", "csv", redacts=False).decode()
    assert raw.endswith("\r\n")
    assert ',"acme","0123456789abcdef",3,' in raw


def dead_letter_with(text: str) -> DeadLetterDetails:
    """Return a dead letter whose error, notes and payload contain a text."""
    error = {**DEAD_LETTER.metadata["last_error"], "message": text}
    return replace(
        DEAD_LETTER,
        metadata={**DEAD_LETTER.metadata, "last_error": error},
        resolution={"action": "resolved", "notes": text},
        payload={text or "empty": text},
    )


def test_redacted_export_omits_tracebacks() -> None:
    context = {"worker": "tasks", "traceback": "functions.tasks.work:7 in work"}
    error = {**DEAD_LETTER.metadata["last_error"], "context": context}
    dead_letter = replace(
        DEAD_LETTER, metadata={**DEAD_LETTER.metadata, "last_error": error}, previous_failures=[{"last_error": error}]
    )

    assert b"functions.tasks.work:7" in export.encode([dead_letter], "acme", "csv", redacts=False)
    for form in ("csv", "json"):
        assert b"traceback" not in export.encode([dead_letter], "acme", form, redacts=True)


FORMULAS = (
    *("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "|cmd", "%0A=1", "\x00=1"),
    *("＝1+1", "＋1", "－1+1", "＠SUM(A1)"),  # noqa: RUF001
)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("before", ["", " ", "\u00a0", '"', "a;", "a; ", 'a;"', "a\n", "a|"])
def test_formula_cells_are_escaped(before: str, formula: str) -> None:
    result = cells(dead_letter_with(before + formula))["metadata.last_error.message"]

    assert result != before + formula
    assert result.replace("'", "") == before + formula


@pytest.mark.parametrize("text", ["-12.5", "-3", "2026", "1.5", "a=b", "a-b", "x@example.com", "'quoted'", ""])
def test_cells_without_formula_are_unchanged(text: str) -> None:
    assert cells(dead_letter_with(text))["metadata.last_error.message"] == text


def cell_parts(text: str, separators: Iterable[str]) -> Iterable[str]:
    """Split a cell at `separators` and line breaks.

    The parts are returned without leading whitespace and quotation marks.
    """
    for separator in separators:
        text = text.replace(separator, "\n")
    return [part.lstrip(' "\u00a0\u200b\u3000\ufeff') for part in text.split("\n")]


@given(st.text(st.sampled_from("=+-@\t\r\n;|, \"'aé1＝＋－＠\u00a0\u200b\ufeff\U0001f600"), max_size=12))  # noqa: RUF001
def test_csv_cells_preserve_text_and_contain_no_formula(text: str) -> None:
    result = cells(dead_letter_with(text))

    for name in ("metadata.last_error.message", "resolution.notes"):
        cell = result[name]
        assert cell.replace("'", "") == text.replace("'", "")
        if cell != text or not _is_number(cell):
            assert not any(part.startswith(tuple("=+-@＝＋－＠")) for part in cell_parts(cell, ";|\t\r"))  # noqa: RUF001
        assert not cell.startswith(("\t", "\r"))
    assert json.loads(result["payload"]) == {text or "empty": text}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.slow
@given(
    st.dictionaries(
        st.text(max_size=5), st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=9), st.lists)
    )
)
def test_any_payload_is_exported_in_both_formats(payload: Mapping[str, Any]) -> None:
    dead_letter = replace(DEAD_LETTER, payload=payload)
    (line,) = export.encode([dead_letter], "acme", "json", redacts=False).decode().split("\n")[:-1]

    assert json.loads(line)["payload"] == payload
    assert json.loads(cells(dead_letter)["payload"]) == payload


def test_dead_letter_without_details_is_exported() -> None:
    minimal = replace(DEAD_LETTER, metadata={}, resolution=None, resolved_at=None, resolved_by=None, payload={})
    result = cells(minimal)
    assert (result["metadata.last_error.type"], result["resolution.action"], result["resolved_at"]) == ("", "", "")
    assert set(STATUSES) >= {result["status"]}
    assert datetime.fromisoformat(result["dlq_timestamp"]).astimezone(UTC) == NOON
