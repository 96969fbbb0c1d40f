"""`counterfoil tenants` with all of its subcommands."""

from cli.destinations import destinations
from cli.mail import dmarc
from cli.onboarding import add
from cli.tenant_deletion import delete
from cli.tenants import app
from cli.tolerances import tolerances

__all__ = ["app"]

app.command("add")(add)
app.command("delete")(delete)
app.command("dmarc")(dmarc)
app.command("destinations")(destinations)
app.command("tolerances")(tolerances)
