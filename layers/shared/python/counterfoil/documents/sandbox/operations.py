"""Operations on files that run in a child process.

`parsers` calls them from the parent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from counterfoil.documents.sandbox.program import Operation, Part

if TYPE_CHECKING:
    from counterfoil.documents.mail.attachments import MailPart
    from counterfoil.documents.structured import ExtractionResult

# Each operation imports its own parsers: a child that only renders pages needs neither pypdf nor lxml.


def _read(content: bytes, *, text_only: bool) -> Iterator[Part]:
    """Yield a file's XML extraction, then a PDF's pages if it has no XML.

    The part with the pages also contains the scans' sizes and the noisy pages.
    """
    from counterfoil.documents.einvoice.extract import extract_xml
    from counterfoil.documents.filetype import FileKind, recognize

    extraction = extract_xml(content, embedded=not text_only)
    yield _as_json(extraction), b""
    if extraction.structured_data is not None or recognize(content) is not FileKind.PDF:
        return
    from counterfoil.documents import pdf
    from counterfoil.documents.sandbox.pages import pack
    from counterfoil.documents.text.page import pages

    parsed = pages(content)
    head, words = pack(parsed)
    scans, noise = pdf.find_scans(content, parsed)
    yield {"pages": head, "scans": list(scans.items()), "noise": sorted(noise)}, words


def _split_pages(content: bytes, *, pages: Any) -> Iterator[Part]:
    from counterfoil.documents.sandbox.pages import unpack
    from counterfoil.documents.splitting import split

    result = split(unpack(pages, content))
    yield (
        {"boundaries": [asdict(boundary) for boundary in result.boundaries], "covers": sorted(result.cover_pages)},
        b"",
    )


def _read_pages(content: bytes, *, pages: Any) -> Iterator[Part]:
    from counterfoil.documents.sandbox.pages import unpack
    from counterfoil.documents.text.reading import read

    result = read(unpack(pages, content))
    yield None if result is None else asdict(result), b""


def _as_json(extraction: "ExtractionResult") -> dict[str, Any]:
    return asdict(extraction) | {"unread": sorted(extraction.unread)}


def _cut(content: bytes, *, ranges: Sequence[Sequence[int]]) -> Iterator[Part]:
    from counterfoil.documents import pdf

    for part in pdf.extract_pages(content, [(first, last) for first, last in ranges]):
        yield None, part


def _render(content: bytes, *, is_pdf: bool, number: int) -> Iterator[Part]:
    from counterfoil.documents import page_images

    page = (page_images.render_pdf if is_pdf else page_images.render_image)(content, number)
    yield {"problem": page.problem, "pages": page.pages, "media_type": page.media_type}, page.content


def _page_sizes(content: bytes) -> Iterator[Part]:
    from counterfoil.documents import page_images

    yield page_images.page_sizes(content), b""


def _tiff_pages(content: bytes, *, numbers: Sequence[int]) -> Iterator[Part]:
    from counterfoil.documents import page_images

    for page in page_images.tiff_pages(content, numbers):
        yield None, page


def _mail(content: bytes) -> Iterator[Part]:
    from counterfoil.documents.mail import attachments, message

    mail = message.parse(content)
    envelope = message.envelope(mail)
    yield {"envelope": asdict(envelope), "authentication": message.sender_authentication(mail)._asdict()}, b""
    if envelope.refusal is None:
        yield from map(_part_as_json, attachments.mail_attachments(mail))


def _archive(content: bytes) -> Iterator[Part]:
    from counterfoil.documents.mail import attachments
    from counterfoil.documents.mail.archive import Archive

    archive = Archive(content)
    yield archive.is_office_document, b""
    if not archive.is_office_document:
        yield from map(_part_as_json, attachments.archive_attachments(archive))


def _part_as_json(part: "MailPart") -> Part:
    from counterfoil.documents.mail.attachments import SkippedAttachment

    if isinstance(part, SkippedAttachment):
        return {"name": part.name, "size": part.size, "reason": part.reason}, b""
    return {"name": part.name, "kind": part.kind}, part.content


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "archive": _archive,
        "cut": _cut,
        "mail": _mail,
        "page_sizes": _page_sizes,
        "read": _read,
        "read_pages": _read_pages,
        "render": _render,
        "split_pages": _split_pages,
        "tiff_pages": _tiff_pages,
    }
)
