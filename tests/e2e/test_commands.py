"""What people do about dead letters and queues on the command line goes over HTTP: here, and as in a deployment."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cli.cloud.cloud import Cloud
from cli.outcomes import Outcome, State
from cli.tenants import Tenant
from tests.e2e.conftest import COMMAND, CommandLine, SignIn
from tests.e2e.test_queues import mappings

pytestmark = pytest.mark.e2e


@pytest.fixture
def letters(ingest: Callable[..., list[Outcome]], tmp_path: Path) -> None:
    """Two letters of the tenant: files that nobody can read."""
    files = [tmp_path / f"{number}.pdf" for number in range(2)]
    for file in files:
        file.write_bytes(b"%PDF-1.4 " + uuid4().bytes)
    assert {outcome.state for outcome in ingest(files)} == {State.FAILED}


@pytest.mark.usefixtures("letters")
def test_letters_are_found_settled_and_taken_out(command_line: CommandLine, tenant: Tenant, tmp_path: Path) -> None:
    of_tenant = ("--tenant", tenant.slug)
    first, second = (letter["job_id"] for letter in told(command_line, "list", *of_tenant))
    (group,) = told(command_line, "groups", *of_tenant)
    assert group["count"] == 2

    settled = told(command_line, "resolve", first[-12:], "--reason", "It was sent again", "--by", "Kim Ö.")
    assert (settled["job_id"], settled["status"]) == (first, "resolved")
    assert "resolved already" in command_line.run("dlq", "resolve", first, "--reason", "x", code=2).stderr

    dry = told(command_line, "bulk-ignore", *of_tenant, "--group", group["fingerprint"][:12])
    assert [letter["job_id"] for letter in dry["sample"]] == [second]
    done = told(command_line, "bulk-ignore", second[-12:], "--reason", "A trial", "--yes")
    assert (done["state"], done["done"]) == ("done", 1)

    file = tmp_path / "letters.csv"
    assert told(command_line, "export", str(file), *of_tenant)["letters"] == 2
    assert first in file.read_text()
    purge = told(
        command_line, "purge", *of_tenant, "--before", "2999-01-01", "--status", "ignored", "--confirm", tenant.slug
    )
    assert (purge["hidden"], len(told(command_line, "list", *of_tenant))) == (1, 1)
    assert told(command_line, "purges", "undo", purge["purge_id"][-12:])["undone_by"] is not None

    people = command_line.run("dlq", "audit", *of_tenant).stdout
    assert "Kim Ö." in people
    actions = [entry["action"] for entry in told(command_line, "audit", *of_tenant)]
    assert {"resolved", "bulk-ignore", "exported"} <= set(actions)


def test_a_queue_is_paused_and_resumed(command_line: CommandLine, cloud: Cloud) -> None:
    command_line.run("queues", "pause", "tasks", "--reason", "A trial", "--by", "ann")
    try:
        assert mappings(cloud) == {"Disabled"}
        assert "by ann: A trial" in command_line.run("queues").stdout
    finally:
        command_line.run("queues", "resume", "tasks", "--reason", "It was a trial")
    assert mappings(cloud) == {"Enabled"}


@pytest.mark.usefixtures("letters")
def test_with_an_address_and_a_token_a_command_may_what_the_token_allows(
    cloud: Cloud, sign_in: SignIn, tenant: Tenant
) -> None:
    token = sign_in("viewer", f"tenant:{tenant.slug}")["Authorization"].removeprefix("Bearer ")

    def run(*words: str, with_token: str = token) -> "subprocess.CompletedProcess[str]":
        environment = {name: value for name, value in os.environ.items() if name != "COUNTERFOIL_LOCAL"}
        environment |= {"COUNTERFOIL_URL": cloud.api_url, "COUNTERFOIL_TOKEN": with_token}
        return subprocess.run(
            [str(COMMAND), *words], env=environment, text=True, capture_output=True, check=False, timeout=120
        )

    listed = json.loads(run("dlq", "list", "--json").stdout)
    assert {letter["tenant"] for letter in listed} == {tenant.slug}
    assert run("audit", "verify").stdout == f"{tenant.slug}: whole, 1 entry\n"
    refused = run("dlq", "resolve", listed[0]["job_id"][-12:], "--reason", "x")
    assert (refused.returncode, "takes the role operator" in refused.stderr) == (2, True)
    forged = run("dlq", "list", with_token=f"{token[:-8]}AAAAAAAA")
    assert (forged.returncode, "does not take the token" in forged.stderr) == (2, True)
    assert token[:20] not in refused.stderr + forged.stderr


def told(command_line: CommandLine, *words: str) -> Any:
    """What `counterfoil dlq ... --json` prints."""
    return json.loads(command_line.run("dlq", *words, "--json").stdout)
