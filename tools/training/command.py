"""`counterfoil train`: learn match weights from labeled sets and measure them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.paths import cloud_paths
from cli.output import Checklist, print_json, stderr
from counterfoil.documents.matching.score import SECTIONS
from counterfoil.errors import PermanentError
from tools.evaluation.labeled_set import read_set
from tools.training.candidate_pairs import Tenant, tenants
from tools.training.learning import cross_validate, fit_weights, hold_out_metrics, recalibrate
from tools.training.review_labels import count_decided_pairs, reviewed_tenants
from tools.training.weights_file import shipped, write_weights


class NothingToLearnError(PermanentError):
    """The labels or the candidate pairs are missing."""


def train(  # one parameter per option
    context: typer.Context,
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Folders with documents.jsonl and edges.csv."),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", dir_okay=False, help="Output file for the weights.")],
    from_reviews: Annotated[
        bool, typer.Option("--from-reviews", help="Also learn from reviewers' decisions in the local cloud.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(help="Measure on held-out data. With folders, this learns again for each held-out tenant."),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Learn match weights from labeled sets of documents.

    Every pair of documents that a blocking key finds is compared. Logistic regression fits a weight for each level of
    agreement, starting with a prior. If there are several tenants, probabilities are calibrated on held-out tenants.
    With --check, the figures are also measured on held-out tenants.

    With --from-reviews, pairs that reviewers confirmed or rejected also serve as labels. If no folder is given, only
    the calibrations are learned from the decisions and the weights stay the same, because reviewers only see ambiguous
    matches. Documents with and without a reference number have separate calibrations. A calibration with too few
    decisions stays the same. With --check, the calibration error is measured on held-out decisions.
    """
    if not directories and not from_reviews:
        raise UsageError("Name folders with labeled documents, or use --from-reviews.")
    if not out.parent.is_dir():
        raise UsageError(f"The folder {out.parent} does not exist.")
    steps = Checklist()
    figures: dict[str, Any] = {}
    with steps.live():
        steps.begin("Read documents")
        labeled_tenants = _tenants(directories or ())
        if from_reviews:
            reviewed = reviewed_tenants(Cloud.at(cloud_paths(context.obj)))
            figures["decided_pairs"] = count_decided_pairs(shipped(), reviewed)
            labeled_tenants += reviewed
        steps.begin("Learn weights")
        weights = fit_weights(labeled_tenants) if directories else recalibrate(shipped(), labeled_tenants)
        write_weights(out, weights)
        figures |= {"version": weights["version"], "tenants": len(labeled_tenants)}
        if not directories:
            shipped_weights = shipped()
            figures["calibrated"] = [name for name in SECTIONS.values() if weights[name] != shipped_weights[name]]
        if check and directories and len(labeled_tenants) > 1:
            steps.begin("Measure on held-out tenants")
            figures |= asdict(hold_out_metrics(labeled_tenants))
        elif check and not directories:
            steps.begin("Measure on held-out decisions")
            figures |= asdict(cross_validate(shipped(), labeled_tenants))
    print_json(figures) if as_json else _show(figures)


def _show(figures: Mapping[str, Any]) -> None:
    for name, value in figures.items():
        stderr().print(f"{name.replace('_', ' ')}: {_format(value)}")


def _format(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _tenants(directories: Sequence[Path]) -> list[Tenant]:
    labeled_tenants: list[Tenant] = []
    for directory in directories:
        labeled = read_set(directory)
        if not labeled.edges:
            message = f"{directory} has no labels: edges.csv is missing or empty."
            raise NothingToLearnError(message)
        labeled_tenants += tenants(labeled)
    if directories and not any(True for tenant in labeled_tenants for _ in tenant.pairs()):
        message = "The documents have no candidate pairs, so the weights cannot be learned."
        raise NothingToLearnError(message)
    return labeled_tenants
