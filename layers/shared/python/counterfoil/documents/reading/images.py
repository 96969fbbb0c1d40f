"""What the first bytes of an image say: its format, its size in pixels, and how many pages it has. Pure."""

import struct
from dataclasses import dataclass
from typing import Literal

from counterfoil.documents.reading import tiff

Format = Literal["PNG", "JPEG", "TIFF"]

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG's markers that begin a frame and state its size (ITU-T T.81, table B.1)."""
BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers that stand alone, without a length."""
_WIDTH, _HEIGHT = 256, 257
"""Tags of TIFF 6.0."""


@dataclass(frozen=True)
class Image:
    """An image: its size is that of its first page."""

    format: Format
    width: int
    height: int
    pages: int = 1


def measure(content: bytes) -> Image | None:
    """The image that a file is; None where it is of another format, or its beginning is damaged."""
    try:
        if content.startswith(_PNG):
            return _image("PNG", *struct.unpack_from(">II", content, 16))
        if content.startswith(_JPEG):
            return _jpeg(content)
        if content[:4] in tiff.ORDERS:
            return _tiff(content, tiff.ORDERS[content[:4]])
    except struct.error:  # it ends too early
        pass
    return None


def _image(format_: Format, width: int, height: int, pages: int = 1) -> Image | None:
    return Image(format_, width, height, pages) if width > 0 and height > 0 else None


def _jpeg(content: bytes) -> Image | None:
    """Walk along the segments to the frame's header."""
    place = 2
    while place < len(content):
        if content[place] != 0xFF:
            return None
        while content[place : place + 1] == b"\xff":  # any number of fill bytes
            place += 1
        (marker,) = struct.unpack_from(">B", content, place)
        place += 1
        if marker in BARE:
            continue
        if marker in FRAMES:
            height, width = struct.unpack_from(">HH", content, place + 3)
            return _image("JPEG", width, height)
        (length,) = struct.unpack_from(">H", content, place)
        if length < 2:
            return None
        place += length
    return None


def _tiff(content: bytes, order: str) -> Image | None:
    """Read the first directory, and count the others."""
    (directory,) = struct.unpack_from(f"{order}I", content, 4)
    (count,) = struct.unpack_from(f"{order}H", content, directory)
    size: dict[int, int] = {}
    for entry in range(directory + 2, directory + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from(f"{order}HH", content, entry)
        if tag in (_WIDTH, _HEIGHT) and kind in (3, 4):  # SHORT or LONG
            (size[tag],) = struct.unpack_from(f"{order}{'H' if kind == 3 else 'I'}", content, entry + 8)
    if len(size) < 2:
        return None
    return _image("TIFF", size[_WIDTH], size[_HEIGHT], len(tiff.directories(content)))
