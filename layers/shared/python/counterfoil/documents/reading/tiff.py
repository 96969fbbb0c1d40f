"""Takes a TIFF of several pages apart: each page as a TIFF of its own, with its own bytes and no other's. Pure.

TIFF 6.0: a header leads to the directory of the first page, each directory to the next. A directory's entries hold
their values, or lead to them; two pairs of them lead to the picture's bytes, in strips or in tiles. Nothing is decoded.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MAX_PAGES = 1000
ORDERS = {b"II*\x00": "<", b"MM\x00*": ">"}
"""The first bytes of a TIFF, and the order of its bytes as `struct` names it."""

_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
"""Bytes of a value by the type of its entry."""
_SHORT, _LONG = 3, 4
_PARTS = {273: 279, 324: 325}
"""Tags of the places of strips and of tiles, with those of their lengths."""
_NOT_MOVED = frozenset({330, 513, 514, 519, 520, 521, 34665, 34853})
"""Tags that lead elsewhere by places of their own: thumbnails, camera data, JPEG as it was first."""


class _Entry(NamedTuple):
    tag: int
    type: int
    values: int
    value: bytes


def directories(content: bytes) -> list[int]:
    """Where the directory of each page is, at most 1000; a chain that bites its tail ends.

    Raises `struct.error` where the file ends too early.
    """
    order = ORDERS[content[:4]]
    (place,) = struct.unpack_from(f"{order}I", content, 4)
    found: list[int] = []
    while place and place not in found and len(found) < MAX_PAGES:
        found.append(place)
        (count,) = struct.unpack_from(f"{order}H", content, place)
        (place,) = struct.unpack_from(f"{order}I", content, place + 2 + 12 * count)
    return found


def page(content: bytes, number: int) -> bytes:
    """The page of this number, counted from 1, as a TIFF; empty where its bytes are not all there.

    Empty, too, where its entries lead to more than the whole file has: they lead to the same bytes more than once.
    """
    order = ORDERS[content[:4]]
    by_tag: dict[int, _Entry] = {}
    held = 0
    try:
        for entry in _entries(content, order, directories(content)[number - 1]):
            by_tag.setdefault(entry.tag, entry)
            held += len(entry.value)
            if held > len(content):
                return b""
    except (struct.error, IndexError):
        return b""
    parts = _parts(content, order, by_tag)
    if parts is None or any(len(entry.value) != _SIZES[entry.type] * entry.values for entry in by_tag.values()):
        return b""
    kept = [entry for entry in by_tag.values() if entry.tag not in _NOT_MOVED]
    start = 8 + 2 + 12 * len(kept) + 4
    body = bytearray()
    table = []
    for entry in kept:
        value, type_ = entry.value, entry.type
        if entry.tag in _PARTS:
            places = []
            for part in parts:
                places.append(start + len(body))
                body += part
            value, type_ = struct.pack(f"{order}{len(places)}I", *places), _LONG
        if len(value) > 4:
            body += b"\0" * (len(body) % 2)
            field = struct.pack(f"{order}I", start + len(body))
            body += value
        else:
            field = value.ljust(4, b"\0")
        table.append(struct.pack(f"{order}HHI", entry.tag, type_, entry.values) + field)
    head = content[:4] + struct.pack(f"{order}IH", 8, len(kept))
    return head + b"".join(table) + b"\0\0\0\0" + bytes(body)


def _entries(content: bytes, order: str, directory: int) -> Iterator[_Entry]:
    (count,) = struct.unpack_from(f"{order}H", content, directory)
    for place in range(directory + 2, directory + 2 + 12 * count, 12):
        tag, type_, values = struct.unpack_from(f"{order}HHI", content, place)
        if type_ not in _SIZES:
            continue
        length = _SIZES[type_] * values
        start = place + 8
        if length > 4:
            (start,) = struct.unpack_from(f"{order}I", content, start)
        yield _Entry(tag, type_, values, content[start : start + length])


def _parts(content: bytes, order: str, by_tag: Mapping[int, _Entry]) -> list[bytes] | None:
    """The bytes of a page's picture; None where they are not there, or more than the whole file."""
    for tag, lengths_tag in _PARTS.items():
        if tag in by_tag and lengths_tag in by_tag:
            places, lengths = (_numbers(order, by_tag[one]) for one in (tag, lengths_tag))
            if len(places) != len(lengths) or sum(lengths) > len(content):
                return None
            parts = [content[place : place + length] for place, length in zip(places, lengths, strict=True)]
            return parts if all(len(part) == length for part, length in zip(parts, lengths, strict=True)) else None
    return None


def _numbers(order: str, entry: _Entry) -> tuple[int, ...]:
    letter = {_SHORT: "H", _LONG: "I"}.get(entry.type)
    if letter is None or len(entry.value) != _SIZES[entry.type] * entry.values:
        return ()
    return struct.unpack(f"{order}{entry.values}{letter}", entry.value)
