"""Parses mail (RFC 5322): headers, sender authentication and recipients.

The standard library's parser accepts anything, but malicious mail can make it slow. It compares every line with the
boundaries of all open multiparts, and the header parser of its modern policy raises or takes quadratic time. So the
number of lines, boundaries and multiparts is limited, and header fields stay text, truncated to `MAX_HEADER_CHARS`.
Only the required words and parameters are decoded (RFC 2047, RFC 2231).

Amazon SES writes its fields above the sender's header: Return-Path, Received, X-SES-Spam-Verdict, X-SES-Virus-Verdict,
Received-SPF, Authentication-Results (RFC 8601) with the id amazonses.com, and X-SES-RECEIPT. The sender wrote
everything below X-SES-RECEIPT, so results of SPF, DKIM and DMARC there prove nothing.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import EmailMessage, Message
from email.parser import BytesFeedParser
from email.policy import EmailPolicy
from email.utils import collapse_rfc2231_value
from enum import StrEnum, auto
from typing import Any, NamedTuple

from counterfoil.errors import CounterfoilError, InvalidDocumentError

MAX_MAIL_BYTES = 40 * 1024 * 1024
"""Maximum size of an email that SES receives."""
MAX_LINES = 1_000_000
"""Maximum number of lines in an email. 40 MiB in lines of 60 characters are 700,000 lines."""
MAX_BOUNDARIES = 10_000
MAX_WORK = 30_000_000
"""Maximum product of lines and multiparts, because the parser compares each line with all open multiparts."""
MAX_HEADER_CHARS = 4096
"""Maximum length of a header field in characters. Recipient fields are scanned completely, but never parsed."""
MAX_TEXT_CHARS = 998
"""Maximum length of sender and subject in characters: the longest line that RFC 5322 permits."""
CHUNK_BYTES = 64 * 1024
UNBOUNDED_HEADERS = frozenset({"to", "cc", "bcc", "resent-to", "resent-cc", "resent-bcc"})

_FIELD = re.compile(rb"[!-9;-~]{1,76}:")
_MAIL_FIELDS = {
    b"received",
    b"return-path",
    b"mime-version",
    b"message-id",
    b"date",
    b"to",
    b"delivered-to",
    b"subject",
}
_LINE = re.compile(rb"\r\n|\r|\n")
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_TOKEN = re.compile(r"[\s\"']*([\w-]+)")
_NON_MAIL_CODECS = {"unicode_escape", "raw_unicode_escape"}
"""Python codecs that are not used in mail and emit warnings."""
_MESSAGE_ID = re.compile(r"<([^<>\s]{1,996})>")
HEAD_BYTES = 64 * 1024
"""Number of bytes that `is_mail` inspects."""


class Refusal(StrEnum):
    """Reason why no file of an email or archive was accepted.

    It is stored in `source.rejection_reason`.
    """

    VIRUS = auto()
    SPAM = auto()
    ON_HOLD = auto()
    REJECTED = auto()
    """Rejected by an operator or by the tenant's DMARC policy."""
    DUPLICATE = auto()
    """The tenant already has the email."""
    NO_FILES = auto()
    NO_DOCUMENTS = auto()
    """It has files, but none of a type that can be a document."""


REFUSALS: Mapping[Refusal, str] = {
    Refusal.VIRUS: "Amazon SES found a virus in the email. No file was accepted.",
    Refusal.SPAM: "Amazon SES classified the email as spam. No file was accepted. "
    "If it is not spam, upload its attachments as files.",
    Refusal.ON_HOLD: "On hold: the email fails DMARC, so its sender may be forged. "
    "An operator must release or reject it (counterfoil mail).",
    Refusal.REJECTED: "Rejected: the email fails DMARC, so its sender may be forged. No file was accepted.",
    Refusal.DUPLICATE: "The tenant already has an email with this Message-ID; it was counted as a duplicate.",
    Refusal.NO_FILES: "It contains no files.",
    Refusal.NO_DOCUMENTS: "It contains no file that could be a document.",
}
"""Refusals as sentences for users."""


@dataclass(frozen=True)
class Envelope:
    """Sender, subject, Message-ID and SES refusal of an email.

    Every text is one line that PostgreSQL can store; empty if absent.
    """

    sender: str
    subject: str
    message_id: str
    """Without angle brackets."""
    refusal: Refusal | None
    """Set if SES found spam or a virus."""


