"""Files in mail and archives, each with its type detected from its content."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage, Message

from counterfoil.documents.filetype import FileKind, recognize
from counterfoil.documents.mail.archive import Archive
from counterfoil.documents.mail.message import children, content_of, is_mail, is_shown, name_of, parse
from counterfoil.documents.page_images import is_small
from counterfoil.errors import InvalidDocumentError

LONGEST_NAME = 150
"""Maximum number of characters of a name, including its extension."""
_ENDINGS = {FileKind.PDF: ".pdf", FileKind.XML: ".xml", FileKind.ZIP: ".zip"}
_IMAGES = ((b"\x89PNG", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF8", ".gif"), (b"BM", ".bmp"), (b"RIFF", ".webp"))
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")


def sanitize_name(stated: str) -> str:
    """Return the last component of a path as a safe file name; empty if no character remains.

    Path separators of any system end a component. Control characters, bidirectional controls and characters that
    PostgreSQL cannot store are removed. A long name is shortened, but keeps its extension.
    """
    last = re.split(r"[/\\]", stated)[-1]
    plain = "".join(" " if character.isspace() else character for character in last if is_shown(character))
    # the drive separator of Windows, and characters that no file system permits
    plain = re.sub(r'[<>:"|?*]', "_", re.sub(r"^[A-Za-z]:", "", plain))
    plain = re.sub(r" +", " ", plain).strip(" .")
    if len(plain) > LONGEST_NAME:
        ending = _ENDING.search(plain)
        kept = ending[0] if ending else ""
        plain = plain[: LONGEST_NAME - len(kept)].rstrip(" .") + kept
    return plain


def generated_name(number: int, kind: FileKind, content: bytes) -> str:
    """Name an unnamed file by its position in the mail and its content, such as `attachment 2.pdf`."""
    ending = _ENDINGS.get(kind, "")
    if kind is FileKind.IMAGE:
        ending = next((ending for start, ending in _IMAGES if content.startswith(start)), ".img")
    return f"attachment {number}{ending}"


MAX_FILES = 1000
"""Maximum number of files in one mail or archive, of any type and at any depth."""
MAX_UNPACKED_BYTES = 200 * 1024 * 1024
"""Maximum number of bytes extracted from all archives of a mail."""
MAX_INNER_MAIL_BYTES = 25 * 1024 * 1024
"""Maximum size of a mail inside a mail or archive. Both are in memory at the same time."""
MAX_DEPTH = 5
"""Maximum depth of nested mails."""


@dataclass(frozen=True)
class Attachment:
    """A file that may be a document."""

    name: str
    kind: FileKind
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class SkippedAttachment:
    """A skipped file, with the reason in a sentence."""

    name: str
    size: int
    reason: str


MailPart = Attachment | SkippedAttachment


def is_container(head: bytes) -> bool:
    """Return whether a file that starts with `head` may contain other files: a mail or an archive."""
    return recognize(head) is FileKind.ZIP or is_mail(head)


def mail_attachments(mail: EmailMessage, check: Callable[[], None] = lambda: None) -> Iterator[MailPart]:
    """Yield the files in a mail, including those of nested mails and archives, in their order.

    The text of the mail is not included. `check` is called between files and may stop the iteration by raising.

    Raises:
        InvalidDocumentError: it contains more than MAX_FILES files.
    """
    return _Walk(check).mail(mail, depth=1, in_archive=False)


def archive_attachments(archive: Archive, check: Callable[[], None] = lambda: None) -> Iterator[MailPart]:
    """Yield the files in an archive. Raises the same errors as `mail_attachments`."""
    return _Walk(check).archive(archive, depth=0)


class _Walk:
    """One traversal of a mail or archive, with its remaining limits."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._number = 0
        self._unpacked = 0

    def mail(self, mail: Message, *, depth: int, in_archive: bool) -> Iterator[MailPart]:
        # multiparts may be nested as deep as the parser permits, too deep for recursion
        stack: list[tuple[Message, bool]] = [(mail, False)]
        while stack:
            part, in_related = stack.pop()
            if part.get_content_maintype() == "multipart":
                related = in_related or part.get_content_subtype() == "related"
                stack += [(child, related) for child in reversed(list(children(part)))]
            elif part.get_content_type() in {"message/rfc822", "message/global"}:
                yield from self._message(part, depth=depth, in_archive=in_archive)
            elif not _is_mail_body(part):
                shown = in_related or part.get_content_disposition() == "inline"
                yield from self._file(content_of(part), name_of(part), shown=shown, depth=depth, in_archive=in_archive)

    def _message(self, part: Message, *, depth: int, in_archive: bool) -> Iterator[MailPart]:
        """Yield the files of an attached mail, or of another part declared as one."""
        inner = next(children(part), None)
        if inner is not None and not inner.keys():  # some programs encode it although RFC 2046 forbids that
            encoded = Message()
            encoded["Content-Transfer-Encoding"] = str(part.get("content-transfer-encoding", ""))
            encoded.set_payload(inner.get_payload())
            yield from self._file(content_of(encoded), name_of(part), shown=False, depth=depth, in_archive=in_archive)
        elif inner is None or depth >= MAX_DEPTH:
            yield self._skipped(name_of(part), 0, NESTED_TOO_DEEPLY if inner is not None else "It is empty.")
        else:
            yield from self.mail(inner, depth=depth + 1, in_archive=in_archive)

    def _file(self, content: bytes, stated: str, *, shown: bool, depth: int, in_archive: bool) -> Iterator[MailPart]:
        if not content.strip():
            yield self._skipped(stated, len(content), "It is empty.")
            return
        kind = recognize(content)
        if is_mail(content):
            yield from self._encoded_mail(content, stated, depth=depth, in_archive=in_archive)
        elif kind is FileKind.IMAGE and shown and is_small(content):
            yield self._skipped(stated, len(content), "It is a small image in the text of the mail.")
        elif kind is FileKind.ZIP:
            yield from self._zip(content, stated, depth=depth, in_archive=in_archive)
        elif kind is FileKind.UNKNOWN:
            yield self._skipped(stated, len(content), _why_unknown(content))
        else:
            yield self._taken(content, stated, kind)

    def _encoded_mail(self, content: bytes, stated: str, *, depth: int, in_archive: bool) -> Iterator[MailPart]:
        if depth >= MAX_DEPTH or len(content) > MAX_INNER_MAIL_BYTES:
            yield self._skipped(stated, len(content), NESTED_TOO_DEEPLY if depth >= MAX_DEPTH else TOO_LARGE)
            return
        try:
            inner = parse(content, self._check)
        except InvalidDocumentError as error:
            yield self._skipped(stated, len(content), str(error))
            return
        yield from self.mail(inner, depth=depth + 1, in_archive=in_archive)

    def _zip(self, content: bytes, stated: str, *, depth: int, in_archive: bool) -> Iterator[MailPart]:
        try:
            archive = Archive(content)
        except InvalidDocumentError as error:
            yield self._skipped(stated, len(content), str(error))
            return
        if archive.is_office_document:
            yield self._taken(content, stated, FileKind.ZIP)
        elif in_archive:
            yield self._skipped(stated, len(content), "It is an archive inside an archive; use a single archive.")
        else:
            yield from self.archive(archive, depth=depth)

    def archive(self, archive: Archive, *, depth: int) -> Iterator[MailPart]:
        for entry, info in archive.entries():
            reason = entry.reason
            if reason is None and self._unpacked + entry.size > MAX_UNPACKED_BYTES:
                reason = f"The archives contain more than {MAX_UNPACKED_BYTES // 1024**2} MiB; send it separately."
            if reason is not None:
                yield self._skipped(entry.name, entry.size, reason)
                continue
            self._unpacked += entry.size
            self._check()
            try:
                content = archive.read(info)
            except InvalidDocumentError as error:
                yield self._skipped(entry.name, entry.size, str(error))
                continue
            yield from self._file(content, entry.name, shown=False, depth=depth, in_archive=True)

    def _taken(self, content: bytes, stated: str, kind: FileKind) -> Attachment:
        number = self._next()
        return Attachment(sanitize_name(stated) or generated_name(number, kind, content), kind, content)

    def _skipped(self, stated: str, size: int, reason: str) -> SkippedAttachment:
        number = self._next()
        return SkippedAttachment(sanitize_name(stated) or f"attachment {number}", size, reason)

    def _next(self) -> int:
        self._check()
        self._number += 1
        if self._number > MAX_FILES:
            message = f"It contains more than {MAX_FILES} files; send them in several parts."
            raise InvalidDocumentError(message, code="too_many_attachments")
        return self._number


