"""Glues real PDFs together at random, and measures whether splitting finds them again.

Run as `make bench-splitting`, with DATA=... for another folder than the sibling `../shared/data/zugferd`. Pages are
taken from the text layer, with what is embedded in the files left aside. The corpus has many examples under the same
invoice number, which nobody would send; so there are two series, one without such twins. A boundary counts where the
splitter is sure; what it leaves in doubt, and so to a person, is counted apart, and keeps the whole file together.
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
"""The ZUGFeRD corpus, half of https://github.com/ZUGFeRD/corpus."""
_LEAST, _MOST = 2, 15
"""Documents in one file."""


@dataclass(frozen=True)
class Paper:
    """A PDF of the corpus: one document."""

    name: str
    number: str
    """As its XML has it; its name where it has none."""
    pages: Sequence[Page]


@dataclass
class Tally:
    """What came of a series of files."""

    files: int = 0
    settled: int = 0
    right: int = 0
    """Files that were taken apart as they had been put together."""
    found: int = 0
    missed: int = 0
    invented: int = 0
    doubtful: int = 0
    """Beginnings in doubt; with the next, all places in doubt."""
    doubtful_inside: int = 0
    wrong: list[str] = field(default_factory=list)
    doubts: set[str] = field(default_factory=set)

    def add(self, papers: Sequence[Paper], found: Split) -> None:
        """Count one file."""
        places = [f"{paper.name} p{page}" for paper in papers for page in range(1, len(paper.pages) + 1)]
        begins = set(_beginnings(papers))
        for boundary in found.boundaries:
            is_beginning = boundary.page in begins
            here = f"{places[boundary.page - 2]} | {places[boundary.page - 1]}: {' '.join(boundary.evidence)}"
            if not boundary.is_sure:
                self.doubtful += is_beginning
                self.doubtful_inside += not is_beginning
                self.doubts.add(here)
                continue
            self.found += is_beginning and boundary.begins
            self.missed += is_beginning and not boundary.begins
            self.invented += boundary.begins and not is_beginning
            if boundary.begins != is_beginning:
                self.wrong.append(here)
        self.files += 1
        self.settled += found.is_sure
        self.right += found.is_sure and {part.pages.first for part in found.parts} == begins | {1}

    def show(self, title: str) -> None:
        """Print it."""
        sure = self.found + self.missed
        precision = self.found / max(self.found + self.invented, 1)
        recall = self.found / max(sure, 1)
        of_all = self.found / max(sure + self.doubtful, 1)
        typer.echo(
            f"{title}: {self.files} files; where sure, precision {precision:.4f}, recall {recall:.4f} "
            f"({self.found} right, {self.missed} missed, {self.invented} invented)\n"
            f"  of all beginnings {of_all:.4f} found; in doubt: {self.doubtful} beginnings, "
            f"{self.doubtful_inside} other pages; files without a doubt: {self.settled}, "
            f"of these right: {self.right}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; returns 1 where there is nothing to measure, or a sure boundary is wrong."""
    parser = argparse.ArgumentParser(prog="make bench-splitting", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=DATA)
    parser.add_argument("--rounds", type=int, default=200, help="files in each series")
    parser.add_argument("--brief", action="store_true", help="leave the list of doubts out")
    options = parser.parse_args(arguments)
    papers = list(_papers(options.folder))
    if len(papers) < _LEAST:
        typer.echo(f"No PDFs in {options.folder}; put https://github.com/ZUGFeRD/corpus there, or name another folder.")
        return 1
    whole, any_, distinct = Tally(), Tally(), Tally()
    started, count = time.perf_counter(), 0
    for paper in papers:
        whole.add([paper], split(paper.pages))
    for seed in range(options.rounds):
        rng = Random(seed)
        drawn = rng.sample(papers, min(rng.randint(_LEAST, _MOST), len(papers)))
        for tally, chosen in ((any_, drawn), (distinct, _without_twins(drawn))):
            content = [page for paper in chosen for page in paper.pages]
            count += len(content)
            tally.add(chosen, split(content))
    seconds = time.perf_counter() - started
    if not options.brief:
        for doubt in sorted(whole.doubts | any_.doubts):
            typer.echo(f"in doubt: {doubt}")
    for wrong in whole.wrong + any_.wrong + distinct.wrong:
        typer.echo(f"WRONG: {wrong}")
    typer.echo(f"each by itself: {whole.settled} of {whole.files} without a doubt, and {whole.right} of these right")
    any_.show("glued at random")
    distinct.show("glued, each number once")
    typer.echo(f"{len(papers)} documents; {1000 * seconds / max(count, 1):.1f} ms a page")
    return int(bool(whole.wrong or any_.wrong or distinct.wrong))


def _papers(folder: Path) -> Iterator[Paper]:
    for file in sorted(folder.rglob("*.pdf")):
        content = file.read_bytes()
        try:
            read = pages(content)
            stated = extract(content).structured_data or {}
        except InvalidDocumentError as error:
            typer.echo(f"{file.relative_to(folder)}: its number is not known: {error}")
            stated = {}
        if any(page.words for page in read):
            number = stated.get("invoice_number") or stated.get("credit_note_number") or file.stem
            yield Paper(file.stem, number, read)


def _beginnings(papers: Sequence[Paper]) -> Iterator[int]:
    """The pages, from 2, that a document begins with."""
    page = 1
    for paper in papers[:-1]:
        page += len(paper.pages)
        yield page


def _without_twins(papers: Sequence[Paper]) -> list[Paper]:
    return list({paper.number: paper for paper in papers}.values())


if __name__ == "__main__":
    sys.exit(main())
