"""A changed prompt requires a new prompt version.

Cached answers are stored by version.
"""

import json
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.documents.matching import judge
from counterfoil.documents.matching.compare import Feature
from counterfoil.documents.matching.rules import AmbiguousMatch, ProposedMatch, RuleDecision
from counterfoil.documents.matching.score import FeatureEvidence, Score
from counterfoil.documents.reading import boundaries, model
from counterfoil.documents.splitting import Boundary, Split
from counterfoil.documents.text.page import Page

_PAGE = Page(595, 842, ())


def matching_prompt() -> tuple[str, list[str]]:
    """Return the version and texts of the matching prompt, for one candidate."""
    child, parent = uuid4(), uuid4()
    link = ProposedMatch(
        child, parent, "order", "reference", Score((FeatureEvidence(Feature.TOTAL, "same", 1.0),), is_referenced=True)
    )
    contents: dict[UUID, tuple[str, dict[str, Any]]] = {child: ("invoice", {"a": 1}), parent: ("order", {"b": [2]})}
    text = judge.build_prompt(
        child, RuleDecision(ambiguous_matches=(AmbiguousMatch(("order",), "4711", (link,)),)), contents
    ).text
    schema = json.dumps(judge.answer_schema(["A1"]).model_json_schema(), sort_keys=True)
    return judge.PROMPT_VERSION, [judge.SYSTEM, text, schema]


def reading_prompt(*, lines: bool) -> tuple[str, list[str]]:
    """Return the version and texts of the extraction prompt, for an empty page."""
    inquiry = model.question([_PAGE], lines=lines)
    return inquiry.prompt_version, [inquiry.system, inquiry.user]


def splitting_prompt() -> tuple[str, list[str]]:
    """Return the version and texts of the splitting prompt, for one boundary.

    The boundary is uncertain, and the last text is the answer schema.
    """
    uncertain = Split(2, (Boundary(2, is_start=True, confidence=0.5),))
    text = boundaries.build_question([_PAGE, _PAGE], uncertain)
    schema = json.dumps(boundaries.answer_schema([2]).model_json_schema(), sort_keys=True)
    return boundaries.PROMPT_VERSION, [boundaries.SYSTEM, text, schema]


DIGESTS = {
    "matching-4": "837d100d99bb9790",
    "reading-2": "1e2e2bca93de7240",
    "reading-2+lines": "ffd07359723daaab",
    "splitting-2": "e80a34794b75a068",
}


@pytest.mark.parametrize(
    ("version", "parts"),
    [matching_prompt(), reading_prompt(lines=False), reading_prompt(lines=True), splitting_prompt()],
    ids=str,
)
def test_changed_prompt_requires_a_new_version(version: str, parts: list[str]):
    digest = sha256("\n".join(parts).encode()).hexdigest()[:16]
    assert DIGESTS[version] == digest, "give the prompt a new version, and add it here with this digest"
