"""Page checks report each fault and store a screenshot."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from cli.local.cloud import Cloud
from cli.local.paths import ROOT
from tests.e2e.console.browser_faults import FaultRecorder
from tests.e2e.console.page_checks import check_page
from tests.e2e.polling import wait_until

pytestmark = pytest.mark.e2e

OTHER_ORIGIN = "http://127.0.0.2:9"


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context()
    yield context
    context.close()


@pytest.fixture
def recorder(context: BrowserContext, cloud: Cloud) -> FaultRecorder:
    return FaultRecorder(context, cloud.state.emulator.endpoint)


@pytest.fixture
def page(context: BrowserContext, recorder: FaultRecorder, cloud: Cloud) -> Page:
    """The sign-in page, without faults."""
    page = context.new_page()
    page.goto(cloud.console_url)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert recorder.faults == []
    return page


def test_request_to_another_origin_is_reported(page: Page, recorder: FaultRecorder) -> None:
    page.evaluate(f"""() => {{
        const script = document.createElement("img");
        script.src = "{OTHER_ORIGIN}/pixel.png";
        document.body.append(script);
    }}""")
    wait_until(lambda: recorder.faults or page.title() is None)

    assert any("Content Security Policy" in fault for fault in recorder.faults), recorder.faults


def test_unsafe_html_is_refused_and_reported(page: Page, recorder: FaultRecorder) -> None:
    errors = page.evaluate("""() => {
        try { document.body.innerHTML = "<b>text</b>"; return false; } catch { return true; }
    }""")
    assert errors
    wait_until(lambda: recorder.faults or page.title() is None)

    assert any("TrustedHTML" in fault for fault in recorder.faults), recorder.faults


def test_inaccessible_page_fails_the_check(page: Page) -> None:
    page.evaluate("""() => {
        const [image, wide] = [document.createElement("img"), document.createElement("p")];
        wide.textContent = "broad".repeat(200);
        wide.style.color = "rgb(40, 40, 40)";
        document.querySelector("main").append(image, wide);
    }""")

    with pytest.raises(AssertionError) as caught:
        check_page(page, "frame-wrong")

    lines = str(caught.value).splitlines()
    for mode in ("light", "narrow"):
        assert any("(image-alt)" in line and line.startswith(f"- {mode}") for line in lines)
    assert [line.split(":")[0] for line in lines if "(color-contrast)" in line] == ["- dark"]
    assert any("sideways" in line and line.startswith("- narrow") for line in lines)
    for line in lines[1:]:
        assert (ROOT / line.rsplit("(see ", 1)[1].removesuffix(")")).stat().st_size > 1000
