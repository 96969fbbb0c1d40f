"""The local cloud that all end-to-end tests share.

It has its own folder, ports and database.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from cli.local.cloud import Cloud
from cli.local.paths import ROOT, CloudPaths
from cli.local.tenants import Tenant, add_tenant
from cli.local.uploads import upload, wait_for
from counterfoil.db import Connection
from counterfoil.documents.upload_list import Upload
from tools.demo.sample_run import Run
from tools.sample_generator import generate

SignIn = Callable[..., dict[str, str]]
COMMAND = Path(sys.executable).parent / "counterfoil"
CLOUD_VARIABLE = "COUNTERFOIL_E2E_CLOUD"
"""Environment variable with the folder of an existing cloud, which the tests leave running."""
SEED = 1
UP_SECONDS = 600
"""Timeout in seconds. The first start on a machine downloads all wheels of the dependency layer."""


@dataclass(frozen=True)
class CommandLine:
    """The installed command line for one cloud."""

    folder: Path

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command without waiting for it to finish."""
        command = [str(COMMAND), "--local", str(self.folder), *arguments]
        return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        """Run a command to completion and assert its exit code."""
        command = [str(COMMAND), "--local", str(self.folder), *arguments]
        process = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False, timeout=UP_SECONDS)
        assert process.returncode == code, f"exit code {process.returncode}\n{process.stdout}\n{process.stderr}"
        return process


@pytest.fixture(scope="session")
def command_line() -> Iterator[CommandLine]:
    """The command line for the test cloud.

    The cloud is removed at the end unless it already existed.
    """
    if existing := os.environ.get(CLOUD_VARIABLE):
        yield CommandLine(Path(existing).resolve())
        return
    with tempfile.TemporaryDirectory(prefix="counterfoil-e2e-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # as root, PostgreSQL runs as another user
        line = CommandLine(Path(folder).resolve() / "cloud")
        yield line
        line.run("down")


@pytest.fixture(scope="session")
def cloud(command_line: CommandLine) -> Iterator[Cloud]:
    """The running test cloud."""
    deployed = json.loads(command_line.run("up", "--json").stdout)["deployed"]
    assert deployed or CLOUD_VARIABLE in os.environ
    cloud = Cloud.at(CloudPaths(command_line.folder))
    yield cloud
    cloud.database.close()


@pytest.fixture
def admin(cloud: Cloud) -> Iterator[Connection]:
    """A superuser connection, which sees the rows of all tenants."""
    with psycopg.connect(cloud.database_url("postgres"), autocommit=True) as connection:
        yield connection


@pytest.fixture
def tenant(cloud: Cloud) -> Tenant:
    """A new tenant for one test."""
    return add_tenant(cloud, f"t-{uuid4().hex[:12]}")[0]


@pytest.fixture
def ingest(cloud: Cloud, tenant: Tenant) -> Callable[..., list[Upload]]:
    """`ingest(paths)` uploads files for the tenant and returns their final outcomes."""

    def ingest_paths(paths: Sequence[Path], seconds: float = 120) -> list[Upload]:
        return wait_for(cloud, list(upload(cloud, tenant, paths)), seconds)

    return ingest_paths


@pytest.fixture(scope="session")
def run(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A sample after the cloud has processed it."""
    run = Run.prepare(cloud, generate(SEED), tmp_path_factory.mktemp("sample"))
    run.watch(seconds=300)
    return run


@pytest.fixture
def sign_in(cloud: Cloud) -> SignIn:
    """`sign_in(*groups)` returns the authorization header of a new user in `groups`."""
    people = cloud.client("cognito-idp")
    pool, client = cloud.outputs["UserPoolId"], cloud.outputs["UserPoolClientId"]

    def sign_in(*groups: str) -> dict[str, str]:
        email, password = f"{uuid4().hex}@example.com", f"Aa1!{uuid4().hex}"
        people.admin_create_user(UserPoolId=pool, Username=email, MessageAction="SUPPRESS")
        people.admin_set_user_password(UserPoolId=pool, Username=email, Password=password, Permanent=True)
        group_names = {group["GroupName"] for group in people.list_groups(UserPoolId=pool)["Groups"]}
        for group in groups:
            if group not in group_names:
                people.create_group(UserPoolId=pool, GroupName=group)
            people.admin_add_user_to_group(UserPoolId=pool, Username=email, GroupName=group)
        response = people.admin_initiate_auth(
            UserPoolId=pool,
            ClientId=client,
            AuthFlow="ADMIN_USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": email, "PASSWORD": password},
        )
        return {"Authorization": f"Bearer {response['AuthenticationResult']['IdToken']}"}

    return sign_in
