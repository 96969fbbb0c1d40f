"""`counterfoil train`: learn match weights from labelled sets, and say how far they are to be trusted."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.output import Checklist, aside, print_json
from counterfoil.documents.matching.score import FOUND
from counterfoil.errors import PermanentError
from tools.evaluation.labeled_set import read_set
from tools.training.candidates import Tenant, tenants
from tools.training.file import shipped, write_weights
from tools.training.learning import held_out, learn, left_out, recalibrated
from tools.training.reviewed import enough, reviewed


class NothingToLearnError(PermanentError):
    """Labels are missing."""


def train(  # one for each option
    context: typer.Context,
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR", exists=True, file_okay=False, help="Folders with documents.jsonl and edges.csv; or several."
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", dir_okay=False, help="Where the weights are written.")],
    from_reviews: Annotated[
        bool, typer.Option("--from-reviews", help="Learn from what people decided in the local cloud, too.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(help="Measure each tenant with weights learned from the others: as long again for each."),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Learn match weights from labeled sets of documents.

    Every pair of documents that a key leads to is compared; logistic regression fits to each level of agreement the
    bits that tell true pairs from others, beginning from what is thought of it without labels. Probabilities are
    calibrated on tenants that were left out. With --check the figures are those of tenants left out.

    With --from-reviews the pairs that people confirmed or rejected are labels as well. Without any folder only the
    calibration is learned from them, and the weights stay as they are: people decide what is in doubt, which does not
    tell how often documents belong together. Documents that name a number and others have a calibration each; one that
    people have decided too little about stays as it is. With --check its error is measured on decisions left out.
    """
    if not directories and not from_reviews:
        raise UsageError("Name folders with labelled documents, or learn --from-reviews.")
    if not out.parent.is_dir():
        raise UsageError(f"There is no folder {out.parent} to write the weights to.")
    steps = Checklist()
    figures: dict[str, Any] = {}
    with steps.shown():
        steps.begin("Read")
        found = _tenants(directories or ())
        if from_reviews:
            decided = reviewed(Cloud.at(place_of(context.obj)))
            figures["decided_pairs"] = enough(shipped(), decided)
            found += decided
        steps.begin("Learn")
        weights = learn(found) if directories else recalibrated(shipped(), found)
        write_weights(out, weights)
        figures |= {"version": weights["version"], "tenants": len(found)}
        if not directories:
            known = shipped()
            figures["calibrated"] = [name for name in FOUND.values() if weights[name] != known[name]]
        if check and directories and len(found) > 1:
            steps.begin("Check on tenants left out")
            figures |= asdict(held_out(found))
        elif check and not directories:
            steps.begin("Check on decisions left out")
            figures |= asdict(left_out(shipped(), found))
    print_json(figures) if as_json else _show(figures)


def _show(figures: Mapping[str, Any]) -> None:
    for name, value in figures.items():
        aside().print(f"{name.replace('_', ' ')}: {_plain(value)}")


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _tenants(directories: Sequence[Path]) -> list[Tenant]:
    found: list[Tenant] = []
    for directory in directories:
        labelled = read_set(directory)
        if not labelled.edges:
            message = f"{directory} has no edges.csv, so nothing says which of its documents belong together."
            raise NothingToLearnError(message)
        found += tenants(labelled)
    if directories and not any(True for tenant in found for _ in tenant.pairs()):
        message = "No number, party or article leads from one of their documents to another: nothing to learn from."
        raise NothingToLearnError(message)
    return found
