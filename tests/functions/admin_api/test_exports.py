"""Small exports of dead letters are returned, and large ones become operations.

The path is `/api/admin/dlq/export`. An operation stores its export in a file.
"""

import csv
import hmac
import io
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection
from counterfoil.dead_letters.search import DeadLetterFilter
from functions.admin_api.api import exports
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import BUCKET, EVENT, ApiResponse, CallApi
from tests.functions.admin_api.dead_letter_requests import ADMIN, VIEWER, get, ids

USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]
SECRET = "Bearer abcdefgh12345678"


@pytest.fixture
def export(call_api: CallApi) -> Callable[..., ApiResponse]:
    """`export(...)` requests an export.

    The response body is the file's text or the stored operation.
    """

    def send(*, groups: str = VIEWER, **query: str) -> ApiResponse:
        return get(call_api, "/export", groups=groups, **{"format": "json", **query})

    return send


Export = Callable[..., ApiResponse]


def read_export(response: ApiResponse) -> list[dict[str, Any]]:
    assert response.status == 200, response.body
    return [json.loads(line) for line in response.text.split("\n")[:-1]]


@pytest.fixture
def export_as_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every export too large for a response."""
    monkeypatch.setattr(exports, "MAX_RESPONSE_BYTES", 0)


def test_json_lines_match_the_api(export: Export, add_dead_letter: MakeDeadLetter, call_api: CallApi) -> None:
    job_ids = ids([add_dead_letter(minute=minute) for minute in (2, 1, 0)])

    response = export()

    assert [dead_letter["job_id"] for dead_letter in read_export(response)] == job_ids
    exported_item = json.loads(response.text.replace("+00:00", "Z").split("\n")[0])  # metadata is exported as stored
    assert exported_item == get(call_api, f"/{job_ids[0]}").body
    assert response.headers["Content-Type"] == "application/x-ndjson"
    assert response.headers["Content-Disposition"].startswith('attachment; filename="dead-letters-acme-2')
    assert response.headers["Content-Disposition"].endswith('Z.jsonl"')
    assert response.headers["Cache-Control"] == "no-store"


def test_csv_has_the_same_dead_letters(export: Export, add_dead_letter: MakeDeadLetter) -> None:
    job_ids = ids([add_dead_letter(minute=1), add_dead_letter("=HYPERLINK(1)")])

    response = export(format="csv")

    names, *records = csv.reader(io.StringIO(response.text, newline=""), strict=True)
    assert [row[names.index("job_id")] for row in records] == job_ids
    assert records[1][names.index("metadata.last_error.message")] == "'=HYPERLINK(1)"
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"


def test_export_filters_like_the_list(
    export: Export, add_dead_letter: MakeDeadLetter, set_status: Callable[[UUID, str], None], call_api: CallApi
) -> None:
    first, second, third = (
        add_dead_letter(error, minute=minute) for minute, error in enumerate(("One", "Two", "Three"))
    )
    set_status(second, "ignored")
    filters: list[dict[str, str]] = [
        {},
        {"status": "ignored,resolved"},
        {"from_date": (NOON + timedelta(minutes=1)).isoformat()},
        {"to_date": (NOON + timedelta(minutes=2)).isoformat(), "status": "pending"},
        {"search": "three"},
        {"search": str(first)},
        {"task_type": "ingestion"},
        {"task_type": "echo"},
        {"fingerprint": get(call_api).body["dead_letters"][0]["fingerprint"]},
        {"tenant": "acme"},
    ]
    for parameters in filters:
        listed = [dead_letter["job_id"] for dead_letter in get(call_api, **parameters).body["dead_letters"]]
        assert (parameters, [dead_letter["job_id"] for dead_letter in read_export(export(**parameters))]) == (
            parameters,
            listed,
        )
    assert str(third) in export().text


@pytest.mark.parametrize(
    ("groups", "sees"), [(VIEWER, False), ("[operator tenant:acme edit-payloads]", False), (ADMIN, True)]
)
def test_secrets_require_admin(groups: str, sees: bool, export: Export, add_dead_letter: MakeDeadLetter) -> None:
    add_dead_letter(f"{SECRET} was refused")
    for file_format in ("csv", "json"):
        assert (SECRET in export(groups=groups, format=file_format).text) == sees


def keyed_hash(admin: Connection, selection: DeadLetterFilter) -> str:
    """Return a filter's hash, as stored in the audit trail.

    The hash is keyed with the tenant's secret, so that search words cannot be guessed.
    """
    [(salt,)] = admin.execute("SELECT audit_salt FROM tenant").fetchall()
    return hmac.digest(salt, selection.hash, "sha256").hex()


def test_export_is_recorded_in_the_audit_trail(
    export: Export, add_dead_letter: MakeDeadLetter, admin: Connection
) -> None:
    job_ids = [add_dead_letter(minute=minute) for minute in range(3)]

    response = export(status="pending")

    (entry,) = rows(admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["targets"]) == (USER, "exported", [])
    assert entry["detail"] == {
        "filter": keyed_hash(admin, DeadLetterFilter(status=("pending",))),
        "format": "json",
        "dead_letters": len(job_ids),
        "bytes": len(response.text.encode()),
        "redacted": True,
    }


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"format": "xlsx"}, 422),
        ({"format": ""}, 422),
        ({"limit": "5"}, 422),
        ({"cursor": "x"}, 422),
        ({"status": "gone"}, 422),
        ({"tenant": "other"}, 403),
        ({"from_date": "5"}, 422),
    ],
)
def test_invalid_export_is_rejected(query: dict[str, str], status: int, export: Export, acme: UUID) -> None:
    assert export(**query).status == status


@pytest.mark.parametrize("groups", ["[tenant:acme]", "[viewer tenant:other]", "[viewer]"])
def test_export_requires_viewer_role_for_tenant(
    groups: str, export: Export, add_dead_letter: MakeDeadLetter, admin: Connection
) -> None:
    add_dead_letter()
    assert export(groups=groups, tenant="acme").status == 403
    assert rows(admin, "audit_entry") == []


# -- stored exports --------------------------------------------------------------------------------------------------


OPERATIONS = "/api/admin/operations"


def get_operation(call_api: CallApi, path: str, *, groups: str = VIEWER, **options: Any) -> ApiResponse:
    return call_api("", method="GET", path=OPERATIONS + path, groups=groups, **options)


def finish(admin: Connection) -> None:
    admin.execute(
        "UPDATE operation SET state = 'done', ended_at = now(), selected = 7, processed = 7, succeeded = 7,"
        " file = file || jsonb_build_object('bytes', 4711)"
    )


@pytest.mark.usefixtures("export_as_operation")
def test_large_export_becomes_an_operation(
    export: Export, add_dead_letter: MakeDeadLetter, call_api: CallApi, admin: Connection
) -> None:
    add_dead_letter()

    response = export(format="csv", status="pending")

    assert response.status == 202
    id_ = response.body["operation_id"]
    assert response.headers["Location"] == f"{OPERATIONS}/{id_}"
    assert get_operation(call_api, f"/{id_}").body == response.body
    assert get_operation(call_api, "", query={"action": "export"}).body["operations"] == [response.body]
    assert {name: response.body[name] for name in ("action", "state", "filter", "succeeded", "selected")} == {
        "action": "export",
        "state": "running",
        "filter": {"status": ["pending"]},
        "succeeded": 0,
        "selected": None,
    }
    file = response.body["file"]
    assert (file["format"], file["redacted"], file["bytes"]) == ("csv", True, 0)
    assert file.keys() == {"format", "redacted", "bytes", "expires_at"}
    assert get_operation(call_api, f"/{id_}/file").status == 409
    assert rows(admin, "audit_entry") == []  # no file has been downloaded yet


def test_slow_export_becomes_an_operation(
    export: Export, add_dead_letter: MakeDeadLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_dead_letter()
    monkeypatch.setattr(exports, "MAX_RESPONSE_SECONDS", -1.0)
    assert export().status == 202


@pytest.mark.usefixtures("export_as_operation")
def test_download_link_is_audited_once_per_caller(
    export: Export, add_dead_letter: MakeDeadLetter, call_api: CallApi, admin: Connection
) -> None:
    add_dead_letter()
    id_ = export().body["operation_id"]
    finish(admin)

    first, second = (get_operation(call_api, f"/{id_}/file") for _ in range(2))

    assert first.status == 200
    assert f"{BUCKET}" in first.body["url"]
    assert f"/dead-letters/{rows(admin, 'tenant')[0]['id']}/{id_}.jsonl?" in first.body["url"]
    assert "X-Amz-Expires=300" in first.body["url"]
    assert first.body["url_expires_at"] <= second.body["url_expires_at"]
    assert first.headers["Cache-Control"] == "no-store"
    (entry,) = rows(admin, "audit_entry")
    assert (entry["actor"], entry["action"], entry["targets"]) == (USER, "exported", [id_])
    assert (entry["detail"]["dead_letters"], entry["detail"]["bytes"]) == (7, 4711)
    assert entry["detail"]["filter"] == keyed_hash(admin, DeadLetterFilter())
    assert "Amz" not in get_operation(call_api, f"/{id_}").text


@pytest.mark.usefixtures("export_as_operation")
@pytest.mark.parametrize(
    ("requested_by", "groups", "subject", "status"),
    [
        (VIEWER, VIEWER, USER, 200),
        (VIEWER, VIEWER, "another", 403),
        (VIEWER, "[operator tenant:acme]", "another", 403),
        (VIEWER, ADMIN, "another", 200),
        (VIEWER, "[admin tenant:*]", "another", 200),
        (VIEWER, "[admin tenant:other]", USER, 404),
        (VIEWER, "[viewer tenant:other]", USER, 404),
        (VIEWER, "[tenant:acme]", USER, 404),
        (ADMIN, ADMIN, "another", 200),
        (ADMIN, VIEWER, USER, 403),  # the file has secrets
    ],
)
def test_only_requester_and_admins_download_the_file(
    requested_by: str,
    groups: str,
    subject: str,
    status: int,
    export: Export,
    add_dead_letter: MakeDeadLetter,
    call_api: CallApi,
    admin: Connection,
) -> None:
    add_dead_letter()
    id_ = export(groups=requested_by).body["operation_id"]
    finish(admin)

    assert get_operation(call_api, f"/{id_}/file", groups=groups, subject=subject).status == status
    assert len(rows(admin, "audit_entry")) == (status == 200)


@pytest.mark.usefixtures("export_as_operation")
def test_expired_file_is_not_found(
    export: Export, add_dead_letter: MakeDeadLetter, call_api: CallApi, admin: Connection
) -> None:
    add_dead_letter()
    id_ = export().body["operation_id"]
    finish(admin)
    admin.execute("UPDATE operation SET requested_at = now() - interval '7 days'")
    assert get_operation(call_api, f"/{id_}/file").status == 404


def test_other_operations_have_no_file(call_api: CallApi, acme: UUID) -> None:
    body = {"tenant": "acme", "action": "match"}
    operation = call_api(body, method="POST", path=OPERATIONS, groups=ADMIN).body
    assert operation["file"] is None
    assert get_operation(call_api, f"/{operation['operation_id']}/file", groups=ADMIN).status == 404


@pytest.mark.usefixtures("export_as_operation")
def test_token_without_subject_cannot_export(
    export: Export, add_dead_letter: MakeDeadLetter, call_api: CallApi
) -> None:
    """The audit trail must name the person who downloads a file."""
    add_dead_letter()
    id_ = export().body["operation_id"]
    for groups in (VIEWER, ADMIN):
        assert get_operation(call_api, f"/{id_}/file", groups=groups, claims={"sub": None}).status == 403


@pytest.mark.parametrize("operation_id", [uuid4(), "1", "x" * 40])
def test_missing_export_is_not_found(operation_id: object, call_api: CallApi, acme: UUID) -> None:
    assert get_operation(call_api, f"/{operation_id}/file").status == 404


@pytest.mark.usefixtures("export_as_operation")
def test_repeated_request_returns_the_same_operation(export: Export, add_dead_letter: MakeDeadLetter) -> None:
    add_dead_letter()
    assert export().body["operation_id"] == export().body["operation_id"]
    assert [export(search=search).status for search in ("timed", "reading", "after")] == [202, 202, 409]
    assert export(search="timed").status == 202


def test_largest_inline_export_fits_a_lambda_response(export: Export) -> None:
    headers = 10_000
    assert -(-exports.MAX_RESPONSE_BYTES // 3) * 4 + headers < 6 * 1024 * 1024
