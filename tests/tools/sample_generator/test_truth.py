"""A sample's ground truth is consistent with its files."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tools.sample_generator import Sample, SampleFile


def _by_name(sample: Sample) -> dict[tuple[str, str], SampleFile]:
    return {(file.tenant, file.name): file for file in sample.files}


def _files_of_scenario(sample: Sample, situation: str, kind: str) -> list[SampleFile]:
    return [file for file in sample.files if file.truth.situation == situation and file.truth.type == kind]


def _data(file: SampleFile) -> Any:
    assert file.truth.structured_data is not None
    return file.truth.structured_data


def test_only_succeeded_documents_have_cluster_and_data(sample: Sample) -> None:
    for file in sample.files:
        succeeds = file.truth.state == "succeeded"
        assert (file.truth.cluster is not None) is succeeds
        assert (file.truth.structured_data is not None) is succeeds
        assert file.truth.state in {"succeeded", "skipped", "failed", "duplicate"}
        assert file.truth.reason


def test_state_counts_sum_to_number_of_files(sample: Sample) -> None:
    assert sum(sample.truth["counts"].values()) == len(sample.files)
    assert set(sample.truth["counts"]) == {"succeeded", "skipped", "failed", "duplicate"}


def test_every_document_is_in_exactly_one_cluster(sample: Sample) -> None:
    for tenant in sample.tenants:
        members = Counter(name for cluster in sample.clusters(tenant) for name in cluster)
        documents = [file.name for file in sample.files if file.tenant == tenant and file.truth.state == "succeeded"]
        assert sorted(members) == sorted(documents)
        assert set(members.values()) == {1}


def test_clusters_are_connected_components_of_links(sample: Sample) -> None:
    for tenant in sample.tenants:
        neighbors: dict[str, set[str]] = {name: set() for cluster in sample.clusters(tenant) for name in cluster}
        for link in sample.links:
            if link.tenant == tenant:
                neighbors[link.a].add(link.b)
                neighbors[link.b].add(link.a)
        assert sorted(_components(neighbors)) == sample.clusters(tenant)


def _components(neighbors: dict[str, set[str]]) -> Iterator[list[str]]:
    left = set(neighbors)
    while left:
        component, frontier = set(), [min(left)]
        while frontier:
            name = frontier.pop()
            if name not in component:
                component.add(name)
                frontier += neighbors[name]
        left -= component
        yield sorted(component)


def test_only_stated_links_have_a_reference_number(sample: Sample) -> None:
    files = _by_name(sample)
    for link in sample.links:
        a, b = files[link.tenant, link.a], files[link.tenant, link.b]
        names = {value for field, value in _data(a).items() if field.endswith("_reference")}
        if link.kind == "duplicate-original":
            assert (a.truth.number, _data(a)["issuer"]) == (b.truth.number, _data(b)["issuer"])
        else:
            assert (b.truth.number in names) is link.stated


def test_link_kind_matches_document_types(sample: Sample) -> None:
    files = _by_name(sample)
    short = {"receipt": "goods_receipt", "order": "purchase_order", "delivery": "delivery_note",
             "confirmation": "order_confirmation", "duplicate": "invoice", "original": "invoice"}  # fmt: skip
    for link in sample.links:
        types = [files[link.tenant, name].truth.type for name in (link.a, link.b)]
        assert types == [short.get(word, word) for word in link.kind.split("-")]


def test_references_resolve_only_within_their_cluster(sample: Sample) -> None:
    kinds = {
        "po_reference": "purchase_order",
        "delivery_note_reference": "delivery_note",
        "invoice_reference": "invoice",
    }
    for file in sample.files:
        for field, kind in kinds.items():
            number = (file.truth.structured_data or {}).get(field)
            bearers = {
                other.truth.cluster
                for other in sample.files
                if (other.tenant, other.truth.type, other.truth.number) == (file.tenant, kind, number)
                and other.truth.state == "succeeded"
                and (kind != "invoice" or _data(other)["issuer"]["vat_id"] == _data(file)["issuer"]["vat_id"])
            }
            assert number is None or bearers <= {file.truth.cluster}


def test_invoice_for_unknown_order_has_own_cluster(sample: Sample) -> None:
    numbers = {(file.tenant, file.truth.number) for file in sample.files if file.truth.type == "purchase_order"}
    for invoice in _files_of_scenario(sample, "order not in the set", "invoice"):
        if invoice.truth.state == "succeeded":
            assert (invoice.tenant, _data(invoice)["po_reference"]) not in numbers
            assert [invoice.name] in sample.clusters(invoice.tenant)


def test_invoice_without_reference_fits_exactly_one_order(sample: Sample) -> None:
    found = [f for f in _files_of_scenario(sample, "no reference at all", "invoice") if f.truth.state == "succeeded"]
    assert found
    for invoice in found:
        assert not [field for field in _data(invoice) if field.endswith("_reference")]
        articles = {line["article_number"] for line in _data(invoice)["line_items"]}
        sharing = [
            file
            for file in sample.files
            if (file.tenant, file.truth.type, file.truth.state) == (invoice.tenant, "purchase_order", "succeeded")
            and _data(file)["supplier"]["vat_id"] == _data(invoice)["issuer"]["vat_id"]
            and articles & {line["article_number"] for line in _data(file)["line_items"]}
        ]
        assert [order.truth.cluster for order in sharing] == [invoice.truth.cluster]
        (order,) = sharing
        for field in ("total_net", "total_gross", "currency"):
            assert _data(order)[field] == _data(invoice)[field]
        fields = ("article_number", "quantity", "unit_price", "net_amount")
        assert [[line[field] for field in fields] for line in _data(order)["line_items"]] == [
            [line[field] for field in fields] for line in _data(invoice)["line_items"]
        ]


def test_invoice_may_reference_only_a_delivery_note(sample: Sample) -> None:
    found = _files_of_scenario(sample, "no order reference, names its delivery note", "invoice")
    assert any("po_reference" not in _data(f) for f in found if f.truth.state == "succeeded")
    for file in found:
        if file.truth.state == "succeeded":
            assert {field for field in _data(file) if field.endswith("_reference")} == {"delivery_note_reference"}


def test_partial_deliveries_and_invoices_sum_to_ordered_quantities(sample: Sample) -> None:
    for situation in ("partial deliveries, several invoices", "partial deliveries, one invoice"):
        orders = [o for o in _files_of_scenario(sample, situation, "purchase_order") if o.truth.state == "succeeded"]
        assert orders
        for order in orders:
            ordered = {line["position"]: float(line["quantity"]) for line in _data(order)["line_items"]}
            for kind in ("delivery_note", "invoice"):
                documents = [
                    f for f in _files_of_scenario(sample, situation, kind) if f.truth.cluster == order.truth.cluster
                ]
                total: Counter[str] = Counter()
                for document in documents:
                    for line in _data(document)["line_items"]:
                        if "po_line" in line:
                            total[line["po_line"]] += float(line["quantity"])  # type: ignore[assignment]
                assert dict(total) == ordered
                assert kind == "invoice" or len(documents) >= 2


def test_duplicate_file_copies_an_earlier_document(sample: Sample) -> None:
    files = _by_name(sample)
    places = {key: place for place, key in enumerate(files)}
    again = [file for file in sample.files if file.truth.state == "duplicate"]
    assert again
    for file in again:
        assert file.truth.same_as is not None
        original = files[file.tenant, file.truth.same_as]
        assert original.content == file.content
        assert original.truth.state == "succeeded"
        assert places[file.tenant, original.name] < places[file.tenant, file.name]


def test_non_duplicate_files_are_unique_per_tenant(sample: Sample) -> None:
    kept = Counter((file.tenant, file.sha256) for file in sample.files if file.truth.state != "duplicate")
    assert max(kept.values()) == 1


def test_duplicate_invoice_is_linked_only_to_its_original(sample: Sample) -> None:
    files = _by_name(sample)
    places = {key: place for place, key in enumerate(files)}
    duplicates = [link for link in sample.links if link.kind == "duplicate-original"]
    assert len(duplicates) >= 2
    for link in duplicates:
        copy, original = files[link.tenant, link.a], files[link.tenant, link.b]
        assert copy.truth.structured_data == original.truth.structured_data
        assert copy.content != original.content
        assert copy.truth.received_at > original.truth.received_at
        assert places[link.tenant, link.a] > places[link.tenant, link.b]
        others = [other for other in sample.links if other.tenant == link.tenant and link.a in (other.a, other.b)]
        assert others == [link]


def test_shared_invoice_number_does_not_link_suppliers(sample: Sample) -> None:
    found = [f for f in _files_of_scenario(sample, "same invoice number, two suppliers", "invoice")
             if f.truth.state == "succeeded"]  # fmt: skip
    assert len({file.truth.number for file in found}) == 1
    assert len({_data(file)["issuer"]["vat_id"] for file in found}) == 2
    assert len({file.truth.cluster for file in found}) == 2
    (note,) = _files_of_scenario(sample, "same invoice number, two suppliers", "credit_note")
    (credited,) = [f for f in found if f.truth.cluster == note.truth.cluster]
    assert _data(note)["issuer"]["vat_id"] == _data(credited)["issuer"]["vat_id"]


def test_identical_files_of_two_tenants_have_separate_clusters(sample: Sample) -> None:
    for situation in ("identical in both tenants", "partner only in the other tenant"):
        copies = [f for f in sample.files if f.truth.situation == situation and f.truth.state == "succeeded"]
        assert copies
        for copy in copies:
            (other,) = [f for f in sample.files if f.sha256 == copy.sha256 and f.tenant != copy.tenant
                       and f.truth.state == "succeeded"]  # fmt: skip
            assert other.truth.cluster != copy.truth.cluster
            assert other.truth.structured_data == copy.truth.structured_data


def test_rejected_goods_are_credited(sample: Sample) -> None:
    (receipt,) = _files_of_scenario(sample, "rejected goods, credit note", "goods_receipt")
    (note,) = _files_of_scenario(sample, "rejected goods, credit note", "credit_note")
    rejected = _data(receipt)["line_items"][0]
    credited = _data(note)["line_items"][0]
    assert float(rejected["rejected_quantity"]) == float(credited["quantity"]) <= float(rejected["quantity"])
    assert rejected["article_number"] == credited["article_number"]
