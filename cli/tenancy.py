"""`counterfoil tenants` with all of its subcommands."""

from cli.destinations import destinations
from cli.onboarding import add
from cli.tenants import app
from cli.tolerances import tolerances

__all__ = ["app"]

app.command("add")(add)
app.command("destinations")(destinations)
app.command("tolerances")(tolerances)
