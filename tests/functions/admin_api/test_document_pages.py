"""`/api/admin/documents/{id}/pages/{n}`: pages of documents' files as images."""

import io

import pytest
from PIL import Image

from counterfoil.db import Connection, Database
from counterfoil.documents import files
from counterfoil.documents.files import File
from counterfoil.errors import RejectedRequestError, ServiceUnavailableError
from tests.documents.einvoice_samples import pdf
from tests.documents.matching.office import Office
from tests.functions.admin_api.conftest import Ask
from tests.functions.admin_api.papers import INVOICE, acme, get, ids

LAMBDA_ANSWERS = 6 * 1024 * 1024
"""Bytes, base64 among them."""


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    return acme(database, admin)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes | Exception]:
    """What S3 has, by key."""
    kept: dict[str, bytes | Exception] = {}

    def read(file: File) -> bytes:
        found = kept.get(file.key, RejectedRequestError("NoSuchKey"))
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(files, "read", read)
    return kept


def key(office: Office) -> str:
    return f"uploads/{office.ids[INVOICE]}.xml"


def test_a_page_is_an_image_that_only_its_caller_keeps(
    ask: Ask, office: Office, store: dict[str, bytes | Exception]
) -> None:
    (one,) = ids(office, INVOICE)
    store[key(office)] = pdf(text="Rechnung 17", pages=2)

    answer = get(ask, f"/{one}/pages/2")

    assert (answer.status, answer.headers["Content-Type"], answer.headers["X-Pages"]) == (200, "image/png", "2")
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    Image.open(io.BytesIO(answer.body)).load()
    assert len(answer.text) < LAMBDA_ANSWERS


def test_who_has_a_page_already_is_told_so_without_a_look_at_its_file(
    ask: Ask, office: Office, store: dict[str, bytes | Exception]
) -> None:
    (one,) = ids(office, INVOICE)
    store[key(office)] = pdf(text="x", pages=2)
    tags = [get(ask, f"/{one}/pages/{number}").headers["ETag"] for number in (1, 2)]
    store.clear()

    same = get(ask, f"/{one}/pages/1", known=tags[0])
    assert (same.status, same.text) == (304, "")
    assert get(ask, f"/{one}/pages/1", known=tags[1]).status == 404


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        (pdf(pages=1), 404, "The document has 1 page."),
        (b"<a/>", 422, "The file is XML, and has no pages"),
        (b"%PDF-1.7 and nothing", 422, "This page cannot be shown: the file is damaged"),
        (RejectedRequestError("NoSuchKey in a bucket"), 404, "The document's file no longer exists."),
        (ServiceUnavailableError("S3 is slow"), 503, "retry later"),
    ],
)
def test_a_page_that_cannot_be_shown_is_refused_with_a_sentence(
    content: bytes | Exception,
    status: int,
    says: str,
    ask: Ask,
    office: Office,
    store: dict[str, bytes | Exception],
) -> None:
    (one,) = ids(office, INVOICE)
    store[key(office)] = content

    answer = get(ask, f"/{one}/pages/2")

    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert says in answer.body["detail"]


@pytest.mark.parametrize("number", ["0", "-1", "x", "10001", "1.5", "٣", "..%2f1"])
def test_a_number_that_no_page_has_is_refused(number: str, ask: Ask, office: Office) -> None:
    assert get(ask, f"/{ids(office, INVOICE)[0]}/pages/{number}").status in {404, 422}
