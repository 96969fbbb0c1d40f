"""Words of business documents by language, in this folder's TOML files. Pure.

A file contains groups of terms that share a concept: `[[title]]` in titles.toml is `titles.title`. A group has

- `used_by`: its consumers. The `reader` extracts fields, the `splitter` splits files that contain several documents,
  the `matcher` compares documents, and `three_way_match` compares their line items.
- `means`: for a concept with several meanings, the meaning, such as a document type or a unit code.
- terms by language (ISO 639-1), separated by semicolons or line breaks. `mul` (ISO 639-2) has codes, abbreviations and
  words that several languages share.

Each file is parsed on first use, so a Lambda function reads only the files that it uses.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Group:
    """Terms with the same meaning and the same consumers."""

    means: str
    used_by: tuple[str, ...]
    terms: Mapping[str, tuple[str, ...]]
    """Terms by language."""


@cache
def groups(file: str) -> Mapping[str, tuple[Group, ...]]:
    """Return a file's groups by concept."""
    return parse((FOLDER / f"{file}.toml").read_text("utf-8"))


def parse(text: str) -> Mapping[str, tuple[Group, ...]]:
    """Parse the text of a file into groups by concept."""
    return {concept: tuple(map(_group, tables)) for concept, tables in tomllib.loads(text).items()}


def _group(table: Mapping[str, str | list[str]]) -> Group:
    languages = {key: value for key, value in table.items() if isinstance(value, str) and key != "means"}
    terms = {
        language: tuple(term.strip() for term in text.strip().replace("\n", ";").split(";"))
        for language, text in languages.items()
    }
    return Group(str(table.get("means", "")), tuple(table["used_by"]), terms)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The terms of one consumer.

    A concept's name starts with its file: `titles.title`.
    """

    user: str

    def terms(self, concept: str, means: str = "") -> tuple[str, ...]:
        """Return a concept's terms with this meaning.

        >>> "order" in READER.terms("titles.title", "purchase_order")
        True
        """
        groups = (group for group in self._groups(concept) if group.means == means)
        return tuple(
            dict.fromkeys(
                term for group in groups for language_terms in group.terms.values() for term in language_terms
            )
        )

    def meanings(self, concept: str) -> Mapping[str, tuple[str, ...]]:
        """Return a concept's terms by meaning, in file order."""
        return {group.means: self.terms(concept, group.means) for group in self._groups(concept)}

    def alternatives(self, concept: str, means: str = "") -> str:
        """Return a regular expression for any term of a concept, longest terms first."""
        return "|".join(sorted(self.terms(concept, means), key=len, reverse=True))

    def pattern(self, concept: str, means: str = "") -> "re.Pattern[str]":
        """Return a pattern that matches any label of a concept."""
        return pattern(self.terms(concept, means))

    def patterns(self, concept: str) -> Mapping[str, "re.Pattern[str]"]:
        """Return a pattern for each meaning of a concept that matches its labels."""
        return {means: pattern(labels) for means, labels in self.meanings(concept).items()}

    def _groups(self, concept: str) -> Iterator[Group]:
        file, _, name = concept.partition(".")
        return (group for group in groups(file)[name] if self.user in group.used_by)


READER, SPLITTER, MATCHER, THREE_WAY_MATCH = map(Vocabulary, ("reader", "splitter", "matcher", "three_way_match"))


def pattern(phrases: Iterable[str]) -> "re.Pattern[str]":
    """Return a pattern that matches any of the phrases as whole words.

    A space in a phrase matches spaces, dots, hyphens, slashes or nothing: `rechnungs nr` matches `Rechnungs-Nr.`. `*`
    matches the word for number in any language.
    """
    number = f"(?:{READER.alternatives('labels.number_word')})"
    alternatives = sorted(
        (re.escape(phrase).replace(r"\ ", r"[\s.\-/]*").replace(r"\*", number) for phrase in phrases),
        key=len,
        reverse=True,
    )
    return re.compile(rf"(?<![a-z0-9])(?:{'|'.join(alternatives)})(?:(?<=#)|(?![a-z0-9]))")
