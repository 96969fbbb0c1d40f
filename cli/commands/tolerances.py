"""`counterfoil tenants tolerances`: set, remove, list and suggest tolerances."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from cli.client import Api, By, Reason, connect
from cli.failures import UsageError
from cli.options import AsJson
from cli.output import print_json, stdout

KEYS = ("price", "billed_quantity", "delivered_quantity", "total", "tax")
ANY = "any"
_LIMIT = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(%?)")


def limits_of(within: Sequence[str], under: Sequence[str], over: Sequence[str]) -> dict[str, str | None]:
    """Parse limits such as `2%`, `0.05` and `any`.

    `under` and `over` override `within`.

    Raises:
        UsageError: a limit is invalid, or a direction has no limit.
    """
    lower, upper = _direction(under or within, "--under"), _direction(over or within, "--over")
    return {
        "lower_absolute": lower[0],
        "lower_percent": lower[1],
        "upper_absolute": upper[0],
        "upper_percent": upper[1],
    }


def _direction(limits: Sequence[str], option: str) -> tuple[str | None, str | None]:
    if not limits:
        raise UsageError(f"A limit is required: --within 2% for both directions, or {option} 2% for one.")
    absolute, percent = None, None
    for number, text in enumerate(limits):
        match = _LIMIT.fullmatch(text.strip())
        if match is None and text != ANY:
            raise UsageError(f"'{text}' is not a limit: use a number like 0.05, a percentage like 2%, or {ANY}.")
        is_percentage = match is not None and bool(match[2])
        if (ANY in limits and number > 0) or (percent if is_percentage else absolute) is not None:
            raise UsageError(f"Too many limits: '{text}'. Give at most one number and one percentage, or only {ANY}.")
        if match is None:
            continue
        if is_percentage:
            percent = match[1]
        else:
            absolute = match[1]
    return absolute, percent


def tolerances(  # noqa: PLR0913  # one argument per option
    context: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="TENANT", help="Tenant slug.")],
    *,
    key: Annotated[str | None, typer.Option("--set", metavar="KEY", help=f"Set one of {', '.join(KEYS)}.")] = None,
    removed: Annotated[
        str | None,
        typer.Option(
            "--remove", metavar="KEY", help="Remove a tolerance. The next more general tolerance then applies."
        ),
    ] = None,
    supplier: Annotated[str | None, typer.Option(help="Only for this supplier, by VAT id or name.")] = None,
    article: Annotated[
        str | None, typer.Option(help="Only for this article, by the supplier's or the buyer's article number.")
    ] = None,
    within: Annotated[
        list[str] | None,
        typer.Option(metavar="LIMIT", help=f"2%, 0.05 or {ANY}. If given twice, both limits apply (2% and 0.05)."),
    ] = None,
    under: Annotated[
        list[str] | None,
        typer.Option(metavar="LIMIT", help="Like --within, but only for values below the expected value."),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="LIMIT", help="Like --within, but only for values above the expected value."),
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Suggest tolerances based on accepted and disputed differences.")
    ] = False,
    accepted: Annotated[
        str | None, typer.Option("--accept", metavar="ID", help="Set a suggested tolerance, by its id.")
    ] = None,
    reason: Reason = None,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Set, remove and list a tenant's tolerances.

    Tolerances apply to prices, quantities, totals and tax rates. Only the most specific tolerance applies. From most to
    least specific: supplier and article, article, supplier, tenant, default. After a change, the tenant's clusters are
    compared again.

    --suggest proposes tolerances for suppliers with accepted differences in at least 20 documents (counterfoil clusters
    accept), always below the smallest disputed difference. A suggestion has no effect until it is accepted.
    """
    target = key or removed
    _check(target, (supplier, article, within, under, over), key, removed, accepted, suggest)
    api = connect(context, by)
    path = f"/api/admin/tenants/{slug}/tolerances"
    if suggest:
        suggestions = api.send("GET", f"{path}/suggestions").json()
        print_json(suggestions) if as_json else _show_suggestions(suggestions, slug)
        return
    scope = {"supplier": (supplier or "").strip() or None, "article": (article or "").strip() or None}
    recompared = None
    if key is not None:
        limits = limits_of(within or (), under or (), over or ())
        body = {"key": key, **scope, **limits, "reason": reason}
        recompared = _recompare(api, path, api.send("PUT", path, body=body).json())
    elif removed is not None:
        query = {"key": removed, **scope, "reason": reason}
        recompared = _recompare(api, path, api.send("DELETE", path, query=query).json())
    elif accepted is not None:
        accept = f"{path}/suggestions/{accepted.strip()}/accept"
        recompared = _recompare(api, path, api.send("POST", accept, body={"reason": reason}).json())
    listed = api.send("GET", path).json()
    print_json(listed["tolerances"]) if as_json else _show(listed, recompared)


