"""Small files that unpack to very large contents, for tests of memory limits."""

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence
from random import Random

MEBIBYTE = 1024 * 1024


def blanks(mebibytes: int, fill: bytes = b" ") -> bytes:
    """Return a zlib stream of one repeated byte, generated quickly from equal blocks."""
    chunk = fill * MEBIBYTE
    deflate = zlib.compressobj(9, wbits=-15)
    block = deflate.compress(chunk) + deflate.flush(zlib.Z_FULL_FLUSH)
    check = 1
    for _ in range(mebibytes):
        check = zlib.adler32(chunk, check)
    return b"\x78\xda" + block * mebibytes + deflate.flush() + struct.pack(">I", check)


def _pdf(*objects: bytes) -> bytes:
    file, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    file += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    file += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    return bytes(file)


def _stream(data: bytes, filters: Sequence[bytes], extra: bytes = b"") -> bytes:
    names = b" ".join(b"/" + name for name in filters)
    return b"<< %s /Length %d /Filter [%s] >>\nstream\n%s\nendstream" % (extra, len(data), names, data)


_PAGES = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
_PAGE = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R >>"


def _one_page(content: bytes) -> bytes:
    return _pdf(b"<< /Type /Catalog /Pages 2 0 R >>", _PAGES, _PAGE, content)


def pdf_in_two_stages() -> bytes:
    """Return a PDF page with 2 GiB of blanks, compressed twice to about 4 KB."""
    return _one_page(_stream(zlib.compress(blanks(2048), 9), [b"FlateDecode", b"FlateDecode"]))


def pdf_in_one_stage() -> bytes:
    """Return a PDF page with 600 MiB of blanks, compressed once to about 600 KB."""
    return _one_page(_stream(blanks(600), [b"FlateDecode"]))


def pdf_with_attachments() -> bytes:
    """Return a PDF file of about 1 MB with 40 embedded XML files of 24 MiB.

    The library pypdf unpacks them one by one.
    """
    count, first = 40, 5
    names = b" ".join(
        b"(%02d.xml) << /Type /Filespec /F (%02d.xml) /EF << /F %d 0 R >> >>" % (number, number, first + number)
        for number in range(count)
    )
    catalog = b"<< /Type /Catalog /Pages 2 0 R /Names << /EmbeddedFiles << /Names [%s] >> >> >>" % names
    attachment = _stream(blanks(24), [b"FlateDecode"], b"/Type /EmbeddedFile")
    return _pdf(catalog, _PAGES, _PAGE, _stream(zlib.compress(b" "), [b"FlateDecode"]), *[attachment] * count)


def pdf_of_words(pages: int) -> bytes:
    """Return a PDF file of about 1 KB whose pages share 95,000 one-letter words."""
    line = b"0 -1.2 Td (" + b"a " * 500 + b") Tj "
    content = _stream(zlib.compress(b"BT /F 1 Tf 0 900 Td " + line * 190 + b" ET", 9), [b"FlateDecode"])
    kids = b" ".join(b"3 0 R" for _ in range(pages))
    resources = b"/Resources << /Font << /F 5 0 R >> >>"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 2000 2000] /Contents 4 0 R %s >>" % resources
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    tree = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, pages)
    return _pdf(b"<< /Type /Catalog /Pages 2 0 R >>", tree, page, content, font)


def xml_of_attributes() -> bytes:
    """Return 24 MiB of XML attributes. Each takes about 100 bytes in lxml's tree."""
    element = b"<a " + b" ".join(b'%s=""' % _name(number) for number in range(1000)) + b"/>"
    return b"<r>" + element * (24 * MEBIBYTE // len(element)) + b"</r>"


def _name(number: int) -> bytes:
    alphabet = b"abcdefghijklmnopqrstuvwxyz"
    name = bytes([alphabet[number % 26]])
    while number := number // 26:
        name += bytes([alphabet[number % 26]])
    return name


def pdf_with_xml() -> bytes:
    """Return a PDF file of about 60 KB with `xml_of_attributes` as its e-invoice."""
    names = b"(factur-x.xml) << /Type /Filespec /F (factur-x.xml) /EF << /F 5 0 R >> >>"
    catalog = b"<< /Type /Catalog /Pages 2 0 R /Names << /EmbeddedFiles << /Names [%s] >> >> >>" % names
    attachment = _stream(zlib.compress(xml_of_attributes(), 9), [b"FlateDecode"], b"/Type /EmbeddedFile")
    return _pdf(catalog, _PAGES, _PAGE, _stream(zlib.compress(b" "), [b"FlateDecode"]), attachment)


def zip_of_blanks() -> bytes:
    """Return a ZIP file of about 1 MB with five files of 50 MiB.

    Each is just below the maximum compression ratio.
    """
    content = b"<a>" + b" " * (50 * MEBIBYTE)
    noise = Random(1).randbytes(len(content) // 190)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for number in range(5):
            archive.writestr(f"{number}.xml", content + noise)
    return packed.getvalue()
