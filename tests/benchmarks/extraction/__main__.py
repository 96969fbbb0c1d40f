"""Extract data from hybrid PDFs' text, and compare it with the embedded XML.

Run `make bench-extraction`. DATA=... selects a folder other than the sibling `../shared/data/zugferd`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import typer

from counterfoil.documents import pdf
from counterfoil.documents.extraction import extract
from counterfoil.documents.structured import ExtractionResult
from counterfoil.documents.text.page import pages
from counterfoil.errors import InvalidDocumentError
from tests.benchmarks.extraction.page_text import PageText
from tests.benchmarks.extraction.scoring import Counts, compare, compare_lines, header
from tests.documents.reference_reader import read_reference, xml_of_pdf
from tests.documents.test_extraction_corpus import as_reference

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "zugferd"
"""Folder with the ZUGFeRD corpus, which is half of https://github.com/ZUGFeRD/corpus."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report. Return 1 if the folder has no PDFs."""
    parser = argparse.ArgumentParser(prog="make bench-extraction", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=DATA)
    parser.add_argument("--brief", action="store_true", help="omit the list of misses")
    options = parser.parse_args(arguments)
    files = sorted(options.folder.rglob("*.pdf"))
    if not files:
        typer.echo(f"No PDFs in {options.folder}. Clone https://github.com/ZUGFeRD/corpus or name another folder.")
        return 1
    figures = measure(files, Path(options.folder), show=None if options.brief else typer.echo)
    _show(figures)
    return 0


@dataclass
class Figures:
    """Results for a folder: counts of header fields, line item fields and files."""

    heads: Counts = field(default_factory=Counts)
    lines: Counts = field(default_factory=Counts)
    hybrids: int = 0
    right_types: int = 0
    exact: int = 0
    seconds: float = 0.0


def measure(files: Iterable[Path], folder: Path, show: Callable[[str], None] | None = None) -> Figures:
    """Extract each hybrid PDF from its text, and compare it with its XML.

    Pass every miss to `show`.
    """
    figures = Figures()
    for file in files:
        content = file.read_bytes()
        try:
            truth = extract(content)
        except InvalidDocumentError as error:
            if show is not None:
                show(f"{file.relative_to(folder)}: not measured: {error}")
            continue
        if truth.method != "embedded-xml" or truth.structured_data is None:
            continue
        started = time.perf_counter()
        read = extract(content, text_only=True)
        figures.seconds += time.perf_counter() - started
        head, body = _compare(content, truth, read)
        figures.heads.add(head)
        figures.lines.add(body)
        figures.hybrids += 1
        figures.right_types += read.type == truth.type
        figures.exact += _matches_reference(content, truth)
        if show is not None:
            show("\n".join(_misses(str(file.relative_to(folder)), truth, read, head, body)))
    return figures


def _compare(content: bytes, truth: ExtractionResult, read: ExtractionResult) -> tuple[Counts, Counts]:
    page_text = PageText(pages(content))
    expected, got = truth.structured_data or {}, read.structured_data or {}
    head = compare(header(expected), header(got), page_text.states)
    body = compare_lines(expected.get("line_items", []), got.get("line_items", []), page_text.states)
    return head, body


def _matches_reference(content: bytes, truth: ExtractionResult) -> bool:
    xml = xml_of_pdf(content) or next((file.content for file in pdf.embedded_xml(content)), b"")
    return as_reference(truth) == read_reference(xml)


def _misses(file: str, truth: ExtractionResult, read: ExtractionResult, head: Counts, body: Counts) -> Iterator[str]:
    yield f"\n{file}: {head.right} correct in the header, {body.right} in line items"
    if read.type != truth.type:
        yield f"  type: expected {truth.type}, got {read.type} ({read.reason})"
    for name, expected, got in head.misses + body.misses:
        yield f"  {name}: expected {expected!r}, got {got!r}"
    for name, got in head.unjudged + body.unjudged:
        yield f"    (not in the XML) {name}: {got!r}"


def _show(figures: Figures) -> None:
    typer.echo(
        f"\n{figures.hybrids} hybrid PDFs extracted from text in {figures.seconds:.1f} s;"
        f" {figures.right_types} with the correct type"
    )
    typer.echo(f"{'':8}{'precision':>10}{'recall':>8}{'F1':>8}{'right':>7}{'wrong':>7}{'missed':>8}")
    for name, counts in (("header", figures.heads), ("lines", figures.lines)):
        for title, row in ((name, counts), ("  strict", counts.strict())):
            typer.echo(
                f"{title:8}{row.precision:10.4f}{row.recall:8.4f}{row.f1:8.4f}{row.right:7}{row.false:7}{row.missed:8}"
            )
        typer.echo(
            f"{'':8}counted only in `strict`: {counts.not_on_page} values in the XML but on no page"
            f" ({counts.not_on_page_but_read} of them extracted differently), {counts.beyond} not in the XML"
        )
    typer.echo(f"with XML: {figures.exact} of {figures.hybrids} files match the independent XML reader")


if __name__ == "__main__":
    sys.exit(main())
