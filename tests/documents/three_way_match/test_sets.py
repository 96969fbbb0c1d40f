"""Variances found in the true clusters of the labeled sets, if these are present."""

from pathlib import Path

import pytest

from tools.evaluation import variances
from tools.evaluation.agreement import Agreement
from tools.evaluation.command import document_ids
from tools.evaluation.labeled_set import read_set

SETS = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.parametrize(
    ("name", "least"), [("ubl-oasis-chain", 0.95), ("linked-office", 0.95), ("linked-hostile", 0.95)]
)
def test_true_variances_are_found_in_true_clusters(name: str, least: float):
    if not (SETS / name).is_dir():
        pytest.skip(f"the labelled set {name} is not beside this project")
    labelled = read_set(SETS / name)
    assert labelled.clusters is not None
    assert labelled.edges is not None
    assert labelled.variances is not None
    found = variances.find(
        labelled.documents, document_ids(labelled.documents), labelled.clusters, labelled.edges
    ).keys()
    agreement = Agreement.from_counts(len(found), len(labelled.variances), len(found & labelled.variances))
    assert (agreement.precision >= least, agreement.recall >= least) == (True, True), agreement
