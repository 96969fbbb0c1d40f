"""Generated documents are valid: arithmetic, check digits and extractable files."""

import io
from dataclasses import replace
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import Any, cast

import pypdf
import pypdfium2  # type: ignore[import-untyped]
import pytest
from stdnum import get_cc_module, iban
from stdnum.ch import vat as swiss_vat

from counterfoil.documents.extraction import extract
from counterfoil.errors import InvalidDocumentError
from tools.sample_generator import Sample, SampleFile, unreadable_files
from tools.sample_generator.catalog import PRODUCT_LINES
from tools.sample_generator.companies import CompanyRegistry
from tools.sample_generator.model import Document, Kind
from tools.sample_generator.numbers import Numbers
from tools.sample_generator.pdf import write_page
from tools.sample_generator.trading import PurchaseContext, all_of, bill, place_order, price_list

CENT = Decimal("0.01")


def _extracted_files(sample: Sample) -> list[tuple[SampleFile, Any]]:
    return [(file, file.truth.structured_data) for file in sample.files if file.truth.state == "succeeded"]


def _parties(sample: Sample) -> list[dict[str, str]]:
    sides = ("issuer", "recipient", "supplier", "buyer")
    return [data[side] for _, data in _extracted_files(sample) for side in sides if side in data]


@pytest.fixture
def invoice() -> Document:
    """An invoice from a German supplier to a German buyer."""
    rng = Random(1)
    registry = CompanyRegistry(rng)
    product_line = PRODUCT_LINES[0]
    supplier = price_list(rng, registry.supplier(product_line), product_line, buyer_numbers=True)
    context = PurchaseContext(rng, Numbers(rng), registry.buyer("DE"), supplier)
    order = place_order(context, date(2025, 3, 3), 5)
    return bill(context, order, all_of(order), date(2025, 3, 20), {"po_reference": order.number})


def test_line_amounts_and_totals_are_consistent(sample: Sample) -> None:
    priced = 0
    for file, data in _extracted_files(sample):
        if file.truth.type in {"delivery_note", "goods_receipt"}:
            assert not [line for line in data["line_items"] if "unit_price" in line or "net_amount" in line]
            continue
        priced += 1
        bases: dict[str, Decimal] = {}
        for line in data["line_items"]:
            basis = Decimal(line.get("price_basis_quantity", "1"))
            exact = Decimal(line["quantity"]) * Decimal(line["unit_price"]) / basis
            assert Decimal(line["net_amount"]) == exact.quantize(CENT, ROUND_HALF_UP)
            bases[line["tax_rate"]] = bases.get(line["tax_rate"], Decimal(0)) + Decimal(line["net_amount"])
        tax = sum((base * Decimal(rate) / 100).quantize(CENT, ROUND_HALF_UP) for rate, base in bases.items())
        assert Decimal(data["total_net"]) == sum(bases.values())
        assert Decimal(data["total_tax"]) == tax
        assert Decimal(data["total_gross"]) == sum(bases.values()) + tax
    assert priced > 20


def test_vat_ids_are_valid_in_their_country(sample: Sample) -> None:
    checked = 0
    for party in _parties(sample):
        if "vat_id" not in party:
            continue
        checked += 1
        country, number = party["country"], party["vat_id"]
        if country == "CH":
            assert swiss_vat.is_valid(number)
        else:
            assert number.startswith(country)
            module = get_cc_module(country.lower(), "vat")
            assert module is not None
            assert module.is_valid(number)
    assert checked > 40


def test_ibans_are_valid_in_their_country(sample: Sample) -> None:
    stated = [(party["iban"], party["country"]) for party in _parties(sample) if "iban" in party]
    assert stated
    assert all(number.startswith(country) and iban.is_valid(number) for number, country in stated)


def test_only_domestic_sales_are_taxed(sample: Sample) -> None:
    for file, data in _extracted_files(sample):
        if file.truth.type == "invoice":
            domestic = data["issuer"]["country"] == data["recipient"]["country"]
            rates = {Decimal(line["tax_rate"]) for line in data["line_items"]}
            assert domestic or rates == {Decimal(0)}
            assert not domestic or data["issuer"]["country"] == "GB" or min(rates) > 0


