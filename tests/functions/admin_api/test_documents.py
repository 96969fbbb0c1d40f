"""`/api/admin/documents`: document lists, details, timelines and permissions."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.documents import document_list
from counterfoil.kinds import WORK_KINDS
from tests.dead_letters.dead_letter_factory import dead_letter_factory
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.factories import make_destination, make_document
from tests.functions.admin_api.conftest import CallApi
from tests.functions.admin_api.samples import (
    CONTRACT,
    CREDIT,
    DELIVERY,
    INVOICE,
    ORDER,
    OTHER_ORDER,
    acme,
    get,
    ids,
    listed_ids,
)


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    return acme(database, admin)


# Lists


def test_list_is_newest_first_with_summary_fields(call_api: CallApi, harness: TenantHarness) -> None:
    response = get(call_api)

    assert listed_ids(response) == ids(harness, OTHER_ORDER, CREDIT, INVOICE, DELIVERY, ORDER, CONTRACT)
    assert response.body["next_cursor"] is None
    document = response.body["documents"][2]
    assert (
        document
        | {
            "tenant": "acme",
            "type": "invoice",
            "number": "R-81",
            "date": "2026-03-12",
            "seller": "Tarnow Schrauben AG",
            "buyer": "Brede Werke GmbH",
            "total": {"amount": "1090.00", "minor": 109000, "currency": "EUR", "is_net": True},
            "received_at": "2026-03-12T08:00:00Z",
            "cluster_id": str(harness.ids[ORDER]),
            "cluster_order_numbers": ["PO-2026-00397"],
        }
        == document
    )
    assert [(stage["stage"], stage["state"]) for stage in document["stages"]] == [
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
        ({"received_from": "2026-03-12T08:00:00Z"}, [OTHER_ORDER, CREDIT, INVOICE]),
        ({"received_before": "2026-03-02T09:00:00+01:00"}, [CONTRACT]),
        ({"received_from": "2026-03-02T08:00:00Z", "received_before": "2026-03-12T08:00:00Z"}, [DELIVERY, ORDER]),
        ({"search": "PO-2026-00397"}, [ORDER]),
        ({"search": "po 2026 397"}, [ORDER]),
        ({"search": "397"}, [ORDER]),
        ({"search": "R-81"}, [INVOICE]),
        ({"search": "R-8I"}, [INVOICE]),
        ({"search": "vossberg"}, [OTHER_ORDER]),
        ({"search": "PAPIER, Vossberg"}, [OTHER_ORDER]),
        ({"search": "tarnow brede"}, [CREDIT, INVOICE, DELIVERY, ORDER, CONTRACT]),
        ({"search": "tarnow", "type": "invoice"}, [INVOICE]),
        ({"search": "tarnow", "received_before": "2026-03-02T08:00:00Z"}, [CONTRACT]),
        ({"search": "tarnow vossberg"}, []),
        ({"search": "nobody"}, []),
        ({"search": "!"}, []),
        ({"search": "' OR true; --"}, []),
    ],
)
def test_list_is_filtered(
    query: dict[str, str], expected: list[int], call_api: CallApi, harness: TenantHarness
) -> None:
    assert listed_ids(get(call_api, **query)) == ids(harness, *expected)


def test_document_is_found_by_id_and_file_name(call_api: CallApi, harness: TenantHarness, admin: Connection) -> None:
    (document_id,) = ids(harness, DELIVERY)
    admin.execute("UPDATE document SET file_name = 'Lieferung Müller.pdf' WHERE id = %s", [document_id])

    assert (
        listed_ids(get(call_api, search=document_id)) == listed_ids(get(call_api, search="MÜLLER.PDF")) == [document_id]
    )
    assert listed_ids(get(call_api, search=str(uuid4()))) == []


def test_search_finds_changed_document_data(call_api: CallApi, harness: TenantHarness, admin: Connection) -> None:
    document_id = harness.ids[INVOICE]
    data = Jsonb({"invoice_number": "R-81", "issuer": {"name": "Ostrow & Söhne"}})
    admin.execute("UPDATE document SET structured_data = %s WHERE id = %s", [data, document_id])

    assert listed_ids(get(call_api, search="söhne")) == [str(document_id)]
    assert str(document_id) not in listed_ids(get(call_api, search="tarnow"))


@pytest.mark.parametrize("query", [{}, {"type": "invoice"}, {"search": "brede"}, {"search": "R-81"}])
def test_pages_have_no_gaps(
    query: dict[str, str], call_api: CallApi, harness: TenantHarness, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan may stop at any document, even between two received at the same time."""
    monkeypatch.setattr(document_list, "SCAN_LIMIT", (2, 3))
    data = {"invoice_number": "R-81", "recipient": {"name": "Brede Werke"}}
    for number in range(7):
        at = NOW + timedelta(minutes=number // 3)
        id_ = make_document(
            admin, harness.tenant_id, data, type="invoice" if number % 2 else "contract", received_at=at
        )
        admin.execute(
            "INSERT INTO document_key (tenant_id, document_id, type, value) VALUES (%s, %s, 'own:invoice', 'R81')",
            [harness.tenant_id, id_],
        )
    expected = listed_ids(get(call_api, **query, limit="100"))
    with_all = admin.execute("SELECT count(*) FROM document WHERE type = 'invoice'").fetchone()
    listed: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(30):
        page = get(call_api, **query, limit="2", **cursor)
        listed += listed_ids(page)
        assert len(page.body["documents"]) <= 2
        if page.body["next_cursor"] is None:
            break
        cursor = {"cursor": page.body["next_cursor"]}

    assert len(listed) == len(set(listed))
    assert set(expected) <= set(listed)
    if query == {"type": "invoice"}:
        assert with_all is not None
        assert len(listed) == with_all[0]


@pytest.fixture
def failed_file(harness: TenantHarness, admin: Connection) -> Callable[..., str]:
    """`failed_file(...)` adds a file that failed before it became a document.

    Returns the id of the file's acquisition job.
    """

    def add(name: str = "Größe geprüft.xml", at: datetime = NOW) -> str:
        row = admin.execute(
            "INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status, error)"
            " VALUES (gen_random_uuid(), %s, 'uploads', %s, '00', 1, %s, 'failed', 'The file is empty; send it again.')"
            " RETURNING id",
            [harness.tenant_id, f"uploads/acme/1/{name}", at],
        ).fetchone()
        assert row is not None
        dead_letter_factory(harness.database, harness.tenant_id)(worker="acquisition", work_id=row[0])
        return str(row[0])

    return add


def test_failed_file_without_dead_letter_is_not_listed(
    call_api: CallApi, failed_file: Callable[..., str], admin: Connection
) -> None:
    id_ = failed_file()
    admin.execute("UPDATE dead_letter SET status = 'ignored', purged_at = now() WHERE worker = 'acquisition'")

    assert id_ not in listed_ids(get(call_api))


def test_deceptive_name_of_a_failed_file_is_neutralized(call_api: CallApi, failed_file: Callable[..., str]) -> None:
    failed_file("invoice_\u202efdp.exe", at=NOW + timedelta(days=90))

    assert get(call_api).body["documents"][0]["file_name"] == "invoice_\N{REPLACEMENT CHARACTER}fdp.exe"


def test_failed_file_is_listed_with_its_dead_letter(call_api: CallApi, failed_file: Callable[..., str]) -> None:
    id_ = failed_file(at=NOW + timedelta(days=90))

    (first, *_) = get(call_api).body["documents"]

    assert (first["id"], first["type"], first["file_name"]) == (id_, None, "Größe geprüft.xml")
    assert first["dead_letter"] == str(WORK_KINDS["acquisition"].job_id(UUID(id_)))
    assert first["stages"][0] == {
        "stage": "source",
        "state": "failed",
        "reason": "The file is empty; send it again.",
    }
    assert {stage["state"] for stage in first["stages"][1:]} == {"none"}


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ({"search": "größe"}, True),
        ({"search": "geprüft xml"}, True),
        ({"search": "größe nobody"}, False),
        ({"search": "!"}, False),
        ({"state": "source:failed"}, True),
        ({"state": "ingestion:failed"}, False),
        ({"type": "invoice"}, False),
        ({"received_from": "2027-01-01"}, False),
    ],
)
def test_failed_files_are_filtered(
    query: dict[str, str], is_found: bool, call_api: CallApi, failed_file: Callable[..., str]
) -> None:
    assert (failed_file() in listed_ids(get(call_api, **query))) is is_found


