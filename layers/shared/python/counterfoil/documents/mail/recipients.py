"""Whom a mail is for: the addresses that its header names, the ones that the delivery added first."""

import re
from collections.abc import Iterator

from counterfoil.documents.mail.message import head_of

HEAD_BYTES = 1024 * 1024
"""How much of a mail is looked at: a header is never longer in practice."""
MAX_RECIPIENTS = 1000
LONGEST_ADDRESS = 254

DELIVERED = ("delivered-to", "x-original-to", "envelope-to")
"""Where servers write down whom they deliver to."""
ADDRESSED = ("to", "cc", "bcc", "resent-to", "resent-cc", "resent-bcc")
"""Where the sender says so."""

# Both parts have a longest length (RFC 5321, 4.5.3.1), without which the search would take time by the square.
_ADDRESS = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"
_MAILBOX = re.compile(rf"[^<>]*<\s*({_ADDRESS})\s*>|(?:[^<>:]*:)?\s*({_ADDRESS})")
"""`name <address>`, or an address alone, behind the name of a group or not (RFC 5322, 3.4)."""
_FOR = re.compile(rf"\bfor\s{{1,10}}<?({_ADDRESS})(?=[>;\s]|$)", re.IGNORECASE)
_PIECE = re.compile(r"\\.|[\"()]|[^\\\"()]+|\\", re.DOTALL)


def recipients(head: bytes) -> tuple[str, ...]:
    """The addresses that a mail beginning with `head` is for, in lower case, each once, at most MAX_RECIPIENTS.

    First whom the servers delivered it to (Delivered-To, X-Original-To, the `for` of Received, which tells of blind
    copies), then whom it is addressed to (To, Cc, Bcc and what a resender wrote).

    Raises:
        InvalidDocumentError: the header is more intricate than one that people send.
    """
    found: dict[str, None] = {}
    for address in _named(head[:HEAD_BYTES]):
        if len(address) <= LONGEST_ADDRESS:
            found[address.lower()] = None
        if len(found) == MAX_RECIPIENTS:
            break
    return tuple(found)


def _named(head: bytes) -> Iterator[str]:
    header = head_of(head)
    for name in DELIVERED:
        for value in header.get_all(name, []):
            yield from _addresses(str(value))
    for value in header.get_all("received", []):
        yield from _FOR.findall(_structure(str(value)))
    for name in ADDRESSED:
        for value in header.get_all(name, []):
            yield from _addresses(str(value))  # an encoded word holds no address: RFC 2047, 5


def _addresses(value: str) -> Iterator[str]:
    """The addresses of a field of addresses.

    A name or a comment is none, whatever it looks like: by it a mail must not get to another tenant.
    """
    for mailbox in re.split("[,;]", _structure(value)):
        found = _MAILBOX.fullmatch(mailbox.strip())
        if found is not None:
            yield found[1] or found[2]


def _structure(value: str) -> str:
    """A structured field without its comments and without what stands in quotes (RFC 5322, 3.2.2 and 3.2.4)."""
    kept: list[str] = []
    comments, quoted = 0, False
    for found in _PIECE.finditer(value):
        piece = found[0]
        if quoted:
            quoted = piece != '"'
        elif comments:
            comments += (piece == "(") - (piece == ")")
        elif piece == "(":
            comments = 1
            kept.append(" ")
        else:
            quoted = piece == '"'
            kept.append(piece)  # of a string its first quote, so that what follows it is no address by itself
    return "".join(kept)
