"""Page images are correct, and need bounded time and memory for any input."""

import io
import struct
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from fpdf import FPDF
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageDraw
from pypdf import PdfWriter

from counterfoil.documents import page_images
from counterfoil.documents.filetype import FileKind, recognize
from counterfoil.documents.page_images import (
    MAX_BYTES,
    MAX_PAGES,
    MIN_PAGE_PIXELS,
    SIDES,
    PageImage,
    PageNotFoundError,
    Rendered,
    RenderError,
    is_small,
    page_sizes,
    render_image,
    render_page,
    tiff_pages,
)
from counterfoil.documents.sandbox.process import Limits
from tests.documents.einvoice_samples import pdf as make_pdf
from tests.documents.einvoice_samples import write_pdf
from tests.documents.reading.samples import tiff as tiff_of
from tools.sample_generator import generate


def open_image(result: PageImage) -> Image.Image:
    assert len(result.content) <= MAX_BYTES
    image = Image.open(io.BytesIO(result.content))
    image.load()
    return image


def decode_image(image: Rendered) -> Image.Image:
    assert image.problem is None
    return open_image(PageImage(image.content, image.media_type, image.pages))


def draw_image(mode: str = "RGB") -> Image.Image:
    """Return an image with colors, edges and letters."""
    image = Image.new("RGB", (300, 200), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((20, 20, 120, 60), fill="red")
    draw.text((150, 100), "Rechnung 17", fill="black")
    return image.convert(mode)


def encode(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def is_alike(first: Image.Image, second: Image.Image, within: int = 0) -> bool:
    """Return True if two images have the same size and similar colors.

    Colors may differ by at most `within`. JPEG blurs colors at edges.
    """
    difference = ImageChops.difference(first.convert("RGB"), second.convert("RGB"))
    return first.size == second.size and max(difference.convert("L").tobytes()) <= within


# PDF


def test_pdf_page_is_drawn() -> None:
    page_ = render_page(make_pdf(text="Rechnung 17", pages=3), 2)

    assert (page_.media_type, page_.pages) == ("image/png", 3)
    image = open_image(page_)
    assert max(image.size) == SIDES[0]
    assert image.convert("L").getextrema() == (0, 255)


def test_each_page_is_drawn_separately() -> None:
    document = FPDF()
    for color in ((255, 0, 0), (0, 0, 255)):
        document.add_page()
        document.set_fill_color(*color)
        document.rect(0, 0, 300, 300, "F")
    content = bytes(document.output())

    assert [open_image(render_page(content, number)).getpixel((9, 9)) for number in (1, 2)] == [
        (255, 0, 0),
        (0, 0, 255),
    ]


@pytest.mark.parametrize("number", [0, 3, 10_000])
def test_missing_page_is_rejected(number: int) -> None:
    with pytest.raises(PageNotFoundError, match="The document has 2 pages"):
        render_page(make_pdf(pages=2), number)


def test_noisy_page_is_scaled_down() -> None:
    noise = Image.effect_noise((1600, 1600), 90)
    photo = Image.merge("RGB", [noise, noise.rotate(90), noise.rotate(180)])

    image = open_image(render_page(encode(photo, "PDF", quality=95), 1))

    assert max(image.size) in SIDES[1:]


def test_sample_pdfs_and_images_are_drawn() -> None:
    displayed = {FileKind.PDF, FileKind.IMAGE}
    files = [
        file for file in generate(1).files if recognize(file.content) in displayed and file.truth.state == "succeeded"
    ]
    assert files

    for file in files[:: len(files) // 6]:
        assert min(open_image(render_page(file.content, 1)).convert("L").tobytes()) < 128  # the page is not blank


# Untrusted files


def test_damaged_or_encrypted_pdf_is_rejected() -> None:
    writer = PdfWriter(io.BytesIO(make_pdf(text="x")))
    writer.encrypt("secret", "owner", algorithm="AES-256")
    for content in (write_pdf(writer), b"%PDF-1.7\n" + bytes(range(256)) * 20, make_pdf(text="x")[:300]):
        with pytest.raises(RenderError, match="damaged or encrypted"):
            render_page(content, 1)


def drawing_forever() -> bytes:
    """Return a PDF page that takes hours to draw, but little memory.

    Each pixel requires 100,000 operations.
    """
    steps = b"{ add %s}" % (b"0 add " * 100_000)
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R"
        b" /Resources << /Shading << /S 5 0 R >> >> >>",
        b"<< /Length 5 >>\nstream\n/S sh\nendstream",
        b"<< /ShadingType 1 /ColorSpace /DeviceGray /Domain [0 600 0 800] /Function 6 0 R >>",
        b"<< /FunctionType 4 /Domain [0 600 0 800] /Range [0 1] /Length %d >>\nstream\n%s\nendstream"
        % (len(steps), steps),
    )
    file = b"%PDF-1.7\n"
    for number, content in enumerate(objects, 1):
        file += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    return file + b"trailer\n<< /Root 1 0 R >>\nstartxref\n0\n%%EOF"


def test_endless_page_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_images, "LIMITS", Limits(cpu_seconds=10, seconds=1.5, answer_bytes=MAX_BYTES))

    with pytest.raises(RenderError, match="too much time or memory"):
        render_page(drawing_forever(), 1)


def _pdf_of_size(width: str, height: str) -> bytes:
    return make_pdf(text="x").replace(b"/MediaBox [0 0 595.28 841.89]", f"/MediaBox [0 0 {width} {height}]".encode())


@pytest.mark.parametrize(
    ("width", "height"), [("1e9", "1e9"), ("0", "0"), ("1e-9", "800"), ("14400", "1"), ("-5", "1e38")]
)
def test_page_image_size_is_bounded(width: str, height: str) -> None:
    with suppress(RenderError):
        assert max(open_image(render_page(_pdf_of_size(width, height), 1)).size) <= SIDES[0] + 1


def test_page_with_oversized_image_is_drawn_or_rejected() -> None:
    data = zlib.compress(bytes(1000)) * 2
    head = b"<< /Type /XObject /Subtype /Image /Width 100000 /Height 100000 /BitsPerComponent 8 /ColorSpace /DeviceRGB"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R"
        b" /Resources << /XObject << /I 5 0 R >> >> >>",
        b"<< /Length 29 >>\nstream\nq 600 0 0 800 0 0 cm /I Do Q \nendstream",
        head + b" /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(data), data),
    ]
    file = b"%PDF-1.7\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % numbered for numbered in enumerate(objects, 1))
    with suppress(RenderError):  # the page may also be drawn without the image
        drawn = open_image(render_page(file + b"trailer\n<< /Root 1 0 R >>\nstartxref\n0\n%%EOF", 1))
        assert max(drawn.size) <= SIDES[0] + 1


