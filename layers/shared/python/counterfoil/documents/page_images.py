"""Renders page images and reads image sizes, within resource limits.

Pixels, bytes, memory and time are limited. `render_page` runs in the parent process. Everything else runs in a child
process (`sandbox`), because Pillow and pdfium parse untrusted files. A crash, or a page that renders endlessly, must
not affect the caller.
"""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from counterfoil.documents.filetype import FileKind, recognize
from counterfoil.documents.sandbox.process import Limits, run
from counterfoil.errors import InvalidDocumentError, ParserError, RejectedRequestError

if TYPE_CHECKING:
    from PIL import Image

MAX_BYTES = 4_000_000
"""Maximum size of a page image: a Lambda response may have 6 MB, and base64 adds a third."""
MAX_PIXELS = 50_000_000
"""Maximum number of pixels for an image that is returned unchanged. An A4 page at 600 dpi has 35 million."""
MAX_DECODED_PIXELS = 100_000_000
"""Maximum number of pixels for an image that is decoded. Decoding this many takes 400 MB of memory."""
MAX_PAGES = 1000
"""Maximum number of pages that are read from a TIFF."""
MAX_OCR_BYTES = 10 * 1024 * 1024
"""Maximum size of a page for a synchronous Textract call."""
MIN_PAGE_PIXELS = 496
"""Minimum number of pixels on a page's shorter side: A4 at 60 dpi. A smaller page is not readable."""
SIDES = (1800, 1300, 900)
"""Pixels on the longer side of a page image: 154, 111 and 77 dpi for A4. The first size within `MAX_BYTES` is used."""
MAX_SCALE = 5.0
"""Maximum number of pixels per point, which limits the enlargement of small PDF pages."""
LIMITS = Limits(cpu_seconds=10, seconds=14, answer_bytes=MAX_BYTES)
VERSION = "2"
"""Version of the rendering. Change it when the same file results in different bytes."""

PAGE_FORMATS = ("PNG", "JPEG", "TIFF")
"""Formats of scanned pages."""
MediaType = Literal["image/png", "image/jpeg"]
_MEDIA_TYPES: dict[str, MediaType] = {"PNG": "image/png", "JPEG": "image/jpeg", "MPO": "image/jpeg"}
_STRETCH = (0.25, 4.0)
"""Minimum and maximum plausible ratio of a fax's horizontal and vertical resolution."""


class RenderError(RejectedRequestError):
    """The file has no pages to show, or the requested page cannot be rendered."""


class PageNotFoundError(RejectedRequestError):
    """The file does not have the requested page."""


@dataclass(frozen=True)
class PageImage:
    """A page as an image."""

    content: bytes
    media_type: MediaType
    pages: int
    """Number of pages in the file."""


def render_page(content: bytes, number: int) -> PageImage:
    """Return a page of a file as an image of at most `MAX_BYTES`. Pages count from 1.

    Raises:
        PageNotFoundError: the file does not have this page.
        RenderError: the file is not a PDF, JPEG, PNG or TIFF, is damaged or encrypted, has too many pixels, or takes
            too much time or memory.
    """
    kind = recognize(content)
    if kind not in {FileKind.PDF, FileKind.IMAGE}:
        raise RenderError(_NO_PAGES[kind])
    try:
        (frame,) = run("render", content, {"is_pdf": kind is FileKind.PDF, "number": number}, LIMITS)
    except (InvalidDocumentError, ParserError):
        raise RenderError(_RENDERER_FAILED) from None
    problem, pages, media_type = frame.value["problem"], frame.value["pages"], frame.value["media_type"]
    if problem == "pages":
        raise PageNotFoundError(f"The document has {pages} page{'s' if pages != 1 else ''}.")
    if problem is not None:
        raise RenderError(_PROBLEMS[problem])
    return PageImage(frame.content or content, media_type, pages)


