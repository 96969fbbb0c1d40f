"""The API behind its gateway: uploads by form, and tasks with their results."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant
from cli.local.uploads import UploadedFile, wait_for
from counterfoil.documents.filetype import MAX_FILE_BYTES
from counterfoil.documents.upload_list import State
from tests.e2e.conftest import SignIn
from tests.e2e.polling import wait_until
from tools.demo.sample_run import Run

pytestmark = pytest.mark.e2e

TIMEOUT_SECONDS = 60
"""Timeout in seconds. The first request waits for a process to start on a busy machine."""


def post(url: str, **request: Any) -> httpx.Response:
    """Send a POST request with a long timeout."""
    return httpx.post(url, timeout=TIMEOUT_SECONDS, **request)


def test_file_posted_with_a_form_becomes_a_document(
    cloud: Cloud, sign_in: SignIn, tenant: Tenant, run: Run, tmp_path: Path
) -> None:
    file = next(file for file in run.sample.files if file.truth.type == "invoice" and file.truth.state == "succeeded")
    token = sign_in("operator", f"tenant:{tenant.slug}")
    form_request = {"tenant": tenant.slug, "file_name": "Rechnung Größe & Maß.xml"}

    form = post(f"{cloud.api_url}/api/uploads", json=form_request, headers=token)
    assert form.status_code == 201, form.text
    response = post(form.json()["url"], data=form.json()["fields"], files={"file": file.content})

    assert response.status_code == 204, response.text
    (outcome,) = wait_for(cloud, [UploadedFile(tmp_path, form.json()["key"])], 120)
    assert (outcome.state, outcome.file) == (State.SUCCEEDED, form_request["file_name"])


def test_upload_form_rejects_other_keys_and_larger_files(cloud: Cloud, sign_in: SignIn, tenant: Tenant) -> None:
    token = sign_in("operator", f"tenant:{tenant.slug}")
    form_request = {"tenant": tenant.slug, "file_name": "a.xml"}
    form = post(f"{cloud.api_url}/api/uploads", json=form_request, headers=token).json()

    other_key = post(form["url"], data=form["fields"] | {"key": "uploads/other/x/a.xml"}, files={"file": b"x"})
    empty_file = post(form["url"], data=form["fields"], files={"file": b""})
    too_large = post(form["url"], data=form["fields"], files={"file": bytes(MAX_FILE_BYTES + 1)})

    assert other_key.status_code == 403
    assert (empty_file.status_code, too_large.status_code) == (400, 400)


def test_upload_form_requires_token_and_role(cloud: Cloud, sign_in: SignIn, tenant: Tenant) -> None:
    form_request = {"tenant": tenant.slug, "file_name": "a.xml"}
    url = f"{cloud.api_url}/api/uploads"
    token = sign_in("operator", f"tenant:{tenant.slug}")["Authorization"]
    forged_token = token[:-8] + ("A" * 8)

    assert post(url, json=form_request).status_code == 401
    assert post(url, json=form_request, headers={"Authorization": forged_token}).status_code == 401
    assert post(url, json=form_request, headers=sign_in("operator", "tenant:other")).status_code == 403
    assert post(url, json=form_request, headers=sign_in("viewer", f"tenant:{tenant.slug}")).status_code == 403


def test_task_with_repeated_idempotency_key_runs_once(cloud: Cloud, sign_in: SignIn, tenant: Tenant) -> None:
    token = sign_in("operator", f"tenant:{tenant.slug}")
    url = f"{cloud.api_url}/api/tasks"
    body = {"task_type": "echo", "payload": {"text": "grüß", "much": "x" * 150_000}, "idempotency_key": uuid4().hex}

    first, repeated = (post(url, json=body, headers=token) for _ in range(2))

    assert (first.status_code, repeated.status_code) == (202, 200), (first.text, repeated.text)
    assert repeated.json()["job_id"] == first.json()["job_id"]

    def ended_task() -> Any:
        current = httpx.get(f"{url}/{first.json()['job_id']}", headers=token, timeout=TIMEOUT_SECONDS).json()
        return current if current["status"] not in {"pending", "in-progress"} else None

    task = wait_until(ended_task)
    assert (task["status"], task["result"]) == ("succeeded", body["payload"])
    assert [(attempt["attempt"], attempt["outcome"]) for attempt in task["timeline"]] == [(1, "succeeded")]
    assert post(url, json=body | {"payload": {}}, headers=token).status_code == 409
    assert post(f"{url}/{task['job_id']}/cancel", headers=token).status_code == 409
