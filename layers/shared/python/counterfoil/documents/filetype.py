"""Detects file types and e-invoice dialects by content, and limits file sizes."""

import codecs
import re
from enum import StrEnum

from lxml import etree

from counterfoil.errors import InvalidDocumentError

MAX_FILE_BYTES = 100 * 1024 * 1024
_PDF_HEADER_WITHIN = 1024  # readers accept a PDF header anywhere in the first KiB: ISO 32000-1, annex H, note 13
_XML_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml|!--|!DOCTYPE|[A-Za-z_:\x80-\xff])")
_XML_START_UTF16 = re.compile(
    rb"\xff\xfe(?:[ \t\r\n]\x00)*<\x00|\xfe\xff(?:\x00[ \t\r\n])*\x00<|<\x00\?\x00|\x00<\x00\?"
)
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)  # treated as XML, so that the XML parser rejects it with a reason
_HTML_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html[\s>])", re.IGNORECASE)
_IMAGE = re.compile(
    rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|II[*+]\x00|MM\x00[*+]|BM.{4}\x00{4}|RIFF.{4}WEBP|.{4}ftyp(?:hei|hev|mif|avif)",
    re.DOTALL,
)
_ZIP_START = (b"PK\x03\x04", b"PK\x05\x06")


class FileKind(StrEnum):
    """Type of a file. `UNKNOWN` includes HTML."""

    PDF = "pdf"
    XML = "xml"
    IMAGE = "image"
    ZIP = "zip"
    UNKNOWN = "unknown"


class Dialect(StrEnum):
    """The vocabulary of an XML document."""

    UBL = "ubl"
    """OASIS Universal Business Language 2.x, including XRechnung and Peppol."""
    CII = "cii"
    """UN/CEFACT Cross Industry Invoice D16B and later: Factur-X, ZUGFeRD 2, XRechnung."""
    ZUGFERD_1 = "zugferd-1"
    """ZUGFeRD 1.0 and its release candidate, older forms of the Cross Industry Invoice."""
    ORDER_X = "order-x"
    """UN/CEFACT Cross Industry Order, as used by Order-X."""
    FATTURAPA = "fatturapa"
    """The Italian FatturaPA, versions 1.0 to 1.2."""
    OTHER = "other"
    """XML that Counterfoil does not support."""


def recognize(content: bytes) -> FileKind:
    """Return the type of a file, detected from its first bytes."""
    head = content[:_PDF_HEADER_WITHIN]
    if _HTML_START.match(head):
        return FileKind.UNKNOWN
    if _XML_START.match(head) or _XML_START_UTF16.match(head) or head.startswith(_UTF32):
        return FileKind.XML
    if _IMAGE.match(head):
        return FileKind.IMAGE
    if head.startswith(_ZIP_START):
        return FileKind.ZIP
    return FileKind.PDF if b"%PDF-" in head else FileKind.UNKNOWN


def check_size(size: int) -> None:
    """Reject a file that is empty or larger than `MAX_FILE_BYTES`.

    Raises:
        InvalidDocumentError: the file is empty or too large.
    """
    if size == 0:
        message = "The file is empty; send it again."
        raise InvalidDocumentError(message, code="empty_file")
    if size > MAX_FILE_BYTES:
        limit = MAX_FILE_BYTES // 1024**2
        message = f"The file is larger than {limit} MiB; split it, or send its attachments as separate files."
        raise InvalidDocumentError(message, code="file_too_large")


def misnamed(name: str, kind: FileKind) -> str | None:
    """Return an error text for a file that is named .pdf but is not a PDF.

    Returns None for any other file, and for an image that is named .pdf.
    """
    if kind in {FileKind.PDF, FileKind.IMAGE} or not name.casefold().endswith(".pdf"):
        return None
    return "The file is named .pdf, but it is not a PDF; send the original file."


ROOTS = (
    (r"\{urn:oasis:names:specification:ubl:schema:xsd:\w+-2\}\w+", Dialect.UBL),
    (r"\{urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:\d+\}CrossIndustryInvoice", Dialect.CII),
    (r"\{urn:ferd:CrossIndustryDocument:[^}]*\}CrossIndustryDocument", Dialect.ZUGFERD_1),
    (r"\{urn:un:unece:uncefact:data:standard:CBFBUY:\d+\}Invoice", Dialect.ZUGFERD_1),
    (r"\{urn:un:unece:uncefact:data:SCRDMCCBDACIOMessageStructure:\d+\}\w+", Dialect.ORDER_X),
    (r"\{http://[^}]*/(?:fatture|fatturapa)/v[\d.]+\}FatturaElettronica", Dialect.FATTURAPA),
)
"""Regular expressions for the root elements of the known vocabularies, as {namespace}name."""


def recognize_dialect(root: etree._Element) -> Dialect:
    """Return the vocabulary of an XML document, detected from its root element.

    The element's namespace and name determine the vocabulary.
    """
    tag = str(root.tag)
    return next((dialect for pattern, dialect in ROOTS if re.fullmatch(pattern, tag)), Dialect.OTHER)
