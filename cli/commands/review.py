"""`counterfoil review`: documents that need review with their evidence, and decisions."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer
from rich.table import Column, Table
from rich.text import Text

from cli import ids
from cli.client import Api, By, Reason, connect
from cli.commands.documents import PATH as DOCUMENTS
from cli.commands.documents import DocumentType
from cli.failures import UsageError
from cli.options import AnyTenant, AsJson, Limit, Supersede
from cli.output import is_wanted, label, page, print_json, shown_time

PATH = "/api/admin/reviews"
SUMMARY = "Review ambiguous matches, and correct wrong ones."
SIDE_BY_SIDE = 3
"""Number of candidates shown in columns. The others have one line each."""
State = Literal["open", "decided", "resolved"]
STATES: dict[State, str] = {
    "open": "waiting for review",
    "decided": "decided by a reviewer",
    "resolved": "no longer ambiguous, without a decision",
}
"""Description of each state."""
_FACTS = ("number", "date", "seller", "buyer", "total", "file")

Document = Mapping[str, Any]
Review = Mapping[str, Any]
"""A review as returned by the API."""

app = typer.Typer(
    help=f"""{SUMMARY}

    Without a command, lists documents that need review, longest waiting first: they have several candidates, or an
    uncertain one. Decisions apply whatever arrives later: a confirmed pair stays linked and a rejected pair unlinked,
    until a reviewer decides about the pair again.
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)
DocumentId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the document, or the end of it.", show_default=False)
]


