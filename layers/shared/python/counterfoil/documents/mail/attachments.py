"""Files in mail and archives, each with its type detected from its content."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage, Message

from counterfoil.documents.filetype import FileKind, recognize
from counterfoil.documents.mail.archive import Archive
from counterfoil.documents.mail.message import children, file_name, is_mail, is_shown, parse, part_content
from counterfoil.documents.page_images import is_small
from counterfoil.errors import InvalidDocumentError

MAX_NAME_CHARS = 150
"""Maximum number of characters in a file name, including its extension."""
_ENDINGS = {FileKind.PDF: ".pdf", FileKind.XML: ".xml", FileKind.ZIP: ".zip"}
_IMAGES = ((b"\x89PNG", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF8", ".gif"), (b"BM", ".bmp"), (b"RIFF", ".webp"))
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")


def sanitize_name(name: str) -> str:
    """Return the last component of a path as a safe file name.

    The name is empty if no character remains. Path separators of any system end a component. Control characters,
    bidirectional controls and characters that PostgreSQL cannot store are removed. A long name is shortened, but keeps
    its extension.
    """
    component = re.split(r"[/\\]", name)[-1]
    cleaned = "".join(" " if character.isspace() else character for character in component if is_shown(character))
    # Windows drive letters, and characters that some file systems do not permit
    cleaned = re.sub(r'[<>:"|?*]', "_", re.sub(r"^[A-Za-z]:", "", cleaned))
    cleaned = re.sub(r" +", " ", cleaned).strip(" .")
    if len(cleaned) > MAX_NAME_CHARS:
        match = _ENDING.search(cleaned)
        extension = match[0] if match else ""
        cleaned = cleaned[: MAX_NAME_CHARS - len(extension)].rstrip(" .") + extension
    return cleaned


def generated_name(number: int, kind: FileKind, content: bytes) -> str:
    """Name an unnamed file, for example `attachment 2.pdf`.

    The name depends on the file's position in the email and on its content.
    """
    ending = _ENDINGS.get(kind, "")
    if kind is FileKind.IMAGE:
        ending = next((ending for start, ending in _IMAGES if content.startswith(start)), ".img")
    return f"attachment {number}{ending}"


MAX_FILES = 1000
"""Maximum number of files in one email or archive, of any type and at any depth."""
MAX_UNPACKED_BYTES = 200 * 1024 * 1024
"""Maximum number of bytes extracted from all archives in an email, or from one archive."""
MAX_INNER_MAIL_BYTES = 25 * 1024 * 1024
"""Maximum size of an email inside an email or archive. Both are in memory at the same time."""
MAX_DEPTH = 5
"""Maximum depth of nested emails."""


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
    """Return whether a file that starts with `head` is an email or an archive.

    Both may contain other files.
    """
    return recognize(head) is FileKind.ZIP or is_mail(head)


def mail_attachments(mail: EmailMessage, check: Callable[[], None] = lambda: None) -> Iterator[MailPart]:
    """Yield the files in an email and in its nested emails and archives, in order.

    The text of the email is not included. `check` is called between files and may stop the iteration by raising.

    Raises:
        InvalidDocumentError: the email contains more than MAX_FILES files.
    """
    return _Walk(check).mail(mail, depth=1, in_archive=False)


def archive_attachments(archive: Archive, check: Callable[[], None] = lambda: None) -> Iterator[MailPart]:
    """Yield the files in an archive. Raises the same errors as `mail_attachments`."""
    return _Walk(check).archive(archive, depth=0)


class _Walk:
    """One traversal of an email or archive, with its remaining limits."""

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
                is_inline = in_related or part.get_content_disposition() == "inline"
                yield from self._file(
                    part_content(part), file_name(part), is_inline=is_inline, depth=depth, in_archive=in_archive
                )

    def _message(self, part: Message, *, depth: int, in_archive: bool) -> Iterator[MailPart]:
        """Yield the files of an attached email, or of another part declared as one."""
        inner_mail = next(children(part), None)
        if inner_mail is not None and not inner_mail.keys():  # some programs encode it, which RFC 2046 forbids
            encoded = Message()
            encoded["Content-Transfer-Encoding"] = str(part.get("content-transfer-encoding", ""))
            encoded.set_payload(inner_mail.get_payload())
            yield from self._file(
                part_content(encoded), file_name(part), is_inline=False, depth=depth, in_archive=in_archive
            )
        elif inner_mail is None or depth >= MAX_DEPTH:
            yield self._skip(file_name(part), 0, NESTED_TOO_DEEPLY if inner_mail is not None else "It is empty.")
        else:
            yield from self.mail(inner_mail, depth=depth + 1, in_archive=in_archive)

    def _file(self, content: bytes, name: str, *, is_inline: bool, depth: int, in_archive: bool) -> Iterator[MailPart]:
        if not content.strip():
            yield self._skip(name, len(content), "It is empty.")
            return
        kind = recognize(content)
        if is_mail(content):
            yield from self._encoded_mail(content, name, depth=depth, in_archive=in_archive)
        elif kind is FileKind.IMAGE and is_inline and is_small(content):
            yield self._skip(name, len(content), "It is a small image in the text of the email.")
        elif kind is FileKind.ZIP:
            yield from self._zip(content, name, depth=depth, in_archive=in_archive)
        elif kind is FileKind.UNKNOWN:
            yield self._skip(name, len(content), _unknown_type_reason(content))
        else:
            yield self._attachment(content, name, kind)

    def _encoded_mail(self, content: bytes, name: str, *, depth: int, in_archive: bool) -> Iterator[MailPart]:
        if depth >= MAX_DEPTH or len(content) > MAX_INNER_MAIL_BYTES:
            yield self._skip(name, len(content), NESTED_TOO_DEEPLY if depth >= MAX_DEPTH else TOO_LARGE)
            return
        try:
            inner_mail = parse(content, self._check)
        except InvalidDocumentError as error:
            yield self._skip(name, len(content), str(error))
            return
        yield from self.mail(inner_mail, depth=depth + 1, in_archive=in_archive)

    def _zip(self, content: bytes, name: str, *, depth: int, in_archive: bool) -> Iterator[MailPart]:
        try:
            archive = Archive(content)
        except InvalidDocumentError as error:
            yield self._skip(name, len(content), str(error))
            return
        if archive.is_office_document:
            yield self._attachment(content, name, FileKind.ZIP)
        elif in_archive:
            yield self._skip(name, len(content), "It is an archive inside an archive; use a single archive.")
        else:
            yield from self.archive(archive, depth=depth)

    def archive(self, archive: Archive, *, depth: int) -> Iterator[MailPart]:
        for entry, info in archive.entries():
            reason = entry.reason
            if reason is None and self._unpacked + entry.size > MAX_UNPACKED_BYTES:
                reason = (
                    f"The archives contain more than {MAX_UNPACKED_BYTES // 1024**2} MiB; send this file separately."
                )
            if reason is not None:
                yield self._skip(entry.name, entry.size, reason)
                continue
            self._unpacked += entry.size
            self._check()
            try:
                content = archive.read(info)
            except InvalidDocumentError as error:
                yield self._skip(entry.name, entry.size, str(error))
                continue
            yield from self._file(content, entry.name, is_inline=False, depth=depth, in_archive=True)

    def _attachment(self, content: bytes, name: str, kind: FileKind) -> Attachment:
        number = self._next_number()
        return Attachment(sanitize_name(name) or generated_name(number, kind, content), kind, content)

    def _skip(self, name: str, size: int, reason: str) -> SkippedAttachment:
        number = self._next_number()
        return SkippedAttachment(sanitize_name(name) or f"attachment {number}", size, reason)

    def _next_number(self) -> int:
        self._check()
        self._number += 1
        if self._number > MAX_FILES:
            message = f"It contains more than {MAX_FILES} files; send them in several parts."
            raise InvalidDocumentError(message, code="too_many_attachments")
        return self._number


_TNEF = b"\x78\x9f\x3e\x22"
"""Signature of the Transport Neutral Encapsulation Format (MS-OXTNEF, 2.1.3.2), little-endian."""
_PKCS7 = bytes.fromhex("06092a864886f70d0107")
"""Start of the object identifiers of PKCS #7, 1.2.840.113549.1.7 (RFC 5652, 4)."""
_PKCS7_WITHIN = 32
OUTLOOK_ATTACHMENTS = (
    "It is an email in Outlook's format (winmail.dat), which is not supported. Ask the sender for HTML or plain text."
)
SIGNED_OR_ENCRYPTED = (
    "It is a signature, or a completely signed or encrypted email (S/MIME), which is not supported. "
    "Upload its files instead."
)


def _unknown_type_reason(content: bytes) -> str:
    """Return the reason why a file of an unknown type is skipped.

    The reason names container formats that the sender should replace.
    """
    if content.startswith(_TNEF):
        return OUTLOOK_ATTACHMENTS
    if content.startswith(b"0") and _PKCS7 in content[:_PKCS7_WITHIN]:
        return SIGNED_OR_ENCRYPTED
    return "The file type is not supported. Send a PDF, XML or image file."


NESTED_TOO_DEEPLY = f"It is an email inside {MAX_DEPTH} other emails; send it separately."
TOO_LARGE = f"It is an email of more than {MAX_INNER_MAIL_BYTES // 1024**2} MiB; send its attachments separately."


def _is_mail_body(part: Message) -> bool:
    """Return whether a part is the email's text.

    The text is a text part that has no name and is not an attachment.
    """
    if part.get_content_type() not in {"text/plain", "text/html", "text/enriched", "text/rtf", "text/calendar"}:
        return False
    return part.get_content_disposition() != "attachment" and not file_name(part)
