"""`counterfoil audit verify`: recompute the hash chains of audit trails.

The audit entries are read from the API.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import typer

from cli.client import Api, connect
from cli.failures import UsageError
from cli.options import AnyTenant, AsJson
from cli.output import print_json, stdout

SUMMARY = "Verify that the audit trail has not been altered."
PATH = "/api/admin/dlq/audit"
HASHED_FIELDS = ("number", "actor", "action", "targets", "version_before", "version_after", "note_hash", "detail")
"""Hashed fields of an entry, in addition to its time, its tenant and the previous entry's hash."""

Entry = Mapping[str, Any]
"""An audit entry as returned by the API."""

app = typer.Typer(
    help=f"""{SUMMARY}

    Each entry contains its own hash and the hash of the previous entry. A changed, deleted or inserted entry breaks
    this chain. The command reads the audit trail from the API and recomputes the hashes. It uses the deployment of the
    last `counterfoil login`. If you are not signed in, it signs in to the local cloud as an admin.
    """,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@app.callback()
def _group() -> None:
    """Make Typer treat the only command as a subcommand."""


@app.command("verify")
def verify_(context: typer.Context, *, tenant: AnyTenant = None, as_json: AsJson = False) -> None:
    """Verify the hash chain of each tenant's audit trail.

    Exits with 1 if a chain is broken.

    The chain `-` covers queues and unassigned dead letters. Verifying it requires access to all tenants.
    """
    api = connect(context)
    results = [_verify_tenant(api, slug) for slug in api.tenants(tenant, unassigned=True)]
    if not results:
        raise UsageError("There is no audit trail to verify, because you do not have access to any tenant.")
    if as_json:
        print_json(results)
    else:
        for result in results:
            entries, broken = result["entries"], result["broken"]
            stdout().print(
                f"{result['tenant']}: intact, {entries} {'entry' if entries == 1 else 'entries'}"
                if broken is None
                else f"{result['tenant']}: broken at entry {broken['number']}. {broken['reason']}",
                style="green" if broken is None else "red",
            )
    if any(result["broken"] is not None for result in results):
        raise typer.Exit(1)


def _verify_tenant(api: Api, slug: str) -> dict[str, Any]:
    """Return the tenant, the number of its entries, and the first broken entry."""

    def newest() -> dict[str, Any]:
        response: dict[str, Any] = api.send("GET", PATH, query={"tenant": slug, "limit": 1}).json()
        return response

    def entries() -> Iterator[Entry]:
        yield from reversed(list(api.items(PATH, "entries", tenant=slug)))

    first = newest()
    broken = verify(first["tenant_id"], entries(), lambda: newest()["head"])
    number = first["entries"][0]["number"] if first["entries"] else 0
    return {"tenant": slug, "entries": number, "broken": None if broken is None else broken._asdict()}


# -- hash chain -------------------------------------------------------------------------------------------------------


class ChainError(NamedTuple):
    """The first broken entry in a chain."""

    number: int
    """Number of the changed, missing or added entry."""
    reason: str


def verify(
    tenant_id: str | None, entries: Iterable[Entry], head: Callable[[], Mapping[str, Any] | None]
) -> ChainError | None:
    """Return the first broken entry in a chain, or None if the chain is intact.

    `entries` are all entries in order. `head` returns the chain head. It is called before and after the entries are
    read, because the chain can grow.
    """
    no_head: Mapping[str, Any] = {"number": 0, "hash": None}
    initial_head = head() or no_head
    number, previous = 0, None
    for entry in entries:
        number += 1
        reason = _chain_error(entry, tenant_id, number, previous)
        if reason is None and number == initial_head["number"] and entry["hash"] != initial_head["hash"]:
            reason = "The entry does not match the chain head."
        if reason is not None:
            return ChainError(number, reason)
        previous = entry["hash"]
    if number < initial_head["number"]:
        return ChainError(number + 1, "The latest entries are missing.")
    final_number = (head() or no_head)["number"]
    return (
        ChainError(final_number + 1, "The entry was added without updating the chain head.")
        if number > final_number
        else None
    )


def _chain_error(entry: Entry, tenant_id: str | None, number: int, previous: str | None) -> str | None:
    """Return why an entry is broken, or None if it is intact.

    `number` and `previous` are the expected number and previous hash.
    """
    if entry["number"] != number:
        return "The entry is missing."
    if entry["previous_hash"] != previous:
        return "The entry does not follow the previous one."
    return None if entry["hash"] == _hash(entry, tenant_id) else "The entry was changed."


def _hash(entry: Entry, tenant_id: str | None) -> str:
    """Compute the expected hash of an entry."""
    recorded_at = datetime.fromisoformat(entry["recorded_at"]).astimezone(UTC).isoformat(timespec="microseconds")
    fields = {**{name: entry[name] for name in HASHED_FIELDS}, "tenant_id": tenant_id, "recorded_at": recorded_at}
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(bytes.fromhex(entry["previous_hash"] or "") + canonical.encode()).hexdigest()
