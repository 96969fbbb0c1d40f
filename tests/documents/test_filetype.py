"""File types are detected from file content."""

import io
import zipfile

import pytest
from lxml import etree

from counterfoil.documents.filetype import Dialect, FileKind, recognize, recognize_dialect
from tests.documents.einvoice_samples import cii_invoice, pdf, ubl_invoice


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("invoice.xml", "<Invoice/>")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (pdf(), FileKind.PDF),
        (b"\r\n junk before the header\n" + pdf(), FileKind.PDF),
        (ubl_invoice(), FileKind.XML),
        (b"\xef\xbb\xbf" + ubl_invoice(), FileKind.XML),
        (b"\n  <!-- sent by hand --><Invoice/>", FileKind.XML),
        ("<Invoice/>".encode("utf-16"), FileKind.XML),
        ("\n <Invoice/>".encode("utf-16"), FileKind.XML),
        (b"\xfe\xff" + "\r\n<Invoice/>".encode("utf-16-be"), FileKind.XML),
        ("<Invoice/>".encode("utf-32"), FileKind.XML),
        ("<?xml version='1.0'?><Invoice/>".encode("utf-16-be"), FileKind.XML),
        (b"\x89PNG\r\n\x1a\n\x00\x00", FileKind.IMAGE),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", FileKind.IMAGE),
        (b"II*\x00\x08\x00", FileKind.IMAGE),
        (b"RIFF\x10\x00\x00\x00WEBPVP8 ", FileKind.IMAGE),
        (archive(), FileKind.ZIP),
        (b"<!DOCTYPE html><html><body>Rechnung</body></html>", FileKind.UNKNOWN),
        (b"Dear Sir or Madam,\n", FileKind.UNKNOWN),
        (b"\x00\x01\x02", FileKind.UNKNOWN),
        (b"", FileKind.UNKNOWN),
    ],
)
def test_file_kind_is_detected_from_first_bytes(content: bytes, kind: FileKind):
    assert recognize(content) is kind


@pytest.mark.parametrize(
    ("root", "dialect"),
    [
        (ubl_invoice(), Dialect.UBL),
        (cii_invoice(), Dialect.CII),
        (b'<r:CrossIndustryDocument xmlns:r="urn:ferd:CrossIndustryDocument:invoice:1p0"/>', Dialect.ZUGFERD_1),
        (b'<r:Invoice xmlns:r="urn:un:unece:uncefact:data:standard:CBFBUY:5"/>', Dialect.ZUGFERD_1),
        (
            b"<r:SCRDMCCBDACIOMessageStructure"
            b' xmlns:r="urn:un:unece:uncefact:data:SCRDMCCBDACIOMessageStructure:100"/>',
            Dialect.ORDER_X,
        ),
        (
            b'<p:FatturaElettronica xmlns:p="http://ivaservizi.agenziaentrate.gov.it/docs/xsd/fatture/v1.2"/>',
            Dialect.FATTURAPA,
        ),
        (b'<FatturaElettronica xmlns="http://www.fatturapa.gov.it/sdi/fatturapa/v1.1"/>', Dialect.FATTURAPA),
        (b"<Invoice/>", Dialect.OTHER),
        (b'<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-1"/>', Dialect.OTHER),
    ],
)
def test_dialect_is_detected_from_root_element(root: bytes, dialect: Dialect):
    assert recognize_dialect(etree.fromstring(root)) is dialect
