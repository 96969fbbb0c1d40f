"""`/api/admin/documents`: documents are listed, searched and shown to those who may see them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.documents import document_list
from counterfoil.kinds import KINDS
from tests.dead_letters.letters import dying
from tests.documents.matching.office import NOW, Office
from tests.factories import make_destination, make_document
from tests.functions.admin_api.conftest import Ask
from tests.functions.admin_api.papers import (
    CONTRACT,
    CREDIT,
    DELIVERY,
    INVOICE,
    ORDER,
    OTHER_ORDER,
    acme,
    found,
    get,
    ids,
)


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    return acme(database, admin)


# Lists


def test_a_list_has_the_newest_first_and_what_people_know_a_document_by(ask: Ask, office: Office) -> None:
    answer = get(ask)

    assert found(answer) == ids(office, OTHER_ORDER, CREDIT, INVOICE, DELIVERY, ORDER, CONTRACT)
    assert answer.body["next"] is None
    one = answer.body["documents"][2]
    assert (
        one
        | {
            "tenant": "acme",
            "type": "invoice",
            "number": "R-81",
            "date": "2026-03-12",
            "seller": "Tarnow Schrauben AG",
            "buyer": "Brede Werke GmbH",
            "total": {"amount": "1090.00", "minor": 109000, "currency": "EUR"},
            "received_at": "2026-03-12T08:00:00Z",
            "cluster_id": str(office.ids[ORDER]),
        }
        == one
    )
    assert [(stage["stage"], stage["state"]) for stage in one["stages"]] == [
        ("source", "succeeded"),
        ("ingestion", "succeeded"),
        ("matching", "succeeded"),
        ("output", "none"),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"type": "purchase_order"}, [OTHER_ORDER, ORDER]),
        ({"type": "goods_receipt"}, []),
        ({"state": "matching:succeeded", "type": "contract"}, [CONTRACT]),
        ({"state": "matching:failed"}, []),
        ({"from": "2026-03-12T08:00:00Z"}, [OTHER_ORDER, CREDIT, INVOICE]),
        ({"to": "2026-03-02T09:00:00+01:00"}, [CONTRACT]),
        ({"from": "2026-03-02T08:00:00Z", "to": "2026-03-12T08:00:00Z"}, [DELIVERY, ORDER]),
        ({"text": "PO-2026-00397"}, [ORDER]),
        ({"text": "po 2026 397"}, [ORDER]),
        ({"text": "397"}, [ORDER]),
        ({"text": "R-81"}, [INVOICE]),
        ({"text": "R-8I"}, [INVOICE]),
        ({"text": "vossberg"}, [OTHER_ORDER]),
        ({"text": "PAPIER, Vossberg"}, [OTHER_ORDER]),
        ({"text": "tarnow brede"}, [CREDIT, INVOICE, DELIVERY, ORDER, CONTRACT]),
        ({"text": "tarnow", "type": "invoice"}, [INVOICE]),
        ({"text": "tarnow", "to": "2026-03-02T08:00:00Z"}, [CONTRACT]),
        ({"text": "tarnow vossberg"}, []),
        ({"text": "nobody"}, []),
        ({"text": "!"}, []),
        ({"text": "' OR true; --"}, []),
    ],
)
def test_a_list_is_narrowed(query: dict[str, str], expected: list[int], ask: Ask, office: Office) -> None:
    assert found(get(ask, **query)) == ids(office, *expected)


def test_a_document_is_found_by_its_id_and_by_its_file(ask: Ask, office: Office, admin: Connection) -> None:
    (one,) = ids(office, DELIVERY)
    admin.execute("UPDATE document SET file_name = 'Lieferung Müller.pdf' WHERE id = %s", [one])

    assert found(get(ask, text=one)) == found(get(ask, text="MÜLLER.PDF")) == [one]
    assert found(get(ask, text=str(uuid4()))) == []


def test_words_follow_what_a_document_says(ask: Ask, office: Office, admin: Connection) -> None:
    one = office.ids[INVOICE]
    said = Jsonb({"invoice_number": "R-81", "issuer": {"name": "Ostrow & Söhne"}})
    admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [said, one])

    assert found(get(ask, text="söhne")) == [str(one)]
    assert str(one) not in found(get(ask, text="tarnow"))


@pytest.mark.parametrize("query", [{}, {"type": "invoice"}, {"text": "brede"}, {"text": "R-81"}])
def test_pages_follow_one_another_without_gap(
    query: dict[str, str], ask: Ask, office: Office, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a walk stops, and of documents that came at the same time, too."""
    monkeypatch.setattr(document_list, "SCANNED", (2, 3))
    data = {"invoice_number": "R-81", "recipient": {"name": "Brede Werke"}}
    for number in range(7):
        at = NOW + timedelta(minutes=number // 3)
        id_ = make_document(admin, office.tenant_id, data, type="invoice" if number % 2 else "contract", received_at=at)
        admin.execute(
            "INSERT INTO document_key (tenant_id, document_id, type, key) VALUES (%s, %s, 'own:invoice', 'R81')",
            [office.tenant_id, id_],
        )
    expected = found(get(ask, **query, limit="100"))
    with_all = admin.execute("SELECT count(*) FROM document WHERE type = 'invoice'").fetchone()
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(30):
        page = get(ask, **query, limit="2", **cursor)
        seen += found(page)
        assert len(page.body["documents"]) <= 2
        if page.body["next"] is None:
            break
        cursor = {"cursor": page.body["next"]}

    assert len(seen) == len(set(seen))
    assert set(expected) <= set(seen)
    if query == {"type": "invoice"}:
        assert with_all is not None
        assert len(seen) == with_all[0]


@pytest.fixture
def failed_file(office: Office, admin: Connection) -> Callable[..., str]:
    """Add a file that failed before it became a document. Returns the id of its acquisition job."""

    def add(name: str = "Größe geprüft.xml", at: datetime = NOW) -> str:
        row = admin.execute(
            "INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status, error)"
            " VALUES (gen_random_uuid(), %s, 'uploads', %s, '00', 1, %s, 'failed', 'The file is empty; send it again.')"
            " RETURNING id",
            [office.tenant_id, f"uploads/acme/1/{name}", at],
        ).fetchone()
        assert row is not None
        dying(office.database, office.tenant_id)(worker="acquisition", work_id=row[0])
        return str(row[0])

    return add


def test_failed_file_without_dead_letter_is_not_listed(
    ask: Ask, failed_file: Callable[..., str], admin: Connection
) -> None:
    id_ = failed_file()
    admin.execute("UPDATE dead_letter SET status = 'ignored', purged_at = now() WHERE worker = 'acquisition'")

    assert id_ not in found(get(ask))


def test_deceptive_name_of_a_failed_file_is_neutralized(ask: Ask, failed_file: Callable[..., str]) -> None:
    failed_file("invoice_\u202efdp.exe", at=NOW + timedelta(days=90))

    assert get(ask).body["documents"][0]["file_name"] == "invoice_\N{REPLACEMENT CHARACTER}fdp.exe"


def test_failed_file_is_listed_with_its_dead_letter(ask: Ask, failed_file: Callable[..., str]) -> None:
    id_ = failed_file(at=NOW + timedelta(days=90))

    (first, *_) = get(ask).body["documents"]

    assert (first["id"], first["type"], first["file_name"]) == (id_, None, "Größe geprüft.xml")
    assert first["dead_letter"] == str(KINDS["acquisition"].job_id(UUID(id_)))
    assert first["stages"][0] == {
        "stage": "source",
        "state": "failed",
        "reason": "The file is empty; send it again.",
    }
    assert {stage["state"] for stage in first["stages"][1:]} == {"none"}


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ({"text": "größe"}, True),
        ({"text": "geprüft xml"}, True),
        ({"text": "größe nobody"}, False),
        ({"text": "!"}, False),
        ({"state": "source:failed"}, True),
        ({"state": "ingestion:failed"}, False),
        ({"type": "invoice"}, False),
        ({"from": "2027-01-01"}, False),
    ],
)
def test_failed_files_are_filtered(
    query: dict[str, str], is_found: bool, ask: Ask, failed_file: Callable[..., str]
) -> None:
    assert (failed_file() in found(get(ask, **query))) is is_found


