"""`counterfoil dlq` with all of its subcommands."""

from cli.dlq import SUMMARY, app
from cli.dlq_bulk import bulk_ignore, bulk_resolve, bulk_retry
from cli.dlq_changes import audit_, edit, ignore, resolve, retry
from cli.dlq_export import export_, fetch
from cli.dlq_purge import purge

__all__ = ["SUMMARY", "app"]

app.command("retry")(retry)
app.command("resolve")(resolve)
app.command("ignore")(ignore)
app.command("edit")(edit)
app.command("audit")(audit_)
app.command("export")(export_)
app.command("fetch")(fetch)
app.command("bulk-retry")(bulk_retry)
app.command("bulk-resolve")(bulk_resolve)
app.command("bulk-ignore")(bulk_ignore)
app.command("purge")(purge)
