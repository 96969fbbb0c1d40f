"""Checks of how a page looks: axe finds nothing serious, and nothing is wider than a phone.

A page with a fault leaves a picture below build/console-pictures, named `NAME-light.png`, `NAME-dark.png`,
`NAME-narrow.png` or `NAME-huge.png`. With COUNTERFOIL_CONSOLE_PICTURES=all, every page leaves all four.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize, expect

from cli.local.place import ROOT

PICTURES = ROOT / "build" / "console-pictures"
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 360, "height": 740}
"""The narrowest telephone that the console is made for."""
HUGE: ViewportSize = {"width": 3840, "height": 2160}
"""A screen of 4K, as it hangs on a wall."""
SIZES: dict[str, ViewportSize] = {"light": WIDE, "dark": WIDE, "narrow": NARROW, "huge": HUGE}
SERIOUS = {"serious", "critical"}
RULES: dict[str, Any] = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
"""All of WCAG 2.2 AA that axe knows: its rule about the size of targets is off unless it is asked for."""
COLOR_RULES: dict[str, Any] = {**RULES, "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules about colors, the only thing that the style sheet changes in dark."""
TAKES_ALL = os.environ.get("COUNTERFOIL_CONSOLE_PICTURES") == "all"
_AXE = Axe()
_RUN = "(options) => axe.run(document, options).then((found) => found.violations)"

Way = Literal["light", "dark", "narrow", "huge"]


def looks(page: Page, name: str) -> None:
    """Look at the page as it is now, in light, in dark, and in light on a phone and on a screen of 4K.

    Raises:
        AssertionError: says what is wrong, and which picture to look at.
    """
    expect(page.locator(".waiting"), "still loading; call `looks` when what is asked for is there").to_have_count(0)
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.axe_script)
    wrong = [fault for way in get_args(Way) for fault in _faults(page, name, way)]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDE)
    assert not wrong, "\n".join([f"The page '{name}' does not look right:", *wrong])


def picture(page: Page, name: str) -> Path:
    """Take a picture of the whole page. Returns where it is."""
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path, full_page=True, animations="disabled")
    return path


def size_when_huge(page: Page, selector: str) -> tuple[float, float]:
    """Width and height of the first such element on a screen of 4K, in letters (rem)."""
    page.set_viewport_size(HUGE)
    letter = page.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize)")
    box = page.locator(selector).first.bounding_box()
    page.set_viewport_size(WIDE)
    assert box is not None, f"{selector} is not displayed"
    return box["width"] / letter, box["height"] / letter


def _faults(page: Page, name: str, way: Way) -> list[str]:
    page.set_viewport_size(SIZES[way])
    page.emulate_media(color_scheme="dark" if way == "dark" else "light")
    faults = list(_found(page, way))
    if not faults and not TAKES_ALL:
        return []
    see = f"(see {picture(page, f'{name}-{way}').relative_to(ROOT)})"
    return [f"- {way}: {fault} {see}" for fault in faults]


def _found(page: Page, way: Way) -> Iterator[str]:
    widest = page.evaluate("document.documentElement.scrollWidth")
    if widest > page.evaluate("document.documentElement.clientWidth"):
        yield f"{widest} pixels wide, so that one has to scroll sideways"
    if way == "huge":
        return  # axe's findings are those of a page that is less wide
    for violation in page.evaluate(_RUN, COLOR_RULES if way == "dark" else RULES):
        if violation["impact"] in SERIOUS:
            yield f"{violation['help']} ({violation['id']}) at {_places(violation)}"


def _places(violation: dict[str, Any]) -> str:
    shown = [node["html"][:160] for node in violation["nodes"][:3]]
    more = len(violation["nodes"]) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