class _Bounds:
    """Limits for one parser run."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._multiparts = 0

    def meet(self, name: str, value: str) -> None:
        if name == "content-type" and "multipart/" in value.lower():
            self._multiparts += 1
            if self._multiparts * self._lines > MAX_WORK:
                raise InvalidDocumentError(MAIL_TOO_COMPLEX, code="mail_too_complex")


MAIL_TOO_COMPLEX = "The email has too many parts; send its attachments as separate files."


class _Policy(EmailPolicy):
    """The modern policy, except that header fields stay text."""

    def __init__(self, bounds: _Bounds) -> None:
        super().__init__(message_factory=EmailMessage)
        object.__setattr__(self, "_bounds", bounds)  # policies reject unknown attributes

    def header_source_parse(self, sourcelines: Any) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        bounded_value = value if name.lower() in UNBOUNDED_HEADERS else value[:MAX_HEADER_CHARS]
        bounds: _Bounds = self.__dict__["_bounds"]
        bounds.meet(name.lower(), bounded_value)
        return name, bounded_value

    def header_fetch_parse(self, name: str, value: str) -> Any:  # noqa: ARG002  # the policy's interface
        return re.sub(r"[\r\n]+", "", value)


def is_mail(head: bytes) -> bool:
    """Return whether a file that starts with `head` is an email.

    An email has From and another known field.
    """
    names: set[bytes] = set()
    lines = _LINE.split(head[:HEAD_BYTES])
    if len(head) > HEAD_BYTES:
        lines.pop()  # the last line may be truncated
    for number, line in enumerate(lines):
        if not line and names:
            break
        if number == 0 and line.startswith(b"From "):  # separator line of the mbox format
            continue
        if line[:1] in {b" ", b"\t"} and names:
            continue
        if not _FIELD.match(line):
            return False
        names.add(line.split(b":", 1)[0].lower())
    return b"from" in names and not _MAIL_FIELDS.isdisjoint(names)


def parse(content: bytes, check: Callable[[], None] = lambda: None) -> EmailMessage:
    """Parse an email. `check` is called regularly and may stop the parser by raising.

    Raises:
        InvalidDocumentError: the email is too large or too complex.
    """
    if len(content) > MAX_MAIL_BYTES:
        limit = MAX_MAIL_BYTES // 1024**2
        message = f"The email is larger than {limit} MiB; send its attachments as separate files."
        raise InvalidDocumentError(message, code="mail_too_large")
    lines = content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")
    if lines > MAX_LINES or content.count(b"\n--") + content.count(b"\r--") > MAX_BOUNDARIES:
        raise InvalidDocumentError(MAIL_TOO_COMPLEX, code="mail_too_complex")
    parser = BytesFeedParser(policy=_Policy(_Bounds(lines)))
    view = memoryview(content)
    try:
        for start in range(0, len(content), CHUNK_BYTES):
            check()
            parser.feed(bytes(view[start : start + CHUNK_BYTES]))
        parsed = parser.close()
    except CounterfoilError:
        raise
    except Exception as error:  # includes RecursionError; the set of errors changes with each Python release
        raise InvalidDocumentError(MAIL_TOO_COMPLEX, code="mail_too_complex") from error
    assert isinstance(parsed, EmailMessage)  # type created by the modern policy
    return parsed


def parse_head(content: bytes) -> EmailMessage:
    """Parse the header of an email that starts with `content`.

    `content` may be truncated anywhere.
    """
    end = re.search(rb"\r?\n\r?\n|\r\r", content)
    return parse(content[: end.end()] if end else content)


def envelope(mail: Message) -> Envelope:
    """Return an email's sender, subject, Message-ID and SES refusal."""
    match = _MESSAGE_ID.search(header_text(mail.get("message-id")))
    return Envelope(
        sender=header_text(mail.get("from"))[:MAX_TEXT_CHARS],
        subject=header_text(mail.get("subject"))[:MAX_TEXT_CHARS],
        message_id=match[1] if match else "",
        refusal=next(
            (
                refusal
                for name, refusal in _VERDICTS.items()
                if any(str(value).strip().upper() == "FAIL" for value in mail.get_all(name, []))
            ),
            None,
        ),
    )


_VERDICTS = {"x-ses-virus-verdict": Refusal.VIRUS, "x-ses-spam-verdict": Refusal.SPAM}


