"""`counterfoil tenants tolerances`: which differences a tenant tolerates, and which it might."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import suggestions, tolerance_table
from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.tenants import Tenant, as_owner, chosen
from cli.terminal import page, print_json
from cli.tolerance_table import Entry, scope
from cli.trail import By, Reason
from counterfoil.documents import diagnostics
from counterfoil.documents.three_way_match import Key, Limits, Tolerance
from counterfoil.documents.three_way_match.tolerances import DEFAULTS

KEYS = ", ".join(Key)
ANY = "any"
LONGEST_SCOPE = 200
AT_ONCE = 500
"""Clusters that one transaction has computed anew."""
_LIMIT = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(%?)")


def limits_of(within: Sequence[str], below: Sequence[str], above: Sequence[str]) -> Limits:
    """Limits as people write them: `2%`, `0.05`, `any`. What is said of one direction goes before what is said of both.

    Raises:
        UsageError: one of them is no limit, or nothing is said of a direction.
    """
    lower, upper = _direction(below or within, "--below"), _direction(above or within, "--above")
    return Limits(lower[0], lower[1], upper[0], upper[1])


def _direction(said: Sequence[str], option: str) -> tuple[Decimal | None, Decimal | None]:
    if not said:
        raise UsageError(f"Say how far it may be off: --within 2% for both directions, or {option} for this one.")
    absolute, percent = None, None
    for number, text in enumerate(said):
        found = _LIMIT.fullmatch(text.strip())
        if found is None and text != ANY:
            raise UsageError(f"'{text}' is no limit: write a number like 0.05, a share like 2%, or {ANY}.")
        is_share = found is not None and bool(found[2])
        if (ANY in said and number > 0) or (percent if is_share else absolute) is not None:
            raise UsageError(f"'{text}' is one too many: one number and one share make a limit, or {ANY} alone.")
        if found is None:
            continue
        if is_share:
            percent = Decimal(found[1])
        else:
            absolute = Decimal(found[1])
    return absolute, percent


_COMPUTED = "SELECT id FROM cluster_diagnostics WHERE outcome IS NOT NULL OR status = 'in-progress' ORDER BY id"


def compute_anew(cloud: Cloud, tenant: Tenant) -> int:
    """Have every cluster of a tenant computed with its tolerances as they are now. Returns how many.

    One that is being computed for the first time may have read them as they were before.
    """
    with cloud.database.tenant(tenant.id) as connection:
        ids = [row[0] for row in connection.execute(_COMPUTED)]
    for start in range(0, len(ids), AT_ONCE):
        with cloud.database.tenant(tenant.id) as connection:
            sends = diagnostics.request(connection, tenant.id, ids[start : start + AT_ONCE], cloud.database.now())
        cloud.send(sends)
    return len(ids)


def tolerances(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant, by its slug.")],
    *,
    key: Annotated[Key | None, typer.Option("--set", metavar="KEY", help=f"Set one: {KEYS}.")] = None,
    removed: Annotated[
        Key | None, typer.Option("--remove", metavar="KEY", help="Remove one: what is more general applies again.")
    ] = None,
    supplier: Annotated[str | None, typer.Option(help="Of this supplier only, by VAT id or name.")] = None,
    article: Annotated[str | None, typer.Option(help="Of this article only, by seller's or buyer's number.")] = None,
    within: Annotated[
        list[str] | None,
        typer.Option(metavar="LIMIT", help=f"2%, 0.05 or {ANY}. Given twice, both must hold (2% and 0.05)."),
    ] = None,
    below: Annotated[
        list[str] | None, typer.Option(metavar="LIMIT", help="The same, for less than expected only.")
    ] = None,
    above: Annotated[
        list[str] | None, typer.Option(metavar="LIMIT", help="The same, for more than expected only.")
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Show what follows from differences that people accepted and disputed.")
    ] = False,
    accepted: Annotated[
        str | None, typer.Option("--accept", metavar="ID", help="Put a proposal of --suggest in force, by its id.")
    ] = None,
    reason: Reason = None,
    by: By,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Set, remove and list which differences a tenant tolerates: in prices, quantities, totals and tax rates.

    Of several that fit, the most specific one applies, as a whole: that of supplier and article, of the article, of
    the supplier, the tenant's own, the product's default. A change has the tenant's clusters computed anew.

    With --suggest it proposes tolerances for suppliers of which people accepted differences in at least 20 documents
    (counterfoil clusters accept), always below the smallest that they disputed. None applies before it is accepted.
    """
    about, said = key or removed, (supplier, article, within, below, above)
    _check(about, said, key is not None, removed is not None, accepted is not None, suggest)
    cloud = Cloud.at(place_of(context.obj))
    (tenant,) = chosen(cloud, slug)
    if suggest:
        _propose(cloud, tenant, as_json=as_json)
        return
    if about is not None:
        limits = limits_of(within or (), below or (), above or ()) if key is not None else DEFAULTS[about]
        change = Tolerance(about, limits, _text(supplier), _text(article))
        with as_owner(cloud) as connection:
            if key is not None:
                tolerance_table.put(connection, tenant, change, by, reason)
            else:
                tolerance_table.remove(connection, tenant, change, by, reason)
    elif accepted is not None:
        suggestions.put_in_force(cloud, tenant, accepted, by, reason)
    anew = compute_anew(cloud, tenant) if about is not None or accepted is not None else None
    with as_owner(cloud) as connection:
        entries = tolerance_table.entries(connection, tenant)
    print_json([one.record for one in entries]) if as_json else _show(entries, anew)


def _propose(cloud: Cloud, tenant: Tenant, *, as_json: bool) -> None:
    found = suggestions.suggest(cloud, tenant)
    print_json(suggestions.record(found)) if as_json else suggestions.show(found, tenant.slug)


def _check(about: Key | None, said: Sequence[object], *things: bool) -> None:
    """Refuse more than one thing at a time, and a scope or limits that are about nothing."""
    if sum(things) > 1:
        raise UsageError("One thing at a time, please: --set, --remove, --suggest or --accept.")
    if about is None and any(said):
        raise UsageError(f"Say what it is about: --set or --remove with one of {KEYS}.")


def _text(text: str | None) -> str | None:
    if text is None or not text.strip():
        return None
    if len(text) > LONGEST_SCOPE:
        raise UsageError(f"A supplier or an article has {LONGEST_SCOPE} characters at most.")
    return text.strip()


def _show(found: Sequence[Entry], anew: int | None) -> None:
    table = Table("about", "for", "tolerated", Column("set by", overflow="fold"), box=None)
    for default in DEFAULTS:
        table.add_row(default, "everything, where nothing else is said", DEFAULTS[default].words, "", style="dim")
    for one in found:
        why = ": ".join(filter(None, (one.set_by, one.reason)))
        learned = f" ({one.evidence['accepted']} documents accepted)" if one.evidence else ""
        cells = (one.tolerance.key, scope(one.tolerance), one.tolerance.limits.words, f"{why}{learned}")
        table.add_row(*map(Text, cells))
    page().print(table)
    if anew is not None:
        page().print("1 cluster is computed anew." if anew == 1 else f"{anew} clusters are computed anew.")
