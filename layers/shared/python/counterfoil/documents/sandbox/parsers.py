"""Parsing of untrusted files in child processes, with memory and time limits.

Parent side.

The rules that read pages also run in a child, because their run time depends on the words in untrusted files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from counterfoil.documents.filetype import FileKind
from counterfoil.documents.mail.attachments import Attachment, MailPart, SkippedAttachment
from counterfoil.documents.mail.message import Envelope, Refusal, SenderAuthentication
from counterfoil.documents.sandbox import pages as packing
from counterfoil.documents.sandbox.process import Frame, Limits, run
from counterfoil.documents.splitting import Boundary, Split
from counterfoil.documents.structured import DocumentType, ExtractionResult
from counterfoil.documents.text.page import Evidence, Page
from counterfoil.documents.text.reading import Reading

_MEBIBYTE = 1024 * 1024
READ_LIMITS = Limits(cpu_seconds=90, seconds=180, answer_bytes=64 * _MEBIBYTE)
SPLIT_LIMITS = Limits(cpu_seconds=90, seconds=180, answer_bytes=4096 * _MEBIBYTE)
"""Large limits, because each part has a copy of shared fonts and images. Only one part is in memory at a time."""
UNPACK_LIMITS = Limits(cpu_seconds=60, seconds=110, answer_bytes=256 * _MEBIBYTE)
"""Limits for emails and archives."""

Check = Callable[[], None]


def _no_check() -> None:
    pass


@dataclass(frozen=True)
class FileText:
    """Extraction from a file's XML, and the pages of a PDF without XML."""

    extraction: ExtractionResult
    pages: Sequence[Page] = ()
    scans: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Width and height, in points, of pages that are scans or whose text is noise. Pages count from 1."""
    noise: frozenset[int] = frozenset()
    """Pages whose text is noise."""


def read(content: bytes, check: Check = _no_check, *, text_only: bool = False) -> FileText:
    """Read the XML of a file, or the pages of a PDF without XML.

    `text_only` ignores XML inside a PDF.

    Raises the same errors as `process.run`.
    """
    first, *rest = run("read", content, {"text_only": text_only}, READ_LIMITS, check)
    extraction = _extraction(first.value)
    if not rest:
        return FileText(extraction)
    (frame,) = rest
    scans = {number: (width, height) for number, (width, height) in frame.value["scans"]}
    noise = frozenset(frame.value["noise"])
    return FileText(extraction, packing.unpack(frame.value["pages"], frame.content), scans, noise)


def _extraction(value: Any) -> ExtractionResult:
    type_ = None if value["type"] is None else DocumentType(value["type"])
    converted = {"type": type_, "warnings": tuple(value["warnings"]), "unread": frozenset(value["unread"])}
    return ExtractionResult(**value | converted)


def split_pages(pages: Sequence[Page], check: Check = _no_check) -> Split:
    """Run `splitting.split` in a child process.

    Raises the same errors as `process.run`.
    """
    head, words = packing.pack(pages)
    (frame,) = run("split_pages", words, {"pages": head}, READ_LIMITS, check)
    boundaries = (
        Boundary(**boundary | {"evidence": tuple(boundary["evidence"])}) for boundary in frame.value["boundaries"]
    )
    return Split(len(pages), tuple(boundaries), frozenset(frame.value["covers"]))


def read_pages(pages: Sequence[Page], check: Check = _no_check) -> Reading | None:
    """Run `text.reading.read` in a child process.

    Raises the same errors as `process.run`.
    """
    head, words = packing.pack(pages)
    (frame,) = run("read_pages", words, {"pages": head}, READ_LIMITS, check)
    value = frame.value
    if value is None:
        return None
    evidence = {path: Evidence(**item) for path, item in value["evidence"].items()}
    return Reading(DocumentType(value["type"]), value["fields"], evidence)


def extract_pages(content: bytes, ranges: Sequence[tuple[int, int]], check: Check = _no_check) -> Iterator[bytes]:
    """Run `pdf.extract_pages` in a child process.

    Raises the same errors as `process.run`.
    """
    return (frame.content for frame in run("cut", content, {"ranges": ranges}, SPLIT_LIMITS, check))


def page_sizes(content: bytes, check: Check = _no_check) -> list[tuple[int, int] | None] | None:
    """Run `page_images.page_sizes` in a child process.

    Raises the same errors as `process.run`.
    """
    (frame,) = run("page_sizes", content, {}, READ_LIMITS, check)
    return None if frame.value is None else [None if size is None else (size[0], size[1]) for size in frame.value]


def tiff_pages(content: bytes, numbers: Sequence[int], check: Check = _no_check) -> Iterator[bytes]:
    """Run `page_images.tiff_pages` in a child process.

    Raises the same errors as `process.run`.
    """
    return (frame.content for frame in run("tiff_pages", content, {"numbers": numbers}, SPLIT_LIMITS, check))


def unpack_mail(content: bytes, check: Check = _no_check) -> tuple[Envelope, SenderAuthentication, Iterator[MailPart]]:
    """Return an email's envelope, its sender's authentication results, and its files.

    `attachments.mail_attachments` yields the files; a refused email has none. Raises the same errors as
    `process.run`, also during iteration of the files.
    """
    frames = run("mail", content, {}, UNPACK_LIMITS, check)
    head = next(frames).value
    refusal = head["envelope"].pop("refusal")
    envelope = Envelope(**head["envelope"], refusal=refusal and Refusal(refusal))
    return envelope, SenderAuthentication(**head["authentication"]), map(_mail_part, frames)


def unpack_archive(content: bytes, check: Check = _no_check) -> Iterator[MailPart] | None:
    """Return the files in an archive, as `archive_attachments` yields them.

    Returns None for an office document. Raises the same errors as `process.run`, also during iteration of the files.
    """
    frames = run("archive", content, {}, UNPACK_LIMITS, check)
    is_office_document = next(frames).value
    return None if is_office_document else map(_mail_part, frames)


def _mail_part(frame: Frame) -> MailPart:
    value = frame.value
    if "reason" in value:
        return SkippedAttachment(value["name"], value["size"], value["reason"])
    return Attachment(value["name"], FileKind(value["kind"]), frame.content)
