"""The console in a real browser, on the test cloud.

Example of a test:

    def test_dead_letters_are_found_by_error_text(console: Console, failures: FailureFactory, tenant: Tenant) -> None:
        failures.fail_messages(tenant, ["first", "second"])       # Tasks really fail and create dead letters.
        page = console.open("operator", tenant, "dead-letters")   # The user is signed in at this address.
        page.get_by_label("Error, file or ID").fill("model")      # Find elements by their visible names.
        page.keyboard.press("Enter")
        expect(rows(page, "Dead letters")).to_have_count(2)       # Playwright waits, so tests never sleep.
        check_page(page, "dead-letters-found")                    # Check axe rules, phones and 4K screens.

- A test that changes dead letters uses the new tenant `tenant` and creates its own dead letters. A test that only reads
  uses a shared tenant: `failed_tenant` has dead letters of every kind, and `matched_cluster.tenant` has one matched
  cluster.
- `console.open(role, tenant, path)` opens the console for this tenant, signed in as a user with access to all tenants.
  Tests share one sign-in per role. With `own_context=True`, the user has access to this tenant only, which requires
  another sign-in. `console.open_signed_out(path)` opens the console without signing in, and `console_users.sign_in`
  signs in. `page.context.new_page()` opens another tab.
- A test fails at its end if the browser reported an error on its console, a failed script or a request to another
  origin. Violations of the content security policy are errors on the console.
- `check_page(page, name)` checks a page. If the page has a fault, a screenshot is stored below build/console-pictures.
  With COUNTERFOIL_CONSOLE_PICTURES=all, a screenshot of every page is stored. A failed test stores and reports a
  screenshot of each open tab below build/console-pictures/failed.
- On a running cloud, tests start without delay. Changed code is deployed first:
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
from cli.local.console import ALL_TENANTS, Role
from cli.local.paths import ROOT
from cli.local.tenants import Tenant, add_tenant
from cli.local.uploads import upload, wait_for
from tests.e2e.console.ambiguous_invoices import SEED
from tests.e2e.console.browser_faults import FaultRecorder
from tests.e2e.console.console_users import SESSION, ConsoleUsers, sign_in
from tests.e2e.console.failures import FailureFactory, Model, configure_model
from tests.e2e.console.page_checks import SCREENSHOTS, WIDE, take_screenshot
from tools.sample_generator.cases import generate_cases
from tools.setup import BROWSER_HINT, browser

REQUIRE_VARIABLE = "COUNTERFOIL_BROWSER_TESTS"
"""Environment variable. If it is `required`, these tests fail instead of being skipped if there is no browser."""
ACCOUNT = "DE89370400440532013000"
"""Account number in the name of one of `failed_tenant`'s files. Only admins may see it."""
TIMEOUT_MS = 60_000
"""Playwright's timeout in milliseconds. An API process may have to start first."""
_STORE_SESSION = """([name, value]) => {
    if (location.origin !== "null" && !sessionStorage.getItem("tests.given")) {
        sessionStorage.setItem("tests.given", "once");
        localStorage.clear();
        sessionStorage.setItem(name, value);
    }
}"""
"""Script that stores a tab's tokens once, because a test may sign out, and clears settings from earlier tests."""


@dataclass
class Console:
    """Opens tabs of the console and records browser faults."""

    chromium: Browser
    people: ConsoleUsers
    shared: dict[Role, tuple[BrowserContext, FaultRecorder]]
    """Contexts for users with access to all tenants, by role. A new context takes a process and 1 s of CPU time."""
    recorders: dict[BrowserContext, FaultRecorder] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """URL of the console, without a trailing slash."""
        return self.people.cloud.console_url

    def open_blank(self) -> Page:
        """Open an empty tab in a new browser context."""
        return self._context().new_page()

    def open_signed_out(self, path: str = "") -> Page:
        """Open a path of the console without signing in."""
        page = self.open_blank()
        page.goto(f"{self.url}/{path}" if path else self.url)
        return page

    def open(self, role: Role, tenant: Tenant, path: str = "dead-letters", *, own_context: bool = False) -> Page:
        """Open a path of the console for a tenant, signed in as a user with this role."""
        context = self._signed_in(role, tenant.slug) if own_context else self._shared(role)
        page = context.new_page()
        page.goto(f"{self.url}/{path}{'&' if '?' in path else '?'}{urlencode({'tenant': tenant.slug})}")
        page.get_by_role("button", name="Sign out").wait_for()
        return page

    def _shared(self, role: Role) -> BrowserContext:
        if role not in self.shared:
            context = self._signed_in(role, ALL_TENANTS)
            self.shared[role] = context, self.recorders[context]
        context, recorder = self.shared[role]
        self.recorders[context] = recorder
        return context

    def _signed_in(self, role: Role, slug: str) -> BrowserContext:
        session = self._session(role, slug)
        context = self._context()
        context.add_init_script(f"({_STORE_SESSION})({[SESSION, session]!r})")
        return context

    def _session(self, role: Role, slug: str) -> str:
        """Return a user's stored session. The first call signs the user in."""
        key = (role, slug)
        if key not in self.people.sessions:
            page = self.open_signed_out()
            sign_in(page, self.people.user(role, slug))
            self.people.sessions[key] = page.evaluate(f"sessionStorage.getItem('{SESSION}')")
            page.context.close()
        return self.people.sessions[key]

    def _context(self) -> BrowserContext:
        context = self.chromium.new_context(
            viewport=WIDE, locale="en-GB", timezone_id="Europe/Berlin", reduced_motion="reduce", color_scheme="light"
        )
        context.set_default_timeout(TIMEOUT_MS)
        url = urlsplit(self.url)
        self.recorders[context] = FaultRecorder(context, f"{url.scheme}://{url.netloc}")
        return context

    def pages(self) -> Iterator[Page]:
        """Yield the open tabs."""
        for context in self.recorders:
            yield from context.pages

    def close(self) -> list[str]:
        """Close every tab of the test, and return the recorded faults."""
        shared = {context for context, _ in self.shared.values()}
        for context in self.recorders:
            if context not in shared:
                context.close()
                continue
            for page in context.pages:
                page.close()
            context.clear_cookies()
        faults = [fault for recorder in self.recorders.values() for fault in recorder.faults]
        for recorder in self.recorders.values():
            recorder.faults.clear()
        return faults


