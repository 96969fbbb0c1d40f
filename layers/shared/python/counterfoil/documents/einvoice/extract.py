"""Extraction from the XML of an e-invoice, alone or embedded in a PDF."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lxml import etree

from counterfoil.documents.einvoice import cii, fatturapa, ubl, xml
from counterfoil.documents.einvoice.xml import EinvoiceResult
from counterfoil.documents.filetype import Dialect, FileKind, check_size, recognize, recognize_dialect
from counterfoil.documents.structured import DocumentType, ExtractionResult, Method, to_structured_data
from counterfoil.errors import InvalidDocumentError

if TYPE_CHECKING:
    from counterfoil.documents.pdf import EmbeddedXml

_EINVOICE_NAMES = (
    "factur-x.xml",
    "xrechnung.xml",
    "zugferd-invoice.xml",
    "ZUGFeRD-invoice.xml",
    "order-x.xml",
)
"""XML file names that hybrid formats prescribe. Newer formats come first, because a PDF may contain several."""

READERS: dict[Dialect, Callable[[etree._Element], EinvoiceResult]] = {
    Dialect.UBL: ubl.read,
    Dialect.CII: cii.read,
    Dialect.ZUGFERD_1: cii.read,
    Dialect.ORDER_X: cii.read_order,
    Dialect.FATTURAPA: fatturapa.read,
}

_ENVELOPE = "{http://www.unece.org/cefact/namespaces/StandardBusinessDocumentHeader}StandardBusinessDocument"


def extract_xml(content: bytes, *, embedded: bool = True) -> ExtractionResult:
    """Extract the data of a file from its XML.

    Supports UBL 2, Cross Industry Invoice (Factur-X, ZUGFeRD, XRechnung), Order-X and FatturaPA, alone or, unless
    `embedded` is false, inside a PDF. Invoices in the Factur-X profiles MINIMUM and BASIC WL have no line items by
    design. A file without such XML is not an error: the result states the reason.

    Raises `InvalidDocumentError` for a file that is empty, larger than `MAX_FILE_BYTES`, damaged, encrypted, unsafe or
    incomplete.
    """
    check_size(0 if content.isspace() else len(content))
    kind = recognize(content)
    if kind is FileKind.PDF:
        return _extract_pdf(content, embedded=embedded)
    if kind is FileKind.XML:
        return _extract_xml(xml.parse(content), "xml")
    return _RESULT_BY_KIND[kind]


_RESULT_BY_KIND = {
    FileKind.IMAGE: ExtractionResult(None, "none", None, "The file is an image and could not be read: OCR is off."),
    FileKind.ZIP: ExtractionResult(
        DocumentType.OTHER,
        "none",
        None,
        "The file is an archive or an office document. It is stored but not extracted.",
    ),
    FileKind.UNKNOWN: ExtractionResult(
        DocumentType.OTHER, "none", None, "The file type is unknown. The file is stored but not extracted."
    ),
}


def _extract_pdf(content: bytes, *, embedded: bool) -> ExtractionResult:
    from counterfoil.documents import pdf  # importing it takes 0.3 s

    files = pdf.embedded_xml(content)
    for file in sorted(files, key=_preference) if embedded else []:
        extraction = _extract_embedded(file)
        if extraction is not None:
            return extraction
    reason = "The PDF's embedded XML is ignored." if files and not embedded else "The PDF has no embedded e-invoice."
    return ExtractionResult(None, "none", None, reason)


def _preference(file: "EmbeddedXml") -> int:
    return _EINVOICE_NAMES.index(file.name) if file.name in _EINVOICE_NAMES else len(_EINVOICE_NAMES)


def _extract_embedded(file: "EmbeddedXml") -> ExtractionResult | None:
    """Read embedded XML if it is a business document.

    Invalid XML is an error only in a file named like an e-invoice.
    """
    is_einvoice_name = file.name.casefold() in map(str.casefold, _EINVOICE_NAMES)
    try:
        check_size(len(file.content))
        extraction = _extract_xml(xml.parse(file.content), "embedded-xml")
    except InvalidDocumentError as error:
        if is_einvoice_name:
            message = f"The e-invoice inside the PDF cannot be read: {error}"
            raise InvalidDocumentError(message, code=error.code) from error
        return None
    return None if extraction.structured_data is None else extraction


def _extract_xml(root: etree._Element, method: Method) -> ExtractionResult:
    root = _unwrap(root)
    dialect = recognize_dialect(root)
    if dialect is Dialect.OTHER:
        reason = "The XML format is unknown. The file is stored but not extracted."
        return ExtractionResult(DocumentType.OTHER, "none", None, reason)
    if dialect is Dialect.FATTURAPA and (count := fatturapa.count_invoices(root)) > 1:
        reason = f"The file contains {count} invoices and is not extracted. Send each invoice as a separate file."
        return ExtractionResult(None, "none", None, reason)
    reading = READERS[dialect](root)
    record, remarks = to_structured_data(reading.type, reading.fields)
    if reading.lacks_required_lines:
        name = reading.type.value.replace("_", " ")
        message = f"The {name} has no line items, which its profile requires; ask the sender for a complete one."
        raise InvalidDocumentError(message, code="invoice_without_lines")
    return ExtractionResult(reading.type, method, record.data(), warnings=remarks)


def _unwrap(root: etree._Element) -> etree._Element:
    """Return the only document inside a Peppol envelope; otherwise `root` itself."""
    documents = [child for child in root if child.tag != f"{_ENVELOPE}Header"] if root.tag == _ENVELOPE else []
    return documents[0] if len(documents) == 1 else root