_RENDERER_FAILED = "This page cannot be shown: it needs too much time or memory, or it crashes the renderer."
_PROBLEMS = {
    "damaged": "This page cannot be shown: the file is damaged or encrypted.",
    "form": "This page cannot be shown: its image format is not supported.",
    "large": f"This page cannot be shown: it has more than {MAX_DECODED_PIXELS // 1_000_000} million pixels.",
    "format": "This image format cannot be shown. Supported formats: PDF, JPEG, PNG and TIFF.",
}
_NO_PAGES = {
    FileKind.XML: "The file is XML and has no pages. See the document's fields.",
    FileKind.ZIP: "The file is an archive or an office document, and its pages cannot be shown.",
    FileKind.UNKNOWN: "The file type is unknown, so its pages cannot be shown.",
}


# -- in the child ----------------------------------------------------------------------------------------------------


class Rendered(NamedTuple):
    """A rendered page, or the reason why it cannot be rendered."""

    problem: Literal["damaged", "form", "large", "format", "pages"] | None
    pages: int = 0
    content: bytes = b""
    """Empty if the file itself is the page image."""
    media_type: MediaType = "image/png"


def render_pdf(content: bytes, number: int) -> Rendered:
    """Draw a page of a PDF as a PNG of at most `MAX_BYTES`."""
    import pypdfium2  # type: ignore[import-untyped]

    try:
        with pypdfium2.PdfDocument(content) as document:
            pages = len(document)
            if not 1 <= number <= pages:
                return Rendered("pages", pages)
            page = document[number - 1]
            width, height = page.get_size()
            if not (0 < width < float("inf") and 0 < height < float("inf")):
                return Rendered("damaged", pages)
            scales = (min(MAX_SCALE, side / max(width, height)) for side in SIDES)
            drawn = (page.render(scale=scale, rev_byteorder=True, limit_image_cache=True) for scale in scales)
            return _smallest((bitmap.to_pil().convert("RGB") for bitmap in drawn), pages)
    except (pypdfium2.PdfiumError, MemoryError):
        return Rendered("damaged")


def render_image(content: bytes, number: int) -> Rendered:
    """Return a page of an image as a PNG, or a small JPEG or PNG unchanged."""
    from PIL import Image

    pages = page_sizes(content)
    if pages is None:
        return Rendered("format")
    if not 1 <= number <= len(pages):
        return Rendered("pages", len(pages))
    try:
        with _open(content) as image:
            return _render_frame(image, content, number, len(pages))
    except MemoryError:
        raise
    except Image.DecompressionBombError:
        return Rendered("large", len(pages))
    except Exception:  # noqa: BLE001  # Pillow's plugins raise arbitrary errors for damaged files
        return Rendered("damaged", len(pages))


def _render_frame(image: "Image.Image", content: bytes, number: int, pages: int) -> Rendered:
    media_type = _MEDIA_TYPES.get(image.format or "")
    if media_type is not None and len(content) <= MAX_BYTES and image.width * image.height <= MAX_PIXELS:
        return Rendered(None, pages, b"", media_type)
    if number > 1:
        image.seek(number - 1)
    image.draft(None, (2 * SIDES[0], 2 * SIDES[0]))  # decodes a large JPEG at reduced size, which is faster
    stretch = _stretch(image)
    upright = _to_resizable(image)
    if upright is None:
        return Rendered("form", pages)
    return _smallest((_scale(upright, side, stretch) for side in SIDES), pages)


def page_sizes(content: bytes) -> list[tuple[int, int] | None] | None:
    """Return the width and height, in pixels, of each page of a PNG, JPEG or TIFF.

    Reads only the headers of at most `MAX_PAGES` pages. The size of a page is None if it is too large or unknown. The
    result is None for other formats and for a damaged header.
    """
    from PIL import Image

    sizes: list[tuple[int, int] | None] = []
    try:
        with _open(content) as image:
            sizes.append(image.size)
            while image.format == "TIFF" and len(sizes) < MAX_PAGES:
                try:
                    image.seek(len(sizes))
                except EOFError:
                    break
                except (Image.DecompressionBombError, SyntaxError, OSError) as error:
                    if "orrupt EXIF" in str(error):  # the file ends within this page's directory
                        return None
                    sizes.append(None)
                else:
                    sizes.append(image.size)
    except MemoryError:
        raise
    except Image.DecompressionBombError:
        return [None]
    except Exception:  # noqa: BLE001  # as in `render_image`
        return None
    return sizes


