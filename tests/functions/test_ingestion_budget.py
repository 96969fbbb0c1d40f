"""Only rules extract data when the LLM budget is used up.

The ingestion job stores the reason.
"""

from counterfoil.delivery.work import start_revision
from tests.delivery.harness import rows
from tests.documents.reading.samples import LASKU, bundle, extraction_response, text_pdf
from tests.functions.ingestion_harness import DONE, Ingestion, ingestion

__all__ = ["ingestion"]

UNREAD = text_pdf(LASKU)
HALF = text_pdf((LASKU[0], "LASKU / INVOICE", "Invoice number L-2026/118", *LASKU[3:]))
"""PDF file of the same document as `UNREAD`, but partially readable by rules."""


SPENT = "The language model was not called: today's call budget of 0 is used up"


def test_unreadable_document_stores_exceeded_budget_as_reason(ingestion: Ingestion):
    ingestion.questions_per_day = 0
    id_ = ingestion.file(UNREAD)
    assert ingestion.ingest() == DONE
    job = ingestion.job(id_)
    assert (job["status"], ingestion.document(id_)["structured_data"], ingestion.model.requests) == (None, None, [])
    assert SPENT in job["skip_reason"]
    assert rows(ingestion.admin, "dead_letter") == []


def test_partially_extracted_document_stores_exceeded_budget_as_reason(ingestion: Ingestion):
    ingestion.questions_per_day = 0
    id_ = ingestion.file(HALF)
    assert ingestion.ingest() == DONE
    job, document = ingestion.job(id_), ingestion.document(id_)
    assert (job["status"], document["structured_data"]["invoice_number"]) == ("succeeded", "L-2026/118")
    assert (document["method"], ingestion.model.requests) == ("text", [])
    assert SPENT in job["skip_reason"]


def test_exceeded_budget_preserves_earlier_model_extraction(ingestion: Ingestion):
    id_ = ingestion.file(HALF)
    ingestion.model.add_steps(extraction_response())
    ingestion.ingest()
    before = ingestion.document(id_)
    ingestion.admin.execute("TRUNCATE page_reading_cache")  # no cached answer, as after a model change
    ingestion.questions_per_day = 1  # the first ingestion used one call
    start_revision(ingestion.admin, "ingestion", [id_], ingestion.clock())
    ingestion.redeliver(id_)
    assert ingestion.ingest() == DONE
    after, job = ingestion.document(id_), ingestion.job(id_)
    assert (after["structured_data"], after["method"]) == (before["structured_data"], "model")
    assert job["skip_reason"].startswith(
        "The previous extraction is unchanged. Reason: The language model was not called: "
    )
    assert job["skip_reason"].count("was not called") == 1


def test_cached_answer_uses_no_budget(ingestion: Ingestion):
    id_ = ingestion.file(UNREAD)
    ingestion.model.add_steps(extraction_response())
    ingestion.ingest()
    ingestion.questions_per_day = 0
    start_revision(ingestion.admin, "ingestion", [id_], ingestion.clock())
    ingestion.redeliver(id_)
    assert ingestion.ingest() == DONE
    assert (ingestion.document(id_)["method"], ingestion.job(id_)["skip_reason"]) == ("model", None)


def test_exhausted_budget_prevents_splitting_ambiguous_file(ingestion: Ingestion):
    ingestion.questions_per_day = 0
    id_ = ingestion.file(bundle([UNREAD, text_pdf(["Toimitusehdot", "Sivu 2"])]))
    assert ingestion.ingest() == DONE
    job = ingestion.job(id_)
    assert (job["status"], ingestion.model.requests, len(rows(ingestion.admin, "document"))) == (None, [], 1)
    assert job["skip_reason"].count(SPENT) == 1
