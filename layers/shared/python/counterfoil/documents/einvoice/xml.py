"""Parses untrusted XML, and reads values from the tree.

Rejected before any value is read: a DOCTYPE (and with it all entities and external references), XInclude, a wrong or
unknown encoding, and documents beyond the limits below. No resource is ever fetched or opened. Document type codes are
from UNTDID 1001. Those of credit notes are the ones that EN 16931 permits.
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

from lxml import etree

from counterfoil.documents.structured import DocumentType
from counterfoil.errors import InvalidDocumentError

CREDIT_NOTE_CODES = frozenset({"81", "83", "261", "262", "296", "308", "381", "396", "420", "458", "502", "503", "532"})
"""Type codes of credit notes. All other codes in invoice messages are invoices, including 384 (corrected)."""

ORDER_CHANGE_CODE = "230"
ORDER_RESPONSE_CODE = "231"


@dataclass(frozen=True)
class EinvoiceResult:
    """Values stated by an XML document.

    `fields` uses the names of the structured data, and may contain fields that the type does not have. Values are
    unvalidated strings. `lacks_required_lines` is true if the type and profile require line items and the document has
    none.
    """

    type: DocumentType
    fields: Mapping[str, Any]
    lacks_required_lines: bool = False


MAX_XML_BYTES = 25 * 1024 * 1024
MAX_ELEMENTS = 500_000
MAX_DEPTH = 100

_DECLARATION_WITHIN = 4096
"""Maximum number of bytes from the start of a file to the end of the XML declaration."""
_DECLARATION = re.compile(r"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([^\"'>]{0,60})[\"']")
_DECORATED_UTF8 = re.compile(r"utf-8\b", re.IGNORECASE)
_DECLARED_UNCLOSED = re.compile(r"\s*<\?xml[^>]{0,200}?encoding\s*=")
_MULTIBYTE_ENCODINGS = frozenset({"utf-8", "gb2312", "gbk", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr"})
_SINGLE_BYTE_ENCODINGS = re.compile(r"ascii|iso8859-\d{1,2}|cp125\d|cp437|cp85\d|koi8-[ru]")
_UTF16_NAMES = frozenset({"utf-16", "utf-16-le", "utf-16-be"})
_XINCLUDE = "{http://www.w3.org/2001/XInclude}*"
_UNSUPPORTED_ENCODING = (
    "The XML declares an encoding that does not exist or is not supported; ask its sender for UTF-8."
)
_WRONG_ENCODING = "The XML is not in the encoding that it declares; ask its sender for a corrected file."


def parse(content: bytes) -> etree._Element:
    """Parse untrusted XML and return its root element.

    Comments and processing instructions are removed.

    Raises:
        InvalidDocumentError: the module rejects the content, or the XML is not well-formed.
        MemoryError: the tree does not fit into the memory of the process.
    """
    if len(content) > MAX_XML_BYTES:
        message = f"The XML is larger than {MAX_XML_BYTES // 1024**2} MiB; send large attachments as separate files."
        raise InvalidDocumentError(message, code="xml_too_large")
    content = _decode(content).encode("utf-8")
    _inspect(content)
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from None
        message = (
            "The XML uses undeclared namespaces, or contains a single value of more than 10 MB; "
            "ask its sender for a corrected file."
        )
        raise InvalidDocumentError(message, code="damaged_xml") from error
    if next(root.iter(_XINCLUDE), None) is not None:
        message = "The XML includes parts from elsewhere (XInclude); send it as one complete file."
        raise InvalidDocumentError(message, code="unsafe_xml")
    return root


def _decode(content: bytes) -> str:
    """Decode by byte order mark and declaration, which must agree (XML 1.0, 4.3.3)."""
    detected = _detected_encoding(content)
    head = content if detected else content[:_DECLARATION_WITHIN]
    try:
        text = head.decode(detected or "latin-1").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidDocumentError(_WRONG_ENCODING, code="wrong_xml_encoding") from error
    match = _DECLARATION.match(text)
    if match is None:
        if _DECLARED_UNCLOSED.match(text):
            message = "The XML declaration is damaged; ask its sender for a corrected file."
            raise InvalidDocumentError(message, code="damaged_xml")
        declared = detected or "utf-8"
    else:
        declared = _codec(match[1])
    if detected is not None:
        family = _UTF16_NAMES if detected in _UTF16_NAMES else {"utf-8"}
        if declared not in family:
            raise InvalidDocumentError(_WRONG_ENCODING, code="wrong_xml_encoding")
        return text
    if declared in _UTF16_NAMES:
        raise InvalidDocumentError(_WRONG_ENCODING, code="wrong_xml_encoding")
    try:
        text = content.decode(declared)
    except UnicodeDecodeError as error:
        raise InvalidDocumentError(_WRONG_ENCODING, code="wrong_xml_encoding") from error
    if _SINGLE_BYTE_ENCODINGS.fullmatch(declared) and not content.isascii() and _is_utf8(content):
        # Text in a single-byte encoding is practically never valid UTF-8 by coincidence. Decoding UTF-8 as declared
        # would turn each non-ASCII letter into two or more incorrect letters.
        raise InvalidDocumentError(_WRONG_ENCODING, code="wrong_xml_encoding")
    if match is not None and match[1].casefold() != "utf-8":
        text = f"{text[: match.start(1)]}UTF-8{text[match.end(1) :]}"  # parsers may not know the declared name
    return text


def _detected_encoding(content: bytes) -> str | None:
    """Return the encoding shown by a byte order mark or by UTF-16 zero bytes.

    Returns None if the declaration decides.
    """
    if content.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise InvalidDocumentError(_UNSUPPORTED_ENCODING, code="unsupported_xml_encoding")
    if content.startswith(codecs.BOM_UTF8):
        return "utf-8"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if content.startswith(b"<\x00"):
        return "utf-16-le"
    return "utf-16-be" if content.startswith(b"\x00<") else None


def _codec(name: str) -> str:
    """Return Python's name of a declared encoding.

    Codecs that are not character encodings are rejected.

    Some writers add a suffix to the name (`UTF-8-W/O-BOM`). It counts as UTF-8, and decoding fails if the text is not
    UTF-8.
    """
    if _DECORATED_UTF8.match(name):
        return "utf-8"
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        codec = ""
    if codec in _MULTIBYTE_ENCODINGS or codec in _UTF16_NAMES or _SINGLE_BYTE_ENCODINGS.fullmatch(codec):
        return codec
    raise InvalidDocumentError(_UNSUPPORTED_ENCODING, code="unsupported_xml_encoding")


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _inspect(content: bytes) -> None:
    """Reject XML that is not well-formed, has a DOCTYPE, or is too complex.

    No tree is built. The number and depth of elements are limited. Expat reports the name of a DOCTYPE before it reads
    the first declaration inside.
    """
    scan = _Scan()
    parser = expat.ParserCreate("utf-8")
    parser.StartDoctypeDeclHandler = scan.refuse_doctype
    parser.StartElementHandler = scan.start
    parser.EndElementHandler = scan.end
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        message = f"The XML is not well-formed (line {error.lineno}); ask its sender for a corrected file."
        raise InvalidDocumentError(message, code="damaged_xml") from error


class _Scan:
    """XML scan that rejects a DOCTYPE, and too many or too deeply nested elements."""

    def __init__(self) -> None:
        self._elements = 0
        self._depth = 0

    def refuse_doctype(self, *_declaration: object) -> None:
        message = "The XML has a DOCTYPE, which can define entities and external references; send it without one."
        raise InvalidDocumentError(message, code="unsafe_xml")

    def start(self, _name: str, _attributes: object) -> None:
        self._elements += 1
        self._depth += 1
        if self._elements > MAX_ELEMENTS or self._depth > MAX_DEPTH:
            message = f"The XML has more than {MAX_ELEMENTS} elements or {MAX_DEPTH} levels; send it in smaller parts."
            raise InvalidDocumentError(message, code="xml_too_complex")

    def end(self, _name: str) -> None:
        self._depth -= 1


def use_local_names(root: etree._Element, renamed: Mapping[str, str] | None = None) -> None:
    """Strip namespaces from all element names in place, and apply the given renames."""
    names = renamed or {}
    for element in root.iter():
        local = str(element.tag).rpartition("}")[2]
        element.tag = names.get(local, local)


def text(element: etree._Element | None, *paths: str) -> str | None:
    """Return the first non-empty text at these paths, in the order of the paths.

    Returns None if all texts are empty or missing.
    """
    return next(_texts(element, paths), None)


def all_texts(element: etree._Element | None, *paths: str) -> list[str]:
    """Return all distinct texts at these paths.

    They are ordered by path and then by position in the document.
    """
    return list(dict.fromkeys(_texts(element, paths)))


def _texts(element: etree._Element | None, paths: Iterable[str]) -> Iterator[str]:
    if element is None:
        return
    for path in paths:
        for node in element.iterfind(path):
            if value := (node.text or "").strip():
                yield value


def reference(values: Iterable[str]) -> str | list[str] | None:
    """Return one reference as a string, several as a list, or None.

    Structured data has references in this form.
    """
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else distinct or None


def single_value(values: list[str]) -> str | None:
    """Return the only value; None if the list is empty or has several."""
    return values[0] if len(values) == 1 else None


def common_currency(amounts: etree._Element | None) -> str | None:
    """Return the only currency of an element's amounts.

    Returns None if the amounts name no currency or several.
    """
    codes = [] if amounts is None else [code for amount in amounts if (code := amount.get("currencyID"))]
    return single_value(list(dict.fromkeys(codes)))


def negated(amount: str | None) -> str | None:
    """Return a decimal, as text, with the opposite sign; None if absent."""
    if amount is None:
        return None
    return amount[1:] if amount.startswith("-") else "-" + amount.removeprefix("+")


def iban(account: str | None) -> str | None:
    """Return an account number without spaces if it has the form of an IBAN.

    Returns None for any other account number. The form is defined in ISO 13616.
    """
    compact = re.sub(r"\s", "", account or "").upper()
    return compact if re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", compact, re.ASCII) else None


def drop_empty(**fields: object) -> dict[str, object]:
    """Return the non-empty fields."""
    return {name: value for name, value in fields.items() if value}
