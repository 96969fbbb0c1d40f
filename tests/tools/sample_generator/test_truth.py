"""The truth of a sample is consistent, and says of every file one thing that can be told from the files."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tools.sample_generator import Sample, SampleFile


def _by_name(sample: Sample) -> dict[tuple[str, str], SampleFile]:
    return {(file.tenant, file.name): file for file in sample.files}


def _in_situation(sample: Sample, situation: str, kind: str) -> list[SampleFile]:
    return [file for file in sample.files if file.truth.situation == situation and file.truth.type == kind]


def _data(file: SampleFile) -> Any:
    assert file.truth.structured_data is not None
    return file.truth.structured_data


def test_only_documents_that_succeed_have_a_cluster_a_number_and_data(sample: Sample) -> None:
    for file in sample.files:
        succeeds = file.truth.state == "succeeded"
        assert (file.truth.cluster is not None) is succeeds
        assert (file.truth.structured_data is not None) is succeeds
        assert file.truth.state in {"succeeded", "skipped", "failed", "seen-again"}
        assert file.truth.reason


def test_counts_add_up_to_the_files(sample: Sample) -> None:
    assert sum(sample.truth["counts"].values()) == len(sample.files)
    assert set(sample.truth["counts"]) == {"succeeded", "skipped", "failed", "seen-again"}


def test_every_document_is_in_exactly_one_cluster(sample: Sample) -> None:
    for tenant in sample.tenants:
        members = Counter(name for cluster in sample.clusters(tenant) for name in cluster)
        documents = [file.name for file in sample.files if file.tenant == tenant and file.truth.state == "succeeded"]
        assert sorted(members) == sorted(documents)
        assert set(members.values()) == {1}


def test_clusters_are_the_connected_components_of_the_links(sample: Sample) -> None:
    for tenant in sample.tenants:
        neighbours: dict[str, set[str]] = {name: set() for cluster in sample.clusters(tenant) for name in cluster}
        for link in sample.links:
            if link.tenant == tenant:
                neighbours[link.a].add(link.b)
                neighbours[link.b].add(link.a)
        assert sorted(_components(neighbours)) == sample.clusters(tenant)


def _components(neighbours: dict[str, set[str]]) -> Iterator[list[str]]:
    left = set(neighbours)
    while left:
        component, frontier = set(), [min(left)]
        while frontier:
            name = frontier.pop()
            if name not in component:
                component.add(name)
                frontier += neighbours[name]
        left -= component
        yield sorted(component)


def test_a_stated_link_is_a_number_that_one_document_names_and_the_other_bears(sample: Sample) -> None:
    files = _by_name(sample)
    for link in sample.links:
        a, b = files[link.tenant, link.a], files[link.tenant, link.b]
        names = {value for field, value in _data(a).items() if field.endswith("_reference")}
        if link.kind == "duplicate-original":
            assert (a.truth.number, _data(a)["issuer"]) == (b.truth.number, _data(b)["issuer"])
        else:
            assert (b.truth.number in names) is link.stated


def test_links_join_the_types_that_they_say(sample: Sample) -> None:
    files = _by_name(sample)
    short = {"receipt": "goods_receipt", "order": "purchase_order", "delivery": "delivery_note",
             "confirmation": "order_confirmation", "duplicate": "invoice", "original": "invoice"}  # fmt: skip
    for link in sample.links:
        types = [files[link.tenant, name].truth.type for name in (link.a, link.b)]
        assert types == [short.get(word, word) for word in link.kind.split("-")]


def test_every_reference_is_answered_in_its_cluster_or_nowhere_in_the_tenant(sample: Sample) -> None:
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


def test_an_invoice_for_an_order_not_in_the_set_is_alone(sample: Sample) -> None:
    numbers = {(file.tenant, file.truth.number) for file in sample.files if file.truth.type == "purchase_order"}
    for invoice in _in_situation(sample, "order not in the set", "invoice"):
        if invoice.truth.state == "succeeded":
            assert (invoice.tenant, _data(invoice)["po_reference"]) not in numbers
            assert [invoice.name] in sample.clusters(invoice.tenant)


def test_an_invoice_without_reference_fits_one_order_alone(sample: Sample) -> None:
    found = [f for f in _in_situation(sample, "no reference at all", "invoice") if f.truth.state == "succeeded"]
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
        told = ("article_number", "quantity", "unit_price", "net_amount")
        assert [[line[field] for field in told] for line in _data(order)["line_items"]] == [
            [line[field] for field in told] for line in _data(invoice)["line_items"]
        ]


def test_an_invoice_may_name_its_delivery_note_alone(sample: Sample) -> None:
    found = _in_situation(sample, "no order reference, names its delivery note", "invoice")
    assert any("po_reference" not in _data(f) for f in found if f.truth.state == "succeeded")
    for file in found:
        if file.truth.state == "succeeded":
            assert {field for field in _data(file) if field.endswith("_reference")} == {"delivery_note_reference"}


def test_partial_deliveries_add_up_to_what_was_ordered_and_billed(sample: Sample) -> None:
    for situation in ("partial deliveries, several invoices", "partial deliveries, one invoice"):
        orders = [o for o in _in_situation(sample, situation, "purchase_order") if o.truth.state == "succeeded"]
        assert orders
        for order in orders:
            ordered = {line["position"]: float(line["quantity"]) for line in _data(order)["line_items"]}
            for kind in ("delivery_note", "invoice"):
                papers = [f for f in _in_situation(sample, situation, kind) if f.truth.cluster == order.truth.cluster]
                total: Counter[str] = Counter()
                for paper in papers:
                    for line in _data(paper)["line_items"]:
                        if "po_line" in line:
                            total[line["po_line"]] += float(line["quantity"])  # type: ignore[assignment]
                assert dict(total) == ordered
                assert kind == "invoice" or len(papers) >= 2


def test_a_file_seen_again_has_the_bytes_of_an_earlier_document_of_the_tenant(sample: Sample) -> None:
    files = _by_name(sample)
    places = {key: place for place, key in enumerate(files)}
    again = [file for file in sample.files if file.truth.state == "seen-again"]
    assert again
    for file in again:
        assert file.truth.same_as is not None
        original = files[file.tenant, file.truth.same_as]
        assert original.content == file.content
        assert original.truth.state == "succeeded"
        assert places[file.tenant, original.name] < places[file.tenant, file.name]


def test_no_other_bytes_occur_twice_in_a_tenant(sample: Sample) -> None:
    kept = Counter((file.tenant, file.sha256) for file in sample.files if file.truth.state != "seen-again")
    assert max(kept.values()) == 1


def test_a_duplicate_invoice_states_the_same_in_other_bytes_and_is_linked_to_its_original_alone(sample: Sample) -> None:
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


def test_two_suppliers_share_an_invoice_number_and_are_not_linked(sample: Sample) -> None:
    found = [f for f in _in_situation(sample, "same invoice number, two suppliers", "invoice")
             if f.truth.state == "succeeded"]  # fmt: skip
    assert len({file.truth.number for file in found}) == 1
    assert len({_data(file)["issuer"]["vat_id"] for file in found}) == 2
    assert len({file.truth.cluster for file in found}) == 2
    (note,) = _in_situation(sample, "same invoice number, two suppliers", "credit_note")
    (credited,) = [f for f in found if f.truth.cluster == note.truth.cluster]
    assert _data(note)["issuer"]["vat_id"] == _data(credited)["issuer"]["vat_id"]


def test_both_tenants_hold_identical_files_in_clusters_of_their_own(sample: Sample) -> None:
    for situation in ("identical in both tenants", "partner only in the other tenant"):
        copies = [f for f in sample.files if f.truth.situation == situation and f.truth.state == "succeeded"]
        assert copies
        for copy in copies:
            (twin,) = [f for f in sample.files if f.sha256 == copy.sha256 and f.tenant != copy.tenant
                       and f.truth.state == "succeeded"]  # fmt: skip
            assert twin.truth.cluster != copy.truth.cluster
            assert twin.truth.structured_data == copy.truth.structured_data


def test_rejected_goods_are_credited(sample: Sample) -> None:
    (receipt,) = _in_situation(sample, "rejected goods, credit note", "goods_receipt")
    (note,) = _in_situation(sample, "rejected goods, credit note", "credit_note")
    rejected = _data(receipt)["line_items"][0]
    credited = _data(note)["line_items"][0]
    assert float(rejected["rejected_quantity"]) == float(credited["quantity"]) <= float(rejected["quantity"])
    assert rejected["article_number"] == credited["article_number"]
