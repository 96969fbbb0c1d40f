"""Parsers of untrusted bytes, with their calls, expected errors and seed files.

Any other exception is a crash. Importing this module imports every parser, so that the fuzzer can instrument all of
them.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from functools import cache
from pathlib import Path
from uuid import UUID

from counterfoil.delivery.work import Message
from counterfoil.documents import files, page_images, pdf
from counterfoil.documents.einvoice.extract import extract_xml
from counterfoil.documents.filetype import FileKind, recognize
from counterfoil.documents.mail import archive, attachments, message
from counterfoil.documents.matching import judge
from counterfoil.documents.reading import model
from counterfoil.documents.reading.grounding import Grounding
from counterfoil.documents.splitting import split
from counterfoil.documents.structured import DocumentType, to_structured_data
from counterfoil.documents.text import reading
from counterfoil.documents.text.page import Page, Word, pages
from counterfoil.errors import (
    InvalidDocumentError,
    InvalidLlmResponseError,
    InvalidMessageError,
    UnsupportedSchemaError,
)
from counterfoil.llm import answers
from tests.documents.reading import samples
from tools.sample_generator import generate

EVENTS = Path(__file__).parents[1] / "events"
EXPECTED_ERRORS = (InvalidDocumentError, InvalidMessageError, UnsupportedSchemaError, InvalidLlmResponseError)


@dataclass(frozen=True)
class Target:
    """A parser under test."""

    read: Callable[[bytes], object]
    seeds: Callable[[], Iterator[bytes]]
    """Valid files for the fuzzer to mutate."""
    longest: int = 32 * 1024
    """Maximum input size in bytes. Longer inputs are slow and rarely find more."""

    def feed(self, content: bytes) -> str | None:
        """Parse `content`. Return the error message if it was rejected, else None.

        Raises:
            Exception: any exception that is not in `EXPECTED_ERRORS`, which means that the parser has a bug.
        """
        try:
            self.read(content)
        except EXPECTED_ERRORS as refusal:
            return str(refusal)
        return None


# -- seed files -------------------------------------------------------------------------------------------------------


@cache
def _samples() -> tuple[bytes, ...]:
    return tuple(file.content for file in generate(1).files if file.content)


def _samples_of_kind(kind: FileKind) -> Iterator[bytes]:
    return (content for content in _samples() if recognize(content) is kind)


def _mails() -> Iterator[bytes]:
    inner = EmailMessage()
    inner["Subject"], inner["From"] = "Rechnung R-1", "billing@example.com"
    inner.set_content("Guten Tag")
    pdf = next(_samples_of_kind(FileKind.PDF))
    inner.add_attachment(pdf[:4000], maintype="application", subtype="pdf", filename="Rechnung Nr. 1 (Größe).pdf")
    yield bytes(inner)
    outer = EmailMessage()
    outer["To"], outer["Subject"] = "Ann <acme@in.example.com>", "=?utf-8?B?UmVjaG51bmc=?="
    outer["Received"] = "from a by b for <acme@in.example.com>; Sun, 22 Nov 2026 05:00:00 +0000"
    outer["Delivered-To"] = "acme@in.example.com"
    outer.set_content("<p>siehe Anhang</p>", subtype="html")
    outer.add_attachment(inner)
    outer.add_attachment(next(_archives()), maintype="application", subtype="zip", filename="../rechnungen.zip")
    yield bytes(outer)


def _archives() -> Iterator[bytes]:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive_file:
            archive_file.writestr("a/Rechnung.xml", next(_samples_of_kind(FileKind.XML))[:3000])
            archive_file.writestr("b.pdf", next(_samples_of_kind(FileKind.PDF))[:3000])
        yield file.getvalue()


def _images() -> Iterator[bytes]:
    yield b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x04\x00\x00\x00\x06\x00\x08\x02\x00\x00\x00"
    yield bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0001108060004000301220002110103110100ffd9")
    yield bytes.fromhex("49492a000800000002000001030001000000000400000101030001000000000600000000 0000")
    yield bytes.fromhex("4d4d002a00000008000201000003000000010400000001010003000000010600000000000000")

    yield samples.tiff(7, 9, size=(2, 1))


def _sample_pages() -> Iterator[bytes]:
    """Yield each sample document's pages in the format that `_parse_pages` reads."""
    for content in list(_samples_of_kind(FileKind.PDF))[:6]:
        lines = []
        for page in pages(content):
            lines += [f"{int(w.left)} {int(w.top)} {int(w.right)} {int(w.bottom)} {w.text}" for w in page.words[:400]]
            lines.append("")
        yield "\n".join(lines).encode()


