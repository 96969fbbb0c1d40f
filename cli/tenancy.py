"""`counterfoil tenants` with all of its subcommands."""

from cli.destinations import destinations
from cli.tenants import app

__all__ = ["app"]

app.command("destinations")(destinations)
