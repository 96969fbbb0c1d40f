"""Documents with known matches, for load tests.

Some matches require the LLM judge.

`make test` runs the load tests for 30 seconds each, `make soak` for COUNTERFOIL_SOAK_SECONDS. Both make the same
assertions.
"""

import json
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any, TypeVar

from pydantic import BaseModel

from counterfoil.deadline import Deadline
from counterfoil.llm import LlmRequest, LlmResponse
from tools.sample_generator.bulk import orders_with_invoices
from tools.sample_generator.model import Document
from tools.sample_generator.ubl import write_ubl

M = TypeVar("M", bound=BaseModel)

LOAD_SECONDS = int(os.environ.get("COUNTERFOIL_SOAK_SECONDS") or 30)
"""Approximate seconds that each load test takes on two idle cores. Determines counts, not timeouts."""
PLAIN_DEALS, AMBIGUOUS_DEALS = LOAD_SECONDS, LOAD_SECONDS // 5
"""Number of deals with one order and its invoice, and of deals with twin orders and an invoice without a reference."""
_MIN_LINES = 3
"""Minimum number of line items that distinguish an order from every other order except its twin."""
DOCUMENTS = 2 * PLAIN_DEALS + 3 * AMBIGUOUS_DEALS


@dataclass(frozen=True)
class LoadFile:
    """A document to upload."""

    name: str
    kind: str
    content: bytes


@dataclass(frozen=True)
class GroundTruth:
    """Expected edges and clusters, by file name. An edge includes `decided_by`."""

    edges: frozenset[tuple[str, str, str]]
    clusters: frozenset[frozenset[str]]
    deals: frozenset[frozenset[str]]
    """Files of each deal, including the twin of an order."""

    def without(self, failed_files: Collection[str]) -> "GroundTruth":
        """Return the ground truth without deals that contain one of these files."""
        deals = {deal for deal in self.deals if deal.isdisjoint(failed_files)}
        names = {name for deal in deals for name in deal}
        return GroundTruth(
            frozenset(edge for edge in self.edges if edge[0] in names),
            frozenset(cluster for cluster in self.clusters if cluster <= names),
            frozenset(deals),
        )


def generate_load(seed: int) -> tuple[list[LoadFile], GroundTruth]:
    """Return the files in random order, and their ground truth."""
    files: list[LoadFile] = []
    edges: set[tuple[str, str, str]] = set()
    all_deals: set[frozenset[str]] = set()
    generated = orders_with_invoices(seed, 10 * (PLAIN_DEALS + AMBIGUOUS_DEALS))
    for order, invoice in islice(generated, PLAIN_DEALS):
        pair = [_file(order), _file(invoice)]
        edges.add((*_file_names(pair), "rules"))
        all_deals.add(frozenset(_file_names(pair)))
        files += pair
    for order, invoice in islice((deal for deal in generated if len(deal[0].lines) >= _MIN_LINES), AMBIGUOUS_DEALS):
        lines = tuple(replace(line, po_line=None) for line in invoice.lines)
        pair = [_file(order), _file(replace(invoice, references={}, lines=lines))]
        twin_order = _file(replace(order, number=f"9{order.number}"))
        edges.add((*_file_names(pair), "llm"))
        all_deals.add(frozenset((*_file_names(pair), twin_order.name)))
        files += [*pair, twin_order]
    linked_pairs = {frozenset((first, second)) for first, second, _ in edges}
    unlinked = {file.name for file in files} - {name for pair in linked_pairs for name in pair}
    Random(seed).shuffle(files)
    clusters = linked_pairs | {frozenset((name,)) for name in unlinked}
    return files, GroundTruth(frozenset(edges), frozenset(clusters), frozenset(all_deals))


def _file_names(pair: Sequence[LoadFile]) -> tuple[str, str]:
    first, second = sorted(file.name for file in pair)
    return first, second


def _file(document: Document) -> LoadFile:
    return LoadFile(f"{document.kind} {document.number}.xml", document.kind, write_ubl(document))


def choose_candidates(question: str) -> str:
    """Answer a judge's question with the best candidate of each group, as JSON.

    The best candidate shares the most line items with the document. In a tie, choose the lower order number, regardless
    of the order in the question.
    """
    match = re.search(r"<case>\n(.*)\n</case>", question, re.DOTALL)
    assert match is not None
    case = json.loads(match[1])
    billed_goods = _goods(case["document"])

    def rank(candidate: dict[str, Any]) -> tuple[int, str]:
        return -len(billed_goods & _goods(candidate)), candidate["says"]["po_number"]

    choices = [min(group["candidates"], key=rank) for group in case["groups"]]
    reasoning = "It is about the same goods."
    matches = [{"candidate": choice["candidate"], "confidence": "high", "reasoning": reasoning} for choice in choices]
    return json.dumps({"matches": matches})


def _goods(document: dict[str, Any]) -> set[tuple[str, str]]:
    lines = document["says"]["line_items"]
    return {(line["article_number"], line["quantity"]) for line in lines if "article_number" in line}


class Model:
    """An in-process LLM judge that never fails."""

    def complete_json(
        self,
        question: LlmRequest,
        answer_: type[M],
        _deadline: Deadline,
    ) -> LlmResponse[M]:
        """Return the answer to `question` as an instance of `answer_`."""
        return LlmResponse(answer_.model_validate_json(choose_candidates(question.user)))
