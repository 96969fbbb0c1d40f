"""Combine real PDFs at random, and measure whether splitting recovers them.

Run `make bench-splitting`. DATA=... selects a folder other than the sibling `../shared/data/zugferd`. Only the text
layer is used, without embedded files. Many documents in the corpus share an invoice number, which is unrealistic. One
of the two series therefore uses each number once. Only certain boundaries are scored. A file with an uncertain boundary
is not split and needs review, so uncertain boundaries are counted separately.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import typer

from counterfoil.documents.extraction import extract
from counterfoil.documents.splitting import Split, split
from counterfoil.documents.text.page import Page, pages
from counterfoil.errors import InvalidDocumentError

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "zugferd"
"""Folder with the ZUGFeRD corpus, which is half of https://github.com/ZUGFeRD/corpus."""
_MIN_DOCUMENTS, _MAX_DOCUMENTS = 2, 15
"""Minimum and maximum number of documents per file."""


@dataclass(frozen=True)
class CorpusDocument:
    """A PDF from the corpus, which contains one document."""

    name: str
    number: str
    """Document number from the XML, or the file name if the XML has no number."""
    pages: Sequence[Page]


@dataclass
class Tally:
    """Results for a series of files."""

    files: int = 0
    certain: int = 0
    right: int = 0
    """Number of files split into exactly the documents that they contain."""
    found: int = 0
    missed: int = 0
    invented: int = 0
    uncertain: int = 0
    """Number of uncertain boundaries at which a document starts."""
    uncertain_inside: int = 0
    """Number of uncertain boundaries inside a document."""
    wrong: list[str] = field(default_factory=list)
    uncertain_boundaries: set[str] = field(default_factory=set)

    def add(self, documents: Sequence[CorpusDocument], found: Split) -> None:
        """Add the result of splitting one file that contains `documents`."""
        places = [f"{document.name} p{page}" for document in documents for page in range(1, len(document.pages) + 1)]
        begins = set(_first_pages(documents))
        for boundary in found.boundaries:
            is_beginning = boundary.page in begins
            here = f"{places[boundary.page - 2]} | {places[boundary.page - 1]}: {' '.join(boundary.evidence)}"
            if not boundary.is_certain:
                self.uncertain += is_beginning
                self.uncertain_inside += not is_beginning
                self.uncertain_boundaries.add(here)
                continue
            self.found += is_beginning and boundary.is_start
            self.missed += is_beginning and not boundary.is_start
            self.invented += boundary.is_start and not is_beginning
            if boundary.is_start != is_beginning:
                self.wrong.append(here)
        self.files += 1
        self.certain += found.is_certain
        self.right += found.is_certain and {part.pages.first for part in found.parts} == begins | {1}

    def show(self, title: str) -> None:
        """Print the results below `title`."""
        sure = self.found + self.missed
        precision = self.found / max(self.found + self.invented, 1)
        recall = self.found / max(sure, 1)
        of_all = self.found / max(sure + self.uncertain, 1)
        typer.echo(
            f"{title}: {self.files} files; certain boundaries: precision {precision:.4f}, recall {recall:.4f} "
            f"({self.found} correct, {self.missed} missed, {self.invented} false)\n"
            f"  {of_all:.4f} of all boundaries found; uncertain: {self.uncertain} boundaries, "
            f"{self.uncertain_inside} other pages; files without uncertainty: {self.certain}, "
            f"{self.right} of them correct"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report.

    Return 1 if there are too few PDFs, or if a certain boundary is incorrect.
    """
    parser = argparse.ArgumentParser(prog="make bench-splitting", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=DATA)
    parser.add_argument("--rounds", type=int, default=200, help="files per series")
    parser.add_argument("--brief", action="store_true", help="omit the list of uncertain boundaries")
    options = parser.parse_args(arguments)
    documents = list(_read_corpus(options.folder))
    if len(documents) < _MIN_DOCUMENTS:
        typer.echo(f"No PDFs in {options.folder}. Clone https://github.com/ZUGFeRD/corpus or name another folder.")
        return 1
    whole, any_, distinct = Tally(), Tally(), Tally()
    started, count = time.perf_counter(), 0
    for document in documents:
        whole.add([document], split(document.pages))
    for seed in range(options.rounds):
        rng = Random(seed)
        drawn = rng.sample(documents, min(rng.randint(_MIN_DOCUMENTS, _MAX_DOCUMENTS), len(documents)))
        for tally, chosen in ((any_, drawn), (distinct, _with_unique_numbers(drawn))):
            content = [page for document in chosen for page in document.pages]
            count += len(content)
            tally.add(chosen, split(content))
    seconds = time.perf_counter() - started
    if not options.brief:
        for boundary in sorted(whole.uncertain_boundaries | any_.uncertain_boundaries):
            typer.echo(f"uncertain: {boundary}")
    for wrong in whole.wrong + any_.wrong + distinct.wrong:
        typer.echo(f"WRONG: {wrong}")
    typer.echo(f"single documents: {whole.certain} of {whole.files} without uncertainty, {whole.right} of them correct")
    any_.show("combined at random")
    distinct.show("combined, each invoice number once")
    typer.echo(f"{len(documents)} documents; {1000 * seconds / max(count, 1):.1f} ms per page")
    return int(bool(whole.wrong or any_.wrong or distinct.wrong))


def _read_corpus(folder: Path) -> Iterator[CorpusDocument]:
    for file in sorted(folder.rglob("*.pdf")):
        content = file.read_bytes()
        try:
            read = pages(content)
            stated = extract(content).structured_data or {}
        except InvalidDocumentError as error:
            typer.echo(f"{file.relative_to(folder)}: unknown number: {error}")
            stated = {}
        if any(page.words for page in read):
            number = stated.get("invoice_number") or stated.get("credit_note_number") or file.stem
            yield CorpusDocument(file.stem, number, read)


def _first_pages(documents: Sequence[CorpusDocument]) -> Iterator[int]:
    """Yield the number of each document's first page, except for the first document."""
    page = 1
    for document in documents[:-1]:
        page += len(document.pages)
        yield page


def _with_unique_numbers(documents: Sequence[CorpusDocument]) -> list[CorpusDocument]:
    return list({document.number: document for document in documents}.values())


if __name__ == "__main__":
    sys.exit(main())
