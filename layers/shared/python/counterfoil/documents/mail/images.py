"""Images that belong to the look of a mail: logos, icons, tracking pixels.

An image is decoration where the mail's text shows it and it is too small to be a page. A page of A4 that a person can
just read has 60 dots an inch, and so 496 pixels on its shorter side; what has fewer is no picture of a document.
"""

import struct

SMALLEST_PAGE = 496
"""Pixels of the shorter side."""
_JPEG_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""Markers of JPEG whose segment states height and width: SOF0 to SOF15, without DHT, JPG and DAC (ITU-T T.81)."""
_JPEG_BARE = {0x01, *range(0xD0, 0xD9)}
MAX_SEGMENTS = 1000


def is_small(content: bytes) -> bool:
    """Whether an image is too small to be a page; False where its size cannot be told."""
    side = shorter_side(content)
    return side is not None and side < SMALLEST_PAGE


def shorter_side(content: bytes) -> int | None:
    """Pixels of the shorter side of a PNG, GIF, BMP or JPEG; None for another, or a damaged one."""
    try:
        if content.startswith(b"\x89PNG\r\n\x1a\n"):
            return _shorter(">II", content, 16)
        if content.startswith(b"GIF8"):
            return _shorter("<HH", content, 6)
        if content.startswith(b"BM"):
            return _shorter("<ii", content, 18)  # a negative height means from the top
        if content.startswith(b"\xff\xd8"):
            return _jpeg(content)
    except struct.error:  # shorter than its own header
        return None
    return None


def _shorter(form: str, content: bytes, position: int) -> int:
    sides: tuple[int, int] = struct.unpack_from(form, content, position)
    return min(map(abs, sides))


def _jpeg(content: bytes) -> int | None:
    position = 2
    for _ in range(MAX_SEGMENTS):
        start, marker = struct.unpack_from(">BB", content, position)
        if start != 0xFF:
            return None
        if marker in _JPEG_SIZES:
            return _shorter(">HH", content, position + 5)
        bare = marker == 0xFF or marker in _JPEG_BARE  # a fill byte, or a marker without a segment
        position += (1 if marker == 0xFF else 2) if bare else 2 + struct.unpack_from(">H", content, position + 2)[0]
    return None
