"""How functions reach PostgreSQL: what they are told, and what they may do."""

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from aws_cdk import aws_iam as iam

from infra.workers import Row

NAME = "counterfoil"


class Database(Protocol):
    """What the construct of a worker asks of a database."""

    def environment(self, row: Row) -> dict[str, str]:
        """The environment variables that tell `row`'s function where the database is, and as whom to sign in."""

    def statements(self, row: Row) -> list[iam.PolicyStatement]:
        """What `row`'s function must be allowed in order to sign in."""


@dataclass(frozen=True)
class LocalDatabase:
    """The embedded server of the local cloud: each function signs in as the user of its row, without a password."""

    url: str
    """As the server's superuser, which is the master user."""

    def environment(self, row: Row) -> dict[str, str]:
        """DATABASE_URL, with the row's user put in."""
        return {"DATABASE_URL": self.url if row.database_user == "master" else with_user(self.url, row.database_user)}

    def statements(self, row: Row) -> list[iam.PolicyStatement]:  # noqa: ARG002 - the embedded server knows no IAM
        """Nothing: IAM has no part in it."""
        return []


def with_user(url: str, user: str) -> str:
    """The same PostgreSQL URL for another user. A password in it belonged to the user who was there, and is dropped."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{place}"))
