"""Lexicon files are consistent, and their terms match labels in any notation."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from counterfoil.documents import lexicon
from counterfoil.documents.lexicon import Group
from counterfoil.documents.lexicon.folding import fold_letters, normalize_text
from counterfoil.documents.matching.names import comparison_form
from infra.packaging import ROOT, files_under

FILES = sorted(path.stem for path in lexicon.FOLDER.glob("*.toml"))
LANGUAGE = re.compile("[a-z]{2}|mul")
USERS = {vocabulary.user for vocabulary in (lexicon.READER, lexicon.SPLITTER, lexicon.MATCHER, lexicon.THREE_WAY_MATCH)}
AS_WRITTEN = {"charges", "legal_forms"}
"""Lexicon files that store terms in their original spelling. Loading folds these terms."""
CODES = {"units.same_code", "units.printed_code"}
"""Concepts whose terms are compared exactly as printed."""


def groups(file: str) -> Iterator[tuple[str, Group]]:
    for concept, result in lexicon.groups(file).items():
        yield from ((f"{file}.{concept}", group) for group in result)


def list_terms(file: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield concept, meaning, user, language and term, for each user of each term."""
    for concept, group in groups(file):
        for language, terms in group.terms.items():
            for term in terms:
                yield from ((concept, group.means, user, language, term) for user in group.used_by)


@pytest.mark.parametrize("file", FILES)
def test_every_term_has_a_language_and_users(file: str) -> None:
    for concept, group in groups(file):
        assert group.used_by, concept
        assert USERS.issuperset(group.used_by), concept
        assert group.terms, concept
        assert all(map(LANGUAGE.fullmatch, group.terms)), concept
        assert all(group.terms.values()), concept


@pytest.mark.parametrize("file", FILES)
def test_terms_are_unique_per_user(file: str) -> None:
    counted = Counter((concept, means, user, term) for concept, means, user, _, term in list_terms(file))
    assert [entry for entry, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("file", FILES)
def test_terms_are_stored_folded(file: str) -> None:
    for concept, *_, term in list_terms(file):
        if file in AS_WRITTEN:
            assert comparison_form(term).strip(" -"), term
        elif concept not in CODES:
            assert normalize_text(term) == term


@pytest.mark.parametrize("file", ["pages", "tables", "titles"])
def test_terms_do_not_match_empty_text(file: str) -> None:
    for *_, term in list_terms(file):
        assert re.compile(term).match("") is None, term


def test_groups_with_one_meaning_have_distinct_users() -> None:
    for file in FILES:
        counted = Counter((concept, group.means, group.used_by) for concept, group in groups(file))
        assert [entry for entry, count in counted.items() if count > 1] == []


@pytest.mark.parametrize(
    ("text", "label"),
    [("rechnungs-nr. 17", "rechnungs-nr"), ("rechnungs-nr:17", "rechnungs-nr"), ("rechnungs #17", "rechnungs #")],
)
def test_number_word_ends_before_the_number(text: str, label: str) -> None:
    match = lexicon.pattern(["rechnungs *"]).search(text)
    assert match is not None
    assert match[0] == label


def test_digits_adjoining_a_number_word_prevent_a_match() -> None:
    assert lexicon.pattern(["rechnungs *"]).search("rechnungs-nr17") is None


def test_lambda_layer_contains_the_lexicon_files() -> None:
    packed = files_under(ROOT / "layers" / "shared", ["python"])
    assert {f"python/counterfoil/documents/lexicon/{file}.toml" for file in FILES} <= packed.keys()


def test_groups_are_parsed_with_meaning_users_and_terms() -> None:
    text = """
        [[title]]
        means = "invoice"
        used_by = ["reader"]
        de = 'rechnung; honorarnote'

        [[title]]
        means = "invoice"
        used_by = ["reader", "splitter"]
        en = 'invoice'
    """
    (first, second) = lexicon.parse(text)["title"]
    assert first == Group("invoice", ("reader",), {"de": ("rechnung", "honorarnote")})
    assert second == Group("invoice", ("reader", "splitter"), {"en": ("invoice",)})


@pytest.mark.parametrize("text", ["Rechnungs-Nr.", "RECHNUNGSNR", "rechnungs nummer", "Rechnungs-Nr"])
def test_space_in_a_label_matches_any_separator(text: str) -> None:
    assert lexicon.pattern(["rechnungs *"]).search(fold_letters(text))
    assert not lexicon.pattern(["rechnungs *"]).search("rechnungsnrx")
