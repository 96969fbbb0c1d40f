"""`counterfoil review`: documents that need review, with evidence and decisions."""

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
from cli.options import AnyTenant, AsJson, Limit, Override
from cli.output import format_time, is_list_requested, print_json, stdout, type_label

PATH = "/api/admin/reviews"
SUMMARY = "Review ambiguous matches, and correct mistakes."
SIDE_BY_SIDE = 3
"""Number of candidates shown in columns. Each further candidate gets one line."""
State = Literal["open", "decided", "resolved"]
STATES: dict[State, str] = {
    "open": "waiting for review",
    "decided": "decided by a reviewer",
    "resolved": "resolved without a decision",
}
"""Description of each state."""
_FACTS = ("number", "date", "seller", "buyer", "total", "file")

Document = Mapping[str, Any]
Review = Mapping[str, Any]
"""A review as returned by the API."""

app = typer.Typer(
    help=f"""{SUMMARY}

    If no command is given, lists documents that need review, longest waiting first. Such a document has several
    candidates, or one uncertain candidate. Documents that arrive later do not change a decision: a confirmed pair
    stays linked and a rejected pair stays unlinked, until a reviewer decides about the pair again.
    """,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode="markdown",
)
DocumentId = Annotated[
    str, typer.Argument(metavar="ID", help="Document id, or its last characters.", show_default=False)
]


