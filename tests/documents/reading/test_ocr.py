"""Textract answers become words with boxes; failures are classified."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import boto3
import pytest
from botocore.config import Config

from counterfoil import aws
from counterfoil.documents.page_images import MAX_OCR_BYTES
from counterfoil.documents.reading import ocr
from counterfoil.documents.reading.ocr import OcrPage, Textract, packed, unpacked
from counterfoil.documents.text import page
from counterfoil.errors import CancelledError, RejectedRequestError, ServiceUnavailableError
from tests.documents.reading.samples import LASKU, printed, refusal, textract
from tests.llm.conftest import Guards
from tests.llm.server import Raw, Server

SQUARE = [{"X": x, "Y": y} for x, y in ((0.1, 0.1), (0.2, 0.1), (0.2, 0.2), (0.1, 0.2))]
(OF,) = page.pages(printed(LASKU))


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with Server() as server:
        made: Any = boto3.client
        once = Config(retries={"total_max_attempts": 1})  # botocore retries would wait in real time
        client = made("textract", region_name="us-east-1", endpoint_url=server.url, config=once)
        monkeypatch.setattr(aws, "client", lambda service: {"textract": client}[service])
        yield server


def recognize(image: bytes = b"%PDF-", *, left: Callable[[], float] = lambda: 60.0, guards: Any = None) -> Any:
    return Textract(guards or Guards()).recognize(image, 595, 842, time_left=left)


def test_words_keep_their_recognized_positions(scripted: Server):
    scripted.then(textract(OF, confidence=87.5))
    found = recognize()
    assert (found.confidence, [word.text for word in found.page.words]) == (0.875, [word.text for word in OF.words])
    assert found.page.text == OF.text
    for word, printed_ in zip(found.page.words, OF.words, strict=True):
        assert word[1:] == pytest.approx(printed_[1:], abs=0.3)  # A4 is 595.28 points wide


def test_page_without_words_is_empty(scripted: Server):
    scripted.then(Raw(200, b'{"Blocks": [{"BlockType": "PAGE"}, {"BlockType": "LINE", "Text": "x"}]}'))
    assert recognize() == OcrPage(page.Page(595, 842, ()), 0.0)


def test_null_characters_are_replaced(scripted: Server):
    word = {"BlockType": "WORD", "Text": "M8\x00x40", "Confidence": 90, "Geometry": {"Polygon": SQUARE}}
    scripted.then(Raw(200, json.dumps({"Blocks": [word]}).encode()))
    assert recognize().page.text == "M8\ufffdx40"


@pytest.mark.parametrize("recognized", [None, OcrPage(OF, 0.9)])
def test_packed_result_round_trips(recognized: OcrPage | None):
    again = unpacked(packed(recognized))
    assert (again is None) == (recognized is None)
    if again is not None:
        assert (again.page.text, again.confidence) == (OF.text, 0.9)


@pytest.mark.parametrize("code", ["UnsupportedDocumentException", "BadDocumentException", "DocumentTooLargeException"])
def test_rejected_page_does_not_count_as_outage(code: str, scripted: Server):
    guards = Guards()
    scripted.then(refusal(code))
    assert recognize(guards=guards) is None
    assert guards.seen == [("ocr:textract", "ok")]


def test_page_above_size_limit_is_not_sent(scripted: Server):
    assert recognize(b"x" * (MAX_OCR_BYTES + 1)) is None
    assert scripted.requests == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal("AccessDeniedException"), RejectedRequestError),
        (refusal("InvalidSignatureException", 403), RejectedRequestError),
        (Raw(200, b'{"Blocks": [{"Text": 5}]}'), ServiceUnavailableError),
        (Raw(200, b"{}"), ServiceUnavailableError),
    ],
)
def test_other_errors_and_invalid_answers_raise(answer: Raw, error: type[Exception], scripted: Server):
    scripted.then(answer)
    with pytest.raises(error):
        recognize()


@pytest.mark.parametrize(
    "code", ["ThrottlingException", "ProvisionedThroughputExceededException", "InternalServerError"]
)
def test_throttling_or_outage_counts_as_unavailable(code: str, scripted: Server):
    guards = Guards()
    scripted.then(*[refusal(code, 500 if code == "InternalServerError" else 400)] * 5)
    with pytest.raises(ServiceUnavailableError):
        recognize(guards=guards)
    assert guards.seen == [("ocr:textract", "ServiceUnavailableError")]


def test_call_without_time_left_is_not_sent(scripted: Server):
    with pytest.raises(CancelledError):
        recognize(left=lambda: ocr.MIN_SECONDS_LEFT - 0.1)
    assert scripted.requests == []


@pytest.mark.parametrize(
    ("afterwards", "error", "counted"),
    [(0.0, CancelledError, "CancelledError"), (30.0, ServiceUnavailableError, "ServiceUnavailableError")],
)
def test_timeout_is_an_outage_unless_deadline_passed(
    afterwards: float, error: type[Exception], counted: str, scripted: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ocr, "MIN_SECONDS_LEFT", 0.0)
    monkeypatch.setattr(ocr, "CALL_TIMEOUT_SECONDS", 0.2)
    remaining = iter([0.1 if error is CancelledError else 60.0])
    guards = Guards()
    scripted.then(Raw(how="silent"))
    with pytest.raises(error):
        recognize(left=lambda: next(remaining, afterwards), guards=guards)
    assert guards.seen == [("ocr:textract", counted)]


def test_open_breaker_sends_no_request(scripted: Server):
    class Open:
        def guard(self, name: str) -> AbstractContextManager[None]:
            raise ServiceUnavailableError(name)

    with pytest.raises(ServiceUnavailableError, match="ocr:textract"):
        recognize(guards=Open())
    assert scripted.requests == []
