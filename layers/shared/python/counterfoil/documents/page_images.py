"""A page of a document as an image, made of its file: bounded in pixels, bytes, memory and time.

Rendering runs in a child process (`sandbox`), so a crash or an endless page does not take the caller along. Small JPEG
and PNG files are returned as they are.
"""

from dataclasses import dataclass
from typing import Literal

from counterfoil.documents.page_rendering import MAX_BYTES
from counterfoil.documents.reading import images
from counterfoil.documents.recognition import FileKind, recognise
from counterfoil.documents.sandbox.process import Limits, run
from counterfoil.errors import InvalidDocumentError, ParserError, RejectedRequestError

LIMITS = Limits(cpu_seconds=10, seconds=14, answer_bytes=MAX_BYTES)
MAX_PIXELS = 50_000_000
"""Of an image that is handed on as it is: a page of A4 at 600 dots an inch has 35 million."""
VERSION = "1"
"""Of how pages are made: another one where the same file gives other bytes."""

MediaType = Literal["image/png", "image/jpeg"]
_MEDIA_TYPES: dict[images.Format, MediaType] = {"PNG": "image/png", "JPEG": "image/jpeg"}


class UnshowableError(RejectedRequestError):
    """A file has no page that could be shown, or this one cannot be."""


class NoPageError(RejectedRequestError):
    """A file has fewer pages."""


@dataclass(frozen=True)
class Picture:
    """A page as an image."""

    content: bytes
    media_type: MediaType
    pages: int
    """Of the whole file."""


def picture(content: bytes, number: int) -> Picture:
    """The page of this number, from 1, of a file: at most MAX_BYTES.

    Raises:
        NoPageError: the file has fewer pages.
        UnshowableError: it is no PDF, JPEG, PNG or TIFF, is damaged, or takes too much time or memory.
    """
    kind = recognise(content)
    if kind is FileKind.PDF:
        return _rendered(content, "pdf", number)
    measured = images.measure(content) if kind is FileKind.IMAGE else None
    if measured is None:
        raise UnshowableError(_SENTENCES[kind])
    if number > measured.pages:
        raise NoPageError(_pages(measured.pages))
    media_type = _MEDIA_TYPES.get(measured.format)
    if media_type is not None and len(content) <= MAX_BYTES and measured.width * measured.height <= MAX_PIXELS:
        return Picture(content, media_type, 1)
    return _rendered(content, "image", number)


def _rendered(content: bytes, kind: Literal["pdf", "image"], number: int) -> Picture:
    try:
        (frame,) = run("render", content, {"kind": kind, "number": number}, LIMITS)
    except (InvalidDocumentError, ParserError):
        raise UnshowableError(_GAVE_UP) from None
    problem, pages = frame.value["problem"], frame.value["pages"]
    if problem == "pages":
        raise NoPageError(_pages(pages))
    if problem is not None:
        raise UnshowableError(_PROBLEMS[problem])
    return Picture(frame.content, "image/png", pages)


_GAVE_UP = (
    "This page cannot be shown: it takes more time or memory than is given to it, or what reads it failed over it."
)
_PROBLEMS = {
    "damaged": "This page cannot be shown: the file is damaged or encrypted.",
    "form": "This page cannot be shown: it is in a form of image that is not known here.",
}
_SENTENCES = {
    FileKind.XML: "The file is XML, and has no pages that could be shown; what it states are the document's fields.",
    FileKind.IMAGE: "The file is an image in a form that cannot be shown: PDF, JPEG, PNG and TIFF can.",
    FileKind.ZIP: "The file is an archive or an office document, and its pages cannot be shown.",
    FileKind.UNKNOWN: "The file is of an unknown kind, and has no pages that could be shown.",
}


def _pages(number: int) -> str:
    return f"The document has {number} page{'s' if number != 1 else ''}."