def _recompare(api: Api, path: str, response: dict[str, Any]) -> int:
    """Request a new comparison of all clusters, and return their number."""
    count: int = response["clusters"]
    while response["next_cursor"] is not None:
        response = api.send("POST", f"{path}/recompare", query={"cursor": response["next_cursor"]}).json()
        count += response["clusters"]
    return count


def _check(target: str | None, details: Sequence[object], *changes: object) -> None:
    """Reject several changes, an unknown key, and a scope or limits without a key."""
    if sum(map(bool, changes)) > 1:
        raise UsageError("One change at a time: --set, --remove, --suggest or --accept.")
    if target is None and any(details):
        raise UsageError(f"A key is required: --set or --remove with one of {', '.join(KEYS)}.")
    if target is not None and target not in KEYS:
        raise UsageError(f"'{target}' is not a key: use one of {', '.join(KEYS)}.")


def _scope(tolerance: dict[str, Any]) -> str:
    parts = [f"{name} {tolerance[name]}" for name in ("supplier", "article") if tolerance[name]]
    return " and ".join(parts) or "everything"


def _show(listed: dict[str, Any], recompared: int | None) -> None:
    table = Table("key", "for", "tolerance", Column("set by", overflow="fold"), box=None)
    for default in listed["defaults"]:
        table.add_row(default["key"], "everything else", default["text"], "", style="dim")
    for tolerance in listed["tolerances"]:
        source = ": ".join(filter(None, (tolerance["set_by"], tolerance["reason"])))
        evidence = f" ({tolerance['evidence']['accepted']} documents accepted)" if tolerance["evidence"] else ""
        table.add_row(*map(Text, (tolerance["key"], _scope(tolerance), tolerance["text"], f"{source}{evidence}")))
    stdout().print(table)
    if recompared is not None:
        stdout().print(
            "1 cluster will be compared again." if recompared == 1 else f"{recompared} clusters will be compared again."
        )


def _show_suggestions(response: dict[str, Any], slug: str) -> None:
    """Show each suggestion with its evidence, and why other suggestions are withheld."""
    for suggestion in response["proposals"]:
        stdout().print(
            Text(suggestion["proposal"]["id"], "bold cyan").append(f"  {suggestion['title']}", "bold default")
        )
        for sentence in suggestion["sentences"]:
            stdout().print(Padding(Text(sentence), (0, 0, 0, 2)))
        stdout().print()
    if response["proposals"]:
        stdout().print(
            f"Suggestions have no effect until accepted. To accept: counterfoil tenants tolerances {slug} --accept ID"
        )
    if response["withheld"]:
        if response["proposals"]:
            stdout().print()
        stdout().print(Text("No suggestions for", "bold"))
    for withheld in response["withheld"]:
        stdout().print(Padding(Text(f"{withheld['title']}: {withheld['reason']}"), (0, 0, 0, 2)))
    if not response["proposals"] and not response["withheld"]:
        stdout().print(
            "No differences have been accepted or disputed yet: counterfoil clusters accept ID, or dispute ID"
        )