def test_pages_with_failed_files_have_no_gaps(
    call_api: CallApi, harness: TenantHarness, failed_file: Callable[..., str]
) -> None:
    files = [failed_file(f"{days}.xml", at=NOW + timedelta(days=days)) for days in range(0, 60, 6)]
    listed: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = get(call_api, limit="3", **cursor)
        listed += listed_ids(page)
        if page.body["next_cursor"] is None:
            break
        cursor = {"cursor": page.body["next_cursor"]}

    assert len(listed) == len(set(listed))
    assert set(listed) == {*files, *(str(id_) for id_ in harness.ids)}
    assert listed == listed_ids(get(call_api, limit="100"))


def test_state_filter_applies_to_one_stage(call_api: CallApi, harness: TenantHarness, admin: Connection) -> None:
    failed, waiting, skipped = harness.ids[INVOICE], harness.ids[DELIVERY], harness.ids[OTHER_ORDER]
    admin.execute(
        "UPDATE document SET matching_status = 'failed', matching_error = 'The disk is full' WHERE id = %s", [failed]
    )
    admin.execute("UPDATE ingestion_job SET status = 'pending' WHERE id = %s", [waiting])
    admin.execute("UPDATE ingestion_job SET status = NULL, skip_reason = 'Kept.' WHERE id = %s", [skipped])
    destination = make_destination(admin, harness.tenant_id)
    for subject, subject_id, status in (
        ("document", skipped, "failed"),
        ("cluster", harness.ids[ORDER], "in-progress"),
    ):
        admin.execute(
            "INSERT INTO output_job (id, tenant_id, destination_id, subject, subject_id, schema_version, payload,"
            " requested_at, created_at, status) VALUES (%s, %s, %s, %s, %s, 1, '{}', %s, %s, %s)",
            [uuid4(), harness.tenant_id, destination, subject, subject_id, NOW, NOW, status],
        )

    (document,) = get(call_api, state="matching:failed").body["documents"]
    assert (document["id"], document["stages"][2]) == (
        str(failed),
        {"stage": "matching", "state": "failed", "reason": "The disk is full"},
    )
    assert listed_ids(get(call_api, state="ingestion:pending")) == [str(waiting)]
    (document,) = get(call_api, state="ingestion:skipped").body["documents"]
    assert (document["id"], document["stages"][1]["reason"]) == (str(skipped), "Kept.")
    assert listed_ids(get(call_api, state="output:failed")) == [str(skipped)]
    assert listed_ids(get(call_api, state="output:in-progress")) == ids(harness, CREDIT, INVOICE, DELIVERY, ORDER)
    assert listed_ids(get(call_api, state="output:none")) == ids(harness, CONTRACT)


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
def test_total_has_minor_units_only_if_exact(data: dict[str, str], expected: tuple[Any, ...]) -> None:
    total = document_list.total(data)

    assert total is not None
    assert (total.amount, total.minor, total.currency) == expected


