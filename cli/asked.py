"""`counterfoil review asked`: what a language model was asked about a document, and what it answered."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.text import Text

from cli import ids, outcomes
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.output import label, page, print_json
from counterfoil.documents.matching import judge
from counterfoil.documents.matching.judge import Said
from counterfoil.documents.review_queue import Paper, papers

Papers = Mapping[UUID, Paper]


def asked(
    context: typer.Context,
    document: Annotated[
        str,
        typer.Argument(metavar="ID", help="The document's id, or the end of it as tables show it.", show_default=False),
    ],
    *,
    whole: Annotated[bool, typer.Option("--text", help="Print the questions word for word, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """Show what a language model was asked about a document and what it answered, with all it takes to ask again.

    An answer stands: whoever matches the document, or one near it, finds it and asks nobody. Questions from before
    they were kept, or that quote a document which was removed since, have no text any more.
    """
    cloud = Cloud.at(place_of(context.obj))
    tenant, id_ = outcomes.document_named(cloud, document)
    with cloud.database.tenant(tenant.id) as connection:
        found = judge.about(connection, id_)
        known = papers(connection, {id_, *judge.candidates(found)})
    if as_json:
        print_json({"document": id_, "tenant": tenant.slug, "questions": [record(said) for said in found]})
    elif not found:
        page().print("No language model was asked about this document, or it gave no answer.")
    else:
        show_asked(found, known, whole=whole)


def record(said: Said) -> dict[str, Any]:
    """A question and its answer as JSON has them. `system` and `user` are what was sent."""
    return {
        "question": said.question.hex(),
        "asked_at": said.at.isoformat(),
        "prompt": said.prompt,
        "model": said.model,
        "temperature": said.temperature,
        "input_tokens": said.input_tokens,
        "output_tokens": said.output_tokens,
        "candidates": {name: id_ for name, (id_, _) in said.offered.items()},
        "answer": said.answer,
        "system": said.system,
        "user": said.user,
    }


def show_asked(found: Sequence[Said], known: Papers, *, whole: bool = False) -> None:
    """Each question with the candidates that were offered, and the answer."""
    for said in found:
        page().print(heading(said))
        for name, (id_, _) in said.offered.items():
            page().print(Text(f"  {name}  {_title(known, id_)}"))
        for line in answered(said):
            page().print(Text(f"  {line}"))
        if whole and said.user is not None:
            page().print(Text(f"\n{said.system}\n{_printable(said.user)}", "dim"))
        elif said.user is None:
            page().print(Text("  The words of the question are not kept any more.", "dim"))
        page().print()
    if not whole and any(said.user is not None for said in found):
        page().print("Word for word: counterfoil review asked ID --text")


def heading(said: Said) -> Text:
    """When, whom and how."""
    facts = [said.prompt and f"prompt {said.prompt}"]
    facts += [None if said.temperature is None else f"temperature {said.temperature:g}"]
    if said.input_tokens is not None:
        facts.append(f"{said.input_tokens} tokens in, {said.output_tokens} out")
    return Text(f"{said.at:%Y-%m-%d %H:%M}  {said.model}", "bold").append(f"  {', '.join(filter(None, facts))}", "dim")


def answered(said: Said) -> list[str]:
    """The answer, a line for each choice."""
    if refused := said.answer.get("refused"):
        return [f"It was refused: {refused}"]
    matches = said.answer["matches"]
    if not matches:
        return ["It chose none."]
    return [f"It chose {_chosen(said, one['candidate'])} ({one['confidence']}): {one['reasoning']}" for one in matches]


def _chosen(said: Said, name: str) -> str:
    offered = said.offered.get(name)
    return f"{name}, a document that is gone" if offered is None else f"{name}, {ids.short(offered[0])}"


def _title(known: Papers, id_: UUID) -> str:
    paper = known.get(id_)
    return ids.short(id_) if paper is None else f"{label(paper.type)} {paper.number or ''}  {ids.short(id_)}"


def _printable(text: str) -> str:
    """Strangers wrote some of it, and a terminal obeys more than letters."""
    return "".join(character if character.isprintable() or character == "\n" else " " for character in text)
