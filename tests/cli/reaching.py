"""The API in the place of a cloud's: commands ask the real function, in this process, as whom they say."""

from functools import partial

import httpx
import pytest
import typer

from cli.client import Api
from tests.functions.admin_api.gateway import TOKEN, gateway

LOOKER = "somebody"
"""Who looks."""
ADMIN = "[admin tenant:*]"
MODULES = (
    "commands.audit",
    "commands.chat",
    "commands.clusters",
    "commands.documents",
    "commands.ingest",
    "commands.reprocess",
    "commands.review",
    "commands.tasks",
    "dlq",
    "dlq_bulk",
    "dlq_changes",
    "dlq_export",
    "operations",
    "dlq_purge",
    "commands.mail",
    "commands.queues",
    "commands.people",
    "commands.tenants",
    "commands.destinations",
    "commands.tolerances",
)
"""Of commands that ask the API."""


def reach(context: typer.Context, by: str | None = None, *, groups: str = ADMIN) -> Api:
    """Return the API for the person `by`, in place of `cli.client.reach`."""
    application = partial(gateway, groups=groups, subject=by or LOOKER)
    transport = httpx.WSGITransport(app=application)
    client = httpx.Client(base_url="https://api.example", headers={"Authorization": TOKEN}, transport=transport)
    return Api(context.with_resource(client))


def let_them_ask(monkeypatch: pytest.MonkeyPatch, groups: str = ADMIN) -> None:
    """Let commands ask this API, as somebody of these groups."""
    for module in MODULES:
        monkeypatch.setattr(f"cli.{module}.reach", partial(reach, groups=groups))
