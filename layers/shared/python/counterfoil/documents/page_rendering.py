"""Renders a page of a PDF or an image as a PNG. `page_images` calls it in a child process."""

import struct
import zlib
from typing import Any, Literal, NamedTuple

import pypdfium2  # type: ignore[import-untyped]
from pypdfium2 import raw

MAX_BYTES = 4_000_000
"""Of an image: an answer of Lambda has 6 MB, and base64 takes a third more."""
SIDES = (1800, 1300, 900)
"""Pixels of the longer side: of A4, 154, 111 and 77 dots an inch. The first one that MAX_BYTES is enough for."""
MAX_SCALE = 5.0
"""Pixels for a point: a small page is not blown up beyond."""

Kind = Literal["pdf", "image"]
Problem = Literal["damaged", "form", "pages"]


class Made(NamedTuple):
    """What is answered."""

    problem: Problem | None
    pages: int
    png: bytes = b""


class Pixels(NamedTuple):
    """An image, row by row from its top: red, green and blue of each pixel, a byte each."""

    width: int
    height: int
    rgb: bytes


def make(content: bytes, kind: Kind, number: int) -> Made:
    """The page of this number, from 1, as a PNG of at most MAX_BYTES."""
    scale = MAX_SCALE
    if kind == "image":
        from counterfoil.documents import page_wrapping  # a PDF needs it not

        pages, wrapped = page_wrapping.wrap(content, number)
        if wrapped is None:
            return Made("form", pages)
        content, number, scale = wrapped, 1, 1.0
    try:
        with pypdfium2.PdfDocument(content) as document:
            pages = pages if kind == "image" else len(document)
            if not 1 <= number <= len(document):
                return Made("pages", pages)
            return _smallest(document[number - 1], pages, scale)
    except (pypdfium2.PdfiumError, MemoryError):
        return Made("damaged", 0)


def _smallest(page: Any, pages: int, scale: float) -> Made:
    """The page as large as MAX_BYTES is enough for."""
    width, height = page.get_size()
    if not (0 < width < float("inf") and 0 < height < float("inf")):
        return Made("damaged", pages)
    for side in SIDES:
        png = encode(_drawn(page, min(scale, side / max(width, height))))
        if len(png) <= MAX_BYTES:
            return Made(None, pages, png)
    return Made("form", pages)  # not with these sides


def _drawn(page: Any, scale: float) -> Pixels:
    bitmap = page.render(
        scale=scale, rev_byteorder=True, limit_image_cache=True, force_bitmap_format=raw.FPDFBitmap_BGR
    )
    width, height, stride, buffer = bitmap.width, bitmap.height, bitmap.stride, bytes(bitmap.buffer)
    rows = (buffer[start : start + 3 * width] for start in range(0, stride * height, stride))
    return Pixels(width, height, b"".join(rows))


def encode(pixels: Pixels) -> bytes:
    """A PNG (ISO/IEC 15948): three chunks; of one byte for each pixel where none has a colour."""
    width, height, rgb = pixels
    red, colour, step = rgb[0::3], 2, 3
    if red == rgb[1::3] and red == rgb[2::3]:
        rgb, colour, step = red, 0, 1
    size = width * step
    rows = b"".join(b"\0" + rgb[start : start + size] for start in range(0, size * height, size))
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
