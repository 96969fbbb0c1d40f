"""Helpers for tests of `/api/admin/dlq`."""

from collections.abc import Sequence
from uuid import UUID

from tests.functions.admin_api.conftest import ApiResponse, CallApi

PATH = "/api/admin/dlq"
VIEWER, ADMIN = "[viewer tenant:acme]", "[admin tenant:acme]"


def get(call_api: CallApi, path: str = "", *, groups: str = VIEWER, **query: str) -> ApiResponse:
    return call_api("", method="GET", path=f"{PATH}{path}", groups=groups, query=query)


def listed_ids(response: ApiResponse) -> list[str]:
    assert response.status == 200, response.body
    return [dead_letter["job_id"] for dead_letter in response.body["dead_letters"]]


def ids(job_ids: Sequence[UUID]) -> list[str]:
    return [str(job_id) for job_id in job_ids]
