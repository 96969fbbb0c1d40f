"""Emails and archives yield files or a known error, within resource limits."""

import io
import subprocess
import sys
import textwrap
import zipfile
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil.documents.mail import attachments, message
from counterfoil.documents.mail.archive import Archive
from counterfoil.documents.mail.attachments import (
    MAX_DEPTH,
    Attachment,
    MailPart,
    SkippedAttachment,
    archive_attachments,
    mail_attachments,
)
from counterfoil.documents.mail.message import envelope, parse, recipients
from counterfoil.errors import CounterfoilError, InvalidDocumentError
from tests.documents.mail.test_archive import zip_of
from tests.mail_factory import LOGO, PDF, SCAN, XML, mail, received_mail

ROOT = Path(__file__).parents[3]


def names(attachment: list[MailPart]) -> list[str]:
    return [item.name for item in attachment if isinstance(item, Attachment)]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("winmail.dat", bytes.fromhex("789f3e22 0100 0190"), attachments.OUTLOOK_ATTACHMENTS),
        ("smime.p7m", bytes.fromhex("3080 06092a864886f70d010702 a080"), attachments.SIGNED_OR_ENCRYPTED),
        ("smime.p7m", bytes.fromhex("30820a1b 06092a864886f70d010703 a082"), attachments.SIGNED_OR_ENCRYPTED),
    ],
)
def test_unreadable_container_is_skipped_with_a_reason(name: str, content: bytes, reason: str):
    (attachment,) = mail_attachments(parse(mail((name, content)).as_bytes()))

    assert attachment == SkippedAttachment(name, len(content), reason)


def test_nested_emails_are_opened_up_to_max_depth():
    inner_mail = mail((None, PDF))
    for _ in range(MAX_DEPTH):
        outer = mail()
        outer.add_attachment(inner_mail)
        inner_mail = outer

    attachment = list(mail_attachments(parse(inner_mail.as_bytes())))

    assert [item.reason for item in attachment if isinstance(item, SkippedAttachment)] == [
        attachments.NESTED_TOO_DEEPLY
    ]
    content = inner_mail.get_payload()[-1].get_payload()[0].as_bytes()  # type: ignore[index,union-attr]
    assert names(list(mail_attachments(parse(content)))) == ["attachment 1.pdf"]


@pytest.mark.parametrize("declared", ["application/octet-stream", "message/rfc822"])
def test_base64_mail_is_opened_regardless_of_type(declared: str):
    outer = parse(
        b"From: a@b.example\r\nContent-Type: " + declared.encode() + b'; name="m.eml"\r\n'
        b"Content-Transfer-Encoding: base64\r\n\r\n" + _base64(mail(("a.pdf", PDF)).as_bytes())
    )

    assert names(list(mail_attachments(outer))) == ["a.pdf"]


def _base64(content: bytes) -> bytes:
    import base64

    return base64.encodebytes(content)


def test_file_type_is_detected_from_content():
    attachment = list(mail_attachments(parse(mail(("a.txt", PDF), ("b.pdf", b"no pdf"), ("c.jpg", XML)).as_bytes())))

    assert [(item.name, item.kind) for item in attachment if isinstance(item, Attachment)] == [
        ("a.txt", "pdf"),
        ("c.jpg", "xml"),
    ]


def test_pdf_as_mail_body_is_an_attachment():
    wrapped = EmailMessage()
    wrapped["From"] = "scanner@acme.example"
    wrapped.set_content(PDF, "application", "pdf")

    assert names(list(mail_attachments(parse(wrapped.as_bytes())))) == ["attachment 1.pdf"]


def test_inline_scan_is_returned_and_logo_ignored():
    attachment = list(mail_attachments(parse(mail(inline=[("logo.png", LOGO), ("scan.png", SCAN)]).as_bytes())))

    assert names(attachment) == ["scan.png"]


def test_mail_with_too_many_files_is_rejected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attachments, "MAX_FILES", 3)

    with pytest.raises(InvalidDocumentError, match="more than 3 files"):
        list(mail_attachments(parse(mail(*[(f"{n}.pdf", PDF) for n in range(4)]).as_bytes())))


# Arbitrary input

SEEDS = [
    received_mail(mail(("Rechnung Müller € 17.pdf", PDF), ("a.zip", zip_of(("a.xml", XML))), inline=[("l.png", LOGO)])),
    received_mail(mail(("b.eml", mail((None, PDF)).as_bytes()), subject="Größe €", message_id=None)),
]
ARCHIVE = zip_of(("2026/a.xml", XML), ("b.pdf", PDF), ("m.eml", mail(("x.pdf", PDF)).as_bytes()))
TOKENS = [
    *(b"Content-Type: message/rfc822\n\n", b'Content-Type: multipart/mixed; boundary=""\n', b"multipart/related"),
    *(b"=?utf-8?b?", b"?=", b"=?unknown-8bit?q?a?=", b"filename*0*=", b"name*=", b"utf-8''%ff", b"charset=idna"),
    *(b"charset=undefined", b"Content-Transfer-Encoding: ", b"base64", b"x-uuencode", b"begin 666 a\n", b"--", b"("),
    *(b"Content-Disposition: inline", b'"', b"; ", b"\x00", b"\xff", b"\r", b"\n", b"\xed\xa0\x80", b"PK\x03\x04"),
]


