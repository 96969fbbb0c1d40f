"""`counterfoil clusters accept` and `dispute`: people say of a cluster's differences that they may be, or may not."""

from typing import Annotated
from uuid import UUID

import typer
from rich.text import Text

from cli import outcomes
from cli.case import case_of
from cli.client import By, Reason
from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.output import page, print_json
from counterfoil.db import retry_conflicts
from counterfoil.documents import acceptance, diagnostics
from counterfoil.documents.acceptance import Said, Which, Word
from counterfoil.documents.review import Refused, Who
from counterfoil.documents.three_way_match import Code

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Of the cluster or of any of its documents, or its end as tables show it.",
        show_default=False,
    ),
]
OfDocument = Annotated[
    str | None, typer.Option("--document", metavar="ID", help="Only this document's.", show_default=False)
]
OfCode = Annotated[
    str | None, typer.Option("--code", metavar="CODE", help="Only of this code: price_mismatch.", show_default=False)
]
OfLine = Annotated[str | None, typer.Option("--line", help="Only of this line.", show_default=False)]
Supersede = Annotated[bool, typer.Option("--supersede", help="Take the place of what was said about it before.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


def accept(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    id_: Id,
    *,
    document: OfDocument = None,
    code: OfCode = None,
    line: OfLine = None,
    reason: Reason = None,
    by: By,
    supersede: Supersede = False,
    as_json: AsJson = False,
) -> None:
    """Accept a cluster's open differences in prices, quantities, totals and tax: nobody has to act on them.

    It holds for these figures: where another document changes them, they are open again. What people accept of one
    supplier again and again can become a tolerance: counterfoil tenants tolerances TENANT --suggest
    """
    _say(context, id_, (document, code, line), "accepted", (by, reason, supersede), as_json=as_json)


def dispute(  # noqa: PLR0913  # one for each option
    context: typer.Context,
    id_: Id,
    *,
    document: OfDocument = None,
    code: OfCode = None,
    line: OfLine = None,
    reason: Reason = None,
    by: By,
    supersede: Supersede = False,
    as_json: AsJson = False,
) -> None:
    """Dispute a cluster's differences: somebody has to act on them, whatever is tolerated.

    A tolerance that is proposed for the supplier stays below them.
    """
    _say(context, id_, (document, code, line), "disputed", (by, reason, supersede), as_json=as_json)


def _say(  # who says what of which
    context: typer.Context,
    id_: str,
    narrowed: tuple[str | None, str | None, str | None],
    word: Word,
    trail: tuple[str, str | None, bool],
    *,
    as_json: bool,
) -> None:
    document, code, line = narrowed
    by, reason, supersede = trail
    if code is not None and code not in set(Code):
        raise UsageError(f"'{code}' is no code of a variance: 'counterfoil clusters show --json' shows them.")
    cloud = Cloud.at(place_of(context.obj))
    tenant, found = outcomes.document_named(cloud, id_)
    case = case_of(cloud, tenant, found)
    of = None if document is None else outcomes.document_named(cloud, document)[1]
    if of is not None and of not in {paper.id for paper in case.papers}:
        raise UsageError(f"The document '{document}' is in another cluster.")
    which = Which(of, None if code is None else Code(code), line)

    def once() -> Said | Refused:
        with cloud.database.tenant(tenant.id) as connection:
            inside = [paper.id for paper in case.papers]
            known = [one.id for one in diagnostics.verdicts(connection, inside)] if supersede else []
            return acceptance.say(
                connection, tenant.id, case.id, which, word, cloud.database.now(), Who(by, reason, known)
            )

    answer = retry_conflicts(once)
    if isinstance(answer, Refused):
        raise UsageError(answer.sentence)
    cloud.send(answer.sends)
    if as_json:
        print_json(_record(tenant.slug, case.id, answer))
    else:
        _tell(answer)


def _record(slug: str, cluster: UUID, said: Said) -> dict[str, object]:
    return {
        "tenant": slug,
        "cluster": cluster,
        "verdict": said.word,
        "differences": list(said.sentences),
        "open": list(said.left),
    }


def _tell(said: Said) -> None:
    for sentence in said.sentences:
        page().print(Text(f"{said.word.capitalize()}: ", "bold").append(sentence, "default"))
    for sentence in said.left:
        page().print(Text(f"Still open: {sentence}"))
    page().print("The cluster is being recomputed: counterfoil clusters show ID")
