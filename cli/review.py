"""`counterfoil review`: what matching left in doubt, with the evidence side by side; people decide."""

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import asked, ids, outcomes
from cli.client import By, Reason
from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.output import is_wanted, label, page, print_json
from cli.tenants import Tenant, chosen
from counterfoil.db import Connection, retry_conflicts
from counterfoil.documents import review as acts
from counterfoil.documents import review_queue
from counterfoil.documents.matching import judge, sql
from counterfoil.documents.matching.evidence import Step, waterfall
from counterfoil.documents.matching.judge import Said
from counterfoil.documents.review import Answer, Done, Refused, Who
from counterfoil.documents.review_queue import Item, Paper, Wanted
from counterfoil.documents.structured import DocumentType

SUMMARY = "Decide what matching left in doubt, or decided wrongly."
SIDE_BY_SIDE = 3
"""Candidates that are shown beside one another; the others follow in short."""
_ROWS = ("number", "date", "seller", "buyer", "total", "file")


class State(StrEnum):
    """What became of a review."""

    OPEN = "open"
    DECIDED = "decided"
    GONE = "gone"


_BECAME = {State.OPEN: "in doubt", State.DECIDED: "decided by a person", State.GONE: "in doubt no more, by themselves"}
_NOTHING = {
    State.OPEN: "Nothing is in doubt here.",
    State.DECIDED: "Nothing is here that was in doubt and was decided by a person.",
    State.GONE: "Nothing is here that was in doubt and is no more.",
}

