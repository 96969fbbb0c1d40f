"""Extraction of structured data from a file's XML or its pages.

XML is exact and is used unchanged. Pages are read from their text layer, or by OCR if they are scans. If the rules find
incomplete data, a language model completes it. For a file with several documents, the result is only the split into
parts.
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
    "The file was split before, and would be split differently now. Its parts are unchanged. "
    "To split it again, delete the document and upload its file again."
)


@dataclass(frozen=True)
class ExtractionTools:
    """Services and time limit for one extraction.

    If the services are None, only rules read the text layer.
    """

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
    """Extract a file's structured data, outside any transaction.

    A file without data is not an error: the result states the reason. With `text_only`, XML inside a PDF is ignored. A
    part of a file (`is_part`) is not split again. `earlier_parts` are the page ranges of an earlier split. If the new
    split does not contain all of them, nothing is extracted.

    Raises:
        InvalidDocumentError: the file cannot be a document, or exceeds `parsers.READ_LIMITS`.
        ParserError: the process that parses files failed.
        CounterfoilError: OCR, the language model or the database failed.
    """
    check_size(len(content))
    file_text = parsers.read(content, tools.deadline.check, text_only=text_only)
    structured = file_text.extraction
    if structured.structured_data is not None:
        return structured
    kind = recognize(content)
    if kind is FileKind.IMAGE:
        pages = ocr.ocr_image(content, tools.ocr, tools.deadline)
    elif kind is FileKind.PDF:
        pages = ocr.ocr_pdf(content, file_text, tools.ocr, tools.deadline)
    else:
        return replace(structured, reason=misnamed(name, kind) or structured.reason)
    result = None if is_part else _without_reading(kind, pages, tools, earlier_parts)
    result = result or _read_document(pages, tools)
    if text_only and kind is FileKind.PDF and result.structured_data is None:
        return replace(result, reason=f"{structured.reason} {result.reason}")
    return result


def _without_reading(
    kind: FileKind, pages: Recognition, tools: ExtractionTools, earlier_parts: Set[tuple[int, int]]
) -> ExtractionResult | None:
    """Return the result if the file cannot be extracted as one document, else None."""
    if len(pages.pages) < 2 or not pages.has_words:
        return None
    split = parsers.split_pages(pages.pages, tools.deadline.check)
    if tools.llm is not None:
        split = boundaries.decide(tools.llm, tools.deadline, pages.pages, split)
    if not earlier_parts <= page_ranges(split):
        return ExtractionResult(DocumentType.OTHER, "none", None, SPLIT_CHANGED, split=split)
    if split.reason is not None:
        skip_reason = None if tools.llm is None else tools.llm.skip_reason
        reason = " ".join(filter(None, (split.reason, skip_reason, pages.warning)))
        return ExtractionResult(DocumentType.OTHER, "none", None, reason)
    if len(split.parts) < 2:
        return None
    if kind is FileKind.IMAGE:
        reason = f"The image contains {len(split.parts)} documents. Send them as a PDF, which can be split."
        return ExtractionResult(DocumentType.OTHER, "none", None, reason)
    return ExtractionResult(DocumentType.OTHER, "none", None, split.summary, split=split)


def page_ranges(split: Split) -> Set[tuple[int, int]]:
    """Return the page ranges of a split file's parts; empty if the file stays whole."""
    return frozenset() if len(split.parts) < 2 else frozenset(split.ranges)


def _read_document(pages: Recognition, tools: ExtractionTools) -> ExtractionResult:
    """Extract one document from its pages.

    The model is queried if the rules do not suffice. Only the rules are used if there is no model, if it rejects the
    document or the document is too long for it, or if the budget is spent.
    """
    if not pages.has_words:
        return ExtractionResult(None, "none", None, pages.empty_reason, unread=frozenset(pages.unread))
    reading = parsers.read_pages(pages.pages, tools.deadline.check)
    fields = None if reading is None else ReadFields(reading.type, reading.fields, reading.evidence)
    refusal: str | None = None
    if tools.llm is not None and (fields is None or not _completeness(fields).is_good):
        try:
            fields = merge_fields(fields, model.grounded_fields(*_ask_model(tools.llm, tools.deadline, pages, fields)))
        except BudgetExceededError as error:
            refusal = str(error)
        except PromptRejectedError:
            refusal = "The language model rejected the document."
        except ContextWindowError:
            refusal = "The document is too long for the language model."
    return _result(fields, pages, refusal)


