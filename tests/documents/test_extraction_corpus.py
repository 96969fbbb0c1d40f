"""Extraction from real e-invoices agrees with an independent reader.

The corpora are expected next to the repository. If they are missing, the tests are skipped.
"""

import csv
import json
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from counterfoil.documents.einvoice.extract import extract_xml
from counterfoil.documents.extraction import extract
from counterfoil.documents.structured import MODELS, ROLES, DocumentType, ExtractionResult
from tests.documents.reference_reader import Line, ReferenceInvoice, read_reference, xml_of_pdf

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
FILES = sorted(
    file
    for folder in ("xrechnung", "zugferd")
    for suffix in ("xml", "pdf")
    for file in (DATA / folder).rglob(f"*.{suffix}")
)
CHAIN = DATA / "ubl-oasis-chain"

NOT_READ = {
    "RE-E-974-Hetzner_2016-01-19_R0005532486.pdf": "no embedded e-invoice",  # another test extracts it from its pages
    "IT01234567890_FPR03.xml": "2 invoices",
}
KNOWN = {
    ("UBL-Invoice-2.1-Example.xml", "issuer.iban"),  # the payee's account, not the seller's
    ("UBL-DebitNote-2.5-Example.xml", "issuer.endpoint_id"),  # an identifier, not an electronic address
    ("UBL-DebitNote-2.5-Example.xml", "recipient.endpoint_id"),
}
"""Pairs of file and field for which the chain's reference data is known to differ."""
needs_corpus = pytest.mark.skipif(not FILES, reason="the corpora are not next to the repository")


@needs_corpus
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_real_invoice_matches_the_independent_reader(file: Path):
    content = file.read_bytes()
    extraction = extract_xml(content)
    if file.name in NOT_READ:
        assert extraction.structured_data is None
        assert NOT_READ[file.name] in (extraction.reason or "")
        return
    xml = xml_of_pdf(content) if file.suffix == ".pdf" else content
    assert xml is not None
    assert differences(file.name, asdict(as_reference(extraction)), asdict(read_reference(xml))) == []


@needs_corpus
@pytest.mark.parametrize("file", [file for file in FILES if file.suffix == ".pdf"], ids=lambda file: file.name)
def test_embedded_xml_can_be_ignored(file: Path):
    extraction = extract(file.read_bytes(), text_only=True)
    assert extraction.method in {"text", "none"}
    assert (extraction.structured_data is None) == (extraction.method == "none") == (extraction.reason is not None)
    assert (extraction.type, bool(extraction.evidence)) in {
        (DocumentType.INVOICE, True),
        (DocumentType.CREDIT_NOTE, True),
        (None, False),
    }


@needs_corpus
def test_real_invoice_is_read_from_its_pages():
    (file,) = (file for file in FILES if file.name.startswith("RE-E-974-Hetzner"))
    extraction = extract(file.read_bytes())
    data = extraction.structured_data or {}
    assert (extraction.type, extraction.method) == ("invoice", "text")
    assert (data["invoice_number"], data["invoice_date"], data["currency"]) == ("R0005532486", "2016-01-19", "EUR")
    assert (data["total_net"], data["total_tax"], data["total_gross"]) == ("87.39", "16.61", "104.00")
    assert data["issuer"]["vat_id"] == "DE812871812"
    assert data["recipient"]["city"] == "Frankfurt"
    assert len(data["line_items"]) == 8


@pytest.mark.skipif(not CHAIN.exists(), reason="the chain is not next to the repository")
def test_procurement_chain_matches_its_reference():
    reference = {line["id"]: line for line in map(json.loads, (CHAIN / "documents.jsonl").read_text().splitlines())}
    with (CHAIN / "sources.csv").open() as table:
        sources = list(csv.DictReader(table))
    result: list[Difference] = []
    for source in sources:
        expected = reference[source["document"]]
        extraction = extract((CHAIN / "xml" / source["file"]).read_bytes())
        read = (extraction.structured_data or {}) | {"type": extraction.type}
        result += differences(source["file"], read, expected["structured_data"] | {"type": expected["type"]})
    assert [difference for difference in result if (difference.file, difference.field) not in KNOWN] == []
    assert {(difference.file, difference.field) for difference in result} == KNOWN


@pytest.mark.parametrize("name", ["linked-office", "linked-hostile", "ubl-oasis-chain"])
def test_validation_keeps_every_labeled_field(name: str):
    documents = DATA / name / "documents.jsonl"
    if not documents.exists():
        pytest.skip("the labeled sets are not next to the repository")
    for line in map(json.loads, documents.read_text().splitlines()):
        record = MODELS[DocumentType(line["type"])].model_validate(line["structured_data"])
        assert differences(f"{name} {line['id']}", record.data(), line["structured_data"]) == []


def test_difference_names_file_field_and_both_values() -> None:
    collected, expected = (
        {"lines": [{"net": "1"}, {"net": "2"}]},
        {"lines": [{"net": "1"}, {"net": "3"}], "number": "R-1"},
    )

    assert [str(difference) for difference in differences("a.xml", collected, expected)] == [
        "a.xml: lines.1.net: expected '3', seen '2'",
        "a.xml: number: expected 'R-1', seen None",
    ]


def as_reference(extraction: ExtractionResult) -> ReferenceInvoice:
    """Reduce an extraction to the fields of the independent reader.

    The independent reader does not return document-level charges as line items.
    """
    assert extraction.type is not None
    data, roles = extraction.structured_data or {}, ROLES[extraction.type]
    lines = [line for line in data.get("line_items", []) if set(line) != {"description", "net_amount"}]
    return ReferenceInvoice(
        number=data[roles.number],
        date=data.get(roles.date),
        issuer=data.get(roles.seller, {}).get("name"),
        net=decimal(data.get("total_net")),
        tax=decimal(data.get("total_tax")),
        gross=decimal(data.get("total_gross")),
        lines=[Line(decimal(line.get("quantity")), decimal(line.get("net_amount"))) for line in lines],
    )


def decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


@dataclass(frozen=True)
class Difference:
    """A field whose value differs from the expected value."""

    file: str
    field: str
    expected: Any
    seen: Any

    def __str__(self) -> str:
        """Return the line that a failing test prints."""
        return f"{self.file}: {self.field}: expected {self.expected!r}, seen {self.seen!r}"

    __repr__ = __str__


def differences(file: str, history_of: Any, expected: Any, path: str = "") -> list[Difference]:
    """Compare two nested structures field by field. Return all differences."""
    if isinstance(history_of, dict) and isinstance(expected, dict):
        fields = {name: f"{path}.{name}".strip(".") for name in sorted({*history_of, *expected})}
        pairs = [(history_of.get(name), expected.get(name), field) for name, field in fields.items()]
    elif isinstance(history_of, list) and isinstance(expected, list) and len(history_of) == len(expected):
        pairs = [(*pair, f"{path}.{index}") for index, pair in enumerate(zip(history_of, expected, strict=True))]
    else:
        expected = expected.strip() if isinstance(expected, str) else expected
        return [] if history_of == expected else [Difference(file, path, expected, history_of)]
    return [difference for own, foreign, field in pairs for difference in differences(file, own, foreign, field)]
