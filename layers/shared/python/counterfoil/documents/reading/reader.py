"""Reads a document from its pages: by rules, and where they fall short by a language model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from counterfoil.deadline import Deadline
from counterfoil.documents.extraction import ExtractionResult, Method
from counterfoil.documents.reading.cache import CachedLlm
from counterfoil.documents.reading.grounding import Grounds
from counterfoil.documents.reading.merge import Completeness, Read, check_completeness, lines_agree, merge_fields
from counterfoil.documents.reading.model import SOURCE, Inquiry, Said, counted, form
from counterfoil.documents.reading.ocr import Recognition
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.structured import ROLES, DocumentType, structure
from counterfoil.documents.text import reading, totals
from counterfoil.documents.text.page import Evidence, Page
from counterfoil.documents.text.reading import Reading
from counterfoil.errors import ContextWindowError, InvalidDocumentError
from counterfoil.llm import BudgetSpentError, Question, RefusedQuestionError


@dataclass(frozen=True)
class Reader:
    """What reads, as one try at one document uses it."""

    model: CachedLlm | None
    tenant_id: UUID
    document_id: UUID
    deadline: Deadline

    def read(self, recognition: Recognition) -> ExtractionResult:
        """Read one document; outside any transaction.

        Raises:
            InvalidDocumentError: the rules exceed `parsers.READ`.
            CounterfoilError: as `Llm.ask`, but for a refusal of this document or a budget. A model that fails decides
                nothing.
        """
        if not recognition.has_words:
            return _without_words(recognition)
        found = self._by_rules(recognition.pages)
        refused: str | None = None
        if self.model is not None and (found is None or not _reviewed(found).is_good):
            try:
                found = merge_fields(found, counted(*self._ask(self.model, recognition, found)))
            except BudgetSpentError as error:
                refused = str(error)
            except (RefusedQuestionError, ContextWindowError) as error:
                refused = _REFUSED if isinstance(error, RefusedQuestionError) else _TOO_LONG
        return _result(found, recognition, refused)

    def _by_rules(self, pages: Sequence[Page]) -> Read | None:
        return _read(parsers.read_pages(pages, self.deadline.check))

    def _ask(self, model: CachedLlm, recognition: Recognition, found: Read | None) -> tuple[Said, Grounds]:
        """What the model says, and what it is held against. Lines that are sure are not asked for, nor too many."""
        grounds = Grounds(recognition.pages)

        def ask(*, lines: bool) -> Said:
            inquiry = Inquiry.about(recognition.pages, lines=lines)
            question = Question(
                inquiry.system,
                inquiry.user,
                "ingestion",
                self.tenant_id,
                self.document_id,
                prompt_version=inquiry.prompt_version,
            )
            return model.ask(question, form(grounds), self.deadline).said

        if found is not None and lines_agree(found.fields.get("line_items") or (), found.fields):
            return ask(lines=False), grounds
        try:
            return ask(lines=True), grounds
        except ContextWindowError:  # most often the answer was cut off, and it is the lines that make it long
            return ask(lines=False), grounds


def read_by_rules(recognition: Recognition) -> ExtractionResult:
    """Read one document by rules alone, in this process."""
    if not recognition.has_words:
        return _without_words(recognition)
    return _result(_read(reading.read(recognition.pages)), recognition, None)


def _without_words(recognition: Recognition) -> ExtractionResult:
    return ExtractionResult(None, "none", None, recognition.why_empty, unread=frozenset(recognition.unread))


def _read(found: Reading | None) -> Read | None:
    return None if found is None else Read(found.type, found.fields, found.evidence)


_REFUSED = "The language model refused to read the document."
_TOO_LONG = "The document is too long for the language model."


def _reviewed(read: Read) -> Completeness:
    return check_completeness(read.type, read.fields, read.evidence)


def _result(read: Read | None, recognition: Recognition, refused: str | None) -> ExtractionResult:
    lost = totals.unreadable_warning(recognition.pages, {} if read is None else read.fields)
    further = [sentence for sentence in (refused, lost, recognition.warning) if sentence]
    unread = frozenset(recognition.unread)
    if read is None:
        reason = "The pages name no kind of document with a number of its own that could be read; they are kept."
        return ExtractionResult(None, "none", None, " ".join([reason, *further]), unread=unread)
    method = _method(read, recognition)
    if read.type is DocumentType.OTHER:
        reason = "The document is of a kind that is kept and not matched."
        return ExtractionResult(read.type, method, None, " ".join([reason, *further]), unread=unread)
    read = _without_nameless(read)
    try:
        record, remarks = structure(read.type, read.fields)
    except InvalidDocumentError as error:
        return ExtractionResult(read.type, method, None, " ".join([str(error), *further]), unread=unread)
    told = (*read.remarks, *remarks, *_problems(_reviewed(read)), *further)
    data = record.data()
    return ExtractionResult(read.type, method, data, None, told, _evidence(data, read, recognition), unread)


def _problems(found: Completeness) -> Iterable[str]:
    if found.missing:
        yield f"Not found on the pages: {', '.join(found.missing)}."
    if found.doubtful:
        yield f"Doubtful: {', '.join(found.doubtful)}."
    yield from found.contradictions


def _without_nameless(read: Read) -> Read:
    """Leave out a party that has no name, which is none."""
    roles = ROLES[read.type]
    gone = [side for side in (roles.seller, roles.buyer) if side in read.fields and not read.fields[side].get("name")]
    if not gone:
        return read
    fields = {name: value for name, value in read.fields.items() if name not in gone}
    evidence = {path: one for path, one in read.evidence.items() if path.partition(".")[0] not in gone}
    return replace(read, fields=fields, evidence=evidence)


def _method(read: Read, recognition: Recognition) -> Method:
    if any(one.source == SOURCE for one in read.evidence.values()):
        return "model"
    return "ocr" if recognition.sure else "text"


def _evidence(data: Mapping[str, Any], read: Read, recognition: Recognition) -> dict[str, dict[str, Any]]:
    """The evidence of each field that is stated."""
    found = {path: read.evidence[path] for path in _paths(data) if path in read.evidence}
    return {path: _told(one, recognition.sure.get(one.page)) for path, one in found.items()}


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """The path of every single value; a list of references is one."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _paths(part, f"{path}.{name}" if path else name)
    elif path == "line_items":
        for place, line in enumerate(value):
            yield from _paths(line, f"{path}.{place}")
    else:
        yield path


def _told(evidence: Evidence, sure: float | None) -> dict[str, Any]:
    """Evidence as JSON: `text:label` is from a text layer, `ocr:label` from a page whose recognition was `sure`."""
    where = "text" if sure is None else "ocr"
    confidence = evidence.confidence * (1.0 if sure is None else sure)
    return {"source": f"{where}:{evidence.source}", "confidence": round(confidence, 4), "page": evidence.page}
