"""What a document is about, whatever its language: the text that is embedded, and buckets of vectors. Pure.

Two vectors at a small angle are most likely on the same side of a plane through the origin: at the angle t they are so
with the chance 1 - t / pi (M. Charikar, Similarity Estimation Techniques from Rounding Algorithms, 2002). A signature
has a bit for each of PLANES planes, and BANDS groups of BITS of them are the buckets of a vector. Two vectors are
neighbours if they share a bucket: that is a matter of the two alone, whatever else there is.

Measured with 1,024 dimensions, the share of pairs that are neighbours by their cosine: .98 or more at .95, .94 at .90,
.85 at .85, .72 at .80, .18 at .50, .01 where there is nothing alike. With fewer bits a bucket would be crowded, by
MAX_HOLDERS, among fewer documents: it has 1/1,000 of those that have nothing alike, and 1/60 of those at .50. A band
more is a key more.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256, shake_256
from itertools import compress
from typing import Any, NamedTuple
from zlib import crc32

BANDS = 12
BITS = 10
PLANES = BANDS * BITS
MARK = "≈"
"""How a bucket begins, as no name and no number does."""
LONGEST_TEXT = 2_000
"""Characters that are embedded."""
_LONGEST_LINE = 200


class Embedding(NamedTuple):
    """What is kept of a vector: of which text, by which model, and on which sides of the planes it lies."""

    text_hash: bytes
    model: str
    signature: bytes


def text(data: Mapping[str, Any]) -> str:
    """What is embedded of structured data: the descriptions of its lines, each once and in their alphabetical order.

    Neither parties nor numbers are in it: those are keys of their own, and of the same goods they would make two texts.
    Empty where nothing is described.
    """
    said = (item.get("description") for item in data.get("line_items") or () if isinstance(item, Mapping))
    lines = {" ".join(one.split())[:_LONGEST_LINE] for one in said if isinstance(one, str)}
    return "\n".join(sorted(lines - {""}))[:LONGEST_TEXT]


def text_hash(embedded: str) -> bytes:
    """What the vector of a text is kept under."""
    return sha256(embedded.encode("utf-8", "surrogatepass")).digest()


def signature(vector: Sequence[float]) -> bytes:
    """On which side of each plane a vector lies: PLANES bits. The same in every version of Python, as sums are exact.

    A plane's normal has +1 or -1 in every dimension, so that its product with the vector is twice the sum of the one
    part less the sum of all.
    """
    half = math.fsum(vector) / 2
    sides = (math.fsum(compress(vector, plane)) > half for plane in _planes(len(vector)))
    return _packed(sides).to_bytes(PLANES // 8, "big")


def buckets(embedding: Embedding) -> tuple[str, ...]:
    """The buckets of a vector, BANDS of them. Those of different models have nothing in common."""
    bits = int.from_bytes(embedding.signature, "big")
    tag = f"{crc32(embedding.model.encode()):08x}"
    return tuple(f"{MARK}{tag}.{band:x}.{bits >> band * BITS & (1 << BITS) - 1:03x}" for band in range(BANDS))


def _packed(sides: Iterable[bool]) -> int:
    found = 0
    for side in sides:
        found = found << 1 | side
    return found


@lru_cache(maxsize=2)
def _planes(dimensions: int) -> tuple[bytes, ...]:
    """For each plane, in which dimensions its normal is +1: a byte each. They must never change."""
    return tuple(
        bytes(byte >> bit & 1 for byte in _noise(number, dimensions) for bit in range(8))[:dimensions]
        for number in range(PLANES)
    )


def _noise(number: int, dimensions: int) -> bytes:
    return shake_256(f"counterfoil plane {number}".encode()).digest(-(-dimensions // 8))
