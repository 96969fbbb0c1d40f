"""Textract's answers become words with boxes; its failures become ours, each of its class."""

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
from counterfoil.documents.reading.ocr import Recognised, Textract, packed, unpacked
from counterfoil.documents.text import page
from counterfoil.errors import CancelledError, RejectedRequestError, ServiceUnavailableError
from tests.documents.reading.papers import LASKU, printed, refusal, textract
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
        once = Config(retries={"total_max_attempts": 1})  # botocore's own tries would wait for real
        client = made("textract", region_name="us-east-1", endpoint_url=server.url, config=once)
        monkeypatch.setattr(aws, "client", lambda service: {"textract": client}[service])
        yield server


def recognise(image: bytes = b"%PDF-", *, left: Callable[[], float] = lambda: 60.0, guards: Any = None) -> Any:
    return Textract(guards or Guards()).recognise(image, 595, 842, time_left=left)


def test_words_stand_where_they_were_recognised(scripted: Server):
    scripted.then(textract(OF, confidence=87.5))
    found = recognise()
    assert (found.confidence, [word.text for word in found.page.words]) == (0.875, [word.text for word in OF.words])
    assert found.page.text == OF.text
    for word, printed_ in zip(found.page.words, OF.words, strict=True):
        assert word[1:] == pytest.approx(printed_[1:], abs=0.3)  # A4 is 595.28 points wide


def test_a_page_without_words_is_empty(scripted: Server):
    scripted.then(Raw(200, b'{"Blocks": [{"BlockType": "PAGE"}, {"BlockType": "LINE", "Text": "x"}]}'))
    assert recognise() == Recognised(page.Page(595, 842, ()), 0.0)


def test_what_postgresql_cannot_hold_is_replaced(scripted: Server):
    word = {"BlockType": "WORD", "Text": "M8\x00x40", "Confidence": 90, "Geometry": {"Polygon": SQUARE}}
    scripted.then(Raw(200, json.dumps({"Blocks": [word]}).encode()))
    assert recognise().page.text == "M8\ufffdx40"


@pytest.mark.parametrize("recognised", [None, Recognised(OF, 0.9)])
def test_what_is_kept_is_what_was_recognised(recognised: Recognised | None):
    again = unpacked(packed(recognised))
    assert (again is None) == (recognised is None)
    if again is not None:
        assert (again.page.text, again.confidence) == (OF.text, 0.9)


@pytest.mark.parametrize("code", ["UnsupportedDocumentException", "BadDocumentException", "DocumentTooLargeException"])
def test_a_refused_page_is_none_and_the_service_is_well(code: str, scripted: Server):
    guards = Guards()
    scripted.then(refusal(code))
    assert recognise(guards=guards) is None
    assert guards.seen == [("ocr:textract", "ok")]


def test_a_page_above_the_service_s_bound_is_not_sent(scripted: Server):
    assert recognise(b"x" * (MAX_OCR_BYTES + 1)) is None
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
def test_other_refusals_and_answers_of_another_kind_are_errors(answer: Raw, error: type[Exception], scripted: Server):
    scripted.then(answer)
    with pytest.raises(error):
        recognise()


@pytest.mark.parametrize(
    "code", ["ThrottlingException", "ProvisionedThroughputExceededException", "InternalServerError"]
)
def test_a_service_that_is_away_or_throttles_is_unavailable_and_counted(code: str, scripted: Server):
    guards = Guards()
    scripted.then(*[refusal(code, 500 if code == "InternalServerError" else 400)] * 5)
    with pytest.raises(ServiceUnavailableError):
        recognise(guards=guards)
    assert guards.seen == [("ocr:textract", "ServiceUnavailableError")]


def test_a_call_that_there_is_no_time_for_is_not_begun(scripted: Server):
    with pytest.raises(CancelledError):
        recognise(left=lambda: ocr.LEAST_SECONDS - 0.1)
    assert scripted.requests == []


@pytest.mark.parametrize(
    ("afterwards", "error", "counted"),
    [(0.0, CancelledError, "CancelledError"), (30.0, ServiceUnavailableError, "ServiceUnavailableError")],
)
def test_a_call_that_is_cut_off_by_our_own_lack_of_time_says_nothing_about_the_service(
    afterwards: float, error: type[Exception], counted: str, scripted: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ocr, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(ocr, "CALL_SECONDS", 0.2)
    lefts = iter([0.1 if error is CancelledError else 60.0])
    guards = Guards()
    scripted.then(Raw(how="silent"))
    with pytest.raises(error):
        recognise(left=lambda: next(lefts, afterwards), guards=guards)
    assert guards.seen == [("ocr:textract", counted)]


def test_behind_an_open_breaker_nothing_is_asked(scripted: Server):
    class Open:
        def guard(self, name: str) -> AbstractContextManager[None]:
            raise ServiceUnavailableError(name)

    with pytest.raises(ServiceUnavailableError, match="ocr:textract"):
        recognise(guards=Open())
    assert scripted.requests == []
