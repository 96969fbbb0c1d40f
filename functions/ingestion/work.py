"""One attempt at ingesting a document: its file is read, what it states is written down, and matching begins.

What XML states is exact and taken as it is. Otherwise the pages are read: from their text layer, or where they are
scans from the characters that are recognised on them; by rules, and where those fall short by a language model. A PDF
of many documents has no data of its own: it is cut into its children, each with a file, a row and an ingestion of its
own, and is done. What nobody can read is kept, with the reason.

A document may be read anew. Where that finds nothing, or less because a language model or the recognition of
characters is not there any more, what was read of it before stands. Where it finds something, but nothing to match by,
matching is begun all the same, if it ever was: it takes the document out of its cluster. A file that was taken apart
stays so: what its parts state belongs to them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Outcome, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.dead_letter import renew
from counterfoil.delivery.work import Send
from counterfoil.documents import files, removal
from counterfoil.documents.extraction import ExtractionResult
from counterfoil.documents.files import File
from counterfoil.documents.filetype import FileKind, misnamed, recognise
from counterfoil.documents.reading import ocr
from counterfoil.documents.reading.cache import AnswerCache, CachedLlm
from counterfoil.documents.reading.ocr import Ocr, Recogniser, Recognition
from counterfoil.documents.reading.reader import Reader
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.sandbox.parsers import FileText
from counterfoil.documents.splitting import Split
from counterfoil.documents.structured import DocumentType
from counterfoil.errors import CancelledError, DeferredError
from counterfoil.llm import Llm
from functions.ingestion import boundaries, children
from functions.ingestion.children import Child

WHY = "The document was read anew."
NOTHING = "Nothing could be read from the file."

MakeLlm = Callable[[Database], Llm]
MakeOcr = Callable[[Database], Ocr]


@dataclass(frozen=True)
class _Document:
    """What a document's row says of its file."""

    file: File
    name: str
    content_hash: bytes
    """Of the file that its pages are from: for a child, the whole one."""
    root: UUID
    """The document of that file."""
    first_page: int
    """In that file, from 1."""
    is_child: bool
    method: str | None
    """By which it was read before, if anything was found then."""
    recognised: frozenset[int]
    """Its pages that told something then by their recognised characters."""
    parts: frozenset[tuple[int, int]]
    """First and last page of the parts that it was taken apart to before."""


@dataclass(frozen=True)
class _Divided:
    """A file of several documents, whose parts are stored."""

    split: Split
    parts: Sequence[Child]


def ingest(attempt: TenantAttempt, language_model: MakeLlm | None = None, ocr: MakeOcr | None = None) -> Outcome:
    """Ingest one document. Where they are configured, `language_model` and `ocr` make what reads with us.

    Raises:
        InvalidDocumentError: the file cannot be a document, or is not read within `parsers.READ`.
        ParserError: the process that reads files failed.
        DeferredError: the time is over, and answers were kept that the next try needs not pay for.
        CounterfoilError: S3, the language model, the recognition of characters or the database failed, as they do.
    """
    with attempt.database.tenant(attempt.tenant_id) as connection:
        document = _read(connection, attempt.work_id)
    memory = AnswerCache(attempt.database, attempt.tenant_id, document.root, attempt.now)
    ingestion = _Ingestion(
        attempt,
        document,
        memory,
        None if language_model is None else CachedLlm(partial(language_model, attempt.database), memory),
        None if ocr is None else ocr(attempt.database),
    )
    try:
        found = ingestion.run()
    except CancelledError as error:
        if not memory.added:
            raise
        # No failure: each such try leaves less to ask for, so that they come to an end.
        message = f"The time was over after {memory.added} answers about the pages, and there is more to ask"
        raise DeferredError(message, until=attempt.now()) from error
    if isinstance(found, _AsBefore):
        return Succeeded(lambda _: Effects(remark=found.reason))
    if isinstance(found, _Divided):
        return _divided(attempt, found)
    poorer = _poorer(found, document, _without_model(ingestion.model))
    return _done(attempt, found) if poorer is None else _as_read_before(attempt, poorer)


