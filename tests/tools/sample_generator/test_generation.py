"""Samples are reproducible, differ by seed and contain every scenario."""

import csv
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.tools.sample_generator.conftest import sample_of
from tools.sample_generator import Sample

COUNT_DIGESTS = """
import hashlib, json
from tools.sample_generator import generate

sample = generate(3)
content = hashlib.sha256(b"".join(file.content for file in sample.files)).hexdigest()

truth = json.dumps(sample.truth, sort_keys=True)

print(content, hashlib.sha256(truth.encode()).hexdigest(), len(sample.files))
"""

SITUATIONS = {
    "full chain",
    "order, delivery, invoice",
    "partial deliveries, several invoices",
    "partial deliveries, one invoice",
    "no order reference, names its delivery note",
    "no reference at all",
    "rejected goods, credit note",
    "same invoice number, two suppliers",
    "duplicate invoice",
    "order not in the set",
    "identical in both tenants",
    "partner only in the other tenant",
    "exact duplicate",
    "unreadable",
    "not read",
}


def test_same_seed_generates_same_bytes_in_every_process() -> None:
    outputs = set()
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": f"Etc/GMT-{len(hash_seed)}"}
        command = [sys.executable, "-c", COUNT_DIGESTS]
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        outputs.add(run.stdout)
    sample = sample_of(3)
    content = hashlib.sha256(b"".join(file.content for file in sample.files)).hexdigest()
    truth = hashlib.sha256(json.dumps(sample.truth, sort_keys=True).encode()).hexdigest()
    assert outputs == {f"{content} {truth} {len(sample.files)}\n"}


def test_different_seed_generates_different_companies_and_files() -> None:
    one, other = sample_of(1), sample_of(2)
    assert not {file.sha256 for file in one.files if file.truth.state == "succeeded"} & {
        file.sha256 for file in other.files if file.truth.state == "succeeded"
    }
    assert one.tenants != other.tenants


def test_number_of_files_differs_between_seeds() -> None:
    assert len({len(sample_of(seed).files) for seed in range(6)}) > 1


def test_sample_has_two_tenants_and_enough_documents(sample: Sample) -> None:
    assert sum(file.truth.state == "succeeded" for file in sample.files) >= 40
    assert len(sample.tenants) == 2


def test_sample_has_several_suppliers_countries_and_currencies(sample: Sample) -> None:
    suppliers: dict[str, set[str]] = {}
    currencies, countries = set(), set()
    for file in sample.files:
        data = file.truth.structured_data
        if data is None:
            continue
        seller = data.get("issuer") or data["supplier"]
        suppliers.setdefault(file.tenant, set()).add(seller["name"])
        countries.add(seller["country"])
        currencies.add(data.get("currency"))
    assert all(len(names) >= 5 for names in suppliers.values())
    assert currencies - {None} == {"EUR", "GBP", "CHF"}
    assert len(countries) >= 3


def test_every_scenario_occurs(sample: Sample) -> None:
    assert {file.truth.situation for file in sample.files} == SITUATIONS


def test_every_type_and_invoice_form_occurs(sample: Sample) -> None:
    types = {file.truth.type for file in sample.files}
    assert {"purchase_order", "order_confirmation", "delivery_note", "goods_receipt", "invoice", "credit_note"} <= types
    invoices = [file.content for file in sample.files if file.truth.type == "invoice"]
    assert any(content.startswith(b"%PDF") for content in invoices)
    assert any(b"<rsm:CrossIndustryInvoice" in content for content in invoices)
    assert any(b"schema:xsd:Invoice-2" in content for content in invoices)


def test_file_names_are_unique_per_tenant_ignoring_case(sample: Sample) -> None:
    names = Counter((file.tenant, file.name.casefold()) for file in sample.files)
    assert max(names.values()) == 1
    assert all("/" not in file.name and "\\" not in file.name for file in sample.files)


def test_file_names_contain_characters_escaped_in_urls(sample: Sample) -> None:
    letters = set("".join(file.name for file in sample.files))
    assert set(" üé€+%()") <= letters


def test_sample_is_written_with_ground_truth(one_sample: Sample, tmp_path: Path) -> None:
    one_sample.write(tmp_path)
    truth = json.loads((tmp_path / "truth.json").read_text(encoding="utf-8"))
    assert truth == json.loads(json.dumps(one_sample.truth))
    assert len(truth["files"]) == len(one_sample.files)
    for record in truth["files"]:
        content = (tmp_path / record["tenant"] / record["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == record["sha256"]


def test_labeled_set_contains_every_document_once(one_sample: Sample, tmp_path: Path) -> None:
    one_sample.write_labeled_set(tmp_path)
    documents = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text(encoding="utf-8").splitlines()]
    kept = [file for file in one_sample.files if file.truth.state in {"succeeded", "skipped"}]
    ids = [document["id"] for document in documents]
    assert sorted(ids) == sorted({file.id for file in kept})
    assert [document["received_at"] for document in documents] == sorted(d["received_at"] for d in documents)
    with (tmp_path / "clusters.csv").open(encoding="utf-8") as file:
        clusters = list(csv.DictReader(file))
    assert sorted(row["document"] for row in clusters) == sorted(ids)
    with (tmp_path / "edges.csv").open(encoding="utf-8") as file:
        edges = [(row["a"], row["b"]) for row in csv.DictReader(file)]
    assert len(set(edges)) == len(edges) == len(one_sample.links)
    assert {end for edge in edges for end in edge} <= set(ids)