def test_documents_are_in_chronological_order(sample: Sample) -> None:
    dates = {"purchase_order": "order_date", "delivery_note": "delivery_date", "invoice": "invoice_date"}
    ordered = {
        file.truth.cluster: data["order_date"]
        for file, data in _extracted_files(sample)
        if file.truth.type == "purchase_order"
    }
    for file, data in _extracted_files(sample):
        if file.truth.type in dates and file.truth.cluster in ordered:
            day = data[dates[file.truth.type]]
            assert ordered[file.truth.cluster] <= day
            assert date.fromisoformat(day).weekday() < 5
        assert file.truth.received_at.date().isoformat() >= min(v for k, v in data.items() if k.endswith("_date"))


def test_extraction_equals_ground_truth(sample: Sample) -> None:
    for file, data in _extracted_files(sample):
        extraction = extract(file.content)
        assert extraction.type == file.truth.type
        assert extraction.structured_data == data, file.name
        assert extraction.warnings == ()
        assert extraction.method == ("embedded-xml" if file.name.endswith(".pdf") else "xml")


def test_extraction_rejects_failed_files_and_explains_skipped_files(sample: Sample) -> None:
    for file in sample.files:
        if file.truth.state == "failed":
            with pytest.raises(InvalidDocumentError):
                extract(file.content)
        elif file.truth.state == "skipped":
            extraction = extract(file.content)
            assert extraction.structured_data is None
            assert extraction.type == file.truth.type
            assert extraction.reason


def test_hybrid_pdf_has_xml_alternative_and_readable_page(sample: Sample) -> None:
    hybrids = [(file, data) for file, data in _extracted_files(sample) if file.name.endswith(".pdf")]
    assert len(hybrids) >= 4
    for file, data in hybrids:
        reader = pypdf.PdfReader(io.BytesIO(file.content))
        assert list(reader.attachments) == ["factur-x.xml"]
        associated = cast("list[pypdf.generic.IndirectObject]", reader.root_object["/AF"])
        assert [cast("dict[str, str]", one.get_object())["/AFRelationship"] for one in associated] == ["/Alternative"]
        page = pypdfium2.PdfDocument(file.content)[0]
        text = page.get_textpage().get_text_range()
        assert file.truth.number in text
        assert data.get("issuer")["name"] in text
        assert data["line_items"][0]["description"][:20] in text
        assert ("€" if data["currency"] == "EUR" else {"GBP": "£", "CHF": "CHF"}[data["currency"]]) in text


def test_page_shows_umlauts_accents_and_euro_sign(invoice: Document) -> None:
    line = replace(invoice.lines[0], description="Größe Ø 12, für Élysée, ½ €")
    text = pypdfium2.PdfDocument(write_page(replace(invoice, lines=(line,))))[0].get_textpage().get_text_range()
    assert "Größe Ø 12, für Élysée, ½ €" in text


def test_long_invoice_continues_with_repeated_table_header(invoice: Document) -> None:
    pages = pypdfium2.PdfDocument(write_page(replace(invoice, lines=invoice.lines * 8)))
    texts = [page.get_textpage().get_text_range() for page in pages]
    assert len(texts) == 2
    assert all("Bezeichnung" in text for text in texts)
    assert "Gesamtbetrag" in texts[1]


def test_encrypted_pdf_opens_only_with_password(invoice: Document) -> None:
    content = write_page(invoice, password="geheim")
    with pytest.raises(pypdfium2.PdfiumError):
        pypdfium2.PdfDocument(content)
    assert len(pypdfium2.PdfDocument(content, password="geheim")) == 1


def test_misencoded_file_differs_only_in_its_encoding(invoice: Document) -> None:
    content = unreadable_files.xml_in_wrong_encoding(invoice)
    with pytest.raises(UnicodeDecodeError):
        content.decode()
    assert extract(content.decode("latin-1").encode()).structured_data is not None


def test_totals_require_prices(invoice: Document) -> None:
    bare = tuple(replace(line, unit_price=None, tax=None) for line in invoice.lines)
    with pytest.raises(ValueError, match="delivery_note has no prices"):
        _ = replace(invoice, kind=Kind.DELIVERY_NOTE, lines=bare).totals