@app.callback()
def review(  # one for each option
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    document_type: Annotated[DocumentType | None, typer.Option(help="Only this type.", show_default=False)] = None,
    min_probability: Annotated[float, typer.Option(min=0, max=1, help="Minimum for the most likely candidate.")] = 0,
    max_probability: Annotated[float, typer.Option(min=0, max=1, help="Maximum for the most likely candidate.")] = 1,
    state: Annotated[State, typer.Option(help="open; decided; gone: no longer ambiguous.")] = "open",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List documents that need review."""
    if not is_wanted(context, "documents that need review"):
        return
    asked = {
        "tenant": tenant,
        "document_type": document_type,
        "min_probability": min_probability,
        "max_probability": max_probability,
        "state": state,
    }
    found = list(connect(context).items(PATH, "reviews", limit=limit + 1, **asked))
    shown = found[:limit]
    if as_json:
        print_json(shown)
    elif not shown:
        page().print(f"No document is {STATES[state]}.")
    else:
        _show_list(shown)
        more = ", and there are more: raise --limit" if len(found) > limit else ""
        page().print(f"{len(shown)} {STATES[state]}{more}. To see the evidence of one: counterfoil review show ID")


def _show_list(found: Sequence[Review]) -> None:
    several = len({one["tenant"] for one in found}) > 1
    columns = [Column("tenant", no_wrap=True)] if several else []
    columns += [Column("id", no_wrap=True), Column("document", overflow="fold"), Column("supplier", overflow="fold")]
    columns += [Column("total", justify="right"), Column("not read"), Column("candidates", overflow="fold")]
    table = Table(
        *columns, Column("probability", justify="right"), Column("since", no_wrap=True), box=None, pad_edge=False
    )
    for one in found:
        document = one["document"]
        cells = [one["tenant"]] if several else []
        cells += [ids.short_id(one["id"]), title(document), document["seller"] or "", document["total"] or ""]
        cells += [", ".join(document["missing"]), _candidates(one), f"{one['probability']:.0%}", one["opened_at"][:10]]
        table.add_row(*map(Text, cells))
    page().print(table)


def title(document: Document) -> str:
    """Return the display name of a document: its type and number."""
    if document["type"] is None:
        return "a deleted document"
    return f"{label(document['type'])} {document['number'] or ids.short_id(document['id'])}"


def _candidates(found: Review) -> str:
    shown = []
    for doubt in found["ambiguous_matches"]:
        some = [title(one["document"]) for one in doubt["candidates"][:SIDE_BY_SIDE]]
        left = doubt["count"] - len(some)
        shown.append(" or ".join(some) + (f" or {left} more" if left else ""))
    return "; ".join(shown)


@app.command("show")
def show(context: typer.Context, document: DocumentId, *, as_json: AsJson = False) -> None:
    """Show a document that needs review next to its candidates, with the evidence of each feature."""
    api = connect(context)
    id_ = api.find_by_id_suffix("document", document, "documents")
    found = api.send("GET", f"{PATH}/{id_}").json()
    if as_json:
        print_json(found)
    else:
        _show(found, _questions(api, id_)["questions"])


def _show(found: Review, questions: Sequence[Mapping[str, Any]]) -> None:
    heading = Text(title(found["document"]), "bold")
    page().print(heading.append(f"  {found['tenant']}  {ids.short_id(found['id'])}  {found['state']}", "dim"))
    for doubt in found["ambiguous_matches"]:
        page().print()
        page().print(Text(" ".join(filter(None, (doubt["reason"] or _why(doubt), doubt.get("unasked"))))))
        page().print(_side_by_side(found["document"], doubt))
        for one in doubt["candidates"][SIDE_BY_SIDE:]:
            document = one["document"]
            page().print(Text(f"  {ids.short_id(document['id'])}  {title(document)}  {one['probability']:.0%}", "dim"))
        if doubt["others"]:
            page().print(Text(f"  and {len(doubt['others'])} less likely candidates", "dim"))
    if questions:
        page().print()
        page().print(Text("Questions to a language model", "bold"))
        for question in questions:
            page().print(Text("  ").append(_heading(question)))
            for line in _answer(question):
                page().print(Text(f"    {line}"))
        page().print(f"  Details: counterfoil review questions {ids.short_id(found['id'])}")
    if found["decisions"]:
        page().print()
        page().print(Text("Decisions", "bold"))
    for one in found["decisions"]:
        (other,) = set(one["documents"]) - {found["id"]}
        why = f": {one['reason']}" if one["reason"] else ""
        page().print(Text(f"  {shown_time(one['at'])}  {one['by']} {one['verdict']} {ids.short_id(other)}{why}"))
    if found["state"] == "open":
        id_ = ids.short_id(found["id"])
        has_candidates = any(doubt["candidates"] for doubt in found["ambiguous_matches"])
        verbs = f"confirm {id_} CANDIDATE, or reject {id_} CANDIDATE..." if has_candidates else f"merge {id_} OTHER"
        page().print(f"\nTo decide: counterfoil review {verbs}")


def _why(doubt: Mapping[str, Any]) -> str:
    if doubt["number"]:
        return f"It refers to {doubt['number']}, but no document with that number is a certain match."
    return "The best candidate is uncertain."


def _side_by_side(mine: Document, doubt: Mapping[str, Any]) -> Table:
    shown = doubt["candidates"][:SIDE_BY_SIDE]
    documents = [one["document"] for one in shown]
    table = Table(Column("", no_wrap=True), Column("this document", overflow="fold"), box=None, pad_edge=False)
    for document in documents:
        table.add_column(f"{ids.short_id(document['id'])} {label(document['type'] or 'deleted')}", overflow="fold")
    for name in _FACTS:
        table.add_row(Text(name, "dim"), *(Text(str(document[name] or "")) for document in (mine, *documents)))
    table.add_row(Text("not read", "dim"), *(Text(", ".join(document["missing"])) for document in (mine, *documents)))
    table.add_section()
    steps = [{step["label"]: step for step in one["evidence"]} for one in shown]
    for name in dict.fromkeys(name for found in steps for name in found):
        table.add_row(Text(name, "dim"), "", *(_step(found.get(name)) for found in steps))
    table.add_section()
    table.add_row(Text("sum", "bold"), "", *(Text(f"{one['weight_bits']:+.1f} bits", "bold") for one in shown))
    table.add_row(Text("probability", "bold"), "", *(Text(f"{one['probability']:.0%}", "bold") for one in shown))
    return table


def _step(step: Mapping[str, Any] | None) -> Text:
    if step is None:
        return Text("-", "dim")
    style = "green" if step["bits"] > 0 else "red" if step["bits"] < 0 else "dim"
    return Text(f"{step['bits']:+6.1f}  ", style).append(step["text"])


# -- questions --------------------------------------------------------------------------------------------------------


@app.command("questions")
def questions(
    context: typer.Context,
    document: DocumentId,
    *,
    whole: Annotated[bool, typer.Option("--text", help="Also print the text of the questions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the questions to a language model about a document, with the answers.

    --json contains everything required to repeat a question. Answers are stored and reused. The text of old questions,
    and of questions that quote a removed document, is no longer stored.
    """
    api = connect(context)
    found = _questions(api, api.find_by_id_suffix("document", document, "documents"))
    if as_json:
        print_json(found)
    elif not found["questions"]:
        page().print("No questions about this document were sent to a language model.")
    else:
        for question in found["questions"]:
            _show_question(question, whole=whole)
        if not whole and any(one["user"] is not None for one in found["questions"]):
            page().print("To see their text: counterfoil review questions ID --text")


def _questions(api: Api, id_: str) -> dict[str, Any]:
    found: dict[str, Any] = api.send("GET", f"{DOCUMENTS}/{id_}/questions").json()
    return found


def _show_question(question: Mapping[str, Any], *, whole: bool) -> None:
    page().print(_heading(question))
    for name, document in question["candidates"].items():
        page().print(
            Text(f"  {name}  {label(document['type'])} {document['number'] or ''}  {ids.short_id(document['id'])}")
        )
    for line in _answer(question):
        page().print(Text(f"  {line}"))
    if question["user"] is None:
        page().print(Text("  The text of the question is no longer stored.", "dim"))
    elif whole:
        page().print(Text(f"\n{question['system']}\n{question['user']}", "dim"))
    page().print()


def _heading(question: Mapping[str, Any]) -> Text:
    facts = [question["prompt"] and f"prompt {question['prompt']}"]
    facts += [None if question["temperature"] is None else f"temperature {question['temperature']:g}"]
    if question["input_tokens"] is not None:
        facts.append(f"{question['input_tokens']} tokens in, {question['output_tokens']} out")
    heading = Text(f"{shown_time(question['asked_at'])}  {question['model']}", "bold")
    return heading.append(f"  {', '.join(filter(None, facts))}", "dim")


def _answer(question: Mapping[str, Any]) -> list[str]:
    if refused := question["answer"].get("refused"):
        return [f"The question was rejected: {refused}"]
    matches = question["answer"]["matches"]
    if not matches:
        return ["It chose no candidate."]
    return [
        f"It chose {_chosen(question, one['candidate'])} ({one['confidence']}): {one['reasoning']}" for one in matches
    ]


def _chosen(question: Mapping[str, Any], name: str) -> str:
    document = question["candidates"].get(name)
    return f"{name}, a deleted document" if document is None else f"{name}, {ids.short_id(document['id'])}"


# -- decisions --------------------------------------------------------------------------------------------------------


@app.command("confirm")
def confirm(
    context: typer.Context,
    document: DocumentId,
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="Matching document.")],
    *,
    reason: Reason = None,
    by: By,
    supersede: Supersede = False,
    as_json: AsJson = False,
) -> None:
    """Confirm that a document matches a candidate or a linked document. They stay linked."""
    api = connect(context, by)
    id_, other = _ids(api, document, candidate)
    _decide(api, f"{id_}/confirm", {"document": other}, reason, supersede=supersede, as_json=as_json)


