"""A TIFF of several pages is taken apart to TIFFs of one page, whose pictures are those that they were."""

import io
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageSequence

from counterfoil.documents.reading import tiff
from tests.documents.reading.papers import tiff as tiff_of


@pytest.mark.parametrize("compression", ["raw", "tiff_deflate", "tiff_lzw", "packbits", "jpeg"])
def test_each_page_is_a_tiff_with_its_own_picture(compression: str):
    whole = tiff_of(10, 120, 250, size=(40, 900), compression=compression)
    pages = [Image.open(io.BytesIO(tiff.page(whole, number))) for number in (1, 2, 3)]
    assert [(len(list(ImageSequence.Iterator(page))), page.size) for page in pages] == [(1, (40, 900))] * 3
    for page, shade in zip(pages, (10, 120, 250), strict=True):
        shades = {place for place, count in enumerate(page.convert("L").histogram()) if count}
        assert shades <= set(range(shade - 2, shade + 3))


def test_a_page_takes_no_other_s_bytes_along():
    noise = [Image.effect_noise((200, 200), 90) for _ in range(10)]
    file = io.BytesIO()
    noise[0].save(file, "TIFF", save_all=True, append_images=noise[1:])
    assert len(tiff.page(file.getvalue(), 4)) < len(file.getvalue()) / 9
    assert Image.open(io.BytesIO(tiff.page(file.getvalue(), 4))).tobytes() == noise[3].tobytes()


@pytest.mark.parametrize(("start", "order"), [(b"II*\0", "<"), (b"MM\0*", ">")])
def test_both_orders_of_bytes_are_read(start: bytes, order: str):
    entries = [(256, 2), (257, 1), (258, 8), (259, 1), (262, 1), (277, 1), (278, 1), (279, 2)]
    table = b"".join(struct.pack(f"{order}HHIHH", tag, 3, 1, value, 0) for tag, value in entries)
    strips = struct.pack(f"{order}HHII", 273, 4, 1, 8)
    pixels = b"\x07\x09"
    table = table[: 12 * 5] + strips + table[12 * 5 :]
    directory = struct.pack(f"{order}H", 9) + table + b"\0\0\0\0"
    content = start + struct.pack(f"{order}I", 10) + pixels + directory
    page = Image.open(io.BytesIO(tiff.page(content, 1)))
    assert [page.getpixel((x, 0)) for x in range(2)] == [7, 9]


def test_a_page_whose_bytes_are_missing_or_that_is_not_there_is_empty():
    whole = tiff_of(10, 120)
    assert tiff.page(whole, 3) == b""
    assert {tiff.page(whole[:length], 2) for length in range(8, len(whole) - 8)} <= {b"", tiff.page(whole, 2)}


BLOCK = 100_000
"""Bytes that each entry of a hostile directory leads to."""
PICTURE = [(273, 1, 0), (279, 1, BLOCK)]
"""One strip, of the first bytes of the file: tag, number of values, value."""


@pytest.mark.parametrize(
    "entries",
    [
        [*PICTURE, *((tag, BLOCK // 4, 0) for tag in range(1000, 4000))],
        [*PICTURE, *[(273, 1, 0)] * 3000],
    ],
    ids=["each entry leads to the whole file", "each entry is the same strip"],
)
def test_a_directory_that_leads_to_the_same_bytes_over_and_over_takes_no_more_memory_than_the_file(
    entries: list[tuple[int, int, int]],
):
    table = b"".join(struct.pack("<HHII", tag, 4, values, value) for tag, values, value in entries)
    content = b"II*\0" + struct.pack("<IH", 8, len(entries)) + table + b"\0\0\0\0" + bytes(BLOCK)
    tracemalloc.start()
    try:
        page = tiff.page(content, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(page) <= 2 * len(content)
    assert peak < 10 * len(content)


@given(st.data())
def test_damage_anywhere_gives_a_page_or_none_and_never_more_than_the_file(data):
    content = bytearray(tiff_of(10, 120))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    for number in (1, 2):
        assert len(tiff.page(bytes(content), number)) <= 3 * len(content) + 100
