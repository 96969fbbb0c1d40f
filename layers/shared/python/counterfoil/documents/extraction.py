"""Extraction of structured data from the XML or the pages of a file.

XML is exact and is used as it is. Pages are read from their text layer, or by OCR if they are scans. A language model
reads what the rules leave incomplete. A file with several documents has no data, only the split into its parts.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from counterfoil.deadline import Deadline
from counterfoil.documents.filetype import FileKind, check_size, misnamed, recognize
from counterfoil.documents.reading import boundaries, model, ocr
from counterfoil.documents.reading.cache import CachedLlm
from counterfoil.documents.reading.grounding import Grounding
from counterfoil.documents.reading.merge import Completeness, ReadFields, check_completeness, lines_agree, merge_fields
from counterfoil.documents.reading.model import LlmExtraction
from counterfoil.documents.reading.ocr import CachedOcr, Recognition
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.splitting import Split
from counterfoil.documents.structured import ROLES, DocumentType, ExtractionResult, Method, to_structured_data
from counterfoil.documents.text import totals
from counterfoil.documents.text.page import Evidence
from counterfoil.errors import ContextWindowError, InvalidDocumentError
from counterfoil.llm import BudgetExceededError, PromptRejectedError

SPLIT_CHANGED = (
    "The file was split before, and would be split differently now. Its parts stay as they are. "
    "To split it again, delete the document and upload its file again."
)


@dataclass(frozen=True)
class ExtractionTools:
    """Services and time limit of one extraction. Without services, only rules read the text layer."""

    ocr: CachedOcr | None = None
    llm: CachedLlm | None = None
    deadline: Deadline = field(default_factory=Deadline)


RULES_ALONE = ExtractionTools()


def extract(
    content: bytes,
    tools: ExtractionTools = RULES_ALONE,
    *,
    name: str = "",
    text_only: bool = False,
    is_part: bool = False,
    earlier_parts: Set[tuple[int, int]] = frozenset(),
) -> ExtractionResult:
    """Extract the structured data of a file, outside any transaction.

    A file without data is not an error: the result has a reason. With `text_only`, XML inside a PDF is ignored. A part
    of a file (`is_part`) is not split again. `earlier_parts` are the first and last pages of the parts of an earlier
    split. If the new split does not contain them, the file is not read.

    Raises:
        InvalidDocumentError: the file cannot be a document, or exceeds `parsers.READ`.
        ParserError: the process that parses files failed.
        CounterfoilError: raised by OCR, the language model or the database.
    """
    check_size(len(content))
    read = parsers.read(content, tools.deadline.check, text_only=text_only)
    exact = read.extraction
    if exact.structured_data is not None:
        return exact
    kind = recognize(content)
    if kind is FileKind.IMAGE:
        pages = ocr.ocr_image(content, tools.ocr, tools.deadline)
    elif kind is FileKind.PDF:
        pages = ocr.ocr_pdf(content, read, tools.ocr, tools.deadline)
    else:
        return replace(exact, reason=misnamed(name, kind) or exact.reason)
    found = None if is_part else _without_reading(kind, pages, tools, earlier_parts)
    found = found or _read(pages, tools)
    if text_only and kind is FileKind.PDF and found.structured_data is None:
        return replace(found, reason=f"{exact.reason} {found.reason}")
    return found


def _without_reading(
    kind: FileKind, pages: Recognition, tools: ExtractionTools, earlier_parts: Set[tuple[int, int]]
) -> ExtractionResult | None:
    """Return the result for a file that is not read as one document; None for a file that is."""
    if len(pages.pages) < 2 or not pages.has_words:
        return None
    split = parsers.split_pages(pages.pages, tools.deadline.check)
    if tools.llm is not None:
        split = boundaries.decide(tools.llm, tools.deadline, pages.pages, split)
    if not earlier_parts <= page_ranges(split):
        return ExtractionResult(DocumentType.OTHER, "none", None, SPLIT_CHANGED, split=split)
    if split.doubt is not None:
        unasked = None if tools.llm is None else tools.llm.unasked
        reason = " ".join(filter(None, (split.doubt, unasked, pages.warning)))
        return ExtractionResult(DocumentType.OTHER, "none", None, reason)
    if len(split.parts) < 2:
        return None
    if kind is FileKind.IMAGE:
        reason = f"The image contains {len(split.parts)} documents. Send them as a PDF, which can be split."
        return ExtractionResult(DocumentType.OTHER, "none", None, reason)
    return ExtractionResult(DocumentType.OTHER, "none", None, split.summary, split=split)


def page_ranges(split: Split) -> Set[tuple[int, int]]:
    """Return the first and last pages of the parts of a file; empty for a file that stays whole."""
    return frozenset() if len(split.parts) < 2 else frozenset(split.ranges)


def _read(pages: Recognition, tools: ExtractionTools) -> ExtractionResult:
    """Read one document from its pages. If the model cannot answer, only the rules count."""
    if not pages.has_words:
        return ExtractionResult(None, "none", None, pages.why_empty, unread=frozenset(pages.unread))
    reading = parsers.read_pages(pages.pages, tools.deadline.check)
    found = None if reading is None else ReadFields(reading.type, reading.fields, reading.evidence)
    refused: str | None = None
    if tools.llm is not None and (found is None or not _reviewed(found).is_good):
        try:
            found = merge_fields(found, model.grounded_fields(*_ask(tools.llm, tools.deadline, pages, found)))
        except BudgetExceededError as error:
            refused = str(error)
        except PromptRejectedError:
            refused = "The language model refused to read the document."
        except ContextWindowError:
            refused = "The document is too long for the language model."
    return _result(found, pages, refused)


def _ask(
    llm: CachedLlm, deadline: Deadline, pages: Recognition, found: ReadFields | None
) -> tuple[LlmExtraction, Grounding]:
    """Return the model's answer, and the grounding to verify it.

    The answer has no line items if those of the rules add up to the net total.
    """
    grounds = Grounding(pages.pages)

    def ask(*, lines: bool) -> LlmExtraction:
        return llm.complete_json(model.question(pages.pages, lines=lines), model.form(grounds), deadline).said

    if found is not None and lines_agree(found.fields.get("line_items") or (), found.fields):
        return ask(lines=False), grounds
    try:
        return ask(lines=True), grounds
    except ContextWindowError:  # usually the answer was cut off, because of the line items
        return ask(lines=False), grounds


def _reviewed(read: ReadFields) -> Completeness:
    return check_completeness(read.type, read.fields, read.evidence)


def _result(read: ReadFields | None, pages: Recognition, refused: str | None) -> ExtractionResult:
    lost = totals.unreadable_warning(pages.pages, {} if read is None else read.fields)
    further = [sentence for sentence in (refused, lost, pages.warning) if sentence]
    unread = frozenset(pages.unread)
    if read is None:
        reason = "No document type with a document number was found. The file is stored."
        return ExtractionResult(None, "none", None, " ".join([reason, *further]), unread=unread)
    method = _method(read, pages)
    if read.type is DocumentType.OTHER:
        reason = "Documents of this kind are stored and not matched."
        return ExtractionResult(read.type, method, None, " ".join([reason, *further]), unread=unread)
    read = _without_nameless(read)
    try:
        record, remarks = to_structured_data(read.type, read.fields)
    except InvalidDocumentError as error:
        return ExtractionResult(read.type, method, None, " ".join([str(error), *further]), unread=unread)
    told = (*read.warnings, *remarks, *_problems(_reviewed(read)), *further)
    data = record.data()
    return ExtractionResult(read.type, method, data, None, told, _evidence(data, read, pages), unread)


def _problems(found: Completeness) -> Iterable[str]:
    if found.missing:
        yield f"Not found on the pages: {', '.join(found.missing)}."
    if found.doubtful:
        yield f"Doubtful: {', '.join(found.doubtful)}."
    yield from found.contradictions


def _without_nameless(read: ReadFields) -> ReadFields:
    """Leave out parties without a name."""
    roles = ROLES[read.type]
    gone = [side for side in (roles.seller, roles.buyer) if side in read.fields and not read.fields[side].get("name")]
    if not gone:
        return read
    fields = {name: value for name, value in read.fields.items() if name not in gone}
    evidence = {path: one for path, one in read.evidence.items() if path.partition(".")[0] not in gone}
    return replace(read, fields=fields, evidence=evidence)


def _method(read: ReadFields, pages: Recognition) -> Method:
    if any(one.source == model.SOURCE for one in read.evidence.values()):
        return "model"
    return "ocr" if pages.sure else "text"


def _evidence(data: Mapping[str, Any], read: ReadFields, pages: Recognition) -> dict[str, dict[str, Any]]:
    """Return the evidence of each field in `data`."""
    found = {path: read.evidence[path] for path in _paths(data) if path in read.evidence}
    return {path: _evidence_as_json(one, pages.sure.get(one.page)) for path, one in found.items()}


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every single value. A list of references is one value."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _paths(part, f"{path}.{name}" if path else name)
    elif path == "line_items":
        for place, line in enumerate(value):
            yield from _paths(line, f"{path}.{place}")
    else:
        yield path


def _evidence_as_json(evidence: Evidence, sure: float | None) -> dict[str, Any]:
    """Return evidence as JSON.

    Its source starts with `text:` for a text layer, or with `ocr:` for OCR with the confidence `sure`.
    """
    where = "text" if sure is None else "ocr"
    confidence = evidence.confidence * (1.0 if sure is None else sure)
    return {"source": f"{where}:{evidence.source}", "confidence": round(confidence, 4), "page": evidence.page}
