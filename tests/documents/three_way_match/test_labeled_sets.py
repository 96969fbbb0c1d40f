"""Variances are found in the true clusters of the labeled sets.

The tests are skipped if the sets are not next to the repository.
"""

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
        pytest.skip(f"the labeled set {name} is not next to the repository")
    labeled = read_set(SETS / name)
    assert labeled.clusters is not None
    assert labeled.edges is not None
    assert labeled.variances is not None
    result = variances.find(labeled.documents, document_ids(labeled.documents), labeled.clusters, labeled.edges).keys()
    agreement = Agreement.from_counts(len(result), len(labeled.variances), len(result & labeled.variances))
    assert (agreement.precision >= least, agreement.recall >= least) == (True, True), agreement
