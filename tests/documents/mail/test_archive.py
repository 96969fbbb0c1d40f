"""Archives are unpacked within bounds, whatever they claim."""

import io
import struct
import zipfile
from typing import Any

import pytest

from counterfoil.documents.mail import archive
from counterfoil.documents.mail.archive import Archive
from counterfoil.documents.mail.attachments import Attachment, Skipped, of_archive
from counterfoil.errors import InvalidDocumentError
from tests.mails import PDF, XML


def packed(*files: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        for name, content in files:
            made.writestr(name, content)
    return buffer.getvalue()


def reasons(content: bytes) -> list[str]:
    return [found.reason for found in of_archive(Archive(content)) if isinstance(found, Skipped)]


def changed(content: bytes, at: bytes, offset: int, value: bytes) -> bytes:
    """The archive with some bytes of each header that begins with `at` overwritten."""
    made, place = bytearray(content), content.find(at)
    while place >= 0:
        made[place + offset : place + offset + len(value)] = value
        place = content.find(at, place + 1)
    return bytes(made)


LOCAL, CENTRAL = b"PK\x03\x04", b"PK\x01\x02"


def test_files_come_in_their_order_without_folders():
    found = list(of_archive(Archive(packed(("2026/", b""), ("2026/b.pdf", PDF), ("a.xml", XML)))))

    assert [(one.name, one.content) for one in found if isinstance(one, Attachment)] == [("b.pdf", PDF), ("a.xml", XML)]


@pytest.mark.parametrize(
    ("name", "shown"),
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
def test_a_name_leads_nowhere(name: str, shown: str):
    (found,) = of_archive(Archive(packed((name, XML))))

    assert found.name == shown


def test_a_name_in_utf_8_that_is_not_declared_as_such_is_read():
    content = packed(("Größe.xml", XML))
    undeclared = changed(changed(content, LOCAL, 6, b"\x00\x00"), CENTRAL, 8, b"\x00\x00")

    (found,) = of_archive(Archive(undeclared))

    assert found.name == "Größe.xml"


def test_what_is_packed_too_tightly_or_is_too_large_is_left_unread():
    tight = packed(("a.pdf", PDF + bytes(3_000_000)))
    large = changed(packed(("a.pdf", PDF)), CENTRAL, 24, struct.pack("<I", archive.MAX_ENTRY_BYTES + 1))

    assert reasons(tight) == ["It is packed more than 200 times, as no document is."]
    assert reasons(large) == ["It is larger than 64 MiB."]


def test_no_more_is_read_than_the_table_of_contents_says():
    bomb = changed(packed(("a.xml", XML + bytes(30_000_000))), CENTRAL, 24, struct.pack("<I", len(XML)))

    assert reasons(bomb) == ["It is damaged."]  # its checksum is that of more


def test_many_files_that_are_large_together_are_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("counterfoil.documents.mail.attachments.MAX_UNPACKED_BYTES", 2 * len(PDF) + 1)

    found = list(of_archive(Archive(packed(*[(f"{n}.pdf", PDF) for n in range(4)]))))

    assert [type(one) for one in found] == [Attachment, Attachment, Skipped, Skipped]


def test_what_is_encrypted_or_packed_otherwise_is_left():
    encrypted = changed(packed(("a.pdf", PDF)), CENTRAL, 8, b"\x01\x00")

    assert reasons(encrypted) == ["It is encrypted."]
    assert reasons(packed(("a.pdf", PDF), method=zipfile.ZIP_LZMA)) == ["It is packed by a method that is not read."]


def test_one_damaged_file_leaves_the_others():
    content = packed(("a.pdf", PDF), ("b.xml", XML), method=zipfile.ZIP_STORED)
    damaged = content.replace(PDF, PDF[:-1] + b"?")

    found = list(of_archive(Archive(damaged)))

    assert [one.name for one in found if isinstance(one, Attachment)] == ["b.xml"]
    assert [one.reason for one in found if isinstance(one, Skipped)] == ["It is damaged."]


def test_an_archive_of_too_many_files_is_refused_whole():
    with pytest.raises(InvalidDocumentError, match="more than 500 files"):
        Archive(packed(*[(f"{n}.xml", b"") for n in range(501)]))


def test_a_table_of_contents_made_to_fill_memory_is_refused():
    entry = struct.pack("<4s4B4HL2L5H2L", CENTRAL, 20, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    directory = entry * 30_000
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), 4, 0)  # it claims one entry

    with pytest.raises(InvalidDocumentError, match="damaged or too large"):
        Archive(LOCAL + directory + end)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", packed(("a.pdf", PDF))[:-5], b"PK\x05\x06" + bytes(17)])
def test_what_is_no_whole_archive_is_refused(content: bytes):
    with pytest.raises(InvalidDocumentError, match="damaged"):
        Archive(content)


@pytest.mark.parametrize("name", ["[Content_Types].xml", "mimetype", "META-INF/MANIFEST.MF"])
def test_an_office_document_is_known_by_its_own_table_of_contents(name: str):
    files: Any = ((name, b"x"), ("content.xml", XML))

    assert Archive(packed(*files)).is_office_document
    assert not Archive(packed(("invoice.xml", XML))).is_office_document