def _ask_model(
    llm: CachedLlm, deadline: Deadline, pages: Recognition, rule_fields: ReadFields | None
) -> tuple[LlmExtraction, Grounding]:
    """Return the model's answer, and the grounding to verify it.

    The answer has no line items if the rules found line items that add up to the net total, or if an answer with line
    items would be too long.
    """
    grounding = Grounding(pages.pages)

    def ask(*, lines: bool) -> LlmExtraction:
        return llm.complete_json(
            model.question(pages.pages, lines=lines), model.answer_schema(grounding), deadline
        ).content

    if rule_fields is not None and lines_agree(rule_fields.fields.get("line_items") or (), rule_fields.fields):
        return ask(lines=False), grounding
    try:
        return ask(lines=True), grounding
    except ContextWindowError:  # usually, the line items made the answer too long
        return ask(lines=False), grounding


def _completeness(read_fields: ReadFields) -> Completeness:
    return check_completeness(read_fields.type, read_fields.fields, read_fields.evidence)


def _result(read_fields: ReadFields | None, pages: Recognition, refusal: str | None) -> ExtractionResult:
    loss_warning = totals.unreadable_warning(pages.pages, {} if read_fields is None else read_fields.fields)
    further_warnings = [sentence for sentence in (refusal, loss_warning, pages.warning) if sentence]
    unread = frozenset(pages.unread)
    if read_fields is None:
        reason = "No document type with a document number was found. The file is stored."
        return ExtractionResult(None, "none", None, " ".join([reason, *further_warnings]), unread=unread)
    method = _method(read_fields, pages)
    if read_fields.type is DocumentType.OTHER:
        reason = "Documents of this type are stored but not matched."
        return ExtractionResult(read_fields.type, method, None, " ".join([reason, *further_warnings]), unread=unread)
    read_fields = _drop_nameless_parties(read_fields)
    try:
        record, remarks = to_structured_data(read_fields.type, read_fields.fields)
    except InvalidDocumentError as error:
        return ExtractionResult(
            read_fields.type, method, None, " ".join([str(error), *further_warnings]), unread=unread
        )
    warnings = (*read_fields.warnings, *remarks, *_problems(_completeness(read_fields)), *further_warnings)
    data = record.data()
    return ExtractionResult(read_fields.type, method, data, None, warnings, _evidence(data, read_fields, pages), unread)


def _problems(completeness: Completeness) -> Iterable[str]:
    if completeness.missing:
        yield f"Not found on the pages: {', '.join(completeness.missing)}."
    if completeness.uncertain:
        yield f"Uncertain: {', '.join(completeness.uncertain)}."
    yield from completeness.contradictions


def _drop_nameless_parties(read_fields: ReadFields) -> ReadFields:
    """Remove parties that have no name."""
    roles = ROLES[read_fields.type]
    nameless = [
        side
        for side in (roles.seller, roles.buyer)
        if side in read_fields.fields and not read_fields.fields[side].get("name")
    ]
    if not nameless:
        return read_fields
    fields = {name: value for name, value in read_fields.fields.items() if name not in nameless}
    evidence = {
        path: field_evidence
        for path, field_evidence in read_fields.evidence.items()
        if path.partition(".")[0] not in nameless
    }
    return replace(read_fields, fields=fields, evidence=evidence)


def _method(read_fields: ReadFields, pages: Recognition) -> Method:
    if any(evidence.source == model.SOURCE for evidence in read_fields.evidence.values()):
        return "model"
    return "ocr" if pages.confidences else "text"


def _evidence(data: Mapping[str, Any], read_fields: ReadFields, pages: Recognition) -> dict[str, dict[str, Any]]:
    """Return the evidence for each field in `data`, by path."""
    by_path = {path: read_fields.evidence[path] for path in _paths(data) if path in read_fields.evidence}
    return {
        path: _evidence_as_json(evidence, pages.confidences.get(evidence.page)) for path, evidence in by_path.items()
    }


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every value. A list of references counts as one value."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _paths(part, f"{path}.{name}" if path else name)
    elif path == "line_items":
        for place, line in enumerate(value):
            yield from _paths(line, f"{path}.{place}")
    else:
        yield path


def _evidence_as_json(evidence: Evidence, ocr_confidence: float | None) -> dict[str, Any]:
    """Return evidence as JSON.

    The source starts with `ocr:` if `ocr_confidence` is set, which then scales the confidence. For a text layer, it
    starts with `text:`.
    """
    origin = "text" if ocr_confidence is None else "ocr"
    confidence = evidence.confidence * (1.0 if ocr_confidence is None else ocr_confidence)
    return {"source": f"{origin}:{evidence.source}", "confidence": round(confidence, 4), "page": evidence.page}
