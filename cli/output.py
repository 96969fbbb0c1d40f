"""Command-line output: results on stdout, progress and notes on stderr."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from cli.failures import UsageError

DONE = Text("✓", "green")
FAILED = Text("✗", "red")
BARS = " ▁▂▃▄▅▆▇█"
MIN_WIDTH = 100
"""Minimum width if the output is not a terminal, so that tables written to a file are not wrapped."""


class SafeConsole(Console):
    """A console that replaces control characters in data to protect the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield the segments to display, without control characters from data."""
        for segment in super().render(renderable, options):
            is_harmless = segment.control or all(
                character.isprintable() or character == "\n" for character in segment.text
            )
            yield segment if is_harmless else Segment(_sanitize(segment.text), segment.style)


_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


def _sanitize(text: str) -> str:
    return "".join(
        character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def stdout() -> Console:
    """Return a console for standard output, which shows results."""
    width = None if sys.stdout.isatty() else max(MIN_WIDTH, Console().width)
    return SafeConsole(width=width, highlight=False, markup=False)


def stderr() -> Console:
    """Return a console for standard error, which shows progress and notes."""
    return SafeConsole(stderr=True, highlight=False, markup=False)


def print_json(value: Any) -> None:
    """Print a JSON value to standard output."""
    sys.stdout.write(_json(value))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value to a file, and create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_json(value), encoding="utf-8")


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=1, default=str)
    return _NOT_ASCII.sub(lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text) + "\n"


class Checklist:
    """Sequential steps with their durations.

    On a terminal, the current step is animated.
    """

    def __init__(self) -> None:
        """Create an empty checklist."""
        self._console = stderr()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._title = ""
        self._began = 0.0
        self._task: TaskID | None = None

    def begin(self, title: str) -> None:
        """Start a step, and mark the previous one as succeeded."""
        self._finish(DONE)
        self._title, self._began = title, time.monotonic()
        self._task = self._progress.add_task(title, total=None)

    def progress(self, completed: int, total: int) -> None:
        """Update the progress of the current step."""
        if self._task is not None:
            self._progress.update(self._task, completed=completed, total=total)

    def note(self, sentence: str) -> None:
        """Print a note. `sentence` has no final period."""
        self._console.print(f"{sentence}.", style="yellow")

    def _finish(self, sign: Text) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
            duration = Text(f"({time.monotonic() - self._began:.1f} s)", "dim")
            self._console.print(sign, self._title, duration)

    @contextmanager
    def live(self) -> Iterator["Checklist"]:
        """Show the steps that the block begins.

        If the block raises, the last step is marked as failed.
        """
        with self._progress:
            try:
                yield self
            except BaseException:
                self._finish(FAILED)
                raise
            self._finish(DONE)


class Counters:
    """Progress bars for a known number of items, with one bar per stage.

    If the output is not a terminal, prints a plain line every few seconds.
    """

    LINE_SECONDS = 5

    def __init__(self, names: Sequence[str], total: int) -> None:
        """Create a bar for each name, with `total` items each."""
        self._console = stderr()
        self._names, self._total = names, total
        self._progress = Progress(
            TextColumn("{task.description:>10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks = [self._progress.add_task(name, total=total) for name in names]
        self._line, self._next = "", 0.0

    def show(self, counts: Sequence[int]) -> None:
        """Update the counts."""
        for task, count in zip(self._tasks, counts, strict=True):
            self._progress.update(task, completed=count)
        line = ", ".join(f"{name} {count}/{self._total}" for name, count in zip(self._names, counts, strict=True))
        due = time.monotonic() >= self._next or min(counts) == self._total
        if not self._console.is_terminal and line != self._line and due:
            self._console.print(line)
            self._line, self._next = line, time.monotonic() + self.LINE_SECONDS

    def __enter__(self) -> "Counters":
        """Start the display."""
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the display. The last counts stay on the screen."""
        self._progress.stop()


def tenant_table(slugs: Sequence[str], *columns: Column) -> tuple[Table, Callable[..., None]]:
    """Return a table and a function that adds a row.

    The table shows the tenant if there are several.
    """
    several = len(set(slugs)) > 1
    tenants = [Column("tenant", no_wrap=True)] if several else []
    table = Table(*tenants, *columns, box=None, pad_edge=False)

    def add(tenant: str, *cells: Text) -> None:
        table.add_row(*([Text(tenant)] if several else []), *cells)

    return table, add


def type_label(type_: str | None) -> str:
    """Return the display name of a document type."""
    return (type_ or "").replace("_", " ")


def facts_table(facts: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and values."""
    table = Table(
        Column(no_wrap=True, style="dim"), Column(overflow="fold"), box=None, pad_edge=False, show_header=False
    )
    for name, value in facts:
        table.add_row(name, Text(value))
    return table


def format_time(text: str, *, seconds: bool = False) -> str:
    """Format a time from the API (ISO 8601, UTC) as date and time of day."""
    return text[: 19 if seconds else 16].replace("T", " ")


def bars(numbers: Sequence[int], count: int) -> str:
    """Return `count` bars.

    Each bar is a sum of consecutive numbers, scaled to the largest sum.
    """
    size = len(numbers) // count
    sums = [sum(numbers[start : start + size]) for start in range(0, len(numbers), size)]
    highest = max(sums)
    return "".join(BARS[-(-total * (len(BARS) - 1) // highest)] if highest else BARS[0] for total in sums)


def is_list_requested(context: typer.Context, list_name: str) -> bool:
    """Return whether a group must list `list_name`, because no subcommand was given.

    Raises:
        UsageError: an option of the list precedes a subcommand, which would ignore it.
    """
    if context.invoked_subcommand is None:
        return True
    options = [
        option.opts[0]
        for option in context.command.params
        if (source := context.get_parameter_source(option.name or "")) is not None and source.name == "COMMANDLINE"
    ]
    if options:
        raise UsageError(
            f"{', '.join(options)} before '{context.invoked_subcommand}' applies to the list of {list_name}. "
            f"Remove it, or move it after '{context.invoked_subcommand}'."
        )
    return False