app = typer.Typer(
    help=f"""{SUMMARY}

    Without a command it lists the documents that are in doubt: several others fit, or one does, but not surely. Those
    that have waited longest come first. A decision holds for good, whatever comes in or is read anew: a confirmed pair
    stays together, a rejected one apart, until somebody decides about that pair again.
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
Which = Annotated[
    str,
    typer.Argument(metavar="ID", help="The document's id, or the end of it as tables show it.", show_default=False),
]
Supersede = Annotated[bool, typer.Option("--supersede", help="Take the place of what was decided about it before.")]


@app.callback()
def review(  # one for each option
    context: typer.Context,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by its slug.", show_default=False)] = None,
    kind: Annotated[DocumentType | None, typer.Option(help="Only documents of this kind.", show_default=False)] = None,
    min_chance: Annotated[float, typer.Option(min=0, max=1, help="Of the likeliest candidate, at least.")] = 0,
    max_chance: Annotated[float, typer.Option(min=0, max=1, help="Of the likeliest candidate, at most.")] = 1,
    state: Annotated[State, typer.Option(help="Open; decided by a person; or gone by itself.")] = State.OPEN,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON, with all the evidence.")] = False,
) -> None:
    """List the documents that are in doubt."""
    if not is_wanted(context, "documents in doubt"):
        return
    cloud = Cloud.at(place_of(context.obj))
    wanted = Wanted(
        state=state.value,
        tenants=None if tenant is None else [one.slug for one in chosen(cloud, tenant)],
        kind=kind,
        min_chance=min_chance,
        max_chance=max_chance,
    )
    with cloud.database.delivery() as connection:
        places = review_queue.places(connection, wanted, limit + 1)
    found = review_queue.items(cloud.database, places[:limit])
    if as_json:
        print_json([item.record for item in found])
    else:
        show_queue(found, state, has_more=len(places) > limit)


def show_queue(found: Sequence[Item], state: State, *, has_more: bool) -> None:
    """A row for each document that is, or was, in doubt."""
    if not found:
        page().print(_NOTHING[state])
        return
    several = len({item.tenant for item in found}) > 1
    columns = [Column("tenant", no_wrap=True)] if several else []
    columns += [Column("id", no_wrap=True), Column("document", overflow="fold"), Column("seller", overflow="fold")]
    columns += [Column("total", justify="right"), Column("not read"), Column("may belong to", overflow="fold")]
    table = Table(*columns, Column("chance", justify="right"), Column("since", no_wrap=True), box=None, pad_edge=False)
    for item in found:
        paper = item.papers.get(item.review.document_id)
        cells = [item.tenant] if several else []
        cells += [ids.short(item.review.document_id), title(paper), (paper and paper.seller) or ""]
        cells += [(paper and paper.total) or "", ", ".join(paper.missing) if paper else ""]
        cells += [_candidates(item), f"{item.review.chance:.0%}"]
        table.add_row(*map(Text, [*cells, f"{item.review.opened_at:%Y-%m-%d}"]))
    page().print(table)
    more = f"; the first {len(found)}, more with --limit" if has_more else ""
    page().print(f"{len(found)} {_BECAME[state]}{more}. One of them with its evidence: counterfoil review show ID")


def title(paper: Paper | None) -> str:
    """What people call a document."""
    return "a document that is gone" if paper is None else f"{label(paper.type)} {paper.number or ids.short(paper.id)}"


def _candidates(item: Item) -> str:
    """The candidates of all doubts, in short."""
    told = []
    for doubt in item.review.doubts:
        some = [title(item.papers.get(UUID(one["document"]))) for one in doubt["candidates"][:SIDE_BY_SIDE]]
        left = doubt["count"] - len(some)
        told.append(" or ".join(some) + (f" or {left} more" if left else ""))
    return "; ".join(told)


@app.command("show")
def show(context: typer.Context, document: Which, *, as_json: AsJson = False) -> None:
    """Show a document in doubt beside its candidates: what each says, and the evidence, feature by feature."""
    cloud = Cloud.at(place_of(context.obj))
    tenant, id_ = outcomes.document_named(cloud, document)
    found = review_queue.item(cloud.database, tenant.id, tenant.slug, id_)
    if found is None:
        raise UsageError(
            f"The document '{document}' was never in doubt: 'counterfoil clusters show' shows its links, and"
            " 'counterfoil review asked' what a language model was asked about it."
        )
    if as_json:
        print_json(found.record)
        return
    with cloud.database.tenant(tenant.id) as connection:
        questions = judge.about(connection, id_)
    show_item(found, questions)


def show_item(item: Item, questions: Sequence[Said] = ()) -> None:
    """One review, with the waterfall of each candidate in a column of its own; `questions` were put to a model."""
    review = item.review
    heading = Text(title(item.papers.get(review.document_id)), "bold")
    page().print(heading.append(f"  {item.tenant}  {ids.short(review.document_id)}  {review.state}", "dim"))
    for doubt in review.doubts:
        page().print()
        page().print(Text(" ".join(filter(None, (doubt["reason"] or _why(doubt), doubt.get("unasked"))))))
        page().print(_side_by_side(item, doubt))
        for candidate in doubt["candidates"][SIDE_BY_SIDE:]:
            paper = item.papers.get(UUID(candidate["document"]))
            page().print(
                Text(f"  {candidate['document'][-ids.SHOWN :]}  {title(paper)}  {candidate['chance']:.0%}", "dim")
            )
        if doubt["others"]:
            page().print(Text(f"  and {len(doubt['others'])} more that are less likely", "dim"))
    _show_questions(review.document_id, questions)
    _show_decisions(item)
    if review.state == "open":
        id_ = ids.short(review.document_id)
        act = f"confirm {id_} CANDIDATE, or reject {id_} CANDIDATE..." if review.candidates else f"merge {id_} OTHER"
        page().print(f"\nDecide: counterfoil review {act}")


def _show_questions(document_id: UUID, questions: Sequence[Said]) -> None:
    if not questions:
        return
    page().print()
    page().print(Text("Asked of a language model", "bold"))
    for said in questions:
        page().print(Text("  ").append(asked.heading(said)))
        for line in asked.answered(said):
            page().print(Text(f"    {line}"))
    page().print(f"  The questions: counterfoil review asked {ids.short(document_id)}")


def _show_decisions(item: Item) -> None:
    if item.decisions:
        page().print()
        page().print(Text("Decided", "bold"))
    for one in item.decisions:
        other = one.pair.a if one.pair.b == item.review.document_id else one.pair.b
        why = f": {one.reason}" if one.reason else ""
        page().print(Text(f"  {one.at:%Y-%m-%d %H:%M}  {one.by} {one.verdict} {ids.short(other)}{why}"))


def _why(doubt: dict[str, Any]) -> str:
    if doubt["number"]:
        return f"It names {doubt['number']}, but what is here under that number does not fit surely."
    return "What fits best does not fit surely."


def _side_by_side(item: Item, doubt: dict[str, Any]) -> Table:
    shown = doubt["candidates"][:SIDE_BY_SIDE]
    papers = [item.papers.get(UUID(one["document"])) for one in shown]
    mine = item.papers.get(item.review.document_id)
    table = Table(Column("", no_wrap=True), Column("this document", overflow="fold"), box=None, pad_edge=False)
    for one, paper in zip(shown, papers, strict=True):
        table.add_column(
            f"{ids.short(UUID(one['document']))} {label(paper.type) if paper else 'gone'}", overflow="fold"
        )
    for name in _ROWS:
        cells = [str(getattr(paper, name, None) or "") for paper in (mine, *papers)]
        table.add_row(Text(name, "dim"), *map(Text, cells))
    unread = [", ".join(paper.missing) if paper else "" for paper in (mine, *papers)]
    table.add_row(Text("not read", "dim"), *map(Text, unread))
    table.add_section()
    steps = [{step.label: step for step in waterfall(one["evidence"])} for one in shown]
    for name in dict.fromkeys(name for found in steps for name in found):
        table.add_row(Text(name, "dim"), "", *(_step(found.get(name)) for found in steps))
    table.add_section()
    table.add_row(Text("in all", "bold"), "", *(Text(f"{one['bits']:+.1f} bits", "bold") for one in shown))
    table.add_row(Text("chance", "bold"), "", *(Text(f"{one['chance']:.0%}", "bold") for one in shown))
    return table


def _step(step: Step | None) -> Text:
    if step is None:
        return Text("-", "dim")
    style = "green" if step.bits > 0 else "red" if step.bits < 0 else "dim"
    return Text(f"{step.bits:+6.1f}  ", style).append(step.text)


app.command("asked")(asked.asked)


# -- deciding -------------------------------------------------------------------------------------------------------


@app.command("confirm")
def confirm(  # one for each option
    context: typer.Context,
    document: Which,
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="What it belongs to.", show_default=False)],
    *,
    reason: Reason = None,
    by: By,
    supersede: Supersede = False,
    as_json: AsJson = False,
) -> None:
    """Confirm that a document belongs to a candidate, or to what it is linked to: they stay together."""
    cloud = Cloud.at(place_of(context.obj))
    tenant, id_, other = _two(cloud, document, candidate)
    _decide(
        cloud,
        tenant,
        [id_, other],
        (by, reason, supersede),
        lambda connection, now, who: acts.confirm(connection, tenant.id, id_, other, now, who),
        as_json=as_json,
    )


@app.command("reject")
def reject(  # one for each option
    context: typer.Context,
    document: Which,
    candidates: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CANDIDATE", help="What it does not belong to; several may be named.", show_default=False
        ),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All candidates that it has now.")] = False,
    reason: Reason = None,
    by: By,
    supersede: Supersede = False,
    as_json: AsJson = False,
) -> None:
    """Reject candidates of a document, or what it is linked to: nothing links them again.

    What is left is decided again: of two candidates, the other one may be sure then.
    """
    cloud = Cloud.at(place_of(context.obj))
    tenant, id_ = outcomes.document_named(cloud, document)
    if every == bool(candidates):
        raise UsageError("Name what it does not belong to, or reject --all candidates.")
    others = [_two(cloud, document, one)[2] for one in candidates or ()]
    if every:
        found = review_queue.item(cloud.database, tenant.id, tenant.slug, id_)
        others = sorted(found.review.candidates) if found is not None and found.review.state == "open" else []
        if not others:
            raise UsageError(f"The document '{document}' is not in doubt.")
    _decide(
        cloud,
        tenant,
        [id_, *others],
        (by, reason, supersede),
        lambda connection, now, who: acts.reject(connection, tenant.id, id_, others, now, who),
        as_json=as_json,
    )


@app.command("merge")
def merge(  # one for each option
    context: typer.Context,
    document: Which,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="A document of the other cluster.", show_default=False)],
    *,
    exact: Annotated[bool, typer.Option("--exact", help="Link just these two, not those that fit best.")] = False,
    reason: Reason = None,
    by: By,
    supersede: Supersede = False,
    as_json: AsJson = False,
) -> None:
    """Join two clusters, whatever matching thinks: the two of their documents that fit best are confirmed as a pair."""
    cloud = Cloud.at(place_of(context.obj))
    tenant, one, two = _two(cloud, document, other)
    _decide(
        cloud,
        tenant,
        [one, two],
        (by, reason, supersede),
        lambda connection, now, who: acts.merge(connection, tenant.id, one, two, now, who, exact=exact),
        as_json=as_json,
    )


@app.command("split")
def split(  # one for each option
    context: typer.Context,
    document: Which,
    *,
    reason: Reason = None,
    by: By,
    supersede: Supersede = False,
    as_json: AsJson = False,
) -> None:
    """Take a document out of its cluster: all its links there are rejected. Links to contracts stay."""
    cloud = Cloud.at(place_of(context.obj))
    tenant, id_ = outcomes.document_named(cloud, document)
    _decide(
        cloud,
        tenant,
        [id_],
        (by, reason, supersede),
        lambda connection, now, who: acts.split(connection, tenant.id, id_, now, who),
        as_json=as_json,
    )


def _two(cloud: Cloud, document: str, other: str) -> tuple[Tenant, UUID, UUID]:
    """Two documents of one tenant.

    Raises:
        UsageError: they are not, or one cannot be told.
    """
    tenant, id_ = outcomes.document_named(cloud, document)
    theirs, other_id = outcomes.document_named(cloud, other)
    if theirs.id != tenant.id:
        raise UsageError(
            f"'{document}' is of tenant '{tenant.slug}' and '{other}' of '{theirs.slug}': name two of one."
        )
    return tenant, id_, other_id


def _decide(  # who decides what
    cloud: Cloud,
    tenant: Tenant,
    about: Sequence[UUID],
    trail: tuple[str, str | None, bool],
    act: Callable[[Connection, datetime, Who], Answer],
    *,
    as_json: bool,
) -> None:
    by, reason, supersede = trail

    def once() -> Answer:
        with cloud.database.tenant(tenant.id) as connection:
            known = [one.id for one in sql.decisions(connection, about)] if supersede else []
            return act(connection, cloud.database.now(), Who(by, reason, known))

    answer = retry_conflicts(once)
    if isinstance(answer, Refused):
        raise UsageError(answer.sentence)
    cloud.send(answer.sends)
    if as_json:
        print_json({"tenant": tenant.slug, **answer.record})
    else:
        _tell(cloud, tenant, answer)


def _tell(cloud: Cloud, tenant: Tenant, done: Done) -> None:
    with cloud.database.tenant(tenant.id) as connection:
        papers = review_queue.papers(connection, {end for pair in done.decided for end in pair})
    what = "belong together" if done.verdict == "confirmed" else "do not belong together"
    for a, b in done.decided:
        page().print(Text(f"{title(papers.get(a))} and {title(papers.get(b))} {what}."))
    if done.rematched:
        page().print(f"Documents matched anew, since they are in doubt otherwise than before: {done.rematched}.")
    page().print("Their clusters are being recomputed: counterfoil clusters show ID")
