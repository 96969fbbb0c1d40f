"""Which images are decoration."""

import struct
from collections.abc import Callable

import pytest

from counterfoil.documents.mail.images import SMALLEST_PAGE, is_small, shorter_side


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)


def jpeg(width: int, height: int, marker: int = 0xC0) -> bytes:
    exif = b"\xff\xe1" + struct.pack(">H", 2 + 100) + b"\xff\xc0" * 50
    return b"\xff\xd8" + exif + b"\xff\xff" + bytes([marker]) + struct.pack(">HBHH", 11, 8, height, width) + bytes(4)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height)


def bmp(width: int, height: int) -> bytes:
    return b"BM" + bytes(12) + struct.pack("<Iii", 40, width, -height)


@pytest.mark.parametrize("make", [png, jpeg, gif, bmp])
def test_the_shorter_side_is_read_from_the_header(make: Callable[[int, int], bytes]):
    assert shorter_side(make(1240, 1754)) == 1240
    assert shorter_side(make(600, 90)) == 90


@pytest.mark.parametrize("marker", [0xC1, 0xC2, 0xCF])
def test_every_kind_of_jpeg_states_its_size(marker: int):
    assert shorter_side(jpeg(30, 20, marker)) == 20


def test_an_image_is_small_where_no_page_can_be_read_in_it():
    assert is_small(png(SMALLEST_PAGE - 1, 5000))
    assert not is_small(png(SMALLEST_PAGE, SMALLEST_PAGE))


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"RIFF\x00\x00\x00\x00WEBP", png(1, 1)[:20], jpeg(1, 1)[:106]),
        *(b"\xff\xd8" + b"\xff" * 5000, b"\xff\xd8\x00\x00", b"\xff\xd8" + b"\xff\xe1\x00\x00" * 1001),
    ],
)
def test_an_image_of_an_unknown_size_is_not_taken_for_small(content: bytes):
    assert not is_small(content)
