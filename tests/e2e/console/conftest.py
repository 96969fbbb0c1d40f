"""The console in a real browser, on the tests' local cloud.

How a flow is written:

    def test_a_letter_is_found_by_its_words(console: Console, failing: Failing, tenant: Tenant) -> None:
        failing.tasks(tenant, ["first", "second"])                   # work that really fails becomes letters
        page = console.opened("operator", tenant, "dead-letters")    # signed in, at this address of the console
        page.get_by_label("Words of the error").fill("model")        # what people see names what is meant
        page.keyboard.press("Enter")
        expect(rows(page, "Letters")).to_have_count(2)               # Playwright waits; nothing sleeps
        looks(page, "dead-letters-found")                            # axe, phones, and 4K

- A test that changes dead letters takes `tenant`, which is new, and makes its dead letters. One that only reads takes
  `shown`, a tenant with dead letters of every kind, or `matched`, a tenant with a matched case.
- `console.opened(role, tenant, at)` signs in somebody who sees every tenant, once per role for all tests, and opens the
  console for this one. `alone=True`: somebody who sees this tenant and no other; that is a sign-in for each tenant.
  `console.stranger(at)` is not signed in; `people.sign_in` does that. More tabs: `page.context.new_page()`.
- Whatever goes wrong unseen fails the test at its end: errors on the browser's console, violations of the content
  security policy, failures of scripts, requests to any other origin.
- `looks(page, name)` keeps a picture of a page with a fault below build/console-pictures, or with
  COUNTERFOIL_CONSOLE_PICTURES=all of every page. A test that fails keeps one of each tab that was open below
  build/console-pictures/failed, and names it.
- On a cloud that is up already, tests begin at once (it is deployed again where the code has changed):
  COUNTERFOIL_E2E_CLOUD=.local/cloud .venv/bin/python -m pytest tests/e2e/console
"""

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from playwright.sync_api import Error as BrowserError

from cli.local.cloud import Cloud
from cli.local.console import EVERY_TENANT, Role
from cli.local.place import ROOT
from cli.local.tenants import Tenant, add_tenant
from cli.local.uploads import upload, wait_for
from tests.e2e.console.doubt import SEED
from tests.e2e.console.failing import Failing, Model, tell
from tests.e2e.console.looks import PICTURES, WIDE, picture
from tests.e2e.console.people import SESSION, People, sign_in
from tests.e2e.console.watching import Watch
from tools.sample_generator.cases import generate_cases
from tools.setup import WAY_TO_BROWSER, browser

REQUIRED = "COUNTERFOIL_BROWSER_TESTS"
"""Set to `required`, a machine without a browser fails these tests instead of skipping them."""
ACCOUNT = "DE89370400440532013000"
"""An account number that is the name of a file of `shown`: of those that look, an admin alone may see it."""
PATIENCE = 60_000
"""Milliseconds for which Playwright waits: a process that answers the API may have to start first."""
_GIVE = """([name, value]) => {
    if (location.origin !== "null" && !sessionStorage.getItem("tests.given")) {
        sessionStorage.setItem("tests.given", "once");
        localStorage.clear();
        sessionStorage.setItem(name, value);
    }
}"""
"""Give tokens once, because each tab stores its own and a test may sign out. Start without choices of earlier tests."""


@dataclass
class Console:
    """Opens the console, and watches over what it does."""

    chromium: Browser
    people: People
    shared: dict[Role, tuple[BrowserContext, Watch]]
    """Contexts of people of every tenant. A new context takes a process and loads the console again: 1 s of CPU."""
    watches: dict[BrowserContext, Watch] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where it is, without a slash at the end."""
        return self.people.cloud.console_url

    def blank(self) -> Page:
        """A tab of a browser that was never here."""
        return self._context().new_page()

    def stranger(self, at: str = "") -> Page:
        """Open an address below the console's, as somebody who is not signed in."""
        page = self.blank()
        page.goto(f"{self.url}/{at}" if at else self.url)
        return page

    def opened(self, role: Role, tenant: Tenant, at: str = "dead-letters", *, alone: bool = False) -> Page:
        """Open an address below the console's, signed in, for a tenant."""
        context = self._signed_in(role, tenant.slug) if alone else self._shared(role)
        page = context.new_page()
        page.goto(f"{self.url}/{at}{'&' if '?' in at else '?'}{urlencode({'tenant': tenant.slug})}")
        page.get_by_role("button", name="Sign out").wait_for()
        return page

    def _shared(self, role: Role) -> BrowserContext:
        if role not in self.shared:
            context = self._signed_in(role, EVERY_TENANT)
            self.shared[role] = context, self.watches[context]
        context, watch = self.shared[role]
        self.watches[context] = watch
        return context

    def _signed_in(self, role: Role, slug: str) -> BrowserContext:
        session = self._session(role, slug)
        context = self._context()
        context.add_init_script(f"({_GIVE})({[SESSION, session]!r})")
        return context

    def _session(self, role: Role, slug: str) -> str:
        """What the tab of such a person keeps, who signs in where nobody did."""
        key = (role, slug)
        if key not in self.people.sessions:
            page = self.stranger()
            sign_in(page, self.people.person(role, slug))
            self.people.sessions[key] = page.evaluate(f"sessionStorage.getItem('{SESSION}')")
            page.context.close()
        return self.people.sessions[key]

    def _context(self) -> BrowserContext:
        context = self.chromium.new_context(
            viewport=WIDE, locale="en-GB", timezone_id="Europe/Berlin", reduced_motion="reduce", color_scheme="light"
        )
        context.set_default_timeout(PATIENCE)
        url = urlsplit(self.url)
        self.watches[context] = Watch(context, f"{url.scheme}://{url.netloc}")
        return context

    def pages(self) -> Iterator[Page]:
        """The tabs that are open."""
        for context in self.watches:
            yield from context.pages

    def close(self) -> list[str]:
        """Close every tab. Returns what went wrong unseen."""
        shared = {context for context, _ in self.shared.values()}
        for context in self.watches:
            if context not in shared:
                context.close()
                continue
            for page in context.pages:
                page.close()
            context.clear_cookies()
        faults = [fault for watch in self.watches.values() for fault in watch.faults]
        for watch in self.watches.values():
            watch.faults.clear()
        return faults


