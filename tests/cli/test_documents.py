"""Documents are listed, deleted and replaced on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.commands.documents import app
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from counterfoil.documents import document_list
from tests.cli.storage import Storage
from tests.dead_letters.dead_letter_factory import dead_letter_factory
from tests.delivery.harness import rows
from tests.documents.matching.samples import invoice, order
from tests.documents.matching.tenant_harness import TenantHarness


@pytest.fixture
def harness(api: None, database: Database, admin: Connection) -> TenantHarness:
    harness = TenantHarness(database, admin, [order(), invoice(po_reference="4711")])
    harness.match_all()
    return harness


@pytest.fixture
def call(harness: TenantHarness) -> Callable[..., Any]:
    def call(*words: str) -> Any:
        result = CliRunner().invoke(app, words)
        if result.exception is not None:
            raise result.exception
        return json.loads(result.output) if "--json" in words else result.output

    return call


def test_deleted_document_is_not_listed(harness: TenantHarness, call: Callable[..., Any]):
    harness.admin.execute(
        "INSERT INTO ingestion_job (id, tenant_id, created_at, status) SELECT id, tenant_id, now(), 'succeeded' "
        "FROM document"
    )
    output = call("delete", str(harness.ids[0]), "--reason", "not ours", "--by", "ann")
    assert "was deleted." in output
    assert "Documents to match again: 1." in output
    (document,) = call("--json")
    assert (document["document_id"], document["state"], document["note"]) == (str(harness.ids[1]), "waiting", None)
    assert "1 waiting" in call()
    (entry,) = rows(harness.admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["detail"]["files"]) == ("ann", "document erased", 1)


def test_delete_prints_json(harness: TenantHarness, call: Callable[..., Any]):
    done = call("delete", str(harness.ids[1]), "--json")
    assert (done["documents"], done["rematched"]) == ([str(harness.ids[1])], 1)
    with pytest.raises(UsageError, match="There is no such document"):
        call("delete", str(harness.ids[1]))


def test_document_is_deleted_by_id_suffix(
    harness: TenantHarness, call: Callable[..., Any], make_document: Callable[..., UUID], admin: Connection
):
    id_ = make_document(harness.tenant_id, id=UUID("01a00000-0000-7000-8000-0000abcd1234"))
    assert "abcd1234" in call()
    call("delete", "abcd1234")
    assert str(id_) not in {row["id"] for row in rows(admin, "document")}


def test_replacement_is_requested_with_an_upload_form(
    harness: TenantHarness, call: Callable[..., Any], tmp_path: Path, admin: Connection, storage: Storage
) -> None:
    path = tmp_path / "order.xml"
    path.write_text("<Order/>")
    done = call("replace", str(harness.ids[0]), str(path), "--by", "ann", "--reason", "typing error", "--json")
    (stored,) = rows(admin, "document_replacement")
    assert storage.files == {stored["key"]: b"<Order/>"}
    assert (stored["key"], stored["document_id"]) == (done["key"], str(harness.ids[0]))
    assert (stored["requested_by"], stored["reason"]) == ("ann", "typing error")
    assert len(rows(admin, "document")) == 2  # the old document stays until the new file is extracted


def test_missing_file_requests_no_replacement(harness: TenantHarness, call: Callable[..., Any], tmp_path: Path):
    with pytest.raises(UsageError, match="File not found:"):
        call("replace", str(harness.ids[0]), str(tmp_path / "none.xml"))
    assert rows(harness.admin, "document_replacement") == []


@pytest.mark.parametrize("option", [("--tenant", "acme"), ("--state", "failed"), ("--json",)])
def test_list_option_before_delete_is_refused(
    option: tuple[str, ...], harness: TenantHarness, call: Callable[..., Any]
):
    with pytest.raises(UsageError, match="before 'delete' applies to the list"):
        call(*option, "delete", str(harness.ids[0]))
    assert len(rows(harness.admin, "document")) == 2


def test_documents_are_found_by_number_and_words(harness: TenantHarness, call: Callable[..., Any]):
    assert [row["number"] for row in call("list", "--json")] == ["R-81", "4711"]
    assert [row["id"] for row in call("list", "--search", "4711", "--json")] == [str(harness.ids[0])]
    assert call("list", "--search", "nobody", "--json") == []
    shown = call("list", "--type", "invoice", "--search", "tarnow")
    assert "R-81" in shown
    assert "4711" not in shown


def test_list_shows_missing_fields(harness: TenantHarness, call: Callable[..., Any], admin: Connection):
    admin.execute(
        "UPDATE document SET structured_data = structured_data - 'issuer' - 'total_net' WHERE type = 'invoice'"
    )

    lines = [line.split() for line in call("list").splitlines()]

    assert lines[0][-1] == "missing"
    (row,) = (line for line in lines if "invoice" in line)
    assert row[-2:] == ["supplier,", "total"]
    (complete,) = (line for line in lines if "purchase" in line)
    assert "supplier," not in complete


def test_limit_applies_to_failed_files_of_all_tenants(
    harness: TenantHarness, call: Callable[..., Any], admin: Connection
):
    other = TenantHarness(harness.database, admin, [order(), invoice()])
    admin.execute("UPDATE document SET received_at = '2026-03-01' WHERE tenant_id = %s", [other.tenant_id])
    failed = [
        admin.execute(
            "INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status, error)"
            " VALUES (gen_random_uuid(), %s, 'uploads', 'uploads/a/1/bad.pdf', %s, 1, %s, 'failed', 'It is empty')"
            " RETURNING id::text",
            [owner.tenant_id, f"{day}", f"2027-01-0{day}"],
        ).fetchall()[0][0]
        for owner, day in ((harness, 1), (other, 2), (harness, 3))
    ]
    for id_, owner in zip(failed, (harness, other, harness), strict=True):
        dead_letter_factory(harness.database, owner.tenant_id)(worker="acquisition", work_id=UUID(id_))

    assert [row["id"] for row in call("list", "--limit", "2", "--json")] == failed[:0:-1]
    listed = call("list", "--limit", "4", "--json")
    assert [row["id"] for row in listed[:3]] == failed[::-1]
    assert listed[3]["id"] in {str(id_) for id_ in harness.ids}
    output = " ".join(call("list", "--limit", "1").split())
    assert "bad.pdf" in output
    assert "It is empty" in output


def test_document_timeline_is_shown(harness: TenantHarness, call: Callable[..., Any]):
    (link,) = [event for event in call("timeline", str(harness.ids[1]), "--json") if event["kind"] == "link"]
    assert link["other_document_id"] == str(harness.ids[0])
    assert "arrival received" in call("timeline", str(harness.ids[1]))


def test_documents_are_found_by_state_and_time(harness: TenantHarness, call: Callable[..., Any], admin: Connection):
    order_id, invoice_id = harness.ids
    admin.execute("UPDATE document SET received_at = '2026-03-01T09:00Z' WHERE id = %s", [order_id])
    admin.execute("UPDATE document SET received_at = '2026-03-02T09:00Z' WHERE id = %s", [invoice_id])
    admin.execute("UPDATE document SET matching_status = 'failed' WHERE id = %s", [order_id])

    def listed(*words: str) -> list[str]:
        return [row["id"] for row in call("list", *words, "--json")]

    assert listed("--state", "matching:failed") == [str(order_id)]
    assert listed("--state", "matching:pending") == []
    assert listed("--since", "2026-03-02") == listed("--since", "2026-03-02T09:00") == [str(invoice_id)]
    assert listed("--until", "2026-03-02T09:00") == [str(order_id)]
    assert call("list", "--until", "2026-03-01") == "No documents found.\n"
    with pytest.raises(UsageError, match="The parameter state is invalid"):
        listed("--state", "failed")


def test_list_reads_short_pages_to_its_limit(
    harness: TenantHarness, call: Callable[..., Any], admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_list, "SCAN_LIMIT", (1,))  # makes filtered pages short or empty
    for day in range(1, 6):
        harness.file(invoice(number=f"R-{day}"))
    admin.execute("UPDATE document SET matching_status = 'failed'")
    admin.execute("UPDATE document SET matching_status = 'succeeded' WHERE id = ANY(%s)", [harness.ids[3:5]])
    narrow = ("--state", "matching:failed", "--json")
    assert len(call("list", *narrow)) == 5
    assert call("list", *narrow, "--limit", "2") == call("list", *narrow)[:2]


def test_show_prints_document_fields_and_matches(harness: TenantHarness, call: Callable[..., Any]):
    order_id, invoice_id = harness.ids
    document = call("show", str(invoice_id), "--json")
    assert (document["id"], document["number"], [edge["document"]["id"] for edge in document["matches"]]) == (
        str(invoice_id),
        "R-81",
        [str(order_id)],
    )

    shown = call("show", str(invoice_id))
    for text in ("invoice R-81", "po_reference", "4711", "line_items.0.", "matching", f"{order_id}"[-8:]):
        assert text in shown, text
    with pytest.raises(UsageError, match="No document id ends with '0000ffff'"):
        call("show", "0000ffff")
