"""Pages as images: bounded, whatever the file is, and the same picture as the file holds."""

import io
import zlib
from contextlib import suppress

import pytest
from fpdf import FPDF
from PIL import Image, ImageChops, ImageDraw
from pypdf import PdfWriter

from counterfoil.documents import page_images, page_rendering
from counterfoil.documents.page_images import NoPageError, Picture, UnshowableError, picture
from counterfoil.documents.page_rendering import MAX_BYTES, SIDES
from counterfoil.documents.recognition import FileKind, recognise
from counterfoil.documents.sandbox.process import Limits
from tests.documents.einvoice_samples import pdf as make_pdf
from tests.documents.einvoice_samples import written
from tools.sample_generator import generate


def opened(found: Picture) -> Image.Image:
    assert len(found.content) <= MAX_BYTES
    image = Image.open(io.BytesIO(found.content))
    image.load()
    return image


def drawing(mode: str = "RGB") -> Image.Image:
    """Something with colours, edges and letters."""
    image = Image.new("RGB", (300, 200), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((20, 20, 120, 60), fill="red")
    draw.text((150, 100), "Rechnung 17", fill="black")
    return image.convert(mode)


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def is_alike(one: Image.Image, other: Image.Image, within: int = 0) -> bool:
    """JPEG blurs colours, by so much at an edge."""
    difference = ImageChops.difference(one.convert("RGB"), other.convert("RGB"))
    return one.size == other.size and max(difference.convert("L").tobytes()) <= within


# PDF


def test_a_page_of_a_pdf_is_drawn() -> None:
    found = picture(make_pdf(text="Rechnung 17", pages=3), 2)

    assert (found.media_type, found.pages) == ("image/png", 3)
    image = opened(found)
    assert max(image.size) == SIDES[0]
    assert image.convert("L").getextrema() == (0, 255)


def test_each_page_is_its_own() -> None:
    document = FPDF()
    for colour in ((255, 0, 0), (0, 0, 255)):
        document.add_page()
        document.set_fill_color(*colour)
        document.rect(0, 0, 300, 300, "F")
    content = bytes(document.output())

    assert [opened(picture(content, number)).getpixel((9, 9)) for number in (1, 2)] == [(255, 0, 0), (0, 0, 255)]


@pytest.mark.parametrize("number", [0, 3, 10_000])
def test_a_page_that_a_file_has_not_is_refused(number: int) -> None:
    with pytest.raises(NoPageError, match="The document has 2 pages"):
        picture(make_pdf(pages=2), number)


def test_a_page_of_noise_is_drawn_smaller_until_it_fits() -> None:
    noise = Image.effect_noise((1600, 1600), 90)
    photo = Image.merge("RGB", [noise, noise.rotate(90), noise.rotate(180)])

    image = opened(picture(saved(photo, "PDF", quality=95), 1))

    assert max(image.size) in SIDES[1:]


def test_the_pdfs_and_images_of_the_sample_are_drawn() -> None:
    shown = {FileKind.PDF, FileKind.IMAGE}
    files = [file for file in generate(1).files if recognise(file.content) in shown and file.truth.state == "succeeded"]
    assert files

    for file in files[:: len(files) // 6]:
        assert min(opened(picture(file.content, 1)).convert("L").tobytes()) < 128  # something dark is written there


# What strangers send


def test_a_damaged_or_encrypted_pdf_is_refused() -> None:
    writer = PdfWriter(io.BytesIO(make_pdf(text="x")))
    writer.encrypt("secret", "owner", algorithm="AES-256")
    for content in (written(writer), b"%PDF-1.7\n" + bytes(range(256)) * 20, make_pdf(text="x")[:300]):
        with pytest.raises(UnshowableError, match="damaged or encrypted"):
            picture(content, 1)


def drawing_forever() -> bytes:
    """A page whose color is computed at each pixel in 100,000 steps: hours of CPU time, and little memory."""
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
    for number, one in enumerate(objects, 1):
        file += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    return file + b"trailer\n<< /Root 1 0 R >>\nstartxref\n0\n%%EOF"


def test_a_page_that_would_be_drawn_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_images, "LIMITS", Limits(cpu_seconds=10, seconds=1.5, answer_bytes=MAX_BYTES))

    with pytest.raises(UnshowableError, match="more time or memory"):
        picture(drawing_forever(), 1)


def _of_size(width: str, height: str) -> bytes:
    return make_pdf(text="x").replace(b"/MediaBox [0 0 595.28 841.89]", f"/MediaBox [0 0 {width} {height}]".encode())


@pytest.mark.parametrize(
    ("width", "height"), [("1e9", "1e9"), ("0", "0"), ("1e-9", "800"), ("14400", "1"), ("-5", "1e38")]
)
def test_a_page_of_any_size_is_bounded(width: str, height: str) -> None:
    with suppress(UnshowableError):
        assert max(opened(picture(_of_size(width, height), 1)).size) <= SIDES[0] + 1


def test_an_image_that_unpacks_to_more_than_there_is_memory_is_given_up() -> None:
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
    file = b"%PDF-1.7\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % one for one in enumerate(objects, 1))
    with suppress(UnshowableError):  # or it is drawn without it
        drawn = opened(picture(file + b"trailer\n<< /Root 1 0 R >>\nstartxref\n0\n%%EOF", 1))
        assert max(drawn.size) <= SIDES[0] + 1


# Images


@pytest.mark.parametrize(("form", "media_type"), [("JPEG", "image/jpeg"), ("PNG", "image/png")])
def test_an_image_that_is_small_enough_is_handed_on_as_it_is(form: str, media_type: str) -> None:
    content = saved(drawing(), form)

    assert picture(content, 1) == Picture(content, media_type, 1)  # type: ignore[arg-type]
    with pytest.raises(NoPageError):
        picture(content, 2)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_a_larger_one_is_drawn_anew(form: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_images, "MAX_PIXELS", 1)
    image = drawing("L" if form == "JPEG" and mode in {"1", "P"} else mode)

    assert is_alike(opened(picture(saved(image, form), 1)), image, within=140 if form == "JPEG" else 0)


@pytest.mark.parametrize(
    ("mode", "compression"),
    [
        *[("1", name) for name in ("group4", "group3", "tiff_ccitt", "raw", "packbits", "tiff_lzw")],
        *[("L", name) for name in ("raw", "tiff_lzw", "tiff_deflate")],
        *[("RGB", name) for name in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits")],
        ("P", "tiff_lzw"),
    ],
)
def test_a_page_of_a_tiff_is_drawn_as_it_is(mode: str, compression: str) -> None:
    image = drawing(mode)
    found = picture(saved(image, "TIFF", compression=compression), 1)

    assert (found.media_type, found.pages) == ("image/png", 1)
    assert is_alike(opened(found), image)


def test_a_tiff_with_jpeg_inside_and_one_in_strips_are_drawn() -> None:
    assert is_alike(opened(picture(saved(drawing(), "TIFF", compression="jpeg"), 1)), drawing(), within=140)
    strips = saved(drawing("1"), "TIFF", compression="group4", strip_size=1000)
    assert is_alike(opened(picture(strips, 1)), drawing("1"))


def test_a_tiff_of_several_pages_has_them_all() -> None:
    other = drawing().rotate(180)
    content = saved(drawing(), "TIFF", save_all=True, append_images=[other], compression="tiff_lzw")

    assert picture(content, 2).pages == 2
    assert is_alike(opened(picture(content, 2)), other)
    with pytest.raises(NoPageError, match="2 pages"):
        picture(content, 3)


def test_a_fax_is_drawn_as_high_as_it_is() -> None:
    """204 dots across and 98 down."""
    content = saved(drawing("1"), "TIFF", compression="group4", dpi=(204, 98))

    width, height = opened(picture(content, 1)).size
    assert height / width == pytest.approx(200 / 300 * 204 / 98, rel=0.02)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"<a/>", "XML"),
        (b"PK\x03\x04xx", "archive"),
        (b"GIF89a" + bytes(20), "form"),
        (b"hello", "unknown kind"),
        (b"\x89PNG\r\n\x1a\n", "form"),
        (b"II*\x00\xff\xff\xff\x7f", "form"),
        (saved(drawing("RGBA"), "TIFF"), "not known"),
    ],
)
def test_what_has_no_pages_is_refused_with_a_sentence(content: bytes, says: str) -> None:
    with pytest.raises(UnshowableError, match=says):
        picture(content, 1)


def test_images_that_are_cut_or_changed_anywhere_are_drawn_or_refused() -> None:
    """In this process: what would end it shows, and it is quicker."""
    for form, options in (("TIFF", {"compression": "group4"}), ("TIFF", {"compression": "tiff_lzw"}), ("PNG", {})):
        content = saved(drawing("1"), form, **options)
        for place in range(0, len(content), max(1, len(content) // 60)):
            for damaged in (content[:place], content[:place] + b"\xff" + content[place + 1 :]):
                made = page_rendering.make(damaged, "image", 1)
                assert made.problem in {None, "damaged", "form", "pages"}
