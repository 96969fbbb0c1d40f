"""`/api/admin/documents/{id}/pages/{n}`: page images."""

import io

import pytest
from PIL import Image

from counterfoil.db import Connection, Database
from counterfoil.documents import files
from counterfoil.documents.files import File
from counterfoil.errors import RejectedRequestError, ServiceUnavailableError
from tests.documents.einvoice_samples import pdf
from tests.documents.matching.tenant_harness import TenantHarness
from tests.functions.admin_api.conftest import CallApi
from tests.functions.admin_api.samples import INVOICE, acme, get, ids

MAX_RESPONSE_BYTES = 6 * 1024 * 1024
"""Maximum size of a Lambda response in bytes, including base64."""


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    return acme(database, admin)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes | Exception]:
    """Files in S3, by key. Reading a key with an exception raises it."""
    stored: dict[str, bytes | Exception] = {}

    def read(file: File) -> bytes:
        content = stored.get(file.key, RejectedRequestError("NoSuchKey"))
        if isinstance(content, Exception):
            raise content
        return content

    monkeypatch.setattr(files, "read", read)
    return stored


def key(harness: TenantHarness) -> str:
    return f"uploads/{harness.ids[INVOICE]}.xml"


def test_page_is_a_privately_cached_image(
    call_api: CallApi, harness: TenantHarness, store: dict[str, bytes | Exception]
) -> None:
    (document_id,) = ids(harness, INVOICE)
    store[key(harness)] = pdf(text="Rechnung 17", pages=2)

    response = get(call_api, f"/{document_id}/pages/2")

    assert (response.status, response.headers["Content-Type"], response.headers["X-Pages"]) == (200, "image/png", "2")
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    Image.open(io.BytesIO(response.body)).load()
    assert len(response.text) < MAX_RESPONSE_BYTES


def test_unchanged_page_returns_304_without_reading_the_file(
    call_api: CallApi, harness: TenantHarness, store: dict[str, bytes | Exception]
) -> None:
    (document_id,) = ids(harness, INVOICE)
    store[key(harness)] = pdf(text="x", pages=2)
    tags = [get(call_api, f"/{document_id}/pages/{number}").headers["ETag"] for number in (1, 2)]
    store.clear()

    unchanged = get(call_api, f"/{document_id}/pages/1", etag=tags[0])
    assert (unchanged.status, unchanged.text) == (304, "")
    assert get(call_api, f"/{document_id}/pages/1", etag=tags[1]).status == 404


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (pdf(pages=1), 404, "The document has 1 page."),
        (b"<a/>", 422, "The file is XML and has no pages"),
        (b"%PDF-1.7 and nothing", 422, "This page cannot be shown: the file is damaged"),
        (RejectedRequestError("NoSuchKey in a bucket"), 404, "The document's file no longer exists."),
        (ServiceUnavailableError("S3 is slow"), 503, "Retry later"),
    ],
)
def test_unavailable_page_returns_a_reason(
    content: bytes | Exception,
    status: int,
    message: str,
    call_api: CallApi,
    harness: TenantHarness,
    store: dict[str, bytes | Exception],
) -> None:
    (document_id,) = ids(harness, INVOICE)
    store[key(harness)] = content

    response = get(call_api, f"/{document_id}/pages/2")

    assert (response.status, response.headers["Content-Type"]) == (status, "application/problem+json")
    assert message in response.body["detail"]


@pytest.mark.parametrize("number", ["0", "-1", "x", "10001", "1.5", "٣", "..%2f1"])
def test_invalid_page_number_is_rejected(number: str, call_api: CallApi, harness: TenantHarness) -> None:
    assert get(call_api, f"/{ids(harness, INVOICE)[0]}/pages/{number}").status in {404, 422}
