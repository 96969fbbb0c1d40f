"""From the bytes of a file to the structured data of a document."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from lxml import etree

from counterfoil.documents.einvoice import cii, fatturapa, ubl, xml
from counterfoil.documents.einvoice.xml import Reading
from counterfoil.documents.filetype import Dialect, FileKind, recognise, recognise_dialect
from counterfoil.documents.structured import DocumentType, structure
from counterfoil.errors import InvalidDocumentError

if TYPE_CHECKING:
    from counterfoil.documents.pdf import EmbeddedXml

MAX_FILE_BYTES = 100 * 1024 * 1024

Method = Literal["xml", "embedded-xml", "text", "ocr", "model", "none"]
"""How a document was read: from an XML file, the XML embedded in a PDF, by rules from a text layer or from OCR, with a
language model's help, or not at all."""

_EINVOICE_NAMES = (
    "factur-x.xml",
    "xrechnung.xml",
    "zugferd-invoice.xml",
    "ZUGFeRD-invoice.xml",
    "order-x.xml",
)
"""The names that hybrid formats prescribe for their XML, the newer format first where a PDF carries several."""

_ENVELOPE = "{http://www.unece.org/cefact/namespaces/StandardBusinessDocumentHeader}StandardBusinessDocument"


@dataclass(frozen=True)
class ExtractionResult:
    """Result of reading one document, from XML or from pages."""

    type: DocumentType | None
    """None: unknown."""
    method: Method
    structured_data: dict[str, Any] | None
    """Fields that `structured` defines for the type. None: the document is stored without data, and `reason` says why
    in a sentence."""
    reason: str | None = None
    remarks: tuple[str, ...] = ()
    """Sentences about missing, doubtful, contradictory and unreadable fields."""
    evidence: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Source, confidence and page of each field that was read from pages, by path."""
    unread: frozenset[int] = frozenset()
    """Pages without OCR results, counted from 1."""


def extract(content: bytes, *, text_only: bool = False) -> ExtractionResult:
    """Recognise a file and read what it states: its XML, and else the text of its pages, by rules alone.

    With `text_only` the XML inside a PDF is ignored. A file without XML and text (scan, image, archive, unknown kind)
    is not an error: it is returned with a reason. So are a PDF of many documents and pages that say too little.
    Raises as `extract_xml`.
    """
    exact = extract_xml(content, embedded=not text_only)
    if exact.structured_data is not None or recognise(content) is not FileKind.PDF:
        return exact
    from counterfoil.documents.reading import ocr, reader, scans
    from counterfoil.documents.splitting import split
    from counterfoil.documents.text.page import pages

    read = pages(content)
    found = ocr.ocr_pdf(read, scans.find(content, read))
    count = len(split(found.pages).parts)
    if count > 1:
        return replace(exact, reason=f"The PDF holds {count} documents; ingestion takes them apart and reads each.")
    extraction = reader.read_by_rules(found)
    if extraction.structured_data is None:
        return replace(exact, reason=f"{exact.reason} {extraction.reason}")
    return extraction


def extract_xml(content: bytes, *, embedded: bool = True) -> ExtractionResult:
    """Recognise a file and read what its XML states.

    Reads XML in UBL 2, Cross Industry Invoice (Factur-X, ZUGFeRD, XRechnung), Order-X and FatturaPA, alone or, unless
    `embedded` is false, inside a PDF. Invoices of the Factur-X profiles MINIMUM and BASIC WL state no lines by design
    and are complete without. A file without such XML is no error: it comes back with a reason.

    Raises `InvalidDocumentError`, with a sentence that says what is wrong and what to do, when the file can never
    become a document: empty, larger than `MAX_FILE_BYTES`, damaged, encrypted, unsafe or incomplete.
    """
    check_size(len(content))
    if content.isspace():
        raise InvalidDocumentError(_EMPTY)
    kind = recognise(content)
    if kind is FileKind.PDF:
        return _extract_pdf(content, embedded=embedded)
    if kind is FileKind.XML:
        return _extract_xml(xml.parse(content), "xml")
    return _KEPT[kind]


def check_size(size: int) -> None:
    """Raise `InvalidDocumentError` for a size in bytes that no document may have, before anything is read."""
    if size == 0:
        raise InvalidDocumentError(_EMPTY)
    if size > MAX_FILE_BYTES:
        limit = MAX_FILE_BYTES // 1024**2
        message = f"The file is larger than {limit} MiB; split it, or send its attachments as files of their own."
        raise InvalidDocumentError(message)


_EMPTY = "The file is empty; send it again."
_KEPT = {
    FileKind.IMAGE: ExtractionResult(None, "none", None, "The file is an image and could not be read: OCR is off."),
    FileKind.ZIP: ExtractionResult(
        DocumentType.OTHER, "none", None, "The file is an archive or an office document; these are kept and not read."
    ),
    FileKind.UNKNOWN: ExtractionResult(DocumentType.OTHER, "none", None, "The file is of an unknown kind; it is kept."),
}


def _extract_pdf(content: bytes, *, embedded: bool) -> ExtractionResult:
    from counterfoil.documents import pdf  # 0.3 s of a cold start, which XML alone need not wait for

    files = pdf.embedded_xml(content)
    for file in sorted(files, key=_preference) if embedded else []:
        extraction = _extract_embedded(file)
        if extraction is not None:
            return extraction
    aside = "The PDF's embedded XML is ignored." if files and not embedded else "The PDF has no embedded e-invoice."
    return ExtractionResult(None, "none", None, aside)


def _preference(file: "EmbeddedXml") -> int:
    return _EINVOICE_NAMES.index(file.name) if file.name in _EINVOICE_NAMES else len(_EINVOICE_NAMES)


def _extract_embedded(file: "EmbeddedXml") -> ExtractionResult | None:
    """Read embedded XML if it is a business document. What is broken counts only under the name of an e-invoice."""
    is_einvoice_name = file.name.casefold() in map(str.casefold, _EINVOICE_NAMES)
    try:
        check_size(len(file.content))
        extraction = _extract_xml(xml.parse(file.content), "embedded-xml")
    except InvalidDocumentError as error:
        if is_einvoice_name:
            message = f"The e-invoice inside the PDF cannot be read: {error}"
            raise InvalidDocumentError(message) from error
        return None
    return None if extraction.structured_data is None else extraction


def _extract_xml(root: etree._Element, method: Method) -> ExtractionResult:
    root = _unwrapped(root)
    reading: Reading
    match recognise_dialect(root):
        case Dialect.UBL:
            reading = ubl.read(root)
        case Dialect.CII | Dialect.ZUGFERD_1:
            reading = cii.read(root)
        case Dialect.ORDER_X:
            reading = cii.read_order(root)
        case Dialect.FATTURAPA:
            count = fatturapa.count_invoices(root)
            if count > 1:
                reason = f"The file holds {count} invoices; send each as a file of its own to have it read."
                return ExtractionResult(None, "none", None, reason)
            reading = fatturapa.read(root)
        case _:
            reason = "The XML is of a kind that is not known; it is kept and not read."
            return ExtractionResult(DocumentType.OTHER, "none", None, reason)
    record, remarks = structure(reading.type, reading.fields)
    if reading.lacks_required_lines:
        name = reading.type.value.replace("_", " ")
        message = f"The {name} has no lines, and its profile needs them; ask its sender for a complete one."
        raise InvalidDocumentError(message)
    return ExtractionResult(reading.type, method, record.data(), remarks=remarks)


def _unwrapped(root: etree._Element) -> etree._Element:
    """Take a document out of the envelope that Peppol sends it in; what has no envelope comes back as it is."""
    documents = [child for child in root if child.tag != f"{_ENVELOPE}Header"] if root.tag == _ENVELOPE else []
    return documents[0] if len(documents) == 1 else root
