"""The cases of the sample show each thing that can be wrong, and nothing besides it."""

import email
import email.policy
from datetime import UTC, datetime, timedelta
from functools import cache
from uuid import UUID

import pytest

from counterfoil.documents.einvoice.extract import extract_xml
from counterfoil.documents.three_way_match import Code, examine, read_document
from counterfoil.documents.three_way_match.model import Document
from tools.sample_generator.cases import INVOICES_IN_ONE_FILE, Case, Cases, Paper, generate_cases

ADDRESS = "rechnung@cases.example"
RECEIVED = datetime(2025, 6, 1, tzinfo=UTC)


@cache
def cases_of(seed: int) -> Cases:
    return generate_cases(seed, ADDRESS)


@cache
def files_of(seed: int) -> list[tuple[str, bytes]]:
    return cases_of(seed).files()


@pytest.fixture(params=[1, 2, 3])
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def cases(seed: int) -> Cases:
    return cases_of(seed)


def read(place: int, paper: Paper) -> Document:
    document = paper.document
    received_at = RECEIVED + timedelta(minutes=place)
    return read_document(UUID(int=place + 1), document.kind, received_at, document.structured_data)


def found_in(case: Case) -> set[tuple[str, str]]:
    """Number and code of what is wrong, where each paper is linked as matching would link it."""
    documents = [read(place, paper) for place, paper in enumerate(case.papers)]
    is_again = case.title == "billed twice"
    edges = [
        (one.id, other.id)
        for place, other in enumerate(documents)
        for one in documents[:place]
        if not (is_again and other is documents[-1]) or one is documents[-2]
    ]
    result = examine(documents, edges)
    return {(one.document.number, one.code.value) for one in result.variances if one.is_open}


def test_each_thing_that_can_be_wrong_is_shown(cases: Cases):
    shown = {code for case in cases.cases for paper in case.papers for code in paper.wrong}
    assert shown == {code.value for code in Code}


def test_what_is_wrong_is_what_the_truth_says_and_no_more(cases: Cases):
    for case in cases.cases:
        expected = {(paper.document.number, code) for paper in case.papers for code in paper.wrong}
        assert found_in(case) == expected, case.title


def test_xml_files_match_the_truth(seed: int, cases: Cases):
    truth = [paper.document.structured_data for case in cases.cases for paper in case.papers]
    *files, _bundle = files_of(seed)
    assert all(extract_xml(content).structured_data in truth for _, content in files)


def test_a_mail_has_the_papers_of_its_deal_attached(cases: Cases):
    mails = [email.message_from_bytes(content, policy=email.policy.default) for _, content in cases.mails()]
    by_mail = [case for case in cases.cases if case.by_mail]
    assert [len(list(mail.iter_attachments())) for mail in mails] == [len(case.papers) for case in by_mail]
    assert {mail["To"] for mail in mails} == {ADDRESS}
    assert len({mail["Message-ID"] for mail in mails}) == len(mails) >= 1


def test_bundled_invoices_are_in_no_other_file(seed: int, cases: Cases):
    numbers = [document.number for document in cases.bundle.documents]
    assert len(set(numbers)) == INVOICES_IN_ONE_FILE
    assert not {f"{number}.pdf" for number in numbers} & {name for name, _ in files_of(seed)}


def test_no_two_papers_have_one_name(cases: Cases):
    names = [paper.name for case in cases.cases for paper in case.papers]
    assert len(set(names)) == len(names)


def test_the_same_seed_makes_the_same_papers():
    assert generate_cases(1, ADDRESS).cases == cases_of(1).cases
    assert cases_of(1).cases != cases_of(2).cases
