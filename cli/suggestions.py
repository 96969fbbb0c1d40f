"""Tolerances that follow from what a tenant's people accepted and disputed: shown with the evidence, put in force."""

from collections.abc import Sequence
from typing import Any

from rich.padding import Padding
from rich.text import Text

from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.tenants import Tenant, as_owner
from cli.terminal import page
from cli.tolerance_table import lock, put
from counterfoil.documents import acceptance, diagnostics
from counterfoil.documents.three_way_match import Key, Tolerances
from counterfoil.documents.three_way_match.decisions import Found, Label, Proposal, Withheld, propose, told
from counterfoil.documents.three_way_match.tolerances import as_json

_ABOUT = {
    Key.PRICE: "prices",
    Key.BILLED_QUANTITY: "quantities billed",
    Key.DELIVERED_QUANTITY: "quantities delivered",
    Key.TOTAL: "totals",
}


def suggest(cloud: Cloud, tenant: Tenant) -> list[Found]:
    """What follows from what people said, beside what is tolerated now."""
    with cloud.database.tenant(tenant.id) as connection:
        known = Tolerances(diagnostics.tolerances(connection, tenant.id))
        return propose(acceptance.labels(connection), known)


def put_in_force(cloud: Cloud, tenant: Tenant, proposal_id: str, by: str, reason: str | None) -> Proposal:
    """Set the tolerance that a proposal comes to, if it still follows from what people said.

    Raises:
        UsageError: there is no such proposal, or not any more.
    """
    with cloud.database.tenant(tenant.id) as connection:
        labels: list[Label] = list(acceptance.labels(connection))
    with as_owner(cloud) as connection:
        lock(connection, tenant)
        found = propose(labels, Tolerances(diagnostics.tolerances(connection, tenant.id)))
        chosen = next((one for one in found if isinstance(one, Proposal) and one.id == proposal_id.strip()), None)
        if chosen is None:
            raise UsageError(
                f"There is no proposal '{proposal_id}', or not any more: what people said or what is tolerated has "
                f"changed since. Look again: counterfoil tenants tolerances {tenant.slug} --suggest"
            )
        put(connection, tenant, chosen.tolerance, by, reason, chosen.record)
    return chosen


def record(found: Sequence[Found]) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "proposals": [one.record for one in found if isinstance(one, Proposal)],
        "withheld": [as_json(one) for one in found if isinstance(one, Withheld)],
    }


def show(found: Sequence[Found], slug: str) -> None:
    """Each proposal with its evidence; then why there are no others."""
    proposals = [one for one in found if isinstance(one, Proposal)]
    withheld = [one for one in found if isinstance(one, Withheld)]
    for one in proposals:
        _show_proposal(one)
    if proposals:
        page().print(f"Nothing of it is in force. To accept one: counterfoil tenants tolerances {slug} --accept ID")
    if withheld:
        if proposals:
            page().print()
        page().print(Text("Nothing is proposed for", "bold"))
    for other in withheld:
        page().print(Padding(Text(f"{_title(other)}: {other.why}"), (0, 0, 0, 2)))
    if not found:
        page().print(
            "Nobody has accepted or disputed a difference yet: counterfoil clusters accept ID, or dispute ID, does."
        )


def _title(one: Found) -> str:
    by_name = one.supplier_name if one.supplier_name == one.supplier else f"{one.supplier_name} ({one.supplier})"
    return f"{by_name}, {_ABOUT[one.key]}, {one.direction} than expected"


def _show_proposal(one: Proposal) -> None:
    found = one.evidence
    page().print(Text(one.id, "bold cyan").append(f"  {_title(one)}", "bold default"))
    who = f"{', '.join(found.people[:3])}{' and others' if len(found.people) > 3 else ''}"
    days = f"on {found.since}" if found.since == found.until else f"from {found.since} to {found.until}"
    smallest = found.smallest_disputed
    disputed = "none was disputed" if smallest is None else f"the smallest disputed is {told(smallest, one.sort)}"
    lines = [
        f"Tolerated now: {one.before.words}. Proposed: {one.limits.words}.",
        f"Accepted in {found.accepted} documents by {who}, {days}: 95 of 100 within {told(one.limit, one.sort)}, the "
        f"largest {told(found.largest_accepted, one.sort)}; {disputed}.",
        f"{found.newly_tolerated} of them would have needed no review. At a confidence of 95 % people accept at least "
        f"{found.at_least:.0%} of such differences.",
    ]
    for line in lines:
        page().print(Padding(Text(line), (0, 0, 0, 2)))
    page().print()
