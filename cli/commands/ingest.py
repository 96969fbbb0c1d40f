"""`counterfoil ingest`: upload files, and wait for their results."""

from pathlib import Path
from typing import Annotated

import typer

from cli.client import connect
from cli.commands import uploads
from cli.failures import ExitCode, UsageError
from cli.options import AsJson
from cli.output import print_json, stdout


def ingest(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or folders.", show_default=False)],
    *,
    tenant: Annotated[
        str | None, typer.Option(help="Tenant slug. Optional for mail, which has recipients.", show_default=False)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the final state of each document.")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Maximum number of seconds to wait.")] = 300,
    as_json: AsJson = False,
) -> None:
    """Upload files for a tenant, or mail for its recipients' tenants.

    If --tenant is omitted, all files must be mail (.eml). They are stored where Amazon SES stores mail, and each tenant
    gets the mail sent to its addresses. With --tenant, mail belongs to that tenant regardless of its recipients.

    Each upload has its own key, so files with the same name never replace each other. Hidden files in folders are
    skipped. With --wait, the exit code is 1 if a file failed.
    """
    files = list(uploads.files_in(paths))
    if tenant is None and (not_mail := next((path for path in files if path.suffix.lower() != ".eml"), None)):
        raise UsageError(f"{not_mail} is not mail (.eml), so it requires a tenant: add --tenant SLUG.")
    api = connect(context)
    keys = [uploads.upload(api, path, tenant=tenant) for path in files]
    if not wait:
        if as_json:
            print_json([{"file": str(path), "key": key} for path, key in zip(files, keys, strict=True)])
        else:
            option = f" --tenant {tenant}" if tenant else ""
            count = "1 file" if len(keys) == 1 else f"{len(keys)} files"
            stdout().print(f"Uploaded {count}. To see the states: counterfoil documents{option}")
        return
    results = uploads.wait_for(api, keys, timeout)
    if as_json:
        print_json(results)
    else:
        uploads.show_uploads(results)
    if any(result["state"] == "failed" for result in results):
        raise typer.Exit(ExitCode.FAILED_CHECK)
