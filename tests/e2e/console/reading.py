"""What is on a page of the console, by what people see of it."""

from playwright.sync_api import Locator, Page


def rows(page: Page, section: str) -> Locator:
    """The rows of the table of a section, without its head."""
    return page.get_by_role("region", name=section, exact=True).locator("tbody tr")


def fact(page: Page, name: str) -> Locator:
    """The value of a fact, as those below the title of a dead letter."""
    return page.locator(".facts div").filter(has=page.get_by_text(name, exact=True)).locator("dd")


def happened(page: Page) -> Locator:
    """The lines of a history, the first thing that happened first."""
    return page.locator("ol.timeline > li")
