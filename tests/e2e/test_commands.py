"""Commands for dead letters and queues over HTTP, locally and as in a deployment.

The commands are tested in tests/cli, with the API in the same process.
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
from tests.e2e.chaos import watched
from tests.e2e.conftest import COMMAND, CommandLine, SignIn
from tests.e2e.test_queues import mappings

pytestmark = pytest.mark.e2e


@pytest.fixture
def dead_letters(ingest: Callable[..., list[Upload]], tmp_path: Path) -> None:
    """Two unreadable files of the tenant, which become dead letters."""
    files = [tmp_path / f"{number}.pdf" for number in range(2)]
    for file in files:
        file.write_bytes(b"%PDF-1.4 " + uuid4().bytes)
    assert {outcome.state for outcome in ingest(files)} == {State.FAILED}


@pytest.mark.usefixtures("dead_letters")
def test_dead_letters_are_closed_and_exported(
    cloud: Cloud, command_line: CommandLine, tenant: Tenant, tmp_path: Path
) -> None:
    of_tenant = ("--tenant", tenant.slug)
    first, second = (dead_letter["job_id"] for dead_letter in dlq(command_line, "list", *of_tenant))

    closed = dlq(command_line, "resolve", first[-12:], "--reason", "It was sent again", "--by", "Kim Ö.")
    assert (closed["job_id"], closed["status"]) == (first, "resolved")

    with watched(cloud, worker="Bulk"):
        done = dlq(command_line, "bulk-ignore", second[-12:], "--reason", "A trial", "--yes")
    assert (done["state"], done["succeeded"]) == ("done", 1)

    file = tmp_path / "letters.csv"
    assert dlq(command_line, "export", str(file), *of_tenant)["dead_letters"] == 2
    assert first in file.read_text()
    shown = command_line.run("dlq", "audit", *of_tenant).stdout
    assert all(word in shown for word in ("Kim Ö.", "resolved", "bulk-ignore", "exported")), shown


def test_a_queue_is_paused_and_resumed(command_line: CommandLine, cloud: Cloud) -> None:
    command_line.run("queues", "pause", "tasks", "--reason", "A trial", "--by", "ann")
    try:
        assert mappings(cloud) == {"Disabled"}
    finally:
        command_line.run("queues", "resume", "tasks", "--reason", "It was a trial")
    assert mappings(cloud) == {"Enabled"}


@pytest.mark.usefixtures("dead_letters")
def test_token_limits_the_rights_of_a_command(cloud: Cloud, sign_in: SignIn, tenant: Tenant) -> None:
    token = sign_in("viewer", f"tenant:{tenant.slug}")["Authorization"].removeprefix("Bearer ")

    def run(*words: str, with_token: str = token) -> "subprocess.CompletedProcess[str]":
        environment = {name: value for name, value in os.environ.items() if name != "COUNTERFOIL_LOCAL"}
        environment |= {"COUNTERFOIL_URL": cloud.api_url, "COUNTERFOIL_TOKEN": with_token}
        return subprocess.run(
            [str(COMMAND), *words], env=environment, text=True, capture_output=True, check=False, timeout=120
        )

    listed = json.loads(run("dlq", "list", "--json").stdout)
    assert {dead_letter["tenant"] for dead_letter in listed} == {tenant.slug}
    refused = run("dlq", "resolve", listed[0]["job_id"][-12:], "--reason", "x")
    assert (refused.returncode, "requires the operator role" in refused.stderr) == (2, True)
    forged = run("dlq", "list", with_token=f"{token[:-8]}AAAAAAAA")
    assert (forged.returncode, "rejected the token" in forged.stderr) == (2, True)
    assert token[:20] not in refused.stderr + forged.stderr


def test_a_person_signs_in_and_out(cloud: Cloud, tenant: Tenant, tmp_path: Path) -> None:
    person = make_person(cloud, f"{uuid4().hex}@example.com", ["viewer", f"tenant:{tenant.slug}"])
    named = {"COUNTERFOIL_LOCAL", "COUNTERFOIL_URL", "COUNTERFOIL_TOKEN"}
    environment = {name: value for name, value in os.environ.items() if name not in named}
    environment |= {"XDG_CONFIG_HOME": str(tmp_path)}
    run = partial(subprocess.run, env=environment, text=True, capture_output=True, check=False, timeout=120)

    words = [str(COMMAND), "login", "--no-browser", "--url", cloud.console_url]
    with subprocess.Popen(words, env=environment, text=True, stdin=PIPE, stdout=PIPE, stderr=PIPE) as login:
        assert login.stderr is not None
        address = httpx.URL(next(line.strip() for line in login.stderr if line.startswith("http")))
        form = {**address.params, "username": person.email, "password": person.password}
        page = httpx.post(address.join("/login"), data=form, follow_redirects=True, timeout=60)
        assert "You can close this page." in page.text
        output, _ = login.communicate(timeout=120)
    assert (login.returncode, output) == (0, f"Signed in to {cloud.api_url} as {person.email}.\n")

    listed = run([str(COMMAND), "tenants", "list", "--json"])
    assert [item["slug"] for item in json.loads(listed.stdout)] == [tenant.slug]
    assert "Deleted the login" in run([str(COMMAND), "logout"]).stdout


def dlq(command_line: CommandLine, *words: str) -> Any:
    """Run `counterfoil dlq ... --json`, and return its output."""
    return json.loads(command_line.run("dlq", *words, "--json").stdout)
