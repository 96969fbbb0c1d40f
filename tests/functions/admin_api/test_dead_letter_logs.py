"""Links to the logs and traces of attempts."""

import re
from urllib.parse import unquote
from uuid import UUID

import pytest

from functions.admin_api.api.dead_letters import attempt_log, console, trace_url
from infra.worker_table import WORKERS
from tests.factories import NOW


def test_log_link_names_the_workers_log_group() -> None:
    for row in WORKERS:
        assert attempt_log(row.name, UUID(int=7), 1, NOW, NOW, None).group == f"/aws/lambda/{row.resource_name}"


@pytest.mark.parametrize(
    ("region", "console_url"),
    [
        ("eu-central-1", "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1"),
        ("us-gov-west-1", "https://us-gov-west-1.console.amazonaws-us-gov.com/cloudwatch/home?region=us-gov-west-1"),
        ("cn-north-1", "https://cn-north-1.console.amazonaws.cn/cloudwatch/home?region=cn-north-1"),
    ],
)
def test_links_open_log_and_trace_in_aws_console(region: str, console_url: str) -> None:
    aws_console = console({"AWS_REGION": region})
    log = attempt_log("tasks", UUID(int=7), 2, NOW, NOW, aws_console)

    assert log.url is not None
    group, _, query = log.url.removeprefix(console_url).partition("/log-events$3F")
    assert group == "#logsV2:log-groups/log-group/$252Faws$252Flambda$252Fcounterfoil-tasks"
    assert re.fullmatch(r"[\w$.-]+", query)
    parameters = dict(parameter.split("$3D") for parameter in query.split("$26"))
    assert {name: unquote(unquote(value.replace("$", "%"))) for name, value in parameters.items()} == {
        "filterPattern": log.filter,
        "start": str(int(log.since.timestamp() * 1000)),
        "end": str(int(log.until.timestamp() * 1000)),
    }
    trace = "1-5759e988-bd862e3fe1be46a994272793"
    assert trace_url(trace, aws_console) == f"{console_url}#xray:traces/{trace}"


def test_local_cloud_omits_console_links() -> None:
    aws_console = console({"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"})

    assert aws_console is None
    assert attempt_log("tasks", UUID(int=7), 1, NOW, NOW, aws_console).url is None
    assert trace_url("1-5759e988-bd862e3fe1be46a994272793", aws_console) is None
    assert console({}) is None
