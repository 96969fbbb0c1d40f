"""Who calls: the claims of a token that has been checked, and what they allow."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from functions.admin_api.claims import GROUPS, names
from functions.admin_api.problems import ForbiddenError

EVERY_TENANT = "*"
NOBODY = "-"
"""In the place of a tenant's slug: what is nobody's, such as a message that could not be read."""
EDIT_PAYLOADS = "edit-payloads"
"""The group of operators who may edit payloads."""


class Role(IntEnum):
    """What a person may do; each may do what those before it may."""

    NONE = 0
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True)
class Caller:
    """A person or a program."""

    subject: str
    role: Role
    tenants: frozenset[str]
    """Slugs; EVERY_TENANT for all."""
    edits_payloads: bool = False
    """Whether an operator may see and edit the payloads of tasks that have failed, as an admin may."""

    @classmethod
    def of(cls, claims: Mapping[str, Any]) -> "Caller":
        """Read `sub` and `cognito:groups`.

        Groups are `viewer`, `operator`, `admin`, `tenant:{slug}`, `tenant:*` and `edit-payloads`.

        Raises:
            ForbiddenError: one that matters has a character that nobody's name can have here.
        """
        subject = str(claims.get("sub", ""))
        groups = names(claims.get(GROUPS))
        roles = [role for role in Role if role is not Role.NONE and role.name.lower() in groups]
        tenants = frozenset(group.removeprefix("tenant:") for group in groups if group.startswith("tenant:"))
        if not all(map(_can_be_kept, (subject, *tenants))):
            raise ForbiddenError(
                "The token's sub or groups have a character that cannot be kept: U+0000, or half a surrogate pair."
            )
        return cls(subject, max(roles, default=Role.NONE), tenants, EDIT_PAYLOADS in groups)

    def may(self, role: Role, tenant: str) -> bool:
        """Whether the caller has a role for a tenant. What is nobody's is for those who are of all tenants."""
        return self.role >= role and bool({EVERY_TENANT, tenant} - {NOBODY} & self.tenants)

    def named(self) -> str:
        """The subject, for what is told of who changes what.

        Raises:
            ForbiddenError: the token has none.
        """
        if not self.subject:
            raise ForbiddenError("The token names nobody, and it is told who changes what: it has no sub.")
        return self.subject

    def may_edit_payloads(self, tenant: str) -> bool:
        """Whether the caller may see and edit what tasks of a tenant were asked for."""
        return self.may(Role.OPERATOR if self.edits_payloads else Role.ADMIN, tenant)


def _can_be_kept(name: str) -> bool:
    """Whether PostgreSQL can hold a text: without U+0000, and without a half of a character beyond U+FFFF."""
    return "\x00" not in name and not any("\ud800" <= character <= "\udfff" for character in name)
