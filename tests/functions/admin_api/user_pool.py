"""Fake Cognito user pool with the calls that the API makes."""

# ruff: noqa: N803  # boto3's names

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

POOL = "eu-central-1_people"


class FakeUserPool:
    """In-memory user pool."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, set[str]] = {}
        self.signed_out: list[str] = []

    def add(self, email: str, *groups: str) -> str:
        """Add a person to groups. Return the person's id."""
        id_ = str(uuid4())
        attributes = [{"Name": "sub", "Value": id_}, {"Name": "email", "Value": email}]
        self.users[id_] = {
            "Username": id_,
            "Enabled": True,
            "UserCreateDate": datetime(2026, 1, 1, tzinfo=UTC),
            "Attributes": attributes,
            "UserAttributes": attributes,
        }
        for group in groups:
            self.groups.setdefault(group, set()).add(id_)
        return id_

    def groups_of(self, id_: str) -> set[str]:
        """Return the names of a person's groups."""
        return {name for name, members in self.groups.items() if id_ in members}

    def _user(self, id_: str, operation: str) -> dict[str, Any]:
        if id_ not in self.users:
            raise failure("UserNotFoundException", operation)
        return self.users[id_]

    def admin_get_user(self, *, UserPoolId: str, Username: str) -> dict[str, Any]:
        return self._user(Username, "AdminGetUser")

    def admin_list_groups_for_user(self, *, UserPoolId: str, Username: str, Limit: int) -> dict[str, Any]:
        return {"Groups": [{"GroupName": name} for name in self.groups_of(Username)]}

    def admin_create_user(
        self, *, UserPoolId: str, Username: str, UserAttributes: object, DesiredDeliveryMediums: list[str]
    ) -> dict[str, Any]:
        if any(user["Attributes"][1]["Value"] == Username for user in self.users.values()):
            raise failure("UsernameExistsException", "AdminCreateUser")
        return {"User": self.users[self.add(Username)]}

    def admin_delete_user(self, *, UserPoolId: str, Username: str) -> dict[str, Any]:
        self._user(Username, "AdminDeleteUser")
        del self.users[Username]
        for members in self.groups.values():
            members.discard(Username)
        return {}

    def admin_enable_user(self, *, UserPoolId: str, Username: str) -> dict[str, Any]:
        self._user(Username, "AdminEnableUser")["Enabled"] = True
        return {}

    def admin_disable_user(self, *, UserPoolId: str, Username: str) -> dict[str, Any]:
        self._user(Username, "AdminDisableUser")["Enabled"] = False
        return {}

    def admin_user_global_sign_out(self, *, UserPoolId: str, Username: str) -> dict[str, Any]:
        self.signed_out.append(Username)
        return {}

    def create_group(self, *, UserPoolId: str, GroupName: str) -> dict[str, Any]:
        if GroupName in self.groups:
            raise failure("GroupExistsException", "CreateGroup")
        self.groups[GroupName] = set()
        return {}

    def admin_add_user_to_group(self, *, UserPoolId: str, Username: str, GroupName: str) -> dict[str, Any]:
        self.groups[GroupName].add(Username)
        return {}

    def admin_remove_user_from_group(self, *, UserPoolId: str, Username: str, GroupName: str) -> dict[str, Any]:
        self.groups[GroupName].discard(Username)
        return {}

    def list_users_in_group(
        self, *, UserPoolId: str, GroupName: str, Limit: int, NextToken: str = "0"
    ) -> dict[str, Any]:
        matching = [user for id_, user in self.users.items() if id_ in self.groups[GroupName]]
        return self._page(matching, NextToken, Limit, "NextToken")

    def list_users(
        self, *, UserPoolId: str, Limit: int, Filter: str = "", PaginationToken: str = "0"
    ) -> dict[str, Any]:
        matching = [
            user
            for user in self.users.values()
            if not Filter or Filter == f'email = "{user["Attributes"][1]["Value"]}"'
        ]
        return self._page(matching, PaginationToken, Limit, "PaginationToken")

    def _page(self, matching: list[dict[str, Any]], token: str, limit: int, name: str) -> dict[str, Any]:
        if not token.isdecimal():
            raise failure("InvalidParameterException", "ListUsers")
        start = int(token)
        end = start + limit
        return {"Users": matching[start:end]} | ({name: str(end)} if end < len(matching) else {})


def failure(code: str, operation: str) -> ClientError:
    """Return a Cognito error."""
    response = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return ClientError(response, operation)  # type: ignore[arg-type]  # only the fields that are read


PEOPLE = FakeUserPool()
"""User pool for tests that do not create one."""
