"""The real API function, called in this process instead of over HTTP."""

from functools import partial
from importlib import import_module
from pkgutil import iter_modules

import httpx
import pytest
import typer

from cli import commands
from cli.client import Api
from tests.functions.admin_api.gateway import TOKEN, gateway

DEFAULT_CALLER = "lee"
"""Caller's subject if `--by` is not given."""
ADMIN = "[admin tenant:*]"


def connect(context: typer.Context, by: str | None = None, *, groups: str = ADMIN) -> Api:
    """Return an API client for the caller `by`. Replaces `cli.client.connect`."""
    application = partial(gateway, groups=groups, subject=by or DEFAULT_CALLER)
    transport = httpx.WSGITransport(app=application)
    client = httpx.Client(base_url="https://api.example", headers={"Authorization": TOKEN}, transport=transport)
    return Api(context.with_resource(client))


def connect_commands(monkeypatch: pytest.MonkeyPatch, groups: str = ADMIN) -> None:
    """Connect all commands to the API, as a caller in these groups."""
    for info in iter_modules(commands.__path__, f"{commands.__name__}."):
        module = import_module(info.name)
        if hasattr(module, "connect"):
            monkeypatch.setattr(module, "connect", partial(connect, groups=groups))
