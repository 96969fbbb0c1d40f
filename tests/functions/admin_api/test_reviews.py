"""`/api/admin/reviews`: the queue, page by page, and what people may decide about it."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from tests.delivery.harness import FakeSqs, rows
from tests.documents.matching.office import Office
from tests.documents.matching.papers import invoice, line, order
from tests.documents.matching.test_judge import TWICE
from tests.documents.test_differences import compute
from tests.functions.admin_api.conftest import Answer, Ask

PATH = "/api/admin/reviews"
EVERYWHERE = "[operator tenant:*]"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, max_connections=2)
    yield database
    database.close()


def doubtful(database: Database, admin: Connection) -> Office:
    """A tenant whose third document may belong to either of the first two."""
    office = Office(database, admin, TWICE)
    office.match_all()
    return office


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    return doubtful(database, admin)


def slug(office: Office) -> str:
    row = office.admin.execute("SELECT slug FROM tenant WHERE id = %s", [office.tenant_id]).fetchone()
    assert row is not None
    return str(row[0])


def listed(ask: Ask, groups: str = EVERYWHERE, **query: str) -> Answer:
    return ask("", method="GET", path=PATH, groups=groups, query=query)


# Reading


def test_a_review_shows_both_sides_and_the_evidence_step_by_step(ask: Ask, office: Office) -> None:
    (found,) = listed(ask).body["reviews"]

    assert (found["id"], found["tenant"], found["state"]) == (str(office.ids[2]), slug(office), "open")
    assert found["document"] | {"number": "R-81", "date": "2026-03-12", "seller": "Tarnow Schrauben AG"} == {
        **found["document"]
    }
    ((doubt,), chance) = (found["doubts"], found["chance"])
    assert [one["document"]["number"] for one in doubt["candidates"]] == ["4711", "4711"]
    assert chance == max(one["chance"] for one in doubt["candidates"])
    for candidate in doubt["candidates"]:
        assert candidate["evidence"][-1]["total"] == pytest.approx(candidate["bits"], abs=0.02)
    assert ask("", method="GET", path=f"{PATH}/{office.ids[2]}", groups=EVERYWHERE).body == found


def test_missing_facts_are_named(ask: Ask, office: Office) -> None:
    office.admin.execute(
        "UPDATE document SET structured_data = structured_data - 'issuer' WHERE id = %s", [office.ids[2]]
    )
    (found,) = listed(ask).body["reviews"]
    assert found["document"]["missing"] == ["supplier"]
    assert {*map(str, (one["document"]["missing"] for one in found["doubts"][0]["candidates"]))} == {"[]"}


def test_pages_follow_one_another_without_gap(ask: Ask, database: Database, admin: Connection) -> None:
    expected = [str(doubtful(database, admin).ids[2]) for _ in range(5)]
    seen, query = [], {"limit": "2"}
    for _ in range(3):
        page = listed(ask, **query).body
        seen += [one["id"] for one in page["reviews"]]
        query["cursor"] = page["next"]

    assert (seen, page["next"]) == (expected, None)


def test_the_queue_is_filtered(ask: Ask, database: Database, admin: Connection, office: Office) -> None:
    other = doubtful(database, admin)

    def found(**query: str) -> int:
        return len(listed(ask, **query).body["reviews"])

    assert (found(), found(tenant=slug(other)), found(kind="invoice"), found(kind="credit_note")) == (2, 1, 2, 0)
    assert (found(min_chance="0.4"), found(min_chance="0.9"), found(max_chance="0.1")) == (2, 0, 0)
    assert (found(state="decided"), found(state="open")) == (0, 2)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"state": "shut"}, "state is wrong: Input should be 'open', 'decided' or 'gone'"),
        ({"kind": "letter"}, "kind is wrong: Input should be 'invoice'"),
        ({"min_chance": "nan"}, "min_chance is wrong"),
        ({"max_chance": "x"}, "max_chance is wrong: Input should be a valid number"),
        ({"max_chance": "1.5"}, "max_chance is wrong: Input should be less than or equal to 1"),
        ({"limit": "0"}, "limit is wrong: Input should be greater than or equal to 1"),
        ({"limit": "٣"}, "limit is wrong"),
        ({"cursor": "zzz"}, "cursor must be"),
        ({"colour": "red"}, "no parameter 'colour'"),
    ],
)
def test_a_query_that_cannot_be_read_is_refused_with_a_sentence(ask: Ask, query: dict[str, str], says: str) -> None:
    answer = listed(ask, **query)

    assert (answer.status, says in answer.body["detail"]) == (422, True)


def test_a_viewer_sees_its_own_tenants_alone(ask: Ask, database: Database, admin: Connection, office: Office) -> None:
    other = doubtful(database, admin)
    mine = f"[viewer tenant:{slug(office)}]"

    assert [one["tenant"] for one in listed(ask, mine).body["reviews"]] == [slug(office)]
    assert listed(ask, mine, tenant=slug(other)).status == 403
    assert listed(ask, "[viewer]").status == 403
    assert listed(ask, f"[tenant:{slug(office)}]").status == 403
    theirs = ask("", method="GET", path=f"{PATH}/{other.ids[2]}", groups=mine)
    nobodys = ask("", method="GET", path=f"{PATH}/{uuid4()}", groups=mine)
    assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body) == (404, theirs.body)


def test_what_was_never_in_doubt_has_no_review(ask: Ask, office: Office) -> None:
    assert ask("", method="GET", path=f"{PATH}/{office.ids[0]}", groups=EVERYWHERE).status == 404
    assert ask("", method="GET", path=f"{PATH}/nonsense", groups=EVERYWHERE).status == 404


# Deciding


def test_an_operator_confirms_a_candidate(ask: Ask, office: Office) -> None:
    body = {"document": str(office.ids[1]), "reason": "The goods came on that day."}

    answer = ask(body, path=f"{PATH}/{office.ids[2]}/confirm", groups=EVERYWHERE)

    assert (answer.status, answer.body["verdict"], office.links()) == (200, "confirmed", {(1, 2)})
    shown = ask("", method="GET", path=f"{PATH}/{office.ids[2]}", groups=EVERYWHERE).body
    ((decision,), state) = (shown["decisions"], shown["state"])
    assert (state, decision["verdict"], decision["reason"]) == ("decided", "confirmed", body["reason"])
    assert decision["by"] == "b1a2c3d4-0000-4000-8000-1234567890ab"


def test_a_decision_that_is_not_declared_as_json_is_read(ask: Ask, office: Office) -> None:
    body = json.dumps({"document": str(office.ids[0])}).encode()
    assert ask(body, path=f"{PATH}/{office.ids[2]}/confirm", groups=EVERYWHERE).status == 200


def test_who_comes_second_is_told_of_the_first(ask: Ask, office: Office) -> None:
    path, body = f"{PATH}/{office.ids[2]}", {"document": str(office.ids[1])}
    ask(body, path=f"{path}/confirm", groups=EVERYWHERE)

    late = {"documents": [str(office.ids[1])]}
    answer = ask(late, path=f"{path}/reject", groups=EVERYWHERE)
    assert (answer.status, office.links()) == (409, {(1, 2)})
    assert "confirmed this pair" in answer.body["detail"]
    assert ask(body, path=f"{path}/confirm", groups=EVERYWHERE).status == 409

    (decision,) = ask("", method="GET", path=path, groups=EVERYWHERE).body["decisions"]
    known = ask(late | {"supersedes": [decision["id"]]}, path=f"{path}/reject", groups=EVERYWHERE)
    assert (known.status, office.links()) == (200, {(0, 2)})


def test_all_candidates_can_be_rejected_at_once(ask: Ask, office: Office) -> None:
    body = {"documents": [str(office.ids[0]), str(office.ids[1])]}

    answer = ask(body, path=f"{PATH}/{office.ids[2]}/reject", groups=EVERYWHERE)

    assert (answer.status, len(answer.body["decided"]), office.links(), office.reviews()) == (200, 2, set(), {})


def test_clusters_are_merged_and_split(ask: Ask, office: Office) -> None:
    merged = {"documents": [str(office.ids[0]), str(office.ids[2])]}
    assert ask(merged, path=f"{PATH}/merge", groups=EVERYWHERE).status == 200
    assert office.clusters() == [0, 1, 0]
    assert ask(merged, path=f"{PATH}/merge", groups=EVERYWHERE).status == 409
    known = [one for (one,) in office.admin.execute("SELECT id FROM match_decision").fetchall()]
    alone = {"document": str(office.ids[2]), "supersedes": known}
    assert ask({"document": str(office.ids[2])}, path=f"{PATH}/split", groups=EVERYWHERE).status == 409
    assert ask(alone, path=f"{PATH}/split", groups=EVERYWHERE).status == 200
    assert office.clusters()[0] == 0 != office.clusters()[2]


@pytest.mark.parametrize("act", ["confirm", "reject"])
def test_who_may_not_decide_decides_nothing(ask: Ask, office: Office, act: str) -> None:
    body = {"document": str(office.ids[1])} if act == "confirm" else {"documents": [str(office.ids[1])]}
    path = f"{PATH}/{office.ids[2]}/{act}"

    assert ask(body, path=path, groups=f"[viewer tenant:{slug(office)}]").status == 403
    assert ask(body, path=path, groups="[operator tenant:other]").status == 404
    assert (office.links(), office.reviews()) == (set(), {2: [[0, 1]]})


def test_what_is_gone_or_not_in_question_is_told_apart(ask: Ask, office: Office) -> None:
    office.match(office.file(order("9", 300, seller={"name": "Far"})))
    path = f"{PATH}/{office.ids[2]}/confirm"

    assert ask({"document": str(uuid4())}, path=path, groups=EVERYWHERE).status == 404
    assert ask({"document": str(office.ids[3])}, path=path, groups=EVERYWHERE).status == 409
    assert ask({"document": str(office.ids[2])}, path=path, groups=EVERYWHERE).status == 409


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "wrong at document"),
        ({"document": "x"}, "wrong at document"),
        ({"document": str(uuid4()), "reason": ""}, "wrong at reason"),
        ({"document": str(uuid4()), "reason": "a\x00b"}, "wrong at reason"),
        ({"document": str(uuid4()), "supersedes": ["one"]}, "wrong at supersedes"),
        ({"document": str(uuid4()), "force": True}, "wrong at a field"),
    ],
)
def test_a_decision_that_cannot_be_read_is_refused_with_a_sentence(
    ask: Ask, office: Office, body: object, says: str
) -> None:
    answer = ask(body, path=f"{PATH}/{office.ids[2]}/confirm", groups=EVERYWHERE)

    assert (answer.status, says in answer.body["detail"]) == (422, True)


@pytest.mark.parametrize("body", ["", "{", "1", "null", b"\xff", '{"document": NaN}', "[" * 100_000])
def test_a_decision_that_is_no_json_is_refused(ask: Ask, office: Office, body: object) -> None:
    answer = ask(body, path=f"{PATH}/{office.ids[2]}/confirm", groups=EVERYWHERE)

    assert (answer.status, answer.body["detail"]) == (400, "The body must be a JSON object.")


# Differences


@pytest.fixture
def billed(database: Database, admin: Connection) -> Office:
    """A tenant whose invoice is 1.5 percent too high."""
    papers = [
        order(lines=[line("A-1", price="100.00")]),
        invoice(po_reference="4711", lines=[line("A-1", price="101.50")]),
    ]
    office = Office(database, admin, papers)
    office.match_all()
    compute(office)
    return office


def difference(office: Office, **changed: object) -> str:
    """The price, as the case's result tells of it."""
    ids = {"cluster": str(office.ids[0]), "document": str(office.ids[1])}
    found = {"code": "price_mismatch", "line": "1", "expected": "100.00", "actual": "101.5", "reason": "freight"}
    return json.dumps(ids | found | changed)


