"""Console users by role and tenant. Each user signs in once for all tests."""

from dataclasses import dataclass, field
from functools import partial

import httpx
from playwright.sync_api import Page

from cli.local.cloud import Cloud
from cli.local.console import ALL_TENANTS, ConsoleUser, Role, make_person
from cli.local.tenants import Tenant

SESSION = "counterfoil.session"
"""Key of the tokens in a tab's session storage."""
TIMEOUT_SECONDS = 60
"""Timeout of API requests in seconds. The first request waits for a process to start."""


@dataclass
class ConsoleUsers:
    """The test cloud's users."""

    cloud: Cloud
    sessions: dict[tuple[Role, str], str] = field(default_factory=dict)
    """Stored sessions by role and tenant slug (`*`: all tenants)."""
    _users: dict[tuple[Role, str], ConsoleUser] = field(default_factory=dict)
    _tokens: dict[tuple[Role, str], str] = field(default_factory=dict)

    def user(self, role: Role, slug: str) -> ConsoleUser:
        """Return a user with this role for one tenant, or for all tenants (`*`)."""
        key = (role, slug)
        if key not in self._users:
            email = f"{role}.{slug}@example.com".replace("*", "all")
            self._users[key] = make_person(self.cloud, email, [role, f"tenant:{slug}"])
        return self._users[key]

    def api(self, role: Role, tenant: Tenant | None = None) -> httpx.Client:
        """Return an API client for a user with this role. The caller must close it."""
        slug = tenant.slug if tenant else ALL_TENANTS
        make_client = partial(httpx.Client, base_url=f"{self.cloud.api_url}/api", timeout=TIMEOUT_SECONDS)
        return make_client(headers={"authorization": f"Bearer {self._token(role, slug)}"})

    def _token(self, role: Role, slug: str) -> str:
        key = (role, slug)
        if key not in self._tokens:
            person = self.user(role, slug)
            response = self.cloud.client("cognito-idp").admin_initiate_auth(
                UserPoolId=self.cloud.outputs["UserPoolId"],
                ClientId=self.cloud.outputs["UserPoolClientId"],
                AuthFlow="ADMIN_USER_PASSWORD_AUTH",
                AuthParameters={"USERNAME": person.email, "PASSWORD": person.password},
            )
            self._tokens[key] = response["AuthenticationResult"]["IdToken"]
        return self._tokens[key]


def sign_in(page: Page, user: ConsoleUser) -> None:
    """Sign in from the console's start page, and wait until the console has loaded."""
    page.get_by_role("button", name="Sign in").click()
    page.locator("input[name=username]").fill(user.email)
    page.locator("input[name=password]").fill(user.password)
    page.locator("button[type=submit], input[type=submit]").first.click()
    page.get_by_role("button", name="Sign out").wait_for()
