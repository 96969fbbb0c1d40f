"""`counterfoil audit verify`: whether the audit trail is as it was written, by the API."""

from collections.abc import Iterator

import typer

from cli.client import Api, reach
from cli.failures import UsageError
from cli.options import AnyTenant, AsJson
from cli.output import page, print_json
from counterfoil import audit
from functions.admin_api.api.dead_letters import AuditPage, AuditRecord

SUMMARY = "Check that nobody has changed the trail of who changed what."
_PATH = "/api/admin/dlq/audit"

app = typer.Typer(
    help=f"""{SUMMARY}

    Each entry holds a hash of itself and of the entry before it, so that one which was changed, taken out or put in
    breaks the chain. The command reads the trail from the API, and computes the hashes again: from a deployment after
    `counterfoil login`, else from the local cloud, as an admin who is created for you.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@app.callback()
def _group() -> None:
    """A group, even of one command."""


@app.command("verify")
def verify(context: typer.Context, *, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """Verify the hash chain of each tenant's audit trail. Exits with 1 if a chain is broken.

    The chain `-` covers queues and unassigned dead letters. It requires access to all tenants.
    """
    api = reach(context)
    found = [_verified(api, slug) for slug in api.tenants(tenant, unassigned=True)]
    if not found:
        raise UsageError("There is no tenant whose trail may be looked at: nothing is verified.")
    if as_json:
        print_json(
            [
                {"tenant": slug, "entries": number, "broken": None if broken is None else vars(broken)}
                for slug, number, broken in found
            ]
        )
    else:
        for slug, number, broken in found:
            page().print(
                f"{slug}: whole, {number} {'entry' if number == 1 else 'entries'}"
                if broken is None
                else f"{slug}: broken at {broken.number}. {broken.why}",
                style="green" if broken is None else "red",
                highlight=False,
            )
    if any(broken is not None for _, _, broken in found):
        raise typer.Exit(1)


def _verified(api: Api, slug: str) -> tuple[str, int, audit.Broken | None]:
    """Whose trail, the number of its newest entry, and where it is broken."""

    def newest() -> AuditPage:
        return api.get(_PATH, AuditPage, tenant=slug, limit=1)

    def head() -> tuple[int, bytes] | None:
        told = newest().head
        return None if told is None else (told.number, bytes.fromhex(told.hash))

    first = newest()
    broken = audit.verify(first.tenant_id, _from_the_first(api, slug), head)
    return slug, first.entries[0].number if first.entries else 0, broken


def _from_the_first(api: Api, slug: str) -> Iterator[audit.AuditEntry]:
    """All entries by number, asked for when the first one is wanted: the API tells the newest first."""
    records = [record for page in api.pages(_PATH, AuditPage, tenant=slug) for record in page.entries]
    yield from map(_entry, reversed(records))


def _entry(record: AuditRecord) -> audit.AuditEntry:
    hashes = {
        name: None if value is None else bytes.fromhex(value)
        for name, value in record.model_dump(include={"note_hash", "previous_hash", "hash"}).items()
    }
    return audit.AuditEntry(**{**vars(record), **hashes})