@app.callback()
def review(
    context: typer.Context,
    *,
    tenant: AnyTenant = None,
    document_type: Annotated[DocumentType | None, typer.Option(help="Only this type.", show_default=False)] = None,
    min_probability: Annotated[
        float, typer.Option(min=0, max=1, help="Minimum probability of the most likely candidate.")
    ] = 0,
    max_probability: Annotated[
        float, typer.Option(min=0, max=1, help="Maximum probability of the most likely candidate.")
    ] = 1,
    state: Annotated[State, typer.Option(help="open; decided; resolved: no longer ambiguous.")] = "open",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List documents that need review."""
    if not is_list_requested(context, "documents that need review"):
        return
    filters = {
        "tenant": tenant,
        "document_type": document_type,
        "min_probability": min_probability,
        "max_probability": max_probability,
        "state": state,
    }
    reviews = list(connect(context).items(PATH, "reviews", limit=limit + 1, **filters))
    listed = reviews[:limit]
    if as_json:
        print_json(listed)
    elif not listed:
        stdout().print(f"No documents found ({STATES[state]}).")
    else:
        _show_list(listed)
        more = ". To see more, raise --limit" if len(reviews) > limit else ""
        stdout().print(f"{len(listed)} {STATES[state]}{more}. To see the evidence: counterfoil review show ID")


def _show_list(reviews: Sequence[Review]) -> None:
    shows_tenant = len({review["tenant"] for review in reviews}) > 1
    columns = [Column("tenant", no_wrap=True)] if shows_tenant else []
    columns += [Column("id", no_wrap=True), Column("document", overflow="fold"), Column("supplier", overflow="fold")]
    columns += [Column("total", justify="right"), Column("missing"), Column("candidates", overflow="fold")]
    table = Table(
        *columns, Column("probability", justify="right"), Column("since", no_wrap=True), box=None, pad_edge=False
    )
    for review in reviews:
        document = review["document"]
        cells = [review["tenant"]] if shows_tenant else []
        cells += [ids.short_id(review["id"]), title(document), document["seller"] or "", document["total"] or ""]
        cells += [
            ", ".join(document["missing"]),
            _candidates(review),
            f"{review['probability']:.0%}",
            review["opened_at"][:10],
        ]
        table.add_row(*map(Text, cells))
    stdout().print(table)


def title(document: Document) -> str:
    """Return a document's display name: its type and number."""
    if document["type"] is None:
        return "a deleted document"
    return f"{type_label(document['type'])} {document['number'] or ids.short_id(document['id'])}"


def _candidates(review: Review) -> str:
    parts = []
    for ambiguous in review["ambiguous_matches"]:
        titles = [title(candidate["document"]) for candidate in ambiguous["candidates"][:SIDE_BY_SIDE]]
        remaining = ambiguous["count"] - len(titles)
        parts.append(" or ".join(titles) + (f" or {remaining} more" if remaining else ""))
    return "; ".join(parts)


@app.command("show")
def show(context: typer.Context, document: DocumentId, *, as_json: AsJson = False) -> None:
    """Show a document that needs review, its candidates, and evidence by feature."""
    api = connect(context)
    id_ = api.find_by_id_suffix("document", document, "documents")
    review = api.send("GET", f"{PATH}/{id_}").json()
    if as_json:
        print_json(review)
    else:
        _show(review, _questions(api, id_)["questions"])


def _show(review: Review, questions: Sequence[Mapping[str, Any]]) -> None:
    heading = Text(title(review["document"]), "bold")
    stdout().print(heading.append(f"  {review['tenant']}  {ids.short_id(review['id'])}  {review['state']}", "dim"))
    for ambiguous in review["ambiguous_matches"]:
        stdout().print()
        stdout().print(
            Text(
                " ".join(
                    filter(
                        None, (ambiguous["reason"] or _ambiguity_reason(ambiguous), ambiguous.get("llm_skip_reason"))
                    )
                )
            )
        )
        stdout().print(_side_by_side(review["document"], ambiguous))
        for candidate in ambiguous["candidates"][SIDE_BY_SIDE:]:
            document = candidate["document"]
            stdout().print(
                Text(f"  {ids.short_id(document['id'])}  {title(document)}  {candidate['probability']:.0%}", "dim")
            )
        if ambiguous["other_candidates"]:
            stdout().print(Text(f"  and {len(ambiguous['other_candidates'])} less likely candidates", "dim"))
    if questions:
        stdout().print()
        stdout().print(Text("Language model calls", "bold"))
        for question in questions:
            stdout().print(Text("  ").append(_heading(question)))
            for line in _answer_lines(question):
                stdout().print(Text(f"    {line}"))
        stdout().print(f"  Details: counterfoil review llm-log {ids.short_id(review['id'])}")
    if review["decisions"]:
        stdout().print()
        stdout().print(Text("Decisions", "bold"))
    for decision in review["decisions"]:
        (other,) = set(decision["documents"]) - {review["id"]}
        reason = f": {decision['reason']}" if decision["reason"] else ""
        verdict = f"{decision['by']} {decision['verdict']} {ids.short_id(other)}"
        stdout().print(Text(f"  {format_time(decision['at'])}  {verdict}{reason}"))
    if review["state"] == "open":
        id_ = ids.short_id(review["id"])
        has_candidates = any(ambiguous["candidates"] for ambiguous in review["ambiguous_matches"])
        verbs = f"confirm {id_} CANDIDATE, or reject {id_} CANDIDATE..." if has_candidates else f"merge {id_} OTHER"
        stdout().print(f"\nTo decide: counterfoil review {verbs}")


def _ambiguity_reason(ambiguous: Mapping[str, Any]) -> str:
    if ambiguous["number"]:
        return f"The document references {ambiguous['number']}, but no document with that number is a certain match."
    return "The best candidate is uncertain."


def _side_by_side(reviewed: Document, ambiguous: Mapping[str, Any]) -> Table:
    candidates = ambiguous["candidates"][:SIDE_BY_SIDE]
    documents = [candidate["document"] for candidate in candidates]
    table = Table(Column("", no_wrap=True), Column("this document", overflow="fold"), box=None, pad_edge=False)
    for document in documents:
        table.add_column(f"{ids.short_id(document['id'])} {type_label(document['type'] or 'deleted')}", overflow="fold")
    for name in _FACTS:
        table.add_row(Text(name, "dim"), *(Text(str(document[name] or "")) for document in (reviewed, *documents)))
    table.add_row(
        Text("missing", "dim"), *(Text(", ".join(document["missing"])) for document in (reviewed, *documents))
    )
    table.add_section()
    steps = [{step["label"]: step for step in candidate["evidence"]} for candidate in candidates]
    for name in dict.fromkeys(name for evidence in steps for name in evidence):
        table.add_row(Text(name, "dim"), "", *(_step(evidence.get(name)) for evidence in steps))
    table.add_section()
    table.add_row(
        Text("sum", "bold"), "", *(Text(f"{candidate['weight_bits']:+.1f} bits", "bold") for candidate in candidates)
    )
    table.add_row(
        Text("probability", "bold"), "", *(Text(f"{candidate['probability']:.0%}", "bold") for candidate in candidates)
    )
    return table


def _step(step: Mapping[str, Any] | None) -> Text:
    if step is None:
        return Text("-", "dim")
    style = "green" if step["bits"] > 0 else "red" if step["bits"] < 0 else "dim"
    return Text(f"{step['bits']:+6.1f}  ", style).append(step["text"])


# -- language model calls ---------------------------------------------------------------------------------------------


@app.command("llm-log")
def questions(
    context: typer.Context,
    document: DocumentId,
    *,
    full_prompt: Annotated[bool, typer.Option("--full-prompt", help="Also print the prompts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the language model calls about a document, with the answers.

    --json prints everything required to repeat a call. Answers are stored and reused. The prompts of old calls, and
    prompts that quote a removed document, are no longer stored.
    """
    api = connect(context)
    response = _questions(api, api.find_by_id_suffix("document", document, "documents"))
    if as_json:
        print_json(response)
    elif not response["questions"]:
        stdout().print("No language model calls were made about this document.")
    else:
        for question in response["questions"]:
            _show_question(question, with_text=full_prompt)
        if not full_prompt and any(question["user"] is not None for question in response["questions"]):
            stdout().print("To see the prompts: counterfoil review llm-log ID --full-prompt")


def _questions(api: Api, id_: str) -> dict[str, Any]:
    response: dict[str, Any] = api.send("GET", f"{DOCUMENTS}/{id_}/questions").json()
    return response


def _show_question(question: Mapping[str, Any], *, with_text: bool) -> None:
    stdout().print(_heading(question))
    for name, document in question["candidates"].items():
        stdout().print(
            Text(f"  {name}  {type_label(document['type'])} {document['number'] or ''}  {ids.short_id(document['id'])}")
        )
    for line in _answer_lines(question):
        stdout().print(Text(f"  {line}"))
    if question["user"] is None:
        stdout().print(Text("  The prompt is no longer stored.", "dim"))
    elif with_text:
        stdout().print(Text(f"\n{question['system']}\n{question['user']}", "dim"))
    stdout().print()


def _heading(question: Mapping[str, Any]) -> Text:
    facts = [question["prompt"] and f"prompt {question['prompt']}"]
    facts += [None if question["temperature"] is None else f"temperature {question['temperature']:g}"]
    if question["input_tokens"] is not None:
        facts.append(f"{question['input_tokens']} tokens in, {question['output_tokens']} out")
    heading = Text(f"{format_time(question['asked_at'])}  {question['model']}", "bold")
    return heading.append(f"  {', '.join(filter(None, facts))}", "dim")


def _answer_lines(question: Mapping[str, Any]) -> list[str]:
    if rejection := question["answer"].get("refused"):
        return [f"The call was rejected: {rejection}"]
    matches = question["answer"]["matches"]
    if not matches:
        return ["The model chose no candidate."]
    return [
        f"The model chose {_chosen(question, match['candidate'])} ({match['confidence']}): {match['reasoning']}"
        for match in matches
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
    override: Override = False,
    as_json: AsJson = False,
) -> None:
    """Confirm that a document matches a candidate or a linked document.

    The two stay linked.
    """
    api = connect(context, by)
    id_, other = _ids(api, document, candidate)
    _decide(api, f"{id_}/confirm", {"document": other}, reason, override=override, as_json=as_json)


@app.command("reject")
def reject(
    context: typer.Context,
    document: DocumentId,
    candidates: Annotated[
        list[str] | None,
        typer.Argument(metavar="CANDIDATE", help="Documents that do not match.", show_default=False),
    ] = None,
    *,
    all_candidates: Annotated[bool, typer.Option("--all", help="Reject all current candidates.")] = False,
    reason: Reason = None,
    by: By,
    override: Override = False,
    as_json: AsJson = False,
) -> None:
    """Reject a document's candidates or linked documents.

    The rejected documents are not linked again.

    The document is then matched again. If it had two candidates, the remaining candidate may become certain.
    """
    if all_candidates == bool(candidates):
        raise UsageError("Give either the candidates to reject, or --all.")
    api = connect(context, by)
    id_, *rejected_ids = _ids(api, document, *candidates or ())
    if all_candidates:
        review = api.send("GET", f"{PATH}/{id_}").json()
        rejected_ids = [
            candidate["document"]["id"]
            for ambiguous in review["ambiguous_matches"]
            for candidate in ambiguous["candidates"]
        ]
        if review["state"] != "open" or not rejected_ids:
            raise UsageError(f"The document '{document}' does not need review.")
    _decide(api, f"{id_}/reject", {"documents": rejected_ids}, reason, override=override, as_json=as_json)


@app.command("merge")
def merge(
    context: typer.Context,
    document: DocumentId,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Any document in the other cluster.")],
    *,
    exact: Annotated[
        bool, typer.Option("--exact", help="Link exactly these two documents, not the best-matching pair.")
    ] = False,
    reason: Reason = None,
    by: By,
    override: Override = False,
    as_json: AsJson = False,
) -> None:
    """Merge two clusters regardless of match scores.

    The best-matching pair of documents from the two clusters is linked.
    """
    api = connect(context, by)
    body = {"documents": _ids(api, document, other), "exact": exact}
    _decide(api, "merge", body, reason, override=override, as_json=as_json)


@app.command("split")
def split(
    context: typer.Context,
    document: DocumentId,
    *,
    reason: Reason = None,
    by: By,
    override: Override = False,
    as_json: AsJson = False,
) -> None:
    """Remove a document from its cluster by rejecting all its matches there.

    Links to contracts remain.
    """
    api = connect(context, by)
    (id_,) = _ids(api, document)
    _decide(api, "split", {"document": id_}, reason, override=override, as_json=as_json)


def _ids(api: Api, *texts: str) -> list[str]:
    return [api.find_by_id_suffix("document", text, "documents") for text in texts]


def _decide(
    api: Api, action: str, fields: dict[str, Any], reason: str | None, *, override: bool, as_json: bool
) -> None:
    body = {**fields, "reason": reason, "overrides": None if override else []}
    response = api.send("POST", f"{PATH}/{action}", body=body).json()
    if as_json:
        print_json(response)
        return
    decision = "were confirmed as a match" if response["verdict"] == "confirmed" else "were rejected as a match"
    for a, b in response["decided"]:
        stdout().print(Text(f"{_name(api, a)} and {_name(api, b)} {decision}."))
    if response["rematched_documents"]:
        stdout().print(
            f"Documents to match again, because their ambiguous matches changed: {response['rematched_documents']}."
        )
    stdout().print("The comparison of their clusters is being updated: counterfoil clusters show ID")


def _name(api: Api, id_: str) -> str:
    document = api.send("GET", f"{DOCUMENTS}/{id_}").json()
    return f"{type_label(document['type'] or 'other')} {document['number'] or ids.short_id(id_)}"