def tiff_pages(content: bytes, numbers: Sequence[int]) -> Iterator[bytes]:
    """Yield pages of a TIFF as PNG, or as JPEG to stay within `MAX_OCR_BYTES`.

    Yields empty bytes for a damaged page.
    """
    with _open(content) as image:
        for number in numbers:
            try:
                image.seek(number - 1)
                image.load()
                yield _for_ocr(image)
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001  # as in `render_image`
                yield b""


def is_small(content: bytes) -> bool:
    """Return whether an image is too small to be a page, such as a logo.

    False if unreadable.
    """
    try:
        with _open(content, ("PNG", "JPEG", "GIF", "BMP")) as image:
            return min(image.size) < MIN_PAGE_PIXELS
    except Exception:  # noqa: BLE001  # as in `render_image`
        return False


@contextmanager
def _open(content: bytes, formats: tuple[str, ...] = PAGE_FORMATS) -> "Iterator[Image.Image]":
    """Open an image without decoding it."""
    from PIL import Image, TiffImagePlugin  # noqa: F401  # without it, Pillow imports all plugins for a TIFF

    Image.MAX_IMAGE_PIXELS = MAX_DECODED_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        # As a warning, this would hide the loss of later pages.
        warnings.filterwarnings("error", message="Corrupt EXIF data")
        try:
            with Image.open(io.BytesIO(content), formats=formats) as image:
                yield image
        except Image.DecompressionBombWarning as warning:
            raise Image.DecompressionBombError(str(warning)) from None


def _stretch(image: "Image.Image") -> float:
    """Return the height of a pixel divided by its width.

    A fax usually has 204 by 98 dots per inch.
    """
    across, down = map(float, image.info.get("dpi", (1, 1))) if image.format == "TIFF" else (1.0, 1.0)
    stretch = across / down if down else 1.0
    return stretch if _STRETCH[0] <= stretch <= _STRETCH[1] else 1.0


def _to_resizable(image: "Image.Image") -> "Image.Image | None":
    """Return the image upright and in a resizable mode.

    Returns None if its pixel values have no known range.
    """
    from PIL import ImageOps

    if image.mode in {"I", "F"}:
        return None
    if image.mode in {"P", "PA"}:
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    elif image.mode == "1":
        image = image.convert("L")
    return ImageOps.exif_transpose(image)


def _scale(image: "Image.Image", side: int, stretch: float) -> "Image.Image":
    """Return the image scaled to at most `side` pixels.

    The result has 8 bits per channel and a white background.
    """
    width, height = image.width, image.height * stretch
    scale = min(1.0, side / max(width, height))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return _eight_bit(image if size == image.size else image.resize(size, reducing_gap=2.0))


def _eight_bit(image: "Image.Image") -> "Image.Image":
    """Return the image in mode L or RGB."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
        return white.convert("RGB")
    return image if image.mode == "L" else image.convert("RGB")


def _smallest(drawn: "Iterator[Image.Image]", pages: int) -> Rendered:
    """Return the first image within `MAX_BYTES`."""
    for image in drawn:
        png = _png(image)
        if len(png) <= MAX_BYTES:
            return Rendered(None, pages, png)
    return Rendered("form", pages)


def _png(image: "Image.Image") -> bytes:
    """Encode an image as PNG, with one channel if it is grayscale."""
    if image.mode == "RGB":
        red, green, blue = (channel.tobytes() for channel in image.split())
        if red == green == blue:
            image = image.getchannel(0)
    return _encode(image, "PNG")


def _for_ocr(image: "Image.Image") -> bytes:
    png = _encode(image if image.mode == "1" else _eight_bit(image), "PNG")
    return png if len(png) <= MAX_OCR_BYTES else _encode(_eight_bit(image), "JPEG", quality=90)


def _encode(image: "Image.Image", format_: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format_, **options)
    return file.getvalue()
