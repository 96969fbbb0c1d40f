"""The first bytes of an image tell what it is; damage tells nothing, and no byte leads astray."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.documents.reading.images import Image, measure
from counterfoil.documents.reading.tiff import MAX_PAGES
from tests.documents.reading.papers import picture


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "TIFF"])
def test_format_and_size_are_read(format_: str):
    found = measure(picture(format_, (123, 456)))
    assert found == Image(format_, 123, 456)  # type: ignore[arg-type]


def test_the_pages_of_a_tiff_are_counted():
    found = measure(picture("TIFF", (123, 456), pages=3))
    assert found is not None
    assert found.pages == 3


@pytest.mark.parametrize("format_", ["BMP", "GIF", "WEBP"])
def test_other_formats_are_none(format_: str):
    assert measure(picture(format_)) is None


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "TIFF"])
def test_an_image_cut_off_anywhere_is_none_or_what_it_was(format_: str):
    whole = picture(format_)
    assert {measure(whole[:length]) for length in range(len(whole))} <= {None, measure(whole)}


def test_a_tiff_whose_directories_lead_back_to_one_another_ends():
    directory = b"\x02\x00" + b"".join(
        tag.to_bytes(2, "little") + b"\x03\x00\x01\x00\x00\x00\x07\x00\x00\x00" for tag in (256, 257)
    )
    found = measure(b"II*\x00\x08\x00\x00\x00" + directory + b"\x08\x00\x00\x00")
    assert found == Image("TIFF", 7, 7)


@given(st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"II*\x00", b"MM\x00*"]), st.binary(max_size=200))
def test_no_bytes_lead_astray(start, rest):
    found = measure(start + rest)
    assert found is None or (found.width > 0 and found.height > 0 and 1 <= found.pages <= MAX_PAGES)