def said(ask: Ask, word: str, body: str, groups: str = EVERYWHERE) -> Answer:
    return ask(body, path=f"{PATH}/{word}", groups=groups)


def test_a_difference_is_accepted_with_the_figures_that_the_caller_saw(ask: Ask, billed: Office) -> None:
    answer = said(ask, "accept", difference(billed))
    assert (answer.status, answer.body["verdict"]) == (200, "accepted")
    assert answer.body["differences"][0].startswith("Invoice R-81, line 1: 'Bolt A-1' is billed at 101.50 EUR")
    (price,) = [one for one in compute(billed)["variances"] if one["code"] == "price_mismatch"]
    assert price["settled_by"].endswith(": freight.")


@pytest.mark.parametrize("word", ["accept", "dispute"])
def test_decision_about_a_difference_wakes_diagnostics(ask: Ask, queue: FakeSqs, billed: Office, word: str) -> None:
    assert said(ask, word, difference(billed)).status == 200

    assert list(queue.sent) == ["counterfoil-diagnostics"]
    assert rows(billed.admin, "outbox")[-1]["sent_at"] is not None


@pytest.mark.parametrize(
    "changed", [{"actual": "101.6"}, {"expected": "99"}, {"line": None}, {"code": "total_mismatch"}]
)
def test_other_figures_than_the_case_has_are_a_conflict(ask: Ask, billed: Office, changed: dict[str, object]) -> None:
    answer = said(ask, "accept", difference(billed, **changed))
    assert (answer.status, answer.body["detail"]) == (409, "The case has no such difference.")


