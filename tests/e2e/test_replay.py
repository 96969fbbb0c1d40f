"""`counterfoil replay` restores the deployed app's settings, even if interrupted.

`make soak` replays more invoices.
"""

import json
import signal
from typing import Any

import pytest

from cli.local.cloud import Cloud
from tests.e2e.conftest import CommandLine
from tests.e2e.load import LOAD_SECONDS
from tests.e2e.polling import wait_until

pytestmark = pytest.mark.e2e

INVOICES = max(12, LOAD_SECONDS // 4)
OPTIONS = ("--concurrency", "3", "--work-seconds", "1.5", "--visibility", "3")


def read_deployed_settings(cloud: Cloud) -> dict[str, Any]:
    """Return all settings that a replay changes."""
    functions, name = cloud.client("lambda"), cloud.outputs["IngestionFunctionName"]
    mapping = functions.get_event_source_mapping(UUID=cloud.outputs["IngestionMappingId"])
    queue = cloud.client("sqs").get_queue_attributes(
        QueueUrl=cloud.outputs["IngestionQueueUrl"], AttributeNames=["VisibilityTimeout"]
    )
    return {
        "environment": functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"],
        "concurrency": functions.get_function_concurrency(FunctionName=name).get("ReservedConcurrentExecutions"),
        "mapping": (mapping["BatchSize"], mapping["ScalingConfig"]),
        "visibility": queue["Attributes"]["VisibilityTimeout"],
    }


@pytest.fixture(scope="module")
def replay_report(cloud: Cloud, command_line: CommandLine) -> dict[str, Any]:
    """Report of a complete replay, and the settings before and after it.

    This replay must run before the interrupted replay, regardless of test order. The interrupted replay leaves
    messages in the queue until the leases of its work items expire, and a replay requires an empty queue.
    """
    settings_before = read_deployed_settings(cloud)
    report = json.loads(command_line.run("replay", "--invoices", str(INVOICES), *OPTIONS, "--json").stdout)
    return {"before": settings_before, "report": report, "after": read_deployed_settings(cloud)}


def test_short_visibility_timeout_loses_and_repeats_nothing(replay_report: dict[str, Any]):
    report = replay_report["report"]
    failed_checks = [check for run in report["runs"] for check in run["checks"] if not check["passed"]]
    assert (report["passed"], failed_checks) == (True, [])
    assert [(run["batch_size"], run["permits"]) for run in report["runs"]] == [(1, 1), (10, 3)]
    assert report["runs"][1]["max_permit_wait_seconds"] > report["visibility"]
    assert replay_report["after"] == replay_report["before"]


@pytest.mark.usefixtures("replay_report")
def test_interrupted_replay_restores_settings(cloud: Cloud, command_line: CommandLine):
    settings_before = read_deployed_settings(cloud)
    replay = command_line.start("replay", *OPTIONS)
    wait_until(lambda: read_deployed_settings(cloud)["visibility"] == "3", 120)
    replay.send_signal(signal.SIGINT)
    _, stderr = replay.communicate(timeout=60)
    assert replay.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert read_deployed_settings(cloud) == settings_before
