"""Without LLM budget, documents are read by rules and have a reason."""

from counterfoil.delivery.work import start_revision
from tests.delivery.harness import rows
from tests.documents.reading.samples import LASKU, bundle, printed, said
from tests.functions.ingestion_harness import DONE, Ingestion, desk

__all__ = ["desk"]

UNREAD = printed(LASKU)
HALF = printed((LASKU[0], "LASKU / INVOICE", "Invoice number L-2026/118", *LASKU[3:]))
"""The same document, partially readable by rules."""


SPENT = "The language model was not asked: today's budget of 0 questions is used up"


def test_unreadable_document_names_the_exceeded_budget(desk: Ingestion):
    desk.questions_per_day = 0
    id_ = desk.file(UNREAD)
    assert desk.ingest() == DONE
    job = desk.job(id_)
    assert (job["status"], desk.document(id_)["structured_data"], desk.model.requests) == (None, None, [])
    assert SPENT in job["skip_reason"]
    assert rows(desk.admin, "dead_letter") == []


def test_partially_read_document_names_the_exceeded_budget(desk: Ingestion):
    desk.questions_per_day = 0
    id_ = desk.file(HALF)
    assert desk.ingest() == DONE
    job, document = desk.job(id_), desk.document(id_)
    assert (job["status"], document["structured_data"]["invoice_number"]) == ("succeeded", "L-2026/118")
    assert (document["method"], desk.model.requests) == ("text", [])
    assert SPENT in job["skip_reason"]


def test_earlier_model_extraction_is_preserved(desk: Ingestion):
    id_ = desk.file(HALF)
    desk.model.then(said())
    desk.ingest()
    before = desk.document(id_)
    desk.admin.execute("TRUNCATE page_reading_cache")  # delete the cached answer, as after a model change
    desk.questions_per_day = 1  # already used
    start_revision(desk.admin, "ingestion", [id_], desk.clock())
    desk.redeliver(id_)
    assert desk.ingest() == DONE
    after, job = desk.document(id_), desk.job(id_)
    assert (after["structured_data"], after["method"]) == (before["structured_data"], "model")
    assert job["skip_reason"].startswith(
        "The previous extraction is unchanged. This time: The language model was not asked: "
    )
    assert job["skip_reason"].count("was not asked") == 1


def test_cached_answer_uses_no_budget(desk: Ingestion):
    id_ = desk.file(UNREAD)
    desk.model.then(said())
    desk.ingest()
    desk.questions_per_day = 0
    start_revision(desk.admin, "ingestion", [id_], desk.clock())
    desk.redeliver(id_)
    assert desk.ingest() == DONE
    assert (desk.document(id_)["method"], desk.job(id_)["skip_reason"]) == ("model", None)


def test_ambiguous_file_stays_whole_with_budget_reason(desk: Ingestion):
    desk.questions_per_day = 0
    id_ = desk.file(bundle([UNREAD, printed(["Toimitusehdot", "Sivu 2"])]))
    assert desk.ingest() == DONE
    job = desk.job(id_)
    assert (job["status"], desk.model.requests, len(rows(desk.admin, "document"))) == (None, [], 1)
    assert job["skip_reason"].count(SPENT) == 1
