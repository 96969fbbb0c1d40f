"""Email headers and file names are decoded, even if they are malformed."""

import base64

import pytest

from counterfoil.documents.mail.attachments import Attachment, mail_attachments
from counterfoil.documents.mail.message import MAIL_TOO_COMPLEX, MAX_MAIL_BYTES, envelope, is_mail, parse
from counterfoil.errors import CancelledError, InvalidDocumentError
from tests.mail_factory import LOGO, PDF, XML, mail, received_mail

HEAD = b"From: a@nordwind.example\r\nTo: b@acme.example\r\nSubject: Rechnung\r\n"


@pytest.mark.parametrize(
    ("spelling", "read"),
    [
        (b"Rechnung 17", "Rechnung 17"),
        (b"=?utf-8?q?Gr=C3=B6=C3=9Fe?= =?utf-8?b?IOKCrA==?=", "Größe €"),
        (b"=?iso-8859-1?q?Gr=F6=DFe?=", "Größe"),
        ("Größe €".encode(), "Größe €"),
        ("Größe".encode("latin-1"), "Größe"),
        (b"=?no-such-charset?q?abc?=", "abc"),
        (b"=?unicode_escape?q?=5Cs?= =?Raw-Unicode-Escape?q?=5Cu0041?=", "\\s\\u0041"),
        (b"=?utf-8?b?!?=x", "x"),
        (b"folded\r\n over\r\n\tlines", "folded over lines"),
        (b"tab\tand\x00null\x1b[31m", "tab and null [31m"),
        (b"=?utf-8?q?one=0D=0ABcc:_two?=", "one Bcc: two"),
        ("invoice \u202efdp\u2066.exe".encode(), "invoice fdp.exe"),
        (b"", ""),
    ],
)
def test_subject_is_decoded_and_sanitized(spelling: bytes, read: str):
    headers = envelope(parse(b"From: a@b.example\r\nSubject: " + spelling + b"\r\n\r\nText"))

    assert headers.subject == read


@pytest.mark.parametrize(
    ("spelling", "read"),
    [
        (b"<17@nordwind.example>", "17@nordwind.example"),
        (b" \r\n <17@nordwind.example> (a comment)", "17@nordwind.example"),
        (b"17@nordwind.example", ""),
        (b"<>", ""),
        (b"<two words@x>", ""),
        (b"<" + b"x" * 2000 + b">", ""),
    ],
)
def test_message_id_is_read_between_brackets(spelling: bytes, read: str):
    assert envelope(parse(HEAD + b"Message-ID: " + spelling + b"\r\n\r\n")).message_id == read


def test_missing_headers_are_empty():
    headers = envelope(parse(b"To: x@y.example\r\n\r\nText"))

    assert (headers.sender, headers.subject, headers.message_id, headers.refusal) == ("", "", "", None)


@pytest.mark.parametrize(
    ("spam", "virus", "word"),
    [("PASS", "FAIL", "virus"), ("FAIL", "PASS", "spam"), ("GRAY", "PROCESSING_FAILED", None)],
)
def test_only_a_failed_ses_verdict_refuses_mail(spam: str, virus: str, word: str | None):
    refusal = envelope(parse(received_mail(mail(), spam=spam, virus=virus))).refusal

    assert (refusal is None) if word is None else word in (refusal or "")


def test_forged_verdict_does_not_override_ses():
    content = received_mail(b"X-SES-Spam-Verdict: PASS\r\n" + mail().as_bytes(), spam="FAIL")

    assert envelope(parse(content)).refusal is not None


@pytest.mark.parametrize(
    "content",
    [
        mail().as_bytes(),
        received_mail(mail()),
        b"From bob@x.example Fri Jan  2 03:04:05 2026\n" + mail().as_bytes(),
        b"Date: today\rFrom: a@b.example\r\rText",
        b"Subject: only a header\nFrom: a@b.example",
    ],
)
def test_mail_is_detected_by_its_header(content: bytes):
    assert is_mail(content)


def test_mail_with_long_header_is_detected():
    long = b"Received: x\r\n" + b"".join(b"X-Field-%d: %s\r\n" % (n, b"y" * 60) for n in range(2000))

    assert is_mail(b"From: a@b.example\r\n" + long)
    assert not is_mail(long + b"From: a@b.example\r\n")


