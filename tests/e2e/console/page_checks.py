"""Layout and accessibility checks of pages.

Pages must satisfy axe rules and must not be wider than their screen. A screenshot of a page with a fault is stored
below build/console-pictures as `NAME-light.png`, `NAME-dark.png`, `NAME-narrow.png` or `NAME-huge.png`. With
COUNTERFOIL_CONSOLE_PICTURES=all, all four are stored for every page.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize, expect

from cli.local.paths import ROOT

SCREENSHOTS = ROOT / "build" / "console-pictures"
WIDE: ViewportSize = {"width": 1440, "height": 900}
NARROW: ViewportSize = {"width": 360, "height": 740}
"""Screen of the narrowest supported phone."""
HUGE: ViewportSize = {"width": 3840, "height": 2160}
"""Wall-mounted 4K screen."""
SIZES: dict[str, ViewportSize] = {"light": WIDE, "dark": WIDE, "narrow": NARROW, "huge": HUGE}
SERIOUS = {"serious", "critical"}
RULES: dict[str, Any] = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
"""All axe rules for WCAG 2.2 AA. `target-size` is off by default."""
COLOR_RULES: dict[str, Any] = {**RULES, "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""Color rules only, because the dark color scheme changes nothing else."""
TAKES_ALL = os.environ.get("COUNTERFOIL_CONSOLE_PICTURES") == "all"
_AXE = Axe()
_RUN = "(options) => axe.run(document, options).then((found) => found.violations)"

Mode = Literal["light", "dark", "narrow", "huge"]


def check_page(page: Page, name: str) -> None:
    """Check the current page in light and dark mode, on a phone and on a 4K screen.

    Raises:
        AssertionError: The page has faults. The message lists each fault with its screenshot.
    """
    expect(
        page.locator(".waiting"), "The page is still loading. Call `check_page` after its content has appeared."
    ).to_have_count(0)
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.axe_script)
    faults = [fault for mode in get_args(Mode) for fault in _faults(page, name, mode)]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDE)
    assert not faults, "\n".join([f"The page '{name}' has faults:", *faults])


def take_screenshot(page: Page, name: str) -> Path:
    """Take a screenshot of the whole page. Return its path."""
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=True, animations="disabled")
    return path


def size_on_huge_screen(page: Page, selector: str) -> tuple[float, float]:
    """Return an element's width and height in rem on a 4K screen.

    The element is the first that matches `selector`.
    """
    page.set_viewport_size(HUGE)
    rem = page.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize)")
    box = page.locator(selector).first.bounding_box()
    page.set_viewport_size(WIDE)
    assert box is not None, f"{selector} is not displayed"
    return box["width"] / rem, box["height"] / rem


def _faults(page: Page, name: str, mode: Mode) -> list[str]:
    page.set_viewport_size(SIZES[mode])
    page.emulate_media(color_scheme="dark" if mode == "dark" else "light")
    faults = list(_violations(page, mode))
    if not faults and not TAKES_ALL:
        return []
    screenshot = f"(see {take_screenshot(page, f'{name}-{mode}').relative_to(ROOT)})"
    return [f"- {mode}: {fault} {screenshot}" for fault in faults]


def _violations(page: Page, mode: Mode) -> Iterator[str]:
    width = page.evaluate("document.documentElement.scrollWidth")
    if width > page.evaluate("document.documentElement.clientWidth"):
        yield f"{width} pixels wide, which requires scrolling sideways"
    if mode == "huge":
        return  # a wide screen shows the same violations
    for violation in page.evaluate(_RUN, COLOR_RULES if mode == "dark" else RULES):
        if violation["impact"] in SERIOUS:
            yield f"{violation['help']} ({violation['id']}) at {_locations(violation)}"


def _locations(violation: dict[str, Any]) -> str:
    snippets = [node["html"][:160] for node in violation["nodes"][:3]]
    omitted = len(violation["nodes"]) - len(snippets)
    return ", ".join(snippets) + (f" and {omitted} more" if omitted else "")
