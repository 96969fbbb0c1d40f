"""What a first visit costs: bytes, by which a slow line knows it."""

import pytest
from playwright.sync_api import Response, expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.people import People, sign_in
from tests.e2e.console.reading import rows

pytestmark = pytest.mark.e2e

MOST = 200_000
"""Bytes over the line, heads and bodies, compressed as they are sent."""


def test_a_first_visit_is_usable_within_its_bytes(console: Console, people: People, shown: Tenant) -> None:
    """Everything that is sent to a browser that has nothing yet, until there are rows to click on.

    But for the page of the user pool, which is not the console's.
    """
    answers: list[Response] = []
    page = console.blank()
    page.on("response", lambda answer: answers.append(answer) if "/oauth2/" not in answer.url else None)

    page.goto(f"{console.url}/dead-letters?tenant={shown.slug}")
    expect(page.get_by_role("button", name="Sign in")).to_be_enabled()
    sign_in(page, people.person("viewer", "*"))
    expect(rows(page, "Letters").first).to_be_visible()
    sizes = [answer.request.sizes() for answer in answers]
    transferred = sum(size["responseBodySize"] + size["responseHeadersSize"] for size in sizes)
    assert len(sizes) >= 4, [answer.url for answer in answers]
    assert 10_000 < transferred < MOST