def header_text(value: Any) -> str:
    """Return a header field as one line with decoded words; empty if absent.

    Control and format characters are removed, because characters that change the writing direction can disguise a
    sender.
    """
    line = "" if value is None else _BLANKS.sub(" ", decode_words(str(value)))
    return "".join(filter(is_shown, line)).strip()


def is_shown(character: str) -> bool:
    """Return True for whitespace and for characters that can be displayed.

    Other control, format, surrogate, private and unassigned characters cannot be displayed.
    """
    return character.isspace() or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn"}


def decode_words(raw: str) -> str:
    """Decode the encoded words in a header field. Never raises."""
    with suppress(HeaderParseError, ValueError, LookupError):  # undecodable words stay as written
        raw = "".join(_word(word, charset) for word, charset in decode_header(raw)) if "=?" in raw else raw
    return decode_raw_bytes(raw)


def _word(word: bytes | str, charset: str | None) -> str:
    if isinstance(word, str):
        return word
    if (charset or "").lower().replace("-", "_") in _NON_MAIL_CODECS:
        charset = "utf-8"
    try:
        return word.decode(charset or "ascii", "surrogateescape")
    except (LookupError, UnicodeError):
        return word.decode("utf-8", "replace")


def decode_raw_bytes(raw: str) -> str:
    """Decode surrogate-escaped bytes as UTF-8, or as Latin-1 if that fails."""
    if raw.isascii():
        return raw
    as_bytes = raw.encode("utf-8", "surrogateescape") if _is_encodable(raw) else raw.encode("utf-8", "replace")
    try:
        return as_bytes.decode("utf-8")
    except UnicodeDecodeError:
        return as_bytes.decode("latin-1")


def _is_encodable(raw: str) -> bool:
    try:
        raw.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def file_name(part: Message) -> str:
    """Return the decoded but unsanitized file name of a part; empty if absent."""
    for header, parameter in (("content-disposition", "filename"), ("content-type", "name")):
        try:
            value = part.get_param(parameter, None, header)
            if value is not None:
                return decode_words(collapse_rfc2231_value(value))
        except Exception:  # noqa: BLE001, S112  # an invalid parameter counts as absent
            continue
    return ""


def part_content(part: Message) -> bytes:
    """Return the decoded content of a part that is not a multipart.

    The content is empty if it cannot be decoded.
    """
    encoding = str(part.get("content-transfer-encoding", ""))
    # Python's parser accepts only the token itself, without blanks and comments.
    if (match := _TOKEN.match(encoding)) and match[1] != encoding:
        part.replace_header("content-transfer-encoding", match[1])
    try:
        payload = part.get_payload(decode=True)
    except Exception:  # noqa: BLE001  # the errors for invalid encodings change with each Python release
        return b""
    return payload if isinstance(payload, bytes) else b""


def children(part: Message) -> Iterator[Message]:
    """Yield the parts of a multipart, or the message inside a message."""
    payload = part.get_payload()
    if isinstance(payload, list):
        yield from (child for child in payload if isinstance(child, Message))


RECIPIENT_HEAD_BYTES = 1024 * 1024
"""Number of bytes of an email that are searched for recipients. In practice, no header is longer."""
MAX_RECIPIENTS = 1000
MAX_ADDRESS_CHARS = 254

DELIVERED = ("delivered-to", "x-original-to", "envelope-to")
"""Fields in which servers record the addresses that they deliver to."""
ADDRESSED = ("to", "cc", "bcc", "resent-to", "resent-cc", "resent-bcc")
"""Fields in which the sender names recipients."""

# Local part and domain have maximum lengths (RFC 5321, 4.5.3.1). Without them, the search would take quadratic time.
_ADDRESS = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"
_MAILBOX = re.compile(rf"[^<>]*<\s*({_ADDRESS})\s*>|(?:[^<>:]*:)?\s*({_ADDRESS})")
"""`name <address>`, or an address alone, optionally after the name of a group (RFC 5322, 3.4)."""
_FOR = re.compile(rf"\bfor\s{{1,10}}<?({_ADDRESS})(?=[>;\s]|$)", re.IGNORECASE)
_PIECE = re.compile(r"\\.|[\"()]|[^\\\"()]+|\\", re.DOTALL)


