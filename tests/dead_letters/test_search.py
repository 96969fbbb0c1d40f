"""Dead letter pages and searches."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database, PageCursor
from counterfoil.dead_letters import search
from counterfoil.dead_letters.search import DeadLetterEntry, DeadLetterFilter, Page
from counterfoil.delivery.dead_letter import search_words
from counterfoil.kinds import WORK_KINDS
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter

SetStatus = Callable[[UUID, str], None]


def page(
    database: Database,
    tenant_id: UUID,
    filter_: DeadLetterFilter | None = None,
    *,
    limit: int = 20,
    after: PageCursor | None = None,
) -> Sequence[DeadLetterEntry]:
    with database.tenant(tenant_id) as connection:
        return search.page(connection, tenant_id, filter_ or DeadLetterFilter(), limit=limit, after=after).entries


def ids(result: Sequence[DeadLetterEntry]) -> list[UUID]:
    return [entry.job_id for entry in result]


def test_newest_dead_letters_come_first(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, set_status: SetStatus
):
    job_ids = [make_dead_letter(minute=minute) for minute in (3, 1, 4, 2)]
    set_status(job_ids[0], "resolved")
    set_status(job_ids[1], "ignored")
    assert ids(page(database, tenant_id)) == [job_ids[2], job_ids[0], job_ids[3], job_ids[1]]


def test_pages_list_every_dead_letter_once(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, set_status: SetStatus
):
    job_ids = [make_dead_letter(minute=minute // 2) for minute in range(11)]  # two per minute
    for job_id in job_ids[::3]:
        set_status(job_id, "retried")
    entries: list[DeadLetterEntry] = []
    while result := page(
        database,
        tenant_id,
        limit=3,
        after=PageCursor(entries[-1].dlq_timestamp, entries[-1].job_id) if entries else None,
    ):
        entries += result
    assert sorted(ids(entries)) == sorted(job_ids)
    assert [entry.dlq_timestamp for entry in entries] == sorted(
        (entry.dlq_timestamp for entry in entries), reverse=True
    )


def test_page_offset_skips_entries(database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter):
    job_ids = [make_dead_letter(minute=minute) for minute in range(6)]
    with database.tenant(tenant_id) as connection:
        result = search.page(connection, tenant_id, DeadLetterFilter(), limit=2, offset=3).entries
    assert ids(result) == [job_ids[2], job_ids[1]]


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (DeadLetterFilter(status=("pending",)), {1, 2, 3}),
        (DeadLetterFilter(status=("resolved", "ignored")), {0}),
        (DeadLetterFilter(task_type="echo"), {2}),
        (DeadLetterFilter(from_date=NOON + timedelta(minutes=1)), {1, 2, 3}),
        (DeadLetterFilter(to_date=NOON + timedelta(minutes=2)), {0, 1}),
        (DeadLetterFilter(from_date=NOON + timedelta(minutes=1), to_date=NOON + timedelta(minutes=3)), {1, 2}),
        (DeadLetterFilter(task_type="echo", status=("ignored",)), set()),
    ],
)
def test_page_contains_only_matching_dead_letters(
    filter_: DeadLetterFilter,
    expected: set[int],
    database: Database,
    tenant_id: UUID,
    make_dead_letter: MakeDeadLetter,
    set_status: SetStatus,
):
    job_ids = [
        make_dead_letter(minute=minute, worker="tasks", task_type="echo" if minute == 2 else "call")
        for minute in range(4)
    ]
    set_status(job_ids[0], "resolved")
    assert {job_ids.index(job_id) for job_id in ids(page(database, tenant_id, filter_))} == expected


def test_page_filters_by_fingerprint(database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter):
    first = make_dead_letter("Reading page 3 timed out")
    second = make_dead_letter("Reading page 4 timed out", minute=1)
    make_dead_letter("The disk is full", minute=2)
    [dead_letter] = page(database, tenant_id, limit=1, after=PageCursor(NOON + timedelta(minutes=2), UUID(int=0)))
    fingerprint_filter = DeadLetterFilter(fingerprint=dead_letter.fingerprint)
    assert ids(page(database, tenant_id, fingerprint_filter)) == [second, first]


def test_show_returns_payload_and_earlier_failures(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter
):
    work_id = uuid4()
    make_dead_letter("The disk is full", work_id=work_id)
    job_id = make_dead_letter("Reading timed out", work_id=work_id, revision=2, minute=5)
    with database.tenant(tenant_id) as connection:
        details = search.show(connection, tenant_id, job_id)
    assert details is not None
    assert (details.revision, details.status, details.version) == (2, "pending", 2)
    assert details.metadata["last_error"]["message"] == "Reading timed out"
    assert [earlier["last_error"]["message"] for earlier in details.previous_failures] == ["The disk is full"]
    assert details.payload["file"]["file_name"] == "invoice.pdf"


def test_other_tenants_dead_letters_are_invisible(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, make_tenant: Callable[..., UUID]
):
    other_tenant = make_tenant("globex")
    job_id = make_dead_letter(tenant=other_tenant)
    assert page(database, tenant_id) == []
    with database.tenant(tenant_id) as connection:
        assert search.page(connection, other_tenant, DeadLetterFilter(), limit=20).entries == []
        assert search.show(connection, tenant_id, job_id) is None
        assert search.show(connection, other_tenant, job_id) is None
    assert ids(page(database, other_tenant)) == [job_id]


def test_purged_dead_letters_are_hidden(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, admin: Connection
):
    job_id = make_dead_letter()
    admin.execute("UPDATE dead_letter SET purged_at = now() WHERE job_id = %s", [job_id])
    assert page(database, tenant_id) == []
    with database.tenant(tenant_id) as connection:
        assert search.show(connection, tenant_id, job_id) is None


def find(
    database: Database, tenant_id: UUID, text: str, filter_: DeadLetterFilter | None = None, limit: int = 20
) -> list[UUID]:
    """Return the job ids of all matches, from all pages."""
    ids: list[UUID] = []
    after = None
    while True:
        with database.tenant(tenant_id) as connection:
            result: Page = search.page(
                connection,
                tenant_id,
                (filter_ or DeadLetterFilter()).model_copy(update={"search": text}),
                limit=limit,
                after=after,
            )
        ids += [entry.job_id for entry in result.entries]
        after = result.next_cursor
        if after is None:
            return ids


@pytest.fixture
def job_ids(make_dead_letter: MakeDeadLetter) -> list[UUID]:
    return [
        make_dead_letter("Reading page 3 of 'a.pdf' timed out", file_name="Invoice-4711.pdf"),
        make_dead_letter("Reading page 9 of 'b.pdf' timed out", file_name="Invoice-4712.pdf", minute=1),
        make_dead_letter(
            "The seller 'Müller GmbH' is unknown", error_type="UnknownSellerError", file_name="order 4711.xml", minute=2
        ),
        make_dead_letter(
            "The disk is full", error_type="OSError", file_name="Timed.pdf", worker="document_output", minute=3
        ),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timed out", [1, 0]),
        ("TIMED", [3, 1, 0]),  # the first by its file name
        ("4711", [2, 0]),
        ("invoice 4711", [0]),
        ("invoice-4711.pdf", [0]),
        ("reading 4712", [1]),
        ("müller", [2]),
        ("unknownsellererror", [2]),
        ("document_output", [3]),
        ("page 9", [1]),
        ("reading disk", []),
        ("nothing", []),
        ("-- ; ' %", []),
        ("", []),
    ],
)
def test_search_matches_every_word(
    text: str, expected: list[int], database: Database, tenant_id: UUID, job_ids: list[UUID]
):
    assert find(database, tenant_id, text) == [job_ids[number] for number in expected]


def test_search_combines_text_with_other_filters(
    database: Database, tenant_id: UUID, job_ids: list[UUID], admin: Connection
):
    admin.execute("UPDATE dead_letter SET status = 'ignored' WHERE job_id = %s", [job_ids[0]])
    assert find(database, tenant_id, "4711", DeadLetterFilter(status=("ignored",))) == [job_ids[0]]
    assert find(database, tenant_id, "timed out", DeadLetterFilter(status=("pending",))) == [job_ids[1]]
    assert find(database, tenant_id, "timed", DeadLetterFilter(task_type="document_output")) == [job_ids[3]]


def test_search_finds_dead_letter_by_either_id(database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter):
    work_id = uuid4()
    job_id = make_dead_letter(work_id=work_id, worker="matching")
    make_dead_letter()
    assert job_id == WORK_KINDS["matching"].job_id(work_id)
    assert find(database, tenant_id, str(work_id)) == find(database, tenant_id, f" {str(job_id).upper()} ") == [job_id]


def test_search_excludes_other_tenants(
    database: Database, tenant_id: UUID, job_ids: list[UUID], make_tenant: Callable[..., UUID]
):
    other_tenant = make_tenant("globex")
    for text in ("timed out", "4711", str(job_ids[0])):
        assert find(database, other_tenant, text) == []


def test_search_ignores_earlier_errors(database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter):
    work_id = uuid4()
    make_dead_letter("Reading page 77 failed", work_id=work_id)
    job_id = make_dead_letter("Reading page 88 failed", work_id=work_id, revision=2, minute=1)
    assert find(database, tenant_id, "88") == [job_id]
    assert find(database, tenant_id, "77") == []


def test_search_pages_contain_every_match_once(
    database: Database, tenant_id: UUID, make_dead_letter: MakeDeadLetter, monkeypatch: pytest.MonkeyPatch
):
    """The searches include frequent words, for which pages read few dead letters."""
    monkeypatch.setattr(search, "RARE_WORD_LIMIT", 3)
    monkeypatch.setattr(search, "SCAN_LIMIT", (2, 5))
    monkeypatch.setattr(search, "RECENT_LIMIT", 7)
    monkeypatch.setattr(search, "_GROUP_BATCH_SIZE", 2)
    random = Random(7)
    vocabulary = ["alpha", "beta", "gamma", "delta"]
    dead_letters: list[tuple[UUID, set[str]]] = []
    for number in range(60):
        common_words = " ".join(random.sample(vocabulary, random.randint(1, 2)))
        other_words = " ".join(random.sample([*vocabulary, "rare"], random.randint(0, 2)))
        error = f"{common_words} '{other_words}'"
        job_id = make_dead_letter(error, file_name="x", minute=number % 25)
        dead_letters.append((job_id, search_words(f"ingestion TimeoutError x {error}")))
    for text in ("alpha", "alpha beta", "rare", "rare gamma", "alpha beta gamma", "delta x", "x", "ingestion rare"):
        expected = {job_id for job_id, words in dead_letters if words >= search_words(text)}
        for limit in (1, 4, 100):
            result = find(database, tenant_id, text, limit=limit)
            assert len(result) == len(set(result))
            assert set(result) == expected, text
