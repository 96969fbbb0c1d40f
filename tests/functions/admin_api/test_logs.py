"""Where the log of a try is said to be is where its worker writes it."""

from uuid import UUID

from functions.admin_api.logs import of_try
from infra.workers import WORKERS
from tests.factories import NOW


def test_each_worker_s_tries_are_looked_for_in_the_group_of_its_function() -> None:
    for row in WORKERS:
        assert of_try(row.name, UUID(int=7), 1, NOW, NOW).group == f"/aws/lambda/{row.resource_name}"