_TNEF = b"\x78\x9f\x3e\x22"
"""Transport Neutral Encapsulation Format: its signature (MS-OXTNEF, 2.1.3.2), little-endian."""
_PKCS7 = bytes.fromhex("06092a864886f70d0107")
"""Start of the object identifiers of PKCS #7, 1.2.840.113549.1.7 (RFC 5652, 4)."""
_PKCS7_WITHIN = 32
PACKED_BY_OUTLOOK = (
    "It is a mail in Outlook's format (winmail.dat), which is not supported. Ask the sender for HTML or plain text."
)
SIGNED_OR_ENCRYPTED = (
    "It is a signature, or a completely signed or encrypted mail (S/MIME), which is not supported. "
    "Upload its files instead."
)


def _why_unknown(content: bytes) -> str:
    """Return the reason why a file of an unknown type is skipped.

    Names container formats that senders should replace.
    """
    if content.startswith(_TNEF):
        return PACKED_BY_OUTLOOK
    if content.startswith(b"0") and _PKCS7 in content[:_PKCS7_WITHIN]:
        return SIGNED_OR_ENCRYPTED
    return "The file type is not supported. Send a PDF, XML or image file."


NESTED_TOO_DEEPLY = f"It is a mail inside {MAX_DEPTH} other mails; send it separately."
TOO_LARGE = f"It is a mail of more than {MAX_INNER_MAIL_BYTES // 1024**2} MiB; send its attachments separately."


def _is_mail_body(part: Message) -> bool:
    """Return whether a part is the text of the mail: a text without a name that is not an attachment."""
    if part.get_content_type() not in {"text/plain", "text/html", "text/enriched", "text/rtf", "text/calendar"}:
        return False
    return part.get_content_disposition() != "attachment" and not name_of(part)