@st.composite
def mutations(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Draw a seed file with random pieces removed, repeated, overwritten or inserted."""
    content = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(content)))
        end = draw(st.integers(at, min(len(content), at + 200)))
        piece = draw(
            st.one_of(st.sampled_from(TOKENS), st.binary(max_size=8), st.just(content[at:end] * 2), st.just(b""))
        )
        content = content[:at] + piece + content[end:]
    return content


def check(attachment: list[MailPart]) -> None:
    for item in attachment:
        item.name.encode()
        assert item.name == item.name.strip(" .")
        assert not set(item.name) & set("/\\\x00\r\n\u202e")
        assert 0 < len(item.name) <= 150


fuzzing = settings(max_examples=300, deadline=2000, suppress_health_check=[HealthCheck.too_slow])


@fuzzing
@given(st.one_of(mutations(SEEDS), st.binary(max_size=500)))
def test_any_mail_bytes_parse_or_raise_known_error(content: bytes):
    try:
        for address in recipients(content):
            assert address.isascii()
        parsed = parse(content)
        header = envelope(parsed)
        for text in (header.sender, header.subject, header.message_id):
            assert "\x00" not in text
            assert len(text.splitlines()) <= 1
            text.encode()
        check(list(mail_attachments(parsed)))
    except CounterfoilError:
        pass


@fuzzing
@given(st.one_of(mutations([ARCHIVE]), st.binary(max_size=500).map(lambda end: b"PK\x03\x04" + end)))
def test_any_archive_bytes_unpack_or_raise_known_error(content: bytes):
    with suppress(CounterfoilError):
        check(list(archive_attachments(Archive(content))))


@fuzzing
@given(st.lists(st.tuples(st.text(max_size=40), st.binary(min_size=1, max_size=200)), max_size=6))
def test_every_archive_file_is_returned_or_skipped(files: list[tuple[str, bytes]]):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for number, (name, content) in enumerate(files):
            file.writestr(f"{number}{name.encode(errors='replace').decode()}x", content)

    attachment = list(archive_attachments(Archive(buffer.getvalue())))

    check(attachment)
    assert len(attachment) >= len(files)
    sizes = [len(item.content) if isinstance(item, Attachment) else item.size for item in attachment]
    assert sorted(sizes) == sorted(len(content) for _, content in files)


# Hostile input, each case in a separate process

HOSTILE = {
    "a 40 MB mail": "head + pdf + b'Content-Transfer-Encoding: base64\\n\\n' + (b'JVBE' * 19 + b'\\r\\n') * 525_000",
    "short lines of raw bytes": "head + pdf + b'\\n' + b'\\xff\\n' * 990_000 + b'\\xff' * 37_000_000",
    "a header with 950,000 fields": "head + b'a: b\\n' * 950_000 + b'\\n'",
    "quadratic parameters": "head + (b'Content-Type: a/b' + b';\"' * 2000 + b'\\n') * 9_000 + b'\\n'",
    "parts with quadratic parameters": "head + b'Content-Type: multipart/mixed; boundary=x\\n\\n'"
    " + (b'--x\\nContent-Disposition: attachment' + b';\"' * 1900 + b'\\n\\n%PDF-1\\n') * 9_900",
    "nested multiparts": "head + b''.join(b'Content-Type: multipart/mixed; boundary=x%d\\n\\n--x%d\\n' % (i, i)"
    " for i in range(30)) + b'\\n' + b'a\\n' * 990_000",
    "a nested mail with short lines": "head + pdf + b'Content-Transfer-Encoding: base64\\n\\n'"
    " + b64encode(head + pdf + b'\\n' + b'\\xff\\n' * 990_000 + b'\\xff' * 24_000_000)",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_mail_stays_within_memory_and_time_limits(name: str):
    script = f"""
        import time
        from base64 import b64encode
        from counterfoil.documents.mail import attachments, message
        from counterfoil.errors import CounterfoilError
        from tests.peak_memory import peak_megabytes

        head, pdf = b"From: a@b.example\\nTo: c@d.example\\n", b"Content-Type: application/pdf; name=a.pdf\\n"
        content = {HOSTILE[name]}
        assert len(content) <= message.MAX_MAIL_BYTES
        began = time.process_time()
        try:
            message.recipients(content)
            parsed = message.parse(content)
            message.envelope(parsed)
            for found in attachments.mail_attachments(parsed):
                pass
        except CounterfoilError:
            pass
        print(time.process_time() - began, peak_megabytes())
    """
    completed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=True, capture_output=True, text=True, cwd=ROOT
    )

    seconds, megabytes = map(float, completed.stdout.split())
    assert seconds < 10
    assert megabytes < 512


def test_container_is_detected_from_first_bytes():
    assert attachments.is_container(ARCHIVE)
    assert attachments.is_container(SEEDS[0])
    assert not attachments.is_container(PDF)
    assert message.HEAD_BYTES <= 1024 * 1024  # only these bytes are read to detect the type