def _parse_pages(content: bytes) -> list[Page]:
    """Parse pages of one word per line, with an empty line between pages.

    A line is `left top right bottom text`.
    """
    parsed = []
    for page_text in content.decode(errors="replace").split("\n\n")[:20]:
        words = []
        for line in page_text.split("\n"):
            fields = line.split(" ", 4)
            if len(fields) == 5 and all(field.isascii() and field.isdecimal() for field in fields[:4]):
                left, top, right, bottom = (min(int(field[:6]), 10_000) for field in fields[:4])
                words.append(Word(fields[4], float(left), float(top), float(right), float(bottom)))
        parsed.append(Page(595, 842, tuple(word for word in words if word.text)))
    return parsed


# -- parsers ----------------------------------------------------------------------------------------------------------


def _extract(content: bytes) -> None:
    extraction = extract_xml(content)
    assert (extraction.structured_data is None) <= (extraction.reason is not None or extraction.type is not None)


def _extract_text(content: bytes) -> None:
    extract_xml(content, embedded=False)
    if recognize(content) is FileKind.PDF:
        page_list = pages(content)
        pdf.find_scans(content, page_list)
        split(page_list)
        result = reading.read(page_list)
        if result is not None and result.type is not DocumentType.OTHER:
            to_structured_data(result.type, result.fields)


def _mail(content: bytes) -> None:
    mail = message.parse(content)
    message.envelope(mail)
    for attachment in attachments.mail_attachments(mail):
        assert attachment.name
        assert "/" not in attachment.name
        attachment.name.encode()


def _archive(content: bytes) -> None:
    for attachment in attachments.archive_attachments(archive.Archive(content)):
        assert "/" not in attachment.name


def _recipients(content: bytes) -> None:
    for address in message.recipients(content):
        assert address == address.lower()
        assert address.count("@") == 1


def _read_pages(content: bytes) -> None:
    reading.read(_parse_pages(content))


def _image(content: bytes) -> None:
    page_images.is_small(content)
    pages = page_images.page_sizes(content)
    for number in range(min(len(pages or ()), 3)):
        page_images.render_image(content, number + 1)


def _split(content: bytes) -> None:
    page_list = _parse_pages(content)
    page_numbers = [
        number for part in split(page_list).parts for number in range(part.pages.first, part.pages.last + 1)
    ]
    assert page_numbers == list(range(1, len(page_list) + 1)), "a page is missing, or is in two parts"


@cache
def _grounds() -> Grounding:
    return Grounding([Page(595, 842, (Word("R-17", 10, 10, 40, 20), Word("119,00", 50, 10, 90, 20)))])


@cache
def _form() -> type[model.LlmExtraction]:
    return model.answer_schema(_grounds())


def _answer(content: bytes) -> None:
    model.grounded_fields(answers.read(content.decode(errors="replace"), _form()), _grounds())


def _verdict(content: bytes) -> None:
    answers.read(content.decode(errors="replace"), judge.answer_schema(["A", "B"]))


def _message(content: bytes) -> None:
    files.read_event(content.decode(errors="surrogateescape"))


def _messages() -> Iterator[bytes]:
    yield Message(work_id=UUID(int=7), revision=1, send_number=0).model_dump_json().encode()
    for name in ("s3_object_created", "acquisition"):
        event = json.loads((EVENTS / f"{name}.json").read_text())
        for record in event.get("Records", []):
            yield record.get("body", json.dumps(event)).encode()


TARGETS = {
    "pdf": Target(_extract, lambda: _samples_of_kind(FileKind.PDF), longest=256 * 1024),
    "pdf-text": Target(_extract_text, lambda: _samples_of_kind(FileKind.PDF), longest=256 * 1024),
    "xml": Target(_extract, lambda: _samples_of_kind(FileKind.XML)),
    "mail": Target(_mail, _mails),
    "recipients": Target(_recipients, _mails, longest=8 * 1024),
    "archive": Target(_archive, _archives),
    "image": Target(_image, _images, longest=4 * 1024),
    "pages": Target(_read_pages, _sample_pages),
    "splitting": Target(_split, _sample_pages),
    "answer": Target(
        _answer, lambda: iter([b'{"type": "invoice", "number": "R-17", "total_gross": "119.00"}']), longest=8 * 1024
    ),
    "verdict": Target(
        _verdict,
        lambda: iter([b'```json\n{"matches": [{"candidate": "A", "confidence": "high", "reasoning": "-"}]}\n```']),
        longest=8 * 1024,
    ),
    "message": Target(_message, _messages, longest=8 * 1024),
}
