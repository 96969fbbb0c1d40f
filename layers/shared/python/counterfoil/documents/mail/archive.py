"""Extracts files from ZIP archives within limits.

A file is never read beyond its declared size.
"""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from counterfoil.errors import InvalidDocumentError

MAX_ENTRIES = 500
MAX_ENTRY_BYTES = 64 * 1024 * 1024
MAX_RATIO = 200
"""Maximum ratio of unpacked to packed bytes. XML reaches 10 to 50; deflate can reach 1,032."""
RATIO_FROM_BYTES = 1024 * 1024
"""Unpacked size in bytes above which the ratio is checked."""
MAX_DIRECTORY_BYTES = 1024 * 1024
"""Maximum size of the table of contents, which zipfile reads in one piece and stores as one object per entry."""
CHUNK_BYTES = 64 * 1024
METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""Supported compression methods. LZMA is excluded, because it may allocate gigabytes before the first byte."""
_ENCRYPTED, _UTF_8 = 0x1, 0x800
_OFFICE = ("[Content_Types].xml", "mimetype", "META-INF/MANIFEST.MF")


@dataclass(frozen=True)
class Entry:
    """One file of an archive."""

    name: str
    """Name in the archive, including folders."""
    size: int
    """Declared unpacked size in bytes. No more than this is read."""
    reason: str | None
    """Reason why the file is skipped, in a sentence; None if it is read."""


class _Bounded(BytesIO):
    """Stream that rejects zipfile's read of a large table of contents."""

    def read(self, size: int | None = -1, /) -> bytes:
        requested = len(self.getbuffer()) - self.tell() if size is None or size < 0 else size
        if requested > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile("The table of contents is too large")
        return super().read(size)


class Archive:
    """A ZIP archive in memory."""

    def __init__(self, content: bytes) -> None:
        """Read the table of contents.

        Raises:
            InvalidDocumentError: the archive is damaged, its table of contents is too large, or it contains more than
                MAX_ENTRIES files.
        """
        try:
            self._zip = zipfile.ZipFile(_Bounded(content))
            self._infos = [info for info in self._zip.infolist() if not info.is_dir()]
        except Exception as error:  # zipfile does not catch struct.error, ValueError and other errors
            message = "The archive is damaged or too large to unpack; create it again."
            raise InvalidDocumentError(message, code="damaged_archive") from error
        if len(self._infos) > MAX_ENTRIES:
            message = f"The archive contains more than {MAX_ENTRIES} files; send it in several parts."
            raise InvalidDocumentError(message, code="too_many_attachments")

    @property
    def is_office_document(self) -> bool:
        """Return True for a Word, Excel or LibreOffice document, and for a program."""
        return any(info.filename in _OFFICE for info in self._infos)

    def entries(self) -> Iterator[tuple[Entry, zipfile.ZipInfo]]:
        """Yield each file, with the argument for `read`."""
        for info in self._infos:
            yield Entry(_name(info), info.file_size, _refusal(info)), info

    def read(self, info: zipfile.ZipInfo) -> bytes:
        """Return a file's content. Call it only if the entry's `reason` is None.

        Raises:
            InvalidDocumentError: the file is damaged.
        """
        chunks = []
        try:
            with self._zip.open(info) as packed:
                while chunk := packed.read(CHUNK_BYTES):
                    chunks.append(chunk)
        except Exception as error:
            raise InvalidDocumentError("It is damaged.", code="damaged_archive") from error
        return b"".join(chunks)


def _name(info: zipfile.ZipInfo) -> str:
    """Return the file name.

    A name that is valid UTF-8 is decoded as UTF-8 even without the UTF-8 flag, instead of as code page 437.
    """
    if info.flag_bits & _UTF_8:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename


def _refusal(info: zipfile.ZipInfo) -> str | None:
    if info.flag_bits & _ENCRYPTED:
        return "It is encrypted."
    if info.compress_type not in METHODS:
        return "Its compression method is not supported."
    if info.file_size > MAX_ENTRY_BYTES:
        return f"It is larger than {MAX_ENTRY_BYTES // 1024**2} MiB."
    if info.file_size > RATIO_FROM_BYTES and info.file_size > MAX_RATIO * info.compress_size:
        return f"Its compression ratio exceeds {MAX_RATIO}, which is implausible for a document."
    return None