_READ = """
SELECT d.bucket, d.key, d.version, d.file_name, coalesce(whole.content_hash, d.content_hash), coalesce(whole.id, d.id),
       coalesce(d.first_page, 1), d.parent_id IS NOT NULL,
       CASE WHEN d.structured_data IS NOT NULL THEN d.method END, ARRAY(
           SELECT (field.value ->> 'page')::int FROM jsonb_each(d.evidence) AS field
           WHERE field.value ->> 'source' LIKE 'ocr:%%'
       ), ARRAY(
           SELECT ARRAY[first_page, last_page] FROM document part WHERE part.parent_id = d.id
           UNION ALL SELECT ARRAY[first_page, last_page] FROM document_copy copy WHERE copy.parent_id = d.id
       )
FROM document d LEFT JOIN document whole ON whole.id = d.parent_id WHERE d.id = %s
"""


def _read(connection: Connection, id_: UUID) -> _Document:
    (row,) = connection.execute(_READ, [id_]).fetchall()
    bucket, key, version, name, content_hash, root, first_page, is_child, method, recognised, parts = row
    file, ranges = File(bucket, key, version), frozenset((first, last) for first, last in parts)
    return _Document(file, name, content_hash, root, first_page, is_child, method, frozenset(recognised), ranges)


class _AsBefore:
    """A file that was taken apart before, otherwise than it would be now."""

    reason = (
        "The file was taken apart before, and would be taken apart otherwise now; its parts stay as they are. "
        "To have it done anew, delete the document and upload its file again."
    )


@dataclass(frozen=True)
class _Ingestion:
    """The steps of one attempt, up to what it writes."""

    attempt: TenantAttempt
    document: _Document
    memory: AnswerCache
    model: CachedLlm | None
    ocr: Ocr | None

    def run(self) -> ExtractionResult | _Divided | _AsBefore:
        """Read the file."""
        content = files.read(self.document.file)
        self.attempt.deadline.check()
        read = parsers.read(content, self.attempt.deadline.check)
        extraction = read.extraction
        if extraction.structured_data is not None:
            return replace(extraction, evidence={"*": {"source": extraction.method, "confidence": 1}})
        kind = recognise(content)
        if kind is FileKind.IMAGE:
            return self._image(ocr.ocr_image(content, self._recogniser()))
        if kind is FileKind.PDF:
            return self._pdf(content, read)
        reason = misnamed(self.document.name, kind) or extraction.reason
        return replace(extraction, reason=reason)

    def _image(self, found: Recognition) -> ExtractionResult:
        """Read an image of one document; a TIFF of several pages may hold more, and cannot be cut into files."""
        if len(found.pages) < 2 or _is_blank(found):
            return self._pages(found)
        division = self._division(found)
        if division.doubt is not None:
            return ExtractionResult(DocumentType.OTHER, "none", None, self._why_whole(division, found))
        if len(division.parts) > 1:
            reason = f"The image holds {len(division.parts)} documents; send them as a PDF, which is taken apart."
            return ExtractionResult(DocumentType.OTHER, "none", None, reason)
        return self._pages(found)

    def _pdf(self, content: bytes, read: FileText) -> ExtractionResult | _Divided | _AsBefore:
        def cut(numbers: Sequence[int]) -> Iterator[bytes]:
            return parsers.cut(content, [(number, number) for number in numbers], self.attempt.deadline.check)

        found = ocr.ocr_pdf(read.pages, read.scans, self._recogniser(), cut)
        if not self.document.is_child and len(found.pages) > 1 and not _is_blank(found):
            division = self._division(found)
            if not self.document.parts <= _ranges(division):
                return _AsBefore()
            if division.doubt is not None:
                reason = self._why_whole(division, found)
                return ExtractionResult(DocumentType.OTHER, "none", None, reason)
            if len(division.parts) > 1:
                parts = children.store(self.attempt, self.document.file.bucket, content, division.parts)
                return _Divided(division, parts)
        return self._pages(found)

    def _division(self, found: Recognition) -> Split:
        """Where the documents of a file begin, by rules and by a model where they doubt."""
        division = parsers.split_pages(found.pages, self.attempt.deadline.check)
        if self.model is None:
            return division
        return boundaries.decide(self.model, self.attempt, found.pages, division)

    def _why_whole(self, division: Split, found: Recognition) -> str:
        unasked = None if self.model is None else self.model.unasked
        return " ".join(filter(None, (division.doubt, unasked, found.warning)))

    def _pages(self, found: Recognition) -> ExtractionResult:
        attempt = self.attempt
        return Reader(self.model, attempt.tenant_id, attempt.work_id, attempt.deadline).read(found)

    def _recogniser(self) -> Recogniser | None:
        if self.ocr is None:
            return None
        return Recogniser(
            self.ocr,
            self.memory,
            self.document.content_hash,
            self.document.first_page,
            self.attempt.deadline,
        )


