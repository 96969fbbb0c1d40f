"""PDFs are read within limits, and damaged, encrypted or empty PDFs are rejected."""

import io
import zlib

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject, TextStringObject

from counterfoil.documents import pdf
from counterfoil.documents.einvoice.xml import MAX_XML_BYTES
from counterfoil.documents.pdf import EmbeddedXml, embedded_xml
from counterfoil.errors import InvalidDocumentError
from tests.documents.einvoice_samples import pdf as make_pdf
from tests.documents.einvoice_samples import write_pdf


def test_only_embedded_xml_is_returned():
    content = make_pdf(files=(("rapport.pdf", b"%PDF-"), ("factur-x.xml", b"<a/>"), ("Anlage.XML", b"<b/>")))
    assert embedded_xml(content) == [EmbeddedXml("Anlage.XML", b"<b/>"), EmbeddedXml("factur-x.xml", b"<a/>")]


def test_plain_pdf_contains_no_xml():
    assert embedded_xml(make_pdf(text="Rechnung 17")) == []


def test_associated_file_is_returned():
    writer = PdfWriter(io.BytesIO(make_pdf()))
    stream = DecodedStreamObject()
    stream.set_data(b"<a/>")
    files = DictionaryObject({NameObject("/F"): writer._add_object(stream)})
    specification = DictionaryObject({NameObject("/UF"): TextStringObject("factur-x.xml"), NameObject("/EF"): files})
    writer.root_object[NameObject("/AF")] = ArrayObject([writer._add_object(specification)])
    assert embedded_xml(write_pdf(writer)) == [EmbeddedXml("factur-x.xml", b"<a/>")]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_truncated_pdf_is_rejected(share: float):
    content = make_pdf(text="Rechnung 17", files=(("factur-x.xml", b"<a/>" * 500),))
    with pytest.raises(InvalidDocumentError, match="truncated"):
        embedded_xml(content[: int(len(content) * share)])


def test_padding_after_the_end_is_ignored():
    assert embedded_xml(make_pdf(files=(("factur-x.xml", b"<a/>"),)) + bytes(5_000) + b"\r\n") != []


def test_damaged_pdf_is_rejected():
    damaged = b"%PDF-1.7\n" + bytes(range(256)) * 20 + b"startxref\n9\n%%EOF"
    with pytest.raises(InvalidDocumentError, match="damaged"):
        embedded_xml(damaged)


@pytest.mark.parametrize(
    "header",
    [b"17 0 obj<<", b"17 0 obj\r\n  <<", b"17\r0\tobj\n<<", b"  17 0 obj<<", b"% note\n17 0 obj <<", b"17 0 obj\0<<"],
)
def test_object_header_is_parsed_as_in_pypdf(header: bytes) -> None:
    content = make_pdf() + b"\n" + header + b" >>"
    result = []
    for reader in (pdf._Reader(content), PdfReader(io.BytesIO(content), strict=False)):
        reader.stream.seek(len(content) - len(header) - 3)
        result.append((reader.read_object_header(reader.stream), reader.stream.tell()))

    assert result[0] == result[1]
    assert result[0][0] == (17, 0)


@pytest.mark.parametrize("header", [b"seventeen 0 obj <<", b""])
def test_position_without_object_header_is_rejected(header: bytes) -> None:
    content = make_pdf() + b"\n" + header
    reader = pdf._Reader(content)
    reader.stream.seek(len(content) - len(header))

    with pytest.raises(ValueError, match="Invalid indirect object reference"):
        reader.read_object_header(reader.stream)


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
@pytest.mark.parametrize("password", ["secret", ""])
def test_encrypted_pdf_is_rejected_even_without_user_password(algorithm: str, password: str):
    writer = PdfWriter(io.BytesIO(make_pdf(text="Rechnung 17")))
    writer.encrypt(password, "owner", algorithm=algorithm)
    with pytest.raises(InvalidDocumentError, match="encrypted"):
        embedded_xml(write_pdf(writer))


def test_pdf_without_pages_is_rejected():
    with pytest.raises(InvalidDocumentError, match="no pages"):
        embedded_xml(write_pdf(PdfWriter()))


def test_too_many_pages_are_rejected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pdf, "MAX_PAGES", 5)
    assert embedded_xml(make_pdf(pages=4)) == []
    with pytest.raises(InvalidDocumentError, match="more than 5 pages"):
        embedded_xml(make_pdf(pages=6))


def test_too_many_embedded_files_are_rejected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pdf, "MAX_EMBEDDED_FILES", 3)
    files = tuple((f"{n}.txt", b"") for n in range(4))
    assert embedded_xml(make_pdf(files=files[:3])) == []
    with pytest.raises(InvalidDocumentError, match="more than 3 embedded files"):
        embedded_xml(make_pdf(files=files))


def test_decompression_bomb_is_rejected():
    bomb = zlib.compress(bytes(MAX_XML_BYTES * 2), 9)
    writer = PdfWriter(io.BytesIO(make_pdf(files=(("factur-x.xml", b"<a/>"),))))
    for stream in (item for item in writer._objects if isinstance(item, DecodedStreamObject)):
        if stream.get("/Type") == "/EmbeddedFile":
            stream.set_data(bomb)
            stream[NameObject("/Filter")] = NameObject("/FlateDecode")
    content = write_pdf(writer)
    assert len(content) < 200_000
    with pytest.raises(InvalidDocumentError, match="unpacks to too much data"):
        embedded_xml(content)


def test_damaged_pdf_content_is_not_logged(caplog: pytest.LogCaptureFixture):
    writer = PdfWriter(io.BytesIO(make_pdf()))
    writer.root_object[NameObject("/Names")] = ArrayObject([TextStringObject("a secret")])
    assert embedded_xml(write_pdf(writer)) == []
    assert caplog.messages == []
