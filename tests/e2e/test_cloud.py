"""The local cloud: repeated, interrupted and rejected starts, IAM and layers."""

import json
import signal
import socket
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from cli.local import processes
from cli.local.cloud import Cloud
from cli.local.paths import CloudPaths
from cli.local.postgres import PostgresServer
from tests.e2e.conftest import CommandLine
from tests.e2e.polling import wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture
def other_cloud(tmp_path: Path) -> CommandLine:
    """The command line for a cloud that does not exist."""
    return CommandLine(tmp_path / "other")


def test_repeated_up_changes_nothing(cloud: Cloud, command_line: CommandLine):
    pids_before = {process.pid for process in processes.find_processes(cloud.paths.folder)}
    state = json.loads(command_line.run("up", "--json").stdout)
    assert (state["started"], state["deployed"]) == (False, False)
    assert state["emulator_pid"] in pids_before


def test_status_shows_endpoint_and_queues(cloud: Cloud, command_line: CommandLine):
    status = json.loads(command_line.run("status", "--json").stdout)
    assert status["up"]
    assert status["endpoint"] == cloud.state.emulator.endpoint
    assert {"counterfoil-acquisition", "counterfoil-ingestion", "counterfoil-matching"} <= set(status["queues"])


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_up_leaves_no_process(other_cloud: CommandLine, sent: signal.Signals):
    cloud_folder = CloudPaths(other_cloud.folder)
    up = other_cloud.start("up")
    wait_until(lambda: processes.find_processes(cloud_folder.folder, [processes.CloudProcess.DEPLOYMENT]))
    up.send_signal(sent)
    _, stderr = up.communicate(timeout=60)
    assert up.returncode == 130, stderr
    assert processes.find_processes(cloud_folder.folder) == []
    assert PostgresServer(cloud_folder.postgres).running() is None
    assert "Traceback" not in stderr
    other_cloud.run("down")
    assert not cloud_folder.folder.exists()


def test_down_ends_processes_left_by_killed_up(other_cloud: CommandLine):
    cloud_folder = CloudPaths(other_cloud.folder)
    up = other_cloud.start("up")
    wait_until(lambda: processes.find_processes(cloud_folder.folder, [processes.CloudProcess.DEPLOYMENT]))
    up.kill()
    up.communicate(timeout=60)
    assert processes.find_processes(cloud_folder.folder)
    other_cloud.run("down")
    assert processes.find_processes(cloud_folder.folder) == []
    assert not cloud_folder.folder.exists()


def test_port_in_use_is_refused_with_advice(other_cloud: CommandLine):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = other_cloud.run("up", "--port", str(port), code=3)
    assert f"Port {port} cannot be used" in result.stderr
    assert "--port" in result.stderr
    assert processes.find_processes(other_cloud.folder) == []


def test_commands_without_a_cloud_suggest_up(other_cloud: CommandLine):
    for command in (["documents"], ["clusters"], ["tenants", "list"], ["ingest", "README.md", "--tenant", "acme"]):
        result = other_cloud.run(*command, code=3)
        assert "counterfoil up" in result.stderr
        assert "Traceback" not in result.stderr
    assert json.loads(other_cloud.run("status", "--json", code=3).stdout)["up"] is False


def test_iam_policies_are_enforced(cloud: Cloud):
    iam = cloud.client("iam")
    iam.create_user(UserName="unprivileged")
    key = iam.create_access_key(UserName="unprivileged")["AccessKey"]
    import boto3

    s3 = boto3.client(
        "s3",
        endpoint_url=cloud.state.emulator.endpoint,
        region_name="eu-central-1",
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
    )
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.list_objects_v2(Bucket=cloud.outputs["UploadsBucketName"])


def test_functions_import_packages_only_from_layers(cloud: Cloud):
    python = cloud.paths.runtime / "bin" / "python"
    environments = [
        process.cmdline()[0]
        for process in processes.find_processes(cloud.paths.folder, [processes.CloudProcess.EMULATOR])
    ]
    assert str(python) in environments
    assert not list((cloud.paths.runtime / "lib").glob("python*/site-packages/*"))
