"""Properties of every three-way match, checked with random clusters."""

from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.documents.structured import ROLES, DocumentType
from counterfoil.documents.three_way_match import (
    Document,
    Key,
    ThreeWayMatchStatus,
    Tolerance,
    Tolerances,
    alignment,
    find_variances,
    read_document,
)
from counterfoil.documents.three_way_match.tolerances import NO_DIFFERENCE, Limits, symmetric_limits
from tests.documents.three_way_match.samples import (
    TWO,
    codes,
    credit,
    delivery,
    invoice,
    line,
    links,
    order,
    receipt,
    result,
)

articles = st.sampled_from(["A-1", "B-2", "C-3", "D-4"])
quantities = st.integers(1, 40)
ordered = st.dictionaries(articles, st.tuples(quantities, st.integers(1, 900)), min_size=1, max_size=4)
"""Ordered quantity and price in cents, by article."""


def priced_lines(goods_lines: dict[str, tuple[int, int]]) -> list[dict[str, str]]:
    return [line(name, str(quantity), f"{cents / 100:.2f}") for name, (quantity, cents) in sorted(goods_lines.items())]


def random_lines(random: Random, goods_lines: dict[str, tuple[int, int]]) -> list[dict[str, str]]:
    """Return line items for some of the goods.

    Some of their quantities differ slightly.
    """
    chosen = {
        name: (max(1, q + random.choice((0, 0, -2, 3))), c)
        for name, (q, c) in goods_lines.items()
        if random.random() < 0.8
    }
    return priced_lines(chosen or goods_lines)


def random_documents(random: Random, goods_lines: dict[str, tuple[int, int]]) -> list[Document]:
    """Return the documents of a cluster that may have many variances."""
    documents = [order(lines=priced_lines(goods_lines))]
    for number in range(random.randint(0, 2)):
        documents.append(delivery(f"L{number}", random.randint(3, 9), lines=random_lines(random, goods_lines)))
        if random.random() < 0.5:
            more: dict[str, Any] = {"delivery_note_reference": f"L{number}"} if random.random() < 0.5 else {}
            documents.append(
                receipt(f"W{number}", random.randint(3, 9), lines=random_lines(random, goods_lines), **more)
            )
    documents += [
        invoice(f"R{number}", random.randint(8, 20), lines=random_lines(random, goods_lines))
        for number in range(random.randint(1, 3))
    ]
    if random.random() < 0.4:
        documents.append(credit(lines=random_lines(random, goods_lines)))
    return documents


few = settings(max_examples=40, deadline=None)

clusters = st.builds(random_documents, st.randoms(use_true_random=False), ordered)


@few
@given(clusters, st.randoms(use_true_random=False))
def test_result_does_not_depend_on_input_order(documents: list[Document], random: Random):
    edges = links(documents)
    before = find_variances(documents, edges).record
    random.shuffle(documents)
    random.shuffle(edges)
    assert find_variances(documents, [pair[::-1] for pair in edges]).record == before


@few
@given(ordered)
def test_agreeing_documents_are_always_matched(goods: dict[str, tuple[int, int]]):
    lines = priced_lines(goods)
    match_result = result(order(lines=lines), delivery(lines=lines), receipt(lines=lines), invoice(lines=lines))
    assert (match_result.outcome, match_result.variances) == (ThreeWayMatchStatus.MATCHED, ())


@few
@given(ordered, st.randoms(use_true_random=False))
def test_delivery_and_invoice_of_remainder_complete_the_match(goods: dict[str, tuple[int, int]], random: Random):
    part = {name: (random.randint(1, quantity), cents) for name, (quantity, cents) in goods.items()}
    rest = {n: (goods[n][0] - quantity, cents) for n, (quantity, cents) in part.items() if goods[n][0] > quantity}
    documents = [
        order(lines=priced_lines(goods)),
        delivery("L1", 4, lines=priced_lines(part)),
        invoice("R1", 8, lines=priced_lines(part)),
    ]
    if rest:
        before = set(codes(result(*documents)))
        documents += [delivery("L2", 9, lines=priced_lines(rest))]
        assert set(codes(result(*documents))) <= before
        documents += [invoice("R2", 12, lines=priced_lines(rest))]
    assert (codes(result(*documents)), result(*documents).outcome) == ([], ThreeWayMatchStatus.MATCHED)


