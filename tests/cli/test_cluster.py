"""One cluster on the command line: its status, then the evidence."""

import json
from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from cli.commands.clusters import app
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from tests.documents.matching.office import Office
from tests.documents.matching.papers import Paper, contract, delivery, invoice, line, order
from tests.documents.test_differences import compute

CASE = [
    order(contract_reference="RV-60"),
    delivery(po_reference="4711", lines=[line("A-100"), line("A-200", "4", "12.50")]),
    invoice(
        po_reference="4711",
        delivery_note_reference="LS-500",
        lines=[line("A-100", "10", "4.90"), line("A-200", "5", "12.50")],
    ),
    contract(),
]


@pytest.fixture
def office(api: None, database: Database, admin: Connection) -> Office:
    office = Office(database, admin, CASE)
    admin.execute("UPDATE tenant SET slug = 'acme'")
    office.match_all()
    return office


def shown(office: Office, position: int = 0, width: int = 100) -> list[str]:
    page = call(str(office.ids[position]), width=width)
    return [line.rstrip() for line in page.splitlines() if "Decide:" not in line]


def call(*words: str, width: int = 100) -> str:
    result = CliRunner().invoke(app, ["show", *words], env={"COLUMNS": str(width)})
    if result.exception is not None:
        raise result.exception
    return result.output


def find(lines: Sequence[str], *words: str) -> str:
    """The one line that has all of these words."""
    (found,) = [line for line in lines if all(word in line.split() for word in words)]
    return found


def test_the_outcome_comes_first_with_its_reasons(office: Office):
    compute(office)
    lines = shown(office)
    assert lines[0].split()[-2:] == ["acme", "exception"]
    assert lines[1].startswith("  Invoice R-81 bills 5 pieces of 'Bolt A-200'")


def test_the_quantities_of_a_line_stand_side_by_side(office: Office):
    compute(office)
    lines = shown(office)
    assert find(lines, "line", "price").split() == [
        *("line", "article", "unit", "ordered", "delivered", "billed", "price", "billed", "at")
    ]
    assert find(lines, "A-100", "4.20").split()[-7:] == ["10", "10", "10", "4.20", "EUR", "4.90", "EUR"]
    assert [word for word in find(lines, "A-200", "12.50").split() if word.isdigit()][-3:] == ["5", "4", "5"]


def test_each_variance_has_its_sentence_and_each_link_its_reason(office: Office):
    compute(office)
    text = "\n".join(shown(office, width=200))
    for code in ("price mismatch", "over billed quantity", "under delivered"):
        assert f"✗ {code}" in text
    assert "invoice R-81 ↔ purchase order 4711  high, rules" in text
    assert "Named by its number." in text
    assert "purchase order 4711 ↔ contract RV-60" in text


def test_missing_facts_are_named(office: Office, admin: Connection):
    assert not any("not read" in line for line in shown(office))
    admin.execute("UPDATE document SET structured_data = structured_data - 'issuer' WHERE id = %s", [office.ids[2]])

    heading, row = find(shown(office), "not", "read"), find(shown(office), "invoice", "2026-03-12")

    assert row[heading.index("not read") :].startswith("supplier ")


def test_what_waits_for_a_paper_is_told_apart_from_what_is_wrong(office: Office):
    compute(office)
    cluster = office.ids[0]
    office.admin.execute(
        "UPDATE cluster_diagnostics SET result = jsonb_set(result, '{variances,0,awaits}', %s::jsonb) WHERE id = %s",
        ['"It names delivery L2, which is not here."', cluster],
    )
    page = " ".join(" ".join(shown(office)).split())
    assert "… " in page
    assert page.count("It names delivery L2, which is not here.") == 1


def test_no_text_of_a_document_gives_the_terminal_a_command(office: Office):
    """A name that clears the screen, or writes to the clipboard."""
    office.admin.execute("UPDATE document SET file_name = %s", ["a\x1b[2J\x1b]52;c;eA==\x07\x9b2Jb.pdf"])
    compute(office)
    page = "\n".join(shown(office))
    assert [letter for letter in page if letter != "\n" and not letter.isprintable()] == []
    assert "\N{REPLACEMENT CHARACTER}" in page


def test_no_line_is_wider_than_a_terminal(office: Office):
    compute(office)
    assert max(map(len, shown(office))) <= 100


def test_any_document_of_a_cluster_shows_it(office: Office):
    compute(office)
    assert shown(office, 0) == shown(office, 1) == shown(office, 2)


def test_a_cluster_that_changes_says_so(office: Office):
    compute(office)
    office.admin.execute("UPDATE cluster_diagnostics SET status = 'pending'")
    assert "  It is being recomputed." in shown(office)


def test_a_cluster_that_nothing_was_computed_of_shows_its_documents(office: Office):
    lines = shown(office)
    assert lines[1] == "  It has not been computed."
    assert find(lines, "delivery", "2026-03-09").split()[1:4] == ["delivery", "note", "LS-500"]


def test_json_is_the_answer_of_the_api(office: Office):
    compute(office)
    found = json.loads(call(str(office.ids[1]), "--json"))
    assert found["id"] == str(office.ids[0])
    assert {one["number"] for one in (*found["documents"], *found["contracts"])} == {"4711", "LS-500", "R-81", "RV-60"}
    assert len(found["edges"]) == 4
    assert found["comparison"]["outcome"] == "exception"


def test_show_refuses_a_document_before_its_matching(office: Office):
    papers: list[Paper] = [order("9000", 300)]
    position = office.file(papers[0])
    with pytest.raises(UsageError, match="has no cluster, because it has not been matched"):
        call(str(office.ids[position]))


@pytest.mark.parametrize("text", ["zzzz", "abc", "ffffffff"])
def test_unknown_id_is_refused(office: Office, text: str):
    with pytest.raises(UsageError, match=f"whose id ends with '{text}'"):
        call(text)


def test_end_of_an_id_must_name_one_document(office: Office):
    with pytest.raises(UsageError, match="More than one document's id ends with"):
        call(str(office.ids[0])[-4:])
