"""Dead letters as a file: all that are meant, once, as they are; and no cell of a CSV begins a formula."""

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
from counterfoil.dead_letters.search import STATUSES, DeadLetterFilter, Details
from tests.dead_letters.conftest import NOON, Die

ALL = DeadLetterFilter()
SECRET = "Bearer abcdefgh12345678"
LETTER = Details(
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
    lineage=[],
)


def read(database: Database, tenant_id: UUID, selection: DeadLetterFilter = ALL, **how: Any) -> list[UUID]:
    begin = partial(database.tenant, tenant_id)
    return [letter.job_id for batch in export.batches(begin, tenant_id, selection, **how) for letter in batch.letters]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE", 3)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("text", [None, "timed"])
@pytest.mark.parametrize("number", [0, 1, 3, 7])
def test_every_letter_is_read_once_the_newest_first(
    number: int, text: str | None, database: Database, tenant_id: UUID, die: Die
) -> None:
    died = [die(minute=minute // 2) for minute in range(number)]

    found = read(database, tenant_id, DeadLetterFilter(text=text))

    assert sorted(found) == sorted(died)
    with database.tenant(tenant_id) as connection:
        assert found == [
            entry.job_id for entry in search.page(connection, tenant_id, DeadLetterFilter(), limit=100).entries
        ]


@pytest.mark.usefixtures("small_pages")
def test_reading_goes_on_behind_any_batch(database: Database, tenant_id: UUID, die: Die) -> None:
    for minute in range(7):
        die(minute=minute // 3)
    whole = read(database, tenant_id)

    before: list[UUID] = []
    for batch in export.batches(partial(database.tenant, tenant_id), tenant_id, ALL):
        before += [letter.job_id for letter in batch.letters]
        assert before + read(database, tenant_id, after=batch.after) == whole


def test_only_what_is_meant_is_read_and_nothing_of_another_tenant(
    database: Database,
    keeper_database: Database,
    tenant_id: UUID,
    die: Die,
    settle: Callable[[UUID, str], None],
    make_tenant: Callable[..., UUID],
) -> None:
    old, wanted, late = (die(minute=minute) for minute in (0, 5, 9))
    settle(wanted, "resolved")
    foreign = die(minute=5, tenant=make_tenant("other"))
    since, until = NOON + timedelta(minutes=1), NOON + timedelta(minutes=9)

    assert read(database, tenant_id, DeadLetterFilter(from_date=since, to_date=until)) == [wanted]
    assert read(database, tenant_id, DeadLetterFilter(status=("pending",))) == [late, old]
    assert read(database, tenant_id, DeadLetterFilter(text=str(foreign))) == []
    # The watchdog sees the letters of all.
    batches = export.batches(keeper_database.delivery, tenant_id, ALL)
    assert [letter.job_id for batch in batches for letter in batch.letters] == [late, wanted, old]


def test_large_letters_are_read_one_by_one(
    database: Database, tenant_id: UUID, die: Die, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "MOST_BYTES", 2_500)
    died = [die(minute=-minute) for minute in range(4)]
    admin.execute(
        "UPDATE dead_letter SET payload = jsonb_build_object('x', repeat('x', 1600)) WHERE job_id <> %s", [died[3]]
    )

    batches = [len(batch.letters) for batch in export.batches(partial(database.tenant, tenant_id), tenant_id, ALL)]

    assert batches == [1, 1, 2]
    assert read(database, tenant_id) == died


def test_what_goes_while_it_is_read_is_left_out(
    database: Database, tenant_id: UUID, die: Die, admin: Connection
) -> None:
    first, second = die(minute=1), die()
    begun = 0

    def begin() -> AbstractContextManager[Connection]:
        nonlocal begun
        begun += 1
        if begun == 2:  # the places are read, the letters not yet
            admin.execute("UPDATE dead_letter SET purged_at = now() WHERE job_id = %s", [second])
        return database.tenant(tenant_id)

    assert [letter.job_id for batch in export.batches(begin, tenant_id, ALL) for letter in batch.letters] == [first]


@pytest.mark.parametrize(
    "selection",
    [
        ALL,
        DeadLetterFilter(
            status=("pending",),
            task_type="echo",
            fingerprint="0123456789abcdef",
            from_date=NOON,
            to_date=NOON + timedelta(days=1),
            text="timed out",
        ),
    ],
)
def test_a_selection_is_stored_and_found_as_it_was(selection: DeadLetterFilter) -> None:
    assert DeadLetterFilter(**json.loads(json.dumps(selection.stored))) == selection
    assert len(selection.hash) == 32


def test_another_filter_has_another_hash() -> None:
    others = [
        DeadLetterFilter(status=("pending",)),
        DeadLetterFilter(task_type="echo"),
        DeadLetterFilter(fingerprint="0123456789abcdef"),
        DeadLetterFilter(from_date=NOON),
        DeadLetterFilter(to_date=NOON),
    ]
    hashes = {ALL.hash, DeadLetterFilter(text="x").hash, *(one.hash for one in others)}
    assert len(hashes) == 7


def test_what_dies_later_is_not_meant() -> None:
    assert ALL.before(NOON).to_date == NOON
    sooner = DeadLetterFilter(to_date=NOON - timedelta(days=1))
    assert sooner.before(NOON) == sooner


# -- JSON lines ------------------------------------------------------------------------------------------------------


def test_a_line_has_every_field_of_a_letter(database: Database, tenant_id: UUID) -> None:
    (line,) = export.encoded([LETTER], "acme", "json", hides=False).decode().splitlines()

    told = json.loads(line)

    assert tuple(told) == FIELDS
    assert told["payload"] == LETTER.payload
    assert told["metadata"] == LETTER.metadata
    assert (told["tenant"], told["job_id"], told["status"]) == ("acme", str(UUID(int=1)), "resolved")
    assert (told["dlq_timestamp"], told["resolved_at"]) == ("2026-03-02T12:00:00Z", "2026-03-02T13:00:00Z")
    assert export.head("json") == b""


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_secrets_are_left_out_for_who_may_not_see_them(format_: export.Format) -> None:
    whole, hidden = (export.encoded([LETTER], "acme", format_, hides=hides).decode() for hides in (False, True))

    assert all(secret in whole for secret in (SECRET, "hunter2", "86420"))
    assert not any(secret in hidden for secret in (SECRET, "hunter2", "86420"))
    assert "/payload/password" in hidden
    assert "/resolution/notes" in hidden
    assert "größer" in hidden


# -- CSV -------------------------------------------------------------------------------------------------------------


def cells(letter: Details) -> dict[str, str]:
    text = (export.head("csv") + export.encoded([letter], "acme", "csv", hides=False)).decode()
    names, values = csv.reader(io.StringIO(text, newline=""), strict=True)
    return dict(zip(names, values, strict=True))


def test_a_row_has_every_column_and_numbers_stay_numbers() -> None:
    found = cells(LETTER)

    assert tuple(found) == COLUMNS
    assert found["metadata.last_error.type"] == "TimeoutError"
    assert json.loads(found["metadata.last_error.context"]) == {"worker": "tasks", "attempt": 3}
    assert json.loads(found["payload"]) == LETTER.payload
    assert (found["resolution.notes"], found["work_id"], found["lineage"]) == ("Paid with pin=86420", "", "[]")
    raw = export.encoded([LETTER], "acme", "csv", hides=False).decode()
    assert raw.endswith("\r\n")
    assert ',"acme","0123456789abcdef",3,' in raw


def saying(text: str) -> Details:
    """A letter whose error, notes and payload say a text."""
    error = {**LETTER.metadata["last_error"], "message": text}
    return replace(
        LETTER,
        metadata={**LETTER.metadata, "last_error": error},
        resolution={"action": "resolved", "notes": text},
        payload={text or "empty": text},
    )


def test_tracebacks_are_left_out_with_secrets() -> None:
    context = {"worker": "tasks", "traceback": "functions.tasks.work:7 in work"}
    error = {**LETTER.metadata["last_error"], "context": context}
    letter = replace(LETTER, metadata={**LETTER.metadata, "last_error": error}, lineage=[{"last_error": error}])

    assert b"functions.tasks.work:7" in export.encoded([letter], "acme", "csv", hides=False)
    for form in ("csv", "json"):
        assert b"traceback" not in export.encoded([letter], "acme", form, hides=True)


FORMULAS = (
    *("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "|cmd", "%0A=1", "\x00=1"),
    *("＝1+1", "＋1", "－1+1", "＠SUM(A1)"),  # noqa: RUF001
)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("before", ["", " ", "\u00a0", '"', "a;", "a; ", 'a;"', "a\n", "a|"])
def test_no_formula_begins_a_cell_nor_what_another_spreadsheet_takes_for_one(before: str, formula: str) -> None:
    found = cells(saying(before + formula))["metadata.last_error.message"]

    assert found != before + formula
    assert found.replace("'", "") == before + formula


@pytest.mark.parametrize("text", ["-12.5", "-3", "2026", "1.5", "a=b", "a-b", "x@example.com", "'quoted'", ""])
def test_what_begins_no_formula_stays_as_it_is(text: str) -> None:
    assert cells(saying(text))["metadata.last_error.message"] == text


def beginnings(text: str, separators: Iterable[str]) -> Iterable[str]:
    """The cell, and what would be cells if it were divided elsewhere, without what is trimmed."""
    for separator in separators:
        text = text.replace(separator, "\n")
    return [part.lstrip(' "\u00a0\u200b\u3000\ufeff') for part in text.split("\n")]


@given(st.text(st.sampled_from("=+-@\t\r\n;|, \"'aé1＝＋－＠\u00a0\u200b\ufeff\U0001f600"), max_size=12))  # noqa: RUF001
def test_whatever_a_text_is_it_begins_no_formula_and_can_be_read_again(text: str) -> None:
    found = cells(saying(text))

    for name in ("metadata.last_error.message", "resolution.notes"):
        cell = found[name]
        assert cell.replace("'", "") == text.replace("'", "")
        if cell != text or not _is_number(cell):
            assert not any(part.startswith(tuple("=+-@＝＋－＠")) for part in beginnings(cell, ";|\t\r"))  # noqa: RUF001
        assert not cell.startswith(("\t", "\r"))
    assert json.loads(found["payload"]) == {text or "empty": text}


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
def test_whatever_a_payload_is_both_forms_have_it(payload: Mapping[str, Any]) -> None:
    letter = replace(LETTER, payload=payload)
    (line,) = export.encoded([letter], "acme", "json", hides=False).decode().split("\n")[:-1]

    assert json.loads(line)["payload"] == payload
    assert json.loads(cells(letter)["payload"]) == payload


def test_a_letter_that_nothing_is_known_of_is_told_all_the_same() -> None:
    bare = replace(LETTER, metadata={}, resolution=None, resolved_at=None, resolved_by=None, payload={})
    found = cells(bare)
    assert (found["metadata.last_error.type"], found["resolution.action"], found["resolved_at"]) == ("", "", "")
    assert set(STATUSES) >= {found["status"]}
    assert datetime.fromisoformat(found["dlq_timestamp"]).astimezone(UTC) == NOON
