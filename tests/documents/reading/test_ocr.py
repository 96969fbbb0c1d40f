"""Textract's responses become words with boxes, and failures are classified."""

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
from counterfoil.documents.reading.ocr import OcrPage, Textract, pack, unpack
from counterfoil.documents.text import page
from counterfoil.errors import CancelledError, RejectedRequestError, ServiceUnavailableError
from tests.documents.reading.samples import LASKU, refusal, text_pdf, textract_response
from tests.llm.conftest import Guards
from tests.llm.server import Raw, Server

SQUARE = [{"X": x, "Y": y} for x, y in ((0.1, 0.1), (0.2, 0.1), (0.2, 0.2), (0.1, 0.2))]
(OF,) = page.pages(text_pdf(LASKU))


@pytest.fixture
def textract_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with Server() as server:
        make_client: Any = boto3.client
        single_attempt = Config(retries={"total_max_attempts": 1})  # botocore retries would wait in real time
        client = make_client("textract", region_name="us-east-1", endpoint_url=server.url, config=single_attempt)
        monkeypatch.setattr(aws, "client", lambda service: {"textract": client}[service])
        yield server


def recognize(image: bytes = b"%PDF-", *, time_left: Callable[[], float] = lambda: 60.0, guards: Any = None) -> Any:
    return Textract(guards or Guards()).recognize(image, 595, 842, time_left=time_left)


def test_words_keep_their_recognized_positions(textract_server: Server):
    textract_server.add_steps(textract_response(OF, confidence=87.5))
    recognized = recognize()
    assert (recognized.confidence, [word.text for word in recognized.page.words]) == (
        0.875,
        [word.text for word in OF.words],
    )
    assert recognized.page.text == OF.text
    for word, printed_ in zip(recognized.page.words, OF.words, strict=True):
        assert word[1:] == pytest.approx(printed_[1:], abs=0.3)  # A4 is 595.28 points wide


def test_response_without_words_yields_an_empty_page(textract_server: Server):
    textract_server.add_steps(Raw(200, b'{"Blocks": [{"BlockType": "PAGE"}, {"BlockType": "LINE", "Text": "x"}]}'))
    assert recognize() == OcrPage(page.Page(595, 842, ()), 0.0)


def test_null_characters_are_replaced(textract_server: Server):
    word = {"BlockType": "WORD", "Text": "M8\x00x40", "Confidence": 90, "Geometry": {"Polygon": SQUARE}}
    textract_server.add_steps(Raw(200, json.dumps({"Blocks": [word]}).encode()))
    assert recognize().page.text == "M8\ufffdx40"


@pytest.mark.parametrize("recognized", [None, OcrPage(OF, 0.9)])
def test_packed_result_round_trips(recognized: OcrPage | None):
    repeated = unpack(pack(recognized))
    assert (repeated is None) == (recognized is None)
    if repeated is not None:
        assert (repeated.page.text, repeated.confidence) == (OF.text, 0.9)


@pytest.mark.parametrize("code", ["UnsupportedDocumentException", "BadDocumentException", "DocumentTooLargeException"])
def test_rejected_page_is_not_an_outage(code: str, textract_server: Server):
    guards = Guards()
    textract_server.add_steps(refusal(code))
    assert recognize(guards=guards) is None
    assert guards.calls == [("ocr:textract", "ok")]


def test_page_above_size_limit_is_not_sent(textract_server: Server):
    assert recognize(b"x" * (MAX_OCR_BYTES + 1)) is None
    assert textract_server.requests == []


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (refusal("AccessDeniedException"), RejectedRequestError),
        (refusal("InvalidSignatureException", 403), RejectedRequestError),
        (Raw(200, b'{"Blocks": [{"Text": 5}]}'), ServiceUnavailableError),
        (Raw(200, b"{}"), ServiceUnavailableError),
    ],
)
def test_other_errors_and_invalid_responses_raise_errors(
    response: Raw, error: type[Exception], textract_server: Server
):
    textract_server.add_steps(response)
    with pytest.raises(error):
        recognize()


@pytest.mark.parametrize(
    "code", ["ThrottlingException", "ProvisionedThroughputExceededException", "InternalServerError"]
)
def test_throttling_or_outage_counts_as_unavailable(code: str, textract_server: Server):
    guards = Guards()
    textract_server.add_steps(*[refusal(code, 500 if code == "InternalServerError" else 400)] * 5)
    with pytest.raises(ServiceUnavailableError):
        recognize(guards=guards)
    assert guards.calls == [("ocr:textract", "ServiceUnavailableError")]


def test_request_is_not_sent_without_enough_time(textract_server: Server):
    with pytest.raises(CancelledError):
        recognize(time_left=lambda: ocr.MIN_SECONDS_LEFT - 0.1)
    assert textract_server.requests == []


@pytest.mark.parametrize(
    ("afterwards", "error", "expected_metric"),
    [(0.0, CancelledError, "CancelledError"), (30.0, ServiceUnavailableError, "ServiceUnavailableError")],
)
def test_timeout_is_an_outage_unless_deadline_passed(
    afterwards: float,
    error: type[Exception],
    expected_metric: str,
    textract_server: Server,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(ocr, "MIN_SECONDS_LEFT", 0.0)
    monkeypatch.setattr(ocr, "CALL_TIMEOUT_SECONDS", 0.2)
    remaining = iter([0.1 if error is CancelledError else 60.0])
    guards = Guards()
    textract_server.add_steps(Raw(behavior="silent"))
    with pytest.raises(error):
        recognize(time_left=lambda: next(remaining, afterwards), guards=guards)
    assert guards.calls == [("ocr:textract", expected_metric)]


def test_open_breaker_sends_no_request(textract_server: Server):
    class Open:
        def guard(self, name: str) -> AbstractContextManager[None]:
            raise ServiceUnavailableError(name)

    with pytest.raises(ServiceUnavailableError, match="ocr:textract"):
        recognize(guards=Open())
    assert textract_server.requests == []
