"""Images as PDFs of one page, for pdfium to draw: their compressed bytes as they are, in PDF's own filters. Pure.

ISO 32000-1, 7.4: DCTDecode is JPEG, FlateDecode with PNG's predictor is PNG, and the compressions of TIFF 6.0 have
filters of the same kind. What has none (an alpha channel, tiles, planes) is not wrapped.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from counterfoil.documents.reading import images, tiff

MOST_STRIPS = 10_000
_FLIPPED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_LONGEST_PAGE = 14_400
"""Points: the longest side that readers of PDF take."""


class Band(NamedTuple):
    """A part of an image, as wide as the whole."""

    height: int
    filter: str
    """Its name with its parameters, as a PDF's dictionary has them; empty where nothing is compressed."""
    data: bytes


class Bands(NamedTuple):
    """An image in bands, from its top."""

    width: int
    height: int
    space: bytes
    """The colour space, as PDF writes it."""
    bits: int
    """Of a component."""
    is_inverted: bool
    bands: Sequence[Band]
    stretch: float = 1.0
    """How much higher than wide a pixel is."""


def wrap(content: bytes, number: int) -> tuple[int, bytes | None]:
    """How many pages an image has, and the page of this number, from 1, as a PDF; None where it cannot be wrapped."""
    measured = images.measure(content)
    if measured is None:
        return 0, None
    try:
        if measured.format == "JPEG":
            found = _jpeg(content, measured)
        elif measured.format == "PNG":
            found = _png(content)
        else:
            found = _tiff(tiff.page(content, number))
    except (struct.error, IndexError, KeyError, ValueError):
        found = None
    return measured.pages, None if found is None else _pdf(found)


def _jpeg(content: bytes, measured: images.Image) -> Bands | None:
    space = _jpeg_space(content)
    if space is None:
        return None
    return Bands(
        measured.width, measured.height, space, 8, False, [Band(measured.height, "/Filter /DCTDecode", content)]
    )


def _jpeg_space(content: bytes) -> bytes | None:
    """By the number of components in the frame's header (ITU-T T.81, B.2.2); None for four: there are two sorts."""
    place = 2
    while content[place] == 0xFF:
        marker = content[place + 1]
        if marker in images.FRAMES:
            return {1: b"/DeviceGray", 3: b"/DeviceRGB"}.get(content[place + 9])
        bare = marker == 0xFF or marker in images.BARE
        place += (1 if marker == 0xFF else 2) if bare else 2 + struct.unpack_from(">H", content, place + 2)[0]
    return None


def _png(content: bytes) -> Bands | None:
    width, height, bits, colour, _, _, interlaced = struct.unpack_from(">IIBBBBB", content, 16)
    data, palette, place = [], b"", 8
    while place + 8 <= len(content):
        length, name = struct.unpack_from(">I4s", content, place)
        body = content[place + 8 : place + 8 + length]
        if name == b"IDAT":
            data.append(body)
        elif name == b"PLTE":
            palette = body
        place += 12 + length
    spaces = {0: b"/DeviceGray", 2: b"/DeviceRGB", 3: _indexed(palette)}
    if interlaced or colour not in spaces:
        return None
    colours = 3 if colour == 2 else 1
    parameters = f"/Predictor 15 /Colors {colours} /BitsPerComponent {bits} /Columns {width}"
    band = Band(height, f"/Filter /FlateDecode /DecodeParms << {parameters} >>", b"".join(data))
    return Bands(width, height, spaces[colour], bits, False, [band])


