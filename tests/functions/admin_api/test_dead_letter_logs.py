"""Where the log of a try is said to be is where its worker writes it."""

import re
from urllib.parse import unquote
from uuid import UUID

import pytest

from functions.admin_api.api.dead_letters import console, of_trace, of_try
from infra.worker_table import WORKERS
from tests.factories import NOW


def test_each_worker_s_tries_are_looked_for_in_the_group_of_its_function() -> None:
    for row in WORKERS:
        assert of_try(row.name, UUID(int=7), 1, NOW, NOW, None).group == f"/aws/lambda/{row.resource_name}"


@pytest.mark.parametrize(
    ("region", "begins"),
    [
        ("eu-central-1", "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1"),
        ("us-gov-west-1", "https://us-gov-west-1.console.amazonaws-us-gov.com/cloudwatch/home?region=us-gov-west-1"),
        ("cn-north-1", "https://cn-north-1.console.amazonaws.cn/cloudwatch/home?region=cn-north-1"),
    ],
)
def test_the_aws_console_shows_the_log_and_the_trace_of_a_try(region: str, begins: str) -> None:
    shown = console({"AWS_REGION": region})
    log = of_try("tasks", UUID(int=7), 2, NOW, NOW, shown)

    assert log.url is not None
    group, _, asked = log.url.removeprefix(begins).partition("/log-events$3F")
    assert group == "#logsV2:log-groups/log-group/$252Faws$252Flambda$252Fcounterfoil-tasks"
    assert re.fullmatch(r"[\w$.-]+", asked)
    parameters = dict(one.split("$3D") for one in asked.split("$26"))
    assert {name: unquote(unquote(value.replace("$", "%"))) for name, value in parameters.items()} == {
        "filterPattern": log.filter,
        "start": str(int(log.since.timestamp() * 1000)),
        "end": str(int(log.until.timestamp() * 1000)),
    }
    trace = "1-5759e988-bd862e3fe1be46a994272793"
    assert of_trace(trace, shown) == f"{begins}#xray:traces/{trace}"


def test_a_local_cloud_has_no_console_that_a_link_could_lead_to() -> None:
    shown = console({"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"})

    assert shown is None
    assert of_try("tasks", UUID(int=7), 1, NOW, NOW, shown).url is None
    assert of_trace("1-5759e988-bd862e3fe1be46a994272793", shown) is None
    assert console({}) is None
