"""A fake local cloud with the test's database."""

from collections.abc import Sequence

from cli.local.postgres import Server
from counterfoil.db import Database
from counterfoil.delivery.work import OutboxMessage


class FakeCloud:
    """A cloud with only the attributes and methods that database commands use."""

    def __init__(self, server: Server, name: str, database: Database) -> None:
        self.database = database
        self.database_url = lambda user: server.url(name, user)
        self.sent: list[OutboxMessage] = []

    def send(self, messages: Sequence[OutboxMessage]) -> None:
        self.sent += messages
