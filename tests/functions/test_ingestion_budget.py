"""Where the budget of questions is used up, documents are read by rules alone, and say so."""

from counterfoil.delivery.work import begin
from tests.delivery.harness import rows
from tests.documents.reading.papers import LASKU, bundle, printed, said
from tests.functions.desk import DONE, Desk, desk

__all__ = ["desk"]

UNREAD = printed(LASKU)
HALF = printed((LASKU[0], "LASKU / INVOICE", "Invoice number L-2026/118", *LASKU[3:]))
"""The same, of which rules read a little."""


SPENT = "The language model was not asked: today's budget of 0 questions is used up"


def test_what_rules_cannot_read_is_kept_with_the_reason(desk: Desk):
    desk.questions_per_day = 0
    id_ = desk.file(UNREAD)
    assert desk.ingest() == DONE
    job = desk.job(id_)
    assert (job["status"], desk.document(id_)["structured_data"], desk.model.requests) == (None, None, [])
    assert SPENT in job["reason"]
    assert rows(desk.admin, "dead_letter") == []


def test_what_rules_read_in_part_is_taken_with_the_reason(desk: Desk):
    desk.questions_per_day = 0
    id_ = desk.file(HALF)
    assert desk.ingest() == DONE
    job, document = desk.job(id_), desk.document(id_)
    assert (job["status"], document["structured_data"]["invoice_number"]) == ("succeeded", "L-2026/118")
    assert (document["method"], desk.model.requests) == ("text", [])
    assert SPENT in job["reason"]


def test_what_the_model_read_before_stands(desk: Desk):
    id_ = desk.file(HALF)
    desk.model.then(said())
    desk.ingest()
    before = desk.document(id_)
    desk.admin.execute("TRUNCATE reading")  # what the model said is forgotten, as where it is another model by now
    desk.questions_per_day = 1  # which it has had
    begin(desk.admin, "ingestion", [id_], desk.clock())
    desk.again(id_)
    assert desk.ingest() == DONE
    after, job = desk.document(id_), desk.job(id_)
    assert (after["structured_data"], after["method"]) == (before["structured_data"], "model")
    assert job["reason"].startswith(
        "The previous extraction is unchanged. This time: The language model was not asked: "
    )
    assert job["reason"].count("was not asked") == 1


def test_what_the_model_said_before_costs_nothing(desk: Desk):
    id_ = desk.file(UNREAD)
    desk.model.then(said())
    desk.ingest()
    desk.questions_per_day = 0
    begin(desk.admin, "ingestion", [id_], desk.clock())
    desk.again(id_)
    assert desk.ingest() == DONE
    assert (desk.document(id_)["method"], desk.job(id_)["reason"]) == ("model", None)


def test_a_file_whose_boundaries_are_in_doubt_stays_whole_with_the_reason(desk: Desk):
    desk.questions_per_day = 0
    id_ = desk.file(bundle([UNREAD, printed(["Toimitusehdot", "Sivu 2"])]))
    assert desk.ingest() == DONE
    job = desk.job(id_)
    assert (job["status"], desk.model.requests, len(rows(desk.admin, "document"))) == (None, [], 1)
    assert job["reason"].count(SPENT) == 1