@pytest.mark.parametrize(
    "content",
    [
        *(PDF, XML, LOGO, b"", b"\n\n", b"PK\x03\x04"),
        *(b"Dear all,\nFrom: me\nTo: you\n", b"From: me\n\nhello", b"key: value\nother: value\n"),
        b"From: me\nno field at all\nTo: you\n\n",
    ],
)
def test_other_content_is_not_an_email(content: bytes):
    assert not is_mail(content)


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        (b'attachment; filename="Rechnung 17.pdf"', "Rechnung 17.pdf"),
        (b"attachment; filename*=utf-8''Gr%C3%B6%C3%9Fe%20%E2%82%AC.pdf", "Größe €.pdf"),
        (b"attachment; filename*=iso-8859-1'de'Gr%F6%DFe.pdf", "Größe.pdf"),
        (b"attachment; filename*0*=utf-8''Gr%C3%B6; filename*1*=%C3%9Fe; filename*2=.pdf", "Größe.pdf"),
        (b'attachment; filename="=?utf-8?q?Gr=C3=B6=C3=9Fe=2Epdf?="', "Größe.pdf"),
        (b'attachment; filename="=?utf-8?b?R3LDtg==?=\r\n =?utf-8?b?w59lLnBkZg==?="', "Größe.pdf"),
        ('attachment; filename="Größe.pdf"'.encode(), "Größe.pdf"),
        ('attachment; filename="Größe.pdf"'.encode("latin-1"), "Größe.pdf"),
        (b'attachment; filename="../../etc/passwd"', "passwd"),
        (rb'attachment; filename="C:\\Users\\x\\a.pdf"', "a.pdf"),
        (b"attachment; filename=a;b.pdf", "a"),
        (b'attachment; filename="..";', "attachment 1.pdf"),
        (b"attachment; filename*=no-such-charset''a.pdf", "a.pdf"),
        (b"attachment", "attachment 1.pdf"),
        (b'attachment; filename="\xe2\x80\xaefdp.exe"', "fdp.exe"),
        (b'attachment; filename="a\x00b\x07.pdf"', "ab.pdf"),
    ],
)
def test_file_name_is_decoded_and_sanitized(disposition: bytes, name: str):
    content = (
        HEAD + b"Content-Type: application/octet-stream\r\nContent-Disposition: " + disposition + b"\r\n\r\n" + PDF
    )

    (attachment,) = mail_attachments(parse(content))

    assert isinstance(attachment, Attachment)
    assert attachment.name == name


@pytest.mark.parametrize(
    "encoding", [b"base64", b"BASE64", b"base64 ", b" base64\t", b"base64 (as sent)", b'"base64"', b"base64;"]
)
def test_transfer_encoding_variants_are_decoded(encoding: bytes):
    head = HEAD + b"Content-Disposition: attachment; filename=a.pdf\r\nContent-Transfer-Encoding: " + encoding
    (attachment,) = mail_attachments(parse(head + b"\r\n\r\n" + base64.b64encode(PDF)))

    assert isinstance(attachment, Attachment)
    assert attachment.content == PDF


def test_content_type_name_is_the_fallback_file_name():
    content = HEAD + b'Content-Type: application/pdf; name="a.pdf"\r\nContent-Disposition: attachment\r\n\r\n' + PDF

    (attachment,) = mail_attachments(parse(content))

    assert attachment.name == "a.pdf"


@pytest.mark.parametrize(
    "content",
    [
        HEAD + b"\r\n" + b"\n" * 1_000_001,
        HEAD + b"Content-Type: multipart/mixed; boundary=x\r\n\r\n" + b"--x\n\n" * 10_001,
        HEAD
        + b"".join(b"Content-Type: multipart/mixed; boundary=x%d\n\n--x%d\n" % (n, n) for n in range(40))
        + b"a\n" * 900_000,
        HEAD + b"".join(b"Content-Type: multipart/mixed; boundary=x%d\n\n--x%d\n" % (n, n) for n in range(2000)),
        HEAD + b"Content-Type: message/rfc822\n\n" * 5000,
    ],
    ids=["lines", "boundaries", "lines times multiparts", "deep multiparts", "deep mails"],
)
def test_overly_complex_mail_is_rejected(content: bytes):
    with pytest.raises(InvalidDocumentError, match=MAIL_TOO_COMPLEX):
        parse(content)


def test_mail_above_ses_size_limit_is_rejected():
    with pytest.raises(InvalidDocumentError, match="larger than 40 MiB"):
        parse(HEAD + b"\r\n" + bytes(MAX_MAIL_BYTES))


def test_callback_can_cancel_parsing():
    def check() -> None:
        raise CancelledError("Stopped")

    with pytest.raises(CancelledError):
        parse(mail().as_bytes(), check)