def test_another_word_about_a_difference_takes_the_number_of_the_first(ask: Ask, billed: Office) -> None:
    said(ask, "accept", difference(billed))
    refused = said(ask, "dispute", difference(billed))
    assert refused.status == 409
    number = int(refused.body["detail"].partition("(decision ")[2].partition(")")[0])
    assert said(ask, "dispute", difference(billed, supersedes=[number])).body["verdict"] == "disputed"


def test_open_differences_of_a_cluster_are_accepted_together(ask: Ask, billed: Office) -> None:
    every = {"document": None, "code": None, "line": None, "expected": None, "actual": None}
    answer = said(ask, "accept", difference(billed, **every))
    assert (answer.status, len(answer.body["differences"])) == (200, 1)
    assert "there is no delivery note or receipt" in answer.body["open"][0]
    refused = said(ask, "dispute", difference(billed, **every))
    assert refused.status == 409
    assert said(ask, "dispute", difference(billed, **every, supersedes=None)).body["verdict"] == "disputed"


def test_only_an_operator_of_the_tenant_says_anything_of_its_differences(ask: Ask, billed: Office) -> None:
    assert said(ask, "accept", difference(billed), f"[viewer tenant:{slug(billed)}]").status == 403
    assert said(ask, "accept", difference(billed), "[operator tenant:other]").status == 404
    assert billed.admin.execute("SELECT count(*) FROM variance_decision").fetchone() == (0,)


@pytest.mark.parametrize(
    "changed",
    [{"code": "prices"}, {"actual": "NaN"}, {"actual": None}, {"actual": "1e999999"}, {"reason": "a\nb"}, {"more": 1}],
)
def test_what_names_no_difference_is_refused(ask: Ask, billed: Office, changed: dict[str, object]) -> None:
    answer = said(ask, "accept", difference(billed, **changed))
    assert answer.status == 422
    assert "\\x" not in answer.body["detail"]


def test_a_tenant_that_cannot_be_one_is_refused(ask: Ask, office: Office) -> None:
    assert office.ids
    assert listed(ask, tenant="\x00").status == 422