def _indexed(palette: bytes) -> bytes:
    return b"[/Indexed /DeviceRGB %d <%s>]" % (max(len(palette) // 3 - 1, 0), palette.hex().encode())


# -- TIFF ------------------------------------------------------------------------------------------------------------

_KINDS = {1: "B", 3: "H", 4: "I"}
_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_FILL_ORDER, _STRIPS, _SAMPLES, _ROWS_PER_STRIP, _LENGTHS = 266, 273, 277, 278, 279
_X_RESOLUTION, _Y_RESOLUTION, _PLANES, _T4, _PREDICTOR, _COLOURS, _TABLES = 282, 283, 284, 292, 317, 320, 347
_FAX = (2, 3, 4)
_JPEG = 7


def _tiff(content: bytes) -> Bands | None:
    """The first page of a TIFF (TIFF 6.0), in strips."""
    if not content:
        return None
    order = tiff.ORDERS[content[:4]]
    tags = _tags(content, order)
    one = {tag: values[0] for tag, values in tags.items() if values}
    width, height = one[_WIDTH], one[_HEIGHT]
    samples, bits, compression = one.get(_SAMPLES, 1), one.get(_BITS, 1), one.get(_COMPRESSION, 1)
    photometric = one.get(_PHOTOMETRIC, 1)
    space = _tiff_space(photometric, samples, tags.get(_COLOURS, ()), compression)
    rows = min(one.get(_ROWS_PER_STRIP, height), height)
    if space is None or rows <= 0 or (one.get(_PLANES, 1) != 1 and samples > 1) or len(tags[_STRIPS]) > MOST_STRIPS:
        return None
    bands = []
    for number, (start, length) in enumerate(zip(tags[_STRIPS], tags[_LENGTHS], strict=True)):
        high = min(rows, height - number * rows)
        if high <= 0:
            break
        data = content[start : start + length]
        if one.get(_FILL_ORDER, 1) == 2 and compression in _FAX:
            data = data.translate(_FLIPPED)
        filter_ = _tiff_filter(compression, one, width, high, samples, bits)
        if filter_ is None:
            return None
        if compression == _JPEG and _TABLES in tags:  # its tables are kept once for all strips
            data = data[:2] + bytes(tags[_TABLES])[2:-2] + data[2:]
        bands.append(Band(high, filter_, data))
    is_inverted = compression != _JPEG and photometric == (1 if compression in _FAX else 0)
    across, down = one.get(_X_RESOLUTION, 0), one.get(_Y_RESOLUTION, 0)
    stretch = across / down if across and down and 0.25 <= across / down <= 4 else 1.0
    return Bands(width, height, space, bits, is_inverted, bands, stretch)


def _tags(content: bytes, order: str) -> dict[int, list[int]]:
    """The values of a page's entries; of fractions, the whole number nearest to them."""
    (directory,) = struct.unpack_from(f"{order}I", content, 4)
    (count,) = struct.unpack_from(f"{order}H", content, directory)
    found: dict[int, list[int]] = {}
    for entry in range(directory + 2, directory + 2 + 12 * count, 12):
        tag, kind, number = struct.unpack_from(f"{order}HHI", content, entry)
        size = {1: 1, 3: 2, 4: 4, 5: 8, 7: 1}.get(kind)
        if size is None or number * size > len(content):
            continue
        place = entry + 8 if number * size <= 4 else struct.unpack_from(f"{order}I", content, entry + 8)[0]
        if kind == 5:
            above, below = struct.unpack_from(f"{order}II", content, place)
            found[tag] = [round(above / below)] if below else []
        else:
            found[tag] = list(struct.unpack_from(f"{order}{number}{_KINDS.get(kind, 'B')}", content, place))
    return found


def _tiff_space(photometric: int, samples: int, colours: Sequence[int], compression: int) -> bytes | None:
    if photometric in {0, 1} and samples == 1:
        return b"/DeviceGray"
    if samples == 3 and (photometric == 2 or (photometric == 6 and compression == _JPEG)):
        return b"/DeviceRGB"
    if photometric == 3 and samples == 1 and colours:
        number = len(colours) // 3
        palette = bytes(colours[plane * number + place] >> 8 for place in range(number) for plane in range(3))
        return _indexed(palette)
    return None


def _tiff_filter(
    compression: int, one: Mapping[int, int], width: int, rows: int, samples: int, bits: int
) -> str | None:
    predictor = f"/Predictor 2 /Colors {samples} /BitsPerComponent {bits} /Columns {width}"
    parameters = f" /DecodeParms << {predictor} >>" if one.get(_PREDICTOR, 1) == 2 else ""
    fax = f"/Columns {width} /Rows {rows} /EndOfBlock false"
    kind = one.get(_T4, 0) & 1
    return {
        1: "",
        2: f"/Filter /CCITTFaxDecode /DecodeParms << /K 0 /EncodedByteAlign true {fax} >>",
        3: f"/Filter /CCITTFaxDecode /DecodeParms << /K {kind} /EndOfLine true {fax} >>",
        4: f"/Filter /CCITTFaxDecode /DecodeParms << /K -1 {fax} >>",
        5: f"/Filter /LZWDecode{parameters}",
        _JPEG: "/Filter /DCTDecode",
        8: f"/Filter /FlateDecode{parameters}",
        32773: "/Filter /RunLengthDecode",
        32946: f"/Filter /FlateDecode{parameters}",
    }.get(compression)


# -- PDF -------------------------------------------------------------------------------------------------------------


def _pdf(image: Bands) -> bytes:
    """A PDF of one page, as large as the image has pixels (no more than _LONGEST_PAGE), that shows nothing else."""
    shrink = min(1.0, _LONGEST_PAGE / max(image.width, image.height * image.stretch))
    width, down = image.width * shrink, shrink * image.stretch
    height, top = image.height * down, image.height
    drawn, names, streams = [], [], []
    for number, band in enumerate(image.bands):
        top -= band.height
        drawn.append(f"q {width:.4f} 0 0 {band.height * down:.4f} 0 {top * down:.4f} cm /I{number} Do Q")
        names.append(f"/I{number} {number + 5} 0 R")
        decode = " /Decode [1 0]" if image.is_inverted else ""
        head = (
            f"/Type /XObject /Subtype /Image /Width {image.width} /Height {band.height}"
            f" /BitsPerComponent {image.bits}{decode} {band.filter} /ColorSpace "
        )
        streams.append(_stream(head.encode() + image.space, band.data))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:.4f} {height:.4f}] /Contents 4 0 R"
        f" /Resources << /XObject << {' '.join(names)} >> >> >>".encode(),
        _stream(b"", "\n".join(drawn).encode()),
        *streams,
    ]
    file, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    file += b"".join(b"%010d 00000 n \n" % place for place in places)
    file += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    return bytes(file)


def _stream(head: bytes, data: bytes) -> bytes:
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (head, len(data), data)
