"""Measure how fast the console loads with an empty cache.

Run `python -m tests.benchmarks.console`.
"""

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
from cli.local.console import ALL_TENANTS
from cli.local.paths import CloudPaths
from tests.e2e.conftest import CommandLine
from tests.e2e.console.console_users import SESSION, ConsoleUsers, sign_in
from tests.e2e.console.locators import rows
from tests.e2e.console.page_checks import WIDE
from tools.setup import BROWSER_HINT, browser

GOAL_MS = 1000.0
TIMEOUT_MS = 60_000
START_VIEW = "overview"
"""Name of the first view after sign-in."""


@dataclass(frozen=True)
class Load:
    """Transferred bytes and load times of one visit.

    The times are in milliseconds since navigation started.
    """

    seen: float
    """Milliseconds until the view's content is displayed."""
    usable: float
    """Milliseconds until the page has reacted to a key press, sent once the content is displayed."""
    bytes: int
    """Compressed size of all responses, including headers."""


def run(
    loads: Annotated[int, typer.Option(min=2, help="Number of loads.")] = 10,
    cloud: Annotated[
        Path | None, typer.Option(help="Folder of a running local cloud. Default: a temporary local cloud.")
    ] = None,
) -> None:
    """Load the console with an empty cache, alternating with a bare page.

    Fail if the p95 of the time until the console is usable exceeds one second.
    """
    found = browser()
    if found is None:
        print(BROWSER_HINT, file=sys.stderr)  # noqa: T201  # command output
        raise typer.Exit(1)
    with _running_cloud(cloud) as up, sync_playwright() as playwright:
        expect.set_options(timeout=TIMEOUT_MS)
        chromium = playwright.chromium.launch(executable_path=found)
        session, icon = start_session(chromium, up)
        first = visit(chromium, up.console_url, session)
        pairs = [(visit(chromium, up.console_url, session), load_bare_page(chromium, icon)) for _ in range(loads)]
        chromium.close()
    print(f"{loads} loads; the cold start took {first.usable:.0f} ms")  # noqa: T201
    visits, alone = [load for load, _ in pairs], [milliseconds for _, milliseconds in pairs]
    for line in report(visits, alone):
        print(line)  # noqa: T201
    if p95([one.usable for one in visits]) > GOAL_MS:
        raise typer.Exit(1)


def report(visits: Sequence[Load], alone: Sequence[float]) -> list[str]:
    """Return a table of p50, p95, and the ratio of p50 to the p50 of the bare page.

    The last line is the maximum number of transferred bytes.
    """
    unit = median(alone)
    figures = {
        "content displayed": [one.seen for one in visits],
        "usable": [one.usable for one in visits],
        "bare page from the same server": alone,
    }
    lines = [f"{'':32}{'p50 ms':>9}{'p95 ms':>9}{'x bare':>9}"]
    lines += [
        f"{name:32}{median(took):9.0f}{p95(took):9.0f}{median(took) / unit:9.1f}" for name, took in figures.items()
    ]
    return [*lines, f"{'bytes transferred':32}{max(one.bytes for one in visits):9}"]


def p95(values: Sequence[float]) -> float:
    """Return the 95th percentile, interpolated between values."""
    return quantiles(values, n=20, method="inclusive")[-1]


def start_session(chromium: Browser, cloud: Cloud) -> tuple[str, str]:
    """Sign in.

    Return the stored session and the URL of the console's icon, its smallest file.
    """
    page = chromium.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(cloud.console_url)
    sign_in(page, ConsoleUsers(cloud).user("viewer", ALL_TENANTS))
    session = str(page.evaluate(f"sessionStorage.getItem('{SESSION}')"))
    icon = str(page.evaluate("document.querySelector('link[rel=icon]').href"))
    page.close()
    return session, icon


def visit(chromium: Browser, url: str, session: str) -> Load:
    """Load the console in a new browser context that is signed in with `session`."""
    with _new_context(chromium) as context:
        context.add_init_script(f"sessionStorage.setItem({SESSION!r}, {session!r})")
        page = context.new_page()
        answers: list[Response] = []
        page.on("response", lambda answer: answers.append(answer))  # noqa: PLW0108  # Playwright sets attributes on handlers
        start = perf_counter()
        page.goto(f"{url}/{START_VIEW}", wait_until="commit")
        rows(page, "Queues").first.wait_for()
        seen = perf_counter()
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        usable = perf_counter()
        return Load((seen - start) * 1000, (usable - start) * 1000, _bytes(answers))


def load_bare_page(chromium: Browser, url: str) -> float:
    """Return the milliseconds to load a page without scripts or styles."""
    with _new_context(chromium) as context:
        page = context.new_page()
        start = perf_counter()
        page.goto(url)
        return (perf_counter() - start) * 1000


def _bytes(answers: Sequence[Response]) -> int:
    sizes = [answer.request.sizes() for answer in answers]
    return sum(size["responseBodySize"] + size["responseHeadersSize"] for size in sizes)


@contextmanager
def _new_context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(viewport=WIDE)
    context.set_default_timeout(TIMEOUT_MS)
    yield context
    context.close()


@contextmanager
def _running_cloud(folder: Path | None) -> Iterator[Cloud]:
    """Yield the local cloud in `folder`, or a temporary one if `folder` is None."""
    if folder is not None:
        yield Cloud.at(CloudPaths(folder.resolve()))
        return
    with TemporaryDirectory(prefix="counterfoil-console-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o711)  # under root, PostgreSQL runs as the user `nobody`
        line = CommandLine(Path(made).resolve() / "cloud")
        try:
            line.run("up")
            yield Cloud.at(CloudPaths(line.folder))
        finally:
            line.run("down")


if __name__ == "__main__":
    typer.run(run)
