"""Tables for people, shared by several commands."""

from collections import Counter
from collections.abc import Callable, Sequence

from rich.table import Column, Table
from rich.text import Text

from cli.ids import short
from cli.outcomes import Outcome, State
from cli.terminal import page

STYLES = {
    State.WAITING: "cyan",
    State.WORKING: "cyan",
    State.SUCCEEDED: "green",
    State.KEPT: "yellow",
    State.SEEN_AGAIN: "dim",
    State.REMOVED: "dim",
    State.FAILED: "red",
}


def of_tenants(whose: Sequence[str], *columns: Column) -> tuple[Table, Callable[..., None]]:
    """A table that names tenants where there are several, and what adds a row to it: a tenant's slug, and cells."""
    several = len(set(whose)) > 1
    tenants = [Column("tenant", no_wrap=True)] if several else []
    table = Table(*tenants, *columns, box=None, pad_edge=False)

    def add(tenant: str, *cells: Text) -> None:
        table.add_row(*([Text(tenant)] if several else []), *cells)

    return table, add


def show_outcomes(found: Sequence[Outcome], *, with_ids: bool = False) -> None:
    """A row for each upload, and a line with their number by state. Ids are the ends of those of documents."""
    if not found:
        page().print("There are no documents.")
        return
    several = len({outcome.tenant for outcome in found}) > 1
    columns = [Column("tenant", no_wrap=True)] if several else []
    columns += [Column("id", no_wrap=True)] if with_ids else []
    columns += [
        Column("file", overflow="fold"),
        Column("state", no_wrap=True),
        Column("type"),
        Column("number", overflow="fold"),
    ]
    table = Table(*columns, Column("note", overflow="fold"), box=None, pad_edge=False)
    for outcome in found:
        cells = [Text(outcome.tenant or "(none)")] if several else []
        cells += [Text("" if outcome.state is State.REMOVED else short(outcome.document_id))] if with_ids else []
        cells += [Text(outcome.file), Text(outcome.state, STYLES[outcome.state])]
        cells += [Text(label(outcome.type)), Text(outcome.number or ""), Text(outcome.note)]
        table.add_row(*cells)
    page().print(table)
    page().print(summary(found))


def summary(found: Sequence[Outcome]) -> Text:
    """How many there are in each state, where there are any."""
    counts = Counter(outcome.state for outcome in found)
    parts = [Text(f"{counts[state]} {state}", STYLES[state]) for state in State if counts[state]]
    return Text(", ").join(parts)


def label(type_: str | None) -> str:
    """A type of document in words."""
    return (type_ or "").replace("_", " ")
