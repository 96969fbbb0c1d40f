"""`counterfoil dlq` with all of its subcommands."""

from cli.dlq import SUMMARY, app
from cli.dlq_changes import audit_, edit, ignore, resolve, retry

__all__ = ["SUMMARY", "app"]

app.command("retry")(retry)
app.command("resolve")(resolve)
app.command("ignore")(ignore)
app.command("edit")(edit)
app.command("audit")(audit_)
