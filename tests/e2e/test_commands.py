"""Commands for dead letters and queues, run over HTTP as against a deployment.

tests/cli tests the commands in detail, with the API in the same process.
"""

import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any
from uuid import uuid4

import httpx
import pytest

from cli.local.cloud import Cloud
from cli.local.console import make_person
from cli.local.tenants import Tenant
from counterfoil.documents.upload_list import State, Upload
from tests.e2e.chaos import watchdog_running
from tests.e2e.conftest import COMMAND, CommandLine, SignIn
from tests.e2e.test_queues import mappings

pytestmark = pytest.mark.e2e


@pytest.fixture
def dead_letters(ingest: Callable[..., list[Upload]], tmp_path: Path) -> None:
    """Upload two unreadable files for the tenant, which become dead letters."""
    files = [tmp_path / f"{number}.pdf" for number in range(2)]
    for file in files:
        file.write_bytes(b"%PDF-1.4 " + uuid4().bytes)
    assert {outcome.state for outcome in ingest(files)} == {State.FAILED}


@pytest.mark.usefixtures("dead_letters")
def test_dead_letters_are_closed_and_exported(
    cloud: Cloud, command_line: CommandLine, tenant: Tenant, tmp_path: Path
) -> None:
    tenant_option = ("--tenant", tenant.slug)
    first, second = (dead_letter["job_id"] for dead_letter in dlq(command_line, "list", *tenant_option))

    resolve_result = dlq(command_line, "resolve", first[-12:], "--reason", "It was sent again", "--by", "Kim Ö.")
    assert (resolve_result["job_id"], resolve_result["status"]) == (first, "resolved")

    with watchdog_running(cloud, worker="Bulk"):
        ignore_result = dlq(command_line, "bulk-ignore", second[-12:], "--reason", "A trial", "--yes")
    assert (ignore_result["state"], ignore_result["succeeded"]) == ("done", 1)

    file = tmp_path / "dead-letters.csv"
    assert dlq(command_line, "export", str(file), *tenant_option)["dead_letters"] == 2
    assert first in file.read_text()
    audit_output = command_line.run("dlq", "audit", *tenant_option).stdout
    assert all(word in audit_output for word in ("Kim Ö.", "resolved", "bulk-ignore", "exported")), audit_output


def test_queue_is_paused_and_resumed(command_line: CommandLine, cloud: Cloud) -> None:
    command_line.run("queues", "pause", "tasks", "--reason", "A trial", "--by", "ann")
    try:
        assert mappings(cloud) == {"Disabled"}
    finally:
        command_line.run("queues", "resume", "tasks", "--reason", "It was a trial")
    assert mappings(cloud) == {"Enabled"}


@pytest.mark.usefixtures("dead_letters")
def test_token_permissions_apply_to_commands(cloud: Cloud, sign_in: SignIn, tenant: Tenant) -> None:
    token = sign_in("viewer", f"tenant:{tenant.slug}")["Authorization"].removeprefix("Bearer ")

    def run(*arguments: str, with_token: str = token) -> "subprocess.CompletedProcess[str]":
        environment = {name: value for name, value in os.environ.items() if name != "COUNTERFOIL_LOCAL"}
        environment |= {"COUNTERFOIL_URL": cloud.api_url, "COUNTERFOIL_TOKEN": with_token}
        return subprocess.run(
            [str(COMMAND), *arguments], env=environment, text=True, capture_output=True, check=False, timeout=120
        )

    dead_letters = json.loads(run("dlq", "list", "--json").stdout)
    assert {dead_letter["tenant"] for dead_letter in dead_letters} == {tenant.slug}
    viewer_result = run("dlq", "resolve", dead_letters[0]["job_id"][-12:], "--reason", "x")
    assert (viewer_result.returncode, "requires the operator role" in viewer_result.stderr) == (2, True)
    forged_result = run("dlq", "list", with_token=f"{token[:-8]}AAAAAAAA")
    assert (forged_result.returncode, "rejected the token" in forged_result.stderr) == (2, True)
    assert token[:20] not in viewer_result.stderr + forged_result.stderr


def test_user_signs_in_and_out(cloud: Cloud, tenant: Tenant, tmp_path: Path) -> None:
    person = make_person(cloud, f"{uuid4().hex}@example.com", ["viewer", f"tenant:{tenant.slug}"])
    variables = {"COUNTERFOIL_LOCAL", "COUNTERFOIL_URL", "COUNTERFOIL_TOKEN"}
    environment = {name: value for name, value in os.environ.items() if name not in variables}
    environment |= {"XDG_CONFIG_HOME": str(tmp_path)}
    run = partial(subprocess.run, env=environment, text=True, capture_output=True, check=False, timeout=120)

    arguments = [str(COMMAND), "login", "--no-browser", "--url", cloud.console_url]
    with subprocess.Popen(arguments, env=environment, text=True, stdin=PIPE, stdout=PIPE, stderr=PIPE) as login:
        assert login.stderr is not None
        address = httpx.URL(next(line.strip() for line in login.stderr if line.startswith("http")))
        form = {**address.params, "username": person.email, "password": person.password}
        page = httpx.post(address.join("/login"), data=form, follow_redirects=True, timeout=60)
        assert "You can close this page." in page.text
        output, _ = login.communicate(timeout=120)
    assert (login.returncode, output) == (0, f"Signed in to {cloud.api_url} as {person.email}.\n")

    list_result = run([str(COMMAND), "tenants", "list", "--json"])
    assert [item["slug"] for item in json.loads(list_result.stdout)] == [tenant.slug]
    assert "Deleted the login" in run([str(COMMAND), "logout"]).stdout


def dlq(command_line: CommandLine, *arguments: str) -> Any:
    """Run `counterfoil dlq ... --json`, and return its output."""
    return json.loads(command_line.run("dlq", *arguments, "--json").stdout)
