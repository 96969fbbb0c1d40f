"""A page of a document as an image, made of its file: bounded in pixels, bytes, memory and time.

Who sent the file chose its bytes, and what reads it (pdfium) is a large library in C++. It reads in a process of its
own, without credentials in its environment, which its own bounds end: so neither a crash nor an endless page takes the
caller along. JPEG and PNG that are small enough are handed on as they are.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from os import pathsep
from typing import BinaryIO, Literal

from counterfoil.documents.page_rendering import MAX_BYTES, MAX_CPU_SECONDS
from counterfoil.documents.reading import images
from counterfoil.documents.recognition import FileKind, recognise
from counterfoil.errors import RejectedRequestError

MAX_SECONDS = MAX_CPU_SECONDS + 4
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
    # Files, and no pipes: their sizes are bounded by the system, and nobody waits for anybody to read.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as made:
        given.write(content)
        given.seek(0)
        _run(given, made, kind, number)
        made.seek(0)
        answer = made.read()
    head, _, image = answer.partition(b"\n")
    try:
        told = json.loads(head)
        problem, pages = told["problem"], int(told["pages"])
    except (ValueError, TypeError, KeyError):
        raise UnshowableError(_GAVE_UP) from None
    if problem == "pages":
        raise NoPageError(_pages(pages))
    if problem is not None or not image:
        raise UnshowableError(_PROBLEMS.get(str(problem), _GAVE_UP))
    return Picture(image, "image/png", pages)


def _run(given: BinaryIO, made: BinaryIO, kind: str, number: int) -> None:
    """Let the page be made. What comes of it, if anything, is in `made`."""
    program = [sys.executable, "-B", "-P", "-S", "-m", "counterfoil.documents.page_rendering", kind, str(number)]
    try:
        subprocess.run(  # noqa: S603  # our own program; what strangers sent is what it reads
            program,
            stdin=given,
            stdout=made,
            stderr=subprocess.DEVNULL,  # it could quote the file
            timeout=MAX_SECONDS,
            check=False,
            cwd="/",
            env={"PYTHONPATH": pathsep.join(sys.path)},
        )
    except subprocess.TimeoutExpired:
        raise UnshowableError(_GAVE_UP) from None


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