# Images


@pytest.mark.parametrize(("form", "media_type"), [("JPEG", "image/jpeg"), ("PNG", "image/png")])
def test_small_image_is_returned_unchanged(form: str, media_type: str) -> None:
    content = encode(draw_image(), form)

    assert render_page(content, 1) == PageImage(content, media_type, 1)  # type: ignore[arg-type]
    with pytest.raises(PageNotFoundError):
        render_page(content, 2)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_large_image_is_redrawn(form: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_images, "MAX_PIXELS", 1)
    image = draw_image("L" if form == "JPEG" and mode in {"1", "P"} else mode)

    assert is_alike(decode_image(render_image(encode(image, form), 1)), image, within=140 if form == "JPEG" else 0)


@pytest.mark.parametrize(
    ("mode", "compression"),
    [
        *[("1", name) for name in ("group4", "group3", "tiff_ccitt", "raw", "packbits", "tiff_lzw")],
        *[("L", name) for name in ("raw", "tiff_lzw", "tiff_deflate")],
        *[("RGB", name) for name in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits")],
        ("P", "tiff_lzw"),
    ],
)
def test_tiff_page_is_drawn_losslessly(mode: str, compression: str) -> None:
    image = draw_image(mode)
    page_ = render_page(encode(image, "TIFF", compression=compression), 1)

    assert (page_.media_type, page_.pages) == ("image/png", 1)
    assert is_alike(open_image(page_), image)


def test_jpeg_and_striped_tiffs_are_drawn() -> None:
    assert is_alike(
        open_image(render_page(encode(draw_image(), "TIFF", compression="jpeg"), 1)), draw_image(), within=140
    )
    strips = encode(draw_image("1"), "TIFF", compression="group4", strip_size=1000)
    assert is_alike(open_image(render_page(strips, 1)), draw_image("1"))


def test_multipage_tiff_has_all_pages() -> None:
    other = draw_image().rotate(180)
    content = encode(draw_image(), "TIFF", save_all=True, append_images=[other], compression="tiff_lzw")

    assert render_page(content, 2).pages == 2
    assert is_alike(open_image(render_page(content, 2)), other)
    with pytest.raises(PageNotFoundError, match="2 pages"):
        render_page(content, 3)


def test_fax_keeps_its_aspect_ratio() -> None:
    """Faxes have a resolution of 204 by 98 dots per inch."""
    content = encode(draw_image("1"), "TIFF", compression="group4", dpi=(204, 98))

    width, height = open_image(render_page(content, 1)).size
    assert height / width == pytest.approx(200 / 300 * 204 / 98, rel=0.02)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<a/>", "XML"),
        (b"PK\x03\x04xx", "archive"),
        (b"GIF89a" + bytes(20), "form"),
        (b"hello", "file type is unknown"),
        (b"\x89PNG\r\n\x1a\n", "form"),
        (b"II*\x00\xff\xff\xff\x7f", "form"),
        (encode(draw_image("F"), "TIFF"), "not supported"),
        (encode(Image.new("1", (20_000, 10_000)), "PNG"), "more than 100 million pixels"),
    ],
)
def test_undrawable_file_is_rejected_with_a_reason(content: bytes, message: str) -> None:
    with pytest.raises(RenderError, match=message):
        render_page(content, 1)


