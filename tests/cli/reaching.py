"""The API in the place of a cloud's: commands ask the real function, in this process, as whom they say."""

from functools import partial
from importlib import import_module
from pkgutil import iter_modules

import httpx
import pytest
import typer

from cli import commands
from cli.client import Api
from tests.functions.admin_api.gateway import TOKEN, gateway

LOOKER = "somebody"
"""Who looks."""
ADMIN = "[admin tenant:*]"


def reach(context: typer.Context, by: str | None = None, *, groups: str = ADMIN) -> Api:
    """Return the API for the person `by`, in place of `cli.client.reach`."""
    application = partial(gateway, groups=groups, subject=by or LOOKER)
    transport = httpx.WSGITransport(app=application)
    client = httpx.Client(base_url="https://api.example", headers={"Authorization": TOKEN}, transport=transport)
    return Api(context.with_resource(client))


def let_them_ask(monkeypatch: pytest.MonkeyPatch, groups: str = ADMIN) -> None:
    """Connect all commands to this API, with these groups."""
    for found in iter_modules(commands.__path__, f"{commands.__name__}."):
        module = import_module(found.name)
        if hasattr(module, "reach"):
            monkeypatch.setattr(module, "reach", partial(reach, groups=groups))
