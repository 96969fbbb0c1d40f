"""Sample cases have exactly the expected variances and cover every variance code."""

import email
import email.policy
from datetime import UTC, datetime, timedelta
from functools import cache
from uuid import UUID

import pytest

from counterfoil.documents.einvoice.extract import extract_xml
from counterfoil.documents.three_way_match import VarianceCode, find_variances, read_document
from counterfoil.documents.three_way_match.model import Document
from tools.sample_generator.cases import INVOICES_IN_ONE_FILE, Case, CaseDocument, Cases, generate_cases

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


def read(place: int, item: CaseDocument) -> Document:
    document = item.document
    received_at = RECEIVED + timedelta(minutes=place)
    return read_document(UUID(int=place + 1), document.kind, received_at, document.structured_data)


def open_variances(case: Case) -> set[tuple[str, str]]:
    """Return the document number and code of each open variance in a case."""
    documents = [read(place, item) for place, item in enumerate(case.documents)]
    is_again = case.title == "billed twice"
    edges = [
        (one.id, other.id)
        for place, other in enumerate(documents)
        for one in documents[:place]
        if not (is_again and other is documents[-1]) or one is documents[-2]
    ]
    result = find_variances(documents, edges)
    return {(one.document.number, one.code.value) for one in result.variances if one.is_open}


def test_cases_cover_every_variance_code(cases: Cases):
    shown = {code for case in cases.cases for item in case.documents for code in item.codes}
    assert shown == {code.value for code in VarianceCode}


def test_cases_have_exactly_the_expected_variances(cases: Cases):
    for case in cases.cases:
        expected = {(item.document.number, code) for item in case.documents for code in item.codes}
        assert open_variances(case) == expected, case.title


def test_xml_files_match_ground_truth(seed: int, cases: Cases):
    truth = [item.document.structured_data for case in cases.cases for item in case.documents]
    *files, _bundle = files_of(seed)
    assert all(extract_xml(content).structured_data in truth for _, content in files)


def test_mail_attaches_all_documents_of_its_case(cases: Cases):
    mails = [email.message_from_bytes(content, policy=email.policy.default) for _, content in cases.mails()]
    by_mail = [case for case in cases.cases if case.by_mail]
    assert [len(list(mail.iter_attachments())) for mail in mails] == [len(case.documents) for case in by_mail]
    assert {mail["To"] for mail in mails} == {ADDRESS}
    assert len({mail["Message-ID"] for mail in mails}) == len(mails) >= 1


def test_bundled_invoices_are_in_no_other_file(seed: int, cases: Cases):
    numbers = [document.number for document in cases.bundle.documents]
    assert len(set(numbers)) == INVOICES_IN_ONE_FILE
    assert not {f"{number}.pdf" for number in numbers} & {name for name, _ in files_of(seed)}


def test_document_names_are_unique(cases: Cases):
    names = [item.name for case in cases.cases for item in case.documents]
    assert len(set(names)) == len(names)


def test_seed_determines_documents():
    assert generate_cases(1, ADDRESS).cases == cases_of(1).cases
    assert cases_of(1).cases != cases_of(2).cases
