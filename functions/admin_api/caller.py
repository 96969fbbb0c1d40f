"""Who calls: the claims of a token that the gateway has checked, and what they allow."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

EVERY_TENANT = "*"


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

    @classmethod
    def of(cls, claims: Mapping[str, Any]) -> "Caller":
        """Read `sub` and `cognito:groups`, which are `viewer`, `operator`, `admin`, `tenant:{slug}` and `tenant:*`."""
        groups = _groups(claims.get("cognito:groups"))
        roles = [role for role in Role if role is not Role.NONE and role.name.lower() in groups]
        tenants = frozenset(group.removeprefix("tenant:") for group in groups if group.startswith("tenant:"))
        return cls(str(claims.get("sub", "")), max(roles, default=Role.NONE), tenants)

    def may(self, role: Role, tenant: str) -> bool:
        """Whether the caller has a role for a tenant."""
        return self.role >= role and (tenant in self.tenants or EVERY_TENANT in self.tenants)


def _groups(claim: object) -> frozenset[str]:
    """The names in a list. The gateway hands lists on as a text in square brackets, with a blank between two names.

    Any other text is one name, whatever is in it: who may name a group must not be able to name a role with it.
    """
    if isinstance(claim, str):
        listed = claim.startswith("[") and claim.endswith("]")
        claim = claim[1:-1].split(" ") if listed else [claim]
    return frozenset(map(str, claim)) if isinstance(claim, list) else frozenset()