def test_damaged_images_are_drawn_or_rejected() -> None:
    """Drawing in the test's own process is faster and exposes crashes."""
    for form, options in (("TIFF", {"compression": "group4"}), ("TIFF", {"compression": "tiff_lzw"}), ("PNG", {})):
        content = encode(draw_image("1"), form, **options)
        for location in range(0, len(content), max(1, len(content) // 60)):
            for damaged in (content[:location], content[:location] + b"\xff" + content[location + 1 :]):
                created = render_image(damaged, 1)
                assert created.problem in {None, "damaged", "form", "format", "large"}


@pytest.mark.parametrize("form", ["JPEG", "TIFF"])
def test_cmyk_image_is_drawn_in_its_colors(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_images, "MAX_PIXELS", 1)

    image = decode_image(render_image(encode(draw_image("CMYK"), form), 1))

    assert image.getpixel((290, 190)) == pytest.approx((255, 255, 255), abs=4)
    assert image.getpixel((70, 40)) == pytest.approx((255, 0, 0), abs=12)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_16_bit_grays_keep_their_shades(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_images, "MAX_PIXELS", 1)
    shades = Image.new("I;16", (4, 1))
    for x, shade in enumerate((0, 0x4000, 0x8000, 0xFFFF)):
        shades.putpixel((x, 0), shade)

    image = decode_image(render_image(encode(shades, form), 1))

    assert [image.getpixel((x, 0)) for x in range(4)] == [0, 0x40, 0x80, 0xFF]


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_transparent_image_is_drawn_over_white(mode: str) -> None:
    image = Image.new(mode, (30, 20), (0,) * len(mode))

    assert decode_image(render_image(encode(image, "TIFF"), 1)).convert("RGB").getextrema() == ((255, 255),) * 3


def test_image_with_54_million_pixels_is_scaled_down() -> None:
    image = decode_image(render_image(encode(Image.new("RGB", (9000, 6000), "white"), "JPEG"), 1))

    assert image.size == (1800, 1200)


# Sizes and pages for OCR


@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF"])
def test_page_size_is_width_and_height_in_pixels(form: str) -> None:
    assert page_sizes(encode(draw_image(), form)) == [(300, 200)]


@pytest.mark.parametrize("form", ["BMP", "GIF", "WEBP"])
def test_other_formats_yield_no_page_sizes(form: str) -> None:
    assert page_sizes(encode(draw_image("L"), form)) is None


def test_oversized_image_is_not_measured() -> None:
    assert page_sizes(encode(Image.new("1", (20_000, 10_000)), "PNG")) == [None]


@pytest.mark.parametrize("compression", ["raw", "tiff_deflate", "tiff_lzw", "packbits", "jpeg"])
def test_tiff_pages_keep_their_pixels(compression: str) -> None:
    content = tiff_of(10, 120, 250, size=(40, 900), compression=compression)

    pages = [Image.open(io.BytesIO(page)) for page in tiff_pages(content, (1, 2, 3))]

    for page, shade in zip(pages, (10, 120, 250), strict=True):
        assert page.size == (40, 900)
        assert all(abs(collected - shade) <= 2 for collected in page.convert("L").getextrema())  # type: ignore[operator]


@pytest.mark.parametrize("compression", ["group3", "group4"])
def test_fax_pages_keep_their_pixels(compression: str) -> None:
    content = encode(
        draw_image("1"), "TIFF", compression=compression, save_all=True, append_images=[draw_image("1").rotate(180)]
    )

    (page,) = tiff_pages(content, (2,))

    assert Image.open(io.BytesIO(page)).tobytes() == draw_image("1").rotate(180).tobytes()


def test_tiff_of_a_thousand_pages_is_read_completely() -> None:
    pages = [Image.new("1", (8, 8), shade % 2) for shade in range(MAX_PAGES)]
    content = encode(pages[0], "TIFF", save_all=True, append_images=pages[1:])

    sizes = page_sizes(content)

    assert sizes == [(8, 8)] * MAX_PAGES
    assert render_page(content, MAX_PAGES).pages == MAX_PAGES
    assert open_image(render_page(content, MAX_PAGES)).getextrema() == (255, 255)


def test_page_too_large_as_png_becomes_jpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_images, "MAX_OCR_BYTES", 100)

    (page,) = tiff_pages(encode(draw_image(), "TIFF"), (1,))

    assert Image.open(io.BytesIO(page)).format == "JPEG"


def test_truncated_tiff_never_loses_pages_silently() -> None:
    content = tiff_of(10, 120)
    for length in range(len(content)):
        sizes = page_sizes(content[:length])
        assert sizes is None or len(sizes) == 2


def test_cyclic_tiff_directories_are_read_once() -> None:
    entries = ((256, 7), (257, 7), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, 7))
    table = b"".join(struct.pack("<HHIHH", tag, 3, 1, value, 0) for tag, value in entries)
    content = b"II*\x00" + struct.pack("<IH", 8, len(entries)) + table + struct.pack("<I", 8)

    assert page_sizes(content) == [(7, 7)]


