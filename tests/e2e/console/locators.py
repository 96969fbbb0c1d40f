"""Locators for visible content on the console's pages."""

from playwright.sync_api import Locator, Page


def rows(page: Page, section: str) -> Locator:
    """Return the table rows of a section, excluding the header."""
    return page.get_by_role("region", name=section, exact=True).locator("tbody tr")


def fact(page: Page, name: str) -> Locator:
    """Return the value of a labeled fact below the page title."""
    return page.locator(".facts div").filter(has=page.get_by_text(name, exact=True)).locator("dd")


def timeline_entries(page: Page) -> Locator:
    """Return the entries of the page's timeline, oldest first."""
    return page.locator("ol.timeline > li")