def test_pages_of_documents_and_failed_files_have_no_gap(
    ask: Ask, office: Office, failed_file: Callable[..., str]
) -> None:
    files = [failed_file(f"{days}.xml", at=NOW + timedelta(days=days)) for days in range(0, 60, 6)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = get(ask, limit="3", **cursor)
        seen += found(page)
        if page.body["next"] is None:
            break
        cursor = {"cursor": page.body["next"]}

    assert len(seen) == len(set(seen))
    assert set(seen) == {*files, *(str(id_) for id_ in office.ids)}
    assert seen == found(get(ask, limit="100"))


def test_a_state_is_that_of_the_stage(ask: Ask, office: Office, admin: Connection) -> None:
    failed, waiting, told = office.ids[INVOICE], office.ids[DELIVERY], office.ids[OTHER_ORDER]
    admin.execute(
        "UPDATE document SET matching_status = 'failed', matching_error = 'The disk is full' WHERE id = %s", [failed]
    )
    admin.execute("UPDATE ingestion_job SET status = 'pending' WHERE id = %s", [waiting])
    admin.execute("UPDATE ingestion_job SET status = NULL, reason = 'Kept.' WHERE id = %s", [told])
    destination = make_destination(admin, office.tenant_id)
    for subject, subject_id, status in (("document", told, "failed"), ("cluster", office.ids[ORDER], "in-progress")):
        admin.execute(
            "INSERT INTO output_job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,"
            " requested_at, created_at, status) VALUES (%s, %s, %s, %s, %s, 1, '{}', %s, %s, %s)",
            [uuid4(), office.tenant_id, destination, subject, subject_id, NOW, NOW, status],
        )

    (one,) = get(ask, state="matching:failed").body["documents"]
    assert (one["id"], one["stages"][2]) == (
        str(failed),
        {"stage": "matching", "state": "failed", "reason": "The disk is full"},
    )
    assert found(get(ask, state="ingestion:pending")) == [str(waiting)]
    (one,) = get(ask, state="ingestion:skipped").body["documents"]
    assert (one["id"], one["stages"][1]["reason"]) == (str(told), "Kept.")
    assert found(get(ask, state="output:failed")) == [str(told)]
    assert found(get(ask, state="output:in-progress")) == ids(office, CREDIT, INVOICE, DELIVERY, ORDER)
    assert found(get(ask, state="output:none")) == ids(office, CONTRACT)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"total_gross": "1190.00", "total_net": "1000", "currency": "EUR"}, ("1190.00", 119000, "EUR")),
        ({"total_net": "10.5", "currency": "EUR"}, ("10.5", 1050, "EUR")),
        ({"total_gross": "-3.10", "currency": "EUR"}, ("-3.10", -310, "EUR")),
        ({"total_gross": "1500", "currency": "JPY"}, ("1500", 1500, "JPY")),
        ({"total_gross": "1.234", "currency": "KWD"}, ("1.234", 1234, "KWD")),
        ({"total_gross": "1.234", "currency": "EUR"}, ("1.234", None, "EUR")),
        ({"total_gross": "12.00"}, ("12.00", None, None)),
    ],
)
def test_a_total_is_told_in_minor_units_where_it_has_them(data: dict[str, str], expected: tuple[Any, ...]) -> None:
    told = document_list.total(data)

    assert told is not None
    assert (told.amount, told.minor, told.currency) == expected


