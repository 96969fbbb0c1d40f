import re
from collections import Counter
from collections.abc import Iterator

import pytest

from counterfoil.documents import lexicon
from counterfoil.documents.lexicon import Group
from counterfoil.documents.lexicon.folding import fold, fold_letters
from counterfoil.documents.matching.names import spelled
from infra.packaging import ROOT, files_under

FILES = sorted(path.stem for path in lexicon.FOLDER.glob("*.toml"))
LANGUAGE = re.compile("[a-z]{2}|mul")
USERS = {vocabulary.user for vocabulary in (lexicon.READER, lexicon.SPLITTER, lexicon.MATCHER, lexicon.THREE_WAY_MATCH)}
AS_WRITTEN = {"charges", "legal_forms"}
"""Files whose terms are folded when they are loaded."""
CODES = {"units.same_code", "units.printed_code"}
"""Concepts whose terms are compared as printed."""


def groups(file: str) -> Iterator[tuple[str, Group]]:
    for concept, found in lexicon.groups(file).items():
        yield from ((f"{file}.{concept}", group) for group in found)


def listed(file: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Every term of a file: concept, meaning, user, language, term."""
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
def test_no_user_has_a_term_twice(file: str) -> None:
    counted = Counter((concept, means, user, term) for concept, means, user, _, term in listed(file))
    assert [entry for entry, count in counted.items() if count > 1] == []


@pytest.mark.parametrize("file", FILES)
def test_terms_survive_the_fold(file: str) -> None:
    for concept, *_, term in listed(file):
        if file in AS_WRITTEN:
            assert spelled(term).strip(" -"), term
        elif concept not in CODES:
            assert fold(term) == term


@pytest.mark.parametrize("file", ["pages", "tables", "titles"])
def test_terms_are_regular_expressions_of_their_own(file: str) -> None:
    for *_, term in listed(file):
        assert re.compile(term).match("") is None, term


def test_no_group_of_a_meaning_has_the_users_of_another() -> None:
    for file in FILES:
        counted = Counter((concept, group.means, group.used_by) for concept, group in groups(file))
        assert [entry for entry, count in counted.items() if count > 1] == []


@pytest.mark.parametrize(
    ("text", "label"),
    [("rechnungs-nr. 17", "rechnungs-nr"), ("rechnungs-nr:17", "rechnungs-nr"), ("rechnungs #17", "rechnungs #")],
)
def test_a_number_word_ends_before_the_number(text: str, label: str) -> None:
    found = lexicon.pattern(["rechnungs *"]).search(text)
    assert found is not None
    assert found[0] == label


def test_digits_directly_after_a_number_word_are_part_of_the_word() -> None:
    assert lexicon.pattern(["rechnungs *"]).search("rechnungs-nr17") is None


def test_the_layer_packs_the_files() -> None:
    packed = files_under(ROOT / "layers" / "shared", ["python"])
    assert {f"python/counterfoil/documents/lexicon/{file}.toml" for file in FILES} <= packed.keys()


def test_a_user_knows_only_its_own_terms() -> None:
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
    (one, other) = lexicon.parse(text)["title"]
    assert one == Group("invoice", ("reader",), {"de": ("rechnung", "honorarnote")})
    assert other == Group("invoice", ("reader", "splitter"), {"en": ("invoice",)})


@pytest.mark.parametrize("text", ["Rechnungs-Nr.", "RECHNUNGSNR", "rechnungs nummer", "Rechnungs-Nr"])
def test_blank_in_a_label_matches_any_separator(text: str) -> None:
    assert lexicon.pattern(["rechnungs *"]).search(fold_letters(text))
    assert not lexicon.pattern(["rechnungs *"]).search("rechnungsnrx")