@pytest.fixture(scope="session")
def fresh_pictures() -> None:
    """Pictures of failures are those of this run."""
    for path in (PICTURES / "failed").glob("*.png"):
        path.unlink()


@pytest.fixture(scope="package")
def chromium(fresh_pictures: None) -> Iterator[Browser]:
    """The machine's browser. Playwright's loop runs in this thread, and so for no longer than these tests do."""
    found = browser()
    if found is None:
        reason = f"There is no Chromium on this machine. {WAY_TO_BROWSER}"
        assert os.environ.get(REQUIRED) != "required", reason
        pytest.skip(reason)
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found)
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def shared(chromium: Browser) -> dict[Role, tuple[BrowserContext, Watch]]:
    """Contexts that tests share, by role."""
    return {}


@pytest.fixture(scope="session")
def people(cloud: Cloud) -> People:
    """Whoever signs in."""
    return People(cloud)


@pytest.fixture(scope="session")
def failing(cloud: Cloud, people: People) -> Iterator[Failing]:
    """What makes dead letters."""
    model = Model()
    with model:
        tell(cloud, model)
        yield Failing(cloud, people, model)


@pytest.fixture
def console(
    chromium: Browser,
    people: People,
    shared: dict[Role, tuple[BrowserContext, Watch]],
    request: pytest.FixtureRequest,
) -> Iterator[Console]:
    """The console, closed at the test's end, when nothing may have gone wrong unseen."""
    console = Console(chromium, people, shared)
    yield console
    if len(faults := console.close()):
        pytest.fail("\n".join([f"{request.node.name}: the browser was not content.", *faults]), pytrace=False)


@pytest.fixture(scope="session")
def shown(cloud: Cloud, failing: Failing, tmp_path_factory: pytest.TempPathFactory) -> Tenant:
    """A tenant with dead letters of every kind, to be looked at and not to be changed: files, and tasks."""
    tenant = add_tenant(cloud, f"shown-{uuid4().hex[:6]}")[0]
    folder = tmp_path_factory.mktemp("files")
    for number in range(3):
        (folder / f"broken-{number}.pdf").write_bytes(b"%PDF-1.7\n" + bytes([number]) * 200)
    (folder / f"{ACCOUNT}.xml").write_text("<Invoice><unclosed></Invoice>")
    failing.files(tenant, sorted(folder.iterdir()))
    failing.tasks(tenant, ["Where is my order?", "Where is my invoice?"])
    return tenant


@dataclass(frozen=True)
class Matched:
    """A tenant with the documents of one case, matched."""

    tenant: Tenant
    order: str
    """Number of the purchase order."""


CASE = 3
"""Documents of this case: an order, a delivery note, and an invoice as a PDF that bills more than was delivered."""


@pytest.fixture(scope="session")
def matched(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Matched:
    """A case for every test that reads documents and clusters and changes none."""
    tenant = add_tenant(cloud, f"matched-{uuid4().hex[:6]}")[0]
    folder = tmp_path_factory.mktemp("case")
    files = generate_cases(SEED).files()[:CASE]
    for name, content in files:
        (folder / name).write_bytes(content)
    uploaded = list(upload(cloud, tenant, [folder / name for name, _ in files]))
    assert all(outcome.state.is_final for outcome in wait_for(cloud, uploaded, 120))
    return Matched(tenant, files[0][0].removeprefix("purchase_order-").removesuffix(".xml"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails leaves a picture of each tab, and says where it is."""
    report = yield
    console = getattr(item, "funcargs", {}).get("console")
    if report.when == "call" and report.failed and isinstance(console, Console):
        report.sections.append(("Pictures", "\n".join(_pictures(item.name, console)) or "no tab was open"))
    return report


def _pictures(name: str, console: Console) -> Iterator[str]:
    for number, page in enumerate(console.pages(), 1):
        try:
            path = picture(page, f"failed/{name}-{number}")
            yield f"look at {path.relative_to(ROOT)}: {page.url}"
        except BrowserError as error:
            yield f"no picture of {page.url}: {error.message}"