def _ranges(division: Split) -> frozenset[tuple[int, int]]:
    """First and last page of the parts that a file is to be cut into; none where it stays whole."""
    if division.doubt is not None or len(division.parts) < 2:
        return frozenset()
    return frozenset((part.pages.first, part.pages.last) for part in division.parts)


def _is_blank(found: Recognition) -> bool:
    return not any(page.words for page in found.pages)


def _done(attempt: TenantAttempt, found: ExtractionResult) -> Outcome:
    is_read = found.structured_data is not None
    is_matched = is_read and found.type not in (None, DocumentType.OTHER)

    def effects(connection: Connection) -> Effects:
        removal.lock_awaited(connection, attempt.work_id)
        _write(connection, attempt, found)
        messages = _match(connection, attempt, [attempt.work_id]) if is_matched else _match_again(connection, attempt)
        if not is_read:
            return Effects(messages)
        more, replaced = removal.replace_awaited(connection, attempt.work_id, attempt.now())
        return Effects(messages + more, " ".join(filter(None, (*found.remarks, replaced))) or None)

    if not is_read:
        return Skipped(found.reason or NOTHING, effects)
    if not is_matched:
        return Skipped("Documents of this type are stored but not matched.", effects)
    return Succeeded(effects)


def _without_model(model: CachedLlm | None) -> str | None:
    """Why a language model had no part in a reading, in a sentence; None where it had, or could have had."""
    return "No language model is configured, as there was then." if model is None else model.unasked


def _poorer(found: ExtractionResult, before: _Document, without_model: str | None) -> str | None:
    """Why a reading must not replace the one before, which found something; None where it may.

    A reading without data may where it says what that is: a document of a kind that has none. But rules alone neither
    contradict a language model nor give up what it found, for it may only be away. Nor is given up what pages said that
    were recognised then and cannot be now.
    """
    if before.method is None:
        return None
    is_alone = before.method == "model" and found.method != "model"
    if found.structured_data is None:
        says_what = found.type == DocumentType.OTHER and found.method != "none" and not is_alone
        return None if says_what else found.reason or NOTHING
    if found.unread & before.recognised:
        return " ".join(found.remarks)
    if is_alone and without_model is not None and found.remarks:
        return " ".join(dict.fromkeys((without_model, *found.remarks)))
    return None


def _as_read_before(attempt: TenantAttempt, reason: str) -> Succeeded:
    told = f"What was read of it before stands. This time: {reason}"
    return Succeeded(lambda connection: Effects(_match_again(connection, attempt), told))


_WAS_MATCHED = "SELECT id FROM document WHERE id = %s AND matching_revision > 0"


def _match_again(connection: Connection, attempt: TenantAttempt) -> list[Send]:
    """Begin the matching of a document that was matched before. One that cannot be any more leaves its cluster."""
    begun = [id_ for (id_,) in connection.execute(_WAS_MATCHED, [attempt.work_id])]
    return _match(connection, attempt, begun)


def _match(connection: Connection, attempt: TenantAttempt, ids: Sequence[UUID]) -> list[Send]:
    return renew(connection, "matching", ids, attempt.now(), actor="ingestion", why=WHY)


def _write(connection: Connection, attempt: TenantAttempt, found: ExtractionResult) -> None:
    connection.execute(
        "UPDATE document SET type = %s, method = %s, structured_data = %s, evidence = %s WHERE id = %s",
        [
            found.type or DocumentType.OTHER,
            found.method,
            None if found.structured_data is None else Jsonb(found.structured_data),
            Jsonb(found.evidence) if found.evidence else None,
            attempt.work_id,
        ],
    )


def _divided(attempt: TenantAttempt, found: _Divided) -> Succeeded:

    def effects(connection: Connection) -> Effects:
        removal.lock_awaited(connection, attempt.work_id)
        _write(connection, attempt, ExtractionResult(DocumentType.OTHER, "none", None))
        messages = _match_again(connection, attempt)
        connection.execute(
            "UPDATE document SET matching_reason = %s WHERE id = %s", [found.split.summary, attempt.work_id]
        )
        messages += children.insert(connection, attempt, found.parts)
        more, replaced = removal.replace_awaited(connection, attempt.work_id, attempt.now())
        return Effects(messages + more, " ".join(filter(None, (found.split.summary, replaced))))

    return Succeeded(effects)
