"""Documents with known matches for the tests under load. Some of the matches need a judge.

`make test` runs the tests under load for 30 seconds each, `make soak` for COUNTERFOIL_SOAK_SECONDS. Both check the
same; only the amount of load differs.
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
from counterfoil.llm import Answered, Question
from tools.sample_generator.bulk import deals
from tools.sample_generator.model import Document
from tools.sample_generator.ubl import write_ubl

M = TypeVar("M", bound=BaseModel)

LOAD_SECONDS = int(os.environ.get("COUNTERFOIL_SOAK_SECONDS") or 30)
"""Approximate duration of the load of each test on two quiet cores. Tests derive counts from it, and no time limit."""
PLAIN, DOUBTFUL = LOAD_SECONDS, LOAD_SECONDS // 5
"""Deals of an order and the invoice that names it; and of two orders alike and an invoice that names neither."""
_TELLING = 3
"""Lines by which an order is like no other one but its twin."""
DOCUMENTS = 2 * PLAIN + 3 * DOUBTFUL


@dataclass(frozen=True)
class File:
    """A document as it is uploaded."""

    name: str
    kind: str
    content: bytes


@dataclass(frozen=True)
class Truth:
    """What must come of the files, which go by their names. An edge says who decides it."""

    edges: frozenset[tuple[str, str, str]]
    clusters: frozenset[frozenset[str]]
    deals: frozenset[frozenset[str]]
    """The files that could be told to belong together, twins of orders among them."""

    def without(self, spoilt: Collection[str]) -> "Truth":
        """The truth about the deals of which no file is among these."""
        deals = {deal for deal in self.deals if deal.isdisjoint(spoilt)}
        kept = {name for deal in deals for name in deal}
        return Truth(
            frozenset(edge for edge in self.edges if edge[0] in kept),
            frozenset(cluster for cluster in self.clusters if cluster <= kept),
            frozenset(deals),
        )


def load(seed: int) -> tuple[list[File], Truth]:
    """The files in a random order, and what must come of them."""
    files: list[File] = []
    edges: set[tuple[str, str, str]] = set()
    deals_: set[frozenset[str]] = set()
    made = deals(seed, 10 * (PLAIN + DOUBTFUL))
    for order, invoice in islice(made, PLAIN):
        pair = [_file(order), _file(invoice)]
        edges.add((*_named(pair), "rules"))
        deals_.add(frozenset(_named(pair)))
        files += pair
    for order, invoice in islice((deal for deal in made if len(deal[0].lines) >= _TELLING), DOUBTFUL):
        lines = tuple(replace(line, po_line=None) for line in invoice.lines)
        pair = [_file(order), _file(replace(invoice, references={}, lines=lines))]
        twin = _file(replace(order, number=f"9{order.number}"))
        edges.add((*_named(pair), "llm"))
        deals_.add(frozenset((*_named(pair), twin.name)))
        files += [*pair, twin]
    joined = {frozenset((first, second)) for first, second, _ in edges}
    alone = {file.name for file in files} - {name for pair in joined for name in pair}
    Random(seed).shuffle(files)
    clusters = joined | {frozenset((name,)) for name in alone}
    return files, Truth(frozenset(edges), frozenset(clusters), frozenset(deals_))


def _named(pair: Sequence[File]) -> tuple[str, str]:
    first, second = sorted(file.name for file in pair)
    return first, second


def _file(document: Document) -> File:
    return File(f"{document.kind} {document.number}.xml", document.kind, write_ubl(document))


def answer(question: str) -> str:
    """What the judge of this load says: of each group the candidate of which most articles come in the same quantity.

    Of two alike it is the one with the lower number, in whatever order they are offered.
    """
    found = re.search(r"<case>\n(.*)\n</case>", question, re.DOTALL)
    assert found is not None
    case = json.loads(found[1])
    billed = _goods(case["document"])

    def rank(candidate: dict[str, Any]) -> tuple[int, str]:
        return -len(billed & _goods(candidate)), candidate["says"]["po_number"]

    chosen = [min(group["candidates"], key=rank) for group in case["groups"]]
    reasoning = "It is about the same goods."
    matches = [{"candidate": one["candidate"], "confidence": "high", "reasoning": reasoning} for one in chosen]
    return json.dumps({"matches": matches})


def _goods(told: dict[str, Any]) -> set[tuple[str, str]]:
    lines = told["says"]["line_items"]
    return {(line["article_number"], line["quantity"]) for line in lines if "article_number" in line}


class Model:
    """The judge in this process, and always well."""

    def ask(
        self,
        question: Question,
        answer_: type[M],
        _deadline: Deadline,
    ) -> Answered[M]:
        """An answer in this form."""
        return Answered(answer_.model_validate_json(answer(question.user)))
