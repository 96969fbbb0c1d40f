"""SPF, DKIM and DMARC results of a mail, as Amazon SES states them.

SES writes its fields above the sender's header: Return-Path, Received, X-SES-Spam-Verdict, X-SES-Virus-Verdict,
Received-SPF, Authentication-Results (RFC 8601) with the id amazonses.com, and X-SES-RECEIPT. The sender wrote
everything below X-SES-RECEIPT, so results there prove nothing.
"""

import re
from email.message import Message
from typing import NamedTuple

from counterfoil.documents.mail.message import LONGEST_HEADER

FAIL = "fail"

_SERVER = re.compile(r"\bby\s+inbound-smtp\.[a-z0-9-]+\.amazonaws\.com\b", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"')
_COMMENT = re.compile(r"\([^()]*\)")
_AUTHORITY = re.compile(r"\s*amazonses\.com(\s+1)?\s*")
_RESULT = re.compile(r"\s*(spf|dkim|dmarc)\s*=\s*([a-z]{1,20})\b", re.IGNORECASE)
_DMARC_FAIL = re.compile(r"\bdmarc\s*=\s*fail\b", re.IGNORECASE)


class SenderAuthentication(NamedTuple):
    """Results of RFC 8601, such as pass and fail, in lower case. None: the mail has no such result."""

    spf: str | None = None
    dkim: str | None = None
    dmarc: str | None = None

    @property
    def is_failed(self) -> bool:
        """True if the mail fails DMARC, so that its From field may be forged."""
        return self.dmarc == FAIL


NO_RESULTS = SenderAuthentication()


def read(mail: Message) -> SenderAuthentication:
    """Return the results in the fields that SES added; none if SES did not receive the mail.

    The sender chooses some text inside SES's field, such as the envelope address. So DMARC fails wherever the field
    states it, and if the field is too long to be read completely.
    """
    value = _field(mail)
    if value is None:
        return NO_RESULTS
    authority, *clauses = _plain(value).split(";")
    if not _AUTHORITY.fullmatch(authority):
        return NO_RESULTS
    found: dict[str, str] = {}
    for clause in clauses:
        if match := _RESULT.match(clause):
            method, result = match[1].lower(), match[2].lower()
            # A mail can have several DKIM signatures; one valid signature is enough.
            if method not in found or (method == "dkim" and result == "pass"):
                found[method] = result
    is_cut = len(value) >= LONGEST_HEADER and "dmarc" not in found
    if is_cut or _DMARC_FAIL.search(value):
        found["dmarc"] = FAIL
    return SenderAuthentication(**found)


def _field(mail: Message) -> str | None:
    """Authentication-Results above the first X-SES-RECEIPT, if a server of SES received the mail last."""
    server = results = None
    for name, value in mail.raw_items():
        match name.lower():
            case "received" if server is None:
                server = str(value)
            case "authentication-results" if results is None:
                results = str(value)
            case "x-ses-receipt":
                return results if server is not None and _SERVER.search(server) else None
    return None


def _plain(value: str) -> str:
    """The field without quoted strings and comments."""
    value = _QUOTED.sub("", re.sub(r"[\r\n]+", "", value))
    while (shorter := _COMMENT.sub(" ", value)) != value:
        value = shorter
    return value
