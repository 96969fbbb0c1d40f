"""Documents with known matches for load tests. Some matches require the LLM judge.

`make test` runs the load tests for 30 seconds each, `make soak` for COUNTERFOIL_SOAK_SECONDS. Both run the same checks
under a different load.
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
from tools.sample_generator.bulk import deals
from tools.sample_generator.model import Document
from tools.sample_generator.ubl import write_ubl

M = TypeVar("M", bound=BaseModel)

LOAD_SECONDS = int(os.environ.get("COUNTERFOIL_SOAK_SECONDS") or 30)
"""Approximate duration of each load test on two quiet cores. It determines counts, but no timeouts."""
PLAIN, AMBIGUOUS = LOAD_SECONDS, LOAD_SECONDS // 5
"""Number of deals with an order and its invoice, and of deals with twin orders and an invoice without a reference."""
_MIN_LINES = 3
"""Line items that distinguish an order from every order except its twin."""
DOCUMENTS = 2 * PLAIN + 3 * AMBIGUOUS


@dataclass(frozen=True)
class File:
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
        """Return the ground truth of the deals without any of these files."""
        deals = {deal for deal in self.deals if deal.isdisjoint(failed_files)}
        names = {name for deal in deals for name in deal}
        return GroundTruth(
            frozenset(edge for edge in self.edges if edge[0] in names),
            frozenset(cluster for cluster in self.clusters if cluster <= names),
            frozenset(deals),
        )


def load(seed: int) -> tuple[list[File], GroundTruth]:
    """Return the files in random order, and their ground truth."""
    files: list[File] = []
    edges: set[tuple[str, str, str]] = set()
    all_deals: set[frozenset[str]] = set()
    made = deals(seed, 10 * (PLAIN + AMBIGUOUS))
    for order, invoice in islice(made, PLAIN):
        pair = [_file(order), _file(invoice)]
        edges.add((*_named(pair), "rules"))
        all_deals.add(frozenset(_named(pair)))
        files += pair
    for order, invoice in islice((deal for deal in made if len(deal[0].lines) >= _MIN_LINES), AMBIGUOUS):
        lines = tuple(replace(line, po_line=None) for line in invoice.lines)
        pair = [_file(order), _file(replace(invoice, references={}, lines=lines))]
        twin = _file(replace(order, number=f"9{order.number}"))
        edges.add((*_named(pair), "llm"))
        all_deals.add(frozenset((*_named(pair), twin.name)))
        files += [*pair, twin]
    joined = {frozenset((first, second)) for first, second, _ in edges}
    alone = {file.name for file in files} - {name for pair in joined for name in pair}
    Random(seed).shuffle(files)
    clusters = joined | {frozenset((name,)) for name in alone}
    return files, GroundTruth(frozenset(edges), frozenset(clusters), frozenset(all_deals))


def _named(pair: Sequence[File]) -> tuple[str, str]:
    first, second = sorted(file.name for file in pair)
    return first, second


def _file(document: Document) -> File:
    return File(f"{document.kind} {document.number}.xml", document.kind, write_ubl(document))


def answer(question: str) -> str:
    """Choose the candidate with the most equal quantities in each group.

    Of two equal candidates, choose the one with the lower number, in any order of the candidates.
    """
    match = re.search(r"<case>\n(.*)\n</case>", question, re.DOTALL)
    assert match is not None
    case = json.loads(match[1])
    billed = _goods(case["document"])

    def rank(candidate: dict[str, Any]) -> tuple[int, str]:
        return -len(billed & _goods(candidate)), candidate["says"]["po_number"]

    chosen = [min(group["candidates"], key=rank) for group in case["groups"]]
    reasoning = "It is about the same goods."
    matches = [{"candidate": choice["candidate"], "confidence": "high", "reasoning": reasoning} for choice in chosen]
    return json.dumps({"matches": matches})


def _goods(document: dict[str, Any]) -> set[tuple[str, str]]:
    lines = document["says"]["line_items"]
    return {(line["article_number"], line["quantity"]) for line in lines if "article_number" in line}


class Model:
    """An LLM judge in this process that never fails."""

    def complete_json(
        self,
        question: LlmRequest,
        answer_: type[M],
        _deadline: Deadline,
    ) -> LlmResponse[M]:
        """Return an answer of this type."""
        return LlmResponse(answer_.model_validate_json(answer(question.user)))
