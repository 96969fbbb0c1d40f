"""`/api/uploads`: upload forms and the upload list."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from counterfoil.db import Connection
from counterfoil.documents.filetype import MAX_FILE_BYTES
from counterfoil.errors import DatabaseUnavailableError
from functions.admin_api.auth import Request
from tests.delivery.harness import rows
from tests.documents.test_upload_list import upload
from tests.functions.admin_api.conftest import BUCKET, ApiResponse, CallApi

UPLOAD = {"tenant": "acme", "file_name": "Rechnung Müller €.pdf"}


@pytest.fixture(autouse=True)
def acme(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


def test_form_is_limited_to_one_key_and_size(call_api: CallApi) -> None:
    before = datetime.now(UTC)

    response = call_api(UPLOAD)

    assert response.status == 201
    prefix, tenant, unique, name = response.body["key"].split("/")
    assert (prefix, tenant, name) == ("uploads", "acme", UPLOAD["file_name"])
    assert str(UUID(unique)) == unique
    policy = json.loads(base64.b64decode(response.body["fields"]["policy"]))
    assert ["content-length-range", 1, MAX_FILE_BYTES] in policy["conditions"]
    assert {"key": response.body["key"]} in policy["conditions"]
    assert {"bucket": BUCKET} in policy["conditions"]
    assert response.body["fields"]["x-amz-algorithm"] == "AWS4-HMAC-SHA256"
    expires = datetime.fromisoformat(policy["expiration"])
    assert timedelta(minutes=14) < expires - before < timedelta(minutes=16)


def test_body_without_json_content_type_is_accepted(call_api: CallApi) -> None:
    response = call_api(json.dumps(UPLOAD, ensure_ascii=False).encode())
    assert (response.status, response.body["key"].rsplit("/", 1)[1]) == (201, UPLOAD["file_name"])


def test_two_forms_for_one_name_have_two_keys(call_api: CallApi) -> None:
    assert call_api(UPLOAD).body["key"] != call_api(UPLOAD).body["key"]


@pytest.mark.parametrize(
    ("groups", "status"),
    [
        ("[operator tenant:acme]", 201),
        (["operator", "tenant:acme"], 201),
        ("[admin,tenant:acme]", 403),
        ("[viewer,admin tenant:acme]", 403),
        ("operator tenant:acme", 403),
        ("operator", 403),
        ("[admin tenant:*]", 201),
        ("[viewer tenant:acme]", 403),
        ("[operator tenant:other]", 403),
        ("[operator]", 403),
        ("[tenant:acme]", 403),
        ("[OPERATOR tenant:acme]", 403),
        ("[none tenant:acme]", 403),
        (None, 403),
        ({"operator": "tenant:acme"}, 403),
    ],
)
def test_form_requires_operator_role_for_tenant(call_api: CallApi, groups: object, status: int) -> None:
    assert call_api(UPLOAD, groups=groups).status == status


def test_rejection_does_not_reveal_whether_tenant_exists(call_api: CallApi) -> None:
    existing = call_api(UPLOAD, groups="[operator tenant:other]")
    missing = call_api(UPLOAD | {"tenant": "missing"}, groups="[operator tenant:other]")

    assert (existing.status, existing.body) == (missing.status, missing.body)


def test_unknown_tenant_is_not_found(call_api: CallApi) -> None:
    response = call_api(UPLOAD | {"tenant": "missing"}, groups="[admin tenant:*]")

    assert (response.status, response.body["detail"]) == (404, "There is no such tenant.")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"tenant": "acme"}, "invalid at file_name"),
        ({**UPLOAD, "tenant": "ac\x00me"}, "invalid at tenant"),
        ({**UPLOAD, "tenant": "Acme"}, "invalid at tenant"),
        ({**UPLOAD, "bucket": "mine"}, "invalid at a field"),
        ({**UPLOAD, "file_name": 7}, "invalid at file_name"),
        ({**UPLOAD, "file_name": ""}, "invalid at file_name"),
        ({**UPLOAD, "file_name": ".."}, "file_name must be"),
        ({**UPLOAD, "file_name": "../../uploads/other/x.pdf"}, "file_name must be"),
        ({**UPLOAD, "file_name": "a\\b.pdf"}, "file_name must be"),
        ({**UPLOAD, "file_name": "a\nb.pdf"}, "file_name must be"),
        ({**UPLOAD, "file_name": "invoice_\u202efdp.exe"}, "file_name must be"),
        ({**UPLOAD, "file_name": "a\u2067b.pdf"}, "file_name must be"),
        ({**UPLOAD, "file_name": "a\u200fb.pdf"}, "file_name must be"),
        ({**UPLOAD, "file_name": "${filename}"}, "file_name must be"),
        ({**UPLOAD, "file_name": "x" * 256}, "invalid at file_name"),
        ({**UPLOAD, "file_name": "\U0001f9fe" * 255}, "too long for S3"),
        ({**UPLOAD, "size": 0}, "invalid at size"),
        ({**UPLOAD, "size": MAX_FILE_BYTES + 1}, "invalid at size: Input should be less than or equal to 104857600"),
    ],
)
def test_invalid_request_is_rejected_with_a_reason(call_api: CallApi, body: object, message: str) -> None:
    response = call_api(body)

    assert response.status == 422
    assert message in response.body["detail"]
    assert "uploads/other" not in response.body["detail"]


@pytest.mark.parametrize("body", ["", b"\xff\xfe", "{", "1", '{"tenant": "acme", "file_name": "\\ud800.pdf"}'])
def test_body_must_be_a_json_object(call_api: CallApi, body: object) -> None:
    response = call_api(body)

    assert (response.status, response.headers["Content-Type"]) == (400, "application/problem+json")
    assert response.body == {
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "The body must be a JSON object.",
    }


def test_unknown_path_is_not_found(call_api: CallApi) -> None:
    assert call_api("", path="/api/nothing").status == 404
    assert call_api("", path="/api/nothing").headers["Content-Type"] == "application/problem+json"


def test_unsupported_method_returns_405_with_allow(call_api: CallApi) -> None:
    response = call_api("", method="DELETE", path="/api/tasks")

    assert (response.status, response.headers["Allow"]) == (405, "GET, POST")


def test_unavailable_database_returns_retry_after(call_api: CallApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: object) -> None:
        raise DatabaseUnavailableError("PostgreSQL is not available")

    monkeypatch.setattr(Request, "admit", unavailable)
    response = call_api(UPLOAD)

    assert (response.status, response.headers["Retry-After"]) == (503, "5")
    assert "PostgreSQL" not in response.body["detail"]


def test_form_for_mail_requires_all_tenants(call_api: CallApi) -> None:
    mail = {"file_name": "mail.eml"}
    assert call_api(mail, groups="[operator tenant:acme]").status == 403
    response = call_api(mail, groups="[operator tenant:*]")
    assert (response.status, response.body["key"].split("/")[::2]) == (201, ["inbox", "mail.eml"])


def test_replacement_is_stored_with_its_form(
    call_api: CallApi,
    acme: UUID,
    make_document: Callable[..., UUID],
    make_tenant: Callable[..., UUID],
    admin: Connection,
) -> None:
    own, foreign = make_document(acme), make_document(make_tenant("other"))
    response = call_api(UPLOAD | {"replaces": str(own), "reason": "Wrong page"}, subject="ann")
    (stored,) = rows(admin, "document_replacement")
    assert (stored["bucket"], stored["key"]) == (BUCKET, response.body["key"])
    assert (stored["document_id"], stored["requested_by"], stored["reason"]) == (str(own), "ann", "Wrong page")
    assert call_api(UPLOAD | {"replaces": str(foreign)}).status == 404
    assert call_api({"file_name": "a.eml", "replaces": str(own)}, groups="[operator tenant:*]").status == 422
    assert len(rows(admin, "document_replacement")) == 1


def list_uploads(call_api: CallApi, groups: str = "[viewer tenant:acme]", **query: str) -> ApiResponse:
    return call_api("", method="GET", query=query, groups=groups)


def test_uploads_are_listed_by_page(
    call_api: CallApi, acme: UUID, make_tenant: Callable[..., UUID], admin: Connection
) -> None:
    first, second = upload(admin, acme), upload(admin, acme, status="failed", error="The file is empty.")
    upload(admin, make_tenant("other"))
    page = list_uploads(call_api, limit="1").body
    second_page = list_uploads(call_api, limit="1", cursor=page["next_cursor"]).body
    assert {(item["id"], item["state"], item["note"]) for item in (*page["uploads"], *second_page["uploads"])} == {
        (str(first), "waiting", None),
        (str(second), "failed", "The file is empty."),
    }
    assert second_page["next_cursor"] is None
    assert list_uploads(call_api, tenant="other").status == 403


def test_key_finds_uploads_of_visible_tenants(
    call_api: CallApi, acme: UUID, make_tenant: Callable[..., UUID], admin: Connection
) -> None:
    key = "inbox/1/mail.eml"
    for tenant in (acme, make_tenant("other"), None):
        upload(admin, tenant, bucket=BUCKET, key=key)

    def tenants(groups: str) -> list[str | None]:
        return [item["tenant"] for item in list_uploads(call_api, groups, key=key).body["uploads"]]

    assert tenants("[viewer tenant:acme]") == ["acme"]
    assert tenants("[viewer tenant:*]") == ["acme", "other", None]
    assert list_uploads(call_api, key=key, tenant="acme").status == 422
    assert list_uploads(call_api, key="inbox/1/other.eml").body == {"uploads": [], "next_cursor": None}


def test_unassigned_uploads_require_all_tenants(call_api: CallApi, admin: Connection) -> None:
    upload(admin, None, status="failed", error="The key names no tenant.")
    assert list_uploads(call_api, tenant="-").status == 403
    (item,) = list_uploads(call_api, "[viewer tenant:*]", tenant="-").body["uploads"]
    assert (item["tenant"], item["note"]) == (None, "The key names no tenant.")
