"""Locators of visible content on pages of the console."""

from playwright.sync_api import Locator, Page


def rows(page: Page, section: str) -> Locator:
    """Table rows of a section, without the header."""
    return page.get_by_role("region", name=section, exact=True).locator("tbody tr")


def fact(page: Page, name: str) -> Locator:
    """Value of a fact below the title of a page."""
    return page.locator(".facts div").filter(has=page.get_by_text(name, exact=True)).locator("dd")


def timeline_entries(page: Page) -> Locator:
    """Entries of a timeline, oldest first."""
    return page.locator("ol.timeline > li")