def recipients(head: bytes) -> tuple[str, ...]:
    """Return an email's recipients from its first bytes.

    The addresses are in lower case and unique. At most MAX_RECIPIENTS addresses are returned. Delivery addresses come
    first: Delivered-To, X-Original-To, and the `for` clause of Received, which shows blind copies. To, Cc, Bcc and the
    Resent fields follow.

    Raises:
        InvalidDocumentError: the header is too complex.
    """
    addresses: dict[str, None] = {}
    for address in _named_addresses(head[:RECIPIENT_HEAD_BYTES]):
        if len(address) <= MAX_ADDRESS_CHARS:
            addresses[address.lower()] = None
        if len(addresses) == MAX_RECIPIENTS:
            break
    return tuple(addresses)


def _named_addresses(head: bytes) -> Iterator[str]:
    header = parse_head(head)
    for name in DELIVERED:
        for value in header.get_all(name, []):
            yield from _addresses(str(value))
    for value in header.get_all("received", []):
        yield from _FOR.findall(_without_comments(str(value)))
    for name in ADDRESSED:
        for value in header.get_all(name, []):
            yield from _addresses(str(value))  # encoded words cannot contain addresses: RFC 2047, 5


def _addresses(value: str) -> Iterator[str]:
    """Yield the addresses of an address field.

    Names and comments are skipped, even if they look like addresses, because they must not route mail to another
    tenant.
    """
    for mailbox in re.split("[,;]", _without_comments(value)):
        match = _MAILBOX.fullmatch(mailbox.strip())
        if match is not None:
            yield match[1] or match[2]


def _without_comments(value: str) -> str:
    """Remove comments and quoted strings from a field (RFC 5322, 3.2.2 and 3.2.4)."""
    pieces: list[str] = []
    comments, quoted = 0, False
    for match in _PIECE.finditer(value):
        piece = match[0]
        if quoted:
            quoted = piece != '"'
        elif comments:
            comments += (piece == "(") - (piece == ")")
        elif piece == "(":
            comments = 1
            pieces.append(" ")
        else:
            quoted = piece == '"'
            pieces.append(piece)  # one quote stays, so that the text after the string does not become an address
    return "".join(pieces)


FAIL = "fail"

_SERVER = re.compile(r"\bby\s+inbound-smtp\.[a-z0-9-]+\.amazonaws\.com\b", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"')
_COMMENT = re.compile(r"\([^()]*\)")
_AUTHORITY = re.compile(r"\s*amazonses\.com(\s+1)?\s*")
_RESULT = re.compile(r"\s*(spf|dkim|dmarc)\s*=\s*([a-z]{1,20})\b", re.IGNORECASE)
_DMARC_FAIL = re.compile(r"\bdmarc\s*=\s*fail\b", re.IGNORECASE)


class SenderAuthentication(NamedTuple):
    """Results of sender authentication as in RFC 8601, such as `pass` and `fail`.

    They are in lower case. A missing result is None.
    """

    spf: str | None = None
    dkim: str | None = None
    dmarc: str | None = None

    @property
    def is_failed(self) -> bool:
        """True if the email fails DMARC, so that its From field may be forged."""
        return self.dmarc == FAIL


NO_RESULTS = SenderAuthentication()


def sender_authentication(mail: Message) -> SenderAuthentication:
    """Return the results that SES added to the header.

    Returns NO_RESULTS if SES did not receive the email. The sender controls some text in SES's field, such as the
    envelope address. So DMARC counts as failed if the field contains `dmarc=fail` anywhere, or if the field is too long
    to be read completely.
    """
    value = _results_field(mail)
    if value is None:
        return NO_RESULTS
    authority, *clauses = _without_quotes(value).split(";")
    if not _AUTHORITY.fullmatch(authority):
        return NO_RESULTS
    results: dict[str, str] = {}
    for clause in clauses:
        if match := _RESULT.match(clause):
            method, result = match[1].lower(), match[2].lower()
            # An email can have several DKIM signatures; one valid signature is enough.
            if method not in results or (method == "dkim" and result == "pass"):
                results[method] = result
    is_cut = len(value) >= MAX_HEADER_CHARS and "dmarc" not in results
    if is_cut or _DMARC_FAIL.search(value):
        results["dmarc"] = FAIL
    return SenderAuthentication(**results)


def _results_field(mail: Message) -> str | None:
    """Return the Authentication-Results that SES added.

    Returns None unless SES received the email last.
    """
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


def _without_quotes(value: str) -> str:
    """Return the field without quoted strings and comments."""
    value = _QUOTED.sub("", re.sub(r"[\r\n]+", "", value))
    while (shorter := _COMMENT.sub(" ", value)) != value:
        value = shorter
    return value