@few
@given(ordered, st.randoms(use_true_random=False), st.sampled_from(["invoice", "delivery"]))
def test_splitting_a_line_item_preserves_variances_and_quantities(
    goods: dict[str, tuple[int, int]], random: Random, where: str
):
    even = {name: (2 * quantity, cents) for name, (quantity, cents) in goods.items()}
    billed = {name: (q + random.choice((0, 0, 2)), cents) for name, (q, cents) in even.items()}
    split = random.choice(sorted(even))
    source = billed if where == "invoice" else even
    half = [line(split, str(source[split][0] // 2), f"{source[split][1] / 100:.2f}")] * 2
    lines = [item for item in priced_lines(source) if item["article_number"] != split] + half
    total = result(
        order(lines=priced_lines(even)), delivery(lines=priced_lines(even)), invoice(lines=priced_lines(billed))
    )
    parts = result(
        order(lines=priced_lines(even)),
        delivery(lines=lines if where == "delivery" else priced_lines(even)),
        invoice(lines=lines if where == "invoice" else priced_lines(billed)),
    )
    assert codes(parts) == codes(total)
    assert [(row["billed"], row["delivered"]) for row in parts.record["lines"]] == [
        (row["billed"], row["delivered"]) for row in total.record["lines"]
    ]


def same_limits(limits: Any) -> Tolerances:
    return Tolerances(Tolerance(key, limits) for key in Key)


@few
@given(clusters)
def test_wider_tolerance_never_opens_variances(documents: list[Document]):
    layers = [NO_DIFFERENCE, *(symmetric_limits(percent=Decimal(width)) for width in (1, 10, 50)), Limits()]
    open_ = [codes(result(*documents, tolerances=same_limits(limits))) for limits in layers]
    for narrow, wide in pairwise(open_):
        assert set(wide) <= set(narrow)
        assert len(wide) <= len(narrow)


@few
@given(clusters)
def test_extreme_tolerances_permit_no_or_every_difference(documents: list[Document]):
    strict, lenient = (result(*documents, tolerances=same_limits(limits)) for limits in (NO_DIFFERENCE, Limits()))
    assert not any(variance.is_tolerated for variance in strict.variances)
    assert all(variance.limits is None for variance in lenient.variances if variance.is_open)


@few
@given(clusters)
def test_every_variance_has_a_sentence_and_document(documents: list[Document]):
    match_result = result(*documents)
    for variance in match_result.variances:
        assert variance.document in documents
        assert variance.message[0].isupper() or variance.message[0] == "“"
        assert variance.message.endswith(".")
        assert "None" not in variance.message
    assert match_result.reasons


@few
@given(clusters)
def test_row_quantities_are_the_sums_of_their_parts(documents: list[Document]):
    for row in result(*documents).rows:
        for role, total in (("delivered", row.delivered), ("received", row.received), ("billed", row.billed)):
            parts = [part.quantity for part in row.parts if part.role == role and part.quantity is not None]
            assert (total or 0) == sum(parts)


texts = st.sampled_from(
    ["1", "-2.5", "1e30", "1e-30", "NaN", "Infinity", "0", "C62", "4711", "2026-01-01", "\x00", "ß"]
)
values = st.one_of(st.none(), st.text(max_size=12), texts)
"""Values that the schema allows: any text, or None."""
names = ["rejected_quantity", "price_basis_quantity", "tax_rate", "po_line", "po_reference", "position", *TWO[0]]
items = st.dictionaries(st.sampled_from(names), values)
fields = st.sampled_from(
    [
        "currency",
        "total_net",
        "total_tax",
        "total_gross",
        "po_reference",
        "delivery_note_reference",
        "issuer",
        "supplier",
    ]
)


@st.composite
def arbitrary_document(draw: Any) -> Document:
    kind = draw(st.sampled_from(sorted(ROLES)))
    roles = ROLES[DocumentType(kind)]
    data = draw(st.dictionaries(st.one_of(fields, st.sampled_from([roles.number, roles.date])), values, max_size=6))
    data["line_items"] = draw(st.lists(items, max_size=4))
    base = order()
    return read_document(draw(st.uuids()), kind, base.received_at, data)


@settings(max_examples=150, deadline=None)
@given(st.lists(arbitrary_document(), max_size=5, unique_by=lambda one: one.id), st.randoms(use_true_random=False))
def test_arbitrary_documents_always_have_a_status(documents: list[Document], random: Random):
    edges = [(a.id, b.id) for a in documents for b in documents if a.id < b.id and random.random() < 0.6]
    assert find_variances(documents, edges).record["outcome"] in set(ThreeWayMatchStatus)


@pytest.mark.parametrize("size", [300])
def test_hundreds_of_unnumbered_lines_are_matched(size: int):
    lines = [line("", str(1 + n % 9), f"{1 + n % 13}.00", description=f"Bolt M{n % 20} steel {n}") for n in range(size)]
    Random(5).shuffle(mixed := list(lines))
    match_result = result(order(lines=lines), delivery(lines=mixed), invoice(lines=mixed[::-1]))
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)


def test_repeated_descriptions_are_compared_once(monkeypatch: pytest.MonkeyPatch):
    """A large order must be compared within a function's timeout.

    The order has many line items and deliveries.
    """
    compared = 0
    same_word = alignment._word_similarity

    def metric_totals(first: str, second: str) -> float:
        nonlocal compared
        compared += 1
        return same_word(first, second)

    monkeypatch.setattr(alignment, "_word_similarity", metric_totals)
    lines = [line(f"Q-{number}", "20") for number in range(20)]
    parts = [line(f"Q-{number}", "1") for number in range(20)]
    deliveries = [delivery(f"L{number}", number, lines=parts) for number in range(20)]
    invoices = [invoice(f"R-{number}", number + 1, lines=parts) for number in range(20)]
    assert result(order(lines=lines), *deliveries, *invoices).outcome is ThreeWayMatchStatus.MATCHED
    assert 0 < compared <= 2 * 9 * 20 * 20  # every pair of descriptions, in both directions, word by word


def test_compared_description_length_is_bounded(monkeypatch: pytest.MonkeyPatch):
    lengths: list[int] = []
    similarity = alignment.text_similarity

    def record_lengths(first: str, second: str) -> float:
        lengths.append(len(first) + len(second))
        return similarity(first, second)

    monkeypatch.setattr(alignment, "text_similarity", record_lengths)
    book = [line(description=" ".join(f"word{number}" for number in range(20_000))), TWO[1]]
    second = [line("C-3", description=" ".join(f"term{number}" for number in range(20_000))), TWO[1]]
    result(order(lines=book), delivery(lines=second), invoice(lines=book))
    assert 0 < max(lengths) <= 1_000
