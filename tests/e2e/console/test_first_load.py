"""Size of a first visit to the console."""

import pytest
from playwright.sync_api import Response, expect

from cli.local.tenants import Tenant
from tests.e2e.console.conftest import Console
from tests.e2e.console.console_users import ConsoleUsers, sign_in
from tests.e2e.console.locators import rows

pytestmark = pytest.mark.e2e

MAX_BYTES = 200_000
"""Maximum bytes of all response headers and bodies, compressed as sent."""


def test_first_visit_stays_within_its_byte_limit(console: Console, users: ConsoleUsers, failed_tenant: Tenant) -> None:
    """Count all responses until the first row appears, with an empty browser cache.

    The sign-in page belongs to the user pool and is not counted.
    """
    responses: list[Response] = []
    page = console.open_blank()
    page.on("response", lambda response: responses.append(response) if "/oauth2/" not in response.url else None)

    page.goto(f"{console.url}/dead-letters?tenant={failed_tenant.slug}")
    expect(page.get_by_role("button", name="Sign in")).to_be_enabled()
    sign_in(page, users.user("viewer", "*"))
    expect(rows(page, "Dead letters").first).to_be_visible()
    sizes = [response.request.sizes() for response in responses]
    transferred = sum(size["responseBodySize"] + size["responseHeadersSize"] for size in sizes)
    assert len(sizes) >= 4, [response.url for response in responses]
    assert 10_000 < transferred < MAX_BYTES