@pytest.mark.parametrize(
    "query",
    [
        {"type": "letter"},
        {"state": "failed"},
        {"state": "matching:dead"},
        {"state": "matching:failed; DROP"},
        {"text": ""},
        {"text": "x" * 201},
        {"text": "a\x00b"},
        {"from": "yesterday"},
        {"to": "1767225600"},
        {"limit": "0"},
        {"limit": "101"},
        {"cursor": "zzz"},
        {"colour": "red"},
    ],
)
def test_what_a_list_cannot_mean_is_refused(query: dict[str, str], ask: Ask, office: Office) -> None:
    answer = get(ask, **query)

    assert (answer.status, answer.headers["Content-Type"]) == (422, "application/problem+json")


# Who may look


@pytest.mark.parametrize("path", ["", "/timeline", "/pages/1"])
def test_a_document_of_another_tenant_is_not_there(
    path: str, ask: Ask, office: Office, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    theirs = make_document(admin, make_tenant("beta"), {"invoice_number": "R-81"}, type="invoice")

    for id_ in (theirs, uuid4(), "no-id"):
        answer = get(ask, f"/{id_}{path}")
        assert (answer.status, answer.body["detail"]) == (404, "There is no such document.")
    assert str(theirs) not in found(get(ask)) + found(get(ask, text="R-81")) + found(get(ask, text=str(theirs)))
    assert found(get(ask, groups="[viewer tenant:*]", tenant="beta")) == [str(theirs)]


@pytest.mark.parametrize("groups", ["[tenant:acme]", "[viewer]", "[viewer tenant:beta]", "[admin tenant:beta]", ""])
def test_only_a_viewer_of_the_tenant_may_look(groups: str, ask: Ask, office: Office) -> None:
    (one,) = ids(office, INVOICE)

    assert get(ask, groups=groups, tenant="acme").status == 403
    assert [get(ask, f"/{one}{path}", groups=groups).status for path in ("", "/timeline", "/pages/1")] == [404] * 3


# One document


def test_a_document_says_what_it_states_and_where_that_comes_from(ask: Ask, office: Office, admin: Connection) -> None:
    (one,) = ids(office, INVOICE)
    evidence = {
        "issuer.name": {"source": "text:address", "confidence": 0.9, "page": 1},
        "line_items.1.quantity": {"source": "ocr:cell", "confidence": 0.71, "page": 2},
    }
    admin.execute("UPDATE document SET evidence = %s, method = 'text' WHERE id = %s", [Jsonb(evidence), one])

    told = get(ask, f"/{one}").body

    assert (told["number"], told["method"], told["source"]["kind"]) == ("R-81", "text", "upload")
    fields = {field.pop("path"): field for field in told["fields"]}
    assert fields["issuer.name"] == {
        "value": "Tarnow Schrauben AG",
        "source": "text:address",
        "confidence": 0.9,
        "page": 1,
    }
    assert fields["invoice_number"] == {"value": "R-81", "source": None, "confidence": None, "page": None}
    assert not [path for path in fields if path.startswith("line_items")]
    assert [len(told["lines"]), told["lines_total"]] == [2, 2]
    assert {"path": "line_items.1.quantity", "value": "6", "source": "ocr:cell", "confidence": 0.71, "page": 2} in told[
        "lines"
    ][1]


def test_what_xml_states_is_exact_everywhere(ask: Ask, office: Office, admin: Connection) -> None:
    (one,) = ids(office, INVOICE)
    admin.execute("""UPDATE document SET evidence = '{"*": {"source": "xml", "confidence": 1}}' WHERE id = %s""", [one])

    told = get(ask, f"/{one}").body

    assert {(field["source"], field["confidence"]) for field in told["fields"]} == {("xml", 1)}


def test_a_document_shows_what_it_belongs_together_with_and_why(ask: Ask, office: Office) -> None:
    (one,) = ids(office, INVOICE)

    told = get(ask, f"/{one}").body

    assert {edge["document"]["id"] for edge in told["edges"]} >= set(ids(office, ORDER, CREDIT))
    assert told["edges_total"] == len(told["edges"])
    for edge in told["edges"]:
        assert (edge["decided_by"], edge["confidence"]) == ("rules", "high")
        assert edge["evidence"][-1]["total"] == pytest.approx(edge["score"], abs=0.02)
    assert [edge["score"] for edge in told["edges"]] == sorted((edge["score"] for edge in told["edges"]), reverse=True)


def test_a_document_names_the_dead_letters_of_its_work(ask: Ask, office: Office, database: Database) -> None:
    die, one = dying(database, office.tenant_id), office.ids[INVOICE]
    letters = [str(die(work_id=one, worker=worker)) for worker in ("ingestion", "matching")]
    die(worker="ingestion")

    told = get(ask, f"/{one}").body["dead_letters"]

    assert (
        {letter["job_id"] for letter in told}
        == set(letters)
        == {str(KINDS[w].job_id(one)) for w in ("ingestion", "matching")}
    )
    assert {letter["status"] for letter in told} == {"pending"}


def test_a_document_names_the_parts_that_were_cut_out_of_it(ask: Ask, office: Office, admin: Connection) -> None:
    whole = office.ids[OTHER_ORDER]
    part = make_document(admin, office.tenant_id, parent_id=whole, first_page=3, last_page=4)

    assert get(ask, f"/{whole}").body["parts"] == [{"id": str(part), "first_page": 3, "last_page": 4}]
    told = get(ask, f"/{part}").body
    assert (told["parent_id"], told["first_page"], told["last_page"]) == (str(whole), 3, 4)
    assert (told["type"], told["number"], told["total"], told["fields"]) == (None, None, None, [])


def test_who_has_a_document_already_is_told_so(ask: Ask, office: Office, admin: Connection) -> None:
    (one,) = ids(office, INVOICE)
    first = get(ask, f"/{one}")
    same = get(ask, f"/{one}", known=first.headers["ETag"])
    admin.execute("UPDATE document SET matching_status = 'pending' WHERE id = %s", [one])
    other = get(ask, f"/{one}", known=first.headers["ETag"])

    assert (same.status, same.text, same.headers["ETag"]) == (304, "", first.headers["ETag"])
    assert other.status == 200


# Its history


def test_a_timeline_tells_what_is_kept_in_its_order(
    ask: Ask, office: Office, admin: Connection, database: Database
) -> None:
    one = office.ids[INVOICE]
    dying(database, office.tenant_id)("The disk is full", work_id=one, worker="matching")
    office.decide(INVOICE, CREDIT, "confirmed", "ann")
    admin.execute(
        "INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, began_at, ended_at, outcome,"
        " error_type, error, next_attempt_at)"
        " VALUES (%s, 'ingestion', %s, 1, 1, %s, %s, 'retry', 'TimeoutError', 'Too slow', %s)",
        [office.tenant_id, one, NOW - timedelta(days=30, seconds=5), NOW - timedelta(days=30), NOW],
    )
    admin.execute(
        "UPDATE document SET matching_status = 'in-progress', matching_claimed_at = %s WHERE id = %s",
        [NOW + timedelta(days=9), one],
    )

    answer = get(ask, f"/{one}/timeline")

    assert answer.status == 200, answer.body
    events = answer.body["events"]
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    told = {(event["kind"], event["what"], event["who"]) for event in events}
    assert told >= {
        ("arrival", "received", "acquisition"),
        ("work", "queued", "ingestion"),
        ("try", "retry", "ingestion"),
        ("letter", "dead", "matching"),
        ("decision", "confirmed", "ann"),
        ("link", "linked", "rules"),
        ("result", "exception", "diagnostics"),
        ("running", "in-progress", "matching"),
    }
    (tried,) = [event for event in events if event["kind"] == "try"]
    assert (tried["began_at"], tried["at"]) == ("2026-05-01T23:59:55Z", "2026-05-02T00:00:00Z")
    assert (tried["error_type"], tried["error"], tried["number"]) == ("TimeoutError", "Too slow", 1)
    assert events[-1]["kind"] == "running"
    (decided,) = [event for event in events if event["kind"] == "decision"]
    assert decided["other"] == str(office.ids[CREDIT])


# Plans


def test_a_page_reads_indexes_and_as_much_as_it_looks_at(office: Office, database: Database, admin: Connection) -> None:
    """However many documents there are: under row-level security, too, where a condition must be leakproof for that."""
    admin.execute(
        """
        INSERT INTO document (tenant_id, source_id, bucket, key, file_name, size, content_hash, received_at,
                              last_seen_at, type, structured_data)
        SELECT d.tenant_id, d.source_id, 'uploads', 'key', 'a.pdf', 1, sha256(n::text::bytea),
               now() - n * interval '1 s', now(), 'invoice',
               jsonb_build_object('issuer', jsonb_build_object('name', 'Firm ' || mod(n, 50)))
        FROM document d CROSS JOIN generate_series(1, 5000) AS n WHERE d.id = %s
        """,
        [office.ids[0]],
    )
    admin.execute(
        "INSERT INTO document_key (tenant_id, document_id, type, key)"
        " SELECT tenant_id, id, 'own:invoice', id::text FROM document"
    )
    admin.execute("ANALYZE")
    values = {
        "tenant": office.tenant_id,
        "most": 20,
        "word": "firm",
        "others": ["7"],
        "after_at": NOW,
        "after_id": office.ids[0],
    }
    named = (
        document_list._CONDITIONS["after_at"].replace("d.received_at", "w.received_at").replace("d.id", "w.document_id")
    )
    plans = []
    with database.tenant(office.tenant_id) as connection:
        for statement in (
            document_list._WALK.format(conditions=document_list._CONDITIONS["after_at"]),
            document_list._WALK_WORD.format(conditions=named),
            document_list._FREQUENCY,
            document_list._NUMBERED,
        ):
            asked = values | {"words": ["firm", "7"], "types": ["own:invoice"], "keys": ["R81"]}
            rows = connection.execute(f"EXPLAIN {statement}".encode(), asked).fetchall()
            plans.append("\n".join(row[0] for row in rows))

    for plan, index in zip(
        plans, ("document_by_receipt", "document_word_page", "document_word_page", "document_key_by_key"), strict=True
    ):
        assert index in plan
        assert "Seq Scan" not in plan
        assert "Sort" not in plan or "document_word_page" in plan
    assert "Index Cond" in plans[0]
    assert "received_at" in plans[0].partition("Index Cond")[2].partition("\n")[0]
