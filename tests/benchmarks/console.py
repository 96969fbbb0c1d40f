"""`python -m tests.benchmarks.console`: how soon the console can be used, in a browser that has nothing of it yet."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import typer
from playwright.sync_api import Browser, BrowserContext, Response, expect, sync_playwright

from cli.local.cloud import Cloud
from cli.local.console import EVERY_TENANT
from cli.local.place import Place
from tests.e2e.conftest import CommandLine
from tests.e2e.console.looks import WIDE
from tests.e2e.console.people import SESSION, People, sign_in
from tests.e2e.console.reading import rows
from tools.setup import WAY_TO_BROWSER, browser

GOAL_MS = 1000.0
PATIENCE_MS = 60_000
FIRST = "overview"
"""The view that people come to."""


@dataclass(frozen=True)
class Load:
    """What one visit took, in milliseconds from the beginning of the navigation, and over the line."""

    seen: float
    """Until the view's own content is displayed."""
    usable: float
    """Until a key that was pressed then has done what it is for."""
    bytes: int
    """Heads and bodies of all answers, compressed as they are sent."""


def run(
    loads: Annotated[int, typer.Option(min=2, help="How often the console is loaded.")] = 10,
    cloud: Annotated[
        Path | None, typer.Option(help="Folder of a local cloud that is up. Else one for the run.")
    ] = None,
) -> None:
    """Load the console again and again with nothing kept, and a bare page of the same server between."""
    found = browser()
    if found is None:
        print(WAY_TO_BROWSER, file=sys.stderr)  # noqa: T201  # a command's
        raise typer.Exit(1)
    with _up(cloud) as up, sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)
        chromium = playwright.chromium.launch(executable_path=found)
        session, icon = signed_in(chromium, up)
        first = visit(chromium, up.console_url, session)
        pairs = [(visit(chromium, up.console_url, session), bare(chromium, icon)) for _ in range(loads)]
        chromium.close()
    print(f"{loads} loads; the first of all, while functions start, was usable after {first.usable:.0f} ms")  # noqa: T201
    visits, alone = [one for one, _ in pairs], [one for _, one in pairs]
    for line in report(visits, alone):
        print(line)  # noqa: T201
    if share_95([one.usable for one in visits]) > GOAL_MS:
        raise typer.Exit(1)


def report(visits: Sequence[Load], alone: Sequence[float]) -> list[str]:
    """A table: each figure at p50 and p95, and as many times the bare page's at p50."""
    unit = median(alone)
    figures = {
        "content displayed": [one.seen for one in visits],
        "a key does something": [one.usable for one in visits],
        "bare page of the same server": alone,
    }
    lines = [f"{'':32}{'p50 ms':>9}{'p95 ms':>9}{'x bare':>9}"]
    lines += [
        f"{name:32}{median(took):9.0f}{share_95(took):9.0f}{median(took) / unit:9.1f}" for name, took in figures.items()
    ]
    return [*lines, f"{'bytes over the line':32}{max(one.bytes for one in visits):9}"]


def share_95(values: Sequence[float]) -> float:
    """What 95 of 100 are not above."""
    return quantiles(values, n=20, method="inclusive")[-1]


def signed_in(chromium: Browser, cloud: Cloud) -> tuple[str, str]:
    """What the tab of somebody who signed in keeps, and the address of the smallest file of the console."""
    page = chromium.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(cloud.console_url)
    sign_in(page, People(cloud).person("viewer", EVERY_TENANT))
    kept = str(page.evaluate(f"sessionStorage.getItem('{SESSION}')"))
    icon = str(page.evaluate("document.querySelector('link[rel=icon]').href"))
    page.close()
    return kept, icon


def visit(chromium: Browser, url: str, session: str) -> Load:
    """Load the console in a browser that has nothing but the token."""
    with _fresh(chromium) as context:
        context.add_init_script(f"sessionStorage.setItem({SESSION!r}, {session!r})")
        page = context.new_page()
        answers: list[Response] = []
        page.on("response", lambda answer: answers.append(answer))  # noqa: PLW0108  # Playwright marks its handlers
        began = perf_counter()
        page.goto(f"{url}/{FIRST}", wait_until="commit")
        rows(page, "Queues").first.wait_for()
        seen = perf_counter()
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        usable = perf_counter()
        return Load((seen - began) * 1000, (usable - began) * 1000, _bytes(answers))


def bare(chromium: Browser, url: str) -> float:
    """Milliseconds until a page without scripts or styles is loaded."""
    with _fresh(chromium) as context:
        page = context.new_page()
        began = perf_counter()
        page.goto(url)
        return (perf_counter() - began) * 1000


def _bytes(answers: Sequence[Response]) -> int:
    sizes = [answer.request.sizes() for answer in answers]
    return sum(size["responseBodySize"] + size["responseHeadersSize"] for size in sizes)


@contextmanager
def _fresh(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(viewport=WIDE)
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@contextmanager
def _up(folder: Path | None) -> Iterator[Cloud]:
    """The cloud that is named, or one that is taken down after."""
    if folder is not None:
        yield Cloud.at(Place(folder.resolve()))
        return
    with TemporaryDirectory(prefix="counterfoil-console-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o711)  # root's PostgreSQL runs as nobody
        line = CommandLine(Path(made).resolve() / "cloud")
        try:
            line.run("up")
            yield Cloud.at(Place(line.folder))
        finally:
            line.run("down")


if __name__ == "__main__":
    typer.run(run)