BLOCK = 100_000
"""Size in bytes of the data to which each entry of a hostile directory points."""
STRIP = [(273, 1, 0), (279, 1, BLOCK)]
"""Directory entries (tag, number of values, value) for one strip at the start of the file."""


@pytest.mark.parametrize(
    "entries",
    [[*STRIP, *((tag, BLOCK // 4, 0) for tag in range(1000, 4000))], [*STRIP, *[(273, 1, 0)] * 3000]],
    ids=["each entry points to the whole file", "each entry points to the same strip"],
)
def test_memory_for_hostile_tiff_is_proportional_to_size(entries: list[tuple[int, int, int]]) -> None:
    table = b"".join(struct.pack("<HHII", tag, 4, values, value) for tag, values, value in entries)
    content = b"II*\0" + struct.pack("<IH", 8, len(entries)) + table + b"\0\0\0\0" + bytes(BLOCK)
    tracemalloc.start()
    try:
        page_sizes(content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 20 * len(content)


@given(st.data())
@settings(deadline=None)
def test_damaged_tiff_yields_pages_or_none(data: st.DataObject) -> None:
    content = bytearray(tiff_of(10, 120))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))

    sizes = page_sizes(bytes(content))

    assert sizes is None or 1 <= len(sizes) <= MAX_PAGES
    assert render_image(bytes(content), 1).problem in {None, "damaged", "form", "format", "large"}


@given(st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"II*\x00", b"MM\x00*"]), st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_yield_sizes_or_none(start: bytes, rest: bytes) -> None:
    sizes = page_sizes(start + rest)

    assert sizes is None or 1 <= len(sizes) <= MAX_PAGES


# Decorative images in mails


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP"])
@pytest.mark.parametrize(("size", "small"), [((MIN_PAGE_PIXELS - 1, 700), True), ((MIN_PAGE_PIXELS,) * 2, False)])
def test_only_image_below_readable_size_is_small(form: str, size: tuple[int, int], small: bool) -> None:
    assert is_small(encode(Image.new("L", size), form)) is small


@pytest.mark.parametrize(
    "content", [b"", b"RIFF\x00\x00\x00\x00WEBP", encode(draw_image(), "PNG")[:20], b"\xff\xd8" + b"\xff" * 5000]
)
def test_image_of_unknown_size_is_not_small(content: bytes) -> None:
    assert not is_small(content)
