"""Serialization of pages as JSON and bytes, for pipes between processes."""

from array import array
from collections.abc import Sequence
from itertools import islice
from typing import Any

from counterfoil.documents.text.page import Page, Word

_EDGES = 4
"""Number of coordinates in a word's box."""


def pack(pages: Sequence[Page]) -> tuple[Any, bytes]:
    """Return a list of numbers for each page, and the bytes of all words.

    The numbers are width and height in points, and the counts of lost characters, words and lost words.
    """
    head = [[page.width, page.height, page.lost_characters, len(page.words), len(page.lost_words)] for page in pages]
    words = [word for page in pages for word in (*page.words, *page.lost_words)]
    edges = array("d", [edge for word in words for edge in word[1:]])
    return head, edges.tobytes() + "\n".join(word.text for word in words).encode()


def unpack(head: Any, content: bytes) -> list[Page]:
    """Return the pages from the output of `pack`.

    Raises `ValueError` if it is invalid.
    """
    count = sum(words + lost_words for *_, words, lost_words in head)
    size = count * _EDGES * array("d").itemsize
    edges = array("d")
    edges.frombytes(memoryview(content)[:size])
    texts = str(memoryview(content)[size:], "utf-8").split("\n") if count else []
    if len(texts) != count:
        message = "The number of words differs from the number of boxes"
        raise ValueError(message)
    words = map(Word, texts, *(edges[offset::_EDGES] for offset in range(_EDGES)))
    return [
        Page(width, height, tuple(islice(words, number)), lost, tuple(islice(words, lost_number)))
        for width, height, lost, number, lost_number in head
    ]
