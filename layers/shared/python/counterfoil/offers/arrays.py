"""Arrays for PostgreSQL in its binary format, made of numpy's: thousands of rows in one parameter, at no cost."""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.adapt import Dumper
from psycopg.pq import Format

_UUID_BYTES = 16
_JSONB_VERSION = b"\x01"


class BinaryArray(bytes):
    """An array as the server takes it. Each subclass has the types of one kind of array, by their numbers there."""

    array: ClassVar[int]
    element: ClassVar[int]

    __slots__ = ()


A = TypeVar("A", bound=BinaryArray)


class UuidArray(BinaryArray):
    """uuid[]."""

    array, element = 2951, 2950
    __slots__ = ()


class SmallintArray(BinaryArray):
    """smallint[]."""

    array, element = 1005, 21
    __slots__ = ()


class IntegerArray(BinaryArray):
    """integer[]."""

    array, element = 1007, 23
    __slots__ = ()


class ByteaArray(BinaryArray):
    """bytea[]."""

    array, element = 1001, 17
    __slots__ = ()


class JsonbArray(BinaryArray):
    """jsonb[]."""

    array, element = 3807, 3802
    __slots__ = ()


def uuids(ids: NDArray[Any]) -> UuidArray:
    """Ids, 16 bytes each."""
    return _fixed(UuidArray, np.ascontiguousarray(ids).view(f"V{_UUID_BYTES}"))


def smallints(numbers: NDArray[Any]) -> SmallintArray:
    """Whole numbers that fit into two bytes."""
    return _fixed(SmallintArray, numbers.astype(">i2"))


def integers(numbers: NDArray[Any]) -> IntegerArray:
    """Whole numbers that fit into four bytes."""
    return _fixed(IntegerArray, numbers.astype(">i4"))


def byteas(values: Sequence[bytes]) -> ByteaArray:
    """Bytes of any length."""
    return _varying(ByteaArray, values)


def jsonbs(documents: Sequence[bytes]) -> JsonbArray:
    """JSON as UTF-8."""
    return _varying(JsonbArray, documents, _JSONB_VERSION)


def _fixed(kind: type[A], values: NDArray[Any]) -> A:
    elements = np.empty(len(values), [("length", ">i4"), ("value", values.dtype)])
    elements["length"] = values.dtype.itemsize
    elements["value"] = values
    return kind(_head(kind, len(values)) + elements.tobytes())


def _varying(kind: type[A], values: Sequence[bytes], prefix: bytes = b"") -> A:
    def parts() -> Iterable[bytes]:
        yield _head(kind, len(values))
        for value in values:
            yield struct.pack(">i", len(prefix) + len(value))
            yield prefix
            yield value

    return kind(b"".join(parts()))


def _head(kind: type[BinaryArray], length: int) -> bytes:
    """One dimension, no NULL among the elements, the first of which has the number 1."""
    return struct.pack(">5i", 1, 0, kind.element, length, 1)


class _Dumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: BinaryArray) -> bytes:
        """As it is."""
        return obj


def _register() -> None:
    for kind in BinaryArray.__subclasses__():
        dumper = type(f"{kind.__name__}Dumper", (_Dumper,), {"oid": kind.array})
        psycopg.adapters.register_dumper(kind, dumper)


_register()
