"""People accept and dispute differences of computed cases, in a real database."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.documents import clusters, diagnostics, differences
from counterfoil.documents.clusters import ClusterFilter
from counterfoil.documents.differences import Said, Which, Word
from counterfoil.documents.review import Refused, Who
from counterfoil.documents.three_way_match import Code
from counterfoil.documents.three_way_match.tolerances import Key
from counterfoil.errors import StaleClaimError
from tests.dead_letters.trail import recorded
from tests.delivery.harness import rows
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import delivery, invoice, line, order

ORDERED = [line("A-100", "10", "100.00"), line("A-200", "5", "12.50")]
BILLED = [line("A-100", "10", "101.50"), line("A-200", "6", "12.50")]
"""One price is 1.5 percent too high, and of the other article one piece too many is billed."""


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    made = [order(lines=ORDERED), delivery(po_reference="4711", lines=ORDERED)]
    office = Office(database, admin, [*made, invoice(po_reference="4711", lines=BILLED)])
    office.match_all()
    compute(office)
    return office


def compute(office: Office, position: int = 0) -> dict[str, Any]:
    """What the worker does about the cluster of a document."""
    cluster_id = office.ids[position]
    with office.database.tenant(office.tenant_id) as connection:
        diagnostics.request(connection, office.tenant_id, [cluster_id], NOW)
        found = diagnostics.load(connection, office.tenant_id, cluster_id)
        assert found is not None
        result = found.examine()
        rows = connection.execute("SELECT claim_token FROM cluster_diagnostics WHERE id = %s", [cluster_id]).fetchall()
        diagnostics.write(connection, cluster_id, rows[0][0], result, NOW)
    office.admin.execute("UPDATE cluster_diagnostics SET status = 'succeeded'")
    return result.record


def say(
    office: Office,
    word: Word,
    which: Which = Which(),  # noqa: B008  # it is frozen
    *,
    by: str = "ann",
    supersedes: Sequence[int] = (),
    cluster: UUID | None = None,
) -> Said | Refused:
    def once() -> Said | Refused:
        with office.database.tenant(office.tenant_id) as connection:
            who = Who(by, "agreed", supersedes)
            return differences.say(connection, office.tenant_id, cluster or office.ids[0], which, word, NOW, who)

    return retry_conflicts(once)


def test_accepted_differences_settle_the_case_and_have_it_computed_anew(office: Office, admin: Connection):
    assert compute(office)["outcome"] == "exception"
    said = say(office, "accepted")
    assert isinstance(said, Said)
    assert (len(said.sentences), said.left) == (3, ())  # a price, and a quantity beyond order and delivery
    (row,) = rows(admin, "cluster_diagnostics")
    assert row["status"] == "pending"
    assert {send.message.work_id for send in said.sends} == {office.ids[0]}
    result = compute(office)
    assert result["outcome"] == "matched"
    assert all(one["settled_by"] == "Accepted by ann on 2026-06-01: agreed." for one in result["variances"])


@pytest.mark.parametrize(
    ("word", "outcome", "status"), [("accepted", "matched", "accepted"), ("disputed", "exception", "disputed")]
)
def test_decision_shows_at_once_while_the_cluster_is_recomputed(office: Office, word: Word, outcome: str, status: str):
    assert isinstance(say(office, word), Said)

    with office.database.tenant(office.tenant_id) as connection:
        found = clusters.show(connection, office.tenant_id, office.ids[0], limit=10)
    assert found is not None
    assert found.comparison is not None
    assert (found.comparison.outcome, found.status, found.is_being_computed) == (outcome, status, True)
    assert {one["decision"] for one in found.comparison.variances} == {word}


def test_large_cluster_is_left_to_the_worker(office: Office, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(diagnostics, "COMPARED_AT_ONCE", 2)

    assert isinstance(say(office, "accepted"), Said)

    with office.database.tenant(office.tenant_id) as connection:
        found = clusters.show(connection, office.tenant_id, office.ids[0], limit=10)
        (listed,) = clusters.page(connection, office.tenant_id, ClusterFilter(), limit=5).clusters
    assert found is not None
    assert (found.status, found.is_being_computed) == ("exception", True)
    assert (listed.status, listed.is_being_computed) == ("exception", True)
    assert compute(office)["outcome"] == "matched"


def test_one_difference_is_singled_out_and_the_others_stay_open(office: Office):
    said = say(office, "accepted", Which(office.ids[2], Code.PRICE_MISMATCH, "1"))
    assert isinstance(said, Said)
    assert (len(said.sentences), len(said.left)) == (1, 2)
    result = compute(office)
    assert result["outcome"] == "exception"
    assert [one["code"] for one in result["variances"] if one["settled_by"]] == ["price_mismatch"]


def test_what_was_accepted_a_moment_ago_is_not_called_open_before_the_case_is_computed_anew(office: Office):
    say(office, "accepted", Which(code=Code.OVER_BILLED_QUANTITY))
    said = say(office, "accepted", Which(code=Code.PRICE_MISMATCH))
    assert isinstance(said, Said)
    (left,) = said.left
    assert "were ordered" in left


def test_what_is_accepted_holds_until_the_figures_are_others(office: Office):
    say(office, "accepted")
    office.match(office.file(invoice("R-82", 12, po_reference="4711", lines=[line("A-200", "2", "12.50")])))
    open_ = {one["code"] for one in compute(office)["variances"] if not one["settled_by"]}
    assert open_ == {"over_billed_quantity", "billed_beyond_order"}  # now three pieces too many; the price is as it was


def test_nobody_says_the_same_twice_or_another_thing_unawares(office: Office):
    assert isinstance(say(office, "accepted"), Said)
    again = say(office, "accepted", by="bob")
    assert again == Refused("changed", "Accepted by ann on 2026-06-01: agreed: there is nothing to be done.")
    disputed = say(office, "disputed", by="bob")
    assert isinstance(disputed, Refused)
    assert "say that you supersede it" in disputed.sentence
    with office.database.tenant(office.tenant_id) as connection:
        known = [one.id for one in diagnostics.verdicts(connection)]
    assert isinstance(say(office, "disputed", by="bob", supersedes=known), Said)
    assert compute(office)["outcome"] == "exception"
    with office.database.tenant(office.tenant_id) as connection:
        assert {(one.is_accepted, one.by) for one in diagnostics.verdicts(connection)} == {(False, "bob")}


def test_accepted_and_disputed_variances_reach_the_audit_trail(office: Office, admin: Connection):
    say(office, "accepted", Which(code=Code.PRICE_MISMATCH))
    say(office, "accepted", Which(code=Code.PRICE_MISMATCH))  # refused: it is accepted already
    say(office, "disputed", Which(code=Code.OVER_BILLED_QUANTITY), by="bob")

    assert recorded(admin, office.tenant_id) == [
        ("ann", "variances accepted", [str(office.ids[0])]),
        ("bob", "variances disputed", [str(office.ids[0])]),
    ]


def test_of_several_people_at_once_one_is_heard(office: Office, admin: Connection):
    with ThreadPoolExecutor(6) as pool:
        told = list(pool.map(lambda number: say(office, "accepted", by=f"clerk-{number}"), range(6)))
    assert sum(isinstance(one, Said) for one in told) == 1
    assert len(rows(admin, "variance_decision")) == 3


def test_what_people_say_while_a_case_is_computed_is_not_lost(office: Office):
    """The worker has read the case before: what it computed is refused, and computed again with what was said."""
    with office.database.tenant(office.tenant_id) as connection:
        read = diagnostics.load(connection, office.tenant_id, office.ids[0])
        (token,) = connection.execute("SELECT claim_token FROM cluster_diagnostics").fetchone() or (0,)
    assert read is not None
    say(office, "accepted")
    stale = read.examine()
    with pytest.raises(StaleClaimError), office.database.tenant(office.tenant_id) as connection:
        diagnostics.write(connection, office.ids[0], token, stale, NOW + timedelta(seconds=1))


def test_only_differences_between_figures_can_be_accepted(database: Database, admin: Connection):
    office = Office(database, admin, [order(lines=ORDERED), invoice(po_reference="4711", lines=ORDERED)])
    office.match_all()
    compute(office)
    told = say(office, "accepted")
    assert isinstance(told, Refused)
    assert told.sentence.startswith("The case has no open difference that can be accepted or disputed. Invoice R-81")
    of_code = say(office, "accepted", Which(code=Code.MISSING_DELIVERY))
    assert isinstance(of_code, Refused)
    assert "documents settle it" in of_code.sentence
    assert say(office, "disputed", Which(line="99")) == Refused("changed", "The case has no such difference.")


def test_a_case_that_is_not_there_or_not_computed_or_anothers_is_refused(office: Office, admin: Connection):
    gone = Refused("gone", "There is no such case, or it has not been computed.")
    assert say(office, "accepted", cluster=UUID(int=3)) == gone
    theirs = Office(office.database, admin)
    assert say(theirs, "accepted", cluster=office.ids[0]) == gone
    assert rows(admin, "variance_decision") == []


def test_labels_name_the_seller_and_only_the_last_word_of_the_own_tenant(office: Office, admin: Connection):
    say(office, "accepted", Which(code=Code.PRICE_MISMATCH))
    with office.database.tenant(office.tenant_id) as connection:
        (label,) = differences.labels(connection)
    assert (label.sellers, label.key) == (("DE136695976", "Tarnow Schrauben AG"), Key.PRICE)
    assert (label.size("percent"), label.direction, label.verdict.measure) == (Decimal("1.5"), "more", "EUR")
    theirs = Office(office.database, admin)
    with theirs.database.tenant(theirs.tenant_id) as connection:
        assert list(differences.labels(connection)) == []


def test_what_was_accepted_counts_while_the_case_has_it_and_what_was_disputed_for_good(office: Office):
    say(office, "accepted", Which(code=Code.PRICE_MISMATCH))
    say(office, "accepted", Which(code=Code.OVER_BILLED_QUANTITY))
    say(office, "disputed", Which(code=Code.BILLED_BEYOND_ORDER))
    assert labels(office) == [("billed_beyond_order", False), ("over_billed_quantity", True), ("price_mismatch", True)]
    office.match(office.file(invoice("R-82", 12, po_reference="4711", lines=[line("A-200", "2", "12.50")])))
    compute(office)  # more is billed now than was accepted
    assert labels(office) == [("billed_beyond_order", False), ("price_mismatch", True)]
    office.decide(2, 0, "rejected")
    office.decide(2, 1, "rejected")
    compute(office)
    compute(office, 2)  # the bill is another order's
    assert labels(office) == [("billed_beyond_order", False)]


def labels(office: Office) -> list[tuple[str, bool]]:
    with office.database.tenant(office.tenant_id) as connection:
        return sorted((one.verdict.about[1].value, one.verdict.is_accepted) for one in differences.labels(connection))


def test_a_document_that_is_removed_takes_along_what_was_said_of_it(office: Office, admin: Connection):
    say(office, "accepted")
    admin.execute("DELETE FROM document WHERE id = %s", [office.ids[2]])
    assert rows(admin, "variance_decision") == []
