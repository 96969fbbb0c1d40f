"""Documents are listed, deleted and replaced on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli import documents, outcomes
from cli.cloud.cloud import Cloud
from cli.failures import UsageError
from cli.outcomes import State
from cli.tenants import Tenant
from counterfoil.db import Connection, Database
from tests.delivery.harness import rows
from tests.documents.matching.office import Office
from tests.documents.matching.papers import invoice, order


class CloudOf:
    """A cloud with a database, and a bucket that remembers what is put into it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.outputs = {"UploadsBucketName": "uploads"}
        self.put: list[tuple[str, int]] = []

    def client(self, service: str) -> Any:
        return self

    def put_object(self, *, Bucket: str, Key: str, Body: Any) -> None:  # noqa: N803  # as boto3 has them
        with self.database.tenant(UUID(int=0)):
            self.put.append((Key, len(Body.read())))


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    office = Office(database, admin, [order(), invoice(po_reference="4711")])
    office.match_all()
    return office


@pytest.fixture
def call(office: Office, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    cloud = CloudOf(office.database)
    monkeypatch.setattr(Cloud, "at", lambda _: cloud)

    def call(*words: str) -> Any:
        result = CliRunner().invoke(documents.app, words)
        if result.exception is not None:
            raise result.exception
        return json.loads(result.output) if "--json" in words else result.output

    return call


def look(office: Office) -> list[tuple[State, str, str | None]]:
    tenant = Tenant(office.tenant_id, "acme")
    cloud: Any = CloudOf(office.database)
    found = {outcome.document_id: outcome for outcome in outcomes.of_tenant(cloud, tenant)}
    return [(found[id_].state, found[id_].note, found[id_].type) for id_ in office.ids]


def test_a_deleted_document_is_listed_as_removed_by_whom_and_why(office: Office, call: Callable[..., Any]):
    office.admin.execute(
        "INSERT INTO ingestion_job (id, tenant_id, created_at, status) SELECT id, tenant_id, now(), 'succeeded' "
        "FROM document"
    )
    said = call("delete", str(office.ids[0]), "--reason", "not ours", "--by", "ann")
    assert "is deleted; 1 other is matched anew." in said
    assert look(office) == [
        (State.REMOVED, "Deleted by ann: not ours", "purchase_order"),
        (State.WAITING, "", "invoice"),
    ]
    shown = call()
    assert "1 waiting, 1 removed" in shown


def test_deleting_says_what_was_done_as_json(office: Office, call: Callable[..., Any]):
    done = call("delete", str(office.ids[1]), "--json")
    assert done["deleted"] == [str(office.ids[1])]
    assert done["matched_anew"] == 1
    with pytest.raises(Exception, match="There is no document"):
        call("delete", str(office.ids[1]))


def test_a_document_is_named_by_the_end_of_its_id_as_the_table_shows_it(
    office: Office, call: Callable[..., Any], make_document: Callable[..., UUID], admin: Connection
):
    id_ = make_document(office.tenant_id, id=UUID("01a00000-0000-7000-8000-0000abcd1234"))
    assert "abcd1234" in call()
    call("delete", "abcd1234")
    assert str(id_) not in {row["id"] for row in rows(admin, "document")}


def test_the_intention_to_replace_is_stored_before_the_file_is_there(
    office: Office, call: Callable[..., Any], tmp_path: Path, admin: Connection
):
    path = tmp_path / "order.xml"
    path.write_text("<Order/>")
    done = call("replace", str(office.ids[0]), str(path), "--by", "ann", "--reason", "typing error", "--json")
    (stored,) = rows(admin, "document_replacement")
    assert stored["key"] == done["key"]
    assert stored["key"].endswith("/order.xml")
    assert (stored["document_id"], stored["requested_by"], stored["reason"]) == (
        str(office.ids[0]),
        "ann",
        "typing error",
    )
    assert len(rows(admin, "document")) == 2  # until the file is acquired


def test_nothing_is_uploaded_for_a_file_that_is_not_there(office: Office, call: Callable[..., Any], tmp_path: Path):
    with pytest.raises(Exception, match="There is no file"):
        call("replace", str(office.ids[0]), str(tmp_path / "none.xml"))
    assert rows(office.admin, "document_replacement") == []


@pytest.mark.parametrize("option", [("--tenant", "acme"), ("--state", "failed"), ("--json",)])
def test_an_option_of_the_list_is_not_left_unheard_before_a_deletion(
    option: tuple[str, ...], office: Office, call: Callable[..., Any]
):
    with pytest.raises(UsageError, match="before 'delete' would mean the list"):
        call(*option, "delete", str(office.ids[0]))
    assert len(rows(office.admin, "document")) == 2