@pytest.mark.parametrize(
    "query",
    [
        {"type": "letter"},
        {"state": "failed"},
        {"state": "matching:dead"},
        {"state": "matching:failed; DROP"},
        {"search": ""},
        {"search": "x" * 201},
        {"search": "a\x00b"},
        {"received_from": "yesterday"},
        {"received_before": "1767225600"},
        {"limit": "0"},
        {"limit": "101"},
        {"cursor": "zzz"},
        {"colour": "red"},
    ],
)
def test_invalid_list_parameter_is_rejected(query: dict[str, str], call_api: CallApi, harness: TenantHarness) -> None:
    response = get(call_api, **query)

    assert (response.status, response.headers["Content-Type"]) == (422, "application/problem+json")


# Permissions


@pytest.mark.parametrize("path", ["", "/timeline", "/pages/1"])
def test_other_tenants_document_is_not_found(
    path: str, call_api: CallApi, harness: TenantHarness, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    foreign = make_document(admin, make_tenant("beta"), {"invoice_number": "R-81"}, type="invoice")

    for id_ in (foreign, uuid4(), "no-id"):
        response = get(call_api, f"/{id_}{path}")
        assert (response.status, response.body["detail"]) == (404, "There is no such document.")
    assert str(foreign) not in listed_ids(get(call_api)) + listed_ids(get(call_api, search="R-81")) + listed_ids(
        get(call_api, search=str(foreign))
    )
    assert listed_ids(get(call_api, groups="[viewer tenant:*]", tenant="beta")) == [str(foreign)]


@pytest.mark.parametrize("groups", ["[tenant:acme]", "[viewer]", "[viewer tenant:beta]", "[admin tenant:beta]", ""])
def test_documents_require_viewer_role_for_tenant(groups: str, call_api: CallApi, harness: TenantHarness) -> None:
    (document_id,) = ids(harness, INVOICE)

    assert get(call_api, groups=groups, tenant="acme").status == 403
    assert [get(call_api, f"/{document_id}{path}", groups=groups).status for path in ("", "/timeline", "/pages/1")] == [
        404
    ] * 3


# One document


def test_details_show_fields_with_their_evidence(call_api: CallApi, harness: TenantHarness, admin: Connection) -> None:
    (document_id,) = ids(harness, INVOICE)
    evidence = {
        "issuer.name": {"source": "text:address", "confidence": 0.9, "page": 1},
        "line_items.1.quantity": {"source": "ocr:cell", "confidence": 0.71, "page": 2},
    }
    admin.execute("UPDATE document SET evidence = %s, method = 'text' WHERE id = %s", [Jsonb(evidence), document_id])

    body = get(call_api, f"/{document_id}").body

    assert (body["number"], body["method"], body["source"]["kind"]) == ("R-81", "text", "upload")
    fields = {field.pop("path"): field for field in body["fields"]}
    assert fields["issuer.name"] == {
        "value": "Tarnow Schrauben AG",
        "source": "text:address",
        "confidence": 0.9,
        "page": 1,
        "unit_name": None,
    }
    assert fields["invoice_number"] == {
        "value": "R-81",
        "source": None,
        "confidence": None,
        "page": None,
        "unit_name": None,
    }
    assert not [path for path in fields if path.startswith("line_items")]
    assert [len(body["lines"]), body["lines_total"]] == [2, 2]
    assert {
        "path": "line_items.1.quantity",
        "value": "6",
        "source": "ocr:cell",
        "confidence": 0.71,
        "page": 2,
        "unit_name": None,
    } in body["lines"][1]


def test_xml_evidence_applies_to_every_field(call_api: CallApi, harness: TenantHarness, admin: Connection) -> None:
    (document_id,) = ids(harness, INVOICE)
    admin.execute(
        """UPDATE document SET evidence = '{"*": {"source": "xml", "confidence": 1}}' WHERE id = %s""", [document_id]
    )

    body = get(call_api, f"/{document_id}").body

    assert {(field["source"], field["confidence"]) for field in body["fields"]} == {("xml", 1)}


def test_document_shows_its_matches_and_evidence(call_api: CallApi, harness: TenantHarness) -> None:
    (document_id,) = ids(harness, INVOICE)

    body = get(call_api, f"/{document_id}").body

    assert {edge["document"]["id"] for edge in body["matches"]} >= set(ids(harness, ORDER, CREDIT))
    assert body["matches_total"] == len(body["matches"])
    for edge in body["matches"]:
        assert (edge["decided_by"], edge["confidence"]) == ("rules", "high")
        assert edge["evidence"][-1]["total"] == pytest.approx(edge["score"], abs=0.02)
    assert [edge["score"] for edge in body["matches"]] == sorted(
        (edge["score"] for edge in body["matches"]), reverse=True
    )


def test_document_lists_its_dead_letters(call_api: CallApi, harness: TenantHarness, database: Database) -> None:
    add_dead_letter, document_id = dead_letter_factory(database, harness.tenant_id), harness.ids[INVOICE]
    expected = [str(add_dead_letter(work_id=document_id, worker=worker)) for worker in ("ingestion", "matching")]
    add_dead_letter(worker="ingestion")

    dead_letters = get(call_api, f"/{document_id}").body["dead_letters"]

    assert (
        {dead_letter["job_id"] for dead_letter in dead_letters}
        == set(expected)
        == {str(WORK_KINDS[w].job_id(document_id)) for w in ("ingestion", "matching")}
    )
    assert {dead_letter["status"] for dead_letter in dead_letters} == {"pending"}


def test_document_lists_its_split_parts(call_api: CallApi, harness: TenantHarness, admin: Connection) -> None:
    bundle_id = harness.ids[OTHER_ORDER]
    part = make_document(admin, harness.tenant_id, parent_id=bundle_id, first_page=3, last_page=4)

    assert get(call_api, f"/{bundle_id}").body["parts"] == [{"id": str(part), "first_page": 3, "last_page": 4}]
    body = get(call_api, f"/{part}").body
    assert (body["parent_id"], body["first_page"], body["last_page"]) == (str(bundle_id), 3, 4)
    assert (body["type"], body["number"], body["total"], body["fields"]) == (None, None, None, [])


def test_unchanged_document_returns_304(call_api: CallApi, harness: TenantHarness, admin: Connection) -> None:
    (document_id,) = ids(harness, INVOICE)
    first = get(call_api, f"/{document_id}")
    unchanged = get(call_api, f"/{document_id}", etag=first.headers["ETag"])
    admin.execute("UPDATE document SET matching_status = 'pending' WHERE id = %s", [document_id])
    changed = get(call_api, f"/{document_id}", etag=first.headers["ETag"])

    assert (unchanged.status, unchanged.text, unchanged.headers["ETag"]) == (304, "", first.headers["ETag"])
    assert changed.status == 200


# Timeline


def test_timeline_has_all_events_in_order(
    call_api: CallApi, harness: TenantHarness, admin: Connection, database: Database
) -> None:
    document_id = harness.ids[INVOICE]
    dead_letter_factory(database, harness.tenant_id)("The disk is full", work_id=document_id, worker="matching")
    harness.decide(INVOICE, CREDIT, "confirmed", "ann")
    admin.execute(
        "INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome,"
        " error_type, error, next_attempt_at)"
        " VALUES (%s, 'ingestion', %s, 1, 1, %s, %s, 'retry', 'TimeoutError', 'Too slow', %s)",
        [harness.tenant_id, document_id, NOW - timedelta(days=30, seconds=5), NOW - timedelta(days=30), NOW],
    )
    admin.execute(
        "UPDATE document SET matching_status = 'in-progress', matching_claimed_at = %s WHERE id = %s",
        [NOW + timedelta(days=9), document_id],
    )

    response = get(call_api, f"/{document_id}/timeline")

    assert response.status == 200, response.body
    events = response.body["events"]
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    kinds = {(event["kind"], event["outcome"], event["actor"]) for event in events}
    assert kinds >= {
        ("arrival", "received", "acquisition"),
        ("work", "queued", "ingestion"),
        ("attempt", "retry", "ingestion"),
        ("dead_letter", "dead-lettered", "matching"),
        ("decision", "confirmed", "ann"),
        ("link", "linked", "rules"),
        ("result", "exception", "diagnostics"),
        ("running", "in-progress", "matching"),
    }
    (attempt,) = [event for event in events if event["kind"] == "attempt"]
    assert (attempt["started_at"], attempt["at"]) == ("2026-05-01T23:59:55Z", "2026-05-02T00:00:00Z")
    assert (attempt["error_type"], attempt["error"], attempt["attempt"]) == ("TimeoutError", "Too slow", 1)
    assert events[-1]["kind"] == "running"
    (decision,) = [event for event in events if event["kind"] == "decision"]
    assert decision["other_document_id"] == str(harness.ids[CREDIT])


# Plans


def test_page_uses_index_scans(harness: TenantHarness, database: Database, admin: Connection) -> None:
    """Queries over many documents use indexes.

    Under row-level security, PostgreSQL uses an index only if the condition is leakproof.
    """
    admin.execute(
        """
        INSERT INTO document (tenant_id, source_id, bucket, key, file_name, size, content_hash, received_at,
                              last_duplicate_at, type, structured_data)
        SELECT d.tenant_id, d.source_id, 'uploads', 'key', 'a.pdf', 1, sha256(n::text::bytea),
               now() - n * interval '1 s', now(), 'invoice',
               jsonb_build_object('issuer', jsonb_build_object('name', 'Firm ' || mod(n, 50)))
        FROM document d CROSS JOIN generate_series(1, 5000) AS n WHERE d.id = %s
        """,
        [harness.ids[0]],
    )
    admin.execute(
        "INSERT INTO document_key (tenant_id, document_id, type, value)"
        " SELECT tenant_id, id, 'own:invoice', id::text FROM document"
    )
    admin.execute("ANALYZE")
    values = {
        "tenant": harness.tenant_id,
        "most": 20,
        "word": "firm",
        "others": ["7"],
        "after_at": NOW,
        "after_id": harness.ids[0],
    }
    word_condition = (
        document_list._CONDITIONS["after_at"].replace("d.received_at", "w.received_at").replace("d.id", "w.document_id")
    )
    plans = []
    with database.tenant(harness.tenant_id) as connection:
        for statement in (
            document_list._WALK.format(conditions=document_list._CONDITIONS["after_at"]),
            document_list._WALK_WORD.format(conditions=word_condition),
            document_list._FREQUENCY,
            document_list._NUMBERED,
        ):
            parameters = values | {"words": ["firm", "7"], "types": ["own:invoice"], "keys": ["R81"]}
            rows = connection.execute(f"EXPLAIN {statement}".encode(), parameters).fetchall()
            plans.append("\n".join(row[0] for row in rows))

    for plan, index in zip(
        plans,
        ("document_by_received_at", "document_word_page", "document_word_page", "document_key_by_key"),
        strict=True,
    ):
        assert index in plan
        assert "Seq Scan" not in plan
        assert "Sort" not in plan or "document_word_page" in plan
    assert "Index Cond" in plans[0]
    assert "received_at" in plans[0].partition("Index Cond")[2].partition("\n")[0]