@app.command("reject")
def reject(
    context: typer.Context,
    document: DocumentId,
    candidates: Annotated[
        list[str] | None,
        typer.Argument(metavar="CANDIDATE", help="Documents that do not match.", show_default=False),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Reject all current candidates.")] = False,
    reason: Reason = None,
    by: By,
    supersede: Supersede = False,
    as_json: AsJson = False,
) -> None:
    """Reject candidates of a document, or documents that it is linked to. They are not linked again.

    The document is then matched again: of two candidates, the other one may become certain.
    """
    if every == bool(candidates):
        raise UsageError("Give either the candidates to reject, or --all.")
    api = connect(context, by)
    id_, *others = _ids(api, document, *candidates or ())
    if every:
        found = api.send("GET", f"{PATH}/{id_}").json()
        others = [one["document"]["id"] for doubt in found["ambiguous_matches"] for one in doubt["candidates"]]
        if found["state"] != "open" or not others:
            raise UsageError(f"The document '{document}' does not need review.")
    _decide(api, f"{id_}/reject", {"documents": others}, reason, supersede=supersede, as_json=as_json)


@app.command("merge")
def merge(
    context: typer.Context,
    document: DocumentId,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Any document of the other cluster.")],
    *,
    exact: Annotated[bool, typer.Option("--exact", help="Link these two documents, not the best pair.")] = False,
    reason: Reason = None,
    by: By,
    supersede: Supersede = False,
    as_json: AsJson = False,
) -> None:
    """Merge two clusters regardless of their scores.

    The best pair of documents from both clusters is linked.
    """
    api = connect(context, by)
    both = {"documents": _ids(api, document, other), "exact": exact}
    _decide(api, "merge", both, reason, supersede=supersede, as_json=as_json)


@app.command("split")
def split(
    context: typer.Context,
    document: DocumentId,
    *,
    reason: Reason = None,
    by: By,
    supersede: Supersede = False,
    as_json: AsJson = False,
) -> None:
    """Remove a document from its cluster by rejecting all its matches there. Links to contracts stay."""
    api = connect(context, by)
    (id_,) = _ids(api, document)
    _decide(api, "split", {"document": id_}, reason, supersede=supersede, as_json=as_json)


def _ids(api: Api, *texts: str) -> list[str]:
    return [api.find_by_id_suffix("document", text, "documents") for text in texts]


def _decide(
    api: Api, action: str, wanted: dict[str, Any], reason: str | None, *, supersede: bool, as_json: bool
) -> None:
    body = {**wanted, "reason": reason, "overrides": None if supersede else []}
    done = api.send("POST", f"{PATH}/{action}", body=body).json()
    if as_json:
        print_json(done)
        return
    decision = "were confirmed as a match" if done["verdict"] == "confirmed" else "were rejected as a match"
    for a, b in done["decided"]:
        page().print(Text(f"{_name(api, a)} and {_name(api, b)} {decision}."))
    if done["rematched_documents"]:
        page().print(
            f"Documents to match again, because their ambiguous matches changed: {done['rematched_documents']}."
        )
    page().print("Their clusters are being recomputed: counterfoil clusters show ID")


def _name(api: Api, id_: str) -> str:
    found = api.send("GET", f"{DOCUMENTS}/{id_}").json()
    return f"{label(found['type'] or 'other')} {found['number'] or ids.short_id(id_)}"
