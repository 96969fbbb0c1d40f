"""Hostile or damaged XML is rejected, and valid XML is read in common encodings."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterfoil.documents.einvoice import xml
from counterfoil.documents.einvoice.xml import parse, reference
from counterfoil.errors import InvalidDocumentError


class Listener:
    """A server that detects whether the parser connects to it."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self.url = f"http://127.0.0.1:{server.getsockname()[1]}"

    def was_visited(self) -> bool:
        try:
            self._server.accept()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def listener() -> Iterator[Listener]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield Listener(server)


def billion_laughs() -> bytes:
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    return f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "ha">{levels}]><x a="&l9;">&l9;</x>'.encode()


def test_billion_laughs_attack_is_rejected_quickly():
    started = time.perf_counter()
    with pytest.raises(InvalidDocumentError, match="DOCTYPE"):
        parse(billion_laughs())
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize("keyword", ["SYSTEM", 'PUBLIC "-//X//Y"'])
def test_external_entity_opens_no_file(tmp_path: Path, keyword: str):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # if the parser opened the pipe, it would block, because there is no writer
    with pytest.raises(InvalidDocumentError, match="DOCTYPE"):
        parse(f'<!DOCTYPE x [<!ENTITY e {keyword} "{pipe.as_uri()}">]><x>&e;</x>'.encode())


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE x SYSTEM "{url}/x.dtd">',
        '<!DOCTYPE x [<!ENTITY e SYSTEM "{url}/e">]>',
        '<!DOCTYPE x [<!ENTITY % p SYSTEM "{url}/p">%p;]>',
        '<!DOCTYPE x [<!ATTLIST x a CDATA "given">]>',
        "<!DOCTYPE x>",
    ],
)
def test_doctype_is_rejected_without_network_access(doctype: str, listener: Listener):
    with pytest.raises(InvalidDocumentError, match="DOCTYPE"):
        parse(f"{doctype.format(url=listener.url)}<x/>".encode())
    assert not listener.was_visited()


def test_doctype_in_utf_16_is_rejected():
    with pytest.raises(InvalidDocumentError, match="DOCTYPE"):
        parse('<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE x><x/>'.encode("utf-16"))


def test_referenced_locations_are_never_fetched(listener: Listener):
    instance = "http://www.w3.org/2001/XMLSchema-instance"
    root = parse(
        f'<?xml-stylesheet href="{listener.url}/s.xsl"?>'
        f'<x xmlns:xsi="{instance}" xsi:schemaLocation="u {listener.url}/s.xsd"/>'.encode()
    )
    assert root.tag == "x"
    assert not listener.was_visited()


def test_xinclude_is_rejected(tmp_path: Path):
    part = (tmp_path / "part.xml").as_uri()
    with pytest.raises(InvalidDocumentError, match="XInclude"):
        parse(f'<x xmlns:i="http://www.w3.org/2001/XInclude"><i:include href="{part}"/></x>'.encode())


def test_deep_nesting_is_rejected():
    with pytest.raises(InvalidDocumentError, match="levels"):
        parse(b"<a>" * 5_000 + b"</a>" * 5_000)


def test_too_many_elements_are_rejected():
    with pytest.raises(InvalidDocumentError, match="elements"):
        parse(b"<a>" + b"<b/>" * (xml.MAX_ELEMENTS + 1) + b"</a>")


def test_single_huge_value_is_rejected():
    with pytest.raises(InvalidDocumentError, match="10 MB"):
        parse(b"<a>" + b"x" * 11_000_000 + b"</a>")


def test_huge_document_is_rejected_without_parsing():
    with pytest.raises(InvalidDocumentError, match="larger than 25 MiB"):
        parse(bytes(xml.MAX_XML_BYTES + 1))


@pytest.mark.parametrize(
    ("declared", "spelling"),
    [
        ("UTF-8", "utf-8"),
        ("UTF-8", "utf-8-sig"),
        ("UTF-8-W/O-BOM", "utf-8"),
        ("utf-16", "utf-16"),
        ("UTF-16LE", "utf-16-le"),
        ("UTF-16BE", "utf-16-be"),
        ("ISO-8859-1", "latin-1"),
        ("windows-1252", "cp1252"),
        ("ISO-8859-15", "iso8859-15"),
        ("GB18030", "gb18030"),
    ],
)
def test_common_encodings_are_read(declared: str, spelling: str):
    document = f'<?xml version="1.0" encoding="{declared}"?><firma>Grün &amp; Söhne</firma>'
    assert parse(document.encode(spelling)).text == "Grün & Söhne"


def test_undeclared_encoding_defaults_to_utf8():
    assert parse("<firma>Grün</firma>".encode()).text == "Grün"


@pytest.mark.parametrize(
    ("declared", "spelling"),
    [
        ("UTF-8", "latin-1"),  # cannot be decoded
        ("UTF-8-W/O-BOM", "latin-1"),
        ("UTF-8", "utf-16"),  # contradicts the byte order mark
        ("ISO-8859-1", "utf-8"),  # can be decoded, but each umlaut becomes two wrong letters
        ("windows-1252", "utf-8-sig"),
        ("UTF-16", "utf-8"),  # some frameworks write this by default
    ],
)
def test_incorrectly_declared_encoding_is_rejected(declared: str, spelling: str):
    document = f'<?xml version="1.0" encoding="{declared}"?><firma>Grün &amp; Söhne</firma>'
    with pytest.raises(InvalidDocumentError, match="not in the encoding that it declares"):
        parse(document.encode(spelling))


def test_utf32_is_rejected_with_advice():
    with pytest.raises(InvalidDocumentError, match="ask its sender for UTF-8"):
        parse('<?xml version="1.0" encoding="UTF-32"?><x/>'.encode("utf-32"))


@pytest.mark.parametrize("unknown", ["UTF-88", "utf-7", "rot13", "EBCDIC-42", "hex", "idna", "\x00"])
def test_unknown_encoding_is_rejected(unknown: str):
    with pytest.raises(InvalidDocumentError, match="not supported"):
        parse(f'<?xml version="1.0" encoding="{unknown}"?><x/>'.encode())


@pytest.mark.parametrize(
    "damaged",
    [
        b'<?xml version="1.0" encoding="UTF-8?><x/>',
        b"<x><y></x>",
        b"<x>",
        b"<x/><x/>",
        b"<x>\x00</x>",
        b"<x>&undefined;</x>",
        b"<x a='1' a='2'/>",
        b"<p:x/>",
        b"<x>\xc3</x>",
        b"<",
    ],
)
def test_damaged_xml_is_rejected_with_advice(damaged: bytes):
    with pytest.raises(InvalidDocumentError, match=r"; ask its sender for a corrected file\.$"):
        parse(damaged)


def test_comments_do_not_truncate_values():
    assert parse(b"<x>R-10<!-- hidden -->01</x>").text == "R-1001"


def test_references_keep_order_without_duplicates():
    assert reference([]) is None
    assert reference(["A", "A"]) == "A"
    assert reference(["B", "A", "B"]) == ["B", "A"]