@pytest.fixture(scope="session")
def clean_screenshots() -> None:
    """Delete screenshots of earlier failed tests."""
    for path in (SCREENSHOTS / "failed").glob("*.png"):
        path.unlink()


@pytest.fixture(scope="package")
def chromium(clean_screenshots: None) -> Iterator[Browser]:
    """Start the machine's browser. Playwright's event loop runs in this thread."""
    executable = browser()
    if executable is None:
        reason = f"There is no Chromium on this machine. {BROWSER_HINT}"
        assert os.environ.get(REQUIRE_VARIABLE) != "required", reason
        pytest.skip(reason)
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        launched_browser = playwright.chromium.launch(executable_path=executable)
        yield launched_browser
        launched_browser.close()


@pytest.fixture(scope="package")
def shared_contexts(chromium: Browser) -> dict[Role, tuple[BrowserContext, FaultRecorder]]:
    """Browser contexts that tests share, by role."""
    return {}


@pytest.fixture(scope="session")
def users(cloud: Cloud) -> ConsoleUsers:
    """The test cloud's users."""
    return ConsoleUsers(cloud)


@pytest.fixture(scope="session")
def failures(cloud: Cloud, users: ConsoleUsers) -> Iterator[FailureFactory]:
    """Factory that creates dead letters through real failures."""
    model = Model()
    with model:
        configure_model(cloud, model)
        yield FailureFactory(cloud, users, model)


@pytest.fixture
def console(
    chromium: Browser,
    users: ConsoleUsers,
    shared_contexts: dict[Role, tuple[BrowserContext, FaultRecorder]],
    request: pytest.FixtureRequest,
) -> Iterator[Console]:
    """The console. The test fails at its end if a fault was recorded."""
    console = Console(chromium, users, shared_contexts)
    yield console
    if len(faults := console.close()):
        pytest.fail("\n".join([f"{request.node.name}: the browser recorded faults.", *faults]), pytrace=False)


@pytest.fixture(scope="session")
def failed_tenant(cloud: Cloud, failures: FailureFactory, tmp_path_factory: pytest.TempPathFactory) -> Tenant:
    """A tenant with dead letters from files and tasks, which tests must not change."""
    tenant = add_tenant(cloud, f"shown-{uuid4().hex[:6]}")[0]
    folder = tmp_path_factory.mktemp("files")
    for number in range(3):
        (folder / f"broken-{number}.pdf").write_bytes(b"%PDF-1.7\n" + bytes([number]) * 200)
    (folder / f"{ACCOUNT}.xml").write_text("<Invoice><unclosed></Invoice>")
    failures.upload_unreadable(tenant, sorted(folder.iterdir()))
    failures.fail_messages(tenant, ["Where is my order?", "Where is my invoice?"])
    return tenant


@dataclass(frozen=True)
class MatchedCluster:
    """A tenant with one cluster of matched documents."""

    tenant: Tenant
    order: str
    """Number of the purchase order."""


CLUSTER_FILES = 3
"""Number of documents: a purchase order, a delivery note, and a PDF invoice for more than was delivered."""


@pytest.fixture(scope="session")
def matched_cluster(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> MatchedCluster:
    """A matched cluster for tests that only read documents and clusters."""
    tenant = add_tenant(cloud, f"matched-{uuid4().hex[:6]}")[0]
    folder = tmp_path_factory.mktemp("cluster")
    files = generate_cases(SEED).files()[:CLUSTER_FILES]
    for name, content in files:
        (folder / name).write_bytes(content)
    uploaded = list(upload(cloud, tenant, [folder / name for name, _ in files]))
    assert all(outcome.state.is_final for outcome in wait_for(cloud, uploaded, 120))
    return MatchedCluster(tenant, files[0][0].removeprefix("purchase_order-").removesuffix(".xml"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Store screenshots of a failed test's open tabs, and report their paths."""
    report = yield
    console = getattr(item, "funcargs", {}).get("console")
    if report.when == "call" and report.failed and isinstance(console, Console):
        report.sections.append(("Screenshots", "\n".join(_pictures(item.name, console)) or "No tab was open."))
    return report


def _pictures(name: str, console: Console) -> Iterator[str]:
    for number, page in enumerate(console.pages(), 1):
        try:
            path = take_screenshot(page, f"failed/{name}-{number}")
            yield f"{path.relative_to(ROOT)}: {page.url}"
        except BrowserError as error:
            yield f"no screenshot of {page.url}: {error.message}"
