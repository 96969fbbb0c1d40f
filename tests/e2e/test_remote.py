"""Commands require only the deployment's address and a token.

They access neither PostgreSQL nor AWS.
"""

import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from tests.e2e.conftest import COMMAND, SEED, SignIn
from tests.e2e.polling import wait_until
from tests.functions.admin_api.permissions import PROFILE
from tools.sample_generator import generate

pytestmark = pytest.mark.e2e

Run = Callable[..., Any]
UNREACHABLE = ("psycopg", "boto3")
"""Modules that commands must not import."""
SECONDS = 300


@pytest.fixture
def run(cloud: Cloud, sign_in: SignIn, tmp_path: Path) -> Run:
    """`run(*arguments)` runs a command and returns its JSON output.

    The command has the cloud's address and a token.
    """
    missing_folder = tmp_path / "absent"
    missing_folder.mkdir()
    for name in UNREACHABLE:
        (missing_folder / f"{name}.py").write_text(f"raise ImportError('{name} is not available to commands')")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(missing_folder),
        "COUNTERFOIL_URL": cloud.api_url,
        "COUNTERFOIL_TOKEN": sign_in("admin", "tenant:*")["Authorization"].removeprefix("Bearer "),
    }

    def run(*arguments: str) -> Any:
        process = subprocess.run(
            [COMMAND, *arguments, "--json"],
            cwd=tmp_path,
            env=environment,
            text=True,
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    return run


@pytest.fixture
def case_folder(tmp_path: Path) -> Path:
    """A folder with all documents of one cluster."""
    files = [file for file in generate(SEED).files if file.truth.cluster is not None]
    first = next(file for file in files if file.truth.type == "invoice")
    folder = tmp_path / "case"
    folder.mkdir()
    for file in files:
        if (file.tenant, file.truth.cluster) == (first.tenant, first.truth.cluster):
            (folder / file.name).write_bytes(file.content)
    return folder


def test_tenant_is_set_up_and_documents_processed(run: Run, case_folder: Path) -> None:
    slug = f"t-{uuid4().hex[:12]}"
    added = run("tenants", "add", slug, "--address", f"in@{slug}.example", "--s3", "files=monthly/in")
    assert (added["is_new"], added["addresses"]) == (True, [f"in@{slug}.example"])
    assert [item["name"] for item in run("tenants", "destinations", "list", slug)] == ["files"]
    run("tenants", "tolerances", slug, "--set", "price", "--within", "3%")
    assert {item["key"] for item in run("tenants", "tolerances", slug) if item["upper_percent"] == "3"} == {"price"}

    uploaded = run("ingest", str(case_folder), "--tenant", slug, "--wait")
    assert len(uploaded) == len(list(case_folder.iterdir())) > 1
    assert {item["state"] for item in uploaded} == {"succeeded"}
    assert {item["id"] for item in run("documents", "--tenant", slug)} == {item["id"] for item in uploaded}
    (cluster,) = wait_until(lambda: run("clusters", "--tenant", slug, "--status", "all"))
    cluster_details = run("clusters", "show", cluster["id"][-8:])
    assert {item["id"] for item in cluster_details["documents"]} == {item["document_id"] for item in uploaded}
    assert run("review", "--tenant", slug) == []
    assert run("dlq", "list", "--tenant", slug) == []

    operation = run("reprocess", slug, "--stage", "match")
    assert run("operations", "show", operation["operation_id"])["tenant"] == slug
    erasure = run("documents", "delete", uploaded[0]["document_id"][-8:], "--reason", "A test")
    assert erasure["documents"] == [uploaded[0]["document_id"]]


def test_offers_for_an_earlier_date_are_queued(run: Run, cloud: Cloud, sign_in: SignIn, tenant: Tenant) -> None:
    """The schedule itself never queues a date three days in the past."""
    day = f"{datetime.now(UTC).date() - timedelta(days=3)}"
    url = f"{cloud.api_url}/api/users/{uuid4()}/profile"
    headers = {**sign_in("operator", f"tenant:{tenant.slug}"), "If-None-Match": "*"}
    httpx.put(
        url, json={**PROFILE, "timezone": "UTC"}, params={"tenant": tenant.slug}, headers=headers
    ).raise_for_status()

    queued = run("offers", "run", "--date", day, "--timezone", "UTC", "--tenant", tenant.slug)

    assert queued == {"date": day, "timezone": "UTC", "tenant": tenant.slug}
    (pool,) = wait_until(lambda: run("offers", "--tenant", tenant.slug)["pools"])
    assert (pool["date"], pool["timezone"], pool["user_count"]) == (day, "UTC", 1)
