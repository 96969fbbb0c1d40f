"""Pages of dead letters, and searches."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database, PageCursor
from counterfoil.dead_letters import search
from counterfoil.dead_letters.search import DeadLetterFilter, Entry, Page
from counterfoil.delivery.dead_letter import words
from counterfoil.kinds import KINDS
from tests.dead_letters.conftest import NOON, Die

Settle = Callable[[UUID, str], None]


def page(
    database: Database,
    tenant_id: UUID,
    wanted: DeadLetterFilter | None = None,
    *,
    limit: int = 20,
    after: PageCursor | None = None,
) -> Sequence[Entry]:
    with database.tenant(tenant_id) as connection:
        return search.page(connection, tenant_id, wanted or DeadLetterFilter(), limit=limit, after=after).entries


def ids(found: Sequence[Entry]) -> list[UUID]:
    return [entry.job_id for entry in found]


def test_newest_dead_letters_come_first(database: Database, tenant_id: UUID, die: Die, settle: Settle):
    died = [die(minute=minute) for minute in (3, 1, 4, 2)]
    settle(died[0], "resolved")
    settle(died[1], "ignored")
    assert ids(page(database, tenant_id)) == [died[2], died[0], died[3], died[1]]


def test_pages_follow_one_another_and_leave_nothing_out(database: Database, tenant_id: UUID, die: Die, settle: Settle):
    died = [die(minute=minute // 2) for minute in range(11)]  # two at each time
    for job_id in died[::3]:
        settle(job_id, "retried")
    seen: list[Entry] = []
    while found := page(
        database, tenant_id, limit=3, after=PageCursor(seen[-1].dlq_timestamp, seen[-1].job_id) if seen else None
    ):
        seen += found
    assert sorted(ids(seen)) == sorted(died)
    assert [entry.dlq_timestamp for entry in seen] == sorted((entry.dlq_timestamp for entry in seen), reverse=True)


def test_a_page_may_begin_further_behind(database: Database, tenant_id: UUID, die: Die):
    died = [die(minute=minute) for minute in range(6)]
    with database.tenant(tenant_id) as connection:
        found = search.page(connection, tenant_id, DeadLetterFilter(), limit=2, offset=3).entries
    assert ids(found) == [died[2], died[1]]


@pytest.mark.parametrize(
    ("wanted", "expected"),
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
def test_page_matches_its_filter(
    wanted: DeadLetterFilter, expected: set[int], database: Database, tenant_id: UUID, die: Die, settle: Settle
):
    died = [die(minute=minute, worker="tasks", task_type="echo" if minute == 2 else "call") for minute in range(4)]
    settle(died[0], "resolved")
    assert {died.index(job_id) for job_id in ids(page(database, tenant_id, wanted))} == expected


def test_letters_of_one_fingerprint_make_a_page(database: Database, tenant_id: UUID, die: Die):
    first = die("Reading page 3 timed out")
    second = die("Reading page 4 timed out", minute=1)
    die("The disk is full", minute=2)
    [letter] = page(database, tenant_id, limit=1, after=PageCursor(NOON + timedelta(minutes=2), UUID(int=0)))
    alike = DeadLetterFilter(fingerprint=letter.fingerprint)
    assert ids(page(database, tenant_id, alike)) == [second, first]


def test_a_letter_is_shown_with_its_payload_and_its_earlier_deaths(database: Database, tenant_id: UUID, die: Die):
    work_id = uuid4()
    die("The disk is full", work_id=work_id)
    job_id = die("Reading timed out", work_id=work_id, revision=2, minute=5)
    with database.tenant(tenant_id) as connection:
        shown = search.show(connection, tenant_id, job_id)
    assert shown is not None
    assert (shown.revision, shown.status, shown.version) == (2, "pending", 2)
    assert shown.metadata["last_error"]["message"] == "Reading timed out"
    assert [death["last_error"]["message"] for death in shown.lineage] == ["The disk is full"]
    assert shown.payload["file"]["file_name"] == "invoice.pdf"


def test_other_tenants_dead_letters_are_invisible(
    database: Database, tenant_id: UUID, die: Die, make_tenant: Callable[..., UUID]
):
    theirs = make_tenant("globex")
    job_id = die(tenant=theirs)
    assert page(database, tenant_id) == []
    with database.tenant(tenant_id) as connection:
        assert search.page(connection, theirs, DeadLetterFilter(), limit=20).entries == []
        assert search.show(connection, tenant_id, job_id) is None
        assert search.show(connection, theirs, job_id) is None
    assert ids(page(database, theirs)) == [job_id]


def test_purged_dead_letters_are_hidden(database: Database, tenant_id: UUID, die: Die, admin: Connection):
    job_id = die()
    admin.execute("UPDATE dead_letter SET purged_at = now() WHERE job_id = %s", [job_id])
    assert page(database, tenant_id) == []
    with database.tenant(tenant_id) as connection:
        assert search.show(connection, tenant_id, job_id) is None


def find(
    database: Database, tenant_id: UUID, text: str, wanted: DeadLetterFilter | None = None, limit: int = 20
) -> list[UUID]:
    """All pages."""
    ids: list[UUID] = []
    after = None
    while True:
        with database.tenant(tenant_id) as connection:
            found: Page = search.page(
                connection,
                tenant_id,
                (wanted or DeadLetterFilter()).model_copy(update={"text": text}),
                limit=limit,
                after=after,
            )
        ids += [entry.job_id for entry in found.entries]
        after = found.next
        if after is None:
            return ids


@pytest.fixture
def died(die: Die) -> list[UUID]:
    return [
        die("Reading page 3 of 'a.pdf' timed out", file_name="Invoice-4711.pdf"),
        die("Reading page 9 of 'b.pdf' timed out", file_name="Invoice-4712.pdf", minute=1),
        die(
            "The seller 'Müller GmbH' is unknown", error_type="UnknownSellerError", file_name="order 4711.xml", minute=2
        ),
        die("The disk is full", error_type="OSError", file_name="Timed.pdf", worker="document_output", minute=3),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timed out", [1, 0]),
        ("TIMED", [3, 1, 0]),  # of one the file is called so
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
def test_letters_are_found_that_have_every_word(
    text: str, expected: list[int], database: Database, tenant_id: UUID, died: list[UUID]
):
    assert find(database, tenant_id, text) == [died[number] for number in expected]


def test_a_search_keeps_to_what_else_is_wanted(
    database: Database, tenant_id: UUID, died: list[UUID], admin: Connection
):
    admin.execute("UPDATE dead_letter SET status = 'ignored' WHERE job_id = %s", [died[0]])
    assert find(database, tenant_id, "4711", DeadLetterFilter(status=("ignored",))) == [died[0]]
    assert find(database, tenant_id, "timed out", DeadLetterFilter(status=("pending",))) == [died[1]]
    assert find(database, tenant_id, "timed", DeadLetterFilter(task_type="document_output")) == [died[3]]


def test_a_letter_is_found_by_its_id_and_by_that_of_its_work(database: Database, tenant_id: UUID, die: Die):
    work_id = uuid4()
    job_id = die(work_id=work_id, worker="matching")
    die()
    assert job_id == KINDS["matching"].job_id(work_id)
    assert find(database, tenant_id, str(work_id)) == find(database, tenant_id, f" {str(job_id).upper()} ") == [job_id]


def test_nothing_of_another_tenant_is_found(
    database: Database, tenant_id: UUID, died: list[UUID], make_tenant: Callable[..., UUID]
):
    theirs = make_tenant("globex")
    for text in ("timed out", "4711", str(died[0])):
        assert find(database, theirs, text) == []


def test_what_a_letter_died_of_before_does_not_find_it_any_more(database: Database, tenant_id: UUID, die: Die):
    work_id = uuid4()
    die("Reading page 77 failed", work_id=work_id)
    job_id = die("Reading page 88 failed", work_id=work_id, revision=2, minute=1)
    assert find(database, tenant_id, "88") == [job_id]
    assert find(database, tenant_id, "77") == []


def test_pages_of_a_search_have_what_a_look_at_each_letter_would_find(
    database: Database, tenant_id: UUID, die: Die, monkeypatch: pytest.MonkeyPatch
):
    """Also where words are so frequent that a page looks at a few letters only."""
    monkeypatch.setattr(search, "RARE", 3)
    monkeypatch.setattr(search, "SCANNED", (2, 5))
    monkeypatch.setattr(search, "NEWEST", 7)
    monkeypatch.setattr(search, "_GROUPS_AT_ONCE", 2)
    random = Random(7)
    vocabulary = ["alpha", "beta", "gamma", "delta"]
    letters: list[tuple[UUID, set[str]]] = []
    for number in range(60):
        alike = " ".join(random.sample(vocabulary, random.randint(1, 2)))
        own = " ".join(random.sample([*vocabulary, "rare"], random.randint(0, 2)))
        error = f"{alike} '{own}'"
        job_id = die(error, file_name="x", minute=number % 25)
        letters.append((job_id, words(f"ingestion TimeoutError x {error}")))
    for text in ("alpha", "alpha beta", "rare", "rare gamma", "alpha beta gamma", "delta x", "x", "ingestion rare"):
        expected = {job_id for job_id, has in letters if has >= words(text)}
        for limit in (1, 4, 100):
            found = find(database, tenant_id, text, limit=limit)
            assert len(found) == len(set(found))
            assert set(found) == expected, text
