"""The whole app: stacks, network, database, cfn-lint and reproducible synthesis."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from infra.packaging import Package
from infra.worker_table import WORKERS, WorkerTableError
from tests.infra.conftest import deployed
from tests.infra.synthesis import Synthesis, synthesize

ROOT = Path(__file__).parents[2]


def test_aws_app_has_network_data_and_pipeline_stacks(aws: Synthesis):
    assert aws.stacks == {"counterfoil-network", "counterfoil-data", "counterfoil-pipeline"}


def test_invalid_context_prints_an_error_and_fails(capsys: pytest.CaptureFixture[str]):
    from infra.__main__ import main

    assert main({"stage": "prod"}) == 1
    assert capsys.readouterr().err.startswith("Unknown stage 'prod'")


def test_unsafe_worker_row_aborts_synthesis(dependencies: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from infra import __main__ as program

    matching = next(row for row in WORKERS if row.name == "matching")
    careless = replace(matching, reserved_concurrency=matching.maximum_concurrency - 1)
    monkeypatch.setattr(program, "WORKERS", (careless,))

    with pytest.raises(WorkerTableError, match="Worker 'matching': raise reserved_concurrency"):
        synthesize(tmp_path, {}, dependencies)


def test_network_is_isolated_from_the_internet(aws: Synthesis):
    network = aws["network"]

    assert not network.resources("AWS::EC2::NatGateway")
    assert not network.resources("AWS::EC2::InternetGateway")
    assert len(network.resources("AWS::EC2::Subnet")) == 2
    services = {
        str(network.resolve(endpoint["ServiceName"])).rpartition(".")[2]
        for endpoint in network.resources("AWS::EC2::VPCEndpoint").values()
    }
    assert services == {"s3", "sqs", "secretsmanager", "cognito-idp", "lambda", "monitoring"}


def test_every_function_runs_inside_the_network(aws: Synthesis):
    pipeline = aws.app

    for row in WORKERS:
        placed = pipeline.named_resource("AWS::Lambda::Function", row.resource_name)["VpcConfig"]
        (group,) = pipeline.resolve(placed["SecurityGroupIds"])
        assert ("Migrations" in group) == (row.database_user == "master")
        assert len(placed["SubnetIds"]) == 2


def test_database_is_encrypted_retained_and_backed_up(aws: Synthesis):
    (resource,) = [r for r in aws["data"].document["Resources"].values() if r["Type"] == "AWS::RDS::DBInstance"]
    instance = resource["Properties"]

    assert (instance["Engine"], instance["EngineVersion"].split(".")[0]) == ("postgres", "18")
    assert instance["StorageEncrypted"]
    assert instance["DeletionProtection"]
    assert instance["EnableIAMDatabaseAuthentication"]
    assert instance["MultiAZ"]
    assert instance["BackupRetentionPeriod"] >= 7
    assert resource["DeletionPolicy"] == "Retain"
    assert not instance.get("PubliclyAccessible")


MAX_CONNECTIONS = {"db.t4g.medium": 410, "db.t4g.large": 820}
"""RDS's connection limit by instance class: DBInstanceClassMemory / 9531392, minus RDS's own connections."""


def test_full_load_leaves_spare_database_connections(aws: Synthesis):
    allowed = MAX_CONNECTIONS[aws["data"].only_resource("AWS::RDS::DBInstance")["DBInstanceClass"]]
    pool = aws["data"].only_resource("AWS::RDS::DBProxyTargetGroup")["ConnectionPoolConfigurationInfo"]
    proxy_connections = allowed * pool["MaxConnectionsPercent"] // 100

    assert proxy_connections - sum(row.connections for row in WORKERS) >= 60
    assert allowed - proxy_connections >= 40  # reserved for direct connections, which bypass the proxy


def test_proxy_requires_tls_and_iam_authentication(aws: Synthesis):
    data = aws["data"]
    proxy = data.only_resource("AWS::RDS::DBProxy")
    role = data.role(proxy["RoleArn"])

    assert proxy["RequireTLS"]
    assert proxy["DefaultAuthScheme"] == "IAM_AUTH"
    assert "Auth" not in proxy
    granted = list(data.statements(role))
    assert {action for _, action, _ in granted} == {"rds-db:connect"}
    assert {resource.rpartition("/")[2] for _, _, resource in granted} == {
        row.database_user for row in WORKERS if row.database_user != "master"
    }
    assert all("DbiResourceId" in resource for _, _, resource in granted)


def test_templates_pass_cfn_lint(aws: Synthesis):
    # W3005: CDK repeats implicit dependencies.
    linter = Path(sys.executable).with_name("cfn-lint")
    command = [str(linter), "--ignore-checks", "W3005", "--", *map(str, aws.folder.glob("*.template.json"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    assert (done.stdout, done.returncode) == ("", 0)


def test_synthesis_is_identical_under_another_umask(aws: Synthesis, dependencies: Package, tmp_path: Path):
    cache, folder = tmp_path / ".cache", tmp_path / "out"
    cache.mkdir()
    cache.chmod(0o775)  # as with umask 0002, the default on many systems; jsii rejects such a cache
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(cache), "PYTHONHASHSEED": "4"}
    environment.pop("JSII_RUNTIME_PACKAGE_CACHE_ROOT", None)
    command = [sys.executable, "-m", "tests.infra.synthesis", str(folder), str(dependencies.path), dependencies.hash]

    done = subprocess.run(command, env=environment, cwd=ROOT, umask=0o002, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert deployed(folder) == deployed(aws.folder)


STATE = {
    "AWS::Cognito::UserPool",
    "AWS::RDS::DBInstance",
    "AWS::S3::Bucket",
    "AWS::SecretsManager::Secret",
}


def test_state_is_protected_in_a_stack_without_functions(aws: Synthesis):
    manifest = json.loads((aws.folder / "manifest.json").read_text())
    protected = {
        name
        for name, artifact in manifest["artifacts"].items()
        if artifact.get("properties", {}).get("terminationProtection")
    }
    data = aws["data"].document["Resources"].values()
    retained = [resource for resource in data if resource["Type"] in STATE]

    assert protected == aws.stacks
    assert {resource["Type"] for resource in retained} == STATE
    assert {(one["DeletionPolicy"], one["UpdateReplacePolicy"]) for one in retained} == {("Retain", "Retain")}
    assert not STATE & {resource["Type"] for resource in aws["pipeline"].document["Resources"].values()}
    assert not aws["data"].resources("AWS::Lambda::Function")


def test_state_stack_never_references_the_pipeline(aws: Synthesis):
    for stack in ("data", "network"):
        assert "counterfoil-pipeline" not in json.dumps(aws[stack].document)


def test_new_function_settings_do_not_change_state_stack(aws: Synthesis, dependencies: Package, tmp_path: Path):
    changed = synthesize(tmp_path, {"settings": {"LEASE_SECONDS": "90"}, "alarms": {"retry-rate": 7}}, dependencies)

    assert changed["data"] == aws["data"]
    assert changed["network"] == aws["network"]
    assert changed["pipeline"] != aws["pipeline"]
