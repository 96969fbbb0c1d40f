"""ZIP archives are unpacked within limits, even if their headers are forged."""

import io
import struct
import zipfile
from typing import Any

import pytest

from counterfoil.documents.mail import archive
from counterfoil.documents.mail.archive import Archive
from counterfoil.documents.mail.attachments import Attachment, SkippedAttachment, archive_attachments
from counterfoil.errors import InvalidDocumentError
from tests.mail_factory import PDF, XML


def zip_of(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in files:
            file.writestr(name, content)
    return buffer.getvalue()


def reasons(content: bytes) -> list[str]:
    return [
        attachment.reason
        for attachment in archive_attachments(Archive(content))
        if isinstance(attachment, SkippedAttachment)
    ]


def overwrite(content: bytes, at: bytes, offset: int, value: bytes) -> bytes:
    """Write `value` at `offset` in each header that starts with `at`."""
    data, position = bytearray(content), content.find(at)
    while position >= 0:
        data[position + offset : position + offset + len(value)] = value
        position = content.find(at, position + 1)
    return bytes(data)


LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"


def test_files_are_returned_in_order_without_folders():
    attachments = list(archive_attachments(Archive(zip_of(("2026/", b""), ("2026/b.pdf", PDF), ("a.xml", XML)))))

    assert [(item.name, item.content) for item in attachments if isinstance(item, Attachment)] == [
        ("b.pdf", PDF),
        ("a.xml", XML),
    ]


@pytest.mark.parametrize(
    ("name", "displayed"),
    [
        ("../../../etc/passwd", "passwd"),
        ("/etc/cron.d/x.xml", "x.xml"),
        ("C:\\Windows\\a.xml", "a.xml"),
        ("..\\..\\a.xml", "a.xml"),
        ("a\x1b[2J.xml", "a[2J.xml"),
        ("Größe €.xml", "Größe €.xml"),
        ("....", "attachment 1.xml"),
        ("x" * 400 + ".xml", "x" * 146 + ".xml"),
    ],
)
def test_archive_file_name_is_sanitized(name: str, displayed: str):
    (attachment,) = archive_attachments(Archive(zip_of((name, XML))))

    assert attachment.name == displayed


def test_undeclared_utf_8_name_is_decoded():
    content = zip_of(("Größe.xml", XML))
    undeclared = overwrite(overwrite(content, LOCAL, 6, b"\x00\x00"), CENTRAL, 8, b"\x00\x00")

    (attachment,) = archive_attachments(Archive(undeclared))

    assert attachment.name == "Größe.xml"


def test_file_over_ratio_or_size_limit_is_skipped():
    compressed = zip_of(("a.pdf", PDF + bytes(3_000_000)))
    large = overwrite(zip_of(("a.pdf", PDF)), CENTRAL, 24, struct.pack("<I", archive.MAX_ENTRY_BYTES + 1))

    assert reasons(compressed) == ["Its compression ratio exceeds 200, which is implausible for a document."]
    assert reasons(large) == ["It is larger than 64 MiB."]


def test_file_larger_than_declared_is_skipped():
    bomb = overwrite(zip_of(("a.xml", XML + bytes(30_000_000))), CENTRAL, 24, struct.pack("<I", len(XML)))

    assert reasons(bomb) == ["It is damaged."]  # the checksum covers more bytes than the declared size


def test_files_beyond_total_size_limit_are_skipped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("counterfoil.documents.mail.attachments.MAX_UNPACKED_BYTES", 2 * len(PDF) + 1)

    attachments = list(archive_attachments(Archive(zip_of(*[(f"{n}.pdf", PDF) for n in range(4)]))))

    assert [type(item) for item in attachments] == [Attachment, Attachment, SkippedAttachment, SkippedAttachment]


def test_encrypted_or_lzma_file_is_skipped():
    encrypted = overwrite(zip_of(("a.pdf", PDF)), CENTRAL, 8, b"\x01\x00")

    assert reasons(encrypted) == ["It is encrypted."]
    assert reasons(zip_of(("a.pdf", PDF), method=zipfile.ZIP_LZMA)) == ["Its compression method is not supported."]


def test_damaged_file_does_not_affect_other_files():
    content = zip_of(("a.pdf", PDF), ("b.xml", XML), method=zipfile.ZIP_STORED)
    damaged = content.replace(PDF, PDF[:-1] + b"?")

    attachments = list(archive_attachments(Archive(damaged)))

    assert [item.name for item in attachments if isinstance(item, Attachment)] == ["b.xml"]
    assert [item.reason for item in attachments if isinstance(item, SkippedAttachment)] == ["It is damaged."]


def test_archive_with_too_many_files_is_rejected():
    with pytest.raises(InvalidDocumentError, match="more than 500 files"):
        Archive(zip_of(*[(f"{n}.xml", b"") for n in range(501)]))


def test_oversized_central_directory_is_rejected():
    entry = struct.pack("<4s4B4HL2L5H2L", CENTRAL, 20, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    directory = entry * 30_000
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), 4, 0)  # the header claims one entry

    with pytest.raises(InvalidDocumentError, match="damaged or too large"):
        Archive(LOCAL + directory + end)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", zip_of(("a.pdf", PDF))[:-5], b"PK\x05\x06" + bytes(17)])
def test_incomplete_archive_is_rejected(content: bytes):
    with pytest.raises(InvalidDocumentError, match="damaged"):
        Archive(content)


@pytest.mark.parametrize("name", ["[Content_Types].xml", "mimetype", "META-INF/MANIFEST.MF"])
def test_office_document_is_detected_by_its_entries(name: str):
    files: Any = ((name, b"x"), ("content.xml", XML))

    assert Archive(zip_of(*files)).is_office_document
    assert not Archive(zip_of(("invoice.xml", XML))).is_office_document
